/* SPDX-License-Identifier: Apache-2.0
 *
 * disasm.c - one instruction as text.
 *
 * capstone only prints: how long an instruction is and where the flow goes was decided before
 * (image/insn.h), and capstone gets to see exactly its bytes.
 */
#include "sink/disasm.h"

#include <capstone/capstone.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MODES 3

struct ptm_disasm {
	csh cs[MODES]; /* by enum ptm_mode; 0: not open yet */
	cs_insn *insn; /* owned by capstone's allocator */
};

/* capstone 4.0.2 sorts a static table when it disassembles for the first time: let that be over
 * before threads do it at once. */
static void warm_up(void)
{
	static const uint8_t nop = 0x90;
	cs_insn *insn;
	csh cs;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &cs) != CS_ERR_OK)
		return;
	if (cs_disasm(cs, &nop, 1, 0, 1, &insn) == 1)
		cs_free(insn, 1);
	(void)cs_close(&cs);
}

struct ptm_disasm *ptm_disasm_create(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, warm_up);
	return (struct ptm_disasm *)calloc(1, sizeof(struct ptm_disasm));
}

void ptm_disasm_destroy(struct ptm_disasm *disasm)
{
	if (disasm == NULL)
		return;
	if (disasm->insn != NULL)
		cs_free(disasm->insn, 1);
	for (unsigned i = 0; i < MODES; i++) {
		if (disasm->cs[i] != 0)
			(void)cs_close(&disasm->cs[i]);
	}
	free(disasm);
}

/* The handle of a mode, 0 if capstone refuses. */
static csh open_mode(struct ptm_disasm *disasm, enum ptm_mode mode)
{
	static const cs_mode modes[MODES] = {
		[PTM_MODE_64] = CS_MODE_64, [PTM_MODE_32] = CS_MODE_32, [PTM_MODE_16] = CS_MODE_16};

	if ((unsigned)mode >= MODES)
		return 0;
	if (disasm->cs[mode] == 0 &&
	    cs_open(CS_ARCH_X86, modes[mode], &disasm->cs[mode]) != CS_ERR_OK)
		disasm->cs[mode] = 0;
	if (disasm->cs[mode] != 0 && disasm->insn == NULL)
		disasm->insn = cs_malloc(disasm->cs[mode]);
	return disasm->insn != NULL ? disasm->cs[mode] : 0;
}

static char *put_str(char *p, const char *end, const char *s)
{
	while (*s != '\0' && p < end)
		*p++ = *s++;
	return p;
}

static size_t format_bytes(const uint8_t *bytes, size_t len, char *buf)
{
	static const char digits[] = "0123456789abcdef";
	char *p = buf;

	memcpy(p, ".byte", 5);
	p += 5;
	for (size_t i = 0; i < len; i++) {
		if (i > 0)
			*p++ = ',';
		*p++ = ' ';
		*p++ = '0';
		*p++ = 'x';
		*p++ = digits[bytes[i] >> 4];
		*p++ = digits[bytes[i] & 15];
	}
	return (size_t)(p - buf);
}

size_t ptm_disasm_format(struct ptm_disasm *disasm, const uint8_t *bytes, size_t len, uint64_t ip,
			 enum ptm_mode mode, char *buf)
{
	csh cs = open_mode(disasm, mode);
	const uint8_t *code = bytes;
	size_t left = len;
	uint64_t address = ip;
	char *end = buf + PTM_DISASM_MAX;
	char *p;

	if (cs == 0 || !cs_disasm_iter(cs, &code, &left, &address, disasm->insn) || left > 0)
		return format_bytes(bytes, len, buf);
	p = put_str(buf, end, disasm->insn->mnemonic);
	if (disasm->insn->op_str[0] != '\0') {
		p = put_str(p, end, " ");
		p = put_str(p, end, disasm->insn->op_str);
	}
	return (size_t)(p - buf);
}
