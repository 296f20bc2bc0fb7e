/* SPDX-License-Identifier: Apache-2.0
 *
 * perf.c - the back end that lets perf record the trace of a CPU with Intel PT.
 *
 * `perf record --per-thread` writes one AUX buffer, of the first thread.  Its pieces, one behind
 * the other, are the stream; the records PERF_RECORD_MMAP2 of its process are the mappings (perf's
 * documentation, perf.data-file-format.txt; perf_event_open(2)).
 */
#include "record/perf.h"

#include "base/bytes.h"
#include "fmt/perf_aux.h"
#include "os/file.h"
#include "record/images.h"
#include "record/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PMU "/sys/bus/event_source/devices/intel_pt"

/* Offsets in a perf.data file and in its records. */
enum {
	HEADER_DATA = 40, /* offset and size of the data section */
	RECORD_HEAD = 8,  /* type 4, misc 2, size 2 */
	MMAP2 = 10,
	MMAP2_PID = 8,
	MMAP2_ADDR = 16, /* address, length, offset in the file: 8 each */
	MMAP2_PROT = 64,
	MMAP2_NAME = 72,
	AUXTRACE_SIZE = 8 /* of the payload behind the record */
};

bool ptm_perf_is_there(void)
{
	char *perf = access(PMU, F_OK) == 0 ? ptm_find_program("perf") : NULL;
	bool there = perf != NULL;

	free(perf);
	return there;
}

static int refused(struct ptm_error *err, const char *what)
{
	return PTM_FAIL(err, PTM_E_SYSTEM, "Cannot run perf: %s: %s", what, strerror(errno));
}

/* What perf is to record, by config->ptwrite. */
static const char *const events[] = {"intel_pt/tsc=0,mtc=0/u", "intel_pt/tsc=0,mtc=0,ptw=1/u",
				     "intel_pt/tsc=0,mtc=0,ptw=1,fup_on_ptw=1/u"};

static int wait_for(pid_t pid, const volatile int *pass_on, int *status, struct ptm_error *err)
{
	int sig = 0;

	do {
		if (sig == 0 && pass_on != NULL && *pass_on != 0) {
			sig = *pass_on;
			(void)kill(pid, sig);
		}
		if (waitpid(pid, status, 0) == pid)
			return 0;
	} while (errno == EINTR);
	return refused(err, "waitpid");
}

/* Perf says at length what it does not like about an event, in between what the program says: ask
 * it before, and say it in a line. */
static int check_event(char *perf, const char *event, const char *out, struct ptm_error *err)
{
	const char *const args[] = {perf, "record", "--dry-run", "-e",   event,
				    "-o", out,      "--",        "true", NULL};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		const int null = open("/dev/null", O_RDWR);

		for (int fd = 0; fd <= STDERR_FILENO; fd++)
			(void)dup2(null, fd);
		(void)execv(perf, (char *const *)(uintptr_t)args);
		_exit(127);
	}
	if (pid < 0)
		return refused(err, "fork");
	PTM_TRY(wait_for(pid, NULL, &status, err));
	(void)unlink(out);
	if (status == 0)
		return 0;
	if (access(PMU, F_OK) != 0)
		return PTM_FAIL(err, PTM_E_NOINPUT,
				"Cannot record by perf: the kernel has no intel_pt on this machine "
				"(--backend qemu and step need none): path=\"" PMU "\"");
	return PTM_FAIL(err, PTM_E_SYSTEM,
			"Cannot record by perf: it refuses the event; `perf record -e %s -- true' "
			"tells why",
			event);
}

static int run_perf(const struct ptm_record_config *config, char *perf, char *const argv[],
		    char *out, int *exit_code, struct ptm_error *err)
{
	const char *const fixed[] = {perf, "record", "-q", "--per-thread",
				     "-m", ",64M",   "-e", events[config->ptwrite],
				     "-o", out,      "--"};
	const size_t nfixed = sizeof(fixed) / sizeof(fixed[0]);
	size_t argc = 0;
	char **args;
	int status;
	pid_t pid;

	while (argv[argc] != NULL)
		argc++;
	args = calloc(nfixed + argc + 1, sizeof(*args));
	if (args == NULL)
		return refused(err, "memory");
	memcpy(args, fixed, sizeof(fixed));
	memcpy(args + nfixed, argv, argc * sizeof(*args));
	pid = fork();
	if (pid == 0) {
		(void)execv(perf, args);
		_exit(127);
	}
	free(args);
	if (pid < 0)
		return refused(err, "fork");
	PTM_TRY(wait_for(pid, config->pass_on, &status, err));
	*exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (access(out, R_OK) != 0)
		return PTM_FAIL(err, PTM_E_SYSTEM,
				"Cannot record by perf: it failed with exit code %d (no intel_pt "
				"here, or perf_event_paranoid forbids it?)",
				*exit_code);
	return 0;
}

/* Ours is the kernel's, as the program's was. */
static int add_vdso(struct ptm_images *images, uint64_t begin, uint64_t len)
{
	const uint8_t *vdso = (const uint8_t *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);

	return vdso == NULL ? 0 : ptm_images_add_memory(images, begin, vdso, (size_t)len);
}

static int add_mapping(struct ptm_images *images, const uint8_t *rec, size_t size)
{
	uint64_t begin = ptm_load_le64(rec + MMAP2_ADDR);
	uint64_t len = ptm_load_le64(rec + MMAP2_ADDR + 8);
	uint64_t offset = ptm_load_le64(rec + MMAP2_ADDR + 16);
	const char *name = (const char *)rec + MMAP2_NAME;
	size_t image;
	int ret;

	if ((ptm_load_le32(rec + MMAP2_PROT) & PROT_EXEC) == 0 || len == 0 ||
	    len > UINT64_MAX - begin || memchr(name, '\0', size - MMAP2_NAME) == NULL)
		return 0;
	if (strcmp(name, "[vdso]") == 0 && len <= 1 << 16)
		return add_vdso(images, begin, len);
	if (name[0] != '/')
		return 0;
	ret = ptm_images_add_file(images, name, begin, begin + len, offset, &image);
	return ret < 0 ? ret : 0;
}

/* The mappings of the first process that has some. */
static int take_mappings(const struct ptm_map *file, struct ptm_images *images)
{
	uint64_t at = file->len >= HEADER_DATA + 16 ? ptm_load_le64(file->data + HEADER_DATA) : 0;
	uint32_t pid = 0;

	while (at != 0 && at < file->len && file->len - at >= RECORD_HEAD) {
		const uint8_t *rec = file->data + at;
		size_t size = ptm_load_le16(rec + 6);
		uint32_t type = ptm_load_le32(rec);

		if (size < RECORD_HEAD || size > file->len - at)
			break;
		at += size;
		if (type == PTM_PERF_AUXTRACE && size >= AUXTRACE_SIZE + 8) {
			uint64_t payload = ptm_load_le64(rec + AUXTRACE_SIZE);

			at = payload < file->len - at ? at + payload : file->len;
		} else if (type == MMAP2 && size > MMAP2_NAME) {
			uint32_t its = ptm_load_le32(rec + MMAP2_PID);

			/* The kernel's own have -1. */
			if (pid == 0 && its != UINT32_MAX)
				pid = its;
			if (its == pid)
				PTM_TRY(add_mapping(images, rec, size));
		}
	}
	return 0;
}

static int take_trace(const struct ptm_map *file, struct ptm_cap_stream *stream, uint64_t *bytes,
		      struct ptm_error *err)
{
	struct ptm_perf_walk walk;
	struct ptm_perf_aux aux;
	uint64_t next = 0;
	int ret;

	*bytes = 0;
	PTM_TRY(ptm_perf_walk_init(&walk, file->data, file->len, err));
	while ((ret = ptm_perf_walk_next(&walk, &aux, err)) > 0) {
		if (*bytes > 0 && aux.aux_offset != next)
			return PTM_FAIL(err, PTM_E_SYSTEM,
					"Cannot use what perf recorded: it lost trace data behind "
					"the first %llu bytes (record less, or faster)",
					(unsigned long long)*bytes);
		PTM_TRY(ptm_capture_write(stream, file->data + aux.file_offset, (size_t)aux.size));
		next = aux.aux_offset + aux.size;
		*bytes += aux.size;
	}
	PTM_TRY(ret);
	return *bytes > 0 ? 0
			  : PTM_FAIL(err, PTM_E_SYSTEM,
				     "Cannot use what perf recorded: it holds no trace");
}

static int pack(const char *path, struct ptm_capture *cap, uint64_t *bytes, struct ptm_error *err)
{
	struct ptm_cap_stream *stream = ptm_capture_stream(cap, 1, NULL);
	struct ptm_map file;
	int ret;

	if (stream == NULL)
		return -(int)err->code;
	PTM_TRY(ptm_map_open(&file, path, err));
	ret = take_trace(&file, stream, bytes, err);
	if (ret == 0)
		ret = take_mappings(&file, ptm_capture_images(cap));
	ptm_map_close(&file);
	return ret < 0 ? ret : ptm_capture_close(stream);
}

int ptm_perf_run(const struct ptm_record_config *config, char *const argv[],
		 struct ptm_capture *cap, int *exit_code, uint64_t *bytes, struct ptm_error *err)
{
	char *perf = ptm_find_program("perf");
	char *out = ptm_capture_temp(cap, "perf.data");
	int ret = 0;

	if (perf == NULL)
		ret = PTM_FAIL(
			err, PTM_E_NOINPUT,
			"Cannot record by perf: there is no perf in PATH (install linux-perf)");
	else if (out == NULL)
		ret = PTM_FAIL(err, PTM_E_NOMEM, "Cannot record: out of memory");
	else
		ret = check_event(perf, events[config->ptwrite], out, err);
	if (ret == 0)
		ret = run_perf(config, perf, argv, out, exit_code, err);
	if (ret == 0)
		ret = pack(out, cap, bytes, err);
	if (ret == 0)
		(void)unlink(out);
	free(perf);
	free(out);
	return ret;
}
