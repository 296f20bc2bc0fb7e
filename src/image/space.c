/* SPDX-License-Identifier: Apache-2.0
 *
 * space.c - an address space: an array of ranges, sorted by address, over mapped files.
 *
 * While it is built, ranges are appended in the order in which they were given.  Sealing sweeps
 * over the addresses and keeps, at each, the range that was given last, present images before
 * missing ones; what is left is disjoint, so that a look-up is one binary search.  A range has an
 * inclusive end, because the last byte of the address space is an address like any other.  Two
 * trees find the image of a path and of a file (device, inode).  A tree in each image has the
 * digests of the parts that are mapped, so that processes of the same images cost one pass over
 * their bytes.
 */
#include "image/space_build.h"

#include "base/bytes.h"
#include "base/vec.h"
#include "image/code_map.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

struct range {
	uint64_t begin, last; /* inclusive */
	uint64_t file_offset;
	const struct ptm_image_name *name;
	bool missing;
};

struct ranges {
	struct range *v;
	size_t n, cap;
};

/* The files that are mapped, shared by the spaces of a run. */
struct image_set {
	unsigned users; /* spaces; built and destroyed by one thread */
	void *names;    /* tree of struct ptm_image_name, by path */
	void *images;   /* tree of struct ptm_image, by device and inode */
};

/* Found when first asked for. */
struct identity {
	pthread_mutex_t lock;
	bool known;
	XXH128_hash_t hash;
};

struct ptm_space {
	struct identity *identity;
	struct ranges given;  /* in the order of the ptm_space_add_*() calls */
	struct ranges sealed; /* disjoint, by address */
	struct image_set *set;
};

static void free_name(void *node)
{
	struct ptm_image_name *name = node;

	free(name->path);
	free(name->wanted_id);
	free(name->recorded);
	free(name);
}

static void free_image(void *node)
{
	struct ptm_image *image = node;

	tdestroy(image->pieces, free);
	(void)pthread_mutex_destroy(&image->lock);
	ptm_cells_destroy(image->cells, image->map.len);
	ptm_map_close(&image->map);
	free(image->path);
	free(image);
}

static void put_set(struct image_set *set)
{
	if (set == NULL || --set->users > 0)
		return;
	tdestroy(set->names, free_name);
	tdestroy(set->images, free_image);
	free(set);
}

struct ptm_space *ptm_space_create_beside(const struct ptm_space *other)
{
	struct ptm_space *space = calloc(1, sizeof(*space));

	if (space == NULL)
		return NULL;
	space->set = other != NULL ? other->set : calloc(1, sizeof(*space->set));
	space->identity = calloc(1, sizeof(*space->identity));
	if (space->set == NULL || space->identity == NULL) {
		if (other == NULL)
			free(space->set);
		free(space->identity);
		free(space);
		return NULL;
	}
	(void)pthread_mutex_init(&space->identity->lock, NULL);
	space->set->users++;
	return space;
}

struct ptm_space *ptm_space_create(void)
{
	return ptm_space_create_beside(NULL);
}

void ptm_space_destroy(struct ptm_space *space)
{
	if (space == NULL)
		return;
	put_set(space->set);
	(void)pthread_mutex_destroy(&space->identity->lock);
	free(space->identity);
	free(space->given.v);
	free(space->sealed.v);
	free(space);
}

static int by_path(const void *a, const void *b)
{
	const struct ptm_image_name *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int by_file(const void *a, const void *b)
{
	const struct ptm_image *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

/* Store the entry for @path, made if there is none. */
static int intern(struct ptm_space *space, const char *path, struct ptm_image_name **out,
		  struct ptm_error *err)
{
	struct ptm_image_name *name = calloc(1, sizeof(*name));
	void *node = NULL;

	if (name != NULL)
		name->path = strdup(path);
	if (name != NULL && name->path != NULL)
		node = tsearch(name, &space->set->names, by_path);
	if (node != NULL)
		*out = *(struct ptm_image_name **)node;
	if (name != NULL && (node == NULL || *out != name))
		free_name(name);
	if (node == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM,
				"Out of memory for the name of an image: path=\"%s\"", path);
	return 0;
}

static int open_image(struct ptm_space *space, const char *path, struct ptm_image **out,
		      struct ptm_error *err)
{
	struct ptm_image *image;
	struct stat st;
	void *node;
	int rc;

	if (stat(path, &st) != 0)
		return PTM_FAIL(err, ptm_error_from_errno(errno),
				"Cannot open image: path=\"%s\": %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return PTM_FAIL(err, PTM_E_NOINPUT,
				"Cannot map image: path=\"%s\": not a regular file", path);
	image = calloc(1, sizeof(*image));
	if (image == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for an image: path=\"%s\"", path);
	image->dev = st.st_dev;
	image->ino = st.st_ino;
	node = tsearch(image, &space->set->images, by_file);
	if (node == NULL) {
		free(image);
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for an image: path=\"%s\"", path);
	}
	if (*(struct ptm_image **)node != image) {
		free(image);
		*out = *(struct ptm_image **)node;
		return 0;
	}
	image->path = strdup(path);
	rc = image->path != NULL
		     ? ptm_map_open(&image->map, path, err)
		     : PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for an image: path=\"%s\"", path);
	if (rc < 0) {
		(void)tdelete(image, &space->set->images, by_file);
		free(image->path);
		free(image);
		return rc;
	}
	image->cells = ptm_cells_create(image->map.len);
	ptm_elf_build_id(&image->map, image->build_id);
	(void)pthread_mutex_init(&image->lock, NULL);
	*out = image;
	return 0;
}

int ptm_space_open(struct ptm_space *space, const char *path, const struct ptm_image_name **out,
		   struct ptm_error *err)
{
	struct ptm_image_name *name = NULL;

	PTM_TRY(intern(space, path, &name, err));
	/* A name that was missing is tried again: the caller may need the reason. */
	if (name->image == NULL)
		PTM_TRY(open_image(space, path, &name->image, err));
	*out = name;
	return 0;
}

int ptm_space_expect(struct ptm_space *space, const char *path, const char *build_id,
		     struct ptm_error *err)
{
	struct ptm_image_name *name = NULL;

	if (*build_id == '\0')
		return 0;
	PTM_TRY(intern(space, path, &name, err));
	free(name->wanted_id);
	name->wanted_id = strdup(build_id);
	if (name->wanted_id == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for a build-id");
	return 0;
}

int ptm_space_name(struct ptm_space *space, const char *path, const char *recorded,
		   struct ptm_error *err)
{
	struct ptm_image_name *name = NULL;

	PTM_TRY(intern(space, path, &name, err));
	if (name->recorded == NULL)
		name->recorded = strdup(recorded);
	if (name->recorded == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for the name of an image");
	return 0;
}

bool ptm_space_has_file(const struct ptm_space *space, dev_t dev, ino_t ino)
{
	const struct ptm_image key = {.dev = dev, .ino = ino};

	return tfind(&key, &space->set->images, by_file) != NULL;
}

int ptm_space_overlay(struct ptm_space *space, const struct ptm_space *over, struct ptm_error *err)
{
	if (!ptm_vec_reserve(&space->given, over->given.n))
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for mappings: n=%zu",
				over->given.n);
	for (size_t i = 0; i < over->given.n; i++)
		space->given.v[space->given.n++] = over->given.v[i];
	return 0;
}

static int append(struct ptm_space *space, const struct range *range, struct ptm_error *err)
{
	if (!ptm_vec_push(&space->given, *range))
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for mappings: n=%zu",
				space->given.n);
	return 0;
}

int ptm_space_map(struct ptm_space *space, const struct ptm_image_name *name, uint64_t begin,
		  uint64_t len, uint64_t file_offset, struct ptm_error *err)
{
	struct range range = {.begin = begin, .file_offset = file_offset, .name = name};
	uint64_t size = name->image->map.len;

	if (len == 0)
		return 0;
	if (file_offset > size || len > size - file_offset)
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot map image: path=\"%s\" has %" PRIu64
				" bytes, needed are %" PRIu64 " at offset 0x%" PRIx64
				"; is the file truncated?",
				name->path, size, len, file_offset);
	if (ptm_add_overflow(begin, len - 1, &range.last))
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Cannot map image: path=\"%s\": %" PRIu64 " bytes at 0x%" PRIx64
				" go beyond the end of the address space",
				name->path, len, begin);
	return append(space, &range, err);
}

int ptm_space_map_missing(struct ptm_space *space, const char *path, uint64_t begin, uint64_t len,
			  uint64_t file_offset, struct ptm_error *err)
{
	struct range range = {.begin = begin, .file_offset = file_offset, .missing = true};
	struct ptm_image_name *name;

	if (len == 0)
		return 0;
	PTM_TRY(intern(space, path, &name, err));
	range.name = name;
	if (ptm_add_overflow(begin, len - 1, &range.last))
		return PTM_FAIL(err, PTM_E_FORMAT,
				"Bad mapping: path=\"%s\" begin=0x%" PRIx64 " bytes=%" PRIu64, path,
				begin, len);
	return append(space, &range, err);
}

/* ---- sealing ---- */

/* A range with its place in the order of precedence. */
struct ranked {
	struct range range;
	size_t rank; /* higher hides lower */
};

/* State of the sweep: the ranges that cover the current address are in a heap, the highest rank on
 * top.  Those that have ended stay until they come up. */
struct sweep {
	struct ranked *in; /* by begin */
	size_t n, next;
	size_t *heap; /* indices into `in` */
	size_t nheap;
	struct ranges *out;
};

static int by_begin(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->range.begin != y->range.begin)
		return x->range.begin < y->range.begin ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

static bool outranks(const struct sweep *sweep, size_t a, size_t b)
{
	return sweep->in[sweep->heap[a]].rank > sweep->in[sweep->heap[b]].rank;
}

static void heap_swap(struct sweep *sweep, size_t a, size_t b)
{
	size_t t = sweep->heap[a];

	sweep->heap[a] = sweep->heap[b];
	sweep->heap[b] = t;
}

static void heap_push(struct sweep *sweep, size_t range)
{
	size_t i = sweep->nheap++;

	sweep->heap[i] = range;
	for (; i > 0 && outranks(sweep, i, (i - 1) / 2); i = (i - 1) / 2)
		heap_swap(sweep, i, (i - 1) / 2);
}

static void heap_pop(struct sweep *sweep)
{
	size_t i = 0, child;

	sweep->heap[0] = sweep->heap[--sweep->nheap];
	while ((child = 2 * i + 1) < sweep->nheap) {
		if (child + 1 < sweep->nheap && outranks(sweep, child + 1, child))
			child++;
		if (!outranks(sweep, child, i))
			break;
		heap_swap(sweep, i, child);
		i = child;
	}
}

/* Append what @range contributes from @begin to @last, or extend the piece before it. */
static bool emit(struct sweep *sweep, const struct range *range, uint64_t begin, uint64_t last)
{
	struct range piece = *range,
		     *prev = sweep->out->n > 0 ? &sweep->out->v[sweep->out->n - 1] : NULL;

	piece.begin = begin;
	piece.last = last;
	piece.file_offset += begin - range->begin;
	if (prev != NULL && prev->last + 1 == begin && prev->name == piece.name &&
	    prev->missing == piece.missing &&
	    prev->file_offset + (begin - prev->begin) == piece.file_offset) {
		prev->last = last;
		return true;
	}
	return ptm_vec_push(sweep->out, piece);
}

static bool sweep_run(struct sweep *sweep)
{
	const struct range *top;
	uint64_t at = 0, last;

	for (;;) {
		if (sweep->nheap == 0) {
			if (sweep->next == sweep->n)
				return true;
			at = sweep->in[sweep->next].range.begin;
		}
		while (sweep->next < sweep->n && sweep->in[sweep->next].range.begin <= at)
			heap_push(sweep, sweep->next++);
		while (sweep->nheap > 0 && sweep->in[sweep->heap[0]].range.last < at)
			heap_pop(sweep);
		if (sweep->nheap == 0)
			continue;
		top = &sweep->in[sweep->heap[0]].range;
		last = top->last;
		if (sweep->next < sweep->n && sweep->in[sweep->next].range.begin <= last)
			last = sweep->in[sweep->next].range.begin - 1;
		if (!emit(sweep, top, at, last))
			return false;
		if (last == UINT64_MAX)
			return true;
		at = last + 1;
	}
}

int ptm_space_seal(struct ptm_space *space, struct ptm_error *err)
{
	size_t n = space->given.n;
	struct sweep sweep = {.n = n, .out = &space->sealed};
	bool ok = true;

	space->sealed.n = 0;
	if (n == 0)
		return 0;
	sweep.in = calloc(n, sizeof(*sweep.in));
	sweep.heap = calloc(n, sizeof(*sweep.heap));
	ok = sweep.in != NULL && sweep.heap != NULL;
	if (ok) {
		for (size_t i = 0; i < n; i++) {
			sweep.in[i].range = space->given.v[i];
			sweep.in[i].rank = space->given.v[i].missing ? i : n + i;
		}
		qsort(sweep.in, n, sizeof(*sweep.in), by_begin);
		ok = sweep_run(&sweep);
	}
	free(sweep.in);
	free(sweep.heap);
	if (!ok)
		return PTM_FAIL(err, PTM_E_NOMEM, "Out of memory for mappings: n=%zu", n);
	return 0;
}

/* ---- reading ---- */

size_t ptm_space_count(const struct ptm_space *space)
{
	return space->sealed.n;
}

struct ptm_mapping ptm_space_get(const struct ptm_space *space, size_t i)
{
	const struct range *range = &space->sealed.v[i];
	const struct ptm_image *image = range->missing ? NULL : range->name->image;

	return (struct ptm_mapping){
		.begin = range->begin,
		.end = range->last + 1,
		.file_offset = range->file_offset,
		.path = range->name->path,
		.build_id = image != NULL ? image->build_id : "",
		.wanted_id = range->name->wanted_id != NULL ? range->name->wanted_id : "",
		.name = range->name->recorded != NULL ? range->name->recorded : range->name->path,
		.data = image != NULL ? image->map.data + range->file_offset : NULL,
		.image = image,
	};
}

size_t ptm_space_find(const struct ptm_space *space, uint64_t ip)
{
	size_t lo = 0, hi = space->sealed.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (space->sealed.v[mid].begin <= ip)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && ip <= space->sealed.v[lo - 1].last ? lo - 1 : SIZE_MAX;
}

const uint8_t *ptm_space_at(const struct ptm_space *space, uint64_t ip, size_t *avail)
{
	size_t i = ptm_space_find(space, ip);
	const struct range *range;

	*avail = 0;
	if (i == SIZE_MAX || space->sealed.v[i].missing)
		return NULL;
	range = &space->sealed.v[i];
	*avail = (size_t)(range->last - ip) + 1;
	return range->name->image->map.data + range->file_offset + (ip - range->begin);
}

uint64_t ptm_space_cells(const struct ptm_space *space, uint64_t ip, uint64_t *begin,
			 const uint8_t **bytes, _Atomic uint8_t **cells)
{
	const size_t i = ptm_space_find(space, ip);
	const struct range *range = i != SIZE_MAX ? &space->sealed.v[i] : NULL;
	const struct ptm_image *image;

	if (range == NULL || range->missing || range->name->image->cells == NULL)
		return 0;
	image = range->name->image;
	*begin = range->begin;
	*bytes = image->map.data + range->file_offset;
	*cells = image->cells + range->file_offset;
	return range->last - range->begin + 1;
}

size_t ptm_space_read(const struct ptm_space *space, uint64_t ip, void *buf, size_t len)
{
	uint8_t *to = buf;
	size_t done = 0, avail;

	while (done < len) {
		const uint8_t *from = ptm_space_at(space, ip + done, &avail);

		/* The address space does not wrap round: 0 does not follow its last byte. */
		if (from == NULL || ip + done < ip)
			break;
		if (avail > len - done)
			avail = len - done;
		memcpy(to + done, from, avail);
		done += avail;
	}
	return done;
}

/* A part of an image, and what its bytes are. */
struct piece {
	uint64_t offset, len;
	XXH128_hash_t hash;
};

static int by_place(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->len > y->len) - (x->len < y->len);
}

/* The digest of @piece of @image.  Call with the image's lock held. */
static XXH128_hash_t hash_piece(struct ptm_image *image, const struct piece *piece)
{
	struct piece **found = tfind(piece, &image->pieces, by_place), *kept;
	XXH128_hash_t hash;

	if (found != NULL)
		return (*found)->hash;
	hash = XXH3_128bits(image->map.data + piece->offset, (size_t)piece->len);
	/* Where there is no memory to keep it, it is made again. */
	kept = malloc(sizeof(*kept));
	if (kept == NULL)
		return hash;
	*kept = (struct piece){piece->offset, piece->len, hash};
	if (tsearch(kept, &image->pieces, by_place) == NULL)
		free(kept);
	return hash;
}

static XXH128_hash_t hash_range(const struct range *range)
{
	const struct piece piece = {.offset = range->file_offset,
				    .len = range->last - range->begin + 1};
	struct ptm_image *image = range->name->image;
	XXH128_hash_t hash;

	(void)pthread_mutex_lock(&image->lock);
	hash = hash_piece(image, &piece);
	(void)pthread_mutex_unlock(&image->lock);
	return hash;
}

/* Each mapping's place and bytes, one behind the other.  A build-id would say less: a file that was
 * patched keeps it. */
static XXH128_hash_t hash_mappings(const struct ptm_space *space)
{
	XXH128_hash_t hash = {0, 0};

	for (size_t i = 0; i < space->sealed.n; i++) {
		const struct range *range = &space->sealed.v[i];

		if (!range->missing) {
			const XXH128_hash_t bytes = hash_range(range);
			const uint64_t all[] = {hash.low64,      hash.high64, range->begin,
						range->last + 1, bytes.low64, bytes.high64};

			hash = XXH3_128bits(all, sizeof(all));
		}
	}
	return hash;
}

void ptm_space_identity(const struct ptm_space *space, uint64_t id[2])
{
	struct identity *identity = space->identity;

	(void)pthread_mutex_lock(&identity->lock);
	if (!identity->known)
		identity->hash = hash_mappings(space);
	identity->known = true;
	id[0] = identity->hash.low64;
	id[1] = identity->hash.high64;
	(void)pthread_mutex_unlock(&identity->lock);
}
