/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_rand.h - the choices of a fuzz case: the bytes of the fuzzer as long as they last, a
 * generator seeded by them afterwards.
 *
 * So a case is its input: a seed of eight bytes alone is a random case, and further bytes move
 * single choices.
 */
#ifndef PTM_FUZZ_FLOW_RAND_H
#define PTM_FUZZ_FLOW_RAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow_rand {
	const uint8_t *bytes; /* borrowed */
	size_t n;
	uint64_t state;
};

static inline void flow_rand_init(struct flow_rand *r, const uint8_t *data, size_t size)
{
	*r = (struct flow_rand){.state = 1};
	for (unsigned i = 0; i < 8 && i < size; i++)
		r->state = r->state << 8 | data[i];
	if (size > 8) {
		r->bytes = data + 8;
		r->n = size - 8;
	}
}

/* splitmix64. */
static inline uint64_t flow_rand_u64(struct flow_rand *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* From 0 to @n - 1. */
static inline uint32_t flow_pick(struct flow_rand *r, uint32_t n)
{
	if (r->n > 0 && n <= 256) {
		r->n--;
		return *r->bytes++ % n;
	}
	return (uint32_t)((flow_rand_u64(r) >> 32) % n);
}

/* True in one of @n cases. */
static inline bool flow_one_in(struct flow_rand *r, uint32_t n)
{
	return flow_pick(r, n) == n - 1;
}

#endif
