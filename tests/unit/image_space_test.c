/* SPDX-License-Identifier: Apache-2.0
 *
 * Address spaces: ELF images (written byte by byte after the ELF specification), raw images, maps
 * files, overlaps.
 */
#include "image/space.h"

#include "base/bytes.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[] = "/tmp/ptm_space_XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[4][300];
	static unsigned turn;
	char *out = path[turn++ % 4];

	(void)snprintf(out, sizeof(path[0]), "%s/%s", dir, name);
	return out;
}

static const char *put(const char *name, const void *data, size_t len)
{
	const char *path = in_dir(name);
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	if (len > 0)
		assert_int_equal(fwrite(data, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	return path;
}

static const char *put_text(const char *name, const char *text)
{
	return put(name, text, strlen(text));
}

/* ---- ELF files ---- */

struct elf64 {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[4];
	uint8_t note[36];
	uint8_t code[64];
	uint8_t data[32];
};

static const uint8_t note[36] = {4,   0,   0,   0, 20,   0,    0,    0,    3,  0,  0,  0,
				 'G', 'N', 'U', 0, 0xde, 0xad, 0xbe, 0xef, 1,  2,  3,  4,
				 5,   6,   7,   8, 9,    10,   11,   12,   13, 14, 15, 0xff};

/* PT_NOTE, data, code (at offset 0x148 or so, not page-aligned), data. */
static struct elf64 make_elf64(uint16_t type, uint64_t base)
{
	struct elf64 e = {0};
	size_t code = offsetof(struct elf64, code), data = offsetof(struct elf64, data);

	memcpy(e.eh.e_ident, ELFMAG, SELFMAG);
	e.eh.e_ident[EI_CLASS] = ELFCLASS64;
	e.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	e.eh.e_ident[EI_VERSION] = EV_CURRENT;
	e.eh.e_type = type;
	e.eh.e_machine = EM_X86_64;
	e.eh.e_version = EV_CURRENT;
	e.eh.e_phoff = offsetof(struct elf64, ph);
	e.eh.e_ehsize = sizeof(e.eh);
	e.eh.e_phentsize = sizeof(e.ph[0]);
	e.eh.e_phnum = 4;
	e.ph[0] = (Elf64_Phdr){PT_NOTE, PF_R, offsetof(struct elf64, note), base, base, 36, 36, 4};
	e.ph[1] = (Elf64_Phdr){PT_LOAD, PF_R, 0, base, base, code, code, 4096};
	e.ph[2] =
		(Elf64_Phdr){PT_LOAD, PF_R | PF_X, code, base + 0x1000 + code, base + 0x1000 + code,
			     64,      0x200,       4096};
	e.ph[3] = (Elf64_Phdr){PT_LOAD,       PF_R | PF_W, data, base + 0x3000,
			       base + 0x3000, 32,          64,   4096};
	memcpy(e.note, note, sizeof(note));
	for (unsigned i = 0; i < 64; i++)
		e.code[i] = (uint8_t)(0x80 + i);
	return e;
}

struct elf32 {
	Elf32_Ehdr eh;
	Elf32_Phdr ph[1];
	uint8_t code[16];
};

static struct elf32 make_elf32(void)
{
	struct elf32 e = {0};
	uint32_t code = offsetof(struct elf32, code);

	memcpy(e.eh.e_ident, ELFMAG, SELFMAG);
	e.eh.e_ident[EI_CLASS] = ELFCLASS32;
	e.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	e.eh.e_ident[EI_VERSION] = EV_CURRENT;
	e.eh.e_type = ET_EXEC;
	e.eh.e_machine = EM_386;
	e.eh.e_version = EV_CURRENT;
	e.eh.e_phoff = offsetof(struct elf32, ph);
	e.eh.e_ehsize = sizeof(e.eh);
	e.eh.e_phentsize = sizeof(e.ph[0]);
	e.eh.e_phnum = 1;
	e.ph[0] = (Elf32_Phdr){PT_LOAD, code, 0x8048000 + code, 0x8048000 + code,
			       16,      16,   PF_R | PF_X,      4096};
	memset(e.code, 0xc3, sizeof(e.code));
	return e;
}

static struct ptm_space *sealed(struct ptm_space *space)
{
	struct ptm_error err = {0};

	assert_int_equal(ptm_space_seal(space, &err), 0);
	return space;
}

/* How many mappings have no image, and their bytes. */
static size_t missing(const struct ptm_space *space, uint64_t *bytes)
{
	size_t n = 0;

	*bytes = 0;
	for (size_t i = 0; i < ptm_space_count(space); i++) {
		struct ptm_mapping m = ptm_space_get(space, i);

		if (m.data != NULL)
			continue;
		n++;
		*bytes += m.end - m.begin;
	}
	return n;
}

static void check(const struct ptm_space *space, uint64_t ip, int byte, size_t want_avail)
{
	size_t avail = 1234;
	const uint8_t *p = ptm_space_at(space, ip, &avail);

	if (byte < 0) {
		assert_null(p);
		assert_int_equal(avail, 0);
		return;
	}
	assert_non_null(p);
	assert_int_equal(*p, byte);
	assert_int_equal(avail, want_avail);
}

static void check_mapping(const struct ptm_space *space, size_t i, uint64_t begin, uint64_t end,
			  uint64_t offset, const char *path)
{
	struct ptm_mapping m = ptm_space_get(space, i);

	assert_int_equal(m.begin, begin);
	assert_int_equal(m.end, end);
	assert_int_equal(m.file_offset, offset);
	assert_string_equal(m.path, path);
}

static void test_elf64(void **state)
{
	struct elf64 e = make_elf64(ET_EXEC, 0x400000);
	size_t code = offsetof(struct elf64, code);
	const char *path = put("a64", &e, sizeof(e));
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};
	uint64_t at = 0x401000 + code;

	(void)state;
	assert_int_equal(ptm_space_add_elf(space, path, false, 0, &err), 0);
	(void)sealed(space);
	/* B67: executable segments only, and of these only what the file has. */
	assert_int_equal(ptm_space_count(space), 1);
	check_mapping(space, 0, at, at + 64, code, path);
	assert_string_equal(ptm_space_get(space, 0).build_id,
			    "deadbeef0102030405060708090a0b0c0d0e0fff");
	check(space, at - 1, -1, 0);
	check(space, at, 0x80, 64);
	check(space, at + 63, 0xbf, 1);
	check(space, at + 64, -1, 0);
	check(space, 0x400000, -1, 0);
	check(space, 0, -1, 0);
	check(space, UINT64_MAX, -1, 0);
	ptm_space_destroy(space);
}

static void test_elf_base(void **state)
{
	struct elf64 pie = make_elf64(ET_DYN, 0),
		     high = make_elf64(ET_EXEC, UINT64_C(0xffffffff81000123));
	size_t code = offsetof(struct elf64, code);
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};
	const char *path = put("pie", &pie, sizeof(pie)),
		   *kernel = put("kernel", &high, sizeof(high));

	(void)state;
	assert_int_equal(ptm_space_add_elf(space, path, true, UINT64_C(0x7f0000001fff), &err), 0);
	/* The same file twice, and one moved down, through the top of the address space. */
	assert_int_equal(ptm_space_add_elf(space, path, true, UINT64_C(0x7f0000100000), &err), 0);
	assert_int_equal(ptm_space_add_elf(space, kernel, true, 0x10000, &err), 0);
	(void)sealed(space);
	assert_int_equal(ptm_space_count(space), 3);
	check(space, 0x11123 + code, 0x80, 64);
	check(space, UINT64_C(0x7f0000002000) + code, 0x80, 64);
	check(space, UINT64_C(0x7f0000101000) + code, 0x80, 64);
	assert_ptr_equal(ptm_space_get(space, 1).data, ptm_space_get(space, 2).data);
	ptm_space_destroy(space);
}

static void test_elf32(void **state)
{
	struct elf32 e = make_elf32();
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};

	(void)state;
	assert_int_equal(ptm_space_add_elf(space, put("a32", &e, sizeof(e)), false, 0, &err), 0);
	(void)sealed(space);
	check(space, 0x8048000 + offsetof(struct elf32, code), 0xc3, 16);
	assert_string_equal(ptm_space_get(space, 0).build_id, "");
	ptm_space_destroy(space);
}

/* Add an ELF file that must be refused with @code and a line that names the file. */
static void refuse(const void *data, size_t len, enum ptm_err code)
{
	const char *path = put("bad", data, len);
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};

	assert_int_equal(ptm_space_add_elf(space, path, false, 0, &err), -(int)code);
	assert_int_equal(err.code, code);
	assert_non_null(strstr(err.cause[0].text, path));
	assert_int_equal(ptm_space_add_elf(space, path, false, 0, NULL), -(int)code);
	(void)sealed(space);
	ptm_space_destroy(space);
}

static void test_elf_malformed(void **state)
{
	const struct elf64 good = make_elf64(ET_EXEC, 0x400000);
	struct elf32 good32 = make_elf32();
	struct elf64 e;

	(void)state;
	e = good;
	e.eh.e_machine = EM_AARCH64;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.eh.e_ident[EI_DATA] = ELFDATA2MSB;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.ph[2].p_flags = PF_R;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.ph[2].p_type = PT_GNU_STACK;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.ph[2].p_offset = UINT64_MAX - 8;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.ph[2].p_filesz = e.ph[2].p_memsz = UINT64_MAX;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.ph[2].p_memsz = 63;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.ph[2].p_vaddr = UINT64_MAX - 62; /* B64: the 64th byte is beyond the end */
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.eh.e_phoff = UINT64_MAX - 16;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.eh.e_phnum = 0xfffe;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	e = good;
	e.eh.e_phnum = 0;
	refuse(&e, sizeof(e), PTM_E_FORMAT);
	refuse("", 0, PTM_E_FORMAT);
	refuse("hello, world", 12, PTM_E_FORMAT);
	good32.ph[0].p_offset = 0xfffffff8;
	refuse(&good32, sizeof(good32), PTM_E_FORMAT);
}

/* Cut at every byte: refused, without reading past the end, until the code is complete. */
static void test_elf_truncated(void **state)
{
	struct elf64 e = make_elf64(ET_EXEC, 0x400000);
	size_t enough = offsetof(struct elf64, data);

	(void)state;
	for (size_t n = 0; n < enough; n++)
		refuse(&e, n, PTM_E_FORMAT);
	for (size_t n = enough; n <= sizeof(e); n++) {
		struct ptm_space *space = ptm_space_create();
		struct ptm_error err = {0};

		assert_int_equal(ptm_space_add_elf(space, put("cut", &e, n), false, 0, &err), 0);
		(void)sealed(space);
		assert_int_equal(ptm_space_count(space), 1);
		ptm_space_destroy(space);
	}
}

/* Every bit of the headers and the note flipped: any verdict, but no crash and no mapping beyond
 * the file. */
static void test_elf_flipped(void **state)
{
	struct elf64 good = make_elf64(ET_EXEC, 0x400000), e;

	(void)state;
	for (size_t bit = 0; bit < offsetof(struct elf64, code) * 8; bit++) {
		struct ptm_space *space = ptm_space_create();
		struct ptm_error err = {0};

		e = good;
		((uint8_t *)&e)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		(void)ptm_space_add_elf(space, put("flip", &e, sizeof(e)), false, 0, &err);
		(void)sealed(space);
		for (size_t i = 0; i < ptm_space_count(space); i++) {
			struct ptm_mapping m = ptm_space_get(space, i);

			assert_true(m.file_offset <= sizeof(e) &&
				    m.end - m.begin <= sizeof(e) - m.file_offset);
		}
		ptm_space_destroy(space);
	}
}

static void test_missing_file(void **state)
{
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};

	(void)state;
	assert_int_equal(ptm_space_add_elf(space, "/nonexistent/x", false, 0, &err),
			 -PTM_E_NOINPUT);
	assert_non_null(strstr(err.cause[0].text, "/nonexistent/x"));
	assert_int_equal(ptm_space_add_raw(space, dir, 0, UINT64_MAX, 0, &err), -PTM_E_NOINPUT);
	assert_int_equal(ptm_space_add_maps(space, "/nonexistent/x", NULL, &err), -PTM_E_NOINPUT);
	assert_int_equal(ptm_space_add_maps(space, "/nonexistent/x", NULL, NULL), -PTM_E_NOINPUT);
	(void)sealed(space);
	assert_int_equal(ptm_space_count(space), 0);
	check(space, 0, -1, 0);
	ptm_space_destroy(space);
	ptm_space_destroy(NULL);
}

/* ---- raw images and overlaps ---- */

static void add_raw(struct ptm_space *space, const char *path, uint64_t from, uint64_t to,
		    uint64_t base)
{
	struct ptm_error err = {0};

	assert_int_equal(ptm_space_add_raw(space, path, from, to, base, &err), 0);
}

static void test_raw(void **state)
{
	const char *path = put_text("raw", "0123456789");
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};

	(void)state;
	add_raw(space, path, 0, UINT64_MAX, 0x1000);
	add_raw(space, path, 3, 7, 0x2000);
	assert_int_equal(ptm_space_add_raw(space, path, 3, 3, 0x3000, &err), -PTM_E_USAGE);
	assert_int_equal(ptm_space_add_raw(space, path, 7, 3, 0x3000, &err), -PTM_E_USAGE);
	assert_int_equal(ptm_space_add_raw(space, path, 0, 11, 0x3000, &err), -PTM_E_USAGE);
	assert_int_equal(ptm_space_add_raw(space, path, 10, UINT64_MAX, 0x3000, &err),
			 -PTM_E_USAGE);
	(void)sealed(space);
	assert_int_equal(ptm_space_count(space), 2);
	check(space, 0x1000, '0', 10);
	check(space, 0x1009, '9', 1);
	check(space, 0x100a, -1, 0);
	check(space, 0x2000, '3', 4);
	check(space, 0x2004, -1, 0);
	ptm_space_destroy(space);
}

static void test_top(void **state)
{
	const char *path = put_text("raw", "0123456789abcdef");
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};
	char buf[16];

	(void)state;
	assert_int_equal(ptm_space_add_raw(space, path, 0, UINT64_MAX, UINT64_MAX - 14, &err),
			 -PTM_E_FORMAT);
	add_raw(space, path, 0, UINT64_MAX, UINT64_MAX - 15);
	add_raw(space, path, 4, 8, 0);
	(void)sealed(space);
	check_mapping(space, 1, UINT64_MAX - 15, 0, 0, path);
	check(space, UINT64_MAX, 'f', 1);
	check(space, UINT64_MAX - 15, '0', 16);
	/* Address 0 is not behind the last one. */
	assert_int_equal(ptm_space_read(space, UINT64_MAX - 3, buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "cdef", 4);
	assert_int_equal(ptm_space_read(space, 2, buf, sizeof(buf)), 2);
	ptm_space_destroy(space);
}

static void test_overlap(void **state)
{
	const char *a = put_text("A", "aaaaaaaaaaaaaaaa"), *b = put_text("B", "bbbb"),
		   *c = put_text("C", "cccccccc");
	struct ptm_space *space = ptm_space_create();
	char buf[32];

	(void)state;
	add_raw(space, a, 0, 16,
		0x100); /* 100..110, then a hole in the middle, then both ends cut */
	add_raw(space, b, 0, 4, 0x106);
	add_raw(space, c, 0, 8, 0x0fc);
	add_raw(space, c, 0, 8, 0x10e);
	(void)sealed(space);
	assert_int_equal(ptm_space_count(space), 5);
	check_mapping(space, 0, 0x0fc, 0x104, 0, c);
	check_mapping(space, 1, 0x104, 0x106, 4, a);
	check_mapping(space, 2, 0x106, 0x10a, 0, b);
	check_mapping(space, 3, 0x10a, 0x10e, 10, a);
	check_mapping(space, 4, 0x10e, 0x116, 0, c);
	assert_int_equal(ptm_space_read(space, 0xfc, buf, sizeof(buf)), 26);
	assert_memory_equal(buf, "ccccccccaabbbbaaaacccccccc", 26);
	ptm_space_destroy(space);
}

/* Random overlaps against a painted array. */
static void test_overlap_random(void **state)
{
	uint8_t file[256], painted[512];
	const char *path;
	unsigned seed = 12345;

	(void)state;
	for (unsigned i = 0; i < 256; i++)
		file[i] = (uint8_t)i;
	path = put("ramp", file, sizeof(file));
	for (unsigned round = 0; round < 300; round++) {
		struct ptm_space *space = ptm_space_create();
		int owner[512];

		memset(owner, -1, sizeof(owner));
		for (unsigned i = 0; i < 1 + round % 40; i++) {
			unsigned from, len, base;

			seed = seed * 1103515245 + 12345;
			from = seed >> 8 & 127;
			len = 1 + (seed >> 15 & 127);
			base = seed >> 22 & 255;
			add_raw(space, path, from, from + len, UINT64_MAX - 511 + base);
			memcpy(painted + base, file + from, len);
			for (unsigned j = 0; j < len; j++)
				owner[base + j] = (int)i;
		}
		(void)sealed(space);
		for (unsigned i = 0; i < 512; i++) {
			size_t avail;
			const uint8_t *p = ptm_space_at(space, UINT64_MAX - 511 + i, &avail);

			assert_int_equal(p != NULL, owner[i] >= 0);
			if (p == NULL)
				continue;
			assert_int_equal(*p, painted[i]);
			assert_true(i + avail <= 512);
			assert_memory_equal(p, painted + i, avail);
		}
		for (size_t i = 1; i < ptm_space_count(space); i++)
			assert_true(ptm_space_get(space, i - 1).end <=
				    ptm_space_get(space, i).begin);
		ptm_space_destroy(space);
	}
}

/* ---- maps ---- */

static void test_maps(void **state)
{
	static uint8_t file[10000];
	static const char text[] =
		"00400000-00401000 r--p 00000000 08:01 1234                               "
		"/bin/prog\n"
		"00401000-00403000 r-xp 00001000 08:01 1234                               "
		"/bin/prog\n"
		"00403000-00408000 r-xp 00001000 fd:1a 1234                               /bin/my "
		"prog (deleted)\n"
		"00408000-00409000 r-xp 00000000 08:01 1234                               "
		"/bin/new\\012line\n"
		"01000000-01001000 rw-p 00000000 00:00 0                                  [heap]\n"
		"7f0000000000-7f0000002000 r-xp 00000000 08:01 99                         "
		"/lib/gone.so\n"
		"7f0000002000-7f0000003000 rwxp 00000000 00:00 0\n"
		"7f0000003000-7f0000004000 rwxp 00000000 00:00 0 \n"
		"7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0                          [vdso]\n"
		"7ffe00002000-7ffe00003000 r-xp 00000000 00:00 0                          "
		"/bin/../bin/prog\n"
		"\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  "
		"[vsyscall]";
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};
	uint64_t bytes = 0;
	char path[300];

	(void)state;
	for (size_t i = 0; i < sizeof(file); i++)
		file[i] = (uint8_t)(i >> 4);
	(void)mkdir(in_dir("bin"), 0777);
	(void)put("bin/prog", file, sizeof(file));
	(void)put("bin/my prog", file, 5000);
	(void)put("bin/new\nline", file, 16);
	assert_int_equal(ptm_space_add_maps(space, put_text("maps", text), dir, &err), 0);
	(void)sealed(space);
	check(space, 0x400000, -1, 0);
	check(space, 0x401000, file[0x1000], 0x1000 * 2 - (0x1000 * 3 - sizeof(file)));
	check(space, 0x400000 + sizeof(file) - 1, file[sizeof(file) - 1], 1);
	check(space, 0x400000 + sizeof(file), -1, 0);
	/* A file shorter than its mapping: what it has; pages that it does not have are missing. */
	check(space, 0x403000, file[0x1000], 5000 - 0x1000);
	check(space, 0x403000 + 5000 - 0x1000, -1, 0);
	check(space, 0x408000, file[0], 16);
	check(space, UINT64_C(0x7f0000000000), -1, 0);
	check(space, UINT64_C(0xffffffffff600000), -1, 0);
	assert_int_equal(ptm_space_count(space), 3 + 7);
	(void)snprintf(path, sizeof(path), "%s/bin/my prog", dir);
	check_mapping(space, 2, 0x404000, 0x408000, 0x2000, path);
	(void)snprintf(path, sizeof(path), "%s/lib/gone.so", dir);
	check_mapping(space, 4, UINT64_C(0x7f0000000000), UINT64_C(0x7f0000002000), 0, path);
	check_mapping(space, 5, UINT64_C(0x7f0000002000), UINT64_C(0x7f0000003000), 0,
		      "[anonymous]");
	check_mapping(space, 7, UINT64_C(0x7ffe00000000), UINT64_C(0x7ffe00001000), 0, "[vdso]");
	check_mapping(space, 9, UINT64_C(0xffffffffff600000), UINT64_C(0xffffffffff601000), 0,
		      "[vsyscall]");
	assert_null(ptm_space_get(space, 4).data);
	assert_int_equal(missing(space, &bytes), 7);
	assert_int_equal(bytes, 0x4000 + 0x2000 + 0x1000 * 5);
	ptm_space_destroy(space);
}

/* An image given by another option takes the place of a missing one, before or after it. */
static void test_maps_missing_yields(void **state)
{
	static const char line[] = "1000-2000 r-xp 0 0:0 0 [vdso]\n2000-3000 r-xp 0 0:0 0 [x]\n";
	const char *maps = put_text("maps", line), *raw = put_text("raw", "0123456789abcdef");

	(void)state;
	for (int after = 0; after < 2; after++) {
		struct ptm_space *space = ptm_space_create();
		struct ptm_error err = {0};
		uint64_t bytes;

		if (!after)
			add_raw(space, raw, 0, 16, 0x1ff8);
		assert_int_equal(ptm_space_add_maps(space, maps, NULL, &err), 0);
		if (after)
			add_raw(space, raw, 0, 16, 0x1ff8);
		(void)sealed(space);
		check(space, 0x1ff7, -1, 0);
		check(space, 0x1ff8, '0', 16);
		check(space, 0x2007, 'f', 1);
		assert_int_equal(missing(space, &bytes), 2);
		assert_int_equal(bytes, 0x2000 - 16);
		ptm_space_destroy(space);
	}
}

static void test_maps_malformed(void **state)
{
	static const char *const bad[] = {
		"hello",
		"00401000 r-xp 00001000 08:01 1234 /bin/x",
		"00401000-00400000 r-xp 00001000 08:01 1234 /bin/x",
		"00401000-00401000 r-xp 00001000 08:01 1234 /bin/x",
		"00401000-00402000 r-x 00001000 08:01 1234 /bin/x",
		"00401000-00402000 r-xpp 00001000 08:01 1234 /bin/x",
		"00401000-00402000 r-xp 08:01 1234 /bin/x",
		"00401000-00402000 r-xp 00001000 0801 1234 /bin/x",
		"00401000-00402000 r-xp 00001000 08:01 /bin/x",
		"00401000-00402000 r-xp 00001000 08:01 12x /bin/x",
		"00401000-10000000000000000 r-xp 00001000 08:01 12 /bin/x",
		"00401000-00402000",
		"00401000-",
		"-",
		" ",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ptm_space *space = ptm_space_create();
		struct ptm_error err = {0};
		char text[200];

		(void)snprintf(text, sizeof(text), "1000-2000 r-xp 0 0:0 0 [vdso]\n%s\n", bad[i]);
		if (ptm_space_add_maps(space, put_text("maps", text), NULL, &err) != -PTM_E_FORMAT)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(strstr(err.cause[0].text, "line=2"));
		ptm_space_destroy(space);
	}
}

/* A NUL in a line, and our own maps as the kernel writes them. */
static void test_maps_odd(void **state)
{
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err = {0};
	size_t avail;
	uint8_t code[16];

	(void)state;
	assert_int_equal(ptm_space_add_maps(space,
					    put("maps", "1000-2000 r-xp 0 0:0 0 [v\0o]\n", 29),
					    NULL, &err),
			 -PTM_E_FORMAT);
	assert_int_equal(ptm_space_add_maps(space, put("maps", "", 0), NULL, &err), 0);
	assert_int_equal(ptm_space_add_maps(space, "/proc/self/maps", NULL, &err), 0);
	(void)sealed(space);
	/* The code of this function is what the image has: it has no relocations. */
	assert_non_null(ptm_space_at(space, (uint64_t)(uintptr_t)&test_maps_odd, &avail));
	assert_true(avail >= 16);
	assert_int_equal(ptm_space_read(space, (uint64_t)(uintptr_t)&test_maps_odd, code, 16), 16);
	assert_memory_equal(code, (const void *)(uintptr_t)&test_maps_odd, 16);
	ptm_space_destroy(space);
}

/* One mapping a file, under whatever name. */
static void test_dedupe(void **state)
{
	const char *path = put_text("raw", "0123456789");
	char *other = strdup(in_dir("link"));
	struct ptm_space *space = ptm_space_create();

	(void)state;
	assert_non_null(other);
	assert_int_equal(symlink(path, other), 0);
	add_raw(space, path, 0, 10, 0x1000);
	add_raw(space, other, 0, 10, 0x2000);
	add_raw(space, path, 0, 10, 0x3000);
	(void)sealed(space);
	assert_ptr_equal(ptm_space_get(space, 0).data, ptm_space_get(space, 1).data);
	assert_ptr_equal(ptm_space_get(space, 0).data, ptm_space_get(space, 2).data);
	assert_string_equal(ptm_space_get(space, 1).path, other);
	ptm_space_destroy(space);
	free(other);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* Spaces beside each other share files, not mappings; what lies over a space hides what is there,
 * and a file that is not there hides nothing. */
static void test_beside(void **state)
{
	struct ptm_space *a = ptm_space_create(), *b = ptm_space_create_beside(a);
	const char *one = put("one", "1111", 4), *two = put("two", "2222", 4);
	const uint8_t *in_a, *in_b;
	struct stat st;
	size_t avail;

	(void)state;
	assert_int_equal(ptm_space_add_file(a, one, 0x1002, 4, 0, "", NULL), 0);
	assert_int_equal(ptm_space_add_file(a, in_dir("gone"), 0x2000, 4, 0, "", NULL), 0);
	assert_int_equal(ptm_space_add_file(b, two, 0x1000, 4, 0, "0123", NULL), 0);
	assert_int_equal(ptm_space_add_file(b, one, 0x2000, 4, 0, "", NULL), 0);
	assert_int_equal(ptm_space_overlay(b, a, NULL), 0);
	assert_int_equal(ptm_space_seal(a, NULL), 0);
	assert_int_equal(ptm_space_seal(b, NULL), 0);
	assert_null(ptm_space_at(a, 0x1000, &avail));
	in_a = ptm_space_at(a, 0x1002, &avail);
	in_b = ptm_space_at(b, 0x1002, &avail);
	assert_ptr_equal(in_a, in_b); /* one mapping of the file */
	assert_int_equal(*ptm_space_at(b, 0x1001, &avail), '2');
	assert_int_equal(avail, 1);
	assert_int_equal(*ptm_space_at(b, 0x2000, &avail), '1');
	assert_string_equal(ptm_space_get(b, 0).wanted_id, "0123");
	assert_int_equal(stat(two, &st), 0);
	assert_true(ptm_space_has_file(a, st.st_dev, st.st_ino));
	assert_false(ptm_space_has_file(a, st.st_dev, st.st_ino + 1000000));
	ptm_space_destroy(a);
	assert_int_equal(*ptm_space_at(b, 0x1002, &avail), '1'); /* the files outlive @a */
	ptm_space_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beside),
		cmocka_unit_test(test_elf64),
		cmocka_unit_test(test_elf_base),
		cmocka_unit_test(test_elf32),
		cmocka_unit_test(test_elf_malformed),
		cmocka_unit_test(test_elf_truncated),
		cmocka_unit_test(test_elf_flipped),
		cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_top),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_overlap_random),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_maps_missing_yields),
		cmocka_unit_test(test_maps_malformed),
		cmocka_unit_test(test_maps_odd),
		cmocka_unit_test(test_dedupe),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
