/* SPDX-License-Identifier: Apache-2.0
 *
 * ptgen.h - composes packets by hand for tests (SDM vol. 3, ch. Intel PT, packet tables).
 *
 * A struct pt_bytes is a fixed buffer that the functions append to.  Nothing here uses the
 * project's own tables.
 */
#ifndef PTM_TESTS_PTGEN_H
#define PTM_TESTS_PTGEN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef PT_BYTES_MAX
#define PT_BYTES_MAX 65536
#endif

struct pt_bytes {
	uint8_t b[PT_BYTES_MAX];
	size_t n;
};

static inline void pt_raw(struct pt_bytes *p, const void *data, size_t n)
{
	assert(p->n + n <= PT_BYTES_MAX);
	memcpy(p->b + p->n, data, n);
	p->n += n;
}

/* Hex digits, spaces allowed. */
static inline void pt_hex(struct pt_bytes *p, const char *hex)
{
	unsigned value = 0, digits = 0;

	for (; *hex != '\0'; hex++) {
		unsigned c = (unsigned char)*hex;
		uint8_t byte;

		if (c == ' ')
			continue;
		value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
		if (++digits % 2 != 0)
			continue;
		byte = (uint8_t)value;
		pt_raw(p, &byte, 1);
	}
	assert(digits % 2 == 0);
}

static inline void pt_psb(struct pt_bytes *p)
{
	for (int i = 0; i < 8; i++)
		pt_hex(p, "02 82");
}

/* A TIP, TIP.PGE, TIP.PGD or FUP with a 6-byte sign-extended address (IPBytes 3). */
static inline void pt_ip(struct pt_bytes *p, unsigned op, uint64_t ip)
{
	uint8_t b[7] = {(uint8_t)(op | 3u << 5)};

	for (int i = 0; i < 6; i++)
		b[1 + i] = (uint8_t)(ip >> (8 * i));
	pt_raw(p, b, 7);
}

#define PT_TIP 0x0du
#define PT_PGE 0x11u
#define PT_PGD 0x01u
#define PT_FUP 0x1du

/* PSB+ while packets are enabled at @ip, in 64-bit code. */
static inline void pt_psb_on(struct pt_bytes *p, uint64_t ip)
{
	pt_psb(p);
	pt_hex(p, "99 01");
	pt_ip(p, PT_FUP, ip);
	pt_hex(p, "02 23");
}

/* PSB+ while packets are disabled. */
static inline void pt_psb_off(struct pt_bytes *p)
{
	pt_psb(p);
	pt_hex(p, "02 23");
}

/* A short TNT of 1 to 6 bits, 'T' and 'N', oldest first. */
static inline void pt_tnt(struct pt_bytes *p, const char *bits)
{
	unsigned v = 1;
	uint8_t byte;

	for (; *bits != '\0'; bits++)
		v = v << 1 | (*bits == 'T');
	byte = (uint8_t)(v << 1);
	pt_raw(p, &byte, 1);
}

#endif
