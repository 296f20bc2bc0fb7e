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

static const struct argp_child children[] = {{&cli_input_argp, 0, NULL, 0},
					     {&cli_decode_argp, 0, NULL, 0},
					     {&cli_run_argp, 0, NULL, 0},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stat_cmd *cmd = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		cli_opts_init(state, &cmd->opts, 3);
		return 0;
	case KEY_JSON:
		cmd->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"INPUT...",
	"Decode traces and print figures: instructions, branches, packets, gaps, and where every "
	"byte "
	"of the input ended.\v"
	"What the run cost stands under `run' in JSON, and on standard error "
	"otherwise.\n\n" CLI_INPUT_HELP,
	children,
	NULL,
	NULL};

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct stat_cmd *cmd = arg;

	(void)session;
	return ptm_sink_stat_create(cmd->json, cmd->opts.output, err);
}

static int tell_run(void *arg, struct ptm_sink *sink, const struct ptm_run_stats *stats)
{
	(void)arg;
	ptm_sink_stat_run(sink, stats);
	return 0;
}

static int run(int argc, char **argv)
{
	struct stat_cmd cmd = {.json = false};
	struct cli_job job = {
		.opts = &cmd.opts, .cmd = &cmd, .make_sink = make_sink, .decodes = true};
	int ret = cli_parse(&argp, argc, argv, 0, &cmd);

	/* Without JSON the summary says what the run cost. */
	if (cmd.json)
		job.after = tell_run;
	if (ret == 0)
		ret = cli_run(&job);
	cli_opts_fini(&cmd.opts);
	return ret;
}

const struct cli_command cli_stat = {"stat", "figures of a trace, accounting of every byte", run};
