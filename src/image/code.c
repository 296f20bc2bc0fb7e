/* SPDX-License-Identifier: Apache-2.0
 *
 * code.c - the cache of straight runs: an open-addressing hash table of pointers to runs, by
 * space, address and mode.
 *
 * A run grows in place at its end: the decoder goes on at `next`, in steps of RUN_STEP
 * instructions, and stops for good at an instruction that needs a packet.  Two runs may share
 * instructions (a jump into the middle of one begins another); the limit on the bytes of the whole
 * cache bounds that, too.  One thread owns a cache.
 */
#include "image/code.h"

#include "image/code_map.h"
#include "image/insn_guess.h"

#include <stdlib.h>
#include <xxhash.h>

#define RUN_STEP  16u
#define TABLE_MIN ((size_t)1024)

struct entry {
	struct ptm_run run;
	uint64_t *ips;
	uint8_t *lens;
	uint32_t cap;
};

struct ptm_code {
	ptm_code_free_fn *free_user;
	struct entry **table; /* `mask` + 1 slots, at most half of them used */
	size_t mask, n;
	size_t used, limit; /* bytes */
};

int ptm_code_insn(const struct ptm_space *space, uint64_t ip, enum ptm_mode mode,
		  struct ptm_insn *insn)
{
	uint8_t buf[PTM_INSN_MAX];
	size_t avail, whole;
	const uint8_t *bytes = ptm_space_at(space, ip, &avail);
	int rc;

	if (bytes == NULL)
		return -PTM_E_NOMAP;
	rc = ptm_insn_decode(bytes, avail, ip, mode, insn);
	if (rc != -PTM_E_TRUNCATED)
		return rc;
	/* The mapping ends inside the instruction: the next one may follow directly. */
	whole = ptm_space_read(space, ip, buf, sizeof(buf));
	if (whole > avail)
		rc = ptm_insn_decode(buf, whole, ip, mode, insn);
	return rc == -PTM_E_TRUNCATED ? -PTM_E_NOMAP : rc;
}

struct ptm_code *ptm_code_create(size_t limit, ptm_code_free_fn *free_user)
{
	struct ptm_code *code = calloc(1, sizeof(*code));

	if (code == NULL)
		return NULL;
	code->limit = limit;
	code->free_user = free_user;
	code->table = calloc(TABLE_MIN, sizeof(*code->table));
	if (code->table == NULL) {
		free(code);
		return NULL;
	}
	code->mask = TABLE_MIN - 1;
	return code;
}

static void drop_all(struct ptm_code *code)
{
	for (size_t i = 0; i <= code->mask; i++) {
		struct entry *entry = code->table[i];

		if (entry == NULL)
			continue;
		if (entry->run.user != NULL && code->free_user != NULL)
			code->free_user(entry->run.user);
		free(entry->ips);
		free(entry->lens);
		free(entry);
		code->table[i] = NULL;
	}
	code->n = 0;
	code->used = 0;
}

void ptm_code_destroy(struct ptm_code *code)
{
	if (code == NULL)
		return;
	drop_all(code);
	free(code->table);
	free(code);
}

void ptm_code_charge(struct ptm_code *code, size_t bytes)
{
	/* Saturate: a sum that wraps round would lift the limit. */
	if (__builtin_add_overflow(code->used, bytes, &code->used))
		code->used = SIZE_MAX;
}

/* The slot of a run, or the empty slot where it belongs. */
static struct entry **find_slot(struct entry **table, size_t mask, const struct ptm_space *space,
				uint64_t ip, unsigned mode)
{
	uint64_t seed = (uint64_t)(uintptr_t)space + mode;
	size_t i = (size_t)XXH3_64bits_withSeed(&ip, sizeof(ip), seed) & mask;

	while (table[i] != NULL && (table[i]->run.ip != ip || table[i]->run.mode != mode ||
				    table[i]->run.space != space))
		i = (i + 1) & mask;
	return &table[i];
}

static bool grow_table(struct ptm_code *code)
{
	size_t mask = code->mask * 2 + 1;
	struct entry **table = calloc(mask + 1, sizeof(struct entry *));

	if (table == NULL)
		return false;
	for (size_t i = 0; i <= code->mask; i++) {
		struct entry *entry = code->table[i];

		if (entry != NULL)
			*find_slot(table, mask, entry->run.space, entry->run.ip, entry->run.mode) =
				entry;
	}
	free(code->table);
	code->table = table;
	code->mask = mask;
	return true;
}

static struct entry *new_entry(struct ptm_code *code, const struct ptm_space *space, uint64_t ip,
			       enum ptm_mode mode)
{
	struct entry *entry;

	if (code->n >= (code->mask + 1) / 2 && !grow_table(code))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return NULL;
	entry->run.space = space;
	entry->run.ip = ip;
	entry->run.next = ip;
	entry->run.mode = (uint8_t)mode;
	*find_slot(code->table, code->mask, space, ip, mode) = entry;
	code->n++;
	/* With its share of the table, which is at least a quarter full once it has grown. */
	ptm_code_charge(code, sizeof(*entry) + 4 * sizeof(struct entry *));
	return entry;
}

static bool reserve(struct ptm_code *code, struct entry *entry, uint32_t want)
{
	uint32_t cap = entry->cap * 2 > want ? entry->cap * 2 : want;
	uint64_t *ips;
	uint8_t *lens;

	if (want <= entry->cap)
		return true;
	ips = realloc(entry->ips, cap * sizeof(*ips));
	if (ips == NULL)
		return false;
	entry->ips = ips;
	entry->run.ips = ips;
	lens = realloc(entry->lens, cap);
	if (lens == NULL)
		return false;
	entry->lens = lens;
	entry->run.lens = lens;
	ptm_code_charge(code, (cap - entry->cap) * (sizeof(*ips) + 1));
	entry->cap = cap;
	return true;
}

/* Decode until the run has @want instructions.  Returns 0 or the reason why it is shorter. */
static int extend(struct ptm_code *code, struct entry *entry, uint32_t want)
{
	struct ptm_run *run = &entry->run;
	struct ptm_code_cursor cursor;
	struct ptm_insn insn;
	int rc;

	ptm_code_cursor_init(&cursor, run->space, (enum ptm_mode)run->mode);
	if (!reserve(code, entry, want))
		return -PTM_E_NOMEM;
	while (run->n < want && !run->ends) {
		rc = ptm_code_read(&cursor, run->next, &insn);
		if (rc <= 0)
			return rc == 0 ? -PTM_E_FORMAT : rc;
		entry->ips[run->n] = run->next;
		entry->lens[run->n++] = insn.len;
		if (insn.klass == PTM_INSN_JUMP || insn.klass == PTM_INSN_CALL)
			run->next = insn.target;
		else
			run->next += insn.len;
		run->ends = ptm_insn_needs_packet(insn.klass);
	}
	return 0;
}

struct ptm_run *ptm_code_run(struct ptm_code *code, const struct ptm_space *space, uint64_t ip,
			     enum ptm_mode mode, uint32_t min_insns, int *err)
{
	struct entry *entry;
	uint32_t want;

	if (code->used > code->limit)
		drop_all(code);
	entry = *find_slot(code->table, code->mask, space, ip, mode);
	if (entry == NULL)
		entry = new_entry(code, space, ip, mode);
	if (entry == NULL) {
		*err = -PTM_E_NOMEM;
		return NULL;
	}
	*err = 0;
	if (min_insns > PTM_RUN_MAX)
		min_insns = PTM_RUN_MAX;
	if (entry->run.n >= min_insns || entry->run.ends)
		return &entry->run;
	want = (min_insns + RUN_STEP - 1) / RUN_STEP * RUN_STEP;
	*err = extend(code, entry, want);
	if (*err == -PTM_E_NOMEM)
		return NULL;
	if (entry->run.n >= min_insns)
		*err = 0;
	return &entry->run;
}
