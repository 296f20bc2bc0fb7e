/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - what a session is made of.  Private to this room.
 */
#ifndef PTM_PIPELINE_SESSION_H
#define PTM_PIPELINE_SESSION_H

#include "flow/engine.h"
#include "image/space.h"
#include "input/desc.h"
#include "input/source.h"
#include "pipeline/ring.h"
#include "ptmill/session.h"

#include <pthread.h>
#include <stdatomic.h>

/* The space of a process; pid 0: of those that a description does not list. */
struct ptm_process_space {
	struct ptm_space *space;
	uint32_t pid;
};

struct ptm_session {
	struct ptm_config config;
	struct ptm_plan *plan;
	struct ptm_sources *sources;
	struct ptm_space *space;                  /* of the images that options name */
	PTM_VEC(struct ptm_process_space) spaces; /* owned; of bundles and captures */
	PTM_VEC(char *) paths; /* owned; of files that options name and nothing else keeps */
	bool has_plain;        /* a stream lies in `space` */
	PTM_VEC(struct ptm_desc *) descs;                  /* owned; of bundles and captures */
	PTM_VEC(const struct ptm_desc_stream *) described; /* in descs; one a source, NULL: none */
	PTM_VEC(struct ptm_stream_context) streams;        /* one a source */
	bool sealed;
	atomic_bool cancel;    /* written by anyone, read by workers: relaxed, it only asks */
	pthread_mutex_t lock;  /* guards `ring` against a cancel while the run ends */
	struct ptm_ring *ring; /* while running */
};

/* Add the streams and processes of a bundle or a capture. */
int ptm_session_add_described(struct ptm_session *session, const char *path,
			      enum ptm_desc_kind kind, struct ptm_error *err);

/* Are the files of captures what their capture.json says?  All traces, but of those whose blocks
 * the workers compare (span.h) the size alone; and the file of truths of stream @i, which must have
 * one. */
int ptm_session_check_streams(const struct ptm_session *session, struct ptm_error *err);
int ptm_session_check_truth(const struct ptm_session *session, size_t i, struct ptm_error *err);

/* Index of mapping @i of @space among ptm_session_images(). */
size_t ptm_session_image_index(const struct ptm_session *session, const struct ptm_space *space,
			       size_t i);

void ptm_session_free_descs(struct ptm_session *session);

#endif
