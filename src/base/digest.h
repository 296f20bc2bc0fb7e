/* SPDX-License-Identifier: Apache-2.0
 *
 * digest.h - the digest of an instruction sequence.
 *
 * h = 0; for every executed instruction, in order: h = h * K + mix(ip), modulo 2^64.  It composes:
 * n instructions with own digest b after a prefix h give h * K^n + b, so the parts of a trace can
 * be digested in parallel and put together in order.
 */
#ifndef PTM_BASE_DIGEST_H
#define PTM_BASE_DIGEST_H

#include <stdint.h>

#define PTM_DIGEST_K UINT64_C(0x9e3779b97f4a7c15)

struct ptm_digest {
	uint64_t n;  /* instructions */
	uint64_t kn; /* K^n */
	uint64_t b;  /* digest of these n alone */
};

#define PTM_DIGEST_EMPTY ((struct ptm_digest){0, 1, 0})

static inline uint64_t ptm_digest_mix(uint64_t ip)
{
	uint64_t x = ip * UINT64_C(0xc2b2ae3d27d4eb4f);

	return x ^ (x >> 32);
}

static inline void ptm_digest_add(struct ptm_digest *d, uint64_t ip)
{
	d->n++;
	d->kn *= PTM_DIGEST_K;
	d->b = d->b * PTM_DIGEST_K + ptm_digest_mix(ip);
}

/* Append the sequence @next to the sequence @d. */
static inline void ptm_digest_append(struct ptm_digest *d, const struct ptm_digest *next)
{
	d->n += next->n;
	d->b = d->b * next->kn + next->b;
	d->kn *= next->kn;
}

#endif
