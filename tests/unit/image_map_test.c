/* SPDX-License-Identifier: Apache-2.0
 *
 * image_map_test.c - instructions read by way of the cells of a file are those that the decoder
 * finds in its bytes: at every offset of real code, the first time and again, wherever the file is
 * mapped, whoever looked first, and where a mapping ends inside an instruction.
 */
#include "image/code_map.h"

#include "base/error.h"
#include "image/code.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* What is there by the bytes alone: as ptm_code_insn() is documented, without its code. */
static int expected(const struct ptm_space *space, uint64_t ip, enum ptm_mode mode,
		    struct ptm_insn *insn)
{
	uint8_t bytes[15];
	size_t n = ptm_space_read(space, ip, bytes, sizeof(bytes));
	int rc = n > 0 ? ptm_insn_decode(bytes, n, ip, mode, insn) : -PTM_E_NOMAP;

	return rc == -PTM_E_TRUNCATED ? -PTM_E_NOMAP : rc;
}

static void compare(struct ptm_code_cursor *c, uint64_t ip)
{
	struct ptm_insn want = {0}, got = {0};
	int rc = expected(c->space, ip, c->mode, &want);

	if (ptm_code_read(c, ip, &got) != rc)
		fail_msg("0x%llx: not the length %d", (unsigned long long)ip, rc);
	if (rc > 0 && (got.len != want.len || got.klass != want.klass || got.binds != want.binds ||
		       got.guessed != want.guessed || got.target != want.target))
		fail_msg("0x%llx: not the same instruction", (unsigned long long)ip);
}

/* Every offset of every mapping, in steps of @step. */
static size_t compare_all(const struct ptm_space *space, uint64_t step)
{
	struct ptm_code_cursor c;
	size_t n = 0;

	ptm_code_cursor_init(&c, space, PTM_MODE_64);
	for (size_t i = 0; i < ptm_space_count(space); i++) {
		const struct ptm_mapping m = ptm_space_get(space, i);

		for (uint64_t ip = m.begin; m.data != NULL && ip != m.end; n++) {
			compare(&c, ip);
			ip += m.end - ip < step ? m.end - ip : step;
		}
	}
	return n;
}

static void seal(struct ptm_space *space)
{
	struct ptm_error err;

	assert_int_equal(ptm_space_seal(space, &err), 0);
}

/* The path of this process' libc. */
static char *libc_path(char *path, size_t size)
{
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	while (fgets(path, (int)size, f) != NULL) {
		char *at = strchr(path, '/');

		if (at == NULL || strstr(at, "/libc.so.6") == NULL)
			continue;
		at[strcspn(at, "\n")] = '\0';
		(void)fclose(f);
		return at;
	}
	fail_msg("no libc is mapped");
	return NULL;
}

static void test_libc(void **state)
{
	char line[512], *path = libc_path(line, sizeof(line));
	struct ptm_space *low = ptm_space_create(), *high, *window;
	struct ptm_error err;

	(void)state;
	assert_int_equal(ptm_space_add_elf(low, path, true, 0x10000, &err), 0);
	seal(low);
	assert_true(compare_all(low, 1) > 1000000); /* cold */
	(void)compare_all(low, 1);                  /* warm */
	/* The same cells, elsewhere: above 2^63, too. */
	high = ptm_space_create_beside(low);
	assert_int_equal(ptm_space_add_elf(high, path, true, UINT64_C(0xffffffff80000000), &err),
			 0);
	seal(high);
	(void)compare_all(high, 3);
	/* Windows of it, that end anywhere: some follow each other, some do not. */
	window = ptm_space_create_beside(low);
	for (uint64_t i = 0; i < 3000; i++) {
		const uint64_t from = 0x30000 + i * 37;

		assert_int_equal(ptm_space_add_raw(window, path, from, from + 37,
						   0x700000000000 + i * 37 + i / 3, &err),
				 0);
	}
	seal(window);
	(void)compare_all(window, 1);
	ptm_space_destroy(window);
	ptm_space_destroy(high);
	ptm_space_destroy(low);
}

/* Of each dataset: small static programs, with other compilers. */
static void test_datasets(void **state)
{
	static const char *const names[] = {"compress",  "database", "everything", "generate",
					    "interpret", "shapes",   "threads",    "sig"};
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct ptm_space *space = ptm_space_create();
		char command[512], path[512] = "";
		struct ptm_error err;
		FILE *f;

		(void)snprintf(command, sizeof(command), "ls -d %s/datasets/%s/images/*",
			       PTM_SOURCE_DIR, names[i]);
		f = popen(command, "r");
		assert_non_null(f);
		while (fgets(path, sizeof(path), f) != NULL) {
			path[strcspn(path, "\n")] = '\0';
			assert_int_equal(
				ptm_space_add_elf(space, path, true, 0x10000000 * ++n, &err), 0);
		}
		(void)pclose(f);
		seal(space);
		(void)compare_all(space, 1);
		(void)compare_all(space, 1);
		ptm_space_destroy(space);
	}
	assert_true(n >= 8);
}

static struct ptm_space *space_of(const uint8_t *code, size_t n, uint64_t base)
{
	char path[] = "/tmp/ptm-map-XXXXXX";
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, code, n), n);
	close(fd);
	assert_int_equal(ptm_space_add_raw(space, path, 0, UINT64_MAX, base, &err), 0);
	seal(space);
	unlink(path);
	return space;
}

/* Every opcode of the one- and two-byte maps under every prefix that matters, with displacements
 * of either sign; at several places, as targets must not be truncated, or be so, by accident. */
static void test_opcodes(void **state)
{
	static const uint8_t prefixes[] = {0x00, 0x66, 0x67, 0xf2, 0xf3, 0x40, 0x48, 0xf0, 0x2e};
	static const uint64_t bases[] = {0, 0x1000, 0x80000000, UINT64_C(0xffffffffff000000)};
	static uint8_t code[2 * 9 * 3 * 256 * 16];
	size_t n = 0;

	(void)state;
	for (unsigned map = 0; map < 2; map++)
		for (unsigned p = 0; p < sizeof(prefixes); p++)
			for (unsigned modrm = 0; modrm < 3; modrm++)
				for (unsigned op = 0; op < 256; op++, n += 16) {
					uint8_t *b = code + n;

					memset(b, 0x80 + (int)op / 2, 16);
					if (prefixes[p] != 0)
						*b++ = prefixes[p];
					if (map == 1)
						*b++ = 0x0f;
					*b++ = (uint8_t)op;
					*b = (uint8_t)(modrm == 0   ? 0xd8
						       : modrm == 1 ? 0x20
								    : 0x01);
				}
	for (unsigned i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		struct ptm_space *space = space_of(code, n, bases[i]);

		(void)compare_all(space, 1);
		(void)compare_all(space, 1);
		ptm_space_destroy(space);
	}
}

/* 32 and 16-bit code at addresses that 64-bit code was read at, and outside of everything. */
static void test_modes(void **state)
{
	static const uint8_t code[] = {0x48, 0x89, 0xc0, 0x66, 0xe9, 0x00, 0x01, 0x00, 0x00, 0xc3};
	struct ptm_space *space = space_of(code, sizeof(code), 0x1000);

	(void)state;
	for (int round = 0; round < 2; round++)
		for (unsigned mode = PTM_MODE_64; mode <= PTM_MODE_16; mode++) {
			struct ptm_code_cursor c;

			ptm_code_cursor_init(&c, space, (enum ptm_mode)mode);
			for (uint64_t ip = 0xff0; ip < 0x1020; ip++)
				compare(&c, ip);
			compare(&c, 0);
			compare(&c, UINT64_MAX);
		}
	ptm_space_destroy(space);
}

static void *read_all(void *arg)
{
	(void)compare_all((const struct ptm_space *)arg, 5);
	return NULL;
}

/* Threads that fill the same cells. */
static void test_threads(void **state)
{
	char line[512], *path = libc_path(line, sizeof(line));
	struct ptm_space *space = ptm_space_create();
	struct ptm_error err;
	pthread_t threads[4];

	(void)state;
	assert_int_equal(ptm_space_add_raw(space, path, 0x30000, 0x50000, 0x1000, &err), 0);
	seal(space);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_all, space), 0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	ptm_space_destroy(space);
}

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Along the straight line through libc's code; the times are printed, not judged. */
static void test_cost(void **state)
{
	char line[512], *path = libc_path(line, sizeof(line));
	struct ptm_space *space = ptm_space_create();
	double ns[3] = {0};
	size_t n[3] = {0};
	struct ptm_error err;

	(void)state;
	assert_int_equal(ptm_space_add_raw(space, path, 0x30000, 0x130000, 0x1000, &err), 0);
	seal(space);
	for (int pass = 0; pass < 3; pass++) {
		struct ptm_code_cursor c;
		struct ptm_insn insn;
		double began = now();

		ptm_code_cursor_init(&c, space, PTM_MODE_64);
		for (uint64_t ip = 0x1000; ip < 0x100000; n[pass]++) {
			int len = pass == 0 ? ptm_code_insn(space, ip, PTM_MODE_64, &insn)
					    : ptm_code_read(&c, ip, &insn);

			ip += len > 0 ? (uint64_t)len : 1;
		}
		ns[pass] = (now() - began) * 1e9 / (double)n[pass];
	}
	assert_int_equal(n[0], n[1]);
	assert_int_equal(n[0], n[2]);
	print_message("ns an instruction: decoded %.1f, cold %.1f, warm %.1f (%zu)\n", ns[0], ns[1],
		      ns[2], n[0]);
	ptm_space_destroy(space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc),    cmocka_unit_test(test_datasets),
		cmocka_unit_test(test_opcodes), cmocka_unit_test(test_modes),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
