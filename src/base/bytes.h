/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.h - unaligned little-endian loads and stores, checked arithmetic.
 */
#ifndef PTM_BASE_BYTES_H
#define PTM_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t ptm_load_le16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static inline uint32_t ptm_load_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t ptm_load_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* Little-endian integer of @n bytes, 1 to 8. */
static inline uint64_t ptm_load_le(const void *p, unsigned n)
{
	const uint8_t *b = (const uint8_t *)p;
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | b[n];
	return v;
}

static inline void ptm_store_le(void *p, uint64_t v, unsigned n)
{
	uint8_t *b = (uint8_t *)p;

	for (unsigned i = 0; i < n; i++, v >>= 8)
		b[i] = (uint8_t)v;
}

static inline bool ptm_add_overflow(uint64_t a, uint64_t b, uint64_t *sum)
{
	return __builtin_add_overflow(a, b, sum);
}

static inline bool ptm_mul_overflow(size_t a, size_t b, size_t *product)
{
	return __builtin_mul_overflow(a, b, product);
}

#endif
