/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_case.h - a flow engine put through a trace composed by hand: code, packets, expected text.
 *
 * Code is hex bytes; `@20` goes on at offset 0x20, and what lies between is filled with INT3.
 * Packets are words (see put_word()) whose addresses are offsets from the base of the code, or
 * absolute behind `=`.  The text is the offsets of the instructions and the events in brackets:
 * name, payload, `@` IP, `>` target.  `~` stands before the first instruction of those that are
 * less certain because the flow was found again after an error, `/~` before the first that is
 * certain again.  `3{...}` in packets or text stands for three of them.
 *
 * Every trace is decoded as one segment and cut at every PSB; both must yield the same
 * instructions, events and tally, and the classes of bytes must add up.
 */
#ifndef PTM_TESTS_FLOW_CASE_H
#define PTM_TESTS_FLOW_CASE_H

#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "flow/engine.h"
#include "flow/frame.h"
#include "ptgen.h"

#define FLOW_BASE UINT64_C(0x401000)

struct flow_case {
	const char *
		name; /* "B03a-deferred", or "B16+R11-skd010": rows of the list of pitfalls, what */
	const char *code;
	const char *packets;
	const char *expected; /* by the manual, whatever engines do */
	uint64_t base;        /* of the code; 0: FLOW_BASE */
	uint64_t alias;       /* the same code a second time, there */
	size_t split;         /* two adjacent mappings, from this offset on the second; 0: one */
	unsigned mode;        /* bits of the code at psb+: 64 if 0 */
	struct ptm_cpu cpu;
	bool resync; /* after an error go on inside the frame, as the default of the program is */
	bool notnt;  /* recorded without TNT packets */
};

/* A case; further fields may follow the expected text. */
#define CASE(name_, code_, packets_, ...)                                                          \
	{                                                                                          \
		.name = (name_), .code = (code_), .packets = (packets_), .expected = __VA_ARGS__   \
	}

struct flow_text {
	char s[16384];
	size_t n;
};

/* An engine and the code it walks. */
struct flow_env {
	struct ptm_engine *engine;
	struct ptm_space *space;
	struct ptm_stream_context stream;
	uint64_t base;
	unsigned mode;
	bool sizes; /* gaps with the number of their bytes */
};

struct flow_out {
	const struct flow_env *env;
	struct flow_text text;
	bool uncertain; /* what the text is about at its end */
	struct ptm_tally tally;
	struct ptm_digest digest, resynced;
};

/* Append a word, a blank before it. */
static void flow_put(struct flow_text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void flow_put(struct flow_text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	t->n += (size_t)vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
	va_end(ap);
	assert_true(t->n < sizeof(t->s));
}

/* Words with single blanks, and `3{a b}` written out. */
static void flow_expand(struct flow_text *t, const char *s)
{
	while (*s != '\0') {
		size_t digits = strspn(s, "0123456789"), word = strcspn(s, " ");

		if (*s == ' ') {
			s++;
		} else if (digits > 0 && s[digits] == '{') {
			const char *body = s + digits + 1, *end = strchr(body, '}');

			assert_non_null(end);
			for (long i = strtol(s, NULL, 10); i > 0; i--)
				flow_put(t, "%s%.*s", t->n > 0 ? " " : "", (int)(end - body), body);
			s = end + 1;
		} else {
			flow_put(t, "%s%.*s", t->n > 0 ? " " : "", (int)word, s);
			s += word;
		}
	}
}

static void flow_code(struct pt_bytes *code, const char *s)
{
	static const uint8_t int3 = 0xcc;
	char pair[3] = "";

	code->n = 0;
	while (*s != '\0') {
		if (*s == ' ') {
			s++;
		} else if (*s == '@') {
			char *end;
			size_t at = strtoul(s + 1, &end, 16);

			assert_true(at >= code->n);
			while (code->n < at)
				pt_raw(code, &int3, 1);
			s = end;
		} else {
			memcpy(pair, s, 2);
			pt_hex(code, pair);
			s += 2;
		}
	}
}

/* An IP packet, `:20` being an address and `/1` the IPBytes, 3 unless told; 0 without an address.
 */
static void put_ip_word(struct pt_bytes *p, unsigned op, const char *s, uint64_t base)
{
	static const uint8_t sizes[] = {0, 2, 4, 6, 6, 0, 8};
	unsigned bytes = 3;
	uint64_t ip;
	uint8_t b[9];

	if (*s == '/') {
		bytes = (unsigned)(s[1] - '0');
		s += 2;
	}
	if (*s == '\0')
		bytes = 0;
	else
		assert_int_equal(*s++, ':');
	ip = *s == '=' ? strtoull(s + 1, NULL, 16) : base + strtoull(s, NULL, 16);
	b[0] = (uint8_t)(op | bytes << 5);
	for (int i = 0; i < 8; i++)
		b[1 + i] = (uint8_t)(ip >> (8 * i));
	pt_raw(p, b, 1u + sizes[bytes]);
}

/* A long TNT (02 a3, six bytes): as the short one, with up to 47 bits. */
static void put_long_tnt(struct pt_bytes *p, const char *bits)
{
	uint64_t v = 1;

	pt_hex(p, "02 a3");
	for (; *bits != '\0'; bits++)
		v = v << 1 | (*bits == 'T');
	pt_raw(p, &v, 6); /* the hosts are little-endian, as all that run the traced programs */
}

static const char *after(const char *word, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(word, prefix, n) == 0 ? word + n : NULL;
}

/* Append what a word stands for: `psb+20` PSB+ with packets enabled at 20, `psb+` disabled; an IP
 * packet `tip`, `pge`, `pgd`, `fup`; `TNT` a short TNT, `long:TNT` a long one; a name from the
 * table; or bytes in hex. */
static void put_word(const struct flow_env *env, struct pt_bytes *p, const char *word)
{
	static const struct {
		const char *name, *hex;
	} fixed[] = {
		{"psb", "0282 0282 0282 0282 0282 0282 0282 0282"},
		{"psbend", "0223"},
		{"ovf", "02f3"},
		{"pad", "00"},
		{"cbr", "02031000"},
		{"m16", "9900"},
		{"m64", "9901"},
		{"m32", "9902"},
		{"commit", "9920"},
		{"intx", "9921"},
		{"abort", "9922"},
		{"stop", "0283"},
		{"pip", "0243003412000000"},    /* CR3 1234000, root */
		{"pip.nr", "0243013412000000"}, /* the same in VMX non-root mode */
		{"vmcs", "02c8cdab000000"},
		{"bep", "0233"},
		{"bep.ip", "02b3"},
	};
	static const struct {
		const char *name;
		unsigned op;
	} ips[] = {{"tip", PT_TIP}, {"pge", PT_PGE}, {"pgd", PT_PGD}, {"fup", PT_FUP}};
	const char *rest;

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (strcmp(word, fixed[i].name) == 0) {
			pt_hex(p, fixed[i].hex);
			return;
		}
	for (size_t i = 0; i < sizeof(ips) / sizeof(ips[0]); i++)
		if ((rest = after(word, ips[i].name)) != NULL) {
			put_ip_word(p, ips[i].op, rest, env->base);
			return;
		}
	if ((rest = after(word, "psb+")) != NULL) {
		pt_psb(p);
		if (*rest != '\0') {
			pt_hex(p, env->mode == 16 ? "9900" : env->mode == 32 ? "9902" : "9901");
			pt_ip(p, PT_FUP, env->base + strtoull(rest, NULL, 16));
		}
		pt_hex(p, "0223");
	} else if ((rest = after(word, "long:")) != NULL) {
		put_long_tnt(p, rest);
	} else if (word[strspn(word, "TN")] == '\0') {
		assert_true(strlen(word) <= 6);
		pt_tnt(p, word);
	} else {
		assert_int_equal(word[strspn(word, "0123456789abcdef")], '\0');
		pt_hex(p, word);
	}
}

static void flow_packets(const struct flow_env *env, struct pt_bytes *p, const char *s)
{
	static struct flow_text all;
	char *save = NULL;

	all.n = 0;
	flow_expand(&all, s);
	p->n = 0;
	for (char *w = strtok_r(all.s, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		put_word(env, p, w);
}

static void map_code(struct ptm_space *space, const struct pt_bytes *code, uint64_t base,
		     size_t split)
{
	char path[] = "/tmp/ptm-flow-XXXXXX";
	struct ptm_error err;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, code->b, code->n), code->n);
	close(fd);
	if (split > 0)
		assert_int_equal(ptm_space_add_raw(space, path, split, code->n, base + split, &err),
				 0);
	assert_int_equal(ptm_space_add_raw(space, path, 0, split > 0 ? split : code->n, base, &err),
			 0);
	unlink(path);
}

static inline void flow_open(struct flow_env *env, const struct ptm_engine_ops *ops,
			     const struct flow_case *c)
{
	static struct pt_bytes code;
	struct ptm_error err;

	*env = (struct flow_env){.base = c->base != 0 ? c->base : FLOW_BASE, .mode = c->mode};
	flow_code(&code, c->code);
	env->space = ptm_space_create();
	assert_non_null(env->space);
	map_code(env->space, &code, env->base, c->split);
	if (c->alias != 0)
		map_code(env->space, &code, c->alias, 0);
	assert_int_equal(ptm_space_seal(env->space, &err), 0);
	env->stream.images.first = env->space;
	env->stream.cpu = c->cpu;
	env->stream.notnt = c->notnt;
	env->engine = ops->create(
		&(struct ptm_engine_options){.want = PTM_WANT_STEPS | PTM_WANT_TALLY,
					     .resync = c->resync ? PTM_RESYNC_IP : PTM_RESYNC_PSB},
		&err);
	assert_non_null(env->engine);
}

static inline void flow_close(struct flow_env *env)
{
	env->engine->ops->destroy(env->engine);
	ptm_space_destroy(env->space);
}

static void put_address(struct flow_out *out, const char *sign, uint64_t ip)
{
	uint64_t offset = ip - out->env->base;

	if (offset < 0x1000000)
		flow_put(&out->text, "%s%" PRIx64, sign, offset);
	else
		flow_put(&out->text, "%s=%" PRIx64, sign, ip);
}

static void put_event(struct flow_out *out, const struct ptm_event *ev)
{
	flow_put(&out->text, "%s[%s", out->text.n > 0 ? " " : "", ptm_event_name(ev->kind));
	switch (ev->kind) {
	case PTM_EV_GAP:
		flow_put(&out->text, " %s", ptm_gap_name(ev->arg));
		if (out->env->sizes)
			flow_put(&out->text, " +%" PRIu64, ev->value);
		break;
	case PTM_EV_EXEC_MODE:
	case PTM_EV_TSX:
	case PTM_EV_CBR:
	case PTM_EV_IFLAG:
		flow_put(&out->text, " %u", ev->arg);
		break;
	case PTM_EV_PAGING:
	case PTM_EV_ASYNC_PAGING:
		flow_put(&out->text, " %" PRIx64 "%s", ev->value, ev->arg != 0 ? " nr" : "");
		break;
	case PTM_EV_CFE:
	case PTM_EV_EVD:
	case PTM_EV_BLOCK_BEGIN:
	case PTM_EV_BLOCK_ITEM:
	case PTM_EV_TRIGGER:
		flow_put(&out->text, " %u %" PRIx64, ev->arg, ev->value);
		break;
	case PTM_EV_VMCS:
	case PTM_EV_ASYNC_VMCS:
	case PTM_EV_MWAIT:
	case PTM_EV_PWRE:
	case PTM_EV_PWRX:
	case PTM_EV_PTWRITE:
	case PTM_EV_MNT:
		flow_put(&out->text, " %" PRIx64, ev->value);
		break;
	default:
		break;
	}
	if (ev->flags & PTM_EVF_HAS_IP)
		put_address(out, " @", ev->ip);
	if (ev->flags & PTM_EVF_HAS_TO)
		put_address(out, " >", ev->to);
	flow_put(&out->text, "]");
}

/* Expand a step with the decoder of the image room, as sinks do.  Of one that goes on and on only
 * the first instruction. */
static void put_step(struct flow_out *out, const struct ptm_step *step)
{
	uint64_t ip = step->ip;

	for (uint32_t i = 0; i < step->n; i++) {
		struct ptm_insn insn;
		uint8_t bytes[15];
		size_t n = ptm_space_read(out->env->space, ip, bytes, sizeof(bytes));

		put_address(out, out->text.n > 0 ? " " : "", ip);
		if (step->n > 1000) {
			flow_put(&out->text, "...");
			return;
		}
		assert_true(ptm_insn_decode(bytes, n, ip, (enum ptm_mode)step->mode, &insn) > 0);
		ip = insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL ? insn.target
										: ip + insn.len;
	}
}

static int flow_collect(void *ctx, const struct ptm_batch *batch, struct ptm_error *err)
{
	struct flow_out *out = (struct flow_out *)ctx;
	size_t e = 0;

	(void)err;
	for (size_t s = 0; s <= batch->nsteps; s++) {
		for (; e < batch->nevents && batch->events[e].step == s; e++)
			put_event(out, &batch->events[e]);
		if (s == batch->nsteps)
			break;
		if (batch->resynced != out->uncertain)
			flow_put(&out->text, "%s%s", out->text.n > 0 ? " " : "",
				 batch->resynced ? "~" : "/~");
		out->uncertain = batch->resynced;
		put_step(out, &batch->steps[s]);
	}
	assert_int_equal(e, batch->nevents);
	return 0;
}

static void flow_decode(const struct ptm_segment *seg, struct flow_out *out)
{
	static struct ptm_emit emit;
	struct ptm_engine *engine = out->env->engine;
	struct ptm_error err;

	ptm_emit_init(&emit, flow_collect, out);
	assert_int_equal(engine->ops->decode(engine, seg, &emit, &err), 0);
	ptm_tally_add(&out->tally, &emit.tally);
	ptm_digest_append(&out->digest, &emit.digest);
	ptm_digest_append(&out->resynced, &emit.resynced);
}

/* The segments of a trace: cut at every PSB, or one.  The bytes lie in a block of exactly their
 * size, so that a sanitizer sees a read past the end. */
static void decode_all(const struct pt_bytes *p, bool cut, struct flow_out *out)
{
	size_t begin = ptm_psb_find(p->b, p->n, 0, false);
	uint64_t head = begin;
	bool ovf = false;

	do {
		size_t end =
			cut && begin < p->n ? ptm_psb_find(p->b, p->n, begin + 16, false) : p->n;
		uint8_t *data = (uint8_t *)malloc(p->n > begin ? p->n - begin : 1);
		struct ptm_segment seg = {.stream = &out->env->stream,
					  .data = data,
					  .len = end - begin,
					  .look = p->n - end,
					  .offset = begin,
					  .head = head,
					  .no_sync = begin == p->n,
					  .ovf_pending = ovf};

		assert_non_null(data);
		memcpy(data, p->b + begin, p->n - begin);
		flow_decode(&seg, out);
		ovf = begin < p->n && ptm_frame_ends_in_ovf(p->b + begin, end - begin);
		free(data);
		begin = end;
		head = 0;
	} while (begin < p->n);
}

/* Decode in both ways, check what must hold for any trace, and leave the text in @out. */
static inline void flow_run(const struct flow_env *env, const struct pt_bytes *p,
			    struct flow_out *out)
{
	static struct flow_out other;
	uint64_t sum = 0;

	*out = (struct flow_out){
		.env = env, .digest = PTM_DIGEST_EMPTY, .resynced = PTM_DIGEST_EMPTY};
	other = *out;
	decode_all(p, false, out);
	decode_all(p, true, &other);
	assert_string_equal(out->text.s, other.text.s);
	assert_int_equal(out->digest.n, other.digest.n);
	assert_true(out->digest.b == other.digest.b);
	assert_int_equal(out->resynced.n, other.resynced.n);
	assert_true(out->resynced.b == other.resynced.b);
	assert_memory_equal(&out->tally, &other.tally, sizeof(other.tally));
	for (int i = 0; i < PTM_BYTES_CLASSES; i++)
		sum += out->tally.bytes[i];
	assert_int_equal(sum, p->n);
}

#endif
