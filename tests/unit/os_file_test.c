/* SPDX-License-Identifier: Apache-2.0
 *
 * os_file_test.c - inputs: regular files, streams, zstd data whole and damaged, mappings.
 *
 * Compressed data is made by libzstd's one-shot compressor, which shares nothing with the reader
 * under test but the format; skippable frames are written by hand (RFC 8878, section 3.1.2).
 */
#include "os/file.h"

#include "base/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#define LEN ((size_t)700 * 1000) /* several blocks and input buffers */

static char dir[64];
static uint8_t plain[LEN];
static uint8_t packed[2 * LEN];
static uint8_t got[2 * LEN + 16];

/* Bytes that compress somewhat, from a linear congruential generator. */
static int make_data(void **state)
{
	uint32_t x = 1;

	(void)state;
	for (size_t i = 0; i < LEN; i++) {
		x = x * 1664525 + 1013904223;
		plain[i] = i % 7 == 0 ? 0x82 : (uint8_t)(x >> 25);
	}
	(void)strcpy(dir, "/tmp/ptm-file-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int drop_data(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

/* Write a file in the directory; the name is good until the next call. */
static const char *put(const char *name, const void *data, size_t len)
{
	static char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	return path;
}

static size_t pack(void *to, size_t room, const void *from, size_t len)
{
	size_t n = ZSTD_compress(to, room, from, len, 3);

	assert_false(ZSTD_isError(n));
	return n;
}

static struct ptm_file *must_open(const char *path)
{
	struct ptm_error err = {0};
	struct ptm_file *file = ptm_file_open(path, &err);

	if (file == NULL)
		fail_msg("cannot open: %s", err.cause[0].text);
	assert_string_equal(ptm_file_path(file), path);
	return file;
}

static void assert_mentions(const struct ptm_error *err, const char *what)
{
	assert_int_equal(err->ncauses, 1);
	if (strstr(err->cause[0].text, what) == NULL)
		fail_msg("\"%s\" does not mention \"%s\"", err->cause[0].text, what);
}

static void test_cannot_open(void **state)
{
	struct ptm_error err = {0};
	char path[128];

	(void)state;
	assert_null(ptm_file_open(dir, &err));
	assert_int_equal(err.code, PTM_E_NOINPUT);
	assert_mentions(&err, "directory");
	assert_mentions(&err, dir);
	(void)snprintf(path, sizeof(path), "%s/missing", dir);
	assert_null(ptm_file_open(path, &err));
	assert_int_equal(err.code, PTM_E_NOINPUT);
	assert_mentions(&err, "missing");
	assert_null(ptm_file_open("", &err));
	assert_int_equal(err.code, PTM_E_NOINPUT);
	/* Opens, but there is nothing at address 0. */
	assert_null(ptm_file_open("/proc/self/mem", &err));
	assert_int_equal(err.code, PTM_E_IO);
	assert_mentions(&err, "/proc/self/mem");
	ptm_file_close(NULL);
}

static void test_empty(void **state)
{
	struct ptm_file *file = must_open(put("empty", "", 0));
	char c;

	(void)state;
	assert_true(ptm_file_is_seekable(file));
	assert_int_equal(ptm_file_size(file), 0);
	assert_int_equal(ptm_file_read(file, &c, 1, NULL), 0);
	assert_int_equal(ptm_file_pread(file, &c, 1, 0, NULL), 0);
	ptm_file_close(file);
}

static void test_regular(void **state)
{
	struct ptm_file *file = must_open(put("plain", plain, LEN));

	(void)state;
	assert_true(ptm_file_is_seekable(file));
	assert_int_equal(ptm_file_size(file), LEN);
	assert_int_equal(ptm_file_read(file, got, 1000, NULL), 1000);
	assert_memory_equal(got, plain, 1000);
	assert_int_equal(ptm_file_pread(file, got, 5000, 123457, NULL), 5000);
	assert_memory_equal(got, plain + 123457, 5000);
	/* The positioned read has not moved the other. */
	assert_int_equal(ptm_file_read(file, got, 2 * LEN, NULL), LEN - 1000);
	assert_memory_equal(got, plain + 1000, LEN - 1000);
	assert_int_equal(ptm_file_read(file, got, 1, NULL), 0);
	/* At the end and beyond. */
	assert_int_equal(ptm_file_pread(file, got, 10, LEN - 4, NULL), 4);
	assert_int_equal(ptm_file_pread(file, got, 10, LEN, NULL), 0);
	assert_int_equal(ptm_file_pread(file, got, 10, LEN + 1, NULL), 0);
	assert_int_equal(ptm_file_pread(file, got, 10, INT64_MAX - 1, NULL), 0);
	assert_int_equal(ptm_file_pread(file, got, 10, INT64_MAX, NULL), 0);
	assert_int_equal(ptm_file_pread(file, got, 10, UINT64_MAX, NULL), 0);
	ptm_file_close(file);
}

static void test_shrinking(void **state)
{
	const char *path = put("shrinks", plain, 10000);
	struct ptm_file *file = must_open(path);

	(void)state;
	assert_int_equal(ptm_file_read(file, got, 100, NULL), 100);
	assert_int_equal(truncate(path, 3000), 0);
	assert_int_equal(ptm_file_pread(file, got, 5000, 2000, NULL), 1000);
	assert_int_equal(ptm_file_pread(file, got, 5000, 5000, NULL), 0);
	assert_int_equal(ptm_file_read(file, got, 9900, NULL), 2900);
	ptm_file_close(file);
}

/* Regular by its type, of size 0 by its word. */
static void test_proc_file(void **state)
{
	struct ptm_file *file = must_open("/proc/self/maps");

	(void)state;
	assert_false(ptm_file_is_seekable(file));
	assert_int_equal(ptm_file_size(file), 0);
	assert_true(ptm_file_read(file, got, sizeof(got), NULL) > 100);
	assert_int_equal(ptm_file_pread(file, got, 1, 0, NULL), -PTM_E_BUG);
	ptm_file_close(file);
}

/* Read the file in pieces of @piece and compare with @len bytes at @expect. */
static void assert_reads(const char *path, const uint8_t *expect, size_t len, size_t piece)
{
	struct ptm_file *file = must_open(path);
	size_t n = 0;

	assert_false(ptm_file_is_seekable(file));
	assert_int_equal(ptm_file_size(file), 0);
	for (;;) {
		int64_t r = ptm_file_read(file, got + n, piece, NULL);

		assert_true(r >= 0);
		n += (size_t)r;
		assert_true(n <= len);
		if ((size_t)r < piece)
			break;
	}
	assert_int_equal(n, len);
	assert_memory_equal(got, expect, len);
	assert_int_equal(ptm_file_read(file, got, 1, NULL), 0);
	ptm_file_close(file);
}

static void test_zst(void **state)
{
	static const size_t pieces[] = {1000 * 1000, 131072, 100000, 4096, 777, 7};
	size_t n = pack(packed, sizeof(packed), plain, LEN);
	const char *path = put("a.zst", packed, n);

	(void)state;
	assert_true(n >
		    300000); /* more than two input buffers, or this test is weaker than it looks */
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		assert_reads(path, plain, LEN, pieces[i]);
}

static void test_zst_empty_frame(void **state)
{
	size_t n = pack(packed, sizeof(packed), plain, 0);

	(void)state;
	assert_reads(put("nothing.zst", packed, n), plain, 0, 100);
}

static size_t skippable(uint8_t *to, uint32_t len)
{
	ptm_store_le(to, 0x184d2a57, 4);
	ptm_store_le(to + 4, len, 4);
	memset(to + 8, 0xaa, len);
	return 8 + len;
}

/* Frames one behind the other, empty and skippable ones among them, also first and last. */
static void test_zst_frames(void **state)
{
	size_t n = 0;

	(void)state;
	n += skippable(packed + n, 200000);
	n += pack(packed + n, sizeof(packed) - n, plain, 5);
	n += pack(packed + n, sizeof(packed) - n, plain + 5, 0);
	n += skippable(packed + n, 0);
	n += pack(packed + n, sizeof(packed) - n, plain + 5, 399995);
	n += pack(packed + n, sizeof(packed) - n, plain + 400000, LEN - 400000);
	n += skippable(packed + n, 3);
	assert_reads(put("frames.zst", packed, n), plain, LEN, 100000);
	assert_reads(put("frames.zst", packed, n), plain, LEN, 5);
}

static int read_all(const char *path, struct ptm_error *err)
{
	struct ptm_file *file = must_open(path);
	int64_t r;

	do
		r = ptm_file_read(file, got, 1000, err);
	while (r == 1000);
	if (r < 0) /* and it stays so */
		assert_int_equal(ptm_file_read(file, got, 1, NULL), r);
	ptm_file_close(file);
	return r < 0 ? (int)r : 0;
}

static void test_zst_truncated(void **state)
{
	size_t n = pack(packed, sizeof(packed), plain, 300), m;
	struct ptm_error err = {0};
	char offset[32];

	(void)state;
	/* At every byte of a small frame behind a whole one: below four bytes there is no magic
	 * number yet. */
	m = n + pack(packed + n, sizeof(packed) - n, plain, 100);
	for (size_t cut = 4; cut < m; cut++) {
		int ret;

		memset(&err, 0, sizeof(err));
		ret = read_all(put("cut.zst", packed, cut), &err);
		if (cut == n) {
			assert_int_equal(ret, 0);
			continue;
		}
		assert_int_equal(ret, -PTM_E_TRUNCATED);
		(void)snprintf(offset, sizeof(offset), "offset=%zu,", cut);
		assert_mentions(&err, offset);
		assert_mentions(&err, "cut.zst");
	}
	n = skippable(packed, 1000);
	assert_int_equal(read_all(put("cut.zst", packed, n - 1), &err), -PTM_E_TRUNCATED);
	ptm_store_le(packed + 4, UINT32_MAX, 4);
	assert_int_equal(read_all(put("cut.zst", packed, n), &err), -PTM_E_TRUNCATED);
}

static void test_zst_damaged(void **state)
{
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	struct ptm_error err = {0};
	size_t n;

	(void)state;
	assert_non_null(ctx);
	(void)ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
	n = ZSTD_compress2(ctx, packed, sizeof(packed), plain, 30000);
	assert_false(ZSTD_isError(n));
	(void)ZSTD_freeCCtx(ctx);
	assert_int_equal(read_all(put("whole.zst", packed, n), &err), 0);
	/* The checksum finds what the format does not; in byte 4 this is the bit that decoders
	 * ignore. */
	for (size_t at = 5; at < n; at += 397) {
		int ret;

		packed[at] ^= 0x10;
		ret = read_all(put("damaged.zst", packed, n), &err);
		if (ret != -PTM_E_FORMAT && ret != -PTM_E_TRUNCATED)
			fail_msg("byte %zu changed: %d", at, ret);
		assert_mentions(&err, "damaged.zst");
		assert_mentions(&err, "offset=");
		packed[at] ^= 0x10;
	}
	/* Something else behind the frame. */
	memcpy(packed + n, "\x02\x82\x02\x82\x02\x82\x02\x82", 8);
	assert_int_equal(read_all(put("damaged.zst", packed, n + 8), &err), -PTM_E_FORMAT);
}

/* Frames of no bytes whose header asks for a window (RFC 8878, section 3.1.1.1.2: the upper 5 bits
 * are its logarithm less 10): 2^27 bytes are accepted, what is more has to be decompressed by zstd.
 */
static void test_zst_window(void **state)
{
	static const uint8_t too_large[] = {17 << 3 | 1, 18 << 3, 21 << 3, 31 << 3};
	uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x01, 0x00, 0x00};
	struct ptm_error err = {0};

	(void)state;
	assert_int_equal(read_all(put("window.zst", frame, sizeof(frame)), &err), 0);
	for (size_t i = 0; i < sizeof(too_large); i++) {
		memset(&err, 0, sizeof(err));
		frame[5] = too_large[i];
		assert_int_equal(read_all(put("window.zst", frame, sizeof(frame)), &err),
				 -PTM_E_FORMAT);
		assert_mentions(&err, "window.zst");
		assert_mentions(&err, "zstd -dc --long=31 FILE | ptmill CMD -");
	}
}

static void *interrupt(void *arg)
{
	struct timespec ts = {0, 20000000};

	(void)nanosleep(&ts, NULL);
	ptm_file_interrupt(arg);
	return NULL;
}

static void *write_later(void *arg)
{
	struct timespec ts = {0, 50000000};
	int fd;

	(void)nanosleep(&ts, NULL);
	fd = open(arg, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, plain, 3), 3);
	(void)nanosleep(&ts, NULL);
	assert_int_equal(write(fd, plain + 3, 5000), 5000);
	(void)close(fd);
	return NULL;
}

/* A FIFO is opened before anybody writes to it, and read to the end by who comes later. */
static void test_fifo(void **state)
{
	struct ptm_error err = {0};
	struct ptm_file *file;
	pthread_t thread;
	char path[128], byte;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/input-fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)alarm(60); /* an open that waits for a writer would wait for ever */
	file = must_open(path);
	assert_false(ptm_file_is_seekable(file));
	assert_int_equal(pthread_create(&thread, NULL, interrupt, file), 0);
	assert_int_equal(ptm_file_read(file, &byte, 1, &err), -PTM_E_CANCELED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ptm_file_close(file);

	file = must_open(path);
	assert_int_equal(pthread_create(&thread, NULL, write_later, path), 0);
	assert_int_equal(ptm_file_read(file, got, LEN, &err), 5003);
	assert_memory_equal(got, plain, 5003);
	assert_int_equal(ptm_file_read(file, got, 1, &err), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ptm_file_close(file);
	(void)alarm(0);
}

/* In a child whose standard input is @fd: the contents must be @expect. */
static int stdin_child(int fd, const uint8_t *expect, size_t len, bool seekable)
{
	struct ptm_file *file;

	if (dup2(fd, STDIN_FILENO) < 0)
		return 2;
	file = ptm_file_open("-", NULL);
	if (file == NULL)
		return 3;
	if (ptm_file_is_seekable(file) != seekable)
		return 4;
	if (seekable && ptm_file_size(file) != len)
		return 5;
	if (seekable && ptm_file_pread(file, got, 10, len - 5, NULL) != 5)
		return 6;
	if (seekable && memcmp(got, expect + len - 5, 5) != 0)
		return 7;
	if (ptm_file_read(file, got, len + 1, NULL) != (int64_t)len)
		return 8;
	if (memcmp(got, expect, len) != 0)
		return 9;
	ptm_file_close(file);
	/* Standard input itself is left open. */
	return fcntl(STDIN_FILENO, F_GETFD) < 0 ? 10 : 0;
}

static void assert_child(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Through a pipe, in writes of @piece, the reading end non-blocking if asked. */
static void pipe_to_child(const uint8_t *data, size_t len, size_t piece, bool nonblock,
			  const uint8_t *expect, size_t expect_len)
{
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	if (nonblock)
		assert_int_equal(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(fd[1]);
		_exit(stdin_child(fd[0], expect, expect_len, false));
	}
	(void)close(fd[0]);
	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;

		assert_int_equal(write(fd[1], data + at, n), n);
		if (at < 10)
			(void)usleep(5000);
	}
	(void)close(fd[1]);
	assert_child(pid);
}

static void test_stdin_pipe(void **state)
{
	size_t n = pack(packed, sizeof(packed), plain, LEN);

	(void)state;
	pipe_to_child(plain, LEN, 5000, false, plain, LEN);
	pipe_to_child(plain, LEN, 5000, true, plain, LEN);
	pipe_to_child(plain, 9, 1, false, plain, 9); /* the magic number comes in pieces */
	pipe_to_child(plain, 3, 1, true, plain, 3);
	pipe_to_child(plain, 0, 1, false, plain, 0);
	pipe_to_child(packed, n, 4099, false, plain, LEN);
	pipe_to_child(packed, n, 4099, true, plain, LEN);
}

/* A file on standard input, of which another program has read the beginning. */
static void test_stdin_file(void **state)
{
	int fd = open(put("stdin", plain, LEN), O_RDONLY);
	pid_t pid;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(lseek(fd, 1000, SEEK_SET), 1000);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(stdin_child(fd, plain + 1000, LEN - 1000, true));
	assert_child(pid);
	(void)close(fd);
}

static void test_map(void **state)
{
	struct ptm_error err = {0};
	struct ptm_map map;
	char path[128];

	(void)state;
	assert_int_equal(ptm_map_open(&map, put("image", plain, 5000), &err), 0);
	assert_int_equal(map.len, 5000);
	assert_memory_equal(map.data, plain, 5000);
	ptm_map_close(&map);
	assert_null(map.data);
	ptm_map_close(&map);
	assert_int_equal(ptm_map_open(&map, put("none", "", 0), &err), 0);
	assert_null(map.data);
	assert_int_equal(map.len, 0);
	ptm_map_close(&map);
	assert_int_equal(ptm_map_open(&map, dir, &err), -PTM_E_NOINPUT);
	assert_int_equal(ptm_map_open(&map, "/dev/null", &err), -PTM_E_NOINPUT);
	(void)snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(ptm_map_open(&map, path, &err), -PTM_E_NOINPUT);
	(void)snprintf(path, sizeof(path), "%s/missing", dir);
	assert_int_equal(ptm_map_open(&map, path, &err), -PTM_E_NOINPUT);
	assert_mentions(&err, "missing");
	assert_null(map.data);
}

/* A read that waits for a pipe on which nothing comes ends, and so do later ones. */
static void test_interrupt(void **state)
{
	struct ptm_error err = {0};
	struct ptm_file *file;
	pthread_t thread;
	char path[64], buf[16];
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	file = ptm_file_open(path, &err);
	assert_non_null(file);
	assert_int_equal(write(fds[1], "ab", 2), 2);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, file), 0);
	assert_int_equal(ptm_file_read(file, buf, sizeof(buf), &err), -PTM_E_CANCELED);
	assert_int_equal(ptm_file_read(file, buf, sizeof(buf), &err), -PTM_E_CANCELED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ptm_file_close(file);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* The whole file, plain and compressed, up to a limit. */
static void test_read_all(void **state)
{
	size_t n = ZSTD_compress(packed, sizeof(packed), plain, LEN, 3), len;
	struct ptm_error err = {.code = PTM_E_OK};
	char *data;

	(void)state;
	assert_int_equal(ptm_file_read_all(put("all", plain, LEN), LEN, &data, &len, NULL), 0);
	assert_int_equal(len, LEN);
	assert_memory_equal(data, plain, LEN);
	assert_int_equal(data[LEN], '\0');
	free(data);
	assert_int_equal(ptm_file_read_all(put("all.zst", packed, n), LEN, &data, &len, NULL), 0);
	assert_int_equal(len, LEN);
	assert_memory_equal(data, plain, LEN);
	free(data);
	assert_int_equal(ptm_file_read_all(put("none", "", 0), 0, &data, &len, NULL), 0);
	assert_int_equal(len, 0);
	assert_string_equal(data, "");
	free(data);
	assert_int_equal(ptm_file_read_all(put("all", plain, LEN), LEN - 1, &data, &len, &err),
			 -PTM_E_FORMAT);
	assert_null(data);
	assert_int_equal(err.code, PTM_E_FORMAT);
	assert_int_equal(ptm_file_read_all("/nowhere", LEN, &data, &len, NULL), -PTM_E_NOINPUT);
	assert_null(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interrupt),   cmocka_unit_test(test_cannot_open),
		cmocka_unit_test(test_empty),       cmocka_unit_test(test_regular),
		cmocka_unit_test(test_shrinking),   cmocka_unit_test(test_proc_file),
		cmocka_unit_test(test_zst),         cmocka_unit_test(test_zst_empty_frame),
		cmocka_unit_test(test_zst_frames),  cmocka_unit_test(test_zst_truncated),
		cmocka_unit_test(test_zst_damaged), cmocka_unit_test(test_zst_window),
		cmocka_unit_test(test_stdin_pipe),  cmocka_unit_test(test_stdin_file),
		cmocka_unit_test(test_map),         cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_read_all),
	};

	return cmocka_run_group_tests(tests, make_data, drop_data);
}
