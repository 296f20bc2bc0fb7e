/* SPDX-License-Identifier: Apache-2.0
 *
 * os_hash_test.c - digests of files.
 *
 * The digests of short inputs are those that xxhsum -H3 prints, that of a long one is the library's
 * of the bytes in one piece.
 */
#include "os/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static void check(const void *data, size_t len, uint64_t expect)
{
	char path[] = "/tmp/ptm-hash-XXXXXX";
	int fd = mkstemp(path);
	uint64_t digest = 1, bytes = 1;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	(void)close(fd);
	assert_int_equal(ptm_hash_file(path, NULL, &digest, &bytes, NULL), 0);
	(void)unlink(path);
	assert_true(digest == expect);
	assert_true(bytes == len);
}

static void test_values(void **state)
{
	size_t len = (3U << 20) + 17;
	uint8_t *big = (uint8_t *)malloc(len);

	(void)state;
	check("", 0, UINT64_C(0x2d06800538d394c2));
	check("a", 1, UINT64_C(0xe6c632b61e964e1f));
	check("abc", 3, UINT64_C(0x78af5f94892f3950));
	assert_non_null(big);
	for (size_t i = 0; i < len; i++)
		big[i] = (uint8_t)(i * i >> 3);
	check(big, len, XXH3_64bits(big, len));
	/* Nothing is decompressed: an empty zstd frame has a digest of its own bytes. */
	memcpy(big, "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00", 9);
	check(big, 9, XXH3_64bits(big, 9));
	free(big);
}

static void test_no_file(void **state)
{
	char dir[] = "/tmp/ptm-hash-XXXXXX", path[64];
	struct ptm_error err = {0};
	uint64_t digest, bytes;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(ptm_hash_file(dir, NULL, &digest, &bytes, &err), -PTM_E_NOINPUT);
	(void)snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(ptm_hash_file(path, NULL, &digest, &bytes, &err), -PTM_E_NOINPUT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(ptm_hash_file(path, NULL, &digest, &bytes, &err), -PTM_E_NOINPUT);
	assert_non_null(strstr(err.cause[0].text, "Not a regular file: path=\"/tmp/ptm-hash-"));
	(void)unlink(path);
	(void)rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
