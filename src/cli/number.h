/* SPDX-License-Identifier: Apache-2.0
 *
 * number.h - numbers as users write them, and quantities as users read them.
 */
#ifndef PTM_CLI_NUMBER_H
#define PTM_CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole number, decimal or with 0x; nothing before or behind it, no sign.  False if it is none or
 * above @max. */
bool cli_number(const char *text, uint64_t max, uint64_t *value);

/* As cli_number(), but k, M or G may follow: times 1024, 1024^2, 1024^3. */
bool cli_number_size(const char *text, uint64_t max, uint64_t *value);

/* "0 B", "999 B", "32 KB", "1.2 GB" (powers of 1000), in @buf of at least 16 bytes; returns @buf.
 */
const char *cli_bytes(uint64_t n, char *buf, size_t size);

#endif
