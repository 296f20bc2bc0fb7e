/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - ptm_record(): checks the configuration, joins back end, encoder and capture.
 */
#include "ptmill/record.h"

#include "record/capture.h"
#include "record/feed.h"
#include "record/perf.h"
#include "record/program.h"
#include "record/qemu.h"
#include "record/step.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#define PSB_PERIOD_MIN 64
#define MTC_FREQ_MAX   15

PTM_API void ptm_record_config_init(struct ptm_record_config *config)
{
	*config = (struct ptm_record_config){
		.size = sizeof(*config),
		.mtc_freq = 3,
		.psb_period = 128 << 10,
		.seed = 1,
	};
}

/* @config as this version knows it: what an older caller does not have takes its default. */
static int take_config(struct ptm_record_config *own, const struct ptm_record_config *config,
		       struct ptm_error *err)
{
	ptm_record_config_init(own);
	if (config->size < offsetof(struct ptm_record_config, backend))
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record: the configuration has no size");
	memcpy(own, config, config->size < sizeof(*own) ? config->size : sizeof(*own));
	if ((unsigned)own->backend > PTM_RECORD_PERF)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record: no such back end");
	if ((unsigned)own->ret_comp > PTM_RET_COMP_OFF || (unsigned)own->timing > PTM_TIMING_CYC ||
	    (unsigned)own->tips > PTM_TIPS_MIXED || (unsigned)own->ptwrite > PTM_PTWRITE_FUP)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Cannot record: an option has a value that does not exist");
	if (own->psb_period < PSB_PERIOD_MIN)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Cannot record with a PSB every %llu bytes: at least %d are needed",
				(unsigned long long)own->psb_period, PSB_PERIOD_MIN);
	if (own->mtc_freq > MTC_FREQ_MAX)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record with MTC frequency %u: at most %d",
				own->mtc_freq, MTC_FREQ_MAX);
	if (own->backend == PTM_RECORD_QEMU && own->ptwrite != PTM_PTWRITE_OFF)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Cannot record PTWRITE under QEMU, which does not know it: use the "
				"back end step");
	return 0;
}

static void fill_result(struct ptm_record_result *result, const struct ptm_record_result *r)
{
	size_t size = result->size;

	memcpy(result, r, size < sizeof(*r) ? size : sizeof(*r));
	result->size = size;
}

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The back end's reports, shared out. */
struct recording {
	struct ptm_feed feed;
	struct ptm_capture *cap;
};

static int on_event(void *ctx, const struct ptm_flow_event *ev)
{
	return ptm_feed_event(&((struct recording *)ctx)->feed, ev);
}

static int on_code(void *ctx, uint64_t address, const uint8_t *bytes, size_t len)
{
	return ptm_capture_code(((struct recording *)ctx)->cap, address, bytes, len);
}

static int on_mappings(void *ctx, pid_t pid)
{
	return ptm_capture_mappings(((struct recording *)ctx)->cap, pid);
}

static int on_losing(void *ctx, pid_t pid, uint64_t begin, uint64_t end)
{
	return ptm_capture_losing(((struct recording *)ctx)->cap, pid, begin, end);
}

static int on_leaving(void *ctx, pid_t pid)
{
	return ptm_capture_leaving(((struct recording *)ctx)->cap, pid);
}

static int record_steps(const struct ptm_record_config *config, const char *path,
			char *const argv[], struct ptm_capture *cap,
			struct ptm_record_result *result, struct ptm_error *err)
{
	struct recording rec = {.cap = cap};
	const struct ptm_flow_sink sink = {&rec,        on_event,  on_code,
					   on_mappings, on_losing, on_leaving};
	struct ptm_cap_stream *stream = ptm_capture_stream(cap, 1, &rec.feed);
	int ret;

	if (stream == NULL)
		return -(int)err->code;
	PTM_TRY(ptm_feed_init(&rec.feed, config, ptm_capture_write, stream, 0));
	ret = ptm_step_run(path, argv, config, &sink, &result->exit_code, err);
	if (ret == 0)
		ret = ptm_feed_finish(&rec.feed);
	if (ret == 0)
		ret = ptm_capture_close(stream);
	if (ret == 0)
		ret = ptm_capture_commit(cap);
	result->instructions = rec.feed.digest.n;
	result->digest = rec.feed.digest.b;
	result->trace_bytes = ptm_enc_offset(rec.feed.enc);
	result->psbs = rec.feed.psbs;
	result->gaps = rec.feed.gaps;
	result->lost = rec.feed.lost;
	ptm_feed_fini(&rec.feed);
	return ret;
}

static int record_qemu(const struct ptm_record_config *config, const struct ptm_program *program,
		       char *const argv[], struct ptm_capture *cap,
		       struct ptm_record_result *result, struct ptm_error *err)
{
	struct ptm_qemu_result r;
	struct ptm_qemu *qemu = ptm_qemu_run(config, program, argv, cap, &r, err);
	int ret;

	if (qemu == NULL)
		return -(int)err->code;
	ret = ptm_capture_commit(cap);
	result->exit_code = r.exit_code;
	result->instructions = r.instructions;
	result->digest = r.digest;
	result->trace_bytes = r.trace_bytes;
	result->psbs = r.psbs;
	result->gaps = r.gaps;
	result->lost = r.lost;
	ptm_qemu_destroy(qemu);
	return ret;
}

static int record_perf(const struct ptm_record_config *config, char *const argv[],
		       struct ptm_capture *cap, struct ptm_record_result *result,
		       struct ptm_error *err)
{
	PTM_TRY(ptm_perf_run(config, argv, cap, &result->exit_code, &result->trace_bytes, err));
	return ptm_capture_commit(cap);
}

static int record(const struct ptm_record_config *config, char *const argv[],
		  struct ptm_capture *cap, struct ptm_record_result *result, struct ptm_error *err)
{
	struct ptm_program program;
	int ret = ptm_program_resolve(&program, argv[0], err);

	if (ret == 0 && config->backend == PTM_RECORD_QEMU)
		ret = record_qemu(config, &program, argv, cap, result, err);
	else if (ret == 0 && config->backend == PTM_RECORD_PERF)
		ret = record_perf(config, argv, cap, result, err);
	else if (ret == 0)
		ret = record_steps(config, program.found, argv, cap, result, err);
	ptm_program_fini(&program);
	return ret;
}

/* The best back end that works here. */
static void choose(struct ptm_record_config *config)
{
	if (config->backend != PTM_RECORD_AUTO)
		return;
	if (ptm_perf_is_there())
		config->backend = PTM_RECORD_PERF;
	else if (config->ptwrite == PTM_PTWRITE_OFF && ptm_qemu_is_there())
		config->backend = PTM_RECORD_QEMU;
	else
		config->backend = PTM_RECORD_STEP;
	if (config->backend == PTM_RECORD_STEP && config->warn != NULL)
		config->warn(config->warn_ctx,
			     config->ptwrite == PTM_PTWRITE_OFF
				     ? "qemu-user is not installed: the program is "
				       "single-stepped, which is slow"
				     : "QEMU does not know PTWRITE: the program is "
				       "single-stepped, which is slow");
}

PTM_API int ptm_record(const struct ptm_record_config *config, char *const argv[],
		       const char *out_dir, struct ptm_record_result *result, struct ptm_error *err)
{
	struct ptm_record_result r = {0};
	struct ptm_record_config own;
	struct ptm_error ignored;
	struct ptm_capture *cap;
	double begin = now();
	int ret;

	/* Those below always have a record to write to. */
	err = err != NULL ? err : &ignored;
	*err = (struct ptm_error){0};
	PTM_TRY(take_config(&own, config, err));
	if (argv == NULL || argv[0] == NULL)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record: no program given");
	choose(&own);
	cap = ptm_capture_create(out_dir, &own, err);
	if (cap == NULL)
		return -(int)err->code;
	r.backend = own.backend;
	ret = record(&own, argv, cap, &r, err);
	r.seconds = now() - begin;
	r.replaced = ptm_capture_doubts(cap)->replaced;
	r.ambiguous = ptm_capture_doubts(cap)->ambiguous;
	if (ret == 0 && result != NULL)
		fill_result(result, &r);
	if (ret < 0 && err->code == PTM_E_OK)
		ret = PTM_FAIL(err, (enum ptm_err) - ret, "Cannot record \"%s\": %s", argv[0],
			       ptm_err_name((enum ptm_err) - ret));
	if (ret < 0)
		ptm_capture_name_it(cap, err);
	ptm_capture_destroy(cap);
	return ret < 0 ? -(int)err->code : 0;
}
