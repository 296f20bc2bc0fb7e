/* SPDX-License-Identifier: Apache-2.0
 *
 * compress.c - a program to be recorded: compresses a text that it makes itself with zstd, fast and
 * thoroughly, and takes it apart again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define SIZE 16000

static char text[SIZE], packed[2 * SIZE], again[SIZE];

static void make_text(void)
{
	static const char *const words[] = {"packet ", "branch ", "trace\n", "of ", "the ", "a "};
	uint32_t seed = 2024;
	size_t n = 0;

	while (n < SIZE) {
		const char *word;
		char number[16];

		seed = seed * 1664525u + 1013904223u;
		word = words[(seed >> 16) % 6];
		if (seed >> 28 == 0) {
			(void)snprintf(number, sizeof(number), "%u ", seed >> 8 & 0xffff);
			word = number;
		}
		for (; *word != '\0' && n < SIZE; word++)
			text[n++] = *word;
	}
}

int main(void)
{
	static const int levels[] = {1, 3, 7, 13};

	make_text();
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		size_t n = ZSTD_compress(packed, sizeof(packed), text, SIZE, levels[i]);
		size_t back = ZSTD_decompress(again, SIZE, packed, n);

		if (ZSTD_isError(n) || back != SIZE || memcmp(text, again, SIZE) != 0)
			return 1;
		printf("level %d: %d to %zu bytes\n", levels[i], SIZE, n);
	}
	return 0;
}
