/* SPDX-License-Identifier: Apache-2.0
 *
 * desc_check.h - what must be true of every description that was read, and of every refusal.
 */
#ifndef PTM_FUZZ_DESC_CHECK_H
#define PTM_FUZZ_DESC_CHECK_H

#include "input/desc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);           \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void check_desc_map(const struct ptm_desc_map *map)
{
	size_t n = strlen(map->build_id);

	CHECK(map->path[0] != '\0' && map->name[0] != '\0');
	CHECK(n % 2 == 0 && n <= 128 && strspn(map->build_id, "0123456789abcdef") == n);
	CHECK(map->whole_elf || (map->size > 0 && map->address + map->size - 1 >= map->address));
}

static void check_desc_stream(const struct ptm_desc *desc, size_t i)
{
	const struct ptm_desc_stream *s = &desc->streams.v[i];

	CHECK(s->name[0] != '\0' && s->path[0] != '\0');
	CHECK(s->process == PTM_DESC_NO_PROCESS || s->process < desc->processes.n);
	CHECK(s->switches.n == 0 || (s->process == PTM_DESC_NO_PROCESS && desc->time.known));
	CHECK(s->blocks.size == 0 ||
	      (s->blocks.size >= 4096 && (s->blocks.size & (s->blocks.size - 1)) == 0 &&
	       s->blocks.digests.n ==
		       s->sum.bytes / s->blocks.size + (s->sum.bytes % s->blocks.size != 0)));
	for (size_t k = 0; k < i && i < 100; k++)
		CHECK(strcmp(desc->streams.v[k].name, s->name) != 0);
	for (size_t k = 1; k < s->switches.n; k++)
		CHECK(s->switches.v[k].tsc >= s->switches.v[k - 1].tsc);
}

static void check_desc(const struct ptm_desc *desc)
{
	CHECK(desc->streams.n > 0);
	CHECK(!desc->time.known || (desc->time.mult != 0 && desc->time.shift < 64));
	for (size_t i = 0; i < desc->streams.n; i++)
		check_desc_stream(desc, i);
	for (size_t i = 0; i < desc->kernel.n; i++)
		check_desc_map(&desc->kernel.v[i]);
	for (size_t p = 0; p < desc->processes.n; p++) {
		const struct ptm_desc_process *process = &desc->processes.v[p];

		for (size_t k = 0; k < p && p < 100; k++)
			CHECK(desc->processes.v[k].pid != process->pid);
		for (size_t i = 0; i < process->maps.n; i++)
			check_desc_map(&process->maps.v[i]);
	}
}

/* One line of text, and the code of something that is wrong with the input. */
static void check_refusal(const struct ptm_error *err, int ret)
{
	const char *text = err->cause[0].text;

	CHECK(ret == -(int)err->code);
	CHECK(err->code == PTM_E_FORMAT || err->code == PTM_E_NOINPUT || err->code == PTM_E_IO ||
	      err->code == PTM_E_TRUNCATED);
	CHECK(err->ncauses == 1 && text[0] != '\0');
	for (; *text != '\0'; text++)
		CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

#endif
