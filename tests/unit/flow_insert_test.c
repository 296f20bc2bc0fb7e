/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_insert_test.c - asynchronous events, PSB+ and overflows at every instruction of a program.
 *
 * A small program is executed by a model of its own, which also writes the packets and the expected
 * text; it knows nothing of src/.  Before each executed instruction one thing is inserted, or two,
 * also at neighbouring instructions.  What is executed counts once a packet says so: a FUP, a PSB+
 * or a branch; what no packet tells before an overflow does not.  The packets are packed in several
 * ways, and the whole is decoded in one piece and cut at every PSB (flow_case.h).
 */
#include "flow_case.h"

#include "base/digest.h"

static const struct ptm_engine_ops *const engines[] = {&ptm_engine_ipt, &ptm_engine_fast};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum kind { PLAIN, PTWRITE, COND, JUMP, CALL, JUMP_IND, CALL_IND, RET, IRET, SYSCALL };

struct insn {
	uint16_t at;
	uint8_t len;
	uint8_t kind;
	uint16_t target; /* of indirect branches, too: they always go there */
};

#define HANDLER 0x70

static const struct insn program[] = {
	{0x00, 1, PLAIN, 0},       {0x01, 2, PLAIN, 0}, /* rep movsb */
	{0x03, 4, PTWRITE, 0},     {0x07, 5, CALL, 0x30},
	{0x0c, 1, PLAIN, 0},       {0x0d, 5, CALL, 0x12}, /* to the next instruction */
	{0x12, 1, PLAIN, 0},       {0x13, 2, COND, 0x20},
	{0x15, 2, JUMP, 0x1c},     {0x1c, 1, PLAIN, 0},
	{0x1d, 2, JUMP, 0x20},     {0x20, 1, PLAIN, 0},
	{0x21, 2, CALL_IND, 0x50}, {0x23, 2, COND, 0x00},
	{0x25, 2, JUMP_IND, 0x60}, {0x30, 1, PLAIN, 0},
	{0x31, 5, CALL, 0x40},     {0x36, 1, RET, 0}, /* return directly behind return */
	{0x40, 1, PLAIN, 0},       {0x41, 1, RET, 0},
	{0x50, 2, JUMP, 0x52},     {0x52, 5, CALL, 0x40},
	{0x57, 1, RET, 0},         {0x60, 1, PLAIN, 0},
	{0x61, 2, SYSCALL, 0},     {HANDLER, 1, PLAIN, 0},
	{HANDLER + 1, 2, IRET, 0},
};

static const struct flow_case code = {
	.code = "@0 90 f3a4 f30faee0 e824000000 90 e800000000 58 740b eb05 @1c 90 eb01 @20 90 ffd0 "
		"75db ffe1 @30 90 e80a000000 c3 @40 90 c3 @50 eb00 e8e9ffffff c3 @60 90 0f05 "
		"@70 90 48cf"};

/* Outcomes of the conditional branches, in order: three turns of the loop. */
static const char outcomes[] = "NT"
			       "TT"
			       "NN";

enum insert {
	NOTHING,
	OFF_ON,      /* FUP, TIP.PGD; TIP.PGE */
	OFF_ON_KEPT, /* ... by a recorder that compresses returns across it */
	BRANCH,      /* FUP, TIP to a handler, which returns */
	TSX,         /* MODE.TSX, FUP */
	EXSTOP,      /* EXSTOP, FUP */
	PSB,         /* PSB+ */
	PSB_OFF,     /* FUP, TIP.PGD; PSB+; TIP.PGE */
	OVF_FUP,     /* OVF, FUP: it was resolved here */
	OVF_PGE,     /* OVF; TIP.PGE */
	OVF_PSB,     /* OVF, PSB+ */
	INSERTS
};

static const char *const insert_names[INSERTS] = {
	"nothing",       "off and on",   "off and on, stack kept",
	"branch",        "tsx",          "exstop",
	"psb",           "psb off",      "overflow, fup",
	"overflow, pge", "overflow, psb"};

/* What is inserted before the instruction that is executed as number `at`. */
struct place {
	size_t at;
	enum insert what;
};

/* How packets are made. */
struct packing {
	unsigned bits; /* TNT bits in a packet at most; more than 6: the long one */
	enum { NO_PTW, PTW, PTW_FUP } ptwrite;
	bool no_compression;
};

/* The program under execution. */
struct model {
	const struct packing *packing;
	struct pt_bytes packets;
	char bits[48]; /* they wait */
	unsigned nbits;
	unsigned stack[16], nstack;     /* of the processor: program and handler */
	unsigned known[16], nknown;     /* return addresses that the decoder knows */
	unsigned pending[64], npending; /* executed, but no packet says so yet */
	unsigned ptwrites;
	struct flow_text text;
	struct ptm_digest digest;
	const char *outcome;
};

static const struct insn *find_insn(unsigned at)
{
	for (size_t i = 0; i < COUNT(program); i++)
		if (program[i].at == at)
			return &program[i];
	fail_msg("the model goes to %x", at);
	return NULL;
}

static void flush(struct model *m)
{
	m->bits[m->nbits] = '\0';
	if (m->nbits > 6)
		put_long_tnt(&m->packets, m->bits);
	else if (m->nbits > 0)
		pt_tnt(&m->packets, m->bits);
	m->nbits = 0;
}

static void put_bit(struct model *m, bool taken)
{
	m->bits[m->nbits++] = taken ? 'T' : 'N';
	if (m->nbits == m->packing->bits)
		flush(m);
}

static void put_ip(struct model *m, unsigned op, unsigned at)
{
	flush(m);
	pt_ip(&m->packets, op, FLOW_BASE + at);
}

/* What was executed up to here is told by a packet. */
static void settle(struct model *m)
{
	for (unsigned i = 0; i < m->npending; i++) {
		flow_put(&m->text, "%s%x", m->text.n > 0 ? " " : "", m->pending[i]);
		ptm_digest_add(&m->digest, FLOW_BASE + m->pending[i]);
	}
	m->npending = 0;
}

#define EVENT(m, ...)                                                                              \
	do {                                                                                       \
		settle(m);                                                                         \
		flow_put(&(m)->text, "%s", (m)->text.n > 0 ? " " : "");                            \
		flow_put(&(m)->text, __VA_ARGS__);                                                 \
	} while (0)

static void put_psb(struct model *m, bool on, unsigned at)
{
	flush(m);
	if (on)
		pt_psb_on(&m->packets, FLOW_BASE + at);
	else
		pt_psb_off(&m->packets);
	m->nknown = 0;
}

static void overflow(struct model *m)
{
	flush(m);
	pt_hex(&m->packets, "02f3");
	m->npending = 0;
	m->nknown = 0;
}

static void off(struct model *m, unsigned at)
{
	put_ip(m, PT_FUP, at);
	pt_hex(&m->packets, "01");
	EVENT(m, "[async disabled @%x]", at);
}

static unsigned execute(struct model *m, unsigned at);

/* Before the instruction at @at. */
static void insert(struct model *m, enum insert what, unsigned at)
{
	switch (what) {
	case NOTHING:
	case INSERTS:
		break;
	case OFF_ON:
	case OFF_ON_KEPT:
		off(m, at);
		put_ip(m, PT_PGE, at);
		EVENT(m, "[resumed @%x]", at);
		if (what == OFF_ON)
			m->nknown = 0;
		break;
	case BRANCH:
		put_ip(m, PT_FUP, at);
		put_ip(m, PT_TIP, HANDLER);
		EVENT(m, "[async branch @%x >%x]", at, HANDLER);
		m->stack[m->nstack++] = at;
		assert_int_equal(execute(m, execute(m, HANDLER)), at);
		break;
	case TSX:
		flush(m);
		pt_hex(&m->packets, "9921");
		put_ip(m, PT_FUP, at);
		EVENT(m, "[tsx 1 @%x]", at);
		break;
	case EXSTOP:
		flush(m);
		pt_hex(&m->packets, "02e2");
		put_ip(m, PT_FUP, at);
		EVENT(m, "[exstop @%x]", at);
		break;
	case PSB:
		put_psb(m, true, at);
		settle(m);
		break;
	case PSB_OFF:
		off(m, at);
		put_psb(m, false, 0);
		put_ip(m, PT_PGE, at);
		EVENT(m, "[enabled @%x]", at);
		break;
	case OVF_FUP:
		overflow(m);
		put_ip(m, PT_FUP, at);
		EVENT(m, "[overflow @%x]", at);
		break;
	case OVF_PGE:
		overflow(m);
		put_ip(m, PT_PGE, at);
		EVENT(m, "[overflow]");
		EVENT(m, "[enabled @%x]", at);
		break;
	case OVF_PSB:
		overflow(m);
		put_psb(m, true, at);
		EVENT(m, "[overflow]");
		break;
	}
}

static void call(struct model *m, unsigned back, bool push)
{
	m->stack[m->nstack++] = back;
	if (push)
		m->known[m->nknown++] = back;
}

static unsigned ret(struct model *m)
{
	const unsigned to = m->stack[--m->nstack];
	const bool known = m->nknown > 0;

	if (known)
		assert_int_equal(m->known[--m->nknown], to);
	if (known && !m->packing->no_compression)
		put_bit(m, true);
	else
		put_ip(m, PT_TIP, to);
	return to;
}

static void put_ptw(struct model *m)
{
	uint8_t b[6] = {0x02, m->packing->ptwrite == PTW_FUP ? 0x92 : 0x12};

	m->ptwrites++;
	if (m->packing->ptwrite == NO_PTW)
		return;
	b[2] = (uint8_t)m->ptwrites;
	flush(m);
	pt_raw(&m->packets, b, sizeof(b));
	if (m->packing->ptwrite == PTW_FUP)
		put_ip(m, PT_FUP, 0x03);
	EVENT(m, "[ptwrite %x @3]", m->ptwrites);
}

/* Execute the instruction at @at.  Returns where the next one is. */
static unsigned execute(struct model *m, unsigned at)
{
	const struct insn *insn = find_insn(at);
	unsigned next = at + insn->len;
	bool taken;

	m->pending[m->npending++] = at;
	switch ((enum kind)insn->kind) {
	case PLAIN:
		return next;
	case PTWRITE:
		put_ptw(m);
		return next;
	case JUMP:
		return insn->target;
	case CALL:
		/* The one to the next instruction is popped by it, and no decoder's push. */
		if (insn->target != next)
			call(m, next, true);
		return insn->target;
	case COND:
		taken = *m->outcome++ == 'T';
		put_bit(m, taken);
		next = taken ? insn->target : next;
		break;
	case CALL_IND:
		call(m, next, true);
		next = insn->target;
		put_ip(m, PT_TIP, next);
		break;
	case JUMP_IND:
		next = insn->target;
		put_ip(m, PT_TIP, next);
		break;
	case RET:
		next = ret(m);
		break;
	case IRET:
		next = m->stack[--m->nstack];
		put_ip(m, PT_TIP, next);
		break;
	case SYSCALL:
		flush(m);
		pt_hex(&m->packets, "01");
		EVENT(m, "[disabled]");
		break;
	}
	settle(m);
	return next;
}

/* Execute all, with what is inserted at @places.  Returns the number of instructions outside the
 * handler. */
static size_t run_model(struct model *m, const struct packing *packing, const struct place *places,
			size_t nplaces)
{
	size_t n = 0;
	unsigned at = 0;

	*m = (struct model){.packing = packing, .outcome = outcomes, .digest = PTM_DIGEST_EMPTY};
	pt_psb_on(&m->packets, FLOW_BASE);
	for (bool end = false; !end; n++) {
		for (size_t i = 0; i < nplaces; i++)
			if (places[i].at == n)
				insert(m, places[i].what, at);
		end = find_insn(at)->kind == SYSCALL;
		at = execute(m, at);
	}
	assert_int_equal(*m->outcome, '\0');
	return n;
}

static struct flow_env env;

static void check(const struct packing *packing, const struct place *places, size_t nplaces)
{
	static struct model m;
	static struct flow_out out;

	(void)run_model(&m, packing, places, nplaces);
	flow_run(&env, &m.packets, &out);
	if (strcmp(out.text.s, m.text.s) != 0 || out.digest.b != m.digest.b) {
		for (size_t i = 0; i < nplaces; i++)
			print_message("%s before instruction %zu\n", insert_names[places[i].what],
				      places[i].at);
		print_message("TNT packets of %u bits, PTWRITE %d\n", packing->bits,
			      (int)packing->ptwrite);
	}
	assert_string_equal(out.text.s, m.text.s);
	assert_int_equal(out.digest.n, m.digest.n);
	assert_true(out.digest.b == m.digest.b);
	assert_int_equal(out.tally.insns, m.digest.n);
}

static size_t program_length(void)
{
	static struct model m;

	return run_model(&m, &(struct packing){.bits = 6}, NULL, 0);
}

static const struct packing packings[] = {
	{1, NO_PTW, false}, {6, NO_PTW, false}, {47, NO_PTW, false}, {6, NO_PTW, true},
	{6, PTW, false},    {47, PTW, false},   {6, PTW_FUP, false}, {47, PTW_FUP, false},
	{1, PTW_FUP, true}, {47, PTW, true}};

/* The model is right about the program: by hand. */
static void test_model(void **state)
{
	static struct model m;
	static struct pt_bytes p;

	(void)state;
	assert_int_equal(run_model(&m, &packings[1], NULL, 0), 72);
	flow_packets(&env, &p, "psb+0 TTN tip:50 TTTTTT tip:50 TTTTTN tip:50 TTN tip:60 pgd");
	assert_int_equal(m.packets.n, p.n);
	assert_memory_equal(m.packets.b, p.b, p.n);
	assert_string_equal(m.text.s, "0 1 3 7 30 31 40 41 36 c d 12 13 15 1c 1d 20 21 50 52 40 41 "
				      "57 23 0 1 3 7 30 31 40 41 36 c d 12 13 20 21 50 52 40 41 57 "
				      "23 0 1 3 7 30 31 40 41 36 c d 12 13 15 1c 1d 20 21 50 52 40 "
				      "41 57 23 25 60 61 [disabled]");
	check(&packings[1], NULL, 0);
}

static void test_once(void **state)
{
	const size_t n = program_length();

	(void)state;
	for (size_t p = 0; p < COUNT(packings); p++)
		for (unsigned what = NOTHING; what < INSERTS; what++)
			for (size_t at = 0; at < n; at++)
				check(&packings[p], &(struct place){at, (enum insert)what}, 1);
}

/* Two at the same instruction, at neighbours, or with one between. */
static void test_twice(void **state)
{
	const size_t n = program_length();

	(void)state;
	for (unsigned a = OFF_ON; a < INSERTS; a++)
		for (unsigned b = OFF_ON; b < INSERTS; b++)
			for (size_t at = 0; at < n; at++)
				for (size_t d = 0; d < 3 && at + d < n; d++) {
					const struct place two[] = {{at, (enum insert)a},
								    {at + d, (enum insert)b}};

					check(&packings[at % 3], two, 2);
				}
}

/* The same before every instruction. */
static void test_everywhere(void **state)
{
	static struct place all[128];
	const size_t n = program_length();

	(void)state;
	assert_true(n <= COUNT(all));
	for (size_t p = 0; p < COUNT(packings); p++)
		for (unsigned what = OFF_ON; what < INSERTS; what++) {
			for (size_t at = 0; at < n; at++)
				all[at] = (struct place){at, (enum insert)what};
			check(&packings[p], all, n);
		}
}

static int setup(void **state)
{
	flow_open(&env, (const struct ptm_engine_ops *)*state, &code);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	flow_close(&env);
	return 0;
}

int main(void)
{
	int failed = 0;

	for (size_t e = 0; e < COUNT(engines); e++) {
		void *engine = (void *)(uintptr_t)engines[e];
		const struct CMUnitTest tests[] = {
			{"model", test_model, setup, teardown, engine},
			{"once", test_once, setup, teardown, engine},
			{"twice", test_twice, setup, teardown, engine},
			{"everywhere", test_everywhere, setup, teardown, engine},
		};

		failed += cmocka_run_group_tests_name(engines[e]->name, tests, NULL, NULL);
	}
	return failed;
}
