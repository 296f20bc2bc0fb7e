/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * plugin.c - runs inside qemu-user and tells the recorder which blocks the program executes.
 *
 * A block is what QEMU translates at a time: instructions in a row of which only the last one may
 * branch.  It gets a number, and its code is written to the log, when it is translated; equal code
 * at the same address keeps its number.  Executed, it costs a few stores: its number goes to the
 * ring of its thread.  Blocks at which a signal handler begins are marked; when one runs, the
 * guest's registers tell whether a signal brought it there, and the signal frame where from.
 *
 * QEMU keeps the guest's registers where its generated code has RBP point to, the program counter
 * behind the sixteen general ones: no interface tells that, so it is checked at every use.
 */
#include "record/qemu/api.h"
#include "record/qemu/shared.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	TABLE_MIN = 1 << 14,
	HANDLERS_MAX = 256,
	MAPS_MAX = 4096,
	SIGNALS = 65,
	CHAIN_MAX = 8,          /* signals delivered at once */
	RECORD_MAX = 1 << 14,   /* of the log */
	BLOCK_INSNS_MAX = 1024, /* QEMU stops at 512 */
	UCONTEXT = 304,         /* bytes of the kernel's struct ucontext, and of QEMU's */
	MCONTEXT = 40,          /* where the registers begin in it */
	MC_RSI = 9,
	MC_RDX = 12, /* ... in units of 8 bytes */
	MC_RSP = 15,
	MC_RIP = 16
};

/* Numbers of registers, then of the program counter, in QEMU's memory. */
enum { R_RDX = 2, R_RSP = 4, R_RSI = 6, R_RDI = 7, R_RIP = 16 };

struct block {
	uint32_t id;
	_Atomic uint8_t is_handler; /* relaxed: set before the system call that makes it one */
	uint16_t n, len;
	uint64_t address;
	uint8_t *code; /* n lengths, then len bytes */
};

struct range {
	uint64_t begin, end;
};

static struct ptm_qemu_shared *shared;
static bool detached; /* in a child process: tell nothing */

/* All below: under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block **table; /* open addressing, a power of two */
static size_t table_size, nblocks;
static uint64_t handlers[HANDLERS_MAX];
static unsigned nhandlers;
static bool any_handler;            /* too many to keep: every block may be one */
static struct range maps[MAPS_MAX]; /* executed mappings, told or anonymous */
static unsigned nmaps;

/* By signal: its handler takes a siginfo.  Relaxed: set before the system call that makes it so. */
static atomic_bool has_info[SIGNALS];

/* What a thread without a ring has: its first block finds it full. */
static struct ptm_qemu_ring none;
static __thread struct ptm_qemu_ring *mine __attribute__((tls_model("initial-exec"))) = &none;

static void nap(void)
{
	/* Polling: the other side is a process that may vanish at any moment. */
	const struct timespec ts = {0, 50000};

	(void)nanosleep(&ts, NULL);
}

static bool is_over(void)
{
	return detached || atomic_load_explicit(&shared->over, memory_order_relaxed) != 0;
}

/* --- the log --- */

/* Append @size bytes, a multiple of 8.  Call with the lock held. */
static void log_put(const void *record, uint32_t size)
{
	uint64_t head = atomic_load_explicit(&shared->log_head, memory_order_relaxed);
	uint32_t at = (uint32_t)(head % PTM_QEMU_LOG);
	uint32_t skip = PTM_QEMU_LOG - at < size ? PTM_QEMU_LOG - at : 0;

	/* Acquire: pairs with the release of the recorder's take_log(). */
	while (head + skip + size - atomic_load_explicit(&shared->log_tail, memory_order_acquire) >
	       PTM_QEMU_LOG) {
		if (is_over())
			return;
		nap();
	}
	if (skip > 0) {
		const struct ptm_qemu_log_head none_here = {skip, PTM_QEMU_LOG_SKIP};

		memcpy(shared->log + at, &none_here, sizeof(none_here));
		at = 0;
	}
	memcpy(shared->log + at, record, size);
	/* Release: pairs with the acquire of the recorder's take_log(). */
	atomic_store_explicit(&shared->log_head, head + skip + size, memory_order_release);
}

static uint32_t round_up(size_t size)
{
	return (uint32_t)((size + 7) & ~(size_t)7);
}

/* Call with the lock held. */
static void log_failure(const char *why)
{
	struct {
		struct ptm_qemu_log_head head;
		char text[256];
	} record = {{0, PTM_QEMU_LOG_FAILED}, ""};

	(void)snprintf(record.text, sizeof(record.text), "%s", why);
	record.head.size = round_up(sizeof(record.head) + strlen(record.text) + 1);
	log_put(&record, record.head.size);
}

static void log_block(const struct block *b)
{
	static union {
		struct ptm_qemu_block block;
		uint8_t bytes[RECORD_MAX + 16 * BLOCK_INSNS_MAX];
	} record;

	record.block = (struct ptm_qemu_block){
		.head = {round_up(sizeof(record.block) + b->n + b->len), PTM_QEMU_LOG_BLOCK},
		.address = b->address,
		.id = b->id,
		.n = b->n,
		.len = b->len,
	};
	memcpy(record.bytes + sizeof(record.block), b->code, (size_t)b->n + b->len);
	log_put(&record, record.block.head.size);
}

/* --- which file holds the code --- */

static void log_map(struct range r, uint64_t offset, const char *path)
{
	static union {
		struct ptm_qemu_map map;
		char bytes[RECORD_MAX];
	} record;
	size_t len = strlen(path) + 1;

	if (len > sizeof(record) - sizeof(record.map) - 8)
		return;
	record.map = (struct ptm_qemu_map){
		.head = {round_up(sizeof(record.map) + len), PTM_QEMU_LOG_MAP},
		.begin = r.begin,
		.end = r.end,
		.offset = offset,
	};
	memcpy(record.bytes + sizeof(record.map), path, len);
	memset(record.bytes + sizeof(record.map) + len, 0, 8);
	log_put(&record, record.map.head.size);
}

static void drop_maps(uint64_t begin, uint64_t end)
{
	unsigned n = 0;

	for (unsigned i = 0; i < nmaps; i++)
		if (maps[i].end <= begin || end <= maps[i].begin)
			maps[n++] = maps[i];
	nmaps = n;
}

/* Find the mapping of @address; tell its file if it has one.  Call with the lock held. */
static void learn_map(uint64_t address)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t size = 0;

	while (f != NULL && getline(&line, &size, f) > 0) {
		struct range r;
		uint64_t offset;
		int path = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &r.begin,
			   &r.end, &offset, &path) < 3 ||
		    path == 0 || address < r.begin || address >= r.end)
			continue;
		if (nmaps == MAPS_MAX)
			nmaps = 0;
		maps[nmaps++] = r;
		if (line[path] == '/')
			log_map(r, offset, line + path);
		break;
	}
	free(line);
	if (f != NULL)
		(void)fclose(f);
}

static void need_map(uint64_t address)
{
	for (unsigned i = 0; i < nmaps; i++)
		if (address >= maps[i].begin && address < maps[i].end)
			return;
	learn_map(address);
}

/* --- blocks --- */

static uint64_t hash_of(const struct block *b)
{
	uint64_t h = b->address * UINT64_C(0x9e3779b97f4a7c15);

	for (unsigned i = 0; i < b->len; i++)
		h = (h ^ b->code[b->n + i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

static bool same(const struct block *a, const struct block *b)
{
	return a->address == b->address && a->n == b->n && a->len == b->len &&
	       memcmp(a->code, b->code, (size_t)a->n + a->len) == 0;
}

/* The place of @b, or of what equals it. */
static struct block **place_of(const struct block *b)
{
	size_t i = hash_of(b) & (table_size - 1);

	while (table[i] != NULL && !same(table[i], b))
		i = (i + 1) & (table_size - 1);
	return &table[i];
}

static bool grow_table(void)
{
	struct block **old = table;
	size_t n = table_size;

	if (nblocks < table_size / 2)
		return true;
	table = calloc(n > 0 ? 2 * n : TABLE_MIN, sizeof(struct block *));
	if (table == NULL) {
		table = old;
		return false;
	}
	table_size = n > 0 ? 2 * n : TABLE_MIN;
	for (size_t i = 0; i < n; i++)
		if (old[i] != NULL)
			*place_of(old[i]) = old[i];
	free(old);
	return true;
}

static bool is_handler(uint64_t address)
{
	for (unsigned i = 0; i < nhandlers; i++)
		if (handlers[i] == address)
			return true;
	return any_handler;
}

/* Keep @b, which is new.  NULL when out of memory. */
static struct block *keep(const struct block *b, struct block **place)
{
	size_t size = (size_t)b->n + b->len;
	struct block *kept = malloc(sizeof(*kept) + size);

	if (kept == NULL)
		return NULL;
	*kept = *b;
	kept->code = (uint8_t *)(kept + 1);
	memcpy(kept->code, b->code, size);
	kept->id = (uint32_t)++nblocks;
	atomic_init(&kept->is_handler, is_handler(b->address));
	need_map(b->address);
	need_map(b->address + b->len - 1);
	log_block(kept);
	*place = kept;
	return kept;
}

/* The block as QEMU describes it; false if that makes no sense. */
static bool describe(const struct qemu_plugin_tb *tb, struct block *b, uint8_t *code)
{
	size_t n = qemu_plugin_tb_n_insns(tb), len = 0;

	if (n == 0 || n > BLOCK_INSNS_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		size_t size = qemu_plugin_insn_size(insn);

		if (size > 15)
			return false;
		code[i] = (uint8_t)size;
		memcpy(code + n + len, qemu_plugin_insn_data(insn), size);
		len += size;
	}
	*b = (struct block){.n = (uint16_t)n, .len = (uint16_t)len, .code = code};
	b->address = qemu_plugin_tb_vaddr(tb);
	return len > 0;
}

/* Called from generated code by way of entry, which adds RBP. */
void ptm_qemu_on_block(unsigned cpu, struct block *b, const uint64_t *env);
void ptm_qemu_entry(unsigned cpu, void *b);
__asm__(".text\n"
	".hidden ptm_qemu_entry\n"
	".globl ptm_qemu_entry\n"
	".type ptm_qemu_entry, @function\n"
	"ptm_qemu_entry:\n"
	"	mov %rbp, %rdx\n"
	"	jmp ptm_qemu_on_block\n"
	".size ptm_qemu_entry, . - ptm_qemu_entry\n");

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static uint8_t code[16 * BLOCK_INSNS_MAX];
	struct block b, *kept = NULL, **place;

	(void)id;
	if (is_over())
		return;
	(void)pthread_mutex_lock(&lock);
	if (qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0)) !=
	    (void *)(uintptr_t)qemu_plugin_tb_vaddr(tb)) {
		log_failure("QEMU moved the program's addresses (QEMU_GUEST_BASE?)");
	} else if (!describe(tb, &b, code) || !grow_table()) {
		log_failure("the plugin is out of memory, or does not understand this QEMU");
	} else {
		place = place_of(&b);
		kept = *place != NULL ? *place : keep(&b, place);
		if (kept == NULL)
			log_failure("the plugin is out of memory");
	}
	(void)pthread_mutex_unlock(&lock);
	if (kept != NULL)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, ptm_qemu_entry, QEMU_CB_NO_REGS, kept);
}

/* --- rings --- */

static void begin_chunk(struct ptm_qemu_ring *ring, uint64_t published)
{
	ring->next = ring->base + published % PTM_QEMU_WORDS;
	ring->end = ring->next + PTM_QEMU_CHUNK;
}

/* A ring that nobody reads. */
static struct ptm_qemu_ring *private_ring(void)
{
	struct ptm_qemu_ring *ring = calloc(1, sizeof(*ring));

	if (ring == NULL)
		abort();
	ring->base = ring->words;
	begin_chunk(ring, 0);
	return ring;
}

static struct ptm_qemu_ring *find_ring(void)
{
	for (unsigned i = 0; i < PTM_QEMU_RINGS; i++) {
		struct ptm_qemu_ring *ring = &shared->rings[i];

		/* Acquire: pairs with the release of the recorder that emptied it. */
		if (atomic_load_explicit(&ring->state, memory_order_acquire) != PTM_QEMU_FREE)
			continue;
		ring->base = ring->words;
		ring->number =
			atomic_fetch_add_explicit(&shared->threads, 1, memory_order_relaxed) + 1;
		atomic_store_explicit(&ring->published, 0, memory_order_relaxed);
		atomic_store_explicit(&ring->taken, 0, memory_order_relaxed);
		begin_chunk(ring, 0);
		/* Release: pairs with the acquire of the recorder's look for new rings. */
		atomic_store_explicit(&ring->state, PTM_QEMU_LIVE, memory_order_release);
		return ring;
	}
	log_failure("the program has more than 1024 threads");
	return private_ring();
}

static struct ptm_qemu_ring *first_ring(void)
{
	struct ptm_qemu_ring *ring;

	if (is_over())
		return private_ring();
	(void)pthread_mutex_lock(&lock);
	ring = find_ring();
	(void)pthread_mutex_unlock(&lock);
	return ring;
}

/* The chunk is full: publish it, and wait for room. */
static __attribute__((noinline)) struct ptm_qemu_ring *next_chunk(void)
{
	struct ptm_qemu_ring *ring = mine;
	uint64_t n;

	if (ring == &none) {
		mine = first_ring();
		return mine;
	}
	n = atomic_load_explicit(&ring->published, memory_order_relaxed) + PTM_QEMU_CHUNK;
	/* Release: pairs with the acquire of the recorder's drain(). */
	atomic_store_explicit(&ring->published, n, memory_order_release);
	/* Acquire: pairs with the release of the recorder's drain(): it is done with that chunk. */
	while (n + PTM_QEMU_CHUNK - atomic_load_explicit(&ring->taken, memory_order_acquire) >
	       PTM_QEMU_WORDS) {
		if (is_over())
			break;
		nap();
	}
	begin_chunk(ring, n);
	return ring;
}

static inline void put_word(uint32_t word)
{
	struct ptm_qemu_ring *ring = mine;
	uint32_t *next;

	if (__builtin_expect(ring->next == ring->end, 0))
		ring = next_chunk();
	next = ring->next;
	*next = word;
	/* When the program is killed, what lies before next was written. */
	atomic_signal_fence(memory_order_release);
	ring->next = next + 1;
}

static void put_control(enum ptm_qemu_control kind, uint64_t a, uint64_t b, uint64_t c)
{
	put_word(0);
	put_word(kind);
	put_word((uint32_t)a);
	put_word((uint32_t)(a >> 32));
	put_word((uint32_t)b);
	put_word((uint32_t)(b >> 32));
	put_word((uint32_t)c);
	put_word((uint32_t)(c >> 32));
}

/* --- signals --- */

static uint64_t load(uint64_t address)
{
	uint64_t value;

	memcpy(&value, (const void *)(uintptr_t)address, sizeof(value));
	return value;
}

/* QEMU fills the siginfo at @info only for a handler that asked for it; without, these signals are
 * taken for faults of the program. */
static bool is_fault(uint64_t sig, uint64_t info)
{
	if (sig != SIGSEGV && sig != SIGBUS && sig != SIGFPE && sig != SIGILL && sig != SIGTRAP)
		return false;
	return !atomic_load_explicit(&has_info[sig], memory_order_relaxed) ||
	       (int)(uint32_t)load(info + 8) > 0;
}

/* A handler's first block: did a signal bring us here?  QEMU then has just built a signal frame at
 * RSP: return address, ucontext (RDX), siginfo (RSI). */
static __attribute__((noinline)) void on_handler(const struct block *b, const uint64_t *env)
{
	uint64_t rsp = env[R_RSP], rdx = env[R_RDX], rsi = env[R_RSI];
	uint64_t sig = env[R_RDI];
	bool entered = env[R_RIP] == b->address;

	for (unsigned i = 0; i < CHAIN_MAX && entered; i++) {
		uint64_t mc = rdx + MCONTEXT;

		if (rdx != rsp + 8 || rsi != rdx + UCONTEXT || sig == 0 || sig >= SIGNALS)
			return;
		put_control(PTM_QEMU_SIGNAL, rsp, load(mc + 8 * MC_RIP),
			    sig | (uint64_t)is_fault(sig, rsi) << 32);
		/* Did it interrupt another handler before its first instruction? */
		(void)pthread_mutex_lock(&lock);
		entered = is_handler(load(mc + 8 * MC_RIP));
		(void)pthread_mutex_unlock(&lock);
		sig = load(mc + 8 * (MC_RSI - 1));
		rsp = load(mc + 8 * MC_RSP);
		rdx = load(mc + 8 * MC_RDX);
		rsi = load(mc + 8 * MC_RSI);
	}
}

__attribute__((visibility("hidden"))) void ptm_qemu_on_block(unsigned cpu, struct block *b,
							     const uint64_t *env)
{
	(void)cpu;
	if (__builtin_expect(atomic_load_explicit(&b->is_handler, memory_order_relaxed) != 0, 0))
		on_handler(b, env);
	put_word(b->id);
}

/* The program asks for @address to be a signal handler. */
static void add_handler(uint64_t address)
{
	(void)pthread_mutex_lock(&lock);
	if (!is_handler(address)) {
		if (nhandlers < HANDLERS_MAX)
			handlers[nhandlers++] = address;
		else
			any_handler = true;
		for (size_t i = 0; i < table_size; i++)
			if (table[i] != NULL && (any_handler || table[i]->address == address))
				atomic_store_explicit(&table[i]->is_handler, 1,
						      memory_order_relaxed);
	}
	(void)pthread_mutex_unlock(&lock);
}

/* rt_sigaction() of @sig with what lies at @act. */
static void on_sigaction(uint64_t sig, uint64_t act)
{
	uint64_t action[2] = {0}; /* handler, flags */
	struct iovec local = {action, sizeof(action)};
	struct iovec remote = {(void *)(uintptr_t)act, sizeof(action)};

	/* The program's pointers may lead anywhere, and reading them so may be forbidden. */
	if (act == 0 || sig >= SIGNALS)
		return;
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof(action)) {
		atomic_store_explicit(&has_info[sig], (action[1] & SA_SIGINFO) != 0,
				      memory_order_relaxed);
		if (action[0] > 1)
			add_handler(action[0]);
	} else if (errno != EFAULT) {
		(void)pthread_mutex_lock(&lock);
		nhandlers = HANDLERS_MAX;
		(void)pthread_mutex_unlock(&lock);
		add_handler(UINT64_MAX);
	}
}

/* The thread ends inside this system call. */
static void end_ring(void)
{
	struct ptm_qemu_ring *ring = mine;
	uint64_t n;

	if (ring == &none || detached)
		return;
	n = atomic_load_explicit(&ring->published, memory_order_relaxed);
	n += (uint64_t)(ring->next - (ring->base + n % PTM_QEMU_WORDS));
	mine = &none;
	ring->next = ring->end;
	/* Release, both: pair with the acquires of the recorder's drain(). */
	atomic_store_explicit(&ring->published, n, memory_order_release);
	atomic_store_explicit(&ring->state, PTM_QEMU_ENDED, memory_order_release);
}

static void on_syscall(qemu_plugin_id_t id, unsigned cpu, int64_t nr, uint64_t a1, uint64_t a2,
		       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	(void)id, (void)cpu, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
	if (detached)
		return;
	put_control(PTM_QEMU_SYSCALL, (uint64_t)nr, 0, 0);
	switch (nr) {
	case SYS_rt_sigaction:
		on_sigaction(a1, a2);
		break;
	case SYS_exit:
		end_ring();
		break;
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
		(void)pthread_mutex_lock(&lock);
		drop_maps(a1, a2 < UINT64_MAX - 4095 - a1 ? a1 + ((a2 + 4095) & ~UINT64_C(4095))
							  : UINT64_MAX);
		(void)pthread_mutex_unlock(&lock);
		break;
	default:
		break;
	}
}

/* A child process tells nothing: the rings are its parent's. */
static void before_fork(void)
{
	(void)pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	(void)pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	(void)pthread_mutex_unlock(&lock);
	detached = true;
	mine = &none;
}

/* Arguments: fd=N, the shared memory. */
static bool attach(int argc, char **argv)
{
	void *memory;
	int fd;

	if (argc != 1 || sscanf(argv[0], "fd=%d", &fd) != 1)
		return false;
	memory = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* The program's descriptors are ours: it must not find one more. */
	(void)close(fd);
	if (memory == MAP_FAILED)
		return false;
	shared = memory;
	return shared->magic == PTM_QEMU_MAGIC;
}

EXPORT int qemu_plugin_version = QEMU_API_VERSION;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_head *info, int argc,
			       char **argv);

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_head *info, int argc,
			       char **argv)
{
	if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0 ||
	    !attach(argc, argv) || pthread_atfork(before_fork, in_parent, in_child) != 0) {
		(void)fprintf(stderr, "ptmill-qemu: to be loaded by `ptmill record'\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	/* Release: pairs with the acquire of the recorder, which waits for us. */
	atomic_store_explicit(&shared->started, 1, memory_order_release);
	return 0;
}
