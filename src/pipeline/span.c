/* SPDX-License-Identifier: Apache-2.0
 *
 * span.c - reads bytes of a stream and compares the digests of its blocks.
 *
 * The bytes lie in the worker's buffer from span->at on; what the stream says of its blocks is an
 * array of digests.
 */
#include "pipeline/span.h"

#include "os/hash.h"
#include "pipeline/split.h"

#include <inttypes.h>
#include <string.h>

/* @size is a power of two. */
static uint64_t round_up(uint64_t offset, uint64_t size)
{
	return (offset + size - 1) & ~(size - 1);
}

int ptm_span_open(struct ptm_span *span, struct ptm_source *source, struct ptm_segbuf *buf,
		  uint64_t from, uint64_t to, uint64_t mine, struct ptm_error *err)
{
	const struct ptm_block_sums *sums = ptm_source_blocks(source);

	*span = (struct ptm_span){.source = source, .buf = buf, .begin = from, .checked = mine};
	if (sums != NULL) {
		span->checked = round_up(mine, sums->size);
		if (span->checked < to)
			to = round_up(to, sums->size);
	}
	return ptm_span_reach(span, to, err);
}

const uint8_t *ptm_span_at(const struct ptm_span *span, uint64_t offset)
{
	return span->buf->data + span->at + (size_t)(offset - span->begin);
}

int ptm_span_reach(struct ptm_span *span, uint64_t to, struct ptm_error *err)
{
	const uint64_t size = ptm_source_size(span->source);
	const uint64_t end = ptm_span_end(span);
	int64_t got;
	size_t len;

	if (to > size)
		to = size;
	if (to <= end)
		return 0;
	len = (size_t)(to - end);
	PTM_TRY(ptm_segbuf_reserve(span->buf, span->at + span->n + len, err));
	got = ptm_source_pread(span->source, span->buf->data + span->at + span->n, len, end, err);
	if (got < 0)
		return (int)got;
	if ((size_t)got < len)
		return PTM_FAIL(err, PTM_E_IO,
				"%s: the file shrank while it was read: offset=%" PRIu64,
				ptm_source_path(span->source), end + (uint64_t)got);
	span->n += len;
	return 0;
}

int ptm_span_check(struct ptm_span *span, uint64_t to, struct ptm_error *err)
{
	const struct ptm_block_sums *sums = ptm_source_blocks(span->source);
	const uint64_t size = ptm_source_size(span->source);

	if (to > size)
		to = size;
	while (sums != NULL && span->checked < to) {
		const uint64_t at = span->checked;
		const uint64_t len = size - at < sums->size ? size - at : sums->size;
		const uint64_t wanted = sums->digests.v[at / sums->size];
		uint64_t digest;

		PTM_TRY(ptm_span_reach(span, at + len, err));
		digest = ptm_hash_bytes(ptm_span_at(span, at), (size_t)len);
		if (digest != wanted)
			return PTM_FAIL(err, PTM_E_FORMAT,
					"%s: the file is not what capture.json says (block at "
					"offset=%" PRIu64 ", bytes=%" PRIu64
					", digest 0x%016" PRIx64 ", not 0x%016" PRIx64 ")",
					ptm_source_path(span->source), at, len, digest, wanted);
		span->checked = at + len;
	}
	return 0;
}

void ptm_span_drop(struct ptm_span *span, uint64_t from, size_t at)
{
	const size_t n = (size_t)(ptm_span_end(span) - from);

	if (n > 0)
		memmove(span->buf->data + at, ptm_span_at(span, from), n);
	span->at = at;
	span->begin = from;
	span->n = n;
}
