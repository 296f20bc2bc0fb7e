/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_stat.c - ptmill stat: figures of a trace.
 */
#include "run.h"

enum { KEY_JSON = CLI_KEY_OWN };

struct stat_cmd {
	struct cli_opts opts;
	bool json;
};

static const struct argp_option options[] = {{"json", KEY_JSON, NULL, 0, "Print JSON", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state, void *input)
{
	struct stat_cmd *cmd = input;

	(void)arg;
	(void)state;
	switch (key) {
	case KEY_JSON:
		cmd->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct stat_cmd *cmd = arg;

	(void)session;
	return ptm_sink_stat_create(cmd->json, cmd->opts.output, err);
}

static int tell_run(void *arg, struct ptm_sink *sink, const struct ptm_run_stats *stats)
{
	const struct stat_cmd *cmd = arg;

	/* Without JSON the summary says what the run cost. */
	if (cmd->json)
		ptm_sink_stat_run(sink, stats);
	return 0;
}

static const struct cli_decoding decoding = {
	.options = options,
	.parse = parse,
	.doc = "Decode traces and print figures: instructions, branches, packets, gaps, and where "
	       "every byte of the input ended.\v"
	       "What the run cost stands under `run' in JSON, and on standard error "
	       "otherwise.\n\n" CLI_INPUT_HELP,
	.job = {.make_sink = make_sink, .after = tell_run},
};

static int run(int argc, char **argv)
{
	struct stat_cmd cmd = {.opts = {.ninputs = 0}};

	return cli_run_decoding(&decoding, argc, argv, &cmd.opts, &cmd);
}

const struct cli_command cli_stat = {"stat", "figures of a trace, accounting of every byte", run};
