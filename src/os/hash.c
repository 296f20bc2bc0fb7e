/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c - digests of files and of their blocks, over xxhash, in one read, in chunks.
 */
#include "os/hash.h"

#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

static int fail_errno(struct ptm_error *err, const char *what, const char *path)
{
	return PTM_FAIL(err, ptm_error_from_errno(errno), "Cannot %s: %m: path=\"%s\"", what, path);
}

/* A digest of all bytes, and one of each block. */
struct hasher {
	XXH3_state_t *whole, *block;
	struct ptm_block_sums *sums; /* NULL: not wanted */
	uint64_t in_block;           /* bytes of the block that has begun */
	uint64_t bytes;
};

static bool end_block(struct hasher *h)
{
	h->in_block = 0;
	return ptm_vec_push(&h->sums->digests, XXH3_64bits_digest(h->block));
}

/* Returns false when out of memory. */
static bool add_to_blocks(struct hasher *h, const uint8_t *data, size_t len)
{
	while (len > 0) {
		const uint64_t room = h->sums->size - h->in_block;
		const size_t n = room < len ? (size_t)room : len;

		if (h->in_block == 0)
			(void)XXH3_64bits_reset(h->block);
		(void)XXH3_64bits_update(h->block, data, n);
		h->in_block += n;
		data += n;
		len -= n;
		if (h->in_block == h->sums->size && !end_block(h))
			return false;
	}
	return true;
}

static int no_memory(struct ptm_error *err, const char *path)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot digest: out of memory: path=\"%s\"", path);
}

static int hash_chunks(int fd, const char *path, const atomic_bool *cancel, uint8_t *chunk,
		       struct hasher *h, struct ptm_error *err)
{
	ssize_t n;

	while ((n = read(fd, chunk, CHUNK)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return PTM_FAIL(err, PTM_E_IO, "Cannot read: %m: path=\"%s\"", path);
		if (cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed))
			return PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
		(void)XXH3_64bits_update(h->whole, chunk, (size_t)n);
		h->bytes += (uint64_t)n;
		if (h->sums != NULL && !add_to_blocks(h, chunk, (size_t)n))
			return no_memory(err, path);
	}
	return h->in_block == 0 || end_block(h) ? 0 : no_memory(err, path);
}

static int hash_fd(int fd, const char *path, const atomic_bool *cancel, struct hasher *h,
		   struct ptm_error *err)
{
	uint8_t *chunk = (uint8_t *)malloc(CHUNK);
	int ret;

	h->whole = XXH3_createState();
	h->block = XXH3_createState();
	if (chunk != NULL && h->whole != NULL && h->block != NULL) {
		(void)XXH3_64bits_reset(h->whole);
		ret = hash_chunks(fd, path, cancel, chunk, h, err);
	} else {
		ret = no_memory(err, path);
	}
	free(chunk);
	return ret;
}

uint64_t ptm_hash_bytes(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

int ptm_hash_blocks(const char *path, const atomic_bool *cancel, struct ptm_block_sums *sums,
		    uint64_t *digest, uint64_t *bytes, struct ptm_error *err)
{
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct hasher h = {.sums = sums};
	struct stat st;
	int ret;

	if (fd < 0)
		return fail_errno(err, "open", path);
	if (fstat(fd, &st) < 0)
		ret = fail_errno(err, "examine", path);
	else if (!S_ISREG(st.st_mode))
		ret = PTM_FAIL(err, PTM_E_NOINPUT, "Not a regular file: path=\"%s\"", path);
	else
		ret = hash_fd(fd, path, cancel, &h, err);
	if (ret == 0) {
		*digest = XXH3_64bits_digest(h.whole);
		*bytes = h.bytes;
	}
	(void)XXH3_freeState(h.whole);
	(void)XXH3_freeState(h.block);
	(void)close(fd);
	return ret;
}

int ptm_hash_file(const char *path, const atomic_bool *cancel, uint64_t *digest, uint64_t *bytes,
		  struct ptm_error *err)
{
	return ptm_hash_blocks(path, cancel, NULL, digest, bytes, err);
}
