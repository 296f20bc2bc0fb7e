/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_count.c - plain loops over libipt's instruction decoder and block decoder.
 *
 * The files of the images stay mapped in libipt's section cache, and with them the block decoder's
 * caches of blocks, from segment to segment.
 */
#include "flow/ipt_count.h"

#include "flow/ipt_image.h"
#include "os/thread.h"

#include <intel-pt.h>
#include <stdlib.h>
#include <string.h>

/* Between two looks at whether the run was canceled. */
#define LOOK_EVERY 65536u

struct ptm_ipt_counter {
	struct ptm_ipt_images images;
	bool blocks;
};

struct walk {
	const struct ptm_segment *seg;
	struct ptm_ipt_count *count;
	unsigned until_look;
	bool canceled;
};

struct ptm_ipt_counter *ptm_ipt_counter_create(bool blocks)
{
	struct ptm_ipt_counter *counter = (struct ptm_ipt_counter *)calloc(1, sizeof(*counter));

	if (counter != NULL)
		counter->blocks = blocks;
	return counter;
}

void ptm_ipt_counter_destroy(struct ptm_ipt_counter *counter)
{
	if (counter == NULL)
		return;
	ptm_ipt_images_fini(&counter->images);
	free(counter);
}

static bool is_canceled(struct walk *w)
{
	if (w->until_look-- > 0)
		return false;
	w->until_look = LOOK_EVERY;
	w->canceled = w->seg->cancel != NULL &&
		      atomic_load_explicit(w->seg->cancel, memory_order_relaxed);
	return w->canceled;
}

/* From one PSB to an error, or to the end.  Returns libipt's status. */
static int walk_blocks(struct walk *w, struct pt_block_decoder *decoder)
{
	int status = pt_blk_sync_forward(decoder);

	while (status >= 0 && !is_canceled(w)) {
		struct pt_event event;
		struct pt_block block;

		while (status >= 0 && (status & pts_event_pending) != 0)
			status = pt_blk_event(decoder, &event, sizeof(event));
		if (status < 0 || (status & pts_eos) != 0)
			break;
		block.ninsn = 0;
		status = pt_blk_next(decoder, &block, sizeof(block));
		w->count->insns += block.ninsn;
	}
	return status;
}

static int walk_insns(struct walk *w, struct pt_insn_decoder *decoder)
{
	int status = pt_insn_sync_forward(decoder);

	while (status >= 0 && !is_canceled(w)) {
		struct pt_event event;
		struct pt_insn insn;

		while (status >= 0 && (status & pts_event_pending) != 0)
			status = pt_insn_event(decoder, &event, sizeof(event));
		if (status < 0 || (status & pts_eos) != 0)
			break;
		status = pt_insn_next(decoder, &insn, sizeof(insn));
		if (status < 0)
			break;
		w->count->digest = w->count->digest * PTM_DIGEST_K + ptm_digest_mix(insn.ip);
		w->count->insns++;
	}
	return status;
}

/* Both end with -pte_eos when a sync finds no further PSB; every other error is one. */
static bool goes_on(struct walk *w, int status)
{
	if (status >= 0 || status == -pte_eos || w->canceled)
		return false;
	w->count->errors++;
	return true;
}

static int count_blocks(struct walk *w, const struct pt_config *config, struct pt_image *image)
{
	struct pt_block_decoder *decoder = pt_blk_alloc_decoder(config);
	int status = decoder != NULL ? pt_blk_set_image(decoder, image) : -pte_nomem;

	if (status >= 0)
		do
			status = walk_blocks(w, decoder);
		while (goes_on(w, status));
	pt_blk_free_decoder(decoder);
	return status;
}

static int count_insns(struct walk *w, const struct pt_config *config, struct pt_image *image)
{
	struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(config);
	int status = decoder != NULL ? pt_insn_set_image(decoder, image) : -pte_nomem;

	if (status >= 0)
		do
			status = walk_insns(w, decoder);
		while (goes_on(w, status));
	pt_insn_free_decoder(decoder);
	return status;
}

int ptm_ipt_count(struct ptm_ipt_counter *counter, const struct ptm_segment *seg,
		  struct ptm_ipt_count *count, struct ptm_error *err)
{
	const double begin = ptm_thread_cpu_seconds();
	const struct ptm_cpu *cpu = &seg->stream->cpu;
	struct pt_image *image = ptm_ipt_image_get(&counter->images, seg->stream->images.first);
	struct walk w = {.seg = seg, .count = count};
	struct pt_config config;
	int status;

	memset(count, 0, sizeof(*count));
	if (seg->len == 0)
		return 0;
	pt_config_init(&config);
	if (cpu->known) {
		config.cpu.vendor = pcv_intel;
		config.cpu.family = cpu->family;
		config.cpu.model = cpu->model;
		config.cpu.stepping = cpu->stepping;
		(void)pt_cpu_errata(&config.errata, &config.cpu);
	}
	/* libipt only reads; its interface predates const. */
	config.begin = (uint8_t *)(uintptr_t)seg->data;
	config.end = config.begin + seg->len;
	status = image == NULL     ? -pte_nomem
		 : counter->blocks ? count_blocks(&w, &config, image)
				   : count_insns(&w, &config, image);
	count->cpu_seconds = ptm_thread_cpu_seconds() - begin;
	if (w.canceled)
		return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
	if (status == -pte_nomem)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory in libipt");
	return 0;
}
