/* SPDX-License-Identifier: Apache-2.0
 *
 * preflight.c - which images a trace needs, before it is decoded.
 *
 * The addresses in TIP, TIP.PGE and FUP packets tell which images the flow passes through, and how
 * much; nothing is decoded for that.  A worker counts addresses by mapping and hands on a record
 * for each that it met; the deliverer adds them up.  Of a large trace only some frames are looked
 * at, chosen by their offset, so that the result does not depend on how the stream was cut.
 */
#include "sink/common.h"

#include "flow/frame.h"
#include "pipeline/session.h"
#include "ptmill/sink.h"

#include <inttypes.h>
#include <stdlib.h>

/* Bytes of trace from which on only a part is looked at: about two seconds of lexing. */
#define PREFLIGHT_BYTES (UINT64_C(256) << 20)

/* Addresses in the mappings of one space; counts[n] has those in none. */
struct space_counts {
	const struct ptm_space *space;
	size_t n;
	uint64_t *counts; /* owned */
};

struct counts {
	PTM_VEC(struct space_counts) v;
};

struct record {
	const struct ptm_space *space;
	uint64_t index, count;
};

struct preflight_sink {
	struct ptm_file_sink file;
	const struct ptm_session *session; /* borrowed */
	uint64_t every;                    /* one frame in so many is looked at */

	/* The deliverer's. */
	struct counts sum;
	struct record carry; /* a record that a piece cut off */
	size_t ncarry;
};

static struct space_counts *find_space(struct counts *counts, const struct ptm_space *space)
{
	struct space_counts sc = {.space = space};

	for (size_t i = 0; i < counts->v.n; i++) {
		if (counts->v.v[i].space == space)
			return &counts->v.v[i];
	}
	sc.n = ptm_space_count(space);
	sc.counts = (uint64_t *)calloc(sc.n + 1, sizeof(*sc.counts));
	if (sc.counts == NULL || !ptm_vec_push(&counts->v, sc)) {
		free(sc.counts);
		return NULL;
	}
	return &counts->v.v[counts->v.n - 1];
}

static void counts_destroy(struct counts *counts)
{
	if (counts == NULL)
		return;
	for (size_t i = 0; i < counts->v.n; i++)
		free(counts->v.v[i].counts);
	free(counts->v.v);
	counts->v.v = NULL;
	counts->v.n = counts->v.cap = 0;
}

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot count addresses: out of memory");
}

static void *worker_create(struct ptm_sink *sink, struct ptm_error *err)
{
	void *worker = calloc(1, sizeof(struct counts));

	(void)sink;
	if (worker == NULL)
		(void)no_memory(err);
	return worker;
}

static void worker_destroy(struct ptm_sink *sink, void *worker)
{
	(void)sink;
	counts_destroy((struct counts *)worker);
	free(worker);
}

/* One segment under way. */
struct look {
	const struct preflight_sink *sink;
	const struct ptm_segment *seg;
	struct counts *counts;
};

static int ignore(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	(void)ctx;
	(void)batch;
	(void)err;
	return 0;
}

static int look_at_frame(void *ctx, const struct ptm_frame *frame, bool *ovf_last,
			 struct ptm_emit *emit, struct ptm_error *err)
{
	const struct ptm_frame_scan scan = ptm_frame_scan(frame, &emit->tally);
	struct look *look = (struct look *)ctx;
	const struct ptm_timeline *images = &look->seg->stream->images;
	struct space_counts *sc = find_space(look->counts, images->first);
	struct ptm_lexer lx;
	struct ptm_pkt pkt;

	*ovf_last = scan.ovf_last;
	ptm_frame_account(frame, scan.good, &emit->tally);
	if ((frame->offset * PTM_DIGEST_K >> 32) % look->sink->every != 0)
		return 0;
	ptm_frame_lexer(frame, scan.good, &lx);
	while (sc != NULL && ptm_errata_lex(frame->errata, &lx, &pkt) == PTM_LEX_OK) {
		size_t i;

		if (pkt.kind == PTM_PKT_TSC)
			sc = find_space(look->counts, ptm_timeline_at(images, pkt.payload));
		if (!pkt.has_ip || pkt.kind == PTM_PKT_TIP_PGD || sc == NULL)
			continue;
		i = ptm_space_find(sc->space, pkt.ip);
		sc->counts[i < sc->n ? i : sc->n]++;
	}
	return sc != NULL ? 0 : no_memory(err);
}

static int hand_on(struct counts *counts, struct ptm_job_out *out, struct ptm_error *err)
{
	struct ptm_lines lines;
	bool ok = true;

	ptm_lines_init(&lines, out);
	for (size_t k = 0; k < counts->v.n; k++) {
		struct space_counts *sc = &counts->v.v[k];

		for (size_t i = 0; i <= sc->n; i++) {
			struct record record = {sc->space, i, sc->counts[i]};

			if (record.count > 0)
				ok = ok &&
				     ptm_lines_write(&lines, (const char *)&record, sizeof(record));
			sc->counts[i] = 0;
		}
	}
	ptm_lines_flush(&lines);
	return ok ? 0 : ptm_lines_failed(err);
}

static int preflight_raw(struct ptm_sink *sink, void *worker, const struct ptm_segment *seg,
			 struct ptm_emit *emit, struct ptm_job_out *out, struct ptm_error *err)
{
	struct look look = {(struct preflight_sink *)sink, seg, (struct counts *)worker};

	ptm_emit_init(emit, ignore, NULL);
	PTM_TRY(ptm_frames_walk(seg, look_at_frame, &look, emit, err));
	return hand_on(look.counts, out, err);
}

static int preflight_deliver(struct ptm_sink *sink, const void *data, size_t len,
			     struct ptm_error *err)
{
	struct preflight_sink *ps = (struct preflight_sink *)sink;
	const uint8_t *p = (const uint8_t *)data;

	while (len > 0) {
		size_t part =
			sizeof(ps->carry) - ps->ncarry < len ? sizeof(ps->carry) - ps->ncarry : len;
		struct space_counts *sc;

		memcpy((uint8_t *)&ps->carry + ps->ncarry, p, part);
		ps->ncarry += part;
		p += part;
		len -= part;
		if (ps->ncarry < sizeof(ps->carry))
			break;
		ps->ncarry = 0;
		sc = find_space(&ps->sum, ps->carry.space);
		if (sc == NULL)
			return no_memory(err);
		sc->counts[ps->carry.index] += ps->carry.count;
	}
	return 0;
}

static const char *verdict(const struct ptm_image_info *m)
{
	if (!m->found)
		return "missing";
	if (m->wanted_id[0] != '\0' && strcmp(m->wanted_id, m->build_id) != 0)
		return "other-build-id";
	return "found";
}

static int put_image(struct preflight_sink *ps, const struct ptm_image_info *m, uint64_t n,
		     uint64_t total, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(ps->file.out, err,
			       "image 0x%" PRIx64 "-0x%" PRIx64 " offset 0x%" PRIx64
			       " %s share %.1f%% pid %" PRIu32 " build-id %s",
			       m->begin, m->end, m->file_offset, verdict(m),
			       total > 0 ? 100.0 * (double)n / (double)total : 0.0, m->pid,
			       m->build_id[0] != '\0' ? m->build_id : "none"));
	if (m->wanted_id[0] != '\0')
		PTM_TRY(ptm_out_printf(ps->file.out, err, " wanted %s", m->wanted_id));
	return ptm_out_printf(ps->file.out, err, " path %s\n", m->path);
}

static int put_report(struct preflight_sink *ps, uint64_t *counts, size_t n, struct ptm_error *err)
{
	uint64_t total = 0, none = 0;

	for (size_t k = 0; k < ps->sum.v.n; k++) {
		const struct space_counts *sc = &ps->sum.v.v[k];

		for (size_t i = 0; i < sc->n; i++)
			counts[ptm_session_image_index(ps->session, sc->space, i)] += sc->counts[i];
		none += sc->counts[sc->n];
	}
	for (size_t i = 0; i < n; i++)
		total += counts[i];
	total += none;
	for (size_t i = 0; i < n; i++) {
		struct ptm_image_info m = ptm_session_image(ps->session, i);

		PTM_TRY(put_image(ps, &m, counts[i], total, err));
	}
	return ptm_out_printf(ps->file.out, err,
			      "unmapped share %.1f%% of %" PRIu64 " addresses%s\n",
			      total > 0 ? 100.0 * (double)none / (double)total : 0.0, total,
			      ps->every > 1 ? ", sampled" : "");
}

static int preflight_finish(struct ptm_sink *sink, struct ptm_error *err)
{
	struct preflight_sink *ps = (struct preflight_sink *)sink;
	size_t n = ptm_session_images(ps->session);
	uint64_t *counts = (uint64_t *)calloc(n + 1, sizeof(*counts));
	int status = counts != NULL ? put_report(ps, counts, n, err) : no_memory(err);

	free(counts);
	return status < 0 ? status : ptm_file_sink_finish(sink, err);
}

static void preflight_destroy(struct ptm_sink *sink)
{
	counts_destroy(&((struct preflight_sink *)sink)->sum);
	ptm_file_sink_destroy(sink);
}

static const struct ptm_sink_ops preflight_ops = {
	.worker_create = worker_create,
	.worker_destroy = worker_destroy,
	.raw = preflight_raw,
	.deliver = preflight_deliver,
	.finish = preflight_finish,
	.destroy = preflight_destroy,
};

struct ptm_sink *ptm_sink_preflight_create(const struct ptm_session *session, const char *path,
					   struct ptm_error *err)
{
	struct preflight_sink *ps = (struct preflight_sink *)ptm_file_sink_create(
		sizeof(*ps), &preflight_ops, path, err);
	uint64_t bytes = 0;

	if (ps == NULL)
		return NULL;
	for (size_t i = 0; i < ptm_session_streams(session); i++)
		bytes += ptm_session_stream(session, i).bytes;
	ps->session = session;
	ps->every = bytes / PREFLIGHT_BYTES + 1;
	return &ps->file.sink;
}
