/* SPDX-License-Identifier: Apache-2.0
 *
 * opts.h - options that several subcommands have, as argp children in three groups.
 *
 * A subcommand lists the groups it has in its struct argp and calls cli_opts_init() at
 * ARGP_KEY_INIT.  Texts are borrowed from argv.
 */
#ifndef PTM_CLI_OPTS_H
#define PTM_CLI_OPTS_H

#include "cli.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_image_kind { CLI_IMAGE_ELF, CLI_IMAGE_RAW, CLI_IMAGE_MAPS };

/* --elf, --raw, --maps in the order in which they were given. */
struct cli_image {
	enum cli_image_kind kind;
	const char *spec;
};

enum cli_progress { CLI_PROGRESS_AUTO, CLI_PROGRESS_ALWAYS, CLI_PROGRESS_NEVER };

#define CLI_IMAGES_MAX 4096

struct cli_opts {
	struct ptm_config config;
	char **inputs;
	size_t ninputs;
	bool inputs_optional;     /* set by the subcommand before parsing */
	bool only_files;          /* likewise: - is no INPUT */
	struct cli_image *images; /* owned */
	size_t nimages;
	bool has_maps;
	const char *sysroot; /* NULL: / */
	bool has_engine;     /* --engine was given */
	bool resync_ip;      /* --resync ip was given; it is the default where it can be */
	const char *output;  /* NULL: standard output */
	enum cli_progress progress;
	bool strict;
	bool quiet;
};

/* Keys of options without a letter; a subcommand's own begin at CLI_KEY_OWN. */
enum {
	CLI_KEY_BIND = 0x100,
	CLI_KEY_ENGINE,
	CLI_KEY_RESYNC,
	CLI_KEY_CACHE_LIMIT,
	CLI_KEY_CPU,
	CLI_KEY_ELF,
	CLI_KEY_RAW,
	CLI_KEY_MAPS,
	CLI_KEY_SYSROOT,
	CLI_KEY_MTC_FREQ,
	CLI_KEY_NOM_FREQ,
	CLI_KEY_CPUID_EAX,
	CLI_KEY_CPUID_EBX,
	CLI_KEY_SEGMENT_SIZE,
	CLI_KEY_ASSUME_SYNC,
	CLI_KEY_STRICT,
	CLI_KEY_PROGRESS,
	CLI_KEY_TEST_DELAYS,
	CLI_KEY_OWN = 0x200
};

/* What an INPUT may be: the end of a subcommand's help. */
#define CLI_INPUT_FILES                                                                            \
	"An INPUT is a capture (a directory that `ptmill record' wrote, or its capture.json), an " \
	"LLDB trace bundle (its directory, or its trace.json), a raw trace (plain or "             \
	"zstd-compressed), "
#define CLI_INPUT_HELP CLI_INPUT_FILES "a perf.data file, or - for a raw trace on standard input."

extern const struct argp cli_input_argp;  /* INPUT..., -j, --bind */
extern const struct argp cli_decode_argp; /* images, the recording machine */
extern const struct argp cli_engine_argp; /* --engine */
extern const struct argp cli_run_argp;    /* output, --strict, progress */

/* Hand @opts to the @nchildren children and make errors one line.  Call at ARGP_KEY_INIT. */
void cli_opts_init(struct argp_state *state, struct cli_opts *opts, unsigned nchildren);
void cli_opts_fini(struct cli_opts *opts);

/* Print "ptmill COMMAND: message"; returns the error number for argp, which ends the parsing. */
int cli_usage(const struct argp_state *state, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Parse a number of an option; on failure the message is printed and an error number returned. */
int cli_opt_number(const struct argp_state *state, const char *option, const char *text,
		   uint64_t min, uint64_t max, uint64_t *value);
int cli_opt_size(const struct argp_state *state, const char *option, const char *text, uint64_t min,
		 uint64_t max, uint64_t *value);

/* Find @text in a NULL-terminated list; *@value is its index. */
int cli_opt_choice(const struct argp_state *state, const char *option, const char *text,
		   const char *const *choices, unsigned *value);

/* Parse the command line; messages are printed.  Returns 0 or the exit code. */
int cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

#endif
