/* SPDX-License-Identifier: Apache-2.0
 *
 * elf.c - executable segments and build-id of an ELF file, by libelf over the mapped file.
 *
 * Only the program headers count: the file bytes [p_offset, p_offset + p_filesz) of every PF_X
 * segment lie at p_vaddr.  What a loader would map beyond them (the rest of the page, memory up to
 * p_memsz) is not code of this file.  libelf keeps global state, therefore one lock for all of it.
 */
#include "image/space_build.h"

#include <gelf.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define PAGE_MASK UINT64_C(0xfff)

pthread_mutex_t ptm_elf_lock = PTHREAD_MUTEX_INITIALIZER;

Elf *ptm_elf_open(const struct ptm_map *map)
{
	Elf *elf;

	if (elf_version(EV_CURRENT) == EV_NONE || map->len == 0)
		return NULL;
	elf = elf_memory((char *)(uintptr_t)map->data, map->len);
	if (elf != NULL && elf_kind(elf) != ELF_K_ELF) {
		(void)elf_end(elf);
		elf = NULL;
	}
	return elf;
}

static int check_header(Elf *elf, const char *path, struct ptm_error *err)
{
	GElf_Ehdr header;

	if (gelf_getehdr(elf, &header) == NULL)
		return PTM_FAIL(err, PTM_E_FORMAT, "Cannot read ELF header: path=\"%s\": %s", path,
				elf_errmsg(-1));
	if ((header.e_machine != EM_X86_64 && header.e_machine != EM_386) ||
	    header.e_ident[EI_DATA] != ELFDATA2LSB)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot use ELF image: path=\"%s\": machine %u is not x86; give "
				"the traced binary",
				path, header.e_machine);
	return 0;
}

/* Number of program headers and the page of the lowest PT_LOAD segment. */
static int survey(Elf *elf, const char *path, size_t *n, uint64_t *lowest, struct ptm_error *err)
{
	GElf_Phdr ph;

	*lowest = UINT64_MAX;
	if (elf_getphdrnum(elf, n) != 0)
		return PTM_FAIL(err, PTM_E_FORMAT, "Cannot read program headers: path=\"%s\": %s",
				path, elf_errmsg(-1));
	for (size_t i = 0; i < *n; i++) {
		if (gelf_getphdr(elf, (int)i, &ph) == NULL)
			return PTM_FAIL(err, PTM_E_FORMAT,
					"Cannot read program header: path=\"%s\" index=%zu: %s",
					path, i, elf_errmsg(-1));
		if (ph.p_type == PT_LOAD && ph.p_vaddr < *lowest)
			*lowest = ph.p_vaddr;
	}
	*lowest &= ~PAGE_MASK;
	return 0;
}

static int map_segments(struct ptm_space *space, Elf *elf, const struct ptm_image_name *name,
			bool has_base, uint64_t base, struct ptm_error *err)
{
	uint64_t lowest, delta;
	size_t n, used = 0;
	GElf_Phdr ph;

	PTM_TRY(check_header(elf, name->path, err));
	PTM_TRY(survey(elf, name->path, &n, &lowest, err));
	/* Modulo 2^64: a kernel at the top may be moved down. */
	delta = has_base ? (base & ~PAGE_MASK) - lowest : 0;
	for (size_t i = 0; i < n; i++) {
		if (gelf_getphdr(elf, (int)i, &ph) == NULL || ph.p_type != PT_LOAD ||
		    (ph.p_flags & PF_X) == 0 || ph.p_filesz == 0)
			continue;
		if (ph.p_filesz > ph.p_memsz)
			return PTM_FAIL(err, PTM_E_FORMAT,
					"Malformed ELF segment: path=\"%s\" index=%zu: more bytes "
					"in the file (%" PRIu64 ") than in memory (%" PRIu64 ")",
					name->path, i, (uint64_t)ph.p_filesz, (uint64_t)ph.p_memsz);
		PTM_TRY(ptm_space_map(space, name, ph.p_vaddr + delta, ph.p_filesz, ph.p_offset,
				      err));
		used++;
	}
	if (used == 0)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot use ELF image: path=\"%s\" has no executable segment; "
				"object and debug files "
				"have none, give the linked binary",
				name->path);
	return 0;
}

int ptm_space_add_elf(struct ptm_space *space, const char *path, bool has_base, uint64_t base,
		      struct ptm_error *err)
{
	const struct ptm_image_name *name;
	Elf *elf;
	int rc;

	PTM_TRY(ptm_space_open(space, path, &name, err));
	(void)pthread_mutex_lock(&ptm_elf_lock);
	elf = ptm_elf_open(&name->image->map);
	if (elf == NULL) {
		rc = PTM_FAIL(err, PTM_E_FORMAT,
			      "Cannot use ELF image: path=\"%s\" is not an ELF file; see --raw",
			      path);
	} else {
		rc = map_segments(space, elf, name, has_base, base, err);
		(void)elf_end(elf);
	}
	(void)pthread_mutex_unlock(&ptm_elf_lock);
	return rc;
}

static bool note_build_id(Elf_Data *data, char *out)
{
	static const char digits[] = "0123456789abcdef";
	size_t at = 0, after, name, desc;
	const uint8_t *bytes = data->d_buf;
	GElf_Nhdr note;

	while ((after = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    memcmp(bytes + name, "GNU", sizeof("GNU")) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= PTM_BUILD_ID_MAX) {
			for (size_t i = 0; i < note.n_descsz; i++) {
				*out++ = digits[bytes[desc + i] >> 4];
				*out++ = digits[bytes[desc + i] & 15];
			}
			*out = '\0';
			return true;
		}
		at = after;
	}
	return false;
}

void ptm_elf_build_id(const struct ptm_map *map, char out[2 * PTM_BUILD_ID_MAX + 1])
{
	GElf_Phdr ph;
	bool found = false;
	size_t n = 0;
	Elf *elf;

	out[0] = '\0';
	(void)pthread_mutex_lock(&ptm_elf_lock);
	elf = ptm_elf_open(map);
	if (elf != NULL && elf_getphdrnum(elf, &n) != 0)
		n = 0;
	for (size_t i = 0; i < n && !found; i++) {
		Elf_Data *data;

		if (gelf_getphdr(elf, (int)i, &ph) == NULL || ph.p_type != PT_NOTE ||
		    ph.p_offset > map->len || ph.p_filesz > map->len - ph.p_offset)
			continue;
		data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
					    ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		found = data != NULL && data->d_size > 0 && note_build_id(data, out);
	}
	if (elf != NULL)
		(void)elf_end(elf);
	(void)pthread_mutex_unlock(&ptm_elf_lock);
}
