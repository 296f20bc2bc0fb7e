/* SPDX-License-Identifier: Apache-2.0
 *
 * number.c - parsing and printing of numbers.
 */
#include "number.h"

#include <stdio.h>

static unsigned digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return 16;
}

/* Not strtoull(): it takes blanks, signs and octal numbers.  Returns what follows the number, NULL
 * if there is none. */
static const char *parse(const char *text, uint64_t *value)
{
	unsigned base = 10;
	const char *p = text;

	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
		base = 16;
		p += 2;
	}
	if (digit(*p) >= base)
		return NULL;
	*value = 0;
	for (; digit(*p) < base; p++)
		if (__builtin_mul_overflow(*value, (uint64_t)base, value) ||
		    __builtin_add_overflow(*value, (uint64_t)digit(*p), value))
			return NULL;
	return p;
}

bool cli_number(const char *text, uint64_t max, uint64_t *value)
{
	const char *end = parse(text, value);

	return end != NULL && *end == '\0' && *value <= max;
}

bool cli_number_size(const char *text, uint64_t max, uint64_t *value)
{
	const char *end = parse(text, value);
	unsigned shift = 0;

	if (end == NULL)
		return false;
	if (*end == 'k' || *end == 'K')
		shift = 10;
	else if (*end == 'm' || *end == 'M')
		shift = 20;
	else if (*end == 'g' || *end == 'G')
		shift = 30;
	if (shift > 0)
		end++;
	if (*end != '\0' || *value > max >> shift)
		return false;
	*value <<= shift;
	return true;
}

const char *cli_bytes(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	double x = (double)n;
	unsigned unit = 0;

	while (x >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		x /= 1000;
		unit++;
	}
	(void)snprintf(buf, size, "%.*f %s", unit > 0 && x < 9.95 ? 1 : 0, x, units[unit]);
	return buf;
}
