/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_decode.c - ptmill decode: the instructions of a trace, as text.
 */
#include "run.h"

enum { KEY_FORMAT = CLI_KEY_OWN, KEY_NO_DISASM };

struct decode {
	struct cli_opts opts;
	bool no_disasm;
};

static const struct argp_option options[] = {
	{"format", KEY_FORMAT, "NAME", 0, "Form of the output: text", 0},
	{"no-disasm", KEY_NO_DISASM, NULL, 0, "Print the address of each instruction alone", 0},
	{0}};

static const struct argp_child children[] = {{&cli_input_argp, 0, NULL, 0},
					     {&cli_decode_argp, 0, NULL, 0},
					     {&cli_run_argp, 0, NULL, 0},
					     {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const formats[] = {"text", NULL};
	struct decode *cmd = state->input;
	unsigned choice;

	switch (key) {
	case ARGP_KEY_INIT:
		cli_opts_init(state, &cmd->opts, 3);
		return 0;
	case KEY_FORMAT:
		return cli_opt_choice(state, "--format", arg, formats, &choice);
	case KEY_NO_DISASM:
		cmd->no_disasm = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	options,
	parse,
	"INPUT...",
	"Print the instructions that a trace shows, in order, one a line.\v" CLI_INPUT_HELP,
	children,
	NULL,
	NULL};

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct decode *cmd = arg;
	struct ptm_text_config config = {.size = sizeof(config), .no_disasm = cmd->no_disasm};

	(void)session;
	return ptm_sink_text_create(&config, cmd->opts.output, err);
}

static int run(int argc, char **argv)
{
	struct decode cmd = {.no_disasm = false};
	struct cli_job job = {
		.opts = &cmd.opts, .cmd = &cmd, .make_sink = make_sink, .decodes = true};
	int ret = cli_parse(&argp, argc, argv, 0, &cmd);

	if (ret == 0)
		ret = cli_run(&job);
	cli_opts_fini(&cmd.opts);
	return ret;
}

const struct cli_command cli_decode = {"decode", "print the instructions of a trace", run};
