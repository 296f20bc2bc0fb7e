/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_process.c - a whole process as a contender: started, measured by what the system says of
 * it, and asked what it saw by one line over a pipe:
 *
 *   instructions N digest 0xD peak_rss B
 */
#include "sink/bench.h"

#include "os/file.h"
#include "os/thread.h"
#include "ptmill/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Read up to the end of the pipe.  What is longer than @size is no line of ours. */
static void read_line(int fd, char *line, size_t size)
{
	size_t n = 0;
	ssize_t got = 1;

	while (n + 1 < size && got != 0) {
		got = read(fd, line + n, size - 1 - n);
		if (got < 0 && errno != EINTR)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	line[n] = '\0';
}

static int parse_line(const char *line, struct ptm_bench_sample *sample, struct ptm_error *err)
{
	/* NOLINTNEXTLINE(cert-err34-c): our own line, or none */
	if (sscanf(line, "instructions %" SCNu64 " digest 0x%" SCNx64 " peak_rss %" SCNu64,
		   &sample->insns, &sample->digest, &sample->peak_rss) == 3)
		return 0;
	return PTM_FAIL(err, PTM_E_BUG, "The process that is measured said: \"%s\"", line);
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static int wait_for(pid_t pid, struct ptm_bench_sample *sample, struct ptm_error *err)
{
	struct rusage usage;
	int status;
	pid_t got;

	do
		got = wait4(pid, &status, 0, &usage);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return PTM_FAIL(err, PTM_E_SYSTEM, "Cannot wait for a process: %s",
				strerror(errno));
	sample->cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return PTM_FAIL(err, PTM_E_SYSTEM, "The process that is measured failed: status=%d",
			status);
}

int ptm_bench_process(const struct ptm_bench *bench, unsigned threads,
		      struct ptm_bench_sample *sample, struct ptm_error *err)
{
	const double begin = ptm_now();
	char line[256];
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return PTM_FAIL(err, PTM_E_SYSTEM, "Cannot make a pipe: %s", strerror(errno));
	pid = bench->config.spawn(bench->config.ctx, threads, fds[1]);
	if (pid < 0)
		(void)PTM_FAIL(err, PTM_E_SYSTEM, "Cannot start a process: %s", strerror(errno));
	(void)close(fds[1]);
	if (pid >= 0)
		read_line(fds[0], line, sizeof(line));
	(void)close(fds[0]);
	if (pid < 0)
		return -PTM_E_SYSTEM;
	status = wait_for(pid, sample, err);
	sample->wall = ptm_now() - begin;
	return status < 0 ? status : parse_line(line, sample, err);
}

static int put_line(const struct ptm_digest *digest, struct ptm_error *err)
{
	struct ptm_out *out = ptm_out_open(NULL, err);

	if (out == NULL)
		return -(int)err->code;
	if (ptm_out_printf(out, err,
			   "instructions %" PRIu64 " digest 0x%016" PRIx64 " peak_rss %" PRIu64
			   "\n",
			   digest->n, digest->b, ptm_peak_rss()) < 0) {
		ptm_out_abort(out);
		return -(int)err->code;
	}
	return ptm_out_commit(out, err);
}

int ptm_bench_once(const struct ptm_bench_config *config, unsigned threads, struct ptm_error *err)
{
	struct ptm_config session_config = *config->session;
	struct ptm_sink *sink = ptm_bench_count_create(false);
	struct ptm_session *session;
	struct ptm_run_stats stats;
	int status = -PTM_E_NOMEM;

	session_config.threads = threads;
	session_config.engine = PTM_ENGINE_FAST;
	session_config.cache = NULL;
	session = ptm_session_create(&session_config, err);
	if (session != NULL && sink != NULL)
		status = config->fill(config->ctx, session, false, err);
	if (status >= 0)
		status = ptm_session_run(session, sink, NULL, &stats, err);
	if (status >= 0) {
		const struct ptm_digest digest = ptm_bench_counted(sink).digest;

		status = put_line(&digest, err);
	}
	ptm_sink_destroy(sink);
	ptm_session_destroy(session);
	return status;
}
