/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_job.h - for the tests of sinks: a code image in a temporary file, and one job whose output
 * is collected.
 */
#ifndef PTM_TEST_SINK_JOB_H
#define PTM_TEST_SINK_JOB_H

#include "pipeline/ring.h"
#include "pipeline/sink.h"
#include "ptmill/sink.h"
#include "sink/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define CODE_BASE UINT64_C(0x401000)

/* Intel manual encodings; jmpabs is known to no disassembler here, which makes it a row of bytes.
 */
static const uint8_t code_bytes[] = {
	0x55,                         /* 401000 push rbp */
	0x48, 0x89, 0xe5,             /* 401001 mov rbp, rsp */
	0x31, 0xc0,                   /* 401004 xor eax, eax */
	0xeb, 0x02,                   /* 401006 jmp 0x40100a */
	0x90, 0x90,                   /* 401008 */
	0xe8, 0x01, 0x00, 0x00, 0x00, /* 40100a call 0x401010 */
	0xc3,                         /* 40100f ret */
	0x85, 0xc0,                   /* 401010 test eax, eax */
	0x74, 0x01,                   /* 401012 je 0x401015 */
	0x90,                         /* 401014 nop */
	0xd5, 0x00, 0xa1, 0x10, 0x10, 0x40,
	0x00, 0x00, 0x00, 0x00, 0x00, /* 401015 jmpabs 0x401010 */
	0xeb, 0xfe,                   /* 401020 jmp 0x401020 */
	0x90,                         /* 401022 nop */
	0x06,                         /* 401023 no instruction in 64-bit code */
	0x90,                         /* 401024 nop, the last byte */
};

static inline struct ptm_space *make_space(void)
{
	char path[] = "/tmp/ptm-sink-XXXXXX";
	int fd = mkstemp(path);
	struct ptm_space *space = ptm_space_create();

	assert_true(fd >= 0);
	assert_int_equal(write(fd, code_bytes, sizeof(code_bytes)), sizeof(code_bytes));
	assert_int_equal(close(fd), 0);
	assert_non_null(space);
	assert_int_equal(ptm_space_add_raw(space, path, 0, sizeof(code_bytes), CODE_BASE, NULL), 0);
	assert_int_equal(ptm_space_seal(space, NULL), 0);
	assert_int_equal(unlink(path), 0);
	return space;
}

/* One job of a ring with one worker, which is this thread: its output must fit into the ring. */
struct job {
	struct ptm_ring *ring;
	struct ptm_job_out *out;
	struct ptm_job_result *result;
};

static inline int claim_job(void *ctx, struct ptm_error *err)
{
	(void)ctx;
	(void)err;
	return 1;
}

static inline struct job begin_job(void)
{
	struct job job = {.ring = ptm_ring_create(1, NULL)};

	assert_non_null(job.ring);
	assert_int_equal(ptm_ring_enter(job.ring, claim_job, NULL, &job.out, &job.result), 1);
	return job;
}

struct bytes {
	uint8_t *data;
	size_t len;
};

/* Ends the job; returns all it wrote, with a terminator.  Free the data. */
static inline struct bytes end_job(struct job *job)
{
	struct bytes all = {.data = calloc(1, 1)};
	const struct ptm_job_result *result;
	struct ptm_chunk *chunk;

	ptm_ring_done(job->out);
	while (ptm_ring_wait(job->ring, 0, &chunk, &result) == PTM_RING_CHUNK) {
		all.data = realloc(all.data, all.len + chunk->len + 1);
		assert_non_null(all.data);
		memcpy(all.data + all.len, chunk->data, chunk->len);
		all.len += chunk->len;
		all.data[all.len] = '\0';
		ptm_ring_recycle(job->ring, chunk);
	}
	ptm_ring_recycle(job->ring, NULL);
	ptm_ring_leave(job->ring, NULL);
	ptm_ring_destroy(job->ring);
	return all;
}

/* Ends a job whose output is frames: the payloads of bodies, which are lines. */
static inline struct bytes end_framed_job(struct job *job)
{
	struct bytes all = end_job(job);
	struct bytes lines = {.data = calloc(1, all.len + 1)};
	struct ptm_frame_reader reader = {.has_held = false};
	struct ptm_piece piece;

	assert_non_null(lines.data);
	ptm_frame_feed(&reader, all.data, all.len);
	for (ptm_frame_next(&reader, &piece); piece.kind != PTM_PIECE_NONE;
	     ptm_frame_next(&reader, &piece)) {
		if (piece.kind != PTM_PIECE_BODY)
			continue;
		memcpy(lines.data + lines.len, piece.body, piece.len);
		lines.len += piece.len;
	}
	free(all.data);
	return lines;
}

/* The whole of a file. */
static inline char *read_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 16);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 16) - 1, f) < (1 << 16) - 1);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* A file name that does not exist yet. */
static inline char *make_path(void)
{
	char path[] = "/tmp/ptm-sink-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
	return strdup(path);
}

#endif
