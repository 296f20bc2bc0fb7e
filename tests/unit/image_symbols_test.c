/* SPDX-License-Identifier: Apache-2.0
 *
 * image_symbols_test.c - names of places in ELF files that are written byte by byte after the ELF
 * specification.  Lines of source are tested with a program that a compiler made
 * (tests/cli/t20_hot.sh).
 */
#include "image/symbols.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define ADDRESS UINT64_C(0x401000)
#define CODE    0x100u /* bytes of code */

#define NAMES "\0outer\0inner\0zlocal\0aweak\0yglobal\0label\0next\0data\0undefined\0nowhere\0far"

struct elf {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh[5]; /* none, code, data, symbols, names */
	Elf64_Sym symbols[16];
	char names[sizeof(NAMES)];
	uint8_t code[CODE];
	uint8_t data[16];
};

static size_t name_at(const char *name)
{
	for (size_t i = 0; i < sizeof(NAMES); i += strlen(NAMES + i) + 1)
		if (strcmp(NAMES + i, name) == 0)
			return i;
	fail_msg("%s", name);
	return 0;
}

static void put_symbol(struct elf *e, size_t i, const char *name, unsigned bind, unsigned type,
		       uint64_t value, uint64_t size, uint16_t section)
{
	e->symbols[i] = (Elf64_Sym){.st_name = (Elf64_Word)name_at(name),
				    .st_info = (unsigned char)ELF64_ST_INFO(bind, type),
				    .st_shndx = section,
				    .st_value = ADDRESS + value,
				    .st_size = size};
}

static void put_headers(struct elf *e)
{
	memcpy(e->eh.e_ident, ELFMAG, SELFMAG);
	e->eh.e_ident[EI_CLASS] = ELFCLASS64;
	e->eh.e_ident[EI_DATA] = ELFDATA2LSB;
	e->eh.e_ident[EI_VERSION] = EV_CURRENT;
	e->eh.e_type = ET_EXEC;
	e->eh.e_machine = EM_X86_64;
	e->eh.e_version = EV_CURRENT;
	e->eh.e_phoff = offsetof(struct elf, ph);
	e->eh.e_shoff = offsetof(struct elf, sh);
	e->eh.e_ehsize = sizeof(e->eh);
	e->eh.e_phentsize = sizeof(e->ph);
	e->eh.e_phnum = 1;
	e->eh.e_shentsize = sizeof(e->sh[0]);
	e->eh.e_shnum = 5;
	e->ph = (Elf64_Phdr){.p_type = PT_LOAD,
			     .p_flags = PF_R | PF_X,
			     .p_offset = offsetof(struct elf, code),
			     .p_vaddr = ADDRESS,
			     .p_filesz = CODE,
			     .p_memsz = CODE};
	e->sh[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				.sh_addr = ADDRESS,
				.sh_offset = offsetof(struct elf, code),
				.sh_size = CODE};
	e->sh[2] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				.sh_flags = SHF_ALLOC,
				.sh_addr = ADDRESS,
				.sh_offset = offsetof(struct elf, data),
				.sh_size = CODE};
	e->sh[3] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
				.sh_offset = offsetof(struct elf, symbols),
				.sh_size = sizeof(e->symbols),
				.sh_link = 4,
				.sh_entsize = sizeof(e->symbols[0])};
	e->sh[4] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct elf, names),
				.sh_size = sizeof(e->names)};
}

static struct elf make_elf(void)
{
	struct elf e = {.names = NAMES};

	put_headers(&e);
	put_symbol(&e, 1, "inner", STB_LOCAL, STT_FUNC, 0x10, 8, 1);
	put_symbol(&e, 2, "outer", STB_GLOBAL, STT_FUNC, 0, 0x40, 1);
	/* Three names for one place. */
	put_symbol(&e, 3, "zlocal", STB_LOCAL, STT_FUNC, 0x48, 8, 1);
	put_symbol(&e, 4, "aweak", STB_WEAK, STT_FUNC, 0x48, 8, 1);
	put_symbol(&e, 5, "yglobal", STB_GLOBAL, STT_FUNC, 0x48, 8, 1);
	put_symbol(&e, 6, "label", STB_LOCAL, STT_NOTYPE, 0x50, 0, 1);
	put_symbol(&e, 7, "next", STB_GLOBAL, STT_FUNC, 0x60, 8, 1);
	/* None of these names code. */
	put_symbol(&e, 8, "data", STB_GLOBAL, STT_OBJECT, 0x70, 8, 1);
	put_symbol(&e, 9, "data", STB_GLOBAL, STT_FUNC, 0x70, 8, 2);
	put_symbol(&e, 10, "undefined", STB_GLOBAL, STT_FUNC, 0x70, 8, SHN_UNDEF);
	put_symbol(&e, 11, "nowhere", STB_GLOBAL, STT_FUNC, 0x70, 8, 77);
	put_symbol(&e, 12, "far", STB_GLOBAL, STT_FUNC, 0x1000, 8, 1);
	put_symbol(&e, 13, "data", STB_GLOBAL, STT_FUNC, 0x70, 8, 1);
	e.symbols[13].st_name = 0xffffff;
	/* Its end lies behind that of the address space. */
	put_symbol(&e, 14, "nowhere", STB_GLOBAL, STT_FUNC, 0xf0, UINT64_MAX, 1);
	return e;
}

struct env {
	struct ptm_space *space;
	const struct ptm_image *image;
	struct ptm_symbols *symbols;
};

static struct env open_file(const void *data, size_t len)
{
	char path[] = "/tmp/ptm-symbols-XXXXXX";
	const int fd = mkstemp(path);
	struct env env = {.space = ptm_space_create(), .symbols = ptm_symbols_create()};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	assert_int_equal(close(fd), 0);
	assert_int_equal(ptm_space_add_raw(env.space, path, 0, UINT64_MAX, 0x10000, NULL), 0);
	assert_int_equal(ptm_space_seal(env.space, NULL), 0);
	assert_int_equal(unlink(path), 0);
	env.image = ptm_space_get(env.space, 0).image;
	assert_non_null(env.image);
	return env;
}

static void close_file(struct env *env)
{
	ptm_symbols_destroy(env->symbols);
	ptm_space_destroy(env->space);
}

/* @name NULL: none. */
static void check(const struct env *env, uint64_t offset, const char *name, uint64_t begin)
{
	struct ptm_symbol symbol = {.name = NULL};
	const int found = ptm_symbols_find(env->symbols, env->image,
					   offsetof(struct elf, code) + offset, &symbol, NULL);

	assert_int_equal(found, name != NULL);
	if (name == NULL)
		return;
	assert_string_equal(symbol.name, name);
	assert_int_equal(symbol.begin, offsetof(struct elf, code) + begin);
}

static void test_find(void **state)
{
	static const struct {
		uint64_t offset;
		const char *name;
		uint64_t begin;
	} places[] = {
		{0, "outer", 0},         {0xf, "outer", 0},       {0x10, "inner", 0x10},
		{0x17, "inner", 0x10},   {0x18, "outer", 0},      {0x3f, "outer", 0},
		{0x40, NULL, 0},         {0x48, "yglobal", 0x48}, {0x50, "label", 0x50},
		{0x5f, "label", 0x50},   {0x60, "next", 0x60},    {0x67, "next", 0x60},
		{0x68, NULL, 0},         {0x70, NULL, 0},         {0xef, NULL, 0},
		{0xff, "nowhere", 0xf0}, {CODE, NULL, 0},
	};
	const size_t n = sizeof(places) / sizeof(places[0]);
	struct elf e = make_elf();
	struct env env = open_file(&e, sizeof(e));
	const char *file;
	unsigned line;

	(void)state;
	for (size_t i = 0; i < n; i++)
		check(&env, places[i].offset, places[i].name, places[i].begin);
	/* In any order: the one found last is tried first. */
	for (size_t i = 0; i < 7 * n; i++)
		check(&env, places[i * 5 % n].offset, places[i * 5 % n].name,
		      places[i * 5 % n].begin);
	assert_int_equal(ptm_symbols_line(env.symbols, env.image, offsetof(struct elf, code), &file,
					  &line, NULL),
			 0);
	close_file(&env);
}

/* Files that are cut, or are none, have no names; nothing is read beyond their end. */
static void test_damaged(void **state)
{
	const struct elf e = make_elf();
	struct ptm_symbol symbol;
	const char *file;
	unsigned line;

	(void)state;
	for (size_t len = 1; len < sizeof(e); len += 7) {
		struct env env = open_file(&e, len);

		assert_in_range(ptm_symbols_find(env.symbols, env.image, offsetof(struct elf, code),
						 &symbol, NULL),
				0, 1);
		assert_int_equal(ptm_symbols_line(env.symbols, env.image,
						  offsetof(struct elf, code), &file, &line, NULL),
				 0);
		close_file(&env);
	}
	for (size_t i = 0; i < offsetof(struct elf, symbols); i++) {
		struct elf bad = e;
		struct env env;

		((uint8_t *)&bad)[i] ^= 0x81;
		env = open_file(&bad, sizeof(bad));
		assert_in_range(ptm_symbols_find(env.symbols, env.image, offsetof(struct elf, code),
						 &symbol, NULL),
				0, 1);
		close_file(&env);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
