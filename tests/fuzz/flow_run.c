/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_run.c - runs an engine, and compares results.
 *
 * Steps are expanded with the decoder of the image room, as sinks do; what they hold must be what
 * the batch's digest says.
 */
#include "flow_run.h"

#include "flow/frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEED(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

/* Instructions seen before, direct-mapped; valid for one job. */
#define MEMO 4096u

struct memo {
	uint64_t ip, next;
	uint32_t job;
	uint32_t mode;
};

struct collector {
	struct flow_result *result;
	bool no_steps;
	const char *wrong;
};

static struct memo memos[MEMO];
static uint32_t current_job;

/* The instruction behind the one at @ip, as far as the code tells; false if there is no code. */
static bool find_next(const struct ptm_space *space, uint64_t ip, uint32_t mode, uint64_t *next)
{
	struct memo *m = &memos[(ip ^ ip >> 12) % MEMO];
	struct ptm_insn insn;
	uint8_t bytes[15];
	size_t n;

	*next = m->next;
	if (m->ip == ip && m->job == current_job && m->mode == mode)
		return true;
	n = ptm_space_read(space, ip, bytes, sizeof(bytes));
	if (ptm_insn_decode(bytes, n, ip, (enum ptm_mode)mode, &insn) <= 0)
		return false;
	*m = (struct memo){ip, ip + insn.len, current_job, mode};
	if (insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL)
		m->next = insn.target;
	*next = m->next;
	return true;
}

static int collect(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct collector *c = ctx;
	struct flow_result *r = c->result;
	struct ptm_digest d = PTM_DIGEST_EMPTY;
	size_t e = 0;

	(void)err;
	for (size_t s = 0; s <= batch->nsteps; s++) {
		for (; e < batch->nevents && batch->events[e].step == s; e++) {
			struct flow_event ev = {r->ips.n, batch->events[e]};

			ev.ev.step = 0;
			NEED(ptm_vec_push(&r->events, ev));
		}
		if (s == batch->nsteps)
			break;
		uint64_t ip = batch->steps[s].ip;
		for (uint32_t i = 0; i < batch->steps[s].n; i++) {
			uint64_t next;

			if (!find_next(batch->space, ip, batch->steps[s].mode, &next))
				c->wrong = "a step goes where no code is";
			NEED(ptm_vec_push(&r->ips, ip));
			ptm_digest_add(&d, ip);
			ip = next;
		}
	}
	if (c->no_steps) {
		if (batch->nsteps > 0)
			c->wrong = "steps that nobody wants";
		return 0;
	}
	if (e != batch->nevents)
		c->wrong = "an event stands behind the steps of its batch";
	if (d.n != batch->digest.n || d.b != batch->digest.b || d.kn != batch->digest.kn)
		c->wrong = "the steps of a batch are not what its digest says";
	return 0;
}

static void decode_segment(const struct flow_job *job, const struct ptm_segment *seg,
			   struct collector *c, struct flow_mark *mark)
{
	static struct ptm_emit emit;
	struct ptm_error err;

	ptm_emit_init(&emit, collect, c);
	if (job->engine->ops->decode(job->engine, seg, &emit, &err) != 0)
		c->wrong = "the engine failed";
	ptm_tally_add(&c->result->tally, &emit.tally);
	ptm_digest_append(&c->result->digest, &emit.digest);
	ptm_digest_append(&c->result->resynced, &emit.resynced);
	mark->digest = emit.digest;
	mark->resynced = emit.resynced;
}

const char *flow_decode(const struct flow_job *job, struct flow_result *r)
{
	struct collector c = {.result = r, .no_steps = job->no_steps};
	const size_t n = job->len;
	size_t begin = ptm_psb_find(job->trace, n, 0, false);
	uint64_t head = begin, sum = 0;
	bool ovf = false;

	current_job++;
	r->ips.n = r->events.n = r->frames.n = 0;
	r->tally = (struct ptm_tally){0};
	r->digest = r->resynced = PTM_DIGEST_EMPTY;
	do {
		size_t end = job->cut && begin < n
				     ? ptm_psb_find(job->trace, n, begin + PTM_PSB_SIZE, false)
				     : n;
		/* A block of its own, so that a sanitizer sees a read past the end. */
		uint8_t *data = malloc(n > begin ? n - begin : 1);
		struct ptm_segment seg = {.stream = &job->stream,
					  .data = data,
					  .len = end - begin,
					  .look = n - end,
					  .offset = begin,
					  .head = head,
					  .no_sync = begin == n,
					  .ovf_pending = ovf};
		struct flow_mark mark = {.offset = begin};

		NEED(data != NULL);
		memcpy(data, job->trace + begin, n - begin);
		decode_segment(job, &seg, &c, &mark);
		ovf = begin < n && ptm_frame_ends_in_ovf(data, end - begin);
		free(data);
		mark.nips = r->ips.n;
		mark.nevents = r->events.n;
		NEED(ptm_vec_push(&r->frames, mark));
		begin = end;
		head = 0;
	} while (begin < n);
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		sum += r->tally.bytes[i];
	if (sum != n)
		return "the classes of bytes do not add up";
	if (r->tally.insns != r->digest.n || r->tally.resynced != r->resynced.n ||
	    (!job->no_steps && r->digest.n + r->resynced.n != r->ips.n))
		return "tally, digests and steps count differently";
	return c.wrong;
}

void flow_result_fini(struct flow_result *r)
{
	free(r->ips.v);
	free(r->events.v);
	free(r->frames.v);
	*r = (struct flow_result){0};
}

bool flow_same_event(const struct ptm_event *a, const struct ptm_event *b)
{
	const unsigned places = PTM_EVF_HAS_IP | PTM_EVF_HAS_TO;

	return a->kind == b->kind && (a->flags & places) == (b->flags & places) &&
	       a->arg == b->arg && ((a->flags & PTM_EVF_HAS_IP) == 0 || a->ip == b->ip) &&
	       ((a->flags & PTM_EVF_HAS_TO) == 0 || a->to == b->to) &&
	       (a->kind == PTM_EV_GAP || a->value == b->value);
}

static void print_event(FILE *f, uint64_t at, const struct ptm_event *ev)
{
	char text[256];

	(void)ptm_event_format(ev, text, sizeof(text));
	(void)fprintf(f, "  %" PRIu64 ": %s\n", at, text);
}

static bool same_digest(const struct ptm_digest *a, const struct ptm_digest *b)
{
	return a->n == b->n && a->kn == b->kn && a->b == b->b;
}

/* Events @i of both, but for where they stand; print them if they differ. */
static const char *same_event(const struct flow_event *a, const struct flow_event *b, bool placed)
{
	const struct ptm_event *p = &a->ev, *q = &b->ev;
	const char *wrong = NULL;

	if (placed && a->at != b->at)
		wrong = "an event at another place";
	else if (!flow_same_event(p, q) || p->value != q->value)
		wrong = "another event";
	else if (p->offset != q->offset)
		wrong = "an event with another offset";
	else if (p->flags != q->flags || p->tsc != q->tsc)
		wrong = "an event with another time";
	if (wrong == NULL)
		return NULL;
	print_event(stderr, a->at, p);
	print_event(stderr, b->at, q);
	return wrong;
}

static const char *same_events(const struct flow_result *a, const struct flow_result *b,
			       bool placed)
{
	const char *wrong = NULL;

	if (a->events.n != b->events.n)
		return "another number of events";
	for (size_t i = 0; i < a->events.n && wrong == NULL; i++)
		wrong = same_event(&a->events.v[i], &b->events.v[i], placed);
	return wrong;
}

const char *flow_same(const struct flow_result *a, const struct flow_result *b)
{
	const char *wrong;

	if (a->ips.n != b->ips.n ||
	    (a->ips.n > 0 && memcmp(a->ips.v, b->ips.v, a->ips.n * sizeof(a->ips.v[0])) != 0))
		return "other instructions";
	wrong = same_events(a, b, true);
	if (wrong != NULL)
		return wrong;
	if (!same_digest(&a->digest, &b->digest) || !same_digest(&a->resynced, &b->resynced))
		return "another digest";
	if (memcmp(&a->tally, &b->tally, sizeof(a->tally)) != 0)
		return "another tally";
	return NULL;
}

const char *flow_same_sums(const struct flow_result *full, const struct flow_result *sums,
			   size_t *frame)
{
	const struct ptm_tally *a = &full->tally, *b = &sums->tally;
	const bool by_frame = full->frames.n == sums->frames.n;
	const char *wrong;

	for (*frame = 0; by_frame && *frame < full->frames.n; ++*frame) {
		const struct flow_mark *p = &full->frames.v[*frame], *q = &sums->frames.v[*frame];

		if (!same_digest(&p->digest, &q->digest))
			return "other instructions in a frame, without steps";
		if (!same_digest(&p->resynced, &q->resynced))
			return "other uncertain instructions in a frame, without steps";
		if (p->nevents != q->nevents)
			return "another number of events in a frame, without steps";
	}
	*frame = 0;
	if (!same_digest(&full->digest, &sums->digest) ||
	    !same_digest(&full->resynced, &sums->resynced))
		return "another digest without steps";
	wrong = same_events(full, sums, false);
	if (wrong != NULL)
		return wrong;
	if (a->insns != b->insns || a->resynced != b->resynced || a->events != b->events ||
	    a->overflows != b->overflows || memcmp(a->bytes, b->bytes, sizeof(a->bytes)) != 0 ||
	    memcmp(a->gaps, b->gaps, sizeof(a->gaps)) != 0)
		return "another tally without steps";
	return NULL;
}

/* The truth does not know whether tracing resumes where it ended, nor how an overflow was resolved.
 */
static bool is_told_event(const struct flow_event *told, const struct flow_event *seen)
{
	struct ptm_event t = told->ev, s = seen->ev;

	if (s.kind == PTM_EV_RESUMED)
		s.kind = PTM_EV_ENABLED;
	if (s.kind == PTM_EV_OVERFLOW) {
		s.flags = 0;
		s.ip = 0;
	}
	/* PTWRITE is told with the address that its FUP or the code names. */
	if (s.kind == PTM_EV_PTWRITE && (s.flags & PTM_EVF_HAS_IP) == 0) {
		t.flags = 0;
		t.ip = 0;
	}
	return told->at == seen->at && flow_same_event(&t, &s);
}

static const char *check_events(const struct flow_result *r, const struct flow_truth *t)
{
	size_t k = 0;

	for (size_t i = 0; i < r->events.n; i++) {
		const struct flow_event *ev = &r->events.v[i];
		unsigned kind = ev->ev.kind == PTM_EV_RESUMED ? PTM_EV_ENABLED : ev->ev.kind;

		if (kind == PTM_EV_GAP)
			return "a gap in a sound trace";
		if (!flow_is_told(t, kind))
			continue;
		if (k == t->events.n)
			return "an event that did not happen";
		if (!is_told_event(&t->events.v[k++], ev))
			return "another event than happened";
	}
	return k < t->events.n ? "an event is missing" : NULL;
}

/* Where instructions and events leave what happened. */
static void print_truth(const struct flow_result *r, const struct flow_truth *t)
{
	size_t i = 0, k = 0;

	while (i < r->ips.n && i < t->ips.n && r->ips.v[i] == t->ips.v[i])
		i++;
	(void)fprintf(stderr, "instructions: %zu of %zu, equal up to %zu\n", r->ips.n, t->ips.n, i);
	for (size_t n = i > 4 ? i - 4 : 0; n < i + 4; n++)
		(void)fprintf(stderr, "  %zu: %016" PRIx64 " told %016" PRIx64 "\n", n,
			      n < r->ips.n ? r->ips.v[n] : 0, n < t->ips.n ? t->ips.v[n] : 0);
	for (i = 0; i < r->events.n; i++) {
		const struct flow_event *ev = &r->events.v[i];
		unsigned kind = ev->ev.kind == PTM_EV_RESUMED ? PTM_EV_ENABLED : ev->ev.kind;

		if (kind != PTM_EV_GAP && !flow_is_told(t, kind))
			continue;
		if (k < t->events.n && is_told_event(&t->events.v[k], ev)) {
			k++;
			continue;
		}
		(void)fprintf(stderr, "event:\n");
		print_event(stderr, ev->at, &ev->ev);
		break;
	}
	if (k < t->events.n) {
		(void)fprintf(stderr, "told:\n");
		print_event(stderr, t->events.v[k].at, &t->events.v[k].ev);
	}
}

const char *flow_is_truth(const struct flow_result *r, const struct flow_truth *t)
{
	const char *wrong = NULL;

	if (r->ips.n != t->ips.n ||
	    (r->ips.n > 0 && memcmp(r->ips.v, t->ips.v, r->ips.n * sizeof(r->ips.v[0])) != 0))
		wrong = "other instructions than were executed";
	if (wrong == NULL)
		wrong = check_events(r, t);
	/* Cut at every PSB, a frame ends where the next PSB was written. */
	if (wrong == NULL && r->frames.n == t->psbs.n)
		for (size_t i = 0; i + 1 < r->frames.n; i++)
			if (r->frames.v[i + 1].offset != t->psbs.v[i + 1].offset ||
			    r->frames.v[i].nips != t->psbs.v[i + 1].at)
				wrong = "instructions on the other side of a PSB";
	if (wrong != NULL)
		print_truth(r, t);
	return wrong;
}

struct flow_cursor flow_frame(const struct flow_result *r, size_t frame)
{
	const struct flow_mark *m = &r->frames.v[frame];
	struct flow_cursor c = {.result = r, .ip_end = m->nips, .event_end = m->nevents};

	if (frame > 0) {
		c.ip = m[-1].nips;
		c.event = m[-1].nevents;
	}
	return c;
}

bool flow_next(struct flow_cursor *c, uint64_t *ip, const struct ptm_event **ev)
{
	*ip = 0;
	*ev = NULL;
	if (c->event < c->event_end && c->result->events.v[c->event].at <= c->ip) {
		*ev = &c->result->events.v[c->event++].ev;
		return true;
	}
	if (c->ip == c->ip_end)
		return false;
	*ip = c->result->ips.v[c->ip++];
	return true;
}

void flow_print(FILE *f, const struct flow_result *r, size_t frame, size_t at)
{
	struct flow_cursor c = flow_frame(r, frame);
	const struct ptm_event *ev;
	uint64_t ip;

	for (size_t i = 0; i < at + 12 && flow_next(&c, &ip, &ev); i++) {
		if (i + 12 < at)
			continue;
		(void)fprintf(f, "%s ", i == at ? "->" : "  ");
		if (ev != NULL)
			print_event(f, i, ev);
		else
			(void)fprintf(f, "  %zu: %016" PRIx64 "\n", i, ip);
	}
}
