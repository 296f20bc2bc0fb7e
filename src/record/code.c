/* SPDX-License-Identifier: Apache-2.0
 *
 * code.c - the code that a program executed.
 *
 * Bytes that differ from the file that is mapped at their address, or have none, are kept by pages.
 * A page begins as the file has it, else as zeros; only what was executed is known of it.
 */
#include "record/code.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = PTM_REC_PAGE, PIECE_MAX = 1 << 20 };

struct code_page {
	struct ptm_page page;
	bool gone; /* a file has taken its place */
	uint8_t bytes[PAGE];
};

void ptm_code_init(struct ptm_code *code, struct ptm_images *images, struct ptm_error *err)
{
	*code = (struct ptm_code){.images = images, .err = err};
}

void ptm_code_fini(struct ptm_code *code)
{
	for (size_t i = 0; i < code->files.n; i++)
		ptm_map_close(&code->files.v[i].map);
	ptm_pages_fini(&code->pages);
	free(code->files.v);
	*code = (struct ptm_code){0};
}

static int no_memory(struct ptm_code *code)
{
	return PTM_FAIL(code->err, PTM_E_NOMEM, "Cannot keep the executed code: out of memory");
}

int ptm_code_map(struct ptm_code *code, uint64_t begin, uint64_t end, uint64_t offset,
		 const char *path)
{
	struct ptm_code_file file = {.begin = begin, .end = end, .offset = offset};
	char *copy;
	size_t image;
	int ret;

	ret = ptm_images_add_file(code->images, path, begin, end, offset, &image);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	copy = ptm_images_path(code->images, image);
	if (copy == NULL)
		return no_memory(code);
	ret = ptm_map_open(&file.map, copy, code->err);
	free(copy);
	PTM_TRY(ret);
	if (!ptm_vec_push(&code->files, file)) {
		ptm_map_close(&file.map);
		return no_memory(code);
	}
	/* What was there before is gone. */
	for (uint64_t at = begin & ~(uint64_t)(PAGE - 1); code->pages.n > 0 && at < end;
	     at += PAGE) {
		struct code_page *page = ptm_pages_find(&code->pages, at);

		if (page != NULL)
			page->gone = true;
	}
	return 0;
}

/* The byte of the file at @address, or NULL; at least @len bytes are there. */
static const uint8_t *in_file(const struct ptm_code *code, uint64_t address, size_t len)
{
	for (size_t i = code->files.n; i-- > 0;) {
		const struct ptm_code_file *f = &code->files.v[i];
		uint64_t at = f->offset + (address - f->begin);

		if (address < f->begin || address >= f->end)
			continue;
		return at < f->map.len && f->map.len - at >= len ? f->map.data + at : NULL;
	}
	return NULL;
}

/* A page as the file has it, or empty; NULL when out of memory. */
static struct code_page *begin_page(struct ptm_code *code, uint64_t base)
{
	struct code_page *page = ptm_pages_make(&code->pages, base, sizeof(*page));
	const uint8_t *file = in_file(code, base, PAGE);

	if (page == NULL)
		return NULL;
	page->gone = false;
	if (file != NULL)
		memcpy(page->bytes, file, PAGE);
	else
		memset(page->bytes, 0, PAGE);
	return page;
}

/* @len bytes within a page. */
static int keep(struct ptm_code *code, uint64_t address, const uint8_t *bytes, size_t len)
{
	uint64_t base = address & ~(uint64_t)(PAGE - 1);
	struct code_page *page = ptm_pages_find(&code->pages, base);

	if (page == NULL || page->gone) {
		const uint8_t *file = in_file(code, address, len);

		if (file != NULL && memcmp(file, bytes, len) == 0)
			return 0;
		page = begin_page(code, base);
		if (page == NULL)
			return no_memory(code);
	}
	memcpy(page->bytes + (address - base), bytes, len);
	return 0;
}

int ptm_code_bytes(struct ptm_code *code, uint64_t address, const uint8_t *bytes, size_t len)
{
	while (len > 0) {
		size_t n = PAGE - (size_t)(address % PAGE);

		n = n < len ? n : len;
		PTM_TRY(keep(code, address, bytes, n));
		address += n;
		bytes += n;
		len -= n;
	}
	return 0;
}

/* The pages from @first on that lie in a row, up to @n, as one mapping; returns how many. */
static int write_row(struct ptm_code *code, struct ptm_page *const *first, size_t n, uint8_t *buf)
{
	size_t i = 0;
	int ret;

	do {
		memcpy(buf + i * PAGE, ((const struct code_page *)first[i])->bytes, PAGE);
		i++;
	} while (i < n && (i + 1) * PAGE <= PIECE_MAX &&
		 first[i]->address == first[0]->address + i * PAGE);
	ret = ptm_images_add_memory(code->images, first[0]->address, buf, i * PAGE);
	return ret < 0 ? ret : (int)i;
}

int ptm_code_write(struct ptm_code *code)
{
	struct ptm_page **sorted = ptm_pages_sorted(&code->pages);
	uint8_t *buf = malloc(PIECE_MAX);
	size_t n = 0;
	int ret = sorted != NULL && buf != NULL ? 0 : no_memory(code);

	for (size_t i = 0; ret == 0 && i < code->pages.n; i++)
		if (!((const struct code_page *)sorted[i])->gone)
			sorted[n++] = sorted[i];
	for (size_t i = 0; ret >= 0 && i < n; i += (size_t)ret)
		ret = write_row(code, sorted + i, n - i, buf);
	free(sorted);
	free(buf);
	return ret < 0 ? ret : 0;
}
