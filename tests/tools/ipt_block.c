/* SPDX-License-Identifier: Apache-2.0
 *
 * ipt_block.c - how many instructions libipt sees in a raw trace, and which: a plain loop over one
 * of its two decoders, with nothing of ours in between.
 *
 *   ipt_block block|insn TRACE [FILE:OFFSET:SIZE:ADDRESS...]
 *
 * Each section is SIZE bytes of FILE from OFFSET on, mapped at ADDRESS; numbers as strtoull() takes
 * them.  A later section hides what it overlaps of an earlier one.  Prints `instructions N`; with
 * `insn` also `digest D`, computed here from its definition in the documentation.  The first error
 * of libipt ends the run with code 1, for the traces that this is for have none; an overflow is
 * none.  What libipt walks behind the last packet counts: such a trace ends with tracing off.
 */
#include <intel-pt.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sections stay mapped, or each change of the library would cost libipt what it knows of the code.
 */
#define CACHE_BYTES (UINT64_C(1) << 30)

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	long end = -1;

	if (f != NULL && fseek(f, 0, SEEK_END) == 0)
		end = ftell(f);
	if (end > 0 && fseek(f, 0, SEEK_SET) == 0)
		data = malloc((size_t)end);
	if (data != NULL)
		*size = fread(data, 1, (size_t)end, f);
	if (f != NULL)
		(void)fclose(f);
	return data;
}

/* Cut the last number, behind a colon, off @text. */
static uint64_t cut_number(char *text)
{
	char *colon = strrchr(text, ':');
	uint64_t value;

	if (colon == NULL) {
		(void)fprintf(stderr, "ipt_block: a section is FILE:OFFSET:SIZE:ADDRESS: %s\n",
			      text);
		exit(64);
	}
	value = strtoull(colon + 1, NULL, 0);
	*colon = '\0';
	return value;
}

static int add_section(struct pt_image *image, struct pt_image_section_cache *cache, char *text)
{
	uint64_t address = cut_number(text);
	uint64_t size = cut_number(text);
	uint64_t offset = cut_number(text);
	int status = pt_iscache_add_file(cache, text, offset, size, address);

	if (status > 0)
		status = pt_image_add_cached(image, cache, status, NULL);
	if (status < 0)
		(void)fprintf(stderr, "ipt_block: %s: %s\n", text, pt_errstr(pt_errcode(status)));
	return status;
}

struct totals {
	uint64_t instructions, digest, offset;
};

static int walk_blocks(struct pt_block_decoder *decoder, struct totals *t)
{
	struct pt_event event;
	int status = pt_blk_sync_forward(decoder);

	while (status >= 0) {
		struct pt_block block;

		while (status >= 0 && (status & pts_event_pending) != 0)
			status = pt_blk_event(decoder, &event, sizeof(event));
		if (status < 0 || (status & pts_eos) != 0)
			break;
		memset(&block, 0, sizeof(block));
		status = pt_blk_next(decoder, &block, sizeof(block));
		t->instructions += block.ninsn;
	}
	(void)pt_blk_get_offset(decoder, &t->offset);
	return status;
}

static int walk_insns(struct pt_insn_decoder *decoder, struct totals *t)
{
	struct pt_event event;
	int status = pt_insn_sync_forward(decoder);

	while (status >= 0) {
		struct pt_insn insn;
		uint64_t x;

		while (status >= 0 && (status & pts_event_pending) != 0)
			status = pt_insn_event(decoder, &event, sizeof(event));
		if (status < 0 || (status & pts_eos) != 0)
			break;
		insn.ip = 0;
		status = pt_insn_next(decoder, &insn, sizeof(insn));
		if (status < 0)
			break;
		x = insn.ip * UINT64_C(0xc2b2ae3d27d4eb4f);
		t->digest = t->digest * UINT64_C(0x9e3779b97f4a7c15) + (x ^ x >> 32);
		t->instructions++;
	}
	(void)pt_insn_get_offset(decoder, &t->offset);
	return status;
}

static int decode_blocks(const struct pt_config *config, struct pt_image *image, struct totals *t)
{
	struct pt_block_decoder *decoder = pt_blk_alloc_decoder(config);
	int status = decoder != NULL ? pt_blk_set_image(decoder, image) : -pte_nomem;

	if (status >= 0)
		status = walk_blocks(decoder, t);
	pt_blk_free_decoder(decoder);
	return status;
}

static int decode_insns(const struct pt_config *config, struct pt_image *image, struct totals *t)
{
	struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(config);
	int status = decoder != NULL ? pt_insn_set_image(decoder, image) : -pte_nomem;

	if (status >= 0)
		status = walk_insns(decoder, t);
	pt_insn_free_decoder(decoder);
	return status;
}

int main(int argc, char **argv)
{
	const int blocks = argc >= 3 && strcmp(argv[1], "block") == 0;
	struct totals totals = {0, 0, 0};
	struct pt_config config;
	struct pt_image_section_cache *cache;
	struct pt_image *image;
	size_t size = 0;
	uint8_t *trace;
	int status;

	if (argc < 3 || (!blocks && strcmp(argv[1], "insn") != 0)) {
		(void)fprintf(stderr, "usage: ipt_block block|insn TRACE [SECTION...]\n");
		return 64;
	}
	trace = read_file(argv[2], &size);
	image = pt_image_alloc("ipt_block");
	cache = pt_iscache_alloc("ipt_block");
	if (trace == NULL || image == NULL || cache == NULL) {
		(void)fprintf(stderr, "ipt_block: cannot read %s\n", argv[2]);
		return 66;
	}
	(void)pt_iscache_set_limit(cache, CACHE_BYTES);
	for (int i = 3; i < argc; i++)
		if (add_section(image, cache, argv[i]) < 0)
			return 66;
	pt_config_init(&config);
	config.begin = trace;
	config.end = trace + size;
	status = blocks ? decode_blocks(&config, image, &totals)
			: decode_insns(&config, image, &totals);
	pt_image_free(image);
	pt_iscache_free(cache);
	free(trace);
	printf("instructions %" PRIu64 "\n", totals.instructions);
	if (!blocks)
		printf("digest 0x%016" PRIx64 "\n", totals.digest);
	if (status < 0 && status != -pte_eos) {
		(void)fprintf(stderr, "ipt_block: %s: at 0x%" PRIx64 ": %s\n", argv[2],
			      totals.offset, pt_errstr(pt_errcode(status)));
		return 1;
	}
	return 0;
}
