/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.h - the directory that a recording is written to, in the format of
 * docs/capture-format.md.
 *
 * There is one process, called 1, and its threads are called 1, 2, 3 in the order of their first
 * instructions, so that recording the same program again gives the same bytes.
 */
#ifndef PTM_RECORD_CAPTURE_H
#define PTM_RECORD_CAPTURE_H

#include "base/error.h"
#include "ptmill/record.h"
#include "record/feed.h"

#include <sys/types.h>

struct ptm_capture;
struct ptm_cap_stream;

/* What a capture cannot tell; known once it is committed. */
struct ptm_cap_doubts {
	uint64_t replaced;  /* how often executed code was replaced */
	uint64_t ambiguous; /* places of all streams, see feed.h */
};

/* Make a temporary directory beside @out_dir, which must not exist.  NULL and @err on failure. */
struct ptm_capture *ptm_capture_create(const char *out_dir, const struct ptm_record_config *config,
				       struct ptm_error *err);

/* Remove what was not committed, free.  NULL is allowed. */
void ptm_capture_destroy(struct ptm_capture *cap);

/* The path of @name in the capture while it is written; to be freed.  NULL when out of memory. */
char *ptm_capture_temp(const struct ptm_capture *cap, const char *name);

/* A stream for thread @number, whose truth @feed (NULL: nobody) will tell; it stays where it is,
 * borrowed, until the commit.  NULL and the capture's error on failure. */
struct ptm_cap_stream *ptm_capture_stream(struct ptm_capture *cap, uint32_t number,
					  const struct ptm_feed *feed);

/* A ptm_enc_write_fn; @ctx is the stream. */
int ptm_capture_write(void *ctx, const uint8_t *bytes, size_t len);

/* The stream is complete.  Returns 0 or -PTM_E_*. */
int ptm_capture_close(struct ptm_cap_stream *stream);

/* Size of the blocks of @bytes of trace, of which capture.json has digests, beside @others of other
 * streams; 0: it has none.  A stream gets no more than half of the digests that are left, so that
 * there are some for the next one. */
uint64_t ptm_capture_block_size(uint64_t bytes, uint64_t others);

/* The process's code; borrowed. */
struct ptm_images *ptm_capture_images(struct ptm_capture *cap);

const struct ptm_cap_doubts *ptm_capture_doubts(const struct ptm_capture *cap);

/* Where @err names the temporary directory, let it name the capture: that is what the user knows.
 */
void ptm_capture_name_it(const struct ptm_capture *cap, struct ptm_error *err);

/* The functions of a ptm_flow_sink; @ctx is the capture. */
int ptm_capture_code(void *ctx, uint64_t address, const uint8_t *bytes, size_t len);
int ptm_capture_mappings(void *ctx, pid_t pid);
int ptm_capture_losing(void *ctx, pid_t pid, uint64_t begin, uint64_t end);
int ptm_capture_leaving(void *ctx, pid_t pid);

/* Write truth and description, and give the directory its name. */
int ptm_capture_commit(struct ptm_capture *cap);

#endif
