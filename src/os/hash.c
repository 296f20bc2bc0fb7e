/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c - digests of files, over xxhash, in chunks.
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

static int hash_fd(int fd, const char *path, const atomic_bool *cancel, XXH3_state_t *state,
		   uint64_t *bytes, struct ptm_error *err)
{
	uint8_t *chunk = (uint8_t *)malloc(CHUNK);
	ssize_t n;
	int ret = 0;

	if (chunk == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot digest: out of memory: path=\"%s\"",
				path);
	*bytes = 0;
	while ((n = read(fd, chunk, CHUNK)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			ret = PTM_FAIL(err, PTM_E_IO, "Cannot read: %m: path=\"%s\"", path);
			break;
		}
		if (cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed)) {
			ret = PTM_FAIL(err, PTM_E_CANCELED, "Canceled");
			break;
		}
		(void)XXH3_64bits_update(state, chunk, (size_t)n);
		*bytes += (uint64_t)n;
	}
	free(chunk);
	return ret;
}

int ptm_hash_file(const char *path, const atomic_bool *cancel, uint64_t *digest, uint64_t *bytes,
		  struct ptm_error *err)
{
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	XXH3_state_t *state = NULL;
	struct stat st;
	int ret;

	if (fd < 0)
		return fail_errno(err, "open", path);
	if (fstat(fd, &st) < 0) {
		ret = fail_errno(err, "examine", path);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		ret = PTM_FAIL(err, PTM_E_NOINPUT, "Not a regular file: path=\"%s\"", path);
		goto out;
	}
	state = XXH3_createState();
	if (state == NULL) {
		ret = PTM_FAIL(err, PTM_E_NOMEM, "Cannot digest: out of memory: path=\"%s\"", path);
		goto out;
	}
	(void)XXH3_64bits_reset(state);
	ret = hash_fd(fd, path, cancel, state, bytes, err);
	if (ret == 0)
		*digest = XXH3_64bits_digest(state);
out:
	(void)XXH3_freeState(state);
	(void)close(fd);
	return ret;
}
