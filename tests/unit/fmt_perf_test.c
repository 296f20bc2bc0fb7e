/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_perf_test.c - the perf.data walk over hand-made images, whole and hostile, and over real
 * files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "fmt/perf_aux.h"

#include <stdio.h>
#include <stdlib.h>

struct image {
	uint8_t b[4096];
	size_t n;
};

static void put(struct image *im, uint64_t v, unsigned bytes)
{
	assert_true(im->n + bytes <= sizeof(im->b));
	ptm_store_le(im->b + im->n, v, bytes);
	im->n += bytes;
}

static void put_record(struct image *im, uint32_t type, uint16_t size)
{
	put(im, type, 4);
	put(im, 0, 2);
	put(im, size, 2);
}

static void put_zeros(struct image *im, size_t n)
{
	while (n-- > 0)
		put(im, 0, 1);
}

static void put_auxtrace(struct image *im, uint64_t size, uint64_t offset, uint32_t cpu,
			 size_t present)
{
	put_record(im, 71, 48);
	put(im, size, 8);
	put(im, offset, 8);
	put(im, 0x1122334455667788, 8);
	put(im, 3, 4);
	put(im, 4711, 4);
	put(im, cpu, 4);
	put(im, 0, 4);
	for (size_t i = 0; i < present; i++)
		put(im, 0xa0 + i, 1);
}

static void put_header(struct image *im, bool pipe)
{
	*im = (struct image){0};
	memcpy(im->b, "PERFILE2", 8);
	im->n = 8;
	put(im, pipe ? 16 : 104, 8);
	if (!pipe) {
		put(im, 136, 8); /* attr size, attrs */
		put(im, 104, 8);
		put(im, 0, 8);
		put(im, 104, 8); /* data: offset, size (set by close_data) */
		put_zeros(im, 104 - im->n);
	}
}

static void close_data(struct image *im)
{
	if (im->b[8] == 104)
		ptm_store_le(im->b + 48, im->n - 104, 8);
}

/* Two AUXTRACE records with a few others around them; the numbers of the payloads' offsets come
 * back. */
static void put_two(struct image *im, bool pipe, uint64_t offset[2])
{
	put_header(im, pipe);
	put_record(im, 70, 24); /* AUXTRACE_INFO */
	put_zeros(im, 16);
	if (pipe) {
		put_record(
			im, 66,
			12); /* TRACING_DATA: 16 bytes follow, which look like a record of size 0 */
		put(im, 16, 4);
		put_zeros(im, 16);
	}
	put_record(im, 68, 8); /* FINISHED_ROUND */
	put_auxtrace(im, 16, 0x1000, 1, 16);
	offset[0] = im->n - 16;
	put_record(im, 200, 16); /* unknown */
	put_zeros(im, 8);
	put_record(im, 81, 24); /* COMPRESSED */
	put_zeros(im, 16);
	put_record(im, 83, 24); /* COMPRESSED2, 3 bytes and padding */
	put(im, 3, 8);
	put_zeros(im, 8);
	put_auxtrace(im, 8, 0x1010, UINT32_MAX, 8);
	offset[1] = im->n - 8;
	close_data(im);
	if (!pipe)
		put_zeros(im, 40); /* feature sections: no records */
}

/* Walk an image in a block of exactly its size; counts payloads, returns the last status. */
static int walk(const struct image *im, size_t len, struct ptm_perf_walk *w,
		struct ptm_perf_aux *aux, size_t *n, struct ptm_error *err)
{
	uint8_t *data = malloc(len != 0 ? len : 1);
	int r;

	assert_non_null(data);
	memcpy(data, im->b, len);
	*n = 0;
	r = ptm_perf_walk_init(w, data, len, err);
	while (r >= 0 && (r = ptm_perf_walk_next(w, aux + (*n < 2 ? *n : 1), err)) == 1) {
		const struct ptm_perf_aux *a = aux + (*n < 2 ? *n : 1);

		assert_true(a->file_offset <= len && a->size <= len - a->file_offset);
		if (a->size != 0)
			assert_int_equal(data[a->file_offset], 0xa0);
		++*n;
	}
	free(data);
	w->data = NULL;
	return r;
}

static void check_two(bool pipe)
{
	struct image im;
	struct ptm_perf_walk w;
	struct ptm_perf_aux aux[2];
	struct ptm_error err;
	uint64_t offset[2];
	size_t n;

	put_two(&im, pipe, offset);
	assert_int_equal(walk(&im, im.n, &w, aux, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_int_equal(w.pipe, pipe);
	assert_false(w.unfinished);
	assert_int_equal(w.records, pipe ? 8 : 7);
	assert_int_equal(w.auxtraces, 2);
	assert_int_equal(w.compressed, 2);
	assert_int_equal(w.unknown, 1);
	assert_int_equal(w.unknown_type, 200);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(aux[i].file_offset, offset[i]);
		assert_int_equal(aux[i].size, i == 0 ? 16 : 8);
		assert_int_equal(aux[i].missing, 0);
		assert_int_equal(aux[i].aux_offset, i == 0 ? 0x1000 : 0x1010);
		assert_true(aux[i].reference == 0x1122334455667788);
		assert_int_equal(aux[i].idx, 3);
		assert_int_equal(aux[i].tid, 4711);
		assert_true(aux[i].cpu == (i == 0 ? 1 : UINT32_MAX));
	}
}

static void test_file_mode(void **state)
{
	(void)state;
	check_two(false);
}

static void test_pipe_mode(void **state)
{
	(void)state;
	check_two(true);
}

/* B71, B72: sizes that cannot be. */
static void test_bad_sizes(void **state)
{
	static const struct {
		uint32_t type;
		uint16_t size;
		int status;
	} cases[] = {
		{1, 0, -PTM_E_FORMAT},          {1, 7, -PTM_E_FORMAT},
		{1, 65535, -PTM_E_TRUNCATED},   {71, 8, -PTM_E_FORMAT},
		{71, 43, -PTM_E_FORMAT},        {71, 65535, -PTM_E_TRUNCATED},
		{81, 0, -PTM_E_FORMAT},         {83, 0, -PTM_E_FORMAT},
		{83, 65535, -PTM_E_TRUNCATED},  {200, 0, -PTM_E_FORMAT},
		{200, 65535, -PTM_E_TRUNCATED},
	};

	(void)state;
	for (int pipe = 0; pipe < 2; pipe++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct image im;
			struct ptm_perf_walk w;
			struct ptm_perf_aux aux[2];
			struct ptm_error err = {0};
			size_t n;

			put_header(&im, pipe != 0);
			put_auxtrace(&im, 16, 0, 0, 16);
			size_t bad_at = im.n;
			put_record(&im, cases[i].type, cases[i].size);
			put_zeros(&im, 64);
			close_data(&im);
			assert_int_equal(walk(&im, im.n, &w, aux, &n, &err), cases[i].status);
			assert_int_equal(n, 1);
			assert_int_equal(w.pos, bad_at);
			char where[32];
			(void)snprintf(where, sizeof(where), "offset %zu", bad_at);
			assert_non_null(strstr(err.cause[0].text, where));
		}
}

/* B72: lengths of 64 bits that wrap or leave the file. */
static void test_bad_lengths(void **state)
{
	static const uint64_t sizes[] = {
		65, 1000, UINT64_C(1) << 63, UINT64_MAX - 23, UINT64_MAX - 7, UINT64_MAX};
	struct ptm_perf_walk w;
	struct ptm_perf_aux aux[2];
	struct image im;
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		/* The payload of AUXTRACE is cut off: what is there is given. */
		put_header(&im, true);
		put_auxtrace(&im, sizes[i], 0, 0, 64);
		assert_int_equal(walk(&im, im.n, &w, aux, &n, NULL), 0);
		assert_int_equal(n, 1);
		assert_int_equal(aux[0].size, 64);
		assert_true(aux[0].missing == sizes[i] - 64);

		put_header(&im, true);
		put_record(&im, 83, 80);
		put(&im, sizes[i], 8);
		put_zeros(&im, 64);
		assert_int_equal(walk(&im, im.n, &w, aux, &n, NULL), -PTM_E_TRUNCATED);
		assert_int_equal(w.pos, 16);
	}
	put_header(&im, true);
	put_record(&im, 66, 12);
	put(&im, UINT32_MAX, 4);
	assert_int_equal(walk(&im, im.n, &w, aux, &n, NULL), -PTM_E_TRUNCATED);
}

/* A COMPRESSED2 record whose 16-bit size fell short is skipped by its data size. */
static void test_compressed2_long(void **state)
{
	struct ptm_perf_walk w;
	struct ptm_perf_aux aux[2];
	struct image im;
	size_t n;

	(void)state;
	put_header(&im, false);
	put_record(&im, 83, 16);
	put(&im, 61, 8);
	put_zeros(&im, 64);
	put_auxtrace(&im, 8, 0, 0, 8);
	close_data(&im);
	assert_int_equal(walk(&im, im.n, &w, aux, &n, NULL), 0);
	assert_int_equal(n, 1);
}

/* Cut at every byte: no crash, no byte beyond the end, and what is yielded lies in front of the
 * cut. */
static void test_truncated(void **state)
{
	(void)state;
	for (int pipe = 0; pipe < 2; pipe++) {
		struct ptm_perf_walk w;
		struct ptm_perf_aux aux[2];
		struct image im;
		uint64_t offset[2];
		size_t n;

		put_two(&im, pipe != 0, offset);
		for (size_t len = 0; len < im.n; len++) {
			int r = walk(&im, len, &w, aux, &n, NULL);
			size_t whole = (len >= offset[0] ? 1U : 0U) + (len >= offset[1] ? 1U : 0U);

			if (len < 16) {
				assert_int_equal(r, -PTM_E_FORMAT);
				continue;
			}
			assert_true(r == 0 || r == -PTM_E_FORMAT || r == -PTM_E_TRUNCATED);
			assert_int_equal(n, whole);
			if (len > offset[0] && len < offset[0] + 16)
				assert_int_equal(aux[0].missing, offset[0] + 16 - len);
		}
	}
}

/* The recording was killed: the data size was never written. */
static void test_unfinished(void **state)
{
	struct ptm_perf_walk w;
	struct ptm_perf_aux aux[2];
	struct image im;
	size_t n;

	(void)state;
	put_header(&im, false);
	put_auxtrace(&im, 8, 0, 0, 8);
	assert_int_equal(walk(&im, im.n, &w, aux, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_true(w.unfinished);
}

static void test_not_perf_data(void **state)
{
	struct ptm_perf_walk w;
	struct ptm_error err;
	uint8_t bytes[104] = "PERFILE2";

	(void)state;
	assert_int_equal(ptm_perf_walk_init(&w, bytes, 8, &err), -PTM_E_FORMAT);
	assert_int_equal(ptm_perf_walk_init(&w, bytes, 40, &err), -PTM_E_FORMAT);
	/* Data section inside the header, then behind the end. */
	assert_int_equal(ptm_perf_walk_init(&w, bytes, sizeof(bytes), &err), -PTM_E_FORMAT);
	ptm_store_le(bytes + 40, 105, 8);
	assert_int_equal(ptm_perf_walk_init(&w, bytes, sizeof(bytes), &err), -PTM_E_FORMAT);
	ptm_store_le(bytes + 40, UINT64_MAX, 8);
	assert_int_equal(ptm_perf_walk_init(&w, bytes, sizeof(bytes), &err), -PTM_E_FORMAT);
	memcpy(bytes, "2ELIFREP", 8);
	assert_int_equal(ptm_perf_walk_init(&w, bytes, sizeof(bytes), &err), -PTM_E_FORMAT);
	assert_non_null(strstr(err.cause[0].text, "big-endian"));
}

/* The AUXTRACE records of real files, as `perf script -D` prints them (perf 6.1): size, offset,
 * reference, idx, tid, cpu, and the place of the record, 48 bytes in front of the payload (in pipe
 * mode perf counts from behind the file's header of 16 bytes). */
static const struct {
	const char *file;
	struct ptm_perf_aux aux;
} real[] = {
	{"hase/control_flow.perf.data", {0x1ad8 + 48, 0x650, 0, 0, 0xafe4679823f79, 1, 19731, 1}},
	{"hase/loopy.perf.data", {0x58a8 + 48, 0x288, 0, 0, 0x31a42dea432b, 1, 31552, 1}},
	{"quipper/perf.data", {0x29c0 + 48, 0x2fd0, 0, 0, 0xbc4cd519a6, 0, 3174, 0}},
	{"quipper/perf.data", {0x7788 + 48, 0x21a00, 0, 0, 0xbc4cd584c2, 3, 3174, 3}},
	{"quipper/perf.data.piped", {0x7f50 + 64, 0x12a70, 0, 0, 0x3a717781f00, 0, 3587, 0}},
};

static size_t read_real(const char *dir, const char *name, uint8_t **data)
{
	char path[4096];
	FILE *f;
	long size;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	size = ftell(f);
	assert_true(size > 0);
	rewind(f);
	*data = malloc((size_t)size);
	assert_non_null(*data);
	assert_int_equal(fread(*data, 1, (size_t)size, f), size);
	(void)fclose(f);
	return (size_t)size;
}

static void test_real_files(void **state)
{
	const char *dir = getenv("PTMILL_REAL_TRACES");

	(void)state;
	if (dir == NULL) {
		(void)printf("PTMILL_REAL_TRACES is not set: real files are skipped\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++) {
		const struct ptm_perf_aux *want = &real[i].aux;
		struct ptm_perf_walk w;
		struct ptm_perf_aux aux;
		uint8_t *data;
		size_t len = read_real(dir, real[i].file, &data);
		bool found = false;
		int r;

		assert_int_equal(ptm_perf_walk_init(&w, data, len, NULL), 0);
		while ((r = ptm_perf_walk_next(&w, &aux, NULL)) == 1)
			if (aux.file_offset == want->file_offset && aux.size == want->size &&
			    aux.missing == 0 && aux.aux_offset == want->aux_offset &&
			    aux.reference == want->reference && aux.idx == want->idx &&
			    aux.tid == want->tid && aux.cpu == want->cpu)
				found = true;
		assert_int_equal(r, 0);
		assert_int_equal(w.unknown, 0);
		if (!found)
			fail_msg("%s: no AUXTRACE of reference 0x%llx", real[i].file,
				 (unsigned long long)want->reference);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_mode),        cmocka_unit_test(test_pipe_mode),
		cmocka_unit_test(test_bad_sizes),        cmocka_unit_test(test_bad_lengths),
		cmocka_unit_test(test_compressed2_long), cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_unfinished),       cmocka_unit_test(test_not_perf_data),
		cmocka_unit_test(test_real_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
