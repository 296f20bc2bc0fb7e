/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - a run from beginning to end: session, signals, sink, progress, summary, exit code.
 *
 * Inputs and images are opened before the output is made, so that a misspelled name touches
 * nothing.
 */
#include "run.h"

#include "number.h"
#include "progress.h"
#include "signals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int cli_session_fill(struct ptm_session *session, const struct cli_opts *opts,
		     struct ptm_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < opts->ninputs && ret >= 0; i++)
		ret = ptm_session_add_input(session, opts->inputs[i], err);
	for (size_t i = 0; i < opts->nimages && ret >= 0; i++) {
		const struct cli_image *image = &opts->images[i];

		switch (image->kind) {
		case CLI_IMAGE_ELF:
			ret = ptm_session_add_elf(session, image->spec, err);
			break;
		case CLI_IMAGE_RAW:
			ret = ptm_session_add_raw(session, image->spec, err);
			break;
		case CLI_IMAGE_MAPS:
			ret = ptm_session_add_maps(session, image->spec, opts->sysroot, err);
			break;
		}
	}
	return ret;
}

/* The output takes the place of the file with its name when it is complete: that must not be an
 * input. */
static int check_output(const struct cli_opts *opts, struct ptm_error *err)
{
	struct stat out, in;

	if (opts->output == NULL || stat(opts->output, &out) < 0 || !S_ISREG(out.st_mode))
		return 0;
	for (size_t i = 0; i < opts->ninputs; i++) {
		if (stat(opts->inputs[i], &in) < 0 || in.st_dev != out.st_dev ||
		    in.st_ino != out.st_ino)
			continue;
		err->code = PTM_E_USAGE;
		err->ncauses = 1;
		err->cause[0].where = __func__;
		(void)snprintf(
			err->cause[0].text, sizeof(err->cause[0].text),
			"The output is one of the inputs: choose another name: path=\"%.160s\"",
			opts->output);
		return -PTM_E_USAGE;
	}
	return 0;
}

static int run_sink(const struct cli_job *job, struct ptm_session *session, struct cli_meter *meter,
		    struct ptm_run_stats *stats, struct ptm_error *err)
{
	struct ptm_run_options options = {.size = sizeof(options),
					  .progress = meter->is_on ? cli_meter_update : NULL,
					  .warn = cli_meter_warn,
					  .ctx = meter};
	struct ptm_sink *sink = job->make_sink(job->cmd, err);
	int ret;

	if (sink == NULL)
		return -(int)err->code;
	ret = ptm_session_run(session, sink, &options, stats, err);
	if (ret >= 0) {
		if (job->after != NULL)
			job->after(sink, stats);
		ret = ptm_sink_finish(sink, err);
	}
	ptm_sink_destroy(sink);
	cli_meter_clear(meter);
	return ret;
}

static void summarize(const struct cli_job *job, size_t streams, const struct ptm_run_stats *stats)
{
	double seconds = stats->seconds > 1e-9 ? stats->seconds : 1e-9;
	char bytes[16], rate[16], insns[96] = "", speed[48], overflows[48] = "";

	(void)cli_bytes(stats->bytes, bytes, sizeof(bytes));
	if (job->decodes) {
		(void)snprintf(insns, sizeof(insns),
			       ", %" PRIu64 " instruction%s, %" PRIu64 " gap%s", stats->insns,
			       stats->insns == 1 ? "" : "s", stats->gaps,
			       stats->gaps == 1 ? "" : "s");
		if (stats->overflows > 0)
			(void)snprintf(overflows, sizeof(overflows), ", %" PRIu64 " overflow%s",
				       stats->overflows, stats->overflows == 1 ? "" : "s");
		(void)snprintf(speed, sizeof(speed), "%.1f M instructions/s",
			       (double)stats->insns / seconds / 1e6);
	} else {
		(void)snprintf(
			speed, sizeof(speed), "%s/s",
			cli_bytes((uint64_t)((double)stats->bytes / seconds), rate, sizeof(rate)));
	}
	cli_say("%zu stream%s, %s%s%s, %.2f s (%s), %u worker%s", streams, streams == 1 ? "" : "s",
		bytes, insns, overflows, stats->seconds, speed, stats->workers,
		stats->workers == 1 ? "" : "s");
}

static int report(const struct cli_job *job, const struct ptm_error *err, int sig)
{
	const char *output = job->opts->output;

	if (err->code != PTM_E_CANCELED || sig == 0)
		return cli_fail(err);
	if (output == NULL)
		cli_say("Stopped by SIG%s: the output is not complete", sigabbrev_np(sig));
	else
		cli_say("Stopped by SIG%s: nothing was written: path=\"%s\"", sigabbrev_np(sig),
			output);
	return ptm_err_exit_code(err->code);
}

int cli_run(const struct cli_job *job)
{
	const struct cli_opts *opts = job->opts;
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_run_stats stats = {.workers = 0};
	struct ptm_session *session = ptm_session_create(&opts->config, &err);
	struct cli_signals *signals = NULL;
	struct cli_meter meter;
	size_t streams = 0;
	int ret = -PTM_E_SYSTEM;
	int sig;

	if (session == NULL)
		return cli_fail(&err);
	cli_meter_init(&meter, opts);
	signals = cli_signals_create(session, &err);
	if (signals == NULL)
		goto out;
	ret = check_output(opts, &err);
	if (ret < 0)
		goto out;
	ret = cli_session_fill(session, opts, &err);
	if (ret < 0)
		goto out;
	ret = run_sink(job, session, &meter, &stats, &err);
	streams = ptm_session_streams(session);
out:
	sig = cli_signals_destroy(signals);
	ptm_session_destroy(session);
	if (ret < 0)
		return report(job, &err, sig);
	if (!opts->quiet)
		summarize(job, streams, &stats);
	return opts->strict && stats.gaps + stats.overflows > 0 ? CLI_EXIT_GAPS : 0;
}
