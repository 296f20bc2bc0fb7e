/* SPDX-License-Identifier: Apache-2.0
 *
 * regression.c - runs the files of corpus directories through a fuzz target, without a fuzzer.
 *
 * Linked with one fuzz_*.c.  Each file is read into a block of exactly its size.  Exit code 0 when
 * the target came back from every file, 1 when a file or directory cannot be read or there is none.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_FILE (16U << 20)

static int run_file(const char *dir, const char *name)
{
	char path[4096];
	FILE *f;
	uint8_t *data;
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	data = malloc(MAX_FILE);
	if (f == NULL || data == NULL) {
		(void)fprintf(stderr, "Cannot read corpus file: %s\n", path);
		if (f != NULL)
			(void)fclose(f);
		free(data);
		return -1;
	}
	n = fread(data, 1, MAX_FILE, f);
	(void)fclose(f);
	uint8_t *exact = malloc(n != 0 ? n : 1);
	if (exact == NULL) {
		free(data);
		return -1;
	}
	memcpy(exact, data, n);
	free(data);
	(void)LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return 0;
}

static int run_dir(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	if (d == NULL) {
		(void)fprintf(stderr, "Cannot open corpus directory: %s\n", dir);
		return -1;
	}
	for (struct dirent *e; n >= 0 && (e = readdir(d)) != NULL;) {
		if (e->d_name[0] == '.')
			continue;
		n = run_file(dir, e->d_name) == 0 ? n + 1 : -1;
	}
	(void)closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int n = run_dir(argv[i]);

		if (n < 0)
			return 1;
		total += n;
	}
	(void)printf("%d corpus files\n", total);
	return total > 0 ? 0 : 1;
}
