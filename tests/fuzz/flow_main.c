/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_main.c - runs fuzz_flow.c on seeds, without a fuzzer: as a test, or for hours.
 *
 *   flow_seeds [--first N] [--seeds N] [--seconds N] [--survey 1]
 *
 * Prints how many cases, how fast, and which differences were explained.  A seed that fails aborts
 * and is named.
 */
#include "fuzz_flow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(double seconds)
{
	const struct flow_counts *c = &flow_counts;

	(void)printf("%" PRIu64 " cases in %.1f s: %.0f a second, %.1f M instructions decoded a "
		     "second\n%" PRIu64 " decodes, %" PRIu64 " instructions, %" PRIu64
		     " bytes; %" PRIu64 " sound traces not for libipt; %" PRIu64
		     " caches were full\n",
		     c->cases, seconds, (double)c->cases / seconds,
		     (double)c->instructions / seconds * 1e-6, c->decodes, c->instructions,
		     c->bytes, c->not_for_libipt, c->generations);
	if (c->complaints != 0)
		(void)printf("%12" PRIu64 " complaints\n", c->complaints);
	for (unsigned i = 0; i < FLOW_REASONS; i++)
		if (c->frames[i] != 0)
			(void)printf("%12" PRIu64 " frames: %s\n", c->frames[i],
				     flow_reason_names[i]);
}

int main(int argc, char **argv)
{
	uint64_t first = 1, seeds = UINT64_MAX, seconds = UINT64_MAX, survey = 0;
	double begin = now();

	for (int i = 1; i < argc; i += 2) {
		uint64_t *option = strcmp(argv[i], "--first") == 0     ? &first
				   : strcmp(argv[i], "--seeds") == 0   ? &seeds
				   : strcmp(argv[i], "--seconds") == 0 ? &seconds
				   : strcmp(argv[i], "--survey") == 0  ? &survey
								       : NULL;

		if (option == NULL || i + 1 == argc) {
			(void)fprintf(
				stderr,
				"usage: %s [--first N] [--seeds N] [--seconds N] [--survey 1]\n",
				argv[0]);
			return 64;
		}
		*option = strtoull(argv[i + 1], NULL, 0);
	}
	flow_survey = survey != 0;
	if (seeds == UINT64_MAX && seconds == UINT64_MAX)
		seeds = 1000;
	for (uint64_t k = 0; k < seeds && now() - begin < (double)seconds; k++) {
		uint8_t input[8];

		for (unsigned i = 0; i < 8; i++)
			input[i] = (uint8_t)((first + k) >> (56 - 8 * i));
		(void)LLVMFuzzerTestOneInput(input, sizeof(input));
	}
	report(now() - begin);
	flow_fuzz_survey();
	flow_fuzz_fini();
	return 0;
}
