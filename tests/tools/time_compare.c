/* SPDX-License-Identifier: Apache-2.0
 *
 * time_compare.c - our tracker of time (src/fmt/pt_time.h) beside libipt's, packet by packet.
 *
 *   time_compare TRACE MTC-FREQ NOM-FREQ EAX EBX
 *
 * libipt's query decoder tells the time of the packet that a query took.  So each frame is written
 * anew for it: the time packets of the trace, unchanged, each with a TNT of one bit behind it to
 * ask for (behind an OVF first the FUP that it must have); TIP.PGE is only such a TNT.  Within
 * PSB+ nothing can be asked for; its packets are all compared at the TNT behind PSBEND.  Both
 * trackers begin anew at each PSB.
 *
 * Prints, as JSON: by kind of packet the number of comparisons, median and maximum of the
 * difference in ticks, and the mean with its sign (ours - libipt's); what our tracker, not begun
 * anew, made of each TSC packet's time before it saw the packet; and the cost of a packet.
 */
#include "fmt/pt_time.h"

#include <intel-pt.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct clocks {
	uint8_t mtc_freq, nom_freq;
	uint32_t eax, ebx;
};

/* What our tracker says at one TNT of the frame. */
struct mark {
	uint64_t tsc;
	bool known;
	uint8_t kind;
};

struct frame {
	uint8_t *bytes;
	size_t nbytes;
	struct mark *marks;
	size_t nmarks;
};

struct numbers {
	int64_t *v;
	size_t n;
};

struct totals {
	struct clocks clocks;
	size_t room; /* of each array below: bytes of the trace, more than there are packets */
	struct numbers diff[PTM_PKT_KINDS];
	struct numbers slip; /* told by a TSC packet - estimated before it */
	struct ptm_pkt *packets;
	size_t npackets;
	uint64_t unequal; /* one of the two knows a time and the other does not */
	uint64_t neither;
	size_t frames;
};

static void *alloc(size_t n)
{
	void *p = calloc(1, n);

	if (p == NULL) {
		(void)fprintf(stderr, "time_compare: out of memory: bytes=%zu\n", n);
		exit(1);
	}
	return p;
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	long end = f != NULL && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
	uint8_t *data;

	if (end <= 0 || fseek(f, 0, SEEK_SET) != 0) {
		(void)fprintf(stderr, "time_compare: cannot read, or empty: path=\"%s\"\n", path);
		exit(1);
	}
	data = alloc((size_t)end);
	*size = fread(data, 1, (size_t)end, f);
	(void)fclose(f);
	return data;
}

static void put(struct frame *f, const void *bytes, size_t n)
{
	memcpy(f->bytes + f->nbytes, bytes, n);
	f->nbytes += n;
}

static void put_mark(struct frame *f, const struct ptm_time *t, unsigned kind)
{
	struct mark *m = &f->marks[f->nmarks++];

	m->known = ptm_time_now(t, &m->tsc);
	m->kind = (uint8_t)kind;
	put(f, "\x06", 1);
}

static const char fup[] = "\x7d\x00\x10\x40\x00\x00\x00";

/* The packet at @bytes, already given to our tracker, into the frame for libipt.  Returns whether
 * we are still in PSB+. */
static bool write_packet(struct frame *f, const struct ptm_time *t, const struct ptm_pkt *pkt,
			 const uint8_t *bytes, bool header)
{
	bool ends = pkt->kind == PTM_PKT_PSBEND || pkt->kind == PTM_PKT_OVF;

	if (header && pkt->kind == PTM_PKT_PSBEND)
		put(f, fup, sizeof(fup) - 1);
	if (pkt->kind == PTM_PKT_PSB || ends ||
	    (ptm_pkt_is_time(pkt->kind) && pkt->kind != PTM_PKT_PAD))
		put(f, bytes, pkt->size);
	if (pkt->kind == PTM_PKT_PSB)
		return true;
	if (pkt->kind == PTM_PKT_OVF)
		put(f, fup, sizeof(fup) - 1);
	header = header && !ends;
	if (!header && (ends || pkt->kind == PTM_PKT_TIP_PGE || ptm_pkt_is_time(pkt->kind)))
		if (pkt->kind != PTM_PKT_PAD)
			put_mark(f, t, pkt->kind);
	return header;
}

static void add(struct numbers *numbers, size_t room, int64_t v)
{
	if (numbers->v == NULL)
		numbers->v = alloc(room * sizeof(*numbers->v));
	numbers->v[numbers->n++] = v;
}

static int die(const char *what, int status)
{
	(void)fprintf(stderr, "time_compare: libipt: %s: %s\n", what,
		      pt_errstr(pt_errcode(status)));
	exit(1);
}

/* Ask for the next TNT; returns whether there is a time there. */
static bool ask(struct pt_query_decoder *decoder, int *status, uint64_t *tsc)
{
	uint32_t lost_mtc, lost_cyc;
	int taken, error;

	while ((*status & pts_event_pending) != 0) {
		struct pt_event event;

		*status = pt_qry_event(decoder, &event, sizeof(event));
		if (*status < 0)
			die("event", *status);
	}
	*status = pt_qry_cond_branch(decoder, &taken);
	if (*status < 0)
		die("TNT", *status);
	error = pt_qry_time(decoder, tsc, &lost_mtc, &lost_cyc);
	if (error < 0 && error != -pte_no_time)
		die("time", error);
	return error == 0;
}

static void compare(struct totals *all, struct frame *f)
{
	struct pt_query_decoder *decoder;
	struct pt_config config;
	uint64_t ip;
	int status;

	pt_config_init(&config);
	config.begin = f->bytes;
	config.end = f->bytes + f->nbytes;
	config.mtc_freq = all->clocks.mtc_freq;
	config.nom_freq = all->clocks.nom_freq;
	config.cpuid_0x15_eax = all->clocks.eax;
	config.cpuid_0x15_ebx = all->clocks.ebx;
	decoder = pt_qry_alloc_decoder(&config);
	status = decoder != NULL ? pt_qry_sync_forward(decoder, &ip) : -pte_nomem;
	if (status < 0)
		die("PSB+", status);
	for (size_t i = 0; i < f->nmarks; i++) {
		const struct mark *m = &f->marks[i];
		uint64_t tsc;
		bool known = ask(decoder, &status, &tsc);

		if (known != m->known)
			all->unequal++;
		else if (known)
			add(&all->diff[m->kind], all->room, (int64_t)(m->tsc - tsc));
		else
			all->neither++;
	}
	pt_qry_free_decoder(decoder);
}

static void init(const struct totals *all, struct ptm_time *t)
{
	ptm_time_init(t, all->clocks.mtc_freq, all->clocks.nom_freq, all->clocks.eax,
		      all->clocks.ebx);
}

static void tell_slip(struct totals *all, struct ptm_time *through, const struct ptm_pkt *pkt)
{
	uint64_t before, after;
	bool known = pkt->kind == PTM_PKT_TSC && ptm_time_now(through, &before);

	ptm_time_packet(through, pkt);
	if (known && ptm_time_now(through, &after))
		add(&all->slip, all->room, (int64_t)(pkt->payload - before));
}

/* The packets from the PSB at @from on, up to @end or one that cannot be read. */
static void do_frame(struct totals *all, struct ptm_time *through, const uint8_t *from,
		     const uint8_t *end)
{
	struct frame f = {.bytes = alloc((size_t)(end - from) * 9 + 32),
			  .marks = alloc((size_t)(end - from) * sizeof(*f.marks))};
	bool header = true;
	struct ptm_lexer lx;
	struct ptm_pkt pkt;
	struct ptm_time t;

	init(all, &t);
	ptm_lexer_init(&lx, from, (size_t)(end - from));
	while (ptm_lex_next(&lx, &pkt) == PTM_LEX_OK) {
		ptm_time_packet(&t, &pkt);
		tell_slip(all, through, &pkt);
		if (ptm_pkt_is_time(pkt.kind) && pkt.kind != PTM_PKT_PAD)
			all->packets[all->npackets++] = pkt;
		header = write_packet(&f, &t, &pkt, lx.pos - pkt.size, header);
	}
	all->frames++;
	if (f.nmarks > 0)
		compare(all, &f);
	free(f.bytes);
	free(f.marks);
}

static int by_size(const void *a, const void *b)
{
	int64_t x = llabs(*(const int64_t *)a), y = llabs(*(const int64_t *)b);

	return (x > y) - (x < y);
}

static void print_numbers(const char *name, struct numbers *numbers)
{
	double sum = 0;

	if (numbers->n == 0)
		return;
	for (size_t i = 0; i < numbers->n; i++)
		sum += (double)numbers->v[i];
	qsort(numbers->v, numbers->n, sizeof(*numbers->v), by_size);
	printf("\"%s\": {\"n\": %zu, \"median\": %" PRId64 ", \"p99\": %" PRId64
	       ", \"max\": %" PRId64 ", \"mean\": %.1f}, ",
	       name, numbers->n, (int64_t)llabs(numbers->v[numbers->n / 2]),
	       (int64_t)llabs(numbers->v[numbers->n * 99 / 100]),
	       (int64_t)llabs(numbers->v[numbers->n - 1]), sum / (double)numbers->n);
}

static double seconds(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Nanoseconds a time packet, with the time asked for behind each if @ask_too. */
static double cost(const struct totals *all, bool ask_too)
{
	double begin = seconds(), took = 0;
	uint64_t n = 0, sum = 0, tsc;
	struct ptm_time t;

	while (took < 0.05) {
		init(all, &t);
		for (size_t i = 0; i < all->npackets; i++) {
			ptm_time_packet(&t, &all->packets[i]);
			if (ask_too && ptm_time_now(&t, &tsc))
				sum ^= tsc;
		}
		n += all->npackets;
		took = seconds() - begin;
	}
	/* The sum is printed nowhere, but must not be optimised away. */
	*(volatile uint64_t *)&sum = sum;
	return took * 1e9 / (double)n;
}

static void print(struct totals *all)
{
	printf("{\"frames\": %zu, \"packets\": %zu, \"unequal\": %" PRIu64 ", \"neither\": %" PRIu64
	       ", ",
	       all->frames, all->npackets, all->unequal, all->neither);
	for (unsigned kind = 0; kind < PTM_PKT_KINDS; kind++)
		print_numbers(ptm_pkt_name(kind), &all->diff[kind]);
	print_numbers("slip", &all->slip);
	if (all->npackets > 0)
		printf("\"ns_packet\": %.2f, \"ns_packet_now\": %.2f, ", cost(all, false),
		       cost(all, true));
	printf("\"end\": 0}\n");
}

int main(int argc, char **argv)
{
	struct totals all = {0};
	struct ptm_time through;
	uint8_t *data;
	size_t size, at;

	if (argc != 6) {
		(void)fprintf(stderr, "usage: time_compare TRACE MTC-FREQ NOM-FREQ EAX EBX\n");
		return 1;
	}
	data = read_file(argv[1], &size);
	all.clocks = (struct clocks){
		(uint8_t)strtoul(argv[2], NULL, 0), (uint8_t)strtoul(argv[3], NULL, 0),
		(uint32_t)strtoul(argv[4], NULL, 0), (uint32_t)strtoul(argv[5], NULL, 0)};
	all.room = size;
	all.packets = alloc(size * sizeof(*all.packets));
	init(&all, &through);
	for (at = ptm_psb_find(data, size, 0, false); at < size;) {
		size_t next = ptm_psb_find(data, size, at + PTM_PSB_SIZE, false);

		do_frame(&all, &through, data + at, data + next);
		at = next;
	}
	print(&all);
	for (unsigned kind = 0; kind < PTM_PKT_KINDS; kind++)
		free(all.diff[kind].v);
	free(all.slip.v);
	free(all.packets);
	free(data);
	return 0;
}
