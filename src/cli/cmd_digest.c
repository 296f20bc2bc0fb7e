/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_digest.c - ptmill digest: count and digest of the instructions of each stream.
 */
#include "run.h"

enum { KEY_EVERY = CLI_KEY_OWN };

struct digest {
	struct cli_opts opts;
	uint64_t every;
};

static const struct argp_option options[] = {
	{"every", KEY_EVERY, "N", 0, "One more line after every N instructions", 0}, {0}};

static const struct argp_child children[] = {{&cli_input_argp, 0, NULL, 0},
					     {&cli_decode_argp, 0, NULL, 0},
					     {&cli_run_argp, 0, NULL, 0},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct digest *cmd = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		cli_opts_init(state, &cmd->opts, 3);
		return 0;
	case KEY_EVERY:
		return cli_opt_number(state, "--every", arg, 1, UINT64_MAX, &cmd->every);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {options,
				 parse,
				 "INPUT...",
				 "Decode traces and print, for each stream, the number of "
				 "instructions and a digest of their "
				 "addresses.\v"
				 "Two decoders that print the same digest have seen the same "
				 "instructions in the same order.\n\n" CLI_INPUT_HELP,
				 children,
				 NULL,
				 NULL};

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct digest *cmd = arg;

	(void)session;
	return ptm_sink_digest_create(cmd->every, cmd->opts.output, err);
}

static int run(int argc, char **argv)
{
	struct digest cmd = {.every = 0};
	struct cli_job job = {
		.opts = &cmd.opts, .cmd = &cmd, .make_sink = make_sink, .decodes = true};
	int ret = cli_parse(&argp, argc, argv, 0, &cmd);

	if (ret == 0)
		ret = cli_run(&job);
	cli_opts_fini(&cmd.opts);
	return ret;
}

const struct cli_command cli_digest = {"digest", "count and digest of the instructions", run};
