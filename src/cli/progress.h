/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - one line on the terminal, rewritten while a run goes on.
 */
#ifndef PTM_CLI_PROGRESS_H
#define PTM_CLI_PROGRESS_H

#include "opts.h"

struct cli_meter {
	bool is_on;
	bool is_shown; /* a line stands on the terminal, and no newline behind it */
};

void cli_meter_init(struct cli_meter *meter, const struct cli_opts *opts);

/* A ptm_progress_fn; @ctx is the struct cli_meter. */
void cli_meter_update(void *ctx, uint64_t done, uint64_t total, double seconds);

/* Remove the line, so that another can be written. */
void cli_meter_clear(struct cli_meter *meter);

/* A ptm_warn_fn; @ctx is the struct cli_meter. */
void cli_meter_warn(void *ctx, const char *line);

#endif
