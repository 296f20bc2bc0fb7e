/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_decode.c - ptmill decode: the instructions of a trace, as text, blocks or JSON.
 */
#include "run.h"

enum { KEY_FORMAT = CLI_KEY_OWN, KEY_NO_DISASM };

enum { FORMAT_TEXT, FORMAT_BLOCKS, FORMAT_JSON };

struct decode {
	struct cli_opts opts;
	unsigned format;
	bool no_disasm;
};

static const struct argp_option options[] = {
	{"format", KEY_FORMAT, "NAME", 0, "Form of the output: text, blocks or json", 0},
	{"no-disasm", KEY_NO_DISASM, NULL, 0, "Print the address of each instruction alone", 0},
	{0}};

static error_t parse(int key, char *arg, struct argp_state *state, void *input)
{
	static const char *const formats[] = {"text", "blocks", "json", NULL};
	struct decode *cmd = input;

	switch (key) {
	case KEY_FORMAT:
		return cli_opt_choice(state, "--format", arg, formats, &cmd->format);
	case KEY_NO_DISASM:
		cmd->no_disasm = true;
		return 0;
	case ARGP_KEY_END:
		if (cmd->no_disasm && cmd->format != FORMAT_TEXT)
			return cli_usage(state, "--no-disasm goes with --format=text only");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct decode *cmd = arg;
	struct ptm_text_config config = {.size = sizeof(config), .no_disasm = cmd->no_disasm};

	(void)session;
	if (cmd->format != FORMAT_TEXT)
		return ptm_sink_blocks_create(cmd->format == FORMAT_JSON, cmd->opts.output, err);
	return ptm_sink_text_create(&config, cmd->opts.output, err);
}

static const struct cli_decoding decoding = {
	.options = options,
	.parse = parse,
	.doc = "Print the instructions that a trace shows, in order.\v" CLI_INPUT_HELP,
	.job = {.make_sink = make_sink},
};

static int run(int argc, char **argv)
{
	struct decode cmd = {.opts = {.ninputs = 0}};

	return cli_run_decoding(&decoding, argc, argv, &cmd.opts, &cmd);
}

const struct cli_command cli_decode = {"decode", "print the instructions of a trace", run};
