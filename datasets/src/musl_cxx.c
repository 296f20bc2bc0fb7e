/* SPDX-License-Identifier: Apache-2.0
 *
 * musl_cxx.c - the two symbols of glibc that gcc 12's C++ runtime asks for and musl has not, so that
 * shapes.cpp links with musl: no C library but a permissively licensed one is in its image.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* As the unwinder expects it on x86-64. */
struct dl_find_object {
	unsigned long long flags;
	void *map_start, *map_end;
	struct link_map *link_map;
	void *eh_frame; /* of type PT_GNU_EH_FRAME */
	unsigned long long reserved[7];
};

/* Are there no other threads? */
char __libc_single_threaded = 1;

struct search {
	uintptr_t address;
	struct dl_find_object *result;
};

static int look(struct dl_phdr_info *info, size_t size, void *context)
{
	const struct search *s = context;
	uintptr_t eh_frame = 0;
	int found = 0;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_GNU_EH_FRAME)
			eh_frame = begin;
		if (p->p_type == PT_LOAD && s->address >= begin &&
		    s->address - begin < p->p_memsz) {
			s->result->map_start = (void *)begin;
			s->result->map_end = (void *)(begin + p->p_memsz);
			found = 1;
		}
	}
	s->result->eh_frame = (void *)eh_frame;
	return found && eh_frame != 0;
}

int _dl_find_object(void *address, struct dl_find_object *result);
int _dl_find_object(void *address, struct dl_find_object *result)
{
	struct search s = {(uintptr_t)address, result};

	return dl_iterate_phdr(look, &s) != 0 ? 0 : -1;
}
