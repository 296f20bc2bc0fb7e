/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_verify.c - ptmill verify: is what was decoded what was executed?
 */
#include "run.h"

enum { KEY_TRUTH = CLI_KEY_OWN };

struct verify {
	struct cli_opts opts;
	const char *truth;
};

static const struct argp_option options[] = {
	{"truth", KEY_TRUTH, "FILE", 0,
	 "Compare with FILE, as a recorder wrote it (default: what the capture names)", 0},
	{0}};

static const struct argp_child children[] = {{&cli_input_argp, 0, NULL, 0},
					     {&cli_decode_argp, 0, NULL, 0},
					     {&cli_run_argp, 0, NULL, 0},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct verify *cmd = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		cli_opts_init(state, &cmd->opts, 3);
		return 0;
	case KEY_TRUTH:
		cmd->truth = arg;
		return 0;
	case ARGP_KEY_END:
		if (cmd->truth != NULL && cmd->opts.ninputs > 1)
			return cli_usage(state, "--truth is of one stream: name one INPUT");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"INPUT...",
	"Decode traces and compare them with what was executed: the number of "
	"instructions and their digest, at the end and at every place that the "
	"recorder noted.\v"
	"Exits with 1 if a stream differs; the report says between which two "
	"places.\n\n" CLI_INPUT_HELP,
	children,
	NULL,
	NULL};

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct verify *cmd = arg;

	return ptm_sink_verify_create(session, cmd->truth, cmd->opts.output, err);
}

static int count_wrong(void *arg, struct ptm_sink *sink, const struct ptm_run_stats *stats)
{
	(void)arg;
	(void)stats;
	return ptm_sink_verify_wrong(sink) > 0 ? CLI_EXIT_DIFFERS : 0;
}

static int run(int argc, char **argv)
{
	struct verify cmd = {.truth = NULL};
	struct cli_job job = {.opts = &cmd.opts,
			      .cmd = &cmd,
			      .make_sink = make_sink,
			      .after = count_wrong,
			      .decodes = true};
	int ret = cli_parse(&argp, argc, argv, 0, &cmd);

	if (ret == 0)
		ret = cli_run(&job);
	cli_opts_fini(&cmd.opts);
	return ret;
}

const struct cli_command cli_verify = {"verify", "compare with what was executed", run};
