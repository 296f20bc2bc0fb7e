/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_record.c - ptmill record: run a program and record its trace.
 */
#include "number.h"
#include "opts.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

enum {
	KEY_BACKEND = CLI_KEY_OWN,
	KEY_RET_COMP,
	KEY_TIMING,
	KEY_TIPS,
	KEY_TNT64,
	KEY_MTC_FREQ,
	KEY_PSB_PERIOD,
	KEY_OVF_PERIOD,
	KEY_IRQ_PERIOD,
	KEY_MAX_INSTRUCTIONS,
	KEY_SEED,
	KEY_COMPRESS,
	KEY_PTWRITE,
	KEY_FUP_ON_PTW
};

struct record {
	struct ptm_record_config config;
	const char *output;
	char **command; /* NULL-terminated, of argv */
	bool quiet;
};

static const struct argp_option options[] = {
	{"output", 'o', "CAPTURE", 0, "Directory to make; it must not exist", 0},
	{"backend", KEY_BACKEND, "NAME", 0,
	 "How to record: perf (on a CPU with Intel PT), qemu (qemu-user and a plugin), step "
	 "(single-stepping: slow, works "
	 "everywhere), or auto (the best that works here, the default)",
	 0},
	{"max-instructions", KEY_MAX_INSTRUCTIONS, "N", 0,
	 "Stop recording a thread after N instructions and let the program run on", 0},
	{"compress", KEY_COMPRESS, NULL, 0, "Compress the trace with zstd", 0},
	{"quiet", 'q', NULL, 0, "No summary at the end", 0},
	{"ret-comp", KEY_RET_COMP, "WHEN", 0,
	 "Compress returns: on (the default), sdm (wherever the SDM allows it), off", 1},
	{"timing", KEY_TIMING, "KIND", 0, "Time packets: none (the default), tsc, mtc, cyc", 1},
	{"tips", KEY_TIPS, "HOW", 0,
	 "An indirect branch with TNT bits pending: flush (the default), defer, mixed", 1},
	{"tnt64", KEY_TNT64, NULL, 0, "Use long TNT packets, too", 1},
	{"mtc-freq", KEY_MTC_FREQ, "N", 0, "An MTC each 2^N crystal ticks (3)", 1},
	{"psb-period", KEY_PSB_PERIOD, "BYTES", 0,
	 "A PSB about every BYTES of trace; k, M, G may follow (128k)", 1},
	{"ovf-period", KEY_OVF_PERIOD, "BYTES", 0,
	 "An overflow about every BYTES of trace (0: none)", 1},
	{"irq-period", KEY_IRQ_PERIOD, "N", 0, "An interrupt about every N instructions (0: none)",
	 1},
	{"ptwrite", KEY_PTWRITE, NULL, 0,
	 "PTWRITE works on any CPU and gives a PTW packet (by step, or perf)", 1},
	{"fup-on-ptw", KEY_FUP_ON_PTW, NULL, 0,
	 "A FUP with the address of the PTWRITE behind each PTW; implies --ptwrite", 1},
	{"seed", KEY_SEED, "N", 0, "Seed of the choices above (1)", 1},
	{0}};

static error_t parse_choice(int key, const char *arg, const struct argp_state *state,
			    struct ptm_record_config *config)
{
	static const char *const backends[] = {"auto", "step", "qemu", "perf", NULL};
	static const char *const ret_comps[] = {"on", "sdm", "off", NULL};
	static const char *const timings[] = {"none", "tsc", "mtc", "cyc", NULL};
	static const char *const tips[] = {"flush", "defer", "mixed", NULL};
	unsigned choice = 0;
	int e;

	switch (key) {
	case KEY_BACKEND:
		e = cli_opt_choice(state, "--backend", arg, backends, &choice);
		config->backend = (enum ptm_record_backend)choice;
		return e;
	case KEY_RET_COMP:
		e = cli_opt_choice(state, "--ret-comp", arg, ret_comps, &choice);
		config->ret_comp = (enum ptm_record_ret_comp)choice;
		return e;
	case KEY_TIMING:
		e = cli_opt_choice(state, "--timing", arg, timings, &choice);
		config->timing = (enum ptm_record_timing)choice;
		return e;
	default:
		e = cli_opt_choice(state, "--tips", arg, tips, &choice);
		config->tips = (enum ptm_record_tips)choice;
		return e;
	}
}

static error_t parse_number(int key, const char *arg, const struct argp_state *state,
			    struct ptm_record_config *config)
{
	uint64_t value = 0;
	int e;

	switch (key) {
	case KEY_MTC_FREQ:
		e = cli_opt_number(state, "--mtc-freq", arg, 0, 15, &value);
		config->mtc_freq = (uint8_t)value;
		return e;
	case KEY_PSB_PERIOD:
		return cli_opt_size(state, "--psb-period", arg, 64, INT64_MAX, &config->psb_period);
	case KEY_OVF_PERIOD:
		return cli_opt_size(state, "--ovf-period", arg, 0, INT64_MAX, &config->ovf_period);
	case KEY_IRQ_PERIOD:
		return cli_opt_number(state, "--irq-period", arg, 0, INT64_MAX,
				      &config->irq_period);
	case KEY_MAX_INSTRUCTIONS:
		return cli_opt_number(state, "--max-instructions", arg, 0, UINT64_MAX,
				      &config->max_instructions);
	default:
		return cli_opt_number(state, "--seed", arg, 0, UINT64_MAX, &config->seed);
	}
}

static error_t parse_end(const struct argp_state *state, const struct record *cmd)
{
	if (cmd->command == NULL)
		return cli_usage(state, "no program given: `ptmill record -o CAPTURE -- CMD...'");
	if (cmd->output == NULL || cmd->output[0] == '\0')
		return cli_usage(state, "no directory given: say where by -o CAPTURE");
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record *cmd = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->err_stream = NULL;
		return 0;
	case 'o':
		cmd->output = arg;
		return 0;
	case 'q':
		cmd->quiet = true;
		return 0;
	case KEY_TNT64:
		cmd->config.tnt64 = true;
		return 0;
	case KEY_COMPRESS:
		cmd->config.compress = true;
		return 0;
	case KEY_PTWRITE:
		if (cmd->config.ptwrite == PTM_PTWRITE_OFF)
			cmd->config.ptwrite = PTM_PTWRITE_ON;
		return 0;
	case KEY_FUP_ON_PTW:
		cmd->config.ptwrite = PTM_PTWRITE_FUP;
		return 0;
	case ARGP_KEY_ARG:
		/* The program's own options are not ours. */
		cmd->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		return parse_end(state, cmd);
	case KEY_BACKEND:
	case KEY_RET_COMP:
	case KEY_TIMING:
	case KEY_TIPS:
		return parse_choice(key, arg, state, &cmd->config);
	case KEY_MTC_FREQ:
	case KEY_PSB_PERIOD:
	case KEY_OVF_PERIOD:
	case KEY_IRQ_PERIOD:
	case KEY_MAX_INSTRUCTIONS:
	case KEY_SEED:
		return parse_number(key, arg, state, &cmd->config);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {options,
				 parse,
				 "-- CMD...",
				 "Run CMD and record what it executes as an Intel PT trace, with "
				 "its images and the truth about "
				 "it.\v"
				 "The exit code is 0 when the recording succeeded, whatever the "
				 "program's was: the summary tells "
				 "it.",
				 NULL,
				 NULL,
				 NULL};

/* The signal that asked us to end, and the same if the program has to be told. */
static volatile sig_atomic_t asked, passed_on;

/* What the kernel sends from the terminal reaches the program as well; what a process sends us we
 * alone hear. */
static void on_request(int sig, siginfo_t *info, void *context)
{
	(void)context;
	asked = sig;
	if (info->si_code <= 0 || (sig != SIGINT && sig != SIGQUIT))
		passed_on = sig;
}

/* The program ends, and we write what was recorded.  Handlers rather than SIG_IGN, which the
 * program would inherit; no SA_RESTART, for the program may be asleep. */
static void pass_requests_on(struct ptm_record_config *config)
{
	static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct sigaction act = {.sa_sigaction = on_request, .sa_flags = SA_SIGINFO};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction before;

		/* nohup: neither we nor the program are to hear of it. */
		if (sigaction(signals[i], NULL, &before) == 0 && signals[i] == SIGHUP &&
		    before.sa_handler == SIG_IGN)
			continue;
		(void)sigaction(signals[i], &act, NULL);
	}
	config->pass_on = &passed_on;
}

static void warn(void *ctx, const char *line)
{
	(void)ctx;
	cli_say("%s", line);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static int run(int argc, char **argv)
{
	struct record cmd = {.output = NULL};
	struct ptm_record_result result = {.size = sizeof(result)};
	struct ptm_error err = {.code = PTM_E_OK};
	char bytes[16];
	bool ended;
	int ret;

	ptm_record_config_init(&cmd.config);
	ret = cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &cmd);
	if (ret != 0)
		return ret;
	pass_requests_on(&cmd.config);
	cmd.config.warn = warn;
	if (ptm_record(&cmd.config, cmd.command, cmd.output, &result, &err) < 0)
		return cli_fail(&err);
	ended = asked != 0 && result.exit_code == 128 + asked;
	if (ended)
		cli_say("signal %d ended the program: %s holds what was recorded until then", asked,
			cmd.output);
	if (!cmd.quiet && result.backend == PTM_RECORD_PERF)
		cli_say("%s by perf, %.2f s, exit code %d: %s",
			cli_bytes(result.trace_bytes, bytes, sizeof(bytes)), result.seconds,
			result.exit_code, cmd.output);
	else if (!cmd.quiet)
		cli_say("%" PRIu64 " instruction%s, %s, %" PRIu64 " PSB%s, %" PRIu64
			" overflow%s, %.2f s, exit code %d: %s",
			result.instructions, plural(result.instructions),
			cli_bytes(result.trace_bytes, bytes, sizeof(bytes)), result.psbs,
			plural(result.psbs), result.gaps, plural(result.gaps), result.seconds,
			result.exit_code, cmd.output);
	return ended ? ptm_err_exit_code(PTM_E_CANCELED) : 0;
}

const struct cli_command cli_record = {"record", "run a program and record its trace", run};
