/* SPDX-License-Identifier: Apache-2.0
 *
 * tnts.h - short TNT packets, up to eight at once, in the 64 bits that a trace goes on with.
 */
#ifndef PTM_FLOW_TNTS_H
#define PTM_FLOW_TNTS_H

#include <stdint.h>

#ifdef __BMI2__
#include <immintrin.h>
#endif

#define PTM_BYTES(b) (UINT64_C(0x0101010101010101) * (b))

/* The lowest @n bits of @x, all if @n is 64. */
static inline uint64_t ptm_low_bits(uint64_t x, unsigned n)
{
#ifdef __BMI2__
	return _bzhi_u64(x, n);
#else
	return n >= 64 ? x : x & ((UINT64_C(1) << n) - 1);
#endif
}

/* How many bits of @x, eight bytes of a trace, are short TNT packets at its begin, and which of
 * them are TNT bits: @bits, in each byte the oldest on top. */
static inline __attribute__((always_inline)) unsigned ptm_tnts(uint64_t x, uint64_t *bits)
{
	const uint64_t odd = x & PTM_BYTES(1);
	unsigned at = odd != 0 ? (unsigned)__builtin_ctzll(odd) : 64;
	uint64_t below = ptm_low_bits(x, at), few;

	/* In each byte, the bits at and below the highest, which is the stop bit. */
	below |= below >> 1 & PTM_BYTES(0x7f);
	below |= below >> 2 & PTM_BYTES(0x3f);
	below |= below >> 4 & PTM_BYTES(0x0f);
	/* 00 and 02, PAD and the escape, are no TNT packets. */
	few = ptm_low_bits(PTM_BYTES(4), at) & ~below;
	if (__builtin_expect(few != 0, 0)) {
		at = (unsigned)__builtin_ctzll(few) - 2;
		below = ptm_low_bits(below, at);
	}
	*bits = below >> 1 & PTM_BYTES(0x7e);
	return at;
}

#endif
