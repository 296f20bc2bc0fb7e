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

static error_t parse(int key, char *arg, struct argp_state *state, void *input)
{
	struct digest *cmd = input;

	switch (key) {
	case KEY_EVERY:
		return cli_opt_number(state, "--every", arg, 1, UINT64_MAX, &cmd->every);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct digest *cmd = arg;

	(void)session;
	return ptm_sink_digest_create(cmd->every, cmd->opts.output, err);
}

static const struct cli_decoding decoding = {
	.options = options,
	.parse = parse,
	.doc = "Decode traces and print, for each stream, the number of "
	       "instructions and a digest of their addresses.\v"
	       "Two decoders that print the same digest have seen the same "
	       "instructions in the same order.\n\n" CLI_INPUT_HELP,
	.job = {.make_sink = make_sink},
};

static int run(int argc, char **argv)
{
	struct digest cmd = {.opts = {.ninputs = 0}};

	return cli_run_decoding(&decoding, argc, argv, &cmd.opts, &cmd);
}

const struct cli_command cli_digest = {"digest", "count and digest of the instructions", run};
