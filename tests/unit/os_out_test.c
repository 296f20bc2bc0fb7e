/* SPDX-License-Identifier: Apache-2.0
 *
 * os_out_test.c - outputs appear whole or not at all, and no failure is lost.
 */
#include "os/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LEN ((size_t)1000 * 1000)

static char dir[64], path[128];
static char data[LEN], got[LEN + 1];

static int new_dir(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN; i++)
		data[i] = (char)(i * i >> 8);
	(void)strcpy(dir, "/tmp/ptm-out-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/result", dir);
	return 0;
}

static int drop_dir(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static unsigned count_files(void)
{
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void assert_contents(const char *name, const char *expect, size_t len)
{
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	assert_int_equal(fread(got, 1, sizeof(got), f), len);
	(void)fclose(f);
	assert_memory_equal(got, expect, len);
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(stat(name, &st), 0);
	return st.st_mode & 07777;
}

static void test_commit(void **state)
{
	mode_t old = umask(027);
	struct ptm_out *out = ptm_out_open(path, NULL);

	(void)state;
	(void)umask(old);
	assert_non_null(out);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(count_files(), 1);
	assert_int_equal(ptm_out_write(out, "abc", 3, NULL), 0);
	assert_int_equal(ptm_out_printf(out, NULL, "%d-%s", 7, "x"), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	assert_contents(path, "abc7-x", 6);
	assert_int_equal(count_files(), 1);
	assert_int_equal(mode_of(path), 0640);
}

static void test_abort(void **state)
{
	struct ptm_out *out = ptm_out_open(path, NULL);

	(void)state;
	assert_non_null(out);
	assert_int_equal(ptm_out_write(out, data, LEN, NULL), 0);
	ptm_out_abort(out);
	ptm_out_abort(NULL);
	assert_int_equal(count_files(), 0);
}

static void test_existing_file(void **state)
{
	struct ptm_out *out;

	(void)state;
	put(path, "old");
	assert_int_equal(chmod(path, 0604), 0);
	out = ptm_out_open(path, NULL);
	assert_int_equal(ptm_out_write(out, data, LEN, NULL), 0);
	assert_contents(path, "old", 3);
	ptm_out_abort(out);
	assert_contents(path, "old", 3);
	out = ptm_out_open(path, NULL);
	assert_int_equal(ptm_out_write(out, "new!", 4, NULL), 0);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	assert_contents(path, "new!", 4);
	assert_int_equal(mode_of(path), 0604);
	assert_int_equal(count_files(), 1);
}

/* The link stays a link, the file that it names is replaced. */
static void test_symbolic_link(void **state)
{
	char link[160];
	struct ptm_out *out;
	struct stat st;

	(void)state;
	put(path, "old");
	(void)snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink("result", link), 0);
	out = ptm_out_open(link, NULL);
	assert_int_equal(ptm_out_write(out, "new", 3, NULL), 0);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	assert_contents(path, "new", 3);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
}

/* Every mix of sizes about the buffer's gives the bytes in order. */
static void test_sizes(void **state)
{
	static const size_t sizes[] = {0,      1, 65535,  65536,  65537,  262143, 262144,
				       262145, 3, 300000, 100000, 200000, 7};
	struct ptm_out *out = ptm_out_open(path, NULL);
	size_t at = 0;

	(void)state;
	for (size_t i = 0; at < LEN; i++) {
		size_t n = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];

		if (n > LEN - at)
			n = LEN - at;
		assert_int_equal(ptm_out_write(out, data + at, n, NULL), 0);
		at += n;
	}
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	assert_contents(path, data, LEN);
}

static void test_printf_sizes(void **state)
{
	/* Up to the last byte of the buffer, across its end, longer than all of it. */
	static const int widths[] = {262140, 4, 262143, 1, 262144, 1, 262145, 400000, 5};
	struct ptm_out *out = ptm_out_open(path, NULL);
	FILE *f;

	(void)state;
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		assert_int_equal(ptm_out_printf(out, NULL, "%*d", widths[i], 7), 0);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		for (int k = 1; k < widths[i]; k++)
			assert_int_equal(getc(f), ' ');
		assert_int_equal(getc(f), '7');
	}
	assert_int_equal(getc(f), EOF);
	(void)fclose(f);
}

static void test_full_device(void **state)
{
	struct ptm_error err = {0};
	struct ptm_out *out = ptm_out_open("/dev/full", &err);

	(void)state;
	/* Small: only commit can tell. */
	assert_non_null(out);
	assert_int_equal(ptm_out_write(out, "abc", 3, &err), 0);
	assert_int_equal(ptm_out_commit(out, &err), -PTM_E_NOSPACE);
	assert_non_null(strstr(err.cause[0].text, "/dev/full"));
	/* Large: at the write, and again whatever comes after. */
	out = ptm_out_open("/dev/full", &err);
	assert_non_null(out);
	assert_int_equal(ptm_out_write(out, data, LEN, &err), -PTM_E_NOSPACE);
	assert_int_equal(ptm_out_write(out, data, 1, NULL), -PTM_E_NOSPACE);
	assert_int_equal(ptm_out_printf(out, NULL, "x"), -PTM_E_NOSPACE);
	memset(&err, 0, sizeof(err));
	assert_int_equal(ptm_out_commit(out, &err), -PTM_E_NOSPACE);
	assert_non_null(strstr(err.cause[0].text, "/dev/full"));
}

static void test_special_files(void **state)
{
	struct ptm_out *out = ptm_out_open("/dev/null", NULL);

	(void)state;
	assert_non_null(out);
	assert_int_equal(ptm_out_write(out, data, LEN, NULL), 0);
	assert_int_equal(ptm_out_commit(out, NULL), 0);
	assert_int_equal(access("/dev/null", W_OK), 0);
}

static void test_cannot_open(void **state)
{
	struct ptm_error err = {0};
	char name[400];

	(void)state;
	assert_null(ptm_out_open(dir, &err));
	assert_int_equal(err.code, PTM_E_IO);
	assert_non_null(strstr(err.cause[0].text, dir));
	(void)snprintf(name, sizeof(name), "%s/no/such/place", dir);
	assert_null(ptm_out_open(name, &err));
	assert_int_equal(err.code, PTM_E_IO);
	(void)snprintf(name, sizeof(name), "%s/%0260d", dir, 1);
	assert_null(ptm_out_open(name, &err));
	assert_int_equal(err.code, PTM_E_IO);
	assert_null(ptm_out_open("", &err));
	assert_int_equal(err.code, PTM_E_IO);
	if (geteuid() != 0) {
		put(path, "precious");
		assert_int_equal(chmod(path, 0400), 0);
		assert_null(ptm_out_open(path, &err));
		assert_int_equal(err.code, PTM_E_IO);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(count_files(), 0);
}

/* The destination cannot take its name any more: an error, and nothing left behind. */
static void test_rename_fails(void **state)
{
	struct ptm_error err = {0};
	struct ptm_out *out = ptm_out_open(path, NULL);

	(void)state;
	assert_non_null(out);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(ptm_out_write(out, "x", 1, NULL), 0);
	assert_int_equal(ptm_out_commit(out, &err), -PTM_E_IO);
	assert_int_equal(count_files(), 1);
	assert_int_equal(rmdir(path), 0);
}

/* In a child: standard output is a pipe that nobody reads. */
static int broken_pipe_child(void)
{
	struct ptm_error err = {0};
	struct ptm_out *out;
	int fd[2];

	(void)signal(SIGPIPE, SIG_IGN);
	if (pipe(fd) < 0 || dup2(fd[1], STDOUT_FILENO) < 0)
		return 2;
	(void)close(fd[0]);
	out = ptm_out_open(NULL, &err);
	if (out == NULL || ptm_out_write(out, "x", 1, &err) != 0)
		return 3;
	if (ptm_out_commit(out, &err) != -PTM_E_IO)
		return 4;
	return strstr(err.cause[0].text, "Broken pipe") == NULL ? 5 : 0;
}

/* In a child: a pipe on standard output, non-blocking, read slowly by the parent. */
static int pipe_child(int fd)
{
	struct ptm_out *out;

	if (dup2(fd, STDOUT_FILENO) < 0 || fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK) < 0)
		return 2;
	out = ptm_out_open("-", NULL);
	if (out == NULL || ptm_out_write(out, data, LEN, NULL) != 0)
		return 3;
	if (ptm_out_commit(out, NULL) != 0)
		return 4;
	return fcntl(STDOUT_FILENO, F_GETFD) < 0 ? 5 : 0;
}

static void assert_child(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_stdout(void **state)
{
	size_t at = 0;
	int fd[2];
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(broken_pipe_child());
	assert_child(pid);

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(fd[0]);
		_exit(pipe_child(fd[1]));
	}
	(void)close(fd[1]);
	(void)usleep(20000);
	for (;;) {
		ssize_t n = read(fd[0], got + at, sizeof(got) - at);

		assert_true(n >= 0);
		if (n == 0)
			break;
		at += (size_t)n;
	}
	(void)close(fd[0]);
	assert_int_equal(at, LEN);
	assert_memory_equal(got, data, LEN);
	assert_child(pid);
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, new_dir, drop_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_DIR(test_commit),        WITH_DIR(test_abort),
		WITH_DIR(test_existing_file), WITH_DIR(test_symbolic_link),
		WITH_DIR(test_sizes),         WITH_DIR(test_printf_sizes),
		WITH_DIR(test_full_device),   WITH_DIR(test_special_files),
		WITH_DIR(test_cannot_open),   WITH_DIR(test_rename_fails),
		WITH_DIR(test_stdout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
