/* SPDX-License-Identifier: Apache-2.0
 *
 * perf_aux.h - the AUX payloads of a perf.data image in memory.
 *
 * A walk over the records of a perf.data file ("PERFILE2"; file mode, with a data section, or pipe
 * mode, where records begin behind a 16-byte header) that yields the payload of each
 * PERF_RECORD_AUXTRACE.  The payload lies *behind* its record, outside header.size.  All integers
 * are little-endian; fields are read at explicit offsets. Nothing is trusted: a length that leaves
 * the data ends the walk with an error that names the offset.
 */
#ifndef PTM_FMT_PERF_AUX_H
#define PTM_FMT_PERF_AUX_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptm_perf_type {
	PTM_PERF_TRACING_DATA = 66, /* pipe mode: data follow behind the record */
	PTM_PERF_AUXTRACE = 71,
	PTM_PERF_COMPRESSED = 81,
	PTM_PERF_COMPRESSED2 = 83
};

/* One AUXTRACE record. */
struct ptm_perf_aux {
	uint64_t file_offset; /* of the payload, from the start of the image */
	uint64_t size;        /* bytes of payload that are there */
	uint64_t missing;     /* bytes that the record promises beyond the end of the image */
	uint64_t aux_offset;  /* position in the AUX area's stream */
	uint64_t reference;
	uint32_t idx;
	uint32_t tid; /* UINT32_MAX: per-CPU */
	uint32_t cpu; /* UINT32_MAX: per-thread */
};

struct ptm_perf_walk {
	const uint8_t *data;
	uint64_t pos; /* of the next record */
	uint64_t end; /* of the data section, within the image */
	bool pipe;
	bool unfinished;  /* the recording was not closed: the header's data size is 0 or too large
			   */
	uint64_t records; /* seen so far */
	uint64_t auxtraces;    /* of these AUXTRACE */
	uint64_t compressed;   /* of these compressed, skipped: what is inside is not looked at */
	uint64_t unknown;      /* of these of a type that we do not know, skipped */
	uint32_t unknown_type; /* the first such type */
};

/* Start at a file image; the data are borrowed for as long as the walk is used.  Returns 0, or
 * -PTM_E_FORMAT if it is no perf.data file that we can read. */
int ptm_perf_walk_init(struct ptm_perf_walk *w, const uint8_t *data, size_t len,
		       struct ptm_error *err);

/* The next AUXTRACE payload.  Returns 1; 0 at the end; -PTM_E_FORMAT for a record that cannot be
 * right and -PTM_E_TRUNCATED for one that the end of the data cuts off (then pos stays at that
 * record). */
int ptm_perf_walk_next(struct ptm_perf_walk *w, struct ptm_perf_aux *aux, struct ptm_error *err);

#endif
