/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - finds the subcommand, and prints help, versions and errors.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command *const commands[] = {&cli_decode, &cli_digest, &cli_stat,
						     &cli_dump,   &cli_info,   &cli_verify,
						     &cli_bench,  &cli_record};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

void cli_say(const char *fmt, ...)
{
	char line[2048];
	int n = snprintf(line, sizeof(line) - 1, "ptmill: ");
	int m;
	va_list ap;

	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - 1 - (size_t)n, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n += m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	/* File names may hold anything: a message stays one line. */
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[n] = '\n';
	line[n + 1] = '\0';
	(void)fputs(line, stderr);
}

int cli_fail(const struct ptm_error *err)
{
	char text[sizeof(err->cause) + 2 * PTM_ERROR_CAUSES];
	size_t n = 0;

	if (err->ncauses == 0) {
		cli_say("%s", ptm_err_name(err->code));
		return ptm_err_exit_code(err->code);
	}
	for (unsigned i = err->ncauses; i-- > 0 && n < sizeof(text);)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", err->cause[i].text,
				      i > 0 ? ": " : "");
	cli_say("%s", text);
	return ptm_err_exit_code(err->code);
}

static void print_usage(FILE *out)
{
	(void)fprintf(out, "Usage: ptmill COMMAND [OPTION...] [INPUT...]\n"
			   "Decodes Intel Processor Trace in parallel, exactly.\n\n"
			   "Commands:\n");
	for (size_t i = 0; i < NCOMMANDS; i++)
		(void)fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->brief);
	(void)fprintf(out, "\n`ptmill help COMMAND' explains a command, `ptmill --version' tells "
			   "the versions.\n");
}

static void print_version(FILE *out, struct argp_state *state)
{
	(void)state;
	(void)fprintf(out, "ptmill %s\n%s\n", PTM_VERSION_STRING, ptm_version_libraries());
}

/* A full disk shows when the last buffer is written: for data the sinks see to it, this is for help
 * and tables. */
int cli_flush(void)
{
	static int failed; /* exit code */
	bool is_full;

	if (failed != 0)
		return failed;
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	/* stdio keeps what it could not write, so that errno is of this attempt as a rule. */
	is_full = errno == ENOSPC || errno == EFBIG;
	if (errno != EPIPE)
		cli_say("Cannot write to standard output: %s", strerror(errno != 0 ? errno : EIO));
	failed = ptm_err_exit_code(is_full ? PTM_E_NOSPACE : PTM_E_IO);
	return failed;
}

static void close_stdout(void)
{
	int failed = cli_flush();

	if (failed != 0)
		_exit(failed);
}

/* Images are mapped: a file that gets shorter below us takes its pages along.  Only what is
 * async-signal-safe is allowed here. */
static void on_lost_page(int sig, siginfo_t *info, void *context)
{
	static const char line[] =
		"ptmill: An image or trace was cut while it was read, or its disk failed: leave "
		"files alone while ptmill reads them, and run it again\n";

	(void)context;
	if (info->si_code == BUS_ADRERR) {
		(void)!write(STDERR_FILENO, line, sizeof(line) - 1);
		_exit(CLI_EXIT_IO);
	}
	/* Any other reason is a bug, or somebody's kill: die of it. */
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

static void catch_lost_pages(void)
{
	struct sigaction act = {.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO};

	(void)sigemptyset(&act.sa_mask);
	(void)sigaction(SIGBUS, &act, NULL);
}

static void on_file_limit(int sig)
{
	(void)sig;
}

/* Beyond `ulimit -f' a write is to fail, which is said and cleaned up after.  A handler rather than
 * SIG_IGN, which a program that we run would inherit. */
static void outlive_file_limit(void)
{
	struct sigaction act = {.sa_handler = on_file_limit, .sa_flags = SA_RESTART};

	(void)sigemptyset(&act.sa_mask);
	(void)sigaction(SIGXFSZ, &act, NULL);
}

/* A file must not get the number of a closed standard stream: messages would end up in it. */
static void fill_std_fds(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static const struct cli_command *find(const char *name)
{
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static int unknown(const char *what, const char *name)
{
	cli_say("unknown %s '%s': `ptmill --help' lists what there is", what, name);
	return CLI_EXIT_USAGE;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	char name[64];

	/* argp and getopt begin their messages with argv[0]. */
	(void)snprintf(name, sizeof(name), "ptmill %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

static int help(int argc, char **argv)
{
	static char option[] = "--help";
	char *args[] = {NULL, option, NULL};
	const struct cli_command *command;

	if (argc < 3) {
		print_usage(stdout);
		return 0;
	}
	command = find(argv[2]);
	return command != NULL ? run(command, 2, args) : unknown("command", argv[2]);
}

int main(int argc, char **argv)
{
	const struct cli_command *command;

	fill_std_fds();
	catch_lost_pages();
	outlive_file_limit();
	(void)atexit(close_stdout);
	argp_err_exit_status = CLI_EXIT_USAGE;
	argp_program_version_hook = print_version;
	if (argc < 2) {
		print_usage(stderr);
		return CLI_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 ||
	    strcmp(argv[1], "-h") == 0) {
		print_usage(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		print_version(stdout, NULL);
		return 0;
	}
	if (strcmp(argv[1], "help") == 0)
		return help(argc, argv);
	command = find(argv[1]);
	if (command == NULL)
		return unknown(argv[1][0] == '-' ? "option" : "command", argv[1]);
	return run(command, argc - 1, argv + 1);
}
