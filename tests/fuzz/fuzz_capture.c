/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_capture.c - capture.json of any content, in a directory with links that lead out of it.
 *
 * Up to the first NUL the input is a capture.json, behind it stand the bytes of the file "s".  What
 * was read must lie below the directory: no path may have a canonical one outside of it.
 */
#include "desc_check.h"

#include "input/desc_priv.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/ptm-fuzz-capture-XXXXXX";
static char real[PATH_MAX];

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void clean_up(void)
{
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *in_dir(const char *name)
{
	static char path[sizeof(dir) + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_file(const char *name, const uint8_t *data, size_t size)
{
	FILE *f = fopen(in_dir(name), "wb");

	CHECK(f != NULL && (size == 0 || fwrite(data, 1, size, f) == size));
	(void)fclose(f);
}

static void make_dir(void)
{
	CHECK(mkdtemp(dir) != NULL && realpath(dir, real) != NULL);
	(void)atexit(clean_up);
	CHECK(mkdir(in_dir("d"), 0700) == 0);
	write_file("d/f", (const uint8_t *)"abc", 3);
	CHECK(symlink("/etc/hostname", in_dir("d/o")) == 0);
	CHECK(symlink("/etc", in_dir("e")) == 0);
	CHECK(symlink("d/f", in_dir("l")) == 0);
	CHECK(symlink("gone", in_dir("g")) == 0);
}

static void check_below(const char *path)
{
	char canonical[PATH_MAX];

	if (path == NULL || realpath(path, canonical) == NULL)
		return;
	CHECK(strncmp(canonical, real, strlen(real)) == 0 && canonical[strlen(real)] == '/');
}

static void check_paths(const struct ptm_desc *desc)
{
	for (size_t i = 0; i < desc->streams.n; i++) {
		check_below(desc->streams.v[i].path);
		check_below(desc->streams.v[i].truth);
	}
	for (size_t i = 0; i < desc->kernel.n; i++)
		check_below(desc->kernel.v[i].path);
	for (size_t p = 0; p < desc->processes.n; p++)
		for (size_t i = 0; i < desc->processes.v[p].maps.n; i++)
			check_below(desc->processes.v[p].maps.v[i].path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = strnlen((const char *)data, size);
	size_t more = len < size ? len + 1 : size;
	struct ptm_desc desc = {0};
	struct ptm_error err = {0};
	struct ptm_json_doc *doc;
	int ret;

	if (real[0] == '\0')
		make_dir();
	write_file("s", data + more, size - more);
	doc = ptm_json_read_text("capture.json", (const char *)data, len, &err);
	ret = doc != NULL ? ptm_capture_read(&desc, doc, dir, &err) : -(int)err.code;
	if (ret == 0) {
		check_desc(&desc);
		check_paths(&desc);
		for (size_t i = 0; i < desc.streams.n && i < 4; i++)
			(void)ptm_desc_check(desc.streams.v[i].path, &desc.streams.v[i].sum, NULL,
					     &err);
	} else {
		check_refusal(&err, ret);
	}
	ptm_json_doc_destroy(doc);
	ptm_desc_fini(&desc);
	return 0;
}
