/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_bench.c - ptmill bench: how fast decoders are over a trace.
 */
#include "run.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_WARM = CLI_KEY_OWN, KEY_RUNS, KEY_JSON, KEY_NO_LIBIPT, KEY_ONCE };

#define RUNS_MAX  1000
#define KNOWN_MIN 0.5 /* of the code: another recording of the program leaves more */

struct bench {
	struct cli_opts opts;
	char *warm;
	uint64_t runs;
	uint64_t once; /* threads; 0: this is not the process that is measured */
	bool json, no_libipt;
	char **again; /* the arguments of that process; owned */
	char once_text[32];
};

static const struct argp_option options[] = {
	{"warm", KEY_WARM, "OTHER", 0,
	 "Fill the cache by OTHER, another recording of the same program, before what is called "
	 "warm (default: by the trace itself, called self-warm)",
	 0},
	{"runs", KEY_RUNS, "N", 0, "Run each contender N times (default: 5)", 0},
	{"json", KEY_JSON, NULL, 0, "Print JSON instead of a table", 0},
	{"no-libipt", KEY_NO_LIBIPT, NULL, 0,
	 "Leave out libipt's decoders, which take most of the time", 0},
	{"output", 'o', "FILE", 0,
	 "Write to FILE, which appears when complete (default: standard output)", 0},
	{"once", KEY_ONCE, "THREADS", OPTION_HIDDEN, NULL, 0},
	{"engine", CLI_KEY_ENGINE, "NAME", OPTION_HIDDEN, NULL, 0},
	{0}};

static error_t check(const struct argp_state *state, const struct bench *cmd)
{
	for (size_t i = 0; i < cmd->opts.ninputs; i++)
		if (strcmp(cmd->opts.inputs[i], "-") == 0)
			return cli_usage(state,
					 "a trace is read many times: it cannot be standard input");
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct bench *cmd = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		cli_opts_init(state, &cmd->opts, 2);
		return 0;
	case KEY_WARM:
		if (arg[0] == '\0' || strcmp(arg, "-") == 0)
			return cli_usage(state, "--warm: OTHER is no file name: '%s'", arg);
		cmd->warm = arg;
		return 0;
	case KEY_RUNS:
		return cli_opt_number(state, "--runs", arg, 1, RUNS_MAX, &cmd->runs);
	case KEY_JSON:
		cmd->json = true;
		return 0;
	case KEY_NO_LIBIPT:
		cmd->no_libipt = true;
		return 0;
	case 'o':
		if (arg[0] == '\0')
			return cli_usage(state, "--output: the FILE is an empty name");
		cmd->opts.output = arg;
		return 0;
	case CLI_KEY_ENGINE:
		return cli_usage(state, "all engines are measured: --engine makes no sense");
	case KEY_ONCE:
		return cli_opt_number(state, "--once", arg, 1, 1024, &cmd->once);
	case ARGP_KEY_END:
		return check(state, cmd);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{&cli_input_argp, 0, NULL, 0}, {&cli_decode_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
	options,
	parse,
	"INPUT...",
	"Measure how fast decoders are over a trace: ours with an empty cache and a warm one, in "
	"one "
	"thread and in many, and libipt's instruction decoder and block decoder.  They take turns, "
	"and must see the same instructions.\v"
	"Exits with 1 if the decoders do not see the same instructions.\n\n" CLI_INPUT_FILES
	"or a perf.data file.  Standard input is not possible: a trace is read many times.",
	children,
	NULL,
	NULL};

static int fill(void *ctx, struct ptm_session *session, bool other, struct ptm_error *err)
{
	struct bench *cmd = ctx;
	struct cli_opts opts = cmd->opts;

	if (other) {
		opts.inputs = &cmd->warm;
		opts.ninputs = 1;
	}
	return cli_session_fill(session, &opts, err);
}

static pid_t spawn_once(void *ctx, unsigned threads, int fd)
{
	struct bench *cmd = ctx;
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int e;

	(void)snprintf(cmd->once_text, sizeof(cmd->once_text), "--once=%u", threads);
	e = posix_spawn_file_actions_init(&actions);
	if (e == 0) {
		e = posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
		if (e == 0)
			e = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, cmd->again,
					environ);
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	errno = e;
	return e == 0 ? pid : -1;
}

static int measure(struct bench *cmd)
{
	const struct ptm_bench_config config = {.size = sizeof(config),
						.session = &cmd->opts.config,
						.input = cmd->opts.inputs[0],
						.other = cmd->warm,
						.runs = (unsigned)cmd->runs,
						.threads = cmd->opts.config.threads,
						.no_libipt = cmd->no_libipt,
						.fill = fill,
						.spawn = spawn_once,
						.ctx = cmd};
	struct ptm_error err = {.code = PTM_E_OK};
	struct ptm_bench *bench;
	double known;
	bool agrees;
	int ret;

	if (cmd->once != 0)
		return ptm_bench_once(&config, (unsigned)cmd->once, &err) < 0 ? cli_fail(&err) : 0;
	bench = ptm_bench_run(&config, &err);
	if (bench == NULL)
		return cli_fail(&err);
	ret = ptm_bench_print(bench, cmd->json, cmd->opts.output, &err);
	agrees = ptm_bench_agrees(bench);
	known = ptm_bench_known(bench);
	ptm_bench_destroy(bench);
	if (ret < 0)
		return cli_fail(&err);
	if (!agrees)
		cli_say("the decoders saw different instructions: the figures compare different "
			"work");
	if (cmd->warm != NULL && known < KNOWN_MIN)
		cli_say("%s left %.0f %% of the code that the trace needs in the cache: is it a "
			"recording of the same program, at the same addresses?",
			cmd->warm, known > 0 ? 100 * known : 0.0);
	return agrees ? 0 : CLI_EXIT_DIFFERS;
}

/* The same command line, with --once; taken before argp brings the arguments into another order. */
static bool keep_line(struct bench *cmd, int argc, char **argv)
{
	static char name[] = "ptmill", command[] = "bench";

	cmd->again = calloc((size_t)argc + 3, sizeof(*cmd->again));
	if (cmd->again == NULL)
		return false;
	cmd->again[0] = name;
	cmd->again[1] = command;
	cmd->again[2] = cmd->once_text;
	for (int i = 1; i < argc; i++)
		cmd->again[2 + i] = argv[i];
	return true;
}

static int run(int argc, char **argv)
{
	struct bench cmd = {.opts = {.only_files = true}};
	int ret;

	if (!keep_line(&cmd, argc, argv)) {
		cli_say("Out of memory");
		return ptm_err_exit_code(PTM_E_NOMEM);
	}
	ret = cli_parse(&argp, argc, argv, 0, &cmd);
	if (ret == 0)
		ret = measure(&cmd);
	cli_opts_fini(&cmd.opts);
	free(cmd.again);
	return ret;
}

const struct cli_command cli_bench = {"bench", "measure how fast decoders are over a trace", run};
