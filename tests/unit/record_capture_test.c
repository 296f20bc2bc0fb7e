/* SPDX-License-Identifier: Apache-2.0
 *
 * record_capture_test.c - recordings of small programs by the single-stepper: what is written, and
 * what is left on failure.
 *
 * That the packets are right is shown elsewhere, by other decoders; here exit codes, files and
 * error messages count.
 */
#include "base/error.h"
#include "image/build_id.h"
#include "os/file.h"
#include "os/hash.h"
#include "os/json_read.h"
#include "ptmill/record.h"
#include "record/capture.h"

#include <dirent.h>
#include <elf.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ftw.h>
#include <cmocka.h>

static char dir[] = "/tmp/ptmill-record-XXXXXX";
static char out[64];

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int make_dir(void **state)
{
	(void)state;
	if (mkdtemp(dir) == NULL)
		return -1;
	(void)snprintf(out, sizeof(out), "%s/out", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int remove_out(void **state)
{
	(void)state;
	(void)nftw(out, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

static struct ptm_record_config config_of(uint64_t limit)
{
	struct ptm_record_config config;

	ptm_record_config_init(&config);
	config.backend = PTM_RECORD_STEP;
	config.psb_period = 256;
	config.max_instructions = limit;
	return config;
}

/* Skips where ptrace is forbidden: containers may do so. */
static void record(const struct ptm_record_config *config, char *const argv[],
		   struct ptm_record_result *result)
{
	struct ptm_error err;
	int ret;

	memset(result, 0, sizeof(*result));
	result->size = sizeof(*result);
	ret = ptm_record(config, argv, out, result, &err);
	if (ret == -PTM_E_SYSTEM && strstr(err.cause[0].text, "PTRACE_TRACEME") != NULL) {
		print_message("skipped: %s\n", err.cause[0].text);
		skip();
	}
	if (ret < 0)
		print_message("%s\n", err.cause[0].text);
	assert_int_equal(ret, 0);
}

static void assert_nothing_left(void)
{
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
}

/* A path in the capture. */
static const char *in_out(const char *name)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", out, name);
	return path;
}

static uint8_t *slurp(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *bytes;
	struct stat sb;

	if (f == NULL)
		print_message("cannot open %s\n", path);
	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &sb), 0);
	*len = (size_t)sb.st_size;
	bytes = malloc(*len + 1);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *len, f), *len);
	(void)fclose(f);
	return bytes;
}

static size_t entries_of(const char *name)
{
	DIR *d = opendir(in_out(name));
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static struct ptm_json_doc *read_json(void)
{
	struct ptm_error err;
	struct ptm_json_doc *doc = ptm_json_read_file(in_out("capture.json"), &err);

	if (doc == NULL)
		print_message("%s\n", err.cause[0].text);
	assert_non_null(doc);
	return doc;
}

static const char *string_of(const struct ptm_json_at *object, const char *key)
{
	struct ptm_json_at at = ptm_json_member(object, key);
	const char *s = NULL;

	assert_int_equal(ptm_json_get_str(&at, &s, NULL), 0);
	return s;
}

static uint64_t number_of(const struct ptm_json_at *object, const char *key)
{
	struct ptm_json_at at = ptm_json_member(object, key);
	uint64_t v = 0;

	assert_int_equal(ptm_json_get_u64(&at, &v, NULL), 0);
	return v;
}

/* A mapping as capture.json states it. */
struct stated {
	char image[PATH_MAX], path[PATH_MAX], build_id[2 * PTM_BUILD_ID_MAX + 1];
	uint64_t address, size, offset;
};

static size_t read_maps(struct stated *maps, size_t max)
{
	struct ptm_json_doc *doc = read_json();
	struct ptm_json_at root = ptm_json_root(doc);
	struct ptm_json_at processes = ptm_json_member(&root, "processes");
	struct ptm_json_at process, list;
	size_t n = 0;

	assert_int_equal(ptm_json_get_array(&processes, &n, NULL), 0);
	assert_int_equal(n, 1);
	process = ptm_json_element(&processes, 0);
	assert_int_equal(number_of(&process, "pid"), 1);
	list = ptm_json_member(&process, "mappings");
	assert_int_equal(ptm_json_get_array(&list, &n, NULL), 0);
	assert_true(n <= max);
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at at = ptm_json_element(&list, i);
		struct ptm_json_at id = ptm_json_member(&at, "build_id");

		memset(&maps[i], 0, sizeof(maps[i]));
		(void)snprintf(maps[i].image, PATH_MAX, "%s", string_of(&at, "image"));
		(void)snprintf(maps[i].path, PATH_MAX, "%s", string_of(&at, "path"));
		if (ptm_json_is_there(&id))
			(void)snprintf(maps[i].build_id, sizeof(maps[i].build_id), "%s",
				       string_of(&at, "build_id"));
		maps[i].address = number_of(&at, "address");
		maps[i].size = number_of(&at, "size");
		maps[i].offset = number_of(&at, "offset");
	}
	ptm_json_doc_destroy(doc);
	return n;
}

/* The image of a mapping is named by what it is, and holds the bytes of the file, if that is one.
 */
static void check_map(const struct stated *map)
{
	char digest_name[32];
	uint64_t digest, bytes;
	size_t len, wanted;
	uint8_t *have = slurp(in_out(map->image), &len);

	assert_int_equal(ptm_hash_file(in_out(map->image), NULL, &digest, &bytes, NULL), 0);
	(void)snprintf(digest_name, sizeof(digest_name), "images/%016" PRIx64, digest);
	if (map->build_id[0] == '\0')
		assert_string_equal(map->image, digest_name);
	else
		assert_string_equal(map->image + strlen("images/"), map->build_id);
	assert_true(map->size > 0 && map->offset < len);
	if (map->path[0] == '/') {
		uint8_t *want = slurp(map->path, &wanted);

		assert_int_equal(len, wanted);
		assert_memory_equal(have, want, len);
		free(want);
	}
	free(have);
}

/* The digests of the blocks of the file: 16 KiB each, and what is left. */
static void check_blocks(const struct ptm_json_at *stream, const uint8_t *trace, size_t len)
{
	struct ptm_json_at blocks = ptm_json_member(stream, "blocks");
	const char *digits = string_of(&blocks, "xxh3_64");
	size_t n = 0;

	assert_int_equal(number_of(&blocks, "size"), 16384);
	for (size_t at = 0; at < len; at += 16384, n++) {
		char expected[17];

		(void)snprintf(expected, sizeof(expected), "%016" PRIx64,
			       ptm_hash_bytes(trace + at, len - at < 16384 ? len - at : 16384));
		assert_true(strlen(digits) >= 16 * (n + 1));
		assert_memory_equal(digits + 16 * n, expected, 16);
	}
	assert_int_equal(strlen(digits), 16 * n);
}

static void check_stream(const struct ptm_record_result *result)
{
	struct ptm_json_doc *doc = read_json();
	struct ptm_json_at root = ptm_json_root(doc);
	struct ptm_json_at streams = ptm_json_member(&root, "streams");
	struct ptm_json_at stream = ptm_json_element(&streams, 0);
	uint64_t digest, bytes;
	uint8_t *trace;
	size_t len;

	assert_string_equal(string_of(&root, "format"), "ptmill-capture");
	assert_int_equal(number_of(&root, "version"), 1);
	assert_string_equal(string_of(&stream, "name"), "tid1");
	assert_string_equal(string_of(&stream, "kind"), "thread");
	assert_int_equal(number_of(&stream, "pid"), 1);
	assert_int_equal(number_of(&stream, "tid"), 1);
	assert_string_equal(string_of(&stream, "file"), "streams/tid1.pt");
	assert_string_equal(string_of(&stream, "truth"), "truth/tid1.txt");
	assert_int_equal(ptm_hash_file(in_out("truth/tid1.txt"), NULL, &digest, &bytes, NULL), 0);
	assert_int_equal(number_of(&stream, "truth_bytes"), bytes);
	assert_int_equal(number_of(&stream, "truth_xxh3_64"), digest);
	assert_int_equal(ptm_hash_file(in_out("streams/tid1.pt"), NULL, &digest, &bytes, NULL), 0);
	assert_int_equal(bytes, result->trace_bytes);
	assert_int_equal(number_of(&stream, "bytes"), bytes);
	assert_int_equal(number_of(&stream, "xxh3_64"), digest);
	trace = slurp(in_out("streams/tid1.pt"), &len);
	check_blocks(&stream, trace, len);
	free(trace);
	ptm_json_doc_destroy(doc);
}

static void check_truth(const struct ptm_record_result *result, uint64_t instructions)
{
	uint64_t n = 0, digest = 0, places = 0, offset, last = 0, psbs = 0;
	FILE *f = fopen(in_out("truth/tid1.txt"), "r");
	char line[256];

	assert_non_null(f);
	assert_int_equal(fscanf(f,
				"instructions %" SCNu64 " digest %" SCNx64 " places %" SCNu64 " ",
				&n, &digest, &places),
			 3);
	assert_int_equal(n, instructions);
	assert_int_equal(digest, result->digest);
	while (fgets(line, sizeof(line), f) != NULL) {
		assert_int_equal(sscanf(line, "psb %" SCNu64 " %" SCNu64 " ", &offset, &n), 2);
		assert_true(psbs == 0 ? offset == 0 && n == 0 : offset >= last + 256);
		last = offset;
		psbs++;
	}
	(void)fclose(f);
	assert_int_equal(psbs, result->psbs);
	assert_int_equal(psbs, places);
	assert_true(psbs > 3);
}

enum { MAPS_MAX = 64 };

static void capture_is_complete(void **state)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exit 7", NULL};
	struct ptm_record_config config = config_of(20000);
	struct stated *maps = calloc(MAPS_MAX, sizeof(*maps));
	struct ptm_record_result result;
	size_t n, images = 0;

	(void)state;
	assert_non_null(maps);
	record(&config, argv, &result);
	assert_int_equal(result.exit_code, 7);
	assert_int_equal(result.instructions, 20000);
	check_truth(&result, 20000);
	check_stream(&result);
	n = read_maps(maps, MAPS_MAX);
	assert_true(n >= 2);
	for (size_t i = 0; i < n; i++) {
		bool first = true;

		check_map(&maps[i]);
		for (size_t k = 0; k < i; k++)
			first = first && strcmp(maps[k].image, maps[i].image) != 0;
		images += first;
	}
	free(maps);
	/* And nothing else lies there. */
	assert_int_equal(entries_of("images"), images);
	assert_int_equal(entries_of("streams"), 1);
	assert_int_equal(entries_of("truth"), 1);
	assert_int_equal(entries_of(""), 4);
}

/* A program that makes code, runs it, unmaps it page by page, and changes itself. */
static const uint8_t guest_code[] = {
	0xb9, 0x88, 0x13, 0x00, 0x00,             /* mov ecx, 5000 */
	0xff, 0xc9,                               /* dec ecx */
	0x75, 0xfc,                               /* jnz to the dec */
	0xb8, 0x09, 0x00, 0x00, 0x00,             /* mov eax, SYS_mmap */
	0xbf, 0x00, 0x00, 0x00, 0x10,             /* mov edi, 0x10000000 */
	0xbe, 0x00, 0x20, 0x00, 0x00,             /* mov esi, 0x2000 */
	0xba, 0x07, 0x00, 0x00, 0x00,             /* mov edx, PROT_READ | WRITE | EXEC */
	0x41, 0xba, 0x32, 0x00, 0x00, 0x00,       /* mov r10d, MAP_PRIVATE | FIXED | ANONYMOUS */
	0x49, 0x83, 0xc8, 0xff,                   /* or r8, -1 */
	0x45, 0x31, 0xc9,                         /* xor r9d, r9d */
	0x0f, 0x05,                               /* syscall */
	0xc7, 0x07, 0xb0, 0x2a, 0x90, 0xc3,       /* mov dword [rdi], "mov al, 42; nop; ret" */
	0xc6, 0x87, 0x00, 0x10, 0x00, 0x00, 0xc3, /* mov byte [rdi + 0x1000], "ret" */
	0xff, 0xd7,                               /* call rdi */
	0xb8, 0x0b, 0x00, 0x00, 0x00,             /* mov eax, SYS_munmap */
	0xbe, 0x00, 0x10, 0x00, 0x00,             /* mov esi, 0x1000 */
	0x0f, 0x05,                               /* syscall */
	0xc6, 0x87, 0x01, 0x10, 0x00, 0x00, 0xcc, /* mov byte [rdi + 0x1001], "int3" */
	0xb8, 0x0b, 0x00, 0x00, 0x00,             /* mov eax, SYS_munmap */
	0x81, 0xc7, 0x00, 0x10, 0x00, 0x00,       /* add edi, 0x1000 */
	0x0f, 0x05,                               /* syscall */
	0xc6, 0x05, 0x01, 0x00, 0x00, 0x00, 0x09, /* mov byte [rip + 1], 9 */
	0xbf, 0x05, 0x00, 0x00, 0x00,             /* mov edi, 5: 9 now */
	0xb8, 0x3c, 0x00, 0x00, 0x00,             /* mov eax, SYS_exit */
	0x0f, 0x05,                               /* syscall */
};
/* Counted by hand: the loop, mmap, the calls with what they call, twice munmap, the rest. */
enum { GUEST_INSNS = 1 + 2 * 5000 + 8 + 3 + 3 + 3 + 4 + 4 };
enum { GUEST_BASE = 0x400000, GUEST_HEAD = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) };

/* Write it as an ELF file; returns its path. */
static char *make_guest(void)
{
	static char path[64];
	const Elf64_Ehdr eh = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_entry = GUEST_BASE + GUEST_HEAD,
		.e_phoff = sizeof(eh),
		.e_ehsize = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	};
	const Elf64_Phdr ph = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W | PF_X,
		.p_vaddr = GUEST_BASE,
		.p_filesz = GUEST_HEAD + sizeof(guest_code),
		.p_memsz = GUEST_HEAD + sizeof(guest_code),
		.p_align = 0x1000,
	};
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/guest", dir);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(&eh, sizeof(eh), 1, f), 1);
	assert_int_equal(fwrite(&ph, sizeof(ph), 1, f), 1);
	assert_int_equal(fwrite(guest_code, sizeof(guest_code), 1, f), 1);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static int remove_guest(void **state)
{
	(void)unlink(make_guest());
	return remove_out(state);
}

/* The bytes at @address, as the capture has them: the last mapping counts. */
static void assert_code(uint64_t address, const uint8_t *want, size_t len)
{
	struct stated *maps = calloc(MAPS_MAX, sizeof(*maps));
	const struct stated *map = NULL;
	uint64_t at;
	uint8_t *have;
	size_t n;

	assert_non_null(maps);
	n = read_maps(maps, MAPS_MAX);
	for (size_t i = 0; i < n; i++)
		if (address >= maps[i].address && address - maps[i].address < maps[i].size)
			map = &maps[i];
	assert_non_null(map);
	at = address - map->address + map->offset;
	have = slurp(in_out(map->image), &n);
	assert_true(at + len <= n);
	assert_memory_equal(have + at, want, len);
	free(have);
	free(maps);
}

static void code_without_a_file_is_kept(void **state)
{
	static const uint8_t made[] = {0xb0, 0x2a, 0x90, 0xc3}, more[] = {0xc3, 0xcc};
	struct ptm_record_config config = config_of(0);
	struct ptm_record_result result;
	uint8_t own[sizeof(guest_code)];
	char *const argv[] = {make_guest(), NULL};

	(void)state;
	record(&config, argv, &result);
	assert_int_equal(result.exit_code, 9);
	assert_int_equal(result.instructions, GUEST_INSNS);
	assert_code(0x10000000, made, sizeof(made));
	assert_code(0x10001000, more, sizeof(more));
	memcpy(own, guest_code, sizeof(own));
	own[sizeof(own) - 11] = 9;
	assert_code(GUEST_BASE + GUEST_HEAD, own, sizeof(own));
}

static void seed_decides(void **state)
{
	char *const argv[] = {make_guest(), NULL};
	struct ptm_record_config config = config_of(3000);
	struct ptm_record_result a, b;
	uint8_t *trace_a, *trace_b;
	size_t len_a, len_b;

	config.irq_period = 100;
	record(&config, argv, &a);
	trace_a = slurp(in_out("streams/tid1.pt"), &len_a);
	(void)remove_out(state);
	record(&config, argv, &b);
	trace_b = slurp(in_out("streams/tid1.pt"), &len_b);
	assert_int_equal(a.digest, b.digest);
	assert_int_equal(len_a, len_b);
	assert_memory_equal(trace_a, trace_b, len_a);
	free(trace_a);
	free(trace_b);
	(void)remove_out(state);
	config.irq_period = 0;
	record(&config, argv, &b);
	assert_int_equal(a.digest, b.digest);
	assert_true(a.trace_bytes > b.trace_bytes);
}

static void compressed_trace_is_the_same(void **state)
{
	char *const argv[] = {make_guest(), NULL};
	struct ptm_record_config config = config_of(0);
	struct ptm_record_result result;
	struct ptm_file *file;
	uint8_t *plain, *packed;
	size_t len, small;
	uint64_t digest, bytes;
	struct ptm_json_doc *doc;

	record(&config, argv, &result);
	plain = slurp(in_out("streams/tid1.pt"), &len);
	(void)remove_out(state);
	config.compress = true;
	record(&config, argv, &result);
	assert_int_equal(result.trace_bytes, len);
	free(slurp(in_out("streams/tid1.pt.zst"), &small));
	assert_true(small < len);
	file = ptm_file_open(in_out("streams/tid1.pt.zst"), NULL);
	assert_non_null(file);
	packed = malloc(len + 1);
	assert_non_null(packed);
	assert_int_equal(ptm_file_read(file, packed, len + 1, NULL), len);
	assert_memory_equal(plain, packed, len);
	ptm_file_close(file);
	free(plain);
	free(packed);

	/* Stated are the bytes that lie there. */
	doc = read_json();
	{
		struct ptm_json_at root = ptm_json_root(doc);
		struct ptm_json_at streams = ptm_json_member(&root, "streams");
		struct ptm_json_at stream = ptm_json_element(&streams, 0);
		struct ptm_json_at blocks;

		assert_string_equal(string_of(&stream, "file"), "streams/tid1.pt.zst");
		assert_int_equal(
			ptm_hash_file(in_out("streams/tid1.pt.zst"), NULL, &digest, &bytes, NULL),
			0);
		assert_int_equal(bytes, small);
		assert_int_equal(number_of(&stream, "bytes"), small);
		assert_int_equal(number_of(&stream, "xxh3_64"), digest);
		blocks = ptm_json_member(&stream, "blocks");
		assert_false(ptm_json_is_there(&blocks));
	}
	ptm_json_doc_destroy(doc);
}

/* At most 2^20 blocks a stream, and half of what is left of 2^21, of 16 KiB to 16 MiB. */
static void blocks_are_bounded(void **state)
{
	static const uint64_t all = UINT64_C(1) << 21, gib = UINT64_C(1) << 30;

	(void)state;
	assert_int_equal(ptm_capture_block_size(0, 0), 0);
	assert_int_equal(ptm_capture_block_size(1, 0), 16384);
	assert_int_equal(ptm_capture_block_size(16 * gib, 0), 16384);
	assert_int_equal(ptm_capture_block_size(16 * gib + 1, 0), 32768);
	assert_int_equal(ptm_capture_block_size(40 * gib, 0), 65536);
	assert_int_equal(ptm_capture_block_size(16384 * gib, 0), 16 << 20);
	assert_int_equal(ptm_capture_block_size(16384 * gib + 1, 0), 0);
	assert_int_equal(ptm_capture_block_size(16 * gib, all / 2), 32768);
	assert_int_equal(ptm_capture_block_size(1, all - 2), 16384);
	assert_int_equal(ptm_capture_block_size(16385, all - 2), 32768);
	assert_int_equal(ptm_capture_block_size(1, all - 1), 0);
	assert_int_equal(ptm_capture_block_size(1, all), 0);
}

/* Clocks as record.h states them; none without time packets. */
static void clocks_are_told(void **state)
{
	char *const argv[] = {make_guest(), NULL};
	struct ptm_record_config config = config_of(100);
	struct ptm_record_result result;

	for (int timing = PTM_TIMING_NONE; timing <= PTM_TIMING_CYC; timing++) {
		struct ptm_json_at root, clocks, ratio, mtc;
		struct ptm_json_doc *doc;

		config.timing = (enum ptm_record_timing)timing;
		config.mtc_freq = 5;
		record(&config, argv, &result);
		doc = read_json();
		root = ptm_json_root(doc);
		clocks = ptm_json_member(&root, "clocks");
		assert_int_equal(ptm_json_is_there(&clocks), timing != PTM_TIMING_NONE);
		if (ptm_json_is_there(&clocks)) {
			mtc = ptm_json_member(&clocks, "mtc_freq");
			assert_int_equal(ptm_json_is_there(&mtc), timing >= PTM_TIMING_MTC);
			if (ptm_json_is_there(&mtc))
				assert_int_equal(number_of(&clocks, "mtc_freq"), 5);
			assert_int_equal(number_of(&clocks, "nom_freq"), 24);
			ratio = ptm_json_member(&clocks, "cpuid_0x15");
			assert_int_equal(number_of(&ratio, "eax"), 2);
			assert_int_equal(number_of(&ratio, "ebx"), 200);
		}
		ptm_json_doc_destroy(doc);
		(void)remove_out(state);
	}
}

static void killed_by_a_signal(void **state)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"kill -TERM $$", NULL};
	struct ptm_record_config config = config_of(0);
	struct ptm_record_result result;

	(void)state;
	record(&config, argv, &result);
	assert_int_equal(result.exit_code, 128 + 15);
	assert_true(result.instructions > 1000);
}

static void expect_failure(const struct ptm_record_config *config, char *program, const char *place,
			   int code, const char *message)
{
	char *const argv[] = {program, NULL};
	struct ptm_error err;

	assert_int_equal(ptm_record(config, argv, place, NULL, &err), -code);
	assert_non_null(strstr(err.cause[0].text, message));
}

static void failures_leave_nothing(void **state)
{
	struct ptm_record_config config = config_of(0);
	char program[] = "/bin/true", missing[] = "/nonexistent/program";

	(void)state;
	expect_failure(&config, missing, out, PTM_E_NOINPUT,
		       "Cannot execute \"/nonexistent/program\"");
	assert_nothing_left();
	expect_failure(&config, program, dir, PTM_E_USAGE, "exists already");
	assert_nothing_left();
	expect_failure(&config, program, "/nonexistent/out", PTM_E_IO, "/nonexistent/out");
	config.psb_period = 1;
	expect_failure(&config, program, out, PTM_E_USAGE, "PSB");
	config = config_of(0);
	config.mtc_freq = 16;
	expect_failure(&config, program, out, PTM_E_USAGE, "MTC");
	config.size = 0;
	expect_failure(&config, program, out, PTM_E_USAGE, "size");
	assert_nothing_left();
}

/* A file that cannot grow stands for a full disk: the trace, or an image, is cut short. */
static void full_disk_leaves_nothing(void **state)
{
	char *const argv[] = {(char *)"/bin/true", NULL};
	struct ptm_record_config config = config_of(1000);
	struct rlimit limit, old;
	struct ptm_error err;
	int ret;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 4096;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ret = ptm_record(&config, argv, out, NULL, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	(void)signal(SIGXFSZ, SIG_DFL);
	if (ret != -PTM_E_SYSTEM || strstr(err.cause[0].text, "PTRACE_TRACEME") == NULL) {
		assert_int_equal(ret, -PTM_E_NOSPACE);
		assert_non_null(strstr(err.cause[0].text, "too large"));
		/* What the user called it, and not what it is called meanwhile. */
		assert_null(strstr(err.cause[0].text, ".tmp-"));
	}
	assert_nothing_left();
}

static void exec_is_refused(void **state)
{
	char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exec /bin/true", NULL};
	struct ptm_record_config config = config_of(0);
	struct ptm_error err;

	(void)state;
	assert_int_equal(ptm_record(&config, argv, out, NULL, &err), -PTM_E_SYSTEM);
	if (strstr(err.cause[0].text, "PTRACE_TRACEME") == NULL)
		assert_non_null(strstr(err.cause[0].text, "exec"));
	assert_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(capture_is_complete, remove_out),
		cmocka_unit_test_teardown(code_without_a_file_is_kept, remove_guest),
		cmocka_unit_test_teardown(seed_decides, remove_guest),
		cmocka_unit_test_teardown(compressed_trace_is_the_same, remove_guest),
		cmocka_unit_test_teardown(clocks_are_told, remove_guest),
		cmocka_unit_test_teardown(killed_by_a_signal, remove_out),
		cmocka_unit_test(blocks_are_bounded),
		cmocka_unit_test(failures_leave_nothing),
		cmocka_unit_test(full_disk_leaves_nothing),
		cmocka_unit_test(exec_is_refused),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
