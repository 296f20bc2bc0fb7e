/* SPDX-License-Identifier: Apache-2.0
 *
 * common.h - what the sinks share: an output, hexadecimal numbers, room for lines in a job's
 * output.
 */
#ifndef PTM_SINK_COMMON_H
#define PTM_SINK_COMMON_H

#include "os/file.h"
#include "pipeline/sink.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A sink that writes one output.  First member of the sinks that do. */
struct ptm_file_sink {
	struct ptm_sink sink;
	struct ptm_out *out; /* owned; NULL once finished */
	size_t nstreams;
};

/* Allocate a zeroed sink of @size bytes, which begins with a struct ptm_file_sink, and open its
 * output.  NULL and
 * @err on failure. */
void *ptm_file_sink_create(size_t size, const struct ptm_sink_ops *ops, const char *path,
			   struct ptm_error *err);

/* Operations of sinks whose lines do not name their stream: where there is more than one, each
 * begins with a line `[stream NAME]`. */
void ptm_file_sink_streams(struct ptm_sink *sink, size_t n);
int ptm_file_sink_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err);

/* Operations: write what reached the deliverer, put the output in its place, drop what was not
 * finished. */
int ptm_file_sink_deliver(struct ptm_sink *sink, const void *data, size_t len,
			  struct ptm_error *err);
int ptm_file_sink_finish(struct ptm_sink *sink, struct ptm_error *err);
void ptm_file_sink_destroy(struct ptm_sink *sink);

/* Sixteen hexadecimal digits of @v, without a terminator: nibbles are spread over two words, then
 * all turned into digits at once. */
static inline char *ptm_put_hex16(char *p, uint64_t v)
{
	for (unsigned half = 0; half < 2; half++) {
		uint64_t x = half == 0 ? v >> 32 : v & UINT64_C(0xffffffff);
		uint64_t above9;

		x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
		x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
		x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
		above9 = (x + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
		x += UINT64_C(0x3030303030303030) + above9 * ('a' - '0' - 10);
		x = htobe64(x);
		memcpy(p, &x, sizeof(x));
		p += sizeof(x);
	}
	return p;
}

/* Writes into a job's output, a piece at a time: [pos, end) is the room left of the piece. */
struct ptm_lines {
	struct ptm_job_out *out;
	char *begin, *pos, *end;
	bool framed; /* each piece is a frame (sink/frames.h) */
};

#define PTM_LINES_HEAD 8 /* bytes in front of a framed piece */

/* Size of a piece: small against a chunk, whose last bytes may stay unused. */
#define PTM_LINES_PIECE (32u << 10)

static inline void ptm_lines_init(struct ptm_lines *lines, struct ptm_job_out *out)
{
	*lines = (struct ptm_lines){.out = out};
}

static inline void ptm_lines_init_framed(struct ptm_lines *lines, struct ptm_job_out *out)
{
	*lines = (struct ptm_lines){.out = out, .framed = true};
}

/* Hand over what was written. */
void ptm_lines_flush(struct ptm_lines *lines);

/* The next piece.  False when canceled or out of memory. */
bool ptm_lines_more(struct ptm_lines *lines);

/* Room for @need bytes, at most PTM_LINES_PIECE, behind pos. */
static inline bool ptm_lines_room(struct ptm_lines *lines, size_t need)
{
	return (size_t)(lines->end - lines->pos) >= need || ptm_lines_more(lines);
}

/* Write @len bytes, any number. */
static inline bool ptm_lines_write(struct ptm_lines *lines, const char *data, size_t len)
{
	while ((size_t)(lines->end - lines->pos) < len) {
		size_t part = (size_t)(lines->end - lines->pos);

		if (part > 0)
			memcpy(lines->pos, data, part);
		lines->pos += part;
		data += part;
		len -= part;
		if (!ptm_lines_more(lines))
			return false;
	}
	memcpy(lines->pos, data, len);
	lines->pos += len;
	return true;
}

/* What work() and raw() return when there was no room. */
int ptm_lines_failed(struct ptm_error *err);

#endif
