/* SPDX-License-Identifier: Apache-2.0
 *
 * Instruction lengths, classes and targets.  The expected values of the table are taken from the
 * opcode tables of the SDM (vol. 2, and the COFI table of vol. 3, ch. Intel PT) and of the APX
 * specification; the sweeps compare with objdump, which is a decoder of its own.
 */
#include "image/insn.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct row {
	const char *hex;
	enum ptm_mode mode;
	uint64_t ip;
	int len;
	enum ptm_insn_class klass;
	uint64_t target;
	enum ptm_insn_binds binds;
	bool guessed;
};

#define M64 PTM_MODE_64
#define M32 PTM_MODE_32
#define M16 PTM_MODE_16
#define OTHER(hex, mode, len)                                                                      \
	{                                                                                          \
		hex, mode, 0x1000, len, PTM_INSN_OTHER, 0, 0, false                                \
	}
#define FLOW(hex, mode, len, klass)                                                                \
	{                                                                                          \
		hex, mode, 0x1000, len, PTM_INSN_##klass, 0, 0, false                              \
	}
#define TO(hex, mode, ip, len, klass, to)                                                          \
	{                                                                                          \
		hex, mode, ip, len, PTM_INSN_##klass, to, 0, false                                 \
	}
#define BINDS(hex, mode, len, klass, what)                                                         \
	{                                                                                          \
		hex, mode, 0x1000, len, PTM_INSN_##klass, 0, PTM_BINDS_##what, false               \
	}
#define GUESS(hex, mode, len, klass)                                                               \
	{                                                                                          \
		hex, mode, 0x1000, len, PTM_INSN_##klass, 0, 0, true                               \
	}
#define BAD(hex, mode)                                                                             \
	{                                                                                          \
		hex, mode, 0x1000, 0, PTM_INSN_OTHER, 0, 0, false                                  \
	}

static const struct row rows[] = {
	/* R10: branch encodings */
	TO("e805000000", M64, 0x400000, 5, CALL, 0x40000a),
	TO("e800000000", M64, 0x400000, 5, CALL, 0x400005), /* B01: call +0 */
	TO("e8fbffffff", M64, 0x400000, 5, CALL, 0x400000),
	TO("6648e805000000", M64, 0x1000, 7, CALL, 0x100c), /* data16 rex.W call (TLS) */
	TO("66e805000000", M64, 0x1000, 6, CALL, 0x100b),   /* Intel ignores 66 here */
	TO("66e905000000", M64, 0x1000, 6, JUMP, 0x100b),
	TO("660f8405000000", M64, 0x1000, 7, COND, 0x100c),
	TO("f2e805000000", M64, 0x1000, 6, CALL, 0x100b), /* bnd */
	TO("f27505", M64, 0x1000, 3, COND, 0x1008),
	TO("2e7405", M64, 0x1000, 3, COND, 0x1008), /* hinted */
	TO("3e0f8505000000", M64, 0x1000, 7, COND, 0x100c),
	TO("7400", M64, 0x1000, 2, COND, 0x1002), /* Jcc +0, JMP +0 */
	TO("eb00", M64, 0x1000, 2, JUMP, 0x1002),
	TO("ebfe", M64, 0x1000, 2, JUMP, 0x1000),
	TO("e9fbffffff", M64, 0x1000, 5, JUMP, 0x1000),
	TO("e900000080", M64, 0x80001000, 5, JUMP, 0x1005),
	TO("ebfe", M64, UINT64_C(0xffffffffffffff00), 2, JUMP, UINT64_C(0xffffffffffffff00)),
	TO("eb10", M64, UINT64_C(0xfffffffffffffff8), 2, JUMP, 0xa),
	TO("e305", M64, 0x1000, 2, COND, 0x1007),   /* jrcxz */
	TO("67e305", M64, 0x1000, 3, COND, 0x1008), /* jecxz */
	TO("e0fe", M64, 0x1000, 2, COND, 0x1000),   /* loopne, loope, loop */
	TO("e1fe", M64, 0x1000, 2, COND, 0x1000),
	TO("e2fe", M64, 0x1000, 2, COND, 0x1000),
	TO("67e2fe", M64, 0x1000, 3, COND, 0x1001),
	FLOW("c3", M64, 1, RET),
	FLOW("f3c3", M64, 2, RET), /* rep ret */
	FLOW("f2c3", M64, 2, RET), /* bnd ret */
	FLOW("c20800", M64, 3, RET),
	FLOW("66c3", M64, 2, RET),
	FLOW("66c3", M32, 2, RET),
	FLOW("ffe0", M64, 2, JUMP_INDIRECT),
	FLOW("3effe0", M64, 3, JUMP_INDIRECT), /* notrack */
	FLOW("f2ffe0", M64, 3, JUMP_INDIRECT),
	FLOW("41ffe3", M64, 3, JUMP_INDIRECT),
	FLOW("ff2425efbeadde", M64, 7, JUMP_INDIRECT),
	FLOW("ff2500000000", M64, 6, JUMP_INDIRECT),
	FLOW("ffd0", M64, 2, CALL_INDIRECT),
	FLOW("3effd3", M64, 3, CALL_INDIRECT),
	FLOW("ff1500000000", M64, 6, CALL_INDIRECT),
	FLOW("ff1c25efbeadde", M64, 7, FAR_CALL),
	FLOW("ff18", M64, 2, FAR_CALL),
	FLOW("ff28", M64, 2, FAR_JUMP),
	FLOW("48ff28", M64, 3, FAR_JUMP),
	FLOW("ea010203040506", M32, 7, FAR_JUMP),
	FLOW("66ea01020304", M32, 6, FAR_JUMP),
	FLOW("ea01020304", M16, 5, FAR_JUMP),
	FLOW("9a010203040506", M32, 7, FAR_CALL),
	BAD("ea010203040506", M64),
	/* far transfers */
	FLOW("cb", M64, 1, FAR_RETURN),
	FLOW("48cb", M64, 2, FAR_RETURN),
	FLOW("ca0400", M64, 3, FAR_RETURN),
	FLOW("cf", M64, 1, FAR_RETURN),
	FLOW("48cf", M64, 2, FAR_RETURN),
	FLOW("cf", M32, 1, FAR_RETURN),
	FLOW("cf", M16, 1, FAR_RETURN),
	FLOW("0f05", M64, 2, FAR_CALL),
	FLOW("0f07", M64, 2, FAR_RETURN),
	FLOW("480f07", M64, 3, FAR_RETURN),
	FLOW("0f34", M64, 2, FAR_CALL),
	FLOW("0f35", M64, 2, FAR_RETURN),
	FLOW("480f35", M64, 3, FAR_RETURN),
	FLOW("cc", M64, 1, FAR_CALL),
	FLOW("cd80", M32, 2, FAR_CALL),
	FLOW("f1", M64, 1, FAR_CALL),
	FLOW("ce", M32, 1, FAR_CALL),
	BAD("ce", M64),
	FLOW("0f01c1", M64, 3, FAR_CALL),
	FLOW("f30f01ec", M64, 4, FAR_RETURN), /* uiret */
	FLOW("f30f01ca", M64, 4, FAR_RETURN), /* eretu */
	FLOW("f20f01ca", M64, 4, FAR_RETURN), /* erets */
	OTHER("0f01ca", M64, 3),              /* clac */
	/* B61: JMPABS, whose opcode is AAD in 32-bit code */
	FLOW("d500a18877665544332211", M64, 11, JUMP_INDIRECT),
	BAD("d508a18877665544332211", M64),
	OTHER("d500a1", M32, 2),
	OTHER("a08877665544332211", M64, 9),
	OTHER("48a38877665544332211", M64, 10),
	OTHER("67a011223344", M64, 6),
	OTHER("a011223344", M32, 5),
	OTHER("a01122", M16, 3),
	OTHER("c40a", M32, 2), /* les */
	OTHER("c50a", M32, 2), /* lds */
	OTHER("620a", M32, 2), /* bound */
	OTHER("620a", M16, 2),
	OTHER("c5f877", M64, 3),
	OTHER("c5f877", M32, 3),
	OTHER("62f17c4858c0", M64, 6),
	OTHER("c4e2f0f2c0", M64, 5),
	/* no branches at all for PT */
	OTHER("c7f805000000", M64, 6), /* xbegin */
	OTHER("66c7f80500", M64, 5),
	OTHER("c6f801", M64, 3), /* xabort */
	OTHER("0f01d5", M64, 3), /* xend */
	OTHER("0f01d6", M64, 3), /* xtest */
	OTHER("0f0b", M64, 2),
	OTHER("f4", M64, 1),
	OTHER("f3a4", M64, 2), /* R06: rep movsb is one instruction */
	OTHER("f30f1efa", M64, 4),
	OTHER("0f01d4", M64, 3), /* vmfunc */
	OTHER("0faa", M64, 2),
	OTHER("48b88877665544332211", M64, 10),
	OTHER("66b81122", M64, 4),
	OTHER("c8112233", M64, 4),
	OTHER("f77c2411", M64, 4),
	OTHER("f7442411aabbccdd", M64, 8),
	/* 32- and 16-bit targets are truncated by the operand size */
	TO("e805000000", M32, 0xfffffff8, 5, CALL, 2),
	TO("ebfe", M32, 0, 2, JUMP, 0),
	TO("ebf0", M32, 0, 2, JUMP, 0xfffffff2),
	TO("66e80500", M32, 0x12341000, 4, CALL, 0x1009),
	TO("66e9fcff", M32, 0x12341000, 4, JUMP, 0x1000),
	TO("66eb05", M32, 0x12341000, 3, JUMP, 0x1008),
	TO("660f840500", M32, 0x12341000, 5, COND, 0x100a),
	TO("e305", M32, 0x1000, 2, COND, 0x1007),
	TO("67e305", M32, 0x12341000, 3, COND, 0x12341008), /* jcxz: 67 is the counter's size */
	TO("e80500", M16, 0xfffb, 3, CALL, 3),
	TO("eb7f", M16, 0xfff0, 2, JUMP, 0x71),
	TO("66e805000000", M16, 0x1000, 6, CALL, 0x100b),
	TO("0f840500", M16, 0x1000, 4, COND, 0x1009),
	/* what packets bind to */
	BINDS("0f22d8", M64, 3, OTHER, MOV_CR3),
	BINDS("0f22df", M64, 3, OTHER, MOV_CR3),
	BINDS("410f22d8", M64, 4, OTHER, MOV_CR3),
	BINDS("0f2218", M32, 3, OTHER, MOV_CR3),
	OTHER("0f22c0", M64, 3),
	OTHER("0f22e0", M64, 3),
	OTHER("0f20d8", M64, 3), /* from CR3 */
	OTHER("0f23d8", M64, 3), /* to DR3 */
	OTHER("8ed8", M64, 2),
	BAD("440f22d8", M64), /* CR11 */
	BINDS("f30fae20", M64, 4, OTHER, PTWRITE),
	BINDS("f30faee0", M64, 4, OTHER, PTWRITE),
	BINDS("f3480faee0", M64, 5, OTHER, PTWRITE),
	BINDS("f30faee0", M32, 4, OTHER, PTWRITE),
	OTHER("0fae20", M64, 3), /* xsave */
	BINDS("0f01c2", M64, 3, FAR_CALL, VMENTRY),
	BINDS("0f01c3", M64, 3, FAR_CALL, VMENTRY),
	BINDS("0fc730", M64, 3, OTHER, VMPTRLD),
	BINDS("0fc77010", M64, 4, OTHER, VMPTRLD),
	OTHER("660fc730", M64, 4), /* vmclear */
	OTHER("f30fc730", M64, 4), /* vmxon */
	OTHER("0fc7f0", M64, 3),   /* rdrand */
	/* unknown to the disassembler: length by structure */
	GUESS("0f01c6", M64, 3, OTHER),     /* wrmsrns */
	GUESS("f20f01c6", M64, 4, OTHER),   /* rdmsrlist */
	GUESS("c4e279e000", M64, 5, OTHER), /* cmpoxadd [rax] */
	GUESS("c4e279e0442410", M64, 7, OTHER),
	GUESS("c4e279e00511223344", M64, 9, OTHER),
	GUESS("c4e27fcbc1", M64, 5, OTHER), /* vsha512rnds2 */
	GUESS("c4e27fccc1", M64, 5, OTHER), /* vsha512msg1 */
	GUESS("c4e2735cc2", M64, 5, OTHER), /* tdpfp16ps */
	GUESS("0f38fc00", M64, 4, OTHER),   /* aadd */
	GUESS("480f38fc4010", M64, 6, OTHER),
	GUESS("f20f0030", M64, 4, OTHER),           /* lkgs */
	GUESS("c4e77bf6c078563412", M64, 9, OTHER), /* rdmsr imm32 */
	GUESS("d51901c0", M64, 4, OTHER),           /* REX2: add r, r */
	GUESS("d51981c078563412", M64, 8, OTHER),
	GUESS("66d51081c07856", M64, 7, OTHER),
	GUESS("d51083c005", M64, 5, OTHER),
	GUESS("d518b88877665544332211", M64, 11, OTHER), /* mov r16, imm64 */
	GUESS("d510b844332211", M64, 7, OTHER),
	GUESS("d50850", M64, 3, OTHER), /* pushp */
	GUESS("d510f744241011223344", M64, 10, OTHER),
	GUESS("d510f7542410", M64, 6, OTHER),
	GUESS("d511ffe0", M64, 4, JUMP_INDIRECT), /* jmp r16 */
	GUESS("d511ffd0", M64, 4, CALL_INDIRECT),
	GUESS("d511ff6010", M64, 5, JUMP_INDIRECT),
	GUESS("d511ff28", M64, 4, FAR_JUMP),
	GUESS("d500c3", M64, 3, RET),
	GUESS("d590b6c0", M64, 4, OTHER),   /* movzx */
	GUESS("d590bae005", M64, 5, OTHER), /* bt r, imm8 */
	BAD("d50040", M64),
	BAD("d5007405", M64),
	BAD("d500e811223344", M64),
	BAD("d50066", M64),
	BAD("d5808411223344", M64),
	GUESS("62f47c1801c3", M64, 6, OTHER), /* APX: add r, r, r */
	GUESS("62f47c1881c078563412", M64, 10, OTHER),
	GUESS("62f47d1881c07856", M64, 8, OTHER),
	GUESS("62f47c1883c005", M64, 7, OTHER),
	GUESS("62f47c1824c305", M64, 7, OTHER),        /* shld */
	GUESS("62f47c0866c0", M64, 6, OTHER),          /* adcx */
	GUESS("62f47c18f7c078563412", M64, 10, OTHER), /* ctest */
	GUESS("62f47c18f7d0", M64, 6, OTHER),          /* not */
	/* #UD on every CPU */
	BAD("06", M64),
	BAD("0f04", M64),
	BAD("0fa6c0", M64),
	BAD("f090", M64),
	BAD("48c5f877", M64),
	BAD("66666666666666666666666666666690", M64),
	BAD("666666666666666666666666666666", M64),
};

static size_t parse_hex(const char *hex, uint8_t *out)
{
	size_t n = 0;

	for (; *hex != '\0'; hex++) {
		if (*hex == ' ')
			continue;
		out[n / 2] =
			(uint8_t)(out[n / 2] << 4 | (*hex <= '9' ? *hex - '0' : *hex - 'a' + 10));
		n++;
	}
	return n / 2;
}

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		uint8_t bytes[32] = {0};
		size_t n = parse_hex(row->hex, bytes);
		struct ptm_insn insn;
		int len = ptm_insn_decode(bytes, n, row->ip, row->mode, &insn);

		if (len != row->len ||
		    (len > 0 && (insn.len != row->len || insn.klass != row->klass ||
				 insn.target != row->target || insn.binds != row->binds ||
				 insn.guessed != row->guessed)))
			fail_msg("%s mode %d: len %d/%d class %d/%d target %llx/%llx binds %d/%d "
				 "guessed %d/%d",
				 row->hex, row->mode, len, row->len, insn.klass, row->klass,
				 (unsigned long long)insn.target, (unsigned long long)row->target,
				 insn.binds, row->binds, insn.guessed, row->guessed);
	}
}

/* Cut short, every instruction asks for more; the bytes behind it do not matter.  Exact-size heap
 * blocks, for ASan. */
static void test_truncated(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		uint8_t bytes[32] = {0}, more[32];
		struct ptm_insn insn;

		(void)parse_hex(row->hex, bytes);
		for (int n = 0; n < row->len; n++) {
			uint8_t *cut = malloc((size_t)n + (n == 0));

			assert_non_null(cut);
			memcpy(cut, bytes, (size_t)n);
			if (ptm_insn_decode(cut, (size_t)n, row->ip, row->mode, &insn) !=
			    -PTM_E_TRUNCATED)
				fail_msg("%s cut to %d bytes is not TRUNCATED", row->hex, n);
			free(cut);
		}
		for (unsigned fill = 0; fill < 256 && row->len > 0; fill++) {
			memset(more, (int)fill, sizeof(more));
			memcpy(more, bytes, (size_t)row->len);
			assert_int_equal(
				ptm_insn_decode(more, sizeof(more), row->ip, row->mode, &insn),
				row->len);
			assert_int_equal(insn.klass, row->klass);
		}
	}
}

/* ---- objdump ---- */

struct sweep {
	enum ptm_mode mode;
	bool slots; /* only the instructions at multiples of 16 */
	size_t compared, guessed, skipped;
};

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Skip the names of prefixes that objdump writes before the mnemonic. */
static const char *mnemonic(const char *text)
{
	static const char *const prefixes[] = {
		"rep ",    "repz ",   "repnz ",  "bnd ",      "notrack ", "data16 ",
		"data32 ", "addr16 ", "addr32 ", "cs ",       "ds ",      "es ",
		"ss ",     "fs ",     "gs ",     "xacquire ", "xrelease "};
	size_t n = sizeof(prefixes) / sizeof(prefixes[0]);

	for (size_t i = 0; i < n; i++) {
		if (starts(text, prefixes[i])) {
			text += strlen(prefixes[i]);
			text += strspn(text, " ");
			i = SIZE_MAX;
		}
	}
	if (starts(text, "rex.") && strchr(text, ' ') != NULL)
		return mnemonic(text + strcspn(text, " ") + strspn(text + strcspn(text, " "), " "));
	return text;
}

static enum ptm_insn_class objdump_class(const char *m)
{
	static const char *const far_calls[] = {"lcall",  "int",      "syscall", "sysenter",
						"vmcall", "vmlaunch", "vmresume"};
	static const char *const far_returns[] = {"lret", "iret", "sysret", "sysexit", "uiret"};
	bool indirect = m[strcspn(m, " ") + strspn(m + strcspn(m, " "), " ")] == '*';

	for (size_t i = 0; i < sizeof(far_calls) / sizeof(far_calls[0]); i++) {
		if (starts(m, far_calls[i]))
			return PTM_INSN_FAR_CALL;
	}
	for (size_t i = 0; i < sizeof(far_returns) / sizeof(far_returns[0]); i++) {
		if (starts(m, far_returns[i]))
			return PTM_INSN_FAR_RETURN;
	}
	if (starts(m, "ljmp"))
		return PTM_INSN_FAR_JUMP;
	if (starts(m, "jmp"))
		return indirect ? PTM_INSN_JUMP_INDIRECT : PTM_INSN_JUMP;
	if (starts(m, "call"))
		return indirect ? PTM_INSN_CALL_INDIRECT : PTM_INSN_CALL;
	if (starts(m, "ret"))
		return PTM_INSN_RET;
	return m[0] == 'j' || starts(m, "loop") ? PTM_INSN_COND : PTM_INSN_OTHER;
}

/* objdump has no opinion, or joins FWAIT with the instruction behind it. */
static bool no_oracle(const char *text, const char *m, const uint8_t *bytes, size_t n)
{
	size_t op = 0;

	while (op < n &&
	       (bytes[op] == 0x66 || bytes[op] == 0x67 || bytes[op] >= 0xf2 || bytes[op] >> 4 == 4))
		op++;
	return (op + 1 < n && bytes[op] == 0x9b) || strstr(text, "(bad)") != NULL ||
	       starts(m, "rex") || *m == '\0';
}

/* What raises #UD on an Intel CPU that has PT, but objdump prints: LOCK where it is not allowed,
 * instructions of VIA and AMD, registers that do not exist, GETSEC with a prefix. */
static bool undefined(const char *text, const char *m)
{
	static const char *const foreign[] = {"montmul", "xsha",    "xcrypt", "xstore",
					      "extrq",   "insertq", "getsec"};

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		if (starts(m, foreign[i]))
			return true;
	}
	return strstr(text, "lock ") != NULL || strstr(text, "%?") != NULL ||
	       strstr(text, "%tr") != NULL || strstr(text, "%cr6") != NULL;
}

static void compare(struct sweep *sweep, uint64_t ip, const uint8_t *bytes, size_t n,
		    const char *text)
{
	const char *m = mnemonic(text);
	enum ptm_insn_class klass;
	struct ptm_insn insn;
	int len;

	len = ptm_insn_decode(bytes, n, ip, sweep->mode, &insn);
	if (no_oracle(text, m, bytes, n) || ((len == 0 || insn.guessed) && undefined(text, m))) {
		sweep->skipped++;
		return;
	}
	klass = objdump_class(m);
	if (len != (int)n || insn.klass != klass)
		fail_msg("mode %d %llx: \"%s\" %zu bytes class %d, ours %d bytes class %d",
			 sweep->mode, (unsigned long long)ip, text, n, klass, len, insn.klass);
	if (klass == PTM_INSN_COND || klass == PTM_INSN_JUMP || klass == PTM_INSN_CALL) {
		uint64_t to = strtoull(m + strcspn(m, " ,") + strspn(m + strcspn(m, " ,"), " ,ptn"),
				       NULL, 16);

		/* objdump does not truncate to 16 bits. */
		if ((insn.target ^ to) & 0xffff ||
		    (sweep->mode == PTM_MODE_64 && insn.target != to))
			fail_msg("mode %d %llx: \"%s\" target %llx, ours %llx", sweep->mode,
				 (unsigned long long)ip, text, (unsigned long long)to,
				 (unsigned long long)insn.target);
	}
	sweep->compared++;
	sweep->guessed += insn.guessed;
}

/* "  401000:\tf3 0f 1e fa          \tendbr64" */
static void objdump_line(struct sweep *sweep, char *line)
{
	char *end, *tab = strchr(line, '\t');
	uint64_t ip = strtoull(line, &end, 16);
	uint8_t bytes[32];
	size_t n = 0;

	if (tab == NULL || end == line || *end != ':' || tab != end + 1 ||
	    (sweep->slots && ip % 16 != 0))
		return;
	line = tab + 1;
	tab = strchr(line, '\t');
	/* Within the column only: a mnemonic may look like a number. */
	for (; n < sizeof(bytes) && tab != NULL && line + 2 <= tab && *line != ' '; n++, line += 3)
		bytes[n] = (uint8_t)strtoul(line, NULL, 16);
	if (tab != NULL && n > 0) {
		tab[1 + strcspn(tab + 1, "\n")] = '\0';
		compare(sweep, ip, bytes, n, tab + 1);
	}
}

/* False if there is no objdump. */
static bool objdump(struct sweep *sweep, const char *args)
{
	char command[512], line[1024];
	FILE *pipe;

	(void)snprintf(command, sizeof(command), "LC_ALL=C objdump -w %s 2>/dev/null", args);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe) != NULL)
		objdump_line(sweep, line);
	if (pclose(pipe) != 0)
		return false;
	print_message("mode %d: %zu compared (%zu by structure), %zu skipped\n", sweep->mode,
		      sweep->compared, sweep->guessed, sweep->skipped);
	return true;
}

/* The C library of this process. */
static void test_libc(void **state)
{
	struct sweep sweep = {.mode = PTM_MODE_64};
	char line[512], args[600], path[300] = "";
	FILE *maps = fopen("/proc/self/maps", "r");

	(void)state;
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, "/libc.so.6") != NULL || strstr(line, "/libc-2") != NULL)
			(void)sscanf(strchr(line, '/'), "%299[^\n]", path);
	}
	if (maps != NULL)
		(void)fclose(maps);
	if (path[0] == '\0') {
		print_message("skipped: no C library in /proc/self/maps\n");
		skip();
	}
	(void)snprintf(args, sizeof(args), "-d -j .text '%s'", path);
	if (!objdump(&sweep, args)) {
		print_message("skipped: no objdump, or not for this file\n");
		skip();
	}
	assert_true(sweep.compared > 100000);
}

/* Every opcode of four legacy maps under some prefixes and ModRM bytes, and vector encodings, one
 * in 16 bytes. */
static void write_slots(FILE *file, enum ptm_mode mode)
{
	static const char *const maps[] = {
		"", "\x0f", "\x0f\x38", "\x0f\x3a", "\xc4\xe2\x79", "\xc4\xe2\x7b", "\xc5\xf9"};
	static const char *const prefixes[] = {"",     "\x66", "\xf3",    "\xf2",
					       "\x67", "\x48", "\xf3\x49"};
	static const uint8_t modrm[] = {0xd8, 0x44, 0x05, 0x30, 0x84};
	size_t np = mode == PTM_MODE_64 ? 7 : 5;

	for (size_t m = 0; m < 7; m++) {
		for (size_t i = 0; i < (m < 4 ? np : 1) * 256 * (m < 2 ? 5 : 2); i++) {
			const char *prefix = prefixes[i / 256 % (m < 4 ? np : 1)];
			uint8_t slot[16];
			size_t n = strlen(prefix);

			memset(slot, 0x90, sizeof(slot));
			memcpy(slot, prefix, n);
			memcpy(slot + n, maps[m], strlen(maps[m]));
			n += strlen(maps[m]);
			slot[n++] = (uint8_t)i;
			slot[n] = modrm[i / 256 / (m < 4 ? np : 1)];
			assert_int_equal(fwrite(slot, sizeof(slot), 1, file), 1);
		}
	}
}

static void sweep_mode(enum ptm_mode mode, const char *machine)
{
	struct sweep sweep = {.mode = mode, .slots = true};
	char path[] = "/tmp/ptm_insn_XXXXXX", args[128];
	int fd = mkstemp(path);
	FILE *file;
	bool ran;

	assert_true(fd >= 0);
	file = fdopen(fd, "wb");
	assert_non_null(file);
	write_slots(file, mode);
	assert_int_equal(fclose(file), 0);
	(void)snprintf(args, sizeof(args), "-D -z -b binary %s %s", machine, path);
	ran = objdump(&sweep, args);
	(void)unlink(path);
	if (!ran) {
		print_message("skipped: no objdump\n");
		skip();
	}
	assert_true(sweep.compared > 5000);
	assert_true(sweep.guessed > 10);
}

static void test_sweep_64(void **state)
{
	(void)state;
	sweep_mode(PTM_MODE_64, "-m i386:x86-64 -M intel64");
}

static void test_sweep_32(void **state)
{
	(void)state;
	sweep_mode(PTM_MODE_32, "-m i386");
}

static void test_sweep_16(void **state)
{
	(void)state;
	sweep_mode(PTM_MODE_16, "-m i8086");
}

/* Random bytes: never an over-read (exact-size blocks, for ASan), never a length that the input
 * cannot hold, and no verdict that more bytes would overturn. */
static void test_random(void **state)
{
	uint64_t seed = 88172645463325252u;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		uint8_t bytes[16], *cut;
		struct ptm_insn whole, insn;
		enum ptm_mode mode = (enum ptm_mode)(i % 3);
		size_t n;
		int len, got;

		for (unsigned j = 0; j < 16; j++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			bytes[j] = (uint8_t)(seed >> 24);
		}
		/* Half of them in the spaces where lengths are guessed. */
		if (i & 8)
			bytes[0] = (const uint8_t[]){0xd5, 0x62, 0xc4, 0x0f}[i & 3];
		len = ptm_insn_decode(bytes, 16, 0, mode, &whole);
		assert_in_range(len, 0, 15);
		n = (size_t)(seed >> 40) % 16;
		cut = malloc(n + 1);
		assert_non_null(cut);
		memcpy(cut + 1, bytes, n);
		got = ptm_insn_decode(cut + 1, n, 0, mode, &insn);
		free(cut);
		if (got != -PTM_E_TRUNCATED)
			assert_int_equal(got, len);
		else
			assert_true(len == 0 || (size_t)len > n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),    cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_random),   cmocka_unit_test(test_libc),
		cmocka_unit_test(test_sweep_64), cmocka_unit_test(test_sweep_32),
		cmocka_unit_test(test_sweep_16),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
