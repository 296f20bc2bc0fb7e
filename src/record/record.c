/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - ptm_record(): checks the configuration, joins back end, encoder and capture.
 */
#include "ptmill/record.h"

#include "record/capture.h"
#include "record/feed.h"
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
	if (own->backend != PTM_RECORD_AUTO && own->backend != PTM_RECORD_STEP)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record: no such back end");
	if ((unsigned)own->ret_comp > PTM_RET_COMP_OFF || (unsigned)own->timing > PTM_TIMING_CYC ||
	    (unsigned)own->tips > PTM_TIPS_MIXED)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Cannot record: an option has a value that does not exist");
	if (own->psb_period < PSB_PERIOD_MIN)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Cannot record with a PSB every %llu bytes: at least %d are needed",
				(unsigned long long)own->psb_period, PSB_PERIOD_MIN);
	if (own->mtc_freq > MTC_FREQ_MAX)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record with MTC frequency %u: at most %d",
				own->mtc_freq, MTC_FREQ_MAX);
	return 0;
}

static void fill_result(struct ptm_record_result *result, const struct ptm_feed *feed,
			int exit_code, double seconds)
{
	struct ptm_record_result r = {
		.size = result->size,
		.instructions = feed->digest.n,
		.digest = feed->digest.b,
		.trace_bytes = ptm_enc_offset(feed->enc),
		.psbs = feed->psbs,
		.gaps = feed->gaps,
		.lost = feed->lost,
		.seconds = seconds,
		.exit_code = exit_code,
	};

	memcpy(result, &r, result->size < sizeof(r) ? result->size : sizeof(r));
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

PTM_API int ptm_record(const struct ptm_record_config *config, char *const argv[],
		       const char *out_dir, struct ptm_record_result *result, struct ptm_error *err)
{
	struct recording rec = {0};
	const struct ptm_flow_sink sink = {&rec, on_event, on_mappings, on_losing, on_leaving};
	struct ptm_record_config own;
	struct ptm_error ignored;
	double begin = now();
	int ret, exit_code = 0;

	/* Those below always have a record to write to. */
	err = err != NULL ? err : &ignored;
	*err = (struct ptm_error){0};
	PTM_TRY(take_config(&own, config, err));
	if (argv == NULL || argv[0] == NULL)
		return PTM_FAIL(err, PTM_E_USAGE, "Cannot record: no program given");
	rec.cap = ptm_capture_create(out_dir, &own, err);
	if (rec.cap == NULL)
		return -(int)err->code;
	ret = ptm_feed_init(&rec.feed, &own, ptm_capture_write, rec.cap);
	if (ret == 0) {
		ret = ptm_step_run(argv, &sink, own.pass_on, &exit_code, err);
		if (ret == 0)
			ret = ptm_feed_finish(&rec.feed);
		if (ret == 0)
			ret = ptm_capture_commit(rec.cap, &rec.feed);
		if (ret == 0 && result != NULL)
			fill_result(result, &rec.feed, exit_code, now() - begin);
		ptm_feed_fini(&rec.feed);
	}
	if (ret < 0 && err->code == PTM_E_OK)
		ret = PTM_FAIL(err, (enum ptm_err) - ret, "Cannot record \"%s\": %s", argv[0],
			       ptm_err_name((enum ptm_err) - ret));
	ptm_capture_destroy(rec.cap);
	return ret < 0 ? -(int)err->code : 0;
}
