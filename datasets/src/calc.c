/* SPDX-License-Identifier: Apache-2.0
 *
 * calc.c - a program to be recorded: it does in a second what the flow of real programs is made of.
 *
 * An expression compiler by recursive descent (deeper than the 64 entries of the return stack),
 * errors by longjmp out of the depth, a byte code interpreter (switch: a jump table), operators by
 * a table of functions, qsort with callbacks, an LZ compressor with its inverse, checksums.  Output
 * is the same at every run.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum op {
	OP_PUSH,
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_MOD,
	OP_NEG,
	OP_NOT,
	OP_DUP,
	OP_CALL,
	OP_LESS,
	OP_END
};

struct code {
	uint8_t op[4096];
	int64_t arg[4096];
	int n;
};

static struct code code;
static const char *text;
static jmp_buf trouble;
static int depth, deepest;

static int64_t f_abs(int64_t a)
{
	return a < 0 ? -a : a;
}

static int64_t f_square(int64_t a)
{
	return (int64_t)((uint64_t)a * (uint64_t)a);
}

static int64_t f_collatz(int64_t a)
{
	int64_t n = 0;

	for (a = f_abs(a) % 1000 + 1; a != 1; n++)
		a = a % 2 != 0 ? 3 * a + 1 : a / 2;
	return n;
}

static int64_t f_fib(int64_t a)
{
	return a < 2 ? a : f_fib(a - 1) + f_fib(a - 2);
}

static const struct {
	char name;
	int64_t (*fn)(int64_t);
} functions[] = {{'a', f_abs}, {'s', f_square}, {'c', f_collatz}, {'f', f_fib}};

static void emit(enum op op, int64_t arg)
{
	if (code.n == 4096)
		longjmp(trouble, 2);
	code.op[code.n] = (uint8_t)op;
	code.arg[code.n++] = arg;
}

static void expression(void);

static void factor(void)
{
	int64_t v = 0;

	if (++depth > deepest)
		deepest = depth;
	if (*text == '-') {
		text++;
		factor();
		emit(OP_NEG, 0);
	} else if (*text == '!') {
		text++;
		factor();
		emit(OP_NOT, 0);
	} else if (*text == '(') {
		text++;
		expression();
		if (*text++ != ')')
			longjmp(trouble, 1);
	} else if (*text >= '0' && *text <= '9') {
		while (*text >= '0' && *text <= '9')
			v = v * 10 + *text++ - '0';
		emit(OP_PUSH, v);
	} else {
		for (int i = 0; i < 4; i++)
			if (functions[i].name == *text) {
				text++;
				factor();
				emit(OP_CALL, i);
				depth--;
				return;
			}
		longjmp(trouble, 1);
	}
	depth--;
}

static void term(void)
{
	factor();
	for (;;) {
		char c = *text;

		if (c != '*' && c != '/' && c != '%')
			return;
		text++;
		factor();
		emit(c == '*' ? OP_MUL : c == '/' ? OP_DIV : OP_MOD, 0);
	}
}

static void sum(void)
{
	term();
	while (*text == '+' || *text == '-') {
		char c = *text++;

		term();
		emit(c == '+' ? OP_ADD : OP_SUB, 0);
	}
}

static void expression(void)
{
	sum();
	if (*text == '<') {
		text++;
		sum();
		emit(OP_LESS, 0);
	}
}

static int64_t run(void)
{
	int64_t stack[512];
	int top = 0;

	for (int pc = 0;; pc++) {
		int64_t b = top > 0 ? stack[top - 1] : 0;
		int64_t a = top > 1 ? stack[top - 2] : 0;

		if (top > 500)
			longjmp(trouble, 3);
		switch ((enum op)code.op[pc]) {
		case OP_PUSH:
			stack[top++] = code.arg[pc];
			break;
		case OP_ADD:
			stack[--top - 1] = (int64_t)((uint64_t)a + (uint64_t)b);
			break;
		case OP_SUB:
			stack[--top - 1] = (int64_t)((uint64_t)a - (uint64_t)b);
			break;
		case OP_MUL:
			stack[--top - 1] = (int64_t)((uint64_t)a * (uint64_t)b);
			break;
		case OP_DIV:
			if (b == 0)
				longjmp(trouble, 4);
			stack[--top - 1] = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
			break;
		case OP_MOD:
			if (b == 0)
				longjmp(trouble, 4);
			stack[--top - 1] = b == -1 ? 0 : a % b;
			break;
		case OP_NEG:
			stack[top - 1] = (int64_t)(0 - (uint64_t)b);
			break;
		case OP_NOT:
			stack[top - 1] = b == 0;
			break;
		case OP_DUP:
			stack[top++] = b;
			break;
		case OP_CALL:
			stack[top - 1] = functions[code.arg[pc]].fn(b);
			break;
		case OP_LESS:
			stack[--top - 1] = a < b;
			break;
		case OP_END:
			return b;
		}
	}
}

static void evaluate(const char *s)
{
	int why;
	char line[256];
	int64_t v;

	code.n = 0;
	text = s;
	depth = 0;
	why = setjmp(trouble);
	if (why != 0) {
		int n = snprintf(line, sizeof(line), "%.40s: error %d at depth %d\n", s, why,
				 depth);

		(void)!write(1, line, (size_t)n);
		return;
	}
	expression();
	if (*text != '\0')
		longjmp(trouble, 1);
	emit(OP_END, 0);
	v = run();
	(void)!write(1, line,
		     (size_t)snprintf(line, sizeof(line), "%.40s = %lld\n", s, (long long)v));
}

static void nested(int n, char opening, const char *middle, char closing)
{
	static char s[1024];
	int at = 0;

	for (int i = 0; i < n; i++) {
		s[at++] = opening;
		if (i % 3 == 0)
			s[at++] = '-';
	}
	at += (int)strlen(strcpy(s + at, middle));
	for (int i = 0; i < n; i++)
		if (closing != '\0')
			s[at++] = closing;
	s[at] = '\0';
	evaluate(s);
}

static uint32_t seed = 12345;

static uint32_t next(void)
{
	return seed = seed * 1664525 + 1013904223, seed >> 8;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int by_last_digit(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a % 10, y = *(const uint32_t *)b % 10;

	return x != y ? (int)x - (int)y : by_value(a, b);
}

static void sorting(void)
{
	static uint32_t v[400];
	int (*const orders[])(const void *, const void *) = {by_value, by_last_digit};

	for (int i = 0; i < 400; i++)
		v[i] = next() % 10000;
	for (int k = 0; k < 2; k++) {
		qsort(v, 400, sizeof(v[0]), orders[k]);
		printf("sorted: %u %u %u\n", v[0], v[200], v[399]);
	}
}

/* LZ77 of bytes: 0 n literals, or n >= 4 bytes from a distance. */
static size_t pack(const uint8_t *in, size_t n, uint8_t *out)
{
	static uint32_t table[1024];
	size_t at = 0, o = 0, lit = 0;

	memset(table, 0, sizeof(table));
	while (at < n) {
		size_t len = 0, from = 0;

		if (at + 4 < n) {
			uint32_t key;

			memcpy(&key, in + at, 4);
			key = key * 2654435761u >> 22;
			from = table[key];
			table[key] = (uint32_t)at + 1;
			if (from-- > 0)
				while (len < 255 && at + len < n && in[from + len] == in[at + len])
					len++;
		}
		if (len < 4 && at++ - lit < 254 && at < n)
			continue;
		if (at > lit) {
			out[o++] = 0;
			out[o++] = (uint8_t)(at - lit);
			memcpy(out + o, in + lit, at - lit);
			o += at - lit;
		}
		if (len >= 4) {
			out[o++] = (uint8_t)len;
			out[o++] = (uint8_t)(at - from);
			out[o++] = (uint8_t)((at - from) >> 8);
			at += len;
		}
		lit = at;
	}
	return o;
}

static size_t unpack(const uint8_t *in, size_t n, uint8_t *out)
{
	size_t o = 0;

	for (size_t i = 0; i < n;) {
		size_t len = in[i++];

		if (len == 0) {
			len = in[i++];
			memcpy(out + o, in + i, len);
			i += len;
			o += len;
			continue;
		}
		for (size_t from = o - (in[i] | (size_t)in[i + 1] << 8); len > 0; len--)
			out[o++] = out[from++];
		i += 2;
	}
	return o;
}

static uint32_t crc(const uint8_t *p, size_t n)
{
	uint32_t c = 0xffffffff;

	while (n-- > 0) {
		c ^= *p++;
		for (int k = 0; k < 8; k++)
			c = (c >> 1) ^ (0xedb88320u & (0u - (c & 1)));
	}
	return ~c;
}

static void packing(void)
{
	static const char *const words[] = {"the ",     "flow ", "of ",        "a ",
					    "program ", "is ",   "branches, ", "returns "};
	static uint8_t plain[6000], packed[8000], again[6000];
	size_t n = 0, m;

	while (n + 16 < sizeof(plain))
		n += (size_t)sprintf((char *)plain + n, "%s", words[next() % 8]);
	m = pack(plain, n, packed);
	printf("packed %zu to %zu, back %d, crc %08x\n", n, m,
	       unpack(packed, m, again) == n && memcmp(plain, again, n) == 0, crc(packed, m));
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	evaluate("1+2*3-4/2");
	evaluate("f15-c27*3%s12");
	evaluate("(1+2");
	evaluate("7/(3-3)");
	evaluate("-a(3-s9)*!0<100");
	nested(150, '(', "s3*2-c7", ')');
	nested(200, '(', "1+", ')');
	nested(90, 'a', "f12", '\0');
	for (int i = 0; i < 40; i++) {
		char s[64];

		(void)sprintf(s, "s%u*(c%u-%u)<f%u*a-%u", next() % 99, next() % 99, next() % 99,
			      next() % 9, next() % 99);
		evaluate(s);
	}
	printf("deepest: %d\n", deepest);
	sorting();
	packing();
	return 0;
}
