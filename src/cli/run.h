/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - a session from the options, a sink from the subcommand, and the run.
 */
#ifndef PTM_CLI_RUN_H
#define PTM_CLI_RUN_H

#include "opts.h"

/* What a subcommand adds to a run. */
struct cli_job {
	const struct cli_opts *opts;
	void *cmd; /* handed to the two below */
	struct ptm_sink *(*make_sink)(void *cmd, const struct ptm_session *session,
				      struct ptm_error *err);
	/* Before the sink is finished; may be NULL.  Returns the exit code of a run that succeeded.
	 */
	int (*after)(void *cmd, struct ptm_sink *sink, const struct ptm_run_stats *stats);
	bool decodes;      /* the summary counts instructions */
	bool needs_images; /* without any the run fails */
};

/* Give the inputs and images of @opts to @session.  Returns 0 or -PTM_E_*. */
int cli_session_fill(struct ptm_session *session, const struct cli_opts *opts,
		     struct ptm_error *err);

/* A subcommand that decodes: what it has of its own beside the options that all have. */
struct cli_decoding {
	const struct argp_option *options;
	/* Of these options, and of ARGP_KEY_END; as a parser of argp. */
	error_t (*parse)(int key, char *arg, struct argp_state *state, void *cmd);
	const char *doc; /* as in struct argp */
	struct cli_job job;
};

/* Parse the command line into @opts and @cmd, which holds them, run, and free what @opts holds;
 * returns the exit code. */
int cli_run_decoding(const struct cli_decoding *decoding, int argc, char **argv,
		     struct cli_opts *opts, void *cmd);

/* Run to the end, report on standard error; returns the exit code. */
int cli_run(const struct cli_job *job);

#endif
