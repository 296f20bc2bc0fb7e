/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_dump.c - ptmill dump: the packets of a trace.
 */
#include "run.h"

static const struct argp_child children[] = {
	{&cli_input_argp, 0, NULL, 0}, {&cli_run_argp, 0, NULL, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	cli_opts_init(state, state->input, 2);
	return 0;
}

static const struct argp argp = {
	NULL,
	parse,
	"INPUT...",
	"Print the packets of traces, one a line: offset, name, payload.  "
	"The flow is not followed, so no images are needed.\v" CLI_INPUT_HELP,
	children,
	NULL,
	NULL};

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct cli_opts *opts = arg;

	(void)session;
	return ptm_sink_dump_create(opts->output, err);
}

static int run(int argc, char **argv)
{
	struct cli_opts opts = {.ninputs = 0};
	struct cli_job job = {.opts = &opts, .cmd = &opts, .make_sink = make_sink};
	int ret = cli_parse(&argp, argc, argv, 0, &opts);

	if (ret == 0)
		ret = cli_run(&job);
	cli_opts_fini(&opts);
	return ret;
}

const struct cli_command cli_dump = {"dump", "print the packets of a trace", run};
