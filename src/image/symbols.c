/* SPDX-License-Identifier: Apache-2.0
 *
 * symbols.c - symbols by libelf, over mapped files; lines by libdw, from the same files.
 *
 * Of each image: its PT_LOAD segments, which turn offsets in the file into the addresses that
 * symbols and DWARF speak of; an array of functions by begin, of which each knows the one it lies
 * in; an array of the address ranges of compilation units.  All are made when first asked for.
 */
#include "image/symbols.h"

#include "base/vec.h"
#include "image/space_build.h"

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNITS_MAX (1u << 20) /* ranges: one may be named by any number of units */
#define DEBUG_DIR "/usr/lib/debug/.build-id"

struct segment {
	uint64_t offset, size, address;
};

struct function {
	uint64_t begin, end; /* addresses */
	const char *name;
	uint32_t outer; /* index of the function that it lies in, plus one; 0: none */
	uint8_t rank;   /* of names for the same begin the lowest is taken */
};

struct unit {
	uint64_t begin, end; /* addresses */
	Dwarf_Off die;
};

/* A file that is read, not mapped: libdw changes section headers in memory where it decompresses.
 */
struct file {
	int fd;
	Elf *elf; /* NULL: there is none */
};

/* What is known of an image. */
struct facts {
	const struct ptm_image *image;
	Elf *elf;                 /* over the mapped file; NULL: not ELF */
	struct file whole, debug; /* the same file again; that of debug information */
	PTM_VEC(struct segment) segments;
	PTM_VEC(struct function) functions;
	size_t last; /* function found last */
	bool has_units;
	Dwarf *dwarf;
	PTM_VEC(struct unit) units;
};

struct ptm_symbols {
	void *tree; /* of struct facts, by image */
	struct facts *last;
};

struct ptm_symbols *ptm_symbols_create(void)
{
	return (struct ptm_symbols *)calloc(1, sizeof(struct ptm_symbols));
}

static void close_file(struct file *file)
{
	if (file->elf == NULL)
		return;
	(void)elf_end(file->elf);
	(void)close(file->fd);
}

static void free_facts(void *node)
{
	struct facts *facts = (struct facts *)node;

	(void)pthread_mutex_lock(&ptm_elf_lock);
	if (facts->dwarf != NULL)
		(void)dwarf_end(facts->dwarf);
	close_file(&facts->debug);
	close_file(&facts->whole);
	if (facts->elf != NULL)
		(void)elf_end(facts->elf);
	(void)pthread_mutex_unlock(&ptm_elf_lock);
	free(facts->segments.v);
	free(facts->functions.v);
	free(facts->units.v);
	free(facts);
}

void ptm_symbols_destroy(struct ptm_symbols *symbols)
{
	if (symbols == NULL)
		return;
	tdestroy(symbols->tree, free_facts);
	free(symbols);
}

static bool read_segments(struct facts *facts)
{
	size_t n = 0;
	GElf_Phdr ph;

	if (elf_getphdrnum(facts->elf, &n) != 0)
		return true;
	for (size_t i = 0; i < n; i++) {
		if (gelf_getphdr(facts->elf, (int)i, &ph) == NULL || ph.p_type != PT_LOAD)
			continue;
		if (!ptm_vec_push(&facts->segments,
				  ((struct segment){ph.p_offset, ph.p_filesz, ph.p_vaddr})))
			return false;
	}
	return true;
}

/* Address of the byte at @offset of the file: as the ELF file states it. */
static bool address_of(const struct facts *facts, uint64_t offset, uint64_t *address)
{
	for (size_t i = 0; i < facts->segments.n; i++) {
		const struct segment *s = &facts->segments.v[i];

		if (offset - s->offset < s->size) {
			*address = s->address + (offset - s->offset);
			return true;
		}
	}
	return false;
}

static uint64_t offset_of(const struct facts *facts, uint64_t address)
{
	for (size_t i = 0; i < facts->segments.n; i++) {
		const struct segment *s = &facts->segments.v[i];

		if (address - s->address < s->size)
			return s->offset + (address - s->address);
	}
	return 0;
}

/* The section of @type, with its header; NULL if there is none. */
static Elf_Scn *find_section(Elf *elf, unsigned type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section)) != NULL)
		if (gelf_getshdr(section, header) != NULL && header->sh_type == type)
			return section;
	return NULL;
}

/* Does @symbol name code?  Then @function is what it says of it. */
static bool is_code(Elf *elf, const GElf_Sym *symbol, const char *name, struct function *function)
{
	static const uint8_t binding_rank[] = {[STB_LOCAL] = 2, [STB_GLOBAL] = 0, [STB_WEAK] = 1};
	const unsigned type = GELF_ST_TYPE(symbol->st_info), bind = GELF_ST_BIND(symbol->st_info);
	GElf_Shdr section;

	if (name == NULL || *name == '\0' ||
	    (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
		return false;
	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE ||
	    gelf_getshdr(elf_getscn(elf, symbol->st_shndx), &section) == NULL ||
	    (section.sh_flags & SHF_EXECINSTR) == 0 ||
	    symbol->st_value - section.sh_addr >= section.sh_size)
		return false;
	*function = (struct function){.begin = symbol->st_value, .name = name};
	function->rank = (uint8_t)((bind < 3 ? binding_rank[bind] : 3) +
				   (symbol->st_size == 0 || type == STT_NOTYPE ? 4 : 0));
	/* Without a size: to the next symbol, which is not known yet, or the end of the section. */
	if (symbol->st_size == 0 ||
	    __builtin_add_overflow(symbol->st_value, symbol->st_size, &function->end)) {
		function->end = section.sh_addr + section.sh_size;
		function->rank |= 8;
	}
	return true;
}

static bool read_symbols(struct facts *facts, Elf *elf, unsigned type)
{
	GElf_Shdr header;
	Elf_Scn *section = find_section(elf, type, &header);
	Elf_Data *data = section != NULL ? elf_getdata(section, NULL) : NULL;
	size_t n = data != NULL && header.sh_entsize > 0 ? data->d_size / header.sh_entsize : 0;
	GElf_Sym symbol;

	if (n > INT32_MAX)
		n = INT32_MAX;
	for (size_t i = 0; i < n; i++) {
		struct function function;

		if (gelf_getsym(data, (int)i, &symbol) == NULL)
			break;
		if (is_code(elf, &symbol, elf_strptr(elf, header.sh_link, symbol.st_name),
			    &function) &&
		    !ptm_vec_push(&facts->functions, function))
			return false;
	}
	return true;
}

static int by_begin(const void *a, const void *b)
{
	const struct function *x = (const struct function *)a, *y = (const struct function *)b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* One name for each begin; who lies in whom. */
static void order_functions(struct facts *facts)
{
	struct function *v = facts->functions.v;
	size_t n = 0;

	if (facts->functions.n == 0)
		return;
	qsort(v, facts->functions.n, sizeof(*v), by_begin);
	for (size_t i = 0; i < facts->functions.n; i++)
		if (n == 0 || v[n - 1].begin != v[i].begin)
			v[n++] = v[i];
	facts->functions.n = n;
	for (size_t i = 0; i < n; i++) {
		uint32_t outer = (uint32_t)i;

		if ((v[i].rank & 8) != 0 && i + 1 < n && v[i + 1].begin < v[i].end)
			v[i].end = v[i + 1].begin;
		while (outer > 0 && v[outer - 1].end <= v[i].begin)
			outer = v[outer - 1].outer;
		v[i].outer = outer;
	}
}

static void open_file(struct file *file, const char *path)
{
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (file->fd < 0)
		return;
	file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	if (file->elf != NULL && elf_kind(file->elf) != ELF_K_ELF) {
		(void)elf_end(file->elf);
		file->elf = NULL;
	}
	if (file->elf == NULL)
		(void)close(file->fd);
}

/* The image as a file, if it still is that one. */
static void open_whole(struct facts *facts)
{
	const struct ptm_image *image = facts->image;
	struct stat st;

	open_file(&facts->whole, image->path);
	if (facts->whole.elf != NULL && (fstat(facts->whole.fd, &st) < 0 ||
					 st.st_dev != image->dev || st.st_ino != image->ino)) {
		close_file(&facts->whole);
		facts->whole.elf = NULL;
	}
}

/* The file of debug information of a stripped image. */
static void open_debug(struct facts *facts)
{
	const char *id = facts->image->build_id;
	char path[sizeof(DEBUG_DIR) + 2 * PTM_BUILD_ID_MAX + 16];

	if (strlen(id) < 3)
		return;
	(void)snprintf(path, sizeof(path), DEBUG_DIR "/%.2s/%s.debug", id, id + 2);
	open_file(&facts->debug, path);
}

static bool read_image(struct facts *facts)
{
	GElf_Shdr header;

	facts->elf = ptm_elf_open(&facts->image->map);
	if (facts->elf == NULL)
		return true;
	if (!read_segments(facts))
		return false;
	if (find_section(facts->elf, SHT_SYMTAB, &header) != NULL)
		return read_symbols(facts, facts->elf, SHT_SYMTAB);
	open_debug(facts);
	if (facts->debug.elf != NULL && find_section(facts->debug.elf, SHT_SYMTAB, &header) != NULL)
		return read_symbols(facts, facts->debug.elf, SHT_SYMTAB);
	return read_symbols(facts, facts->elf, SHT_DYNSYM);
}

static int by_image(const void *a, const void *b)
{
	const struct facts *x = (const struct facts *)a, *y = (const struct facts *)b;

	return x->image == y->image ? 0 : x->image < y->image ? -1 : 1;
}

/* NULL: out of memory. */
static struct facts *facts_of(struct ptm_symbols *symbols, const struct ptm_image *image,
			      struct ptm_error *err)
{
	struct facts *facts;
	void *node = NULL;
	bool ok = false;

	if (symbols->last != NULL && symbols->last->image == image)
		return symbols->last;
	facts = (struct facts *)calloc(1, sizeof(*facts));
	if (facts != NULL) {
		facts->image = image;
		node = tsearch(facts, &symbols->tree, by_image);
	}
	if (node != NULL && *(struct facts **)node != facts) {
		free(facts);
		return symbols->last = *(struct facts **)node;
	}
	if (node != NULL) {
		(void)pthread_mutex_lock(&ptm_elf_lock);
		ok = read_image(facts);
		(void)pthread_mutex_unlock(&ptm_elf_lock);
		order_functions(facts);
	} else {
		free(facts);
	}
	if (!ok) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for symbols");
		return NULL;
	}
	return symbols->last = facts;
}

/* The innermost function at @address: its index plus one; 0: none. */
static size_t function_at(const struct facts *facts, uint64_t address)
{
	const struct function *v = facts->functions.v;
	size_t lo = 0, hi = facts->functions.n;

	if (facts->last < hi && v[facts->last].begin <= address && address < v[facts->last].end &&
	    (facts->last + 1 == hi || address < v[facts->last + 1].begin))
		return facts->last + 1;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;

		if (v[mid].begin <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	while (lo > 0 && v[lo - 1].end <= address)
		lo = v[lo - 1].outer;
	return lo;
}

int ptm_symbols_find(struct ptm_symbols *symbols, const struct ptm_image *image, uint64_t offset,
		     struct ptm_symbol *symbol, struct ptm_error *err)
{
	struct facts *facts = facts_of(symbols, image, err);
	const struct function *function;
	uint64_t address;
	size_t i;

	if (facts == NULL)
		return -PTM_E_NOMEM;
	if (!address_of(facts, offset, &address))
		return 0;
	i = function_at(facts, address);
	if (i == 0)
		return 0;
	facts->last = i - 1;
	function = &facts->functions.v[i - 1];
	symbol->name = function->name;
	symbol->begin = offset_of(facts, function->begin);
	return 1;
}

static int by_unit(const void *a, const void *b)
{
	const struct unit *x = (const struct unit *)a, *y = (const struct unit *)b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->die == y->die ? 0 : x->die < y->die ? -1 : 1;
}

/* The ranges of all units. */
static bool read_units(struct facts *facts)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;

	open_whole(facts);
	if (facts->whole.elf != NULL)
		facts->dwarf = dwarf_begin_elf(facts->whole.elf, DWARF_C_READ, NULL);
	if (facts->dwarf == NULL && facts->debug.elf != NULL)
		facts->dwarf = dwarf_begin_elf(facts->debug.elf, DWARF_C_READ, NULL);
	if (facts->dwarf == NULL)
		return true;
	while (dwarf_get_units(facts->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0) {
		ptrdiff_t at = 0;
		Dwarf_Addr base, begin, end;

		while (facts->units.n < UNITS_MAX &&
		       (at = dwarf_ranges(&die, at, &base, &begin, &end)) > 0)
			if (!ptm_vec_push(&facts->units,
					  ((struct unit){begin, end, dwarf_dieoffset(&die)})))
				return false;
	}
	if (facts->units.n > 0)
		qsort(facts->units.v, facts->units.n, sizeof(*facts->units.v), by_unit);
	return true;
}

/* Call with ptm_elf_lock held. */
static int line_at(struct facts *facts, uint64_t address, const char **file, unsigned *line)
{
	size_t lo = 0, hi = facts->units.n;
	Dwarf_Line *found;
	Dwarf_Die die;
	int n;

	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;

		if (facts->units.v[mid].begin <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || facts->units.v[lo - 1].end <= address ||
	    dwarf_offdie(facts->dwarf, facts->units.v[lo - 1].die, &die) == NULL)
		return 0;
	found = dwarf_getsrc_die(&die, address);
	if (found == NULL || dwarf_lineno(found, &n) != 0 || n <= 0)
		return 0;
	*file = dwarf_linesrc(found, NULL, NULL);
	*line = (unsigned)n;
	return *file != NULL;
}

int ptm_symbols_line(struct ptm_symbols *symbols, const struct ptm_image *image, uint64_t offset,
		     const char **file, unsigned *line, struct ptm_error *err)
{
	struct facts *facts = facts_of(symbols, image, err);
	uint64_t address;
	bool ok = true;
	int found = 0;

	if (facts == NULL)
		return -PTM_E_NOMEM;
	if (facts->elf == NULL || !address_of(facts, offset, &address))
		return 0;
	(void)pthread_mutex_lock(&ptm_elf_lock);
	if (!facts->has_units)
		ok = read_units(facts);
	facts->has_units = true;
	if (ok && facts->units.n > 0)
		found = line_at(facts, address, file, line);
	(void)pthread_mutex_unlock(&ptm_elf_lock);
	return ok ? found : PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for lines of source");
}
