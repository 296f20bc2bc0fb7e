/* SPDX-License-Identifier: Apache-2.0
 *
 * switches.h - who ran on a CPU, from a file of perf records.
 *
 * The records are those of an event with sample_id_all and a sample type of PERF_SAMPLE_TID |
 * PERF_SAMPLE_TIME.  PERF_RECORD_SWITCH and PERF_RECORD_SWITCH_CPU_WIDE are read, others skipped.
 */
#ifndef PTM_INPUT_SWITCHES_H
#define PTM_INPUT_SWITCHES_H

#include "input/desc.h"

/* How many switches a description may hold: a compressed file may be much larger than it looks, and
 * a file may be named often.  These take 1.6 GB. */
#define PTM_MAX_SWITCHES ((size_t)1 << 26)

/* TSC of a perf time, rounded down.  False if it does not fit, or the conversion is not known. */
bool ptm_switches_tsc(const struct ptm_desc_time *time, uint64_t ns, uint64_t *tsc);

/* Append the switches of the @len bytes at @data, which lie at @offset of the file @path.  Stops at
 * a record that is not whole.  @left is how many switches may still be read, and is counted down.
 * Returns the number of bytes used, or -PTM_E_*. */
int64_t ptm_switches_parse(struct ptm_desc_stream *stream, const struct ptm_desc_time *time,
			   const uint8_t *data, size_t len, uint64_t offset, const char *path,
			   size_t *left, struct ptm_error *err);

/* Append the switches of a file.  @err must not be NULL. */
int ptm_switches_read(struct ptm_desc_stream *stream, const struct ptm_desc_time *time,
		      const char *path, size_t *left, struct ptm_error *err);

#endif
