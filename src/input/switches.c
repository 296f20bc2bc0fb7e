/* SPDX-License-Identifier: Apache-2.0
 *
 * switches.c - context switches from perf records, with times in TSC.
 *
 * A record is a header (u32 type, u16 misc, u16 size of the whole record), for CPU-wide switches
 * the u32 pid and tid of the other side, and the sample id: u32 pid, u32 tid, u64 time.  Further
 * fields of a sample id would stand behind these (perf_event_open(2)).
 */
#include "input/switches.h"

#include "base/bytes.h"
#include "os/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	HEADER = 8,
	TYPE_SWITCH = 14,          /* PERF_RECORD_SWITCH */
	TYPE_SWITCH_CPU_WIDE = 15, /* PERF_RECORD_SWITCH_CPU_WIDE */
	MISC_OUT = 1 << 13,        /* PERF_RECORD_MISC_SWITCH_OUT */
	OTHER_SIDE = 8,            /* pid and tid of the other side */
	SAMPLE_ID = 16,            /* pid, tid, time */
	BUFFER = 1 << 17,          /* two of the largest records */
};

bool ptm_switches_tsc(const struct ptm_desc_time *time, uint64_t ns, uint64_t *tsc)
{
	unsigned __int128 v;

	if (!time->known || time->mult == 0 || time->shift > 63)
		return false;
	/* perf's zero may lie before the boot of its clock: the difference wraps, as perf's does.
	 */
	v = ((unsigned __int128)(ns - time->zero) << time->shift) / time->mult;
	*tsc = (uint64_t)v;
	return v <= UINT64_MAX;
}

static int fail(struct ptm_error *err, const char *path, uint64_t offset, const char *what)
{
	return PTM_FAIL(err, PTM_E_FORMAT,
			"Bad context switch record: %s: offset=%" PRIu64 ", path=\"%s\"", what,
			offset, path);
}

/* The record @rec of @size bytes. */
static int add(struct ptm_desc_stream *stream, const struct ptm_desc_time *time, const uint8_t *rec,
	       size_t size, uint64_t offset, const char *path, size_t *left, struct ptm_error *err)
{
	bool wide = ptm_load_le32(rec) == TYPE_SWITCH_CPU_WIDE;
	const uint8_t *id = rec + HEADER + (wide ? OTHER_SIDE : 0);
	struct ptm_desc_switch sw;

	if (size < (size_t)HEADER + (wide ? OTHER_SIDE : 0) + SAMPLE_ID)
		return fail(err, path, offset, "too short for a process, a thread, and a time");
	sw.pid = ptm_load_le32(id);
	sw.tid = ptm_load_le32(id + 4);
	sw.in = (ptm_load_le16(rec + 4) & MISC_OUT) == 0;
	if (!ptm_switches_tsc(time, ptm_load_le64(id + 8), &sw.tsc))
		return fail(err, path, offset, "its time is beyond the TSC");
	if (stream->switches.n > 0 && sw.tsc < stream->switches.v[stream->switches.n - 1].tsc)
		return fail(err, path, offset, "its time is before that of the record before");
	if (*left == 0)
		return fail(err, path, offset, "too many (at most 67108864 in all)");
	(*left)--;
	if (!ptm_vec_push(&stream->switches, sw))
		return PTM_FAIL(err, PTM_E_NOMEM,
				"Cannot read context switches: out of memory: path=\"%s\"", path);
	return 0;
}

int64_t ptm_switches_parse(struct ptm_desc_stream *stream, const struct ptm_desc_time *time,
			   const uint8_t *data, size_t len, uint64_t offset, const char *path,
			   size_t *left, struct ptm_error *err)
{
	size_t pos = 0;

	while (len - pos >= HEADER) {
		const uint8_t *rec = data + pos;
		uint32_t type = ptm_load_le32(rec);
		size_t size = ptm_load_le16(rec + 6);

		if (size < HEADER)
			return fail(err, path, offset + pos, "shorter than its header");
		if (size > len - pos)
			break;
		if (type == TYPE_SWITCH || type == TYPE_SWITCH_CPU_WIDE)
			PTM_TRY(add(stream, time, rec, size, offset + pos, path, left, err));
		pos += size;
	}
	return (int64_t)pos;
}

static int read_file(struct ptm_desc_stream *stream, const struct ptm_desc_time *time,
		     struct ptm_file *file, uint8_t *buf, size_t *left, struct ptm_error *err)
{
	const char *path = ptm_file_path(file);
	uint64_t offset = 0;
	size_t have = 0;
	int64_t n, used;

	while ((n = ptm_file_read(file, buf + have, BUFFER - have, err)) > 0) {
		have += (size_t)n;
		used = ptm_switches_parse(stream, time, buf, have, offset, path, left, err);
		if (used < 0)
			return (int)used;
		have -= (size_t)used;
		offset += (uint64_t)used;
		memmove(buf, buf + used, have);
	}
	if (n == 0 && have > 0)
		return fail(err, path, offset, "the file ends in it");
	return (int)n;
}

int ptm_switches_read(struct ptm_desc_stream *stream, const struct ptm_desc_time *time,
		      const char *path, size_t *left, struct ptm_error *err)
{
	struct ptm_file *file;
	struct stat st;
	uint8_t *buf;
	int ret;

	/* Opening a FIFO would wait for a writer. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return PTM_FAIL(err, PTM_E_NOINPUT, "Not a regular file: path=\"%s\"", path);
	file = ptm_file_open(path, err);
	if (file == NULL)
		return -(int)err->code;
	buf = (uint8_t *)malloc(BUFFER);
	if (buf == NULL)
		ret = PTM_FAIL(err, PTM_E_NOMEM,
			       "Cannot read context switches: out of memory: path=\"%s\"", path);
	else
		ret = read_file(stream, time, file, buf, left, err);
	free(buf);
	ptm_file_close(file);
	return ret;
}
