/* SPDX-License-Identifier: Apache-2.0
 *
 * cli.h - the subcommands and what they share: one struct cli_command a file cmd_NAME.c.
 *
 * Data goes to standard output or -o, everything else to standard error, one line each, beginning
 * with "ptmill".
 */
#ifndef PTM_CLI_CLI_H
#define PTM_CLI_CLI_H

#include "ptmill/ptmill.h"

#include <argp.h>

#define CLI_EXIT_DIFFERS 1  /* verify, bench: what should be the same is not */
#define CLI_EXIT_GAPS    3  /* --strict, and the trace has gaps */
#define CLI_EXIT_USAGE   64 /* as ptm_err_exit_code(PTM_E_USAGE) */
#define CLI_EXIT_IO      74 /* as ptm_err_exit_code(PTM_E_IO) */

struct cli_command {
	const char *name;
	const char *brief; /* for the list of subcommands */
	/* argv[0] is "ptmill NAME".  Returns the exit code. */
	int (*run)(int argc, char **argv);
};

extern const struct cli_command cli_decode, cli_digest, cli_stat, cli_dump, cli_info, cli_record,
	cli_verify, cli_bench;

/* Print the causes of an error in one line, outermost first; returns the exit code. */
int cli_fail(const struct ptm_error *err);

/* Write out what stdio holds of standard output.  Returns 0, or the exit code after a failure,
 * which is printed once. */
int cli_flush(void);

/* One line on standard error, "ptmill: ..." and a newline, in one write. */
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
