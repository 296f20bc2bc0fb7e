/* SPDX-License-Identifier: Apache-2.0
 *
 * seen.c - which bytes were executed at which address.
 *
 * A table of pages, each with the bytes that were executed last and a bit for each of them that
 * was.
 */
#include "record/seen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = PTM_REC_PAGE };

struct seen_page {
	struct ptm_page page;
	uint8_t known[PAGE / 8];
	uint8_t bytes[PAGE];
};

void ptm_seen_fini(struct ptm_seen *seen)
{
	ptm_pages_fini(&seen->pages);
	*seen = (struct ptm_seen){.times = 0};
}

static bool is_known(const struct seen_page *page, size_t i)
{
	return (page->known[i / 8] >> i % 8 & 1) != 0;
}

/* The first known byte of @page from @at on that is not as in @bytes, @len of them; @len: none. */
static size_t first_change(const struct seen_page *page, size_t at, const uint8_t *bytes,
			   size_t len)
{
	size_t i = 0;

	while (i < len && (page->bytes[at + i] == bytes[i] || !is_known(page, at + i)))
		i++;
	return i;
}

static void note(struct ptm_seen *seen, uint64_t address)
{
	if (seen->times++ == 0)
		seen->first = address;
}

int ptm_seen_code(struct ptm_seen *seen, uint64_t address, const uint8_t *bytes, size_t len)
{
	bool replaced = false;

	while (len > 0) {
		size_t at = (size_t)(address % PAGE), n = PAGE - at, change;
		struct seen_page *page = ptm_pages_make(&seen->pages, address - at, sizeof(*page));

		if (page == NULL)
			return -PTM_E_NOMEM;
		n = n < len ? n : len;
		change = first_change(page, at, bytes, n);
		/* Once, even if it lies on two pages. */
		if (change < n && !replaced) {
			note(seen, address + change);
			replaced = true;
		}
		memcpy(page->bytes + at, bytes, n);
		for (size_t i = at; i < at + n; i++)
			page->known[i / 8] |= (uint8_t)(1U << i % 8);
		address += n;
		bytes += n;
		len -= n;
	}
	return 0;
}

/* The mapping that shows at @address, or NULL. */
static const struct ptm_rec_map *map_at(const struct ptm_images *images, uint64_t address)
{
	for (size_t i = images->maps.n; i-- > 0;)
		if (address >= images->maps.v[i].begin && address < images->maps.v[i].end)
			return &images->maps.v[i];
	return NULL;
}

static int open_image(const struct ptm_images *images, const struct ptm_rec_map *map)
{
	char *path = ptm_images_path(images, map->image);
	int fd;

	if (path == NULL)
		return PTM_FAIL(images->err, PTM_E_NOMEM, "Cannot check the images: out of memory");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = ptm_rec_fail(images->err, "open", path);
	free(path);
	return fd;
}

static void compare_page(struct ptm_seen *seen, const struct seen_page *page,
			 const struct ptm_images *images, const struct ptm_rec_map *map, int fd)
{
	uint64_t offset = ptm_images_offset(images, map) + (page->page.address - map->begin);
	uint8_t bytes[PAGE];
	ssize_t n = pread(fd, bytes, PAGE, (off_t)offset);
	size_t len = n > 0 ? (size_t)n : 0, change = first_change(page, 0, bytes, len);

	if (change < len)
		note(seen, page->page.address + change);
}

int ptm_seen_compare(struct ptm_seen *seen, const struct ptm_images *images)
{
	struct ptm_page **sorted = ptm_pages_sorted(&seen->pages);
	const struct ptm_rec_map *map = NULL, *before = NULL;
	int ret = 0, fd = -1;

	if (sorted == NULL)
		return PTM_FAIL(images->err, PTM_E_NOMEM, "Cannot check the images: out of memory");
	for (size_t i = 0; i < seen->pages.n && ret == 0; i++) {
		map = map_at(images, sorted[i]->address);
		if (map == NULL)
			continue;
		if (map != before) {
			if (fd >= 0)
				(void)close(fd);
			fd = open_image(images, map);
			ret = fd < 0 ? fd : 0;
			before = map;
		}
		if (ret == 0)
			compare_page(seen, (const struct seen_page *)sorted[i], images, map, fd);
	}
	if (fd >= 0)
		(void)close(fd);
	free(sorted);
	return ret;
}
