/* SPDX-License-Identifier: Apache-2.0
 *
 * perf_aux.c - the walk over perf.data records.
 *
 * Every record begins with type (u32), misc (u16), size (u16).  Two kinds are longer than their
 * size says: AUXTRACE and, in pipe mode, TRACING_DATA are followed by bytes of their own; a
 * COMPRESSED2 record may hold more data than sixteen bits can say, then its 64-bit data size
 * counts.
 */
#include "fmt/perf_aux.h"

#include "base/bytes.h"

#include <inttypes.h>

#define RECORD_HEADER    8
#define FILE_HEADER_PIPE 16
#define FILE_HEADER_MIN  56 /* magic to the end of the data section's offset and size */
#define AUXTRACE_MIN     44 /* header to cpu; the last four bytes are reserved */
#define KERNEL_TYPES_END 23 /* PERF_RECORD_MMAP is 1, CALLCHAIN_DEFERRED 22 */
#define USER_TYPES_BEGIN 64
#define USER_TYPES_END   85 /* BPF_METADATA is 84 */

static bool is_known(uint32_t type)
{
	return (type > 0 && type < KERNEL_TYPES_END) ||
	       (type >= USER_TYPES_BEGIN && type < USER_TYPES_END);
}

static int init_file(struct ptm_perf_walk *w, size_t len, struct ptm_error *err)
{
	if (len < FILE_HEADER_MIN)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot read perf.data: %zu bytes, the header alone needs %d", len,
				FILE_HEADER_MIN);

	uint64_t offset = ptm_load_le64(w->data + 40);
	uint64_t size = ptm_load_le64(w->data + 48);

	if (offset < FILE_HEADER_MIN || offset > len)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot read perf.data: data section at %" PRIu64 " of %zu bytes",
				offset, len);
	w->pos = offset;
	w->end = len;
	if (size == 0 || size > len - offset)
		w->unfinished = true;
	else
		w->end = offset + size;
	return 0;
}

int ptm_perf_walk_init(struct ptm_perf_walk *w, const uint8_t *data, size_t len,
		       struct ptm_error *err)
{
	*w = (struct ptm_perf_walk){.data = data, .end = len};
	if (len < FILE_HEADER_PIPE || memcmp(data, "PERFILE2", 8) != 0) {
		if (len >= 8 && memcmp(data, "2ELIFREP", 8) == 0)
			return PTM_FAIL(err, PTM_E_FORMAT,
					"Cannot read perf.data: recorded on a big-endian machine, "
					"which has no PT");
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot read perf.data: no PERFILE2 at offset 0");
	}
	if (ptm_load_le64(data + 8) != FILE_HEADER_PIPE)
		return init_file(w, len, err);
	w->pipe = true;
	w->pos = FILE_HEADER_PIPE;
	return 0;
}

/* Whole length of the record at pos, with what lies behind it; more than UINT64_MAX becomes
 * UINT64_MAX. */
static uint64_t full_size(const struct ptm_perf_walk *w, const uint8_t *rec, uint32_t type,
			  uint16_t size)
{
	uint64_t full = size;
	uint64_t sum;

	if (type == PTM_PERF_TRACING_DATA && w->pipe && size >= 12) {
		full += ptm_load_le32(rec + 8);
	} else if (type == PTM_PERF_COMPRESSED2 && size >= 16) {
		if (ptm_add_overflow(ptm_load_le64(rec + 8), 16 + 7, &sum))
			return UINT64_MAX;
		if ((sum & ~UINT64_C(7)) > full)
			full = sum & ~UINT64_C(7);
	}
	return full;
}

static void read_auxtrace(const uint8_t *rec, uint64_t payload, uint64_t left,
			  struct ptm_perf_aux *aux)
{
	uint64_t size = ptm_load_le64(rec + 8);

	*aux = (struct ptm_perf_aux){
		.file_offset = payload,
		.size = size < left ? size : left,
		.missing = size < left ? 0 : size - left,
		.aux_offset = ptm_load_le64(rec + 16),
		.reference = ptm_load_le64(rec + 24),
		.idx = ptm_load_le32(rec + 32),
		.tid = ptm_load_le32(rec + 36),
		.cpu = ptm_load_le32(rec + 40),
	};
}

static void count(struct ptm_perf_walk *w, uint32_t type)
{
	w->records++;
	if (type == PTM_PERF_AUXTRACE)
		w->auxtraces++;
	if (type == PTM_PERF_COMPRESSED || type == PTM_PERF_COMPRESSED2)
		w->compressed++;
	if (!is_known(type)) {
		if (w->unknown == 0)
			w->unknown_type = type;
		w->unknown++;
	}
}

int ptm_perf_walk_next(struct ptm_perf_walk *w, struct ptm_perf_aux *aux, struct ptm_error *err)
{
	while (w->pos < w->end) {
		const uint8_t *rec = w->data + w->pos;
		uint64_t left = w->end - w->pos;

		if (left < RECORD_HEADER)
			return PTM_FAIL(err, PTM_E_TRUNCATED,
					"Cannot read perf.data: %" PRIu64
					" bytes of a record at offset %" PRIu64,
					left, w->pos);

		uint32_t type = ptm_load_le32(rec);
		uint16_t size = ptm_load_le16(rec + 6);

		if (size < RECORD_HEADER || (type == PTM_PERF_AUXTRACE && size < AUXTRACE_MIN))
			return PTM_FAIL(err, PTM_E_FORMAT,
					"Cannot read perf.data: record of type %" PRIu32
					" and size %u at offset %" PRIu64,
					type, size, w->pos);
		/* The record itself must be there before any field of it is read. */
		if (size > left || full_size(w, rec, type, size) > left)
			return PTM_FAIL(err, PTM_E_TRUNCATED,
					"Cannot read perf.data: record of type %" PRIu32
					" and size %u at offset %" PRIu64
					" reaches beyond the end of the data",
					type, size, w->pos);
		count(w, type);
		if (type == PTM_PERF_AUXTRACE) {
			read_auxtrace(rec, w->pos + size, left - size, aux);
			w->pos += size + aux->size;
			return 1;
		}
		w->pos += full_size(w, rec, type, size);
	}
	return 0;
}
