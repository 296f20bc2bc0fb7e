/* SPDX-License-Identifier: Apache-2.0
 *
 * opts.c - options that several subcommands have.
 */
#include "opts.h"

#include "number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 1024

void cli_opts_init(struct argp_state *state, struct cli_opts *opts, unsigned nchildren)
{
	/* argp would add a second line to each error ("Try ..."). */
	state->err_stream = NULL;
	for (unsigned i = 0; i < nchildren; i++)
		state->child_inputs[i] = opts;
	opts->config.size = sizeof(opts->config);
}

void cli_opts_fini(struct cli_opts *opts)
{
	free(opts->images);
	opts->images = NULL;
	opts->nimages = 0;
}

int cli_usage(const struct argp_state *state, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "%s: %s\n", state->name, text);
	return EINVAL;
}

static int check_number(const struct argp_state *state, const char *option, const char *text,
			bool is_ok, uint64_t min, uint64_t max, uint64_t value)
{
	if (is_ok && value >= min)
		return 0;
	if (max == UINT64_MAX)
		return cli_usage(state, "%s: '%s' is not a number of at least %" PRIu64, option,
				 text, min);
	return cli_usage(state, "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, option,
			 text, min, max);
}

int cli_opt_number(const struct argp_state *state, const char *option, const char *text,
		   uint64_t min, uint64_t max, uint64_t *value)
{
	bool is_ok = cli_number(text, max, value);

	return check_number(state, option, text, is_ok, min, max, *value);
}

int cli_opt_size(const struct argp_state *state, const char *option, const char *text, uint64_t min,
		 uint64_t max, uint64_t *value)
{
	if (cli_number_size(text, max, value) && *value >= min)
		return 0;
	if (max == UINT64_MAX)
		return cli_usage(state,
				 "%s: '%s' is not a number of at least %" PRIu64
				 "; k, M or G may follow it",
				 option, text, min);
	return cli_usage(state,
			 "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64
			 "; k, M or G may follow it",
			 option, text, min, max);
}

int cli_opt_choice(const struct argp_state *state, const char *option, const char *text,
		   const char *const *choices, unsigned *value)
{
	char list[128] = "";
	size_t n = 0;

	for (unsigned i = 0; choices[i] != NULL; i++) {
		if (strcmp(choices[i], text) == 0) {
			*value = i;
			return 0;
		}
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i > 0 ? ", " : "",
					      choices[i]);
	}
	return cli_usage(state, "%s: '%s' is none of: %s", option, text, list);
}

int cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	int e = argp_parse(argp, argc, argv, flags, NULL, input);

	if (e == ENOMEM)
		cli_say("Cannot parse the command line: out of memory");
	if (e == ENOMEM)
		return ptm_err_exit_code(PTM_E_NOMEM);
	return e != 0 ? CLI_EXIT_USAGE : 0;
}

/* INPUT... and workers. */
static const struct argp_option input_options[] = {
	{"threads", 'j', "N", 0, "Work with N workers (default: one a core that we may use)", 0},
	{"bind", CLI_KEY_BIND, "HOW", 0,
	 "Pin each worker to its core (auto, the default), or do not (none)", 0},
	{0}};

static error_t parse_input(int key, char *arg, struct argp_state *state)
{
	static const char *const binds[] = {"auto", "none", NULL};
	struct cli_opts *opts = state->input;
	uint64_t value;
	unsigned choice;
	int e;

	switch (key) {
	case 'j':
		e = cli_opt_number(state, "--threads", arg, 1, THREADS_MAX, &value);
		if (e == 0)
			opts->config.threads = (unsigned)value;
		return e;
	case CLI_KEY_BIND:
		e = cli_opt_choice(state, "--bind", arg, binds, &choice);
		if (e == 0)
			opts->config.bind = choice == 0 ? PTM_BIND_AUTO : PTM_BIND_NONE;
		return e;
	case ARGP_KEY_ARGS:
		opts->inputs = state->argv + state->next;
		opts->ninputs = (size_t)(state->argc - state->next);
		for (size_t i = 0; i < opts->ninputs; i++)
			if (opts->inputs[i][0] == '\0')
				return cli_usage(state, "an INPUT is an empty name");
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (opts->inputs_optional)
			return 0;
		return cli_usage(state, "no INPUT given: name a trace%s",
				 opts->only_files ? "" : ", or - for standard input");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp cli_input_argp = {input_options, parse_input, NULL, NULL, NULL, NULL, NULL};

/* Images, and the machine that made the trace. */
static const struct argp_option decode_options[] = {
	{"elf", CLI_KEY_ELF, "FILE[:BASE]", 0,
	 "An executable or library, at the addresses it names or moved to BASE", 0},
	{"raw", CLI_KEY_RAW, "FILE[:FROM[-TO]]:BASE", 0,
	 "Bytes FROM (0) up to TO (the end) of FILE, mapped at address BASE", 0},
	{"maps", CLI_KEY_MAPS, "FILE", 0,
	 "Images from a copy of /proc/PID/maps of the traced process", 0},
	{"sysroot", CLI_KEY_SYSROOT, "DIR", 0, "Look up the files that --maps names below DIR", 0},
	{"resync", CLI_KEY_RESYNC, "WHERE", 0,
	 "After an error go on at the next packet that states a sure address: ip (the default; "
	 "engine fast only), or at the next PSB: psb",
	 1},
	{"cache-limit", CLI_KEY_CACHE_LIMIT, "N", 0,
	 "Bytes of decoded code that the workers share, at least 4M; k, M, G may follow (128M)", 1},
	{"cpu", CLI_KEY_CPU, "CPU", 0,
	 "CPU that recorded the trace, for its errata: auto (what the input names, the default), "
	 "none, or FAMILY/MODEL[/STEPPING]",
	 1},
	{"mtc-freq", CLI_KEY_MTC_FREQ, "N", 0, "IA32_RTIT_CTL.MTCFreq of the recording", 1},
	{"nom-freq", CLI_KEY_NOM_FREQ, "N", 0, "Nominal frequency in units of 100 MHz", 1},
	{"cpuid-0x15.eax", CLI_KEY_CPUID_EAX, "N", 0, "CPUID[0x15].EAX of the recording machine",
	 1},
	{"cpuid-0x15.ebx", CLI_KEY_CPUID_EBX, "N", 0, "CPUID[0x15].EBX of the recording machine",
	 1},
	{0}};

static int add_image(const struct argp_state *state, struct cli_opts *opts,
		     enum cli_image_kind kind, const char *spec)
{
	struct cli_image *images;

	if (spec[0] == '\0')
		return cli_usage(state, "--elf, --raw, --maps: the FILE is an empty name");
	if (opts->nimages == CLI_IMAGES_MAX)
		return cli_usage(state, "more than %d images: give them by --maps", CLI_IMAGES_MAX);
	images = reallocarray(opts->images, opts->nimages + 1, sizeof(*images));
	if (images == NULL)
		return ENOMEM;
	images[opts->nimages].kind = kind;
	images[opts->nimages].spec = spec;
	opts->images = images;
	opts->nimages++;
	opts->has_maps |= kind == CLI_IMAGE_MAPS;
	return 0;
}

static int parse_cpu(const struct argp_state *state, const char *arg, struct ptm_cpu *cpu)
{
	static const uint64_t max[] = {UINT16_MAX, UINT8_MAX, UINT8_MAX};
	uint64_t value[3] = {0, 0, 0};
	char text[64];
	char *rest = text;
	bool is_ok = true;
	unsigned n = 0;

	memset(cpu, 0, sizeof(*cpu));
	if (strcmp(arg, "auto") == 0 || strcmp(arg, "none") == 0)
		return 0;
	if (strlen(arg) < sizeof(text)) {
		strcpy(text, arg);
		for (char *part; n < 3 && (part = strsep(&rest, "/")) != NULL; n++)
			is_ok &= cli_number(part, max[n], &value[n]);
	}
	if (!is_ok || n < 2 || rest != NULL)
		return cli_usage(
			state,
			"--cpu: '%s' is none of: auto, none, FAMILY/MODEL[/STEPPING] (as in "
			"6/85/7)",
			arg);
	cpu->known = true;
	cpu->family = (uint16_t)value[0];
	cpu->model = (uint8_t)value[1];
	cpu->stepping = (uint8_t)value[2];
	return 0;
}

static int parse_timing(int key, const char *arg, const struct argp_state *state,
			struct ptm_timing *timing)
{
	uint64_t value = 0;
	int e;

	switch (key) {
	case CLI_KEY_MTC_FREQ:
		e = cli_opt_number(state, "--mtc-freq", arg, 0, 15, &value);
		timing->mtc_freq = (uint8_t)value;
		return e;
	case CLI_KEY_NOM_FREQ:
		e = cli_opt_number(state, "--nom-freq", arg, 0, UINT8_MAX, &value);
		timing->nom_freq = (uint8_t)value;
		return e;
	case CLI_KEY_CPUID_EAX:
		e = cli_opt_number(state, "--cpuid-0x15.eax", arg, 0, UINT32_MAX, &value);
		timing->cpuid_0x15_eax = (uint32_t)value;
		return e;
	default:
		e = cli_opt_number(state, "--cpuid-0x15.ebx", arg, 0, UINT32_MAX, &value);
		timing->cpuid_0x15_ebx = (uint32_t)value;
		return e;
	}
}

static error_t parse_fast(int key, const char *arg, const struct argp_state *state,
			  struct cli_opts *opts)
{
	static const char *const resyncs[] = {"ip", "psb", NULL};
	unsigned choice = 0;
	int e;

	switch (key) {
	case CLI_KEY_RESYNC:
		e = cli_opt_choice(state, "--resync", arg, resyncs, &choice);
		opts->config.resync = choice == 0 ? PTM_RESYNC_IP : PTM_RESYNC_PSB;
		opts->resync_ip = choice == 0;
		return e;
	default:
		return cli_opt_size(state, "--cache-limit", arg, PTM_CACHE_LIMIT_MIN, UINT64_MAX,
				    &opts->config.cache_limit);
	}
}

static error_t check_decode(const struct argp_state *state, const struct cli_opts *opts)
{
	if (opts->sysroot != NULL && !opts->has_maps)
		return cli_usage(state, "--sysroot needs --maps, whose files it is for");
	if (opts->resync_ip && opts->config.engine == PTM_ENGINE_LIBIPT)
		return cli_usage(state, "--resync=ip: engine libipt goes on at PSBs only");
	return 0;
}

static error_t parse_decode(int key, char *arg, struct argp_state *state)
{
	struct cli_opts *opts = state->input;

	switch (key) {
	case CLI_KEY_ELF:
		return add_image(state, opts, CLI_IMAGE_ELF, arg);
	case CLI_KEY_RAW:
		return add_image(state, opts, CLI_IMAGE_RAW, arg);
	case CLI_KEY_MAPS:
		return add_image(state, opts, CLI_IMAGE_MAPS, arg);
	case CLI_KEY_SYSROOT:
		opts->sysroot = arg;
		return 0;
	case CLI_KEY_RESYNC:
	case CLI_KEY_CACHE_LIMIT:
		return parse_fast(key, arg, state, opts);
	case CLI_KEY_CPU:
		return parse_cpu(state, arg, &opts->config.cpu);
	case CLI_KEY_MTC_FREQ:
	case CLI_KEY_NOM_FREQ:
	case CLI_KEY_CPUID_EAX:
	case CLI_KEY_CPUID_EBX:
		return parse_timing(key, arg, state, &opts->config.timing);
	case ARGP_KEY_END:
		return check_decode(state, opts);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp cli_decode_argp = {decode_options, parse_decode, NULL, NULL, NULL, NULL, NULL};

static const struct argp_option engine_options[] = {
	{"engine", CLI_KEY_ENGINE, "NAME", 0,
	 "Decoder of the flow: fast (the default), or libipt (the reference)", 1},
	{0}};

static error_t parse_engine(int key, char *arg, struct argp_state *state)
{
	static const char *const engines[] = {"fast", "libipt", NULL};
	struct cli_opts *opts = state->input;
	unsigned choice = 0;
	int e;

	if (key != CLI_KEY_ENGINE)
		return ARGP_ERR_UNKNOWN;
	e = cli_opt_choice(state, "--engine", arg, engines, &choice);
	opts->config.engine = choice == 0 ? PTM_ENGINE_FAST : PTM_ENGINE_LIBIPT;
	opts->has_engine = true;
	return e;
}

const struct argp cli_engine_argp = {engine_options, parse_engine, NULL, NULL, NULL, NULL, NULL};

/* A run over the whole trace. */
/* off, or IP[/BITS]. */
static error_t parse_assume(const struct argp_state *state, const char *arg,
			    struct ptm_assume_sync *assume)
{
	char text[64];
	char *slash;
	uint64_t bits = 64;

	*assume = (struct ptm_assume_sync){.given = true, .bits = 64};
	if (strcmp(arg, "off") == 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%s", arg);
	slash = strchr(text, '/');
	if (slash != NULL)
		*slash++ = '\0';
	if (!cli_number(text, UINT64_MAX, &assume->ip) ||
	    (slash != NULL && !cli_number(slash, 64, &bits)) ||
	    (bits != 16 && bits != 32 && bits != 64))
		return cli_usage(state,
				 "--assume-sync: '%s' is neither off nor IP[/BITS] (as in "
				 "0x401000/64; BITS is 16, 32 or 64)",
				 arg);
	assume->enabled = true;
	assume->bits = (uint8_t)bits;
	return 0;
}

static const struct argp_option run_options[] = {
	{"output", 'o', "FILE", 0,
	 "Write to FILE, which appears when complete (default: standard output)", 0},
	{"segment-size", CLI_KEY_SEGMENT_SIZE, "N", 0,
	 "Bytes of trace that a worker takes at a time; k, M, G may follow (default: by output)",
	 1},
	{"assume-sync", CLI_KEY_ASSUME_SYNC, "IP[/BITS]|off", 0,
	 "Use what precedes the first PSB, too: the flow stands at IP, in code of BITS bits "
	 "(default: 64), or tracing is off",
	 1},
	{"strict", CLI_KEY_STRICT, NULL, 0,
	 "Exit with 3 if a part of the trace could not be decoded", 1},
	{"progress", CLI_KEY_PROGRESS, "WHEN", 0,
	 "Show the progress: auto (on a terminal, the default), always, never", 2},
	{"quiet", 'q', NULL, 0, "No progress, and no summary at the end", 2},
	{"test-delays", CLI_KEY_TEST_DELAYS, "SEED", OPTION_HIDDEN, NULL, 2},
	{0}};

static error_t parse_run(int key, char *arg, struct argp_state *state)
{
	static const char *const when[] = {"auto", "always", "never", NULL};
	struct cli_opts *opts = state->input;
	unsigned choice = 0;
	int e;

	switch (key) {
	case 'o':
		if (arg[0] == '\0')
			return cli_usage(state, "--output: the FILE is an empty name");
		opts->output = arg;
		return 0;
	case CLI_KEY_SEGMENT_SIZE:
		return cli_opt_size(state, "--segment-size", arg, PTM_SEGMENT_SIZE_MIN,
				    PTM_SEGMENT_SIZE_MAX, &opts->config.segment_size);
	case CLI_KEY_ASSUME_SYNC:
		return parse_assume(state, arg, &opts->config.assume);
	case CLI_KEY_STRICT:
		opts->strict = true;
		return 0;
	case CLI_KEY_PROGRESS:
		e = cli_opt_choice(state, "--progress", arg, when, &choice);
		opts->progress = (enum cli_progress)choice;
		return e;
	case 'q':
		opts->quiet = true;
		return 0;
	case CLI_KEY_TEST_DELAYS:
		return cli_opt_number(state, "--test-delays", arg, 1, UINT64_MAX,
				      &opts->config.test_delay_seed);
	case ARGP_KEY_END:
		if (opts->quiet && opts->progress == CLI_PROGRESS_ALWAYS)
			return cli_usage(state,
					 "--quiet and --progress=always contradict each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp cli_run_argp = {run_options, parse_run, NULL, NULL, NULL, NULL, NULL};
