/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - the progress line: bytes, rate, time left.
 */
#include "progress.h"

#include "number.h"

#include <stdio.h>
#include <unistd.h>

/* Where the data go to the same terminal, the line would be torn apart. */
static bool is_useful(const struct cli_opts *opts)
{
	return isatty(STDERR_FILENO) == 1 && (opts->output != NULL || isatty(STDOUT_FILENO) != 1);
}

void cli_meter_init(struct cli_meter *meter, const struct cli_opts *opts)
{
	meter->is_shown = false;
	meter->is_on = opts->progress == CLI_PROGRESS_ALWAYS ||
		       (opts->progress == CLI_PROGRESS_AUTO && !opts->quiet && is_useful(opts));
}

void cli_meter_update(void *ctx, uint64_t done, uint64_t total, double seconds)
{
	struct cli_meter *meter = ctx;
	double rate = seconds > 0 ? (double)done / seconds : 0;
	char a[16], b[16], c[16], tail[96] = "";

	if (!meter->is_on)
		return;
	(void)cli_bytes(done, a, sizeof(a));
	(void)cli_bytes((uint64_t)rate, c, sizeof(c));
	if (total > 0 && done <= total && rate > 0) {
		uint64_t left = (uint64_t)((double)(total - done) / rate);

		(void)snprintf(tail, sizeof(tail), " of %s (%u %%), %s/s, ETA %u:%02u",
			       cli_bytes(total, b, sizeof(b)),
			       (unsigned)((double)done * 100 / (double)total), c,
			       (unsigned)(left / 60), (unsigned)(left % 60));
	} else {
		(void)snprintf(tail, sizeof(tail), ", %s/s", c);
	}
	(void)fprintf(stderr, "\rptmill: %s%s\033[K", a, tail);
	(void)fflush(stderr);
	meter->is_shown = true;
}

void cli_meter_clear(struct cli_meter *meter)
{
	if (meter->is_shown)
		(void)fputs("\r\033[K", stderr);
	meter->is_shown = false;
}

void cli_meter_warn(void *ctx, const char *line)
{
	cli_meter_clear(ctx);
	cli_say("warning: %s", line);
}
