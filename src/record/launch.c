/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - starts a program under qemu-user.
 *
 * QEMU loads ELF files only: a script's interpreter is run in its place.
 */
#include "record/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIXED_ARGS = 9 };

char *ptm_find_plugin(void)
{
	static const char *const places[] = {"/" PTM_PLUGIN_NAME, PTM_PLUGIN_FROM_PROGRAM};
	char program[PATH_MAX], *path;
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	program[n > 0 ? n : 0] = '\0';
	slash = strrchr(program, '/');
	/* Beside the program, or where it was installed together with the program. */
	for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
		*slash = '\0';
		if (asprintf(&path, "%s%s", program, places[i]) < 0)
			return NULL;
		if (access(path, R_OK) == 0)
			return path;
		free(path);
	}
	return access(PTM_PLUGIN_INSTALLED, R_OK) == 0 ? strdup(PTM_PLUGIN_INSTALLED) : NULL;
}

static int refused(struct ptm_error *err, const char *what)
{
	return PTM_FAIL(err, PTM_E_SYSTEM, "Cannot start the program: %s: %s", what,
			strerror(errno));
}

/* "PATH,fd=N", as QEMU takes options: a comma in the path is doubled. */
static char *plugin_option(const char *path, int fd)
{
	char *option = malloc(2 * strlen(path) + 32), *p = option;

	if (option == NULL)
		return NULL;
	p += sprintf(p, "file=");
	for (; *path != '\0'; path++) {
		if (*path == ',')
			*p++ = ',';
		*p++ = *path;
	}
	(void)sprintf(p, ",fd=%d", fd);
	return option;
}

static _Noreturn void run_child(char *const args[], int fd, int report, pid_t parent)
{
	int e;

	/* Equal addresses at every run are welcome, not needed: containers may forbid it. */
	(void)personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
	    fcntl(fd, F_SETFD, 0) == 0)
		execv(args[0], args);
	e = errno;
	(void)!write(report, &e, sizeof(e));
	_exit(127);
}

static int start(char *const args[], int fd, pid_t *pid, struct ptm_error *err)
{
	int fds[2], e = 0;
	pid_t self = getpid();
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return refused(err, "pipe");
	*pid = fork();
	if (*pid == 0)
		run_child(args, fd, fds[1], self);
	(void)close(fds[1]);
	n = *pid < 0 ? 0 : read(fds[0], &e, sizeof(e));
	(void)close(fds[0]);
	if (*pid < 0)
		return refused(err, "fork");
	if (n == (ssize_t)sizeof(e)) {
		(void)waitpid(*pid, NULL, 0);
		*pid = -1;
		errno = e;
		return refused(err, args[0]);
	}
	return 0;
}

static int run(const struct ptm_program *p, char *const argv[], char *qemu, char *option,
	       uint64_t seed, pid_t *pid, int fd, struct ptm_error *err)
{
	size_t argc = 0, n = 0;
	char number[24];
	char **args;
	int ret;

	while (argv[argc] != NULL)
		argc++;
	args = calloc(FIXED_ARGS + p->n + argc, sizeof(*args));
	if (args == NULL)
		return refused(err, "memory");
	(void)snprintf(number, sizeof(number), "%" PRIu64, seed);
	args[n++] = qemu;
	args[n++] = (char *)"-plugin";
	args[n++] = option;
	args[n++] = (char *)"-seed";
	args[n++] = number;
	args[n++] = (char *)"-0";
	args[n++] = p->n > 0 ? p->path : argv[0];
	args[n++] = p->path;
	for (unsigned i = 0; i < p->n; i++)
		args[n++] = p->before[i];
	for (size_t i = 1; i < argc; i++)
		args[n++] = argv[i];
	ret = start(args, fd, pid, err);
	free(args);
	return ret;
}

int ptm_launch(const struct ptm_program *program, char *const argv[], int fd, uint64_t seed,
	       pid_t *pid, struct ptm_error *err)
{
	char *qemu = ptm_find_program(PTM_QEMU_NAME), *plugin = ptm_find_plugin();
	char *option = plugin != NULL ? plugin_option(plugin, fd) : NULL;
	int ret;

	*pid = -1;
	if (qemu == NULL)
		ret = PTM_FAIL(
			err, PTM_E_NOINPUT,
			"Cannot record under QEMU: there is no %s in PATH (install qemu-user)",
			PTM_QEMU_NAME);
	else if (option == NULL)
		ret = PTM_FAIL(err, PTM_E_NOINPUT,
			       "Cannot record under QEMU: %s is neither beside the program nor at "
			       "\"%s\"",
			       PTM_PLUGIN_NAME, PTM_PLUGIN_INSTALLED);
	else
		ret = run(program, argv, qemu, option, seed, pid, fd, err);
	free(qemu);
	free(plugin);
	free(option);
	return ret;
}
