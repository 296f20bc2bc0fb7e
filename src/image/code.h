/* SPDX-License-Identifier: Apache-2.0
 *
 * code.h - decoded code: one instruction out of a space, and a cache of straight runs.
 *
 * A run is the sequence of instructions that follows an address as long as the code alone tells the
 * next one: along fall-through, direct JMP and direct CALL.  Runs are decoded on demand and only as
 * far as somebody asked.
 */
#ifndef PTM_IMAGE_CODE_H
#define PTM_IMAGE_CODE_H

#include "image/insn.h"
#include "image/space.h"

/* The instruction at @ip, also across adjacent mappings.  Returns its length, 0 if the bytes are
 * not an instruction, -PTM_E_NOMAP if it is not, or not wholly, mapped.  Threads: any number at
 * once. */
int ptm_code_insn(const struct ptm_space *space, uint64_t ip, enum ptm_mode mode,
		  struct ptm_insn *insn);

/* Longest run; more is had by asking again at `next`. */
#define PTM_RUN_MAX 65536u

struct ptm_run {
	const struct ptm_space *space;
	uint64_t ip;
	uint64_t next;       /* address behind the last instruction along the flow (ip if n == 0) */
	const uint64_t *ips; /* addresses of the n instructions; may move when the run grows */
	const uint8_t *lens; /* their lengths */
	uint32_t n;
	uint8_t mode; /* enum ptm_mode */
	bool ends;    /* the last instruction needs a packet: nothing follows */
	void *user;   /* for the owner of the cache; kept when the run grows */
};

struct ptm_code;

typedef void ptm_code_free_fn(void *user);

/* A cache over any number of spaces.  @limit: bytes (with those of ptm_code_charge()) from which on
 * the whole cache is dropped and starts again.  @free_user (or NULL) is called for every run->user
 * that is not NULL when its run is dropped.  NULL: out of memory. */
struct ptm_code *ptm_code_create(size_t limit, ptm_code_free_fn *free_user);
void ptm_code_destroy(struct ptm_code *code);

/* The run that begins at @ip of @space, which must be sealed and outlive the cache, with at least
 * @min_insns instructions (at most PTM_RUN_MAX) unless it ends before.  What is returned is
 * borrowed until the next call.  Threads: one caller.
 *
 * Stores 0 at @err if the run is as long as asked for, or ends; otherwise why it is shorter:
 * -PTM_E_NOMAP (no image at run->next) or -PTM_E_FORMAT (no instruction there).  Returns NULL only
 * when out of memory, with -PTM_E_NOMEM. */
struct ptm_run *ptm_code_run(struct ptm_code *code, const struct ptm_space *space, uint64_t ip,
			     enum ptm_mode mode, uint32_t min_insns, int *err);

/* Count @bytes that the owner hung on run->user against the limit. */
void ptm_code_charge(struct ptm_code *code, size_t bytes);

#endif
