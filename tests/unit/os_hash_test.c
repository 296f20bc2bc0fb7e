/* SPDX-License-Identifier: Apache-2.0
 *
 * os_hash_test.c - digests of files.
 *
 * The digests of short inputs are those that xxhsum -H3 prints, that of a long one is the library's
 * of the bytes in one piece; those of blocks are the library's of each block.
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

/* Blocks smaller and larger than what is read at a time, and files that end within one or not. */
static void test_blocks(void **state)
{
	static const size_t lens[] = {0, 1, 4095, 4096, 4097, 3 << 20, (3 << 20) + 17};
	uint8_t *big = (uint8_t *)malloc(lens[6]);
	char path[] = "/tmp/ptm-hash-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_non_null(big);
	assert_true(fd >= 0);
	for (size_t i = 0; i < lens[6]; i++)
		big[i] = (uint8_t)(i * i >> 7);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		assert_int_equal(pwrite(fd, big, lens[i], 0), lens[i]);
		for (size_t size = 4096; size <= 4 << 20; size *= 8) {
			struct ptm_block_sums sums = {.size = size};
			uint64_t digest, bytes;

			assert_int_equal(ptm_hash_blocks(path, NULL, &sums, &digest, &bytes, NULL),
					 0);
			assert_true(digest == XXH3_64bits(big, lens[i]));
			assert_true(bytes == lens[i]);
			assert_int_equal(sums.digests.n, (lens[i] + size - 1) / size);
			for (size_t at = 0; at < lens[i]; at += size) {
				const size_t len = lens[i] - at < size ? lens[i] - at : size;

				assert_true(sums.digests.v[at / size] ==
					    XXH3_64bits(big + at, len));
				assert_true(ptm_hash_bytes(big + at, len) ==
					    XXH3_64bits(big + at, len));
			}
			free(sums.digests.v);
		}
	}
	(void)close(fd);
	(void)unlink(path);
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
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
