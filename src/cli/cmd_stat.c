/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_stat.c - ptmill stat: figures of a trace.
 */
#include "run.h"

enum { KEY_JSON = CLI_KEY_OWN, KEY_HOT };

#define HOT_MAX 100000u

struct stat_cmd {
	struct cli_opts opts;
	bool json;
	uint64_t hot; /* 0: not asked for */
};

static const struct argp_option options[] = {
	{"json", KEY_JSON, NULL, 0, "Print JSON", 0},
	{"hot", KEY_HOT, "N", 0,
	 "Also the N hottest functions, blocks and branches, with symbols and lines", 0},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state, void *input)
{
	struct stat_cmd *cmd = input;

	switch (key) {
	case KEY_JSON:
		cmd->json = true;
		return 0;
	case KEY_HOT:
		return cli_opt_number(state, "--hot", arg, 1, HOT_MAX, &cmd->hot);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct stat_cmd *cmd = arg;
	struct ptm_sink *sink = ptm_sink_stat_create(cmd->json, cmd->opts.output, err);

	(void)session;
	if (sink != NULL)
		ptm_sink_stat_hot(sink, cmd->hot);
	return sink;
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
