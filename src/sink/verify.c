/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - is what was decoded what was executed?
 *
 * A stream is compared with its file of truths: the digest at every checkpoint and PSB, the number
 * of instructions and the digest at the end.  The first difference lies between the last mark that
 * agrees and the first that does not.
 */
#include "sink/compare.h"
#include "sink/marks.h"
#include "sink/truth.h"

#include "pipeline/session.h"
#include "ptmill/sink.h"

#include <inttypes.h>
#include <string.h>

struct verify_sink {
	struct ptm_file_sink file;
	const struct ptm_session *session; /* borrowed */
	const char *truth_path;            /* borrowed; NULL: what the session knows */
	size_t nstreams, nwrong;

	/* The stream under way. */
	struct ptm_truth truth;
	size_t pos;    /* of the next mark */
	size_t agreed; /* marks */
	const struct ptm_truth_mark *good,
		*bad; /* the last that agrees, the first that does not; in truth */
	struct ptm_marks marks;
	uint64_t resynced; /* instructions: not compared, and no part of what the recorder saw */
	uint64_t no_image; /* gaps */
};

static uint64_t mark_after(void *ctx, uint64_t n)
{
	struct verify_sink *vs = (struct verify_sink *)ctx;

	while (vs->pos < vs->truth.marks.n && vs->truth.marks.v[vs->pos].n <= n)
		vs->pos++;
	return vs->pos < vs->truth.marks.n && vs->bad == NULL ? vs->truth.marks.v[vs->pos].n
							      : PTM_MARK_NONE;
}

/* Compare every mark at @n, beginning with the one at `pos`. */
static int compare(void *ctx, uint64_t n, bool known, uint64_t digest, struct ptm_error *err)
{
	struct verify_sink *vs = (struct verify_sink *)ctx;

	(void)err;
	for (; vs->pos < vs->truth.marks.n && vs->truth.marks.v[vs->pos].n == n && vs->bad == NULL;
	     vs->pos++) {
		const struct ptm_truth_mark *mark = &vs->truth.marks.v[vs->pos];

		if (known && mark->digest == digest) {
			vs->good = mark;
			vs->agreed++;
		} else {
			vs->bad = mark;
		}
	}
	return 0;
}

static const struct ptm_marks_ops marks_ops = {mark_after, compare};

/* Store the file of truths that a capture names for a stream at @path; it is checked. */
static int find_truth(const struct verify_sink *vs, const char *name, const char **path,
		      struct ptm_error *err)
{
	for (size_t i = 0; i < ptm_session_streams(vs->session); i++) {
		struct ptm_stream_info info = ptm_session_stream(vs->session, i);

		if (strcmp(info.name, name) != 0 || info.truth == NULL)
			continue;
		*path = info.truth;
		return ptm_session_check_truth(vs->session, i, err);
	}
	return PTM_FAIL(err, PTM_E_USAGE,
			"%s: nothing to compare with: name its file with --truth, or "
			"compare the engines with --engines",
			name);
}

static int verify_stream_begin(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct verify_sink *vs = (struct verify_sink *)sink;
	const char *path = vs->truth_path;

	if (path == NULL)
		PTM_TRY(find_truth(vs, name, &path, err));
	ptm_truth_fini(&vs->truth);
	PTM_TRY(ptm_truth_read(&vs->truth, path, err));
	vs->nstreams++;
	vs->pos = vs->agreed = 0;
	vs->resynced = vs->no_image = 0;
	vs->good = vs->bad = NULL;
	ptm_marks_begin(&vs->marks);
	return compare(vs, 0, true, 0, err);
}

static int verify_deliver(struct ptm_sink *sink, const void *data, size_t len,
			  struct ptm_error *err)
{
	return ptm_marks_deliver(&((struct verify_sink *)sink)->marks, data, len, err);
}

static int verify_segment_end(struct ptm_sink *sink, const struct ptm_segment_end *end,
			      struct ptm_error *err)
{
	struct verify_sink *vs = (struct verify_sink *)sink;

	vs->resynced += end->resynced.n;
	vs->no_image += end->tally->gaps[PTM_GAP_NO_IMAGE];
	return ptm_marks_segment_end(&vs->marks, end, err);
}

static int put_place(struct verify_sink *vs, const char *what, const struct ptm_truth_mark *mark,
		     struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(vs->file.out, err, "  %s %" PRIu64 " instructions", what, mark->n));
	if (mark->psb)
		PTM_TRY(ptm_out_printf(vs->file.out, err, ", psb at offset 0x%" PRIx64,
				       mark->offset));
	return ptm_out_printf(vs->file.out, err, "\n");
}

/* The flow met addresses without an image.  Where one is known to be missing, that is why the
 * stream differs; otherwise the trace is damaged, or the decoder went wrong. */
static int check_images(const struct verify_sink *vs, const char *name, struct ptm_error *err)
{
	size_t n = ptm_session_images(vs->session), missing = 0;

	for (size_t i = 0; i < n; i++)
		missing += !ptm_session_image(vs->session, i).found;
	if (n > 0 && missing == 0)
		return 0;
	return PTM_FAIL(err, PTM_E_NOINPUT,
			"%s: cannot be compared: images are missing (%" PRIu64 " gap%s); "
			"`ptmill info` lists what there is",
			name, vs->no_image, vs->no_image == 1 ? "" : "s");
}

static int verify_stream_end(struct ptm_sink *sink, const char *name, struct ptm_error *err)
{
	struct verify_sink *vs = (struct verify_sink *)sink;
	const struct ptm_digest *got = &vs->marks.ended;
	bool same = got->n == vs->truth.instructions && got->b == vs->truth.digest &&
		    vs->agreed == vs->truth.marks.n && vs->resynced == 0;

	if (same)
		return ptm_out_printf(vs->file.out, err,
				      "stream %s as recorded: instructions %" PRIu64
				      " digest 0x%016" PRIx64 ", %zu place%s\n",
				      name, got->n, got->b, vs->agreed, vs->agreed == 1 ? "" : "s");
	if (vs->no_image > 0)
		PTM_TRY(check_images(vs, name, err));
	vs->nwrong++;
	PTM_TRY(ptm_out_printf(vs->file.out, err,
			       "stream %s differs: instructions %" PRIu64 " digest 0x%016" PRIx64
			       ", recorded %" PRIu64 " 0x%016" PRIx64 "\n",
			       name, got->n, got->b, vs->truth.instructions, vs->truth.digest));
	if (vs->good != NULL)
		PTM_TRY(put_place(vs, "as recorded up to", vs->good, err));
	if (vs->bad != NULL)
		PTM_TRY(put_place(vs, "not any more after", vs->bad, err));
	if (vs->resynced == 0)
		return 0;
	return ptm_out_printf(vs->file.out, err,
			      "  not compared: %" PRIu64 " resynced instructions\n", vs->resynced);
}

static void verify_destroy(struct ptm_sink *sink)
{
	struct verify_sink *vs = (struct verify_sink *)sink;

	ptm_marks_fini(&vs->marks);
	ptm_truth_fini(&vs->truth);
	ptm_file_sink_destroy(sink);
}

static const struct ptm_sink_ops verify_ops = {
	.want = PTM_WANT_STEPS,
	.work = ptm_marks_work,
	.stream_begin = verify_stream_begin,
	.deliver = verify_deliver,
	.segment_end = verify_segment_end,
	.stream_end = verify_stream_end,
	.finish = ptm_file_sink_finish,
	.destroy = verify_destroy,
};

struct ptm_sink *ptm_sink_verify_create(const struct ptm_session *session, const char *truth,
					const char *path, struct ptm_error *err)
{
	struct verify_sink *vs =
		(struct verify_sink *)ptm_file_sink_create(sizeof(*vs), &verify_ops, path, err);

	if (vs == NULL)
		return NULL;
	vs->session = session;
	vs->truth_path = truth;
	vs->marks.ops = &marks_ops;
	vs->marks.ctx = vs;
	return &vs->file.sink;
}

size_t ptm_sink_verify_wrong(const struct ptm_sink *sink)
{
	return sink->ops == &verify_ops ? ((const struct verify_sink *)sink)->nwrong
					: ptm_compare_wrong(sink);
}
