/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_flow.c - flow engines on random programs, recorded with random options, then damaged.
 *
 * The input is a seed of eight bytes, and choices (flow_rand.h).  Of a sound trace every engine
 * must yield what was executed.  Of a damaged one, and of damaged code, it must come back, account
 * for every byte, and yield the same however the trace is cut; and the engines must agree, frame by
 * frame, but for the known faults of libipt, which are told apart and counted (flow_diff.h).  The
 * engine behind --resync ip must count the same instructions as certain.
 *
 * Without steps the engine `fast` goes another way, by edges: with a cache of its own, and with one
 * that two of them share and that fills up on the way, digests and events must be the same.
 *
 * What fails aborts, with both texts; if PTM_FUZZ_REPRO names a directory, the trace and the code
 * are left there as files for `ptmill decode --raw`.
 */
#include "flow_damage.h"
#include "flow_diff.h"
#include "fuzz_flow.h"

#include "flow/cache.h"
#include "os/rcu.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first is libipt, which the others are compared with. */
static const struct ptm_engine_ops *const engines[] = {&ptm_engine_ipt, &ptm_engine_fast};

#define ENGINES (sizeof(engines) / sizeof(engines[0]))
#define PAGE    4096u

/* Nodes that the smallest cache has room for, one of them of id 0. */
#define SMALL_NODES 1024u

struct flow_counts flow_counts;
bool flow_survey;

/* A case on its way. */
struct fuzz_case {
	const uint8_t *input;
	size_t size;
	struct flow_prog prog;
	struct flow_truth truth;
	struct ptm_space *space;
	bool patched; /* bytes of the code were changed */
	struct flow_result whole[ENGINES], cut[ENGINES], ip;
	struct flow_result sums; /* without steps */
	uint64_t choice;         /* of the part that is decoded next, from the input */
};

static struct fuzz_case fc;

static void write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
	char path[4096];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (f == NULL)
		return;
	(void)fwrite(bytes, 1, n, f);
	(void)fclose(f);
}

/* The case: its input and options on stderr; its files in the directory for them. */
static void tell_case(void)
{
	const char *dir = getenv("PTM_FUZZ_REPRO");
	const struct ptm_record_config *c = &fc.truth.config;

	(void)fprintf(stderr, "input:");
	for (size_t i = 0; i < fc.size && i < 64; i++)
		(void)fprintf(stderr, "%s%02x", i == 8 ? " " : "", fc.input[i]);
	(void)fprintf(stderr,
		      "\nret_comp %d timing %d tips %d tnt64 %d psb %" PRIu64 " ovf %" PRIu64
		      " irq %" PRIu64 ", %u-bit code, %zu bytes of trace\n",
		      (int)c->ret_comp, (int)c->timing, (int)c->tips, c->tnt64, c->psb_period,
		      c->ovf_period, c->irq_period, fc.prog.bits, fc.truth.trace.n);
	if (dir == NULL)
		return;
	write_file(dir, "input", fc.input, fc.size);
	write_file(dir, "trace.pt", fc.truth.trace.v, fc.truth.trace.n);
	for (uint32_t i = 0; i < fc.prog.nregions; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "code-%" PRIx64, fc.prog.regions[i].base);
		write_file(dir, name, fc.prog.regions[i].code, fc.prog.regions[i].n);
	}
}

static void __attribute__((format(printf, 2, 3), noreturn))
fail(const char *engine, const char *fmt, ...)
{
	va_list ap;

	tell_case();
	(void)fprintf(stderr, "%s: ", engine);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "\n");
	abort();
}

/* What a survey found, by sort. */
static struct {
	char what[sizeof(((struct flow_parting *)NULL)->what)];
	uint64_t n;
} sorts[256];
static size_t nsorts;

/* Count something of this sort: true if it is not the first. */
static bool is_known_sort(const char *what)
{
	for (size_t i = 0; i < nsorts; i++)
		if (strcmp(sorts[i].what, what) == 0)
			return ++sorts[i].n > 0;
	if (nsorts < sizeof(sorts) / sizeof(sorts[0])) {
		(void)snprintf(sorts[nsorts].what, sizeof(sorts[0].what), "%s", what);
		sorts[nsorts++].n = 1;
	}
	return false;
}

void flow_fuzz_survey(void)
{
	for (size_t i = 0; i < nsorts; i++)
		(void)printf("%12" PRIu64 " %s\n", sorts[i].n, sorts[i].what);
}

/* In a survey, told once; else the end. */
static void complain(const char *engine, const char *what, const char *where)
{
	char sort[192] = "";

	if (!flow_survey)
		fail(engine, "%s%s", what, where);
	(void)snprintf(sort, sizeof(sort), "%s: %s%s", engine, what, where);
	flow_counts.complaints++;
	if (is_known_sort(sort))
		return;
	(void)fprintf(stderr, "%s\n", sort);
	tell_case();
}

static void map_part(struct ptm_space *space, const struct flow_region *region, uint32_t from,
		     uint32_t to)
{
	char path[] = "/tmp/ptm-fuzz-XXXXXX";
	struct ptm_error err;
	int fd;

	if (from >= to)
		return;
	fd = mkstemp(path);
	if (fd < 0 || write(fd, region->code + from, to - from) != (ssize_t)(to - from) ||
	    ptm_space_add_raw(space, path, 0, to - from, region->base + from, &err) != 0) {
		perror(path);
		abort();
	}
	(void)close(fd);
	(void)unlink(path);
}

/* Map the code, but for a page of region @without. */
static void map_code(uint32_t without, uint32_t page)
{
	struct ptm_error err;

	ptm_space_destroy(fc.space);
	fc.space = ptm_space_create();
	for (uint32_t i = 0; i < fc.prog.nregions; i++) {
		const struct flow_region *region = &fc.prog.regions[i];
		uint32_t hole = i == without ? page * PAGE : region->n;
		uint32_t behind = hole + PAGE;

		map_part(fc.space, region, 0, hole < region->n ? hole : region->n);
		map_part(fc.space, region, behind, region->n);
	}
	if (ptm_space_seal(fc.space, &err) != 0)
		abort();
}

static struct flow_job job_of(enum ptm_resync resync)
{
	return (struct flow_job){.stream = {.images.first = fc.space,
					    .timing = {.mtc_freq = fc.truth.config.mtc_freq,
						       .nom_freq = PTM_RECORD_NOM_FREQ,
						       .cpuid_0x15_eax = PTM_RECORD_CPUID_15_EAX,
						       .cpuid_0x15_ebx = PTM_RECORD_CPUID_15_EBX}},
				 .trace = fc.truth.trace.v,
				 .len = fc.truth.trace.n,
				 .resync = resync};
}

/* Decode as @job says, without steps; the sums must be those of @full. */
static void decode_sums(struct flow_job *job, const struct ptm_engine_ops *ops,
			struct ptm_cache *cache, const struct flow_result *full)
{
	const struct ptm_engine_options options = {.cache = cache, .resync = job->resync};
	const char *where = cache != NULL ? ", in a cache that fills up" : "";
	struct ptm_error err;
	const char *wrong;
	size_t frame;

	job->no_steps = true;
	job->engine = ops->create(&options, &err);
	if (job->engine == NULL)
		abort();
	wrong = flow_decode(job, &fc.sums);
	if (wrong != NULL)
		complain(ops->name, wrong, where);
	wrong = flow_same_sums(full, &fc.sums, &frame);
	if (wrong != NULL) {
		(void)fprintf(stderr, "frame %zu at 0x%" PRIx64 "\n", frame,
			      fc.sums.frames.n > 0 ? fc.sums.frames.v[frame].offset : 0);
		complain(ops->name, wrong, where);
	}
	ops->destroy(job->engine);
	flow_counts.decodes++;
	flow_counts.instructions += fc.sums.digest.n + fc.sums.resynced.n;
	flow_counts.bytes += job->len;
}

/* A cache in which few nodes have room until the next generation begins. */
static struct ptm_cache *small_cache(void)
{
	static struct ptm_space *space; /* without any code */
	struct ptm_cache *cache = ptm_cache_create(1, NULL);
	struct ptm_gen *gen;
	uint64_t n;

	if (cache == NULL)
		abort();
	if (space == NULL) {
		space = ptm_space_create();
		if (ptm_space_seal(space, NULL) != 0)
			abort();
	}
	ptm_rcu_register();
	gen = ptm_cache_gen(cache);
	n = SMALL_NODES - 1 - fc.choice % 64;
	for (uint64_t i = 0; i < n; i++)
		(void)ptm_gen_node(gen, ptm_gen_space(gen, space), space, i, PTM_MODE_64);
	ptm_rcu_unregister();
	return cache;
}

/* Without steps: whole by an engine of its own, whole and cut in a small cache. */
static void check_sums(size_t e, bool ip)
{
	const struct flow_result *cut = ip ? &fc.ip : &fc.cut[e];
	struct flow_job job = job_of(ip ? PTM_RESYNC_IP : PTM_RESYNC_PSB);
	struct ptm_cache *cache;

	if (engines[e] != &ptm_engine_fast)
		return;
	decode_sums(&job, engines[e], NULL, &fc.whole[e]);
	cache = small_cache();
	job.cut = true;
	decode_sums(&job, engines[e], cache, cut);
	decode_sums(&job, engines[e], cache, cut);
	flow_counts.generations += ptm_cache_stats(cache).generations - 1;
	ptm_cache_destroy(cache);
}

/* Decode whole and cut at every PSB; both must be the same.  With @ip the second is left in
 * fc.ip. */
static void decode(size_t e, bool ip)
{
	struct ptm_engine_options options = {
		.want = PTM_WANT_STEPS | PTM_WANT_TALLY,
		.resync = ip ? PTM_RESYNC_IP : PTM_RESYNC_PSB,
	};
	struct flow_job job = job_of(options.resync);
	struct flow_result *cut = ip ? &fc.ip : &fc.cut[e];
	struct ptm_error err;
	const char *wrong;

	job.engine = engines[e]->create(&options, &err);
	if (job.engine == NULL)
		abort();
	wrong = flow_decode(&job, &fc.whole[e]);
	if (wrong != NULL)
		complain(engines[e]->name, wrong, "");
	job.cut = true;
	wrong = flow_decode(&job, cut);
	if (wrong != NULL)
		complain(engines[e]->name, wrong, ", cut at every PSB");
	wrong = flow_same(&fc.whole[e], cut);
	if (wrong != NULL)
		complain(engines[e]->name, wrong, ", if cut at every PSB");
	engines[e]->destroy(job.engine);
	flow_counts.decodes += 2;
	flow_counts.instructions += 2 * fc.whole[e].ips.n;
	flow_counts.bytes += 2 * fc.truth.trace.n;
	check_sums(e, ip);
}

static void check_sound(void)
{
	for (size_t e = 0; e < ENGINES; e++) {
		const char *wrong;

		decode(e, false);
		/* It pops compressed returns only. */
		if (e == 0 && fc.truth.config.ret_comp == PTM_RET_COMP_SDM) {
			flow_counts.not_for_libipt++;
			continue;
		}
		wrong = flow_is_truth(&fc.cut[e], &fc.truth);
		if (wrong != NULL)
			complain(engines[e]->name, wrong, "");
	}
}

/* Compare with libipt. */
static void compare(size_t e)
{
	const struct flow_result *ipt = &fc.cut[0], *other = &fc.cut[e];
	const struct flow_pair pair = {.prog = &fc.prog,
				       .trace = fc.truth.trace.v,
				       .len = fc.truth.trace.n,
				       .space = fc.space,
				       .patched = fc.patched,
				       .ipt = ipt,
				       .other = other};

	if (ipt->frames.n != other->frames.n)
		fail(engines[e]->name, "another number of frames");
	for (size_t f = 0; f < ipt->frames.n; f++) {
		struct flow_parting parting = {0};
		enum flow_reason reason = flow_diff(&pair, f, &parting);

		flow_counts.frames[reason]++;
		if (reason != FLOW_UNEXPLAINED || (flow_survey && is_known_sort(parting.what)))
			continue;
		(void)fprintf(stderr, "%s\n%s:\n", parting.what, engines[0]->name);
		flow_print(stderr, ipt, f, parting.at);
		(void)fprintf(stderr, "%s:\n", engines[e]->name);
		flow_print(stderr, other, f, parting.at);
		if (!flow_survey)
			fail(engines[e]->name, "another frame at 0x%" PRIx64 " than libipt's",
			     other->frames.v[f].offset);
		tell_case();
	}
}

static void check_damaged(void)
{
	for (size_t e = 0; e < ENGINES; e++) {
		decode(e, false);
		if (e == 0)
			continue;
		compare(e);
		decode(e, true);
		if (fc.ip.digest.n != fc.cut[e].digest.n || fc.ip.digest.b != fc.cut[e].digest.b)
			complain(engines[e]->name, "--resync ip is certain of other instructions",
				 "");
	}
}

/* Change some bytes of the code, or take a page away. */
static void damage_code(struct flow_rand *r)
{
	uint32_t i = flow_pick(r, fc.prog.nregions);
	struct flow_region *region = &fc.prog.regions[i];

	if (flow_one_in(r, 2)) {
		map_code(i, flow_pick(r, region->n / PAGE + 1));
		return;
	}
	fc.patched = true;
	for (unsigned n = 1 + flow_pick(r, 8); n > 0; n--)
		region->code[flow_rand_u64(r) % region->n] = (uint8_t)flow_rand_u64(r);
	map_code(fc.prog.nregions, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flow_rand r;
	bool code;

	fc.input = data;
	fc.size = size;
	fc.patched = false;
	fc.choice = 0;
	for (size_t i = 0; i < size && i < 8; i++)
		fc.choice = (fc.choice ^ data[i]) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
	flow_rand_init(&r, data, size);
	code = flow_one_in(&r, 4);
	flow_prog_make(&fc.prog, &r);
	map_code(fc.prog.nregions, 0);
	flow_exec(&fc.prog, &r, &fc.truth);
	flow_counts.cases++;
	check_sound();
	for (unsigned i = 0; i < 2; i++) {
		if (code && i == 0)
			damage_code(&r);
		else
			flow_damage(&fc.truth, &fc.prog, &r);
		check_damaged();
	}
	return 0;
}

/* Everything that a run allocates is kept for the next one. */
void flow_fuzz_fini(void)
{
	for (size_t e = 0; e < ENGINES; e++) {
		flow_result_fini(&fc.whole[e]);
		flow_result_fini(&fc.cut[e]);
	}
	flow_result_fini(&fc.ip);
	flow_result_fini(&fc.sums);
	flow_truth_fini(&fc.truth);
	ptm_space_destroy(fc.space);
	fc.space = NULL;
}
