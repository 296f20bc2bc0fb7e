/* SPDX-License-Identifier: Apache-2.0
 *
 * span.h - bytes of a stream that a worker has read, in one piece.
 *
 * A span grows at its end.  If the stream has digests of its blocks, ptm_span_check() compares
 * those of the blocks from a place on, in order, while they are still in the cache.
 */
#ifndef PTM_PIPELINE_SPAN_H
#define PTM_PIPELINE_SPAN_H

#include "base/error.h"
#include "input/source.h"

#include <stddef.h>
#include <stdint.h>

struct ptm_segbuf;

struct ptm_span {
	struct ptm_source *source; /* borrowed; can be read anywhere */
	struct ptm_segbuf *buf;    /* borrowed; bytes before `at` belong to the caller */
	size_t at;                 /* where the span lies in `buf` */
	uint64_t begin;            /* where it lies in the stream */
	size_t n;
	uint64_t checked; /* the next block to be compared begins here */
};

/* Read [from, to) of @source, which is cut at its end, to the front of @buf.  Blocks that begin
 * before @mine are not this span's to compare.  If a block that is begins before @to, it reads up
 * to the end of the last one of them. */
int ptm_span_open(struct ptm_span *span, struct ptm_source *source, struct ptm_segbuf *buf,
		  uint64_t from, uint64_t to, uint64_t mine, struct ptm_error *err);

/* Read on, up to @to or the end of the stream.  May move the bytes. */
int ptm_span_reach(struct ptm_span *span, uint64_t to, struct ptm_error *err);

/* Compare all blocks that begin before @to and were not compared yet; what is missing of the last
 * one is read.  -PTM_E_FORMAT for the first one that is another.  May move the bytes. */
int ptm_span_check(struct ptm_span *span, uint64_t to, struct ptm_error *err);

/* Forget the bytes before @from, whose blocks are compared, and let the others lie at @at of the
 * buffer, not behind where they are. */
void ptm_span_drop(struct ptm_span *span, uint64_t from, size_t at);

/* The byte at @offset of the stream, which must be in the span, or be its end. */
const uint8_t *ptm_span_at(const struct ptm_span *span, uint64_t offset);

static inline uint64_t ptm_span_end(const struct ptm_span *span)
{
	return span->begin + span->n;
}

#endif
