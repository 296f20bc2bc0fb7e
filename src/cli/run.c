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
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A capture may have more streams than a process has files by default (1024). */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int cli_session_fill(struct ptm_session *session, const struct cli_opts *opts,
		     struct ptm_error *err)
{
	int ret = 0;

	raise_fd_limit();
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

static bool is_stdin(const struct cli_opts *opts, const struct stat *st)
{
	struct stat in;

	for (size_t i = 0; i < opts->ninputs; i++)
		if (strcmp(opts->inputs[i], "-") == 0 && fstat(STDIN_FILENO, &in) == 0 &&
		    in.st_dev == st->st_dev && in.st_ino == st->st_ino)
			return true;
	return false;
}

/* The output takes the place of the file with its name when it is complete: that must not be one
 * that the session reads. */
static int check_output(const struct ptm_session *session, const struct cli_opts *opts,
			struct ptm_error *err)
{
	const char *output = opts->output;
	struct stat st;

	/* A device or FIFO is written to, not replaced. */
	if (output == NULL || stat(output, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (!ptm_session_reads(session, output) && !is_stdin(opts, &st)))
		return 0;
	err->code = PTM_E_USAGE;
	err->ncauses = 1;
	err->cause[0].where = __func__;
	(void)snprintf(err->cause[0].text, sizeof(err->cause[0].text),
		       "The output is one of the inputs: choose another name: path=\"%.160s\"",
		       output);
	return -PTM_E_USAGE;
}

static int check_images(struct ptm_session *session, struct ptm_error *err)
{
	const int sealed = ptm_session_seal(session, err);

	if (sealed < 0)
		return sealed;
	for (size_t i = 0; i < ptm_session_streams(session); i++) {
		const struct ptm_stream_info stream = ptm_session_stream(session, i);

		if (ptm_session_images(session) > 0 || (stream.seekable && stream.bytes == 0))
			continue;
		err->code = PTM_E_NOMAP;
		err->ncauses = 1;
		err->cause[0].where = __func__;
		(void)snprintf(err->cause[0].text, sizeof(err->cause[0].text),
			       "%.120s: no images are given, so that nothing can be compared: name "
			       "them by --elf, --raw or --maps",
			       stream.name);
		return -PTM_E_NOMAP;
	}
	return 0;
}

static int run_sink(const struct cli_job *job, struct ptm_session *session, struct cli_meter *meter,
		    struct ptm_run_stats *stats, int *code, struct ptm_error *err)
{
	struct ptm_run_options options = {.size = sizeof(options),
					  .progress = meter->is_on ? cli_meter_update : NULL,
					  .warn = cli_meter_warn,
					  .ctx = meter};
	struct ptm_sink *sink = job->make_sink(job->cmd, session, err);
	int ret;

	if (sink == NULL)
		return -(int)err->code;
	ret = ptm_session_run(session, sink, &options, stats, err);
	if (ret >= 0) {
		if (job->after != NULL)
			*code = job->after(job->cmd, sink, stats);
		ret = ptm_sink_finish(sink, err);
	}
	ptm_sink_destroy(sink);
	cli_meter_clear(meter);
	return ret;
}

static void summarize(const struct cli_job *job, size_t streams, const struct ptm_run_stats *stats)
{
	double seconds = stats->seconds > 1e-9 ? stats->seconds : 1e-9;
	char bytes[16], rate[16], insns[128] = "", speed[48], overflows[48] = "", resynced[48] = "";

	(void)cli_bytes(stats->bytes, bytes, sizeof(bytes));
	if (job->decodes) {
		if (stats->resynced > 0)
			(void)snprintf(resynced, sizeof(resynced), " and %" PRIu64 " resynced",
				       stats->resynced);
		(void)snprintf(insns, sizeof(insns),
			       ", %" PRIu64 " instruction%s%s, %" PRIu64 " gap%s", stats->insns,
			       stats->insns == 1 ? "" : "s", resynced, stats->gaps,
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

/* Did whoever read standard output close it, as head(1) does?  He knows, and wants to hear nothing
 * about it. */
static bool is_unread(const struct cli_opts *opts, const struct ptm_error *err)
{
	struct pollfd fd = {.fd = STDOUT_FILENO};

	return err->code == PTM_E_IO && (opts->output == NULL || strcmp(opts->output, "-") == 0) &&
	       poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLHUP)) != 0;
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
	int ret = -PTM_E_SYSTEM, code = 0;
	int sig;

	if (session == NULL)
		return cli_fail(&err);
	cli_meter_init(&meter, opts);
	signals = cli_signals_create(session, opts->output, &err);
	if (signals == NULL)
		goto out;
	ret = cli_session_fill(session, opts, &err);
	if (ret >= 0)
		ret = check_output(session, opts, &err);
	if (ret >= 0 && job->needs_images)
		ret = check_images(session, &err);
	if (ret < 0)
		goto out;
	cli_signals_arm(signals);
	ret = run_sink(job, session, &meter, &stats, &code, &err);
	streams = ptm_session_streams(session);
out:
	sig = cli_signals_destroy(signals);
	ptm_session_destroy(session);
	if (ret < 0 && sig != 0 && err.code == PTM_E_CANCELED)
		return cli_stopped(sig, opts->output);
	if (ret < 0)
		return is_unread(opts, &err) ? CLI_EXIT_IO : cli_fail(&err);
	if (!opts->quiet)
		summarize(job, streams, &stats);
	/* A warning has said it. */
	if (streams > 0 && stats.unsynced == streams)
		return ptm_err_exit_code(PTM_E_FORMAT);
	if (code != 0)
		return code;
	return opts->strict && stats.gaps + stats.overflows > 0 ? CLI_EXIT_GAPS : 0;
}

/* The input of argp. */
struct parsing {
	const struct cli_decoding *decoding;
	struct cli_opts *opts;
	void *cmd;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsing *p = state->input;

	if (key != ARGP_KEY_INIT)
		return p->decoding->parse(key, arg, state, p->cmd);
	cli_opts_init(state, p->opts, 4);
	return 0;
}

int cli_run_decoding(const struct cli_decoding *decoding, int argc, char **argv,
		     struct cli_opts *opts, void *cmd)
{
	static const struct argp_child children[] = {{&cli_input_argp, 0, NULL, 0},
						     {&cli_decode_argp, 0, NULL, 0},
						     {&cli_run_argp, 0, NULL, 0},
						     {&cli_engine_argp, 0, NULL, 0},
						     {0}};
	const struct argp argp = {decoding->options, parse, "INPUT...", decoding->doc,
				  children,          NULL,  NULL};
	struct parsing parsing = {decoding, opts, cmd};
	struct cli_job job = decoding->job;
	int ret = cli_parse(&argp, argc, argv, 0, &parsing);

	job.opts = opts;
	job.cmd = cmd;
	job.decodes = true;
	if (ret == 0)
		ret = cli_run(&job);
	cli_opts_fini(opts);
	return ret;
}
