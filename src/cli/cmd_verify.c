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

static error_t parse(int key, char *arg, struct argp_state *state, void *input)
{
	struct verify *cmd = input;

	switch (key) {
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

static const struct cli_decoding decoding = {
	.options = options,
	.parse = parse,
	.doc = "Decode traces and compare them with what was executed: the number of "
	       "instructions and their digest, at the end and at every place that the "
	       "recorder noted.\v"
	       "Exits with 1 if a stream differs; the report says between which two "
	       "places.\n\n" CLI_INPUT_HELP,
	.job = {.make_sink = make_sink, .after = count_wrong},
};

static int run(int argc, char **argv)
{
	struct verify cmd = {.opts = {.ninputs = 0}};

	return cli_run_decoding(&decoding, argc, argv, &cmd.opts, &cmd);
}

const struct cli_command cli_verify = {"verify", "compare with what was executed", run};
