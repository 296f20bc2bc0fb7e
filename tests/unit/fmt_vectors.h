/* SPDX-License-Identifier: Apache-2.0
 *
 * fmt_vectors.h - reader of tests/vectors/packets.txt for the unit tests; the file explains its
 * format.
 */
#ifndef PTM_TESTS_FMT_VECTORS_H
#define PTM_TESTS_FMT_VECTORS_H

#include "fmt/pt_packet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTOR_BYTES   128
#define VECTOR_PACKETS 24

struct vector {
	char name[48];
	uint8_t bytes[VECTOR_BYTES];
	size_t nbytes;
	struct ptm_pkt pkt[VECTOR_PACKETS];
	size_t npkts;
	enum ptm_lex_status end; /* behind the packets */
};

static inline bool vector_field(struct ptm_pkt *pkt, const char *word)
{
	const char *eq = strchr(word, '=');

	if (eq == NULL)
		return false;
	size_t n = (size_t)(eq - word);
	char *rest;
	uint64_t v = strtoull(eq + 1, &rest, 0);

	if (*rest != '\0')
		return false;
	if (n == 1 && *word == 'n')
		pkt->n = (uint8_t)v;
	else if (n == 4 && memcmp(word, "type", n) == 0)
		pkt->type = (uint8_t)v;
	else if (n == 3 && memcmp(word, "aux", n) == 0)
		pkt->aux = (uint16_t)v;
	else if (n == 3 && memcmp(word, "fup", n) == 0)
		pkt->fup_follows = v != 0;
	else if (n == 7 && memcmp(word, "ipbytes", n) == 0)
		pkt->ipbytes = (uint8_t)v;
	else if (n == 7 && memcmp(word, "payload", n) == 0)
		pkt->payload = v;
	else if (n == 2 && memcmp(word, "ip", n) == 0) {
		pkt->ip = v;
		pkt->has_ip = true;
	} else
		return false;
	return true;
}

static inline bool vector_packet(struct vector *v, char *text)
{
	char *save;
	char *word = strtok_r(text, " \n", &save);
	unsigned kind = 0;

	if (word == NULL || v->end != PTM_LEX_END || v->npkts == VECTOR_PACKETS)
		return false;
	if (strcmp(word, "bad") == 0 || strcmp(word, "truncated") == 0) {
		v->end = *word == 'b' ? PTM_LEX_BAD : PTM_LEX_TRUNCATED;
		return strtok_r(NULL, " \n", &save) == NULL;
	}
	while (kind < PTM_PKT_KINDS && strcmp(word, ptm_pkt_name(kind)) != 0)
		kind++;
	char *size = strtok_r(NULL, " \n", &save);
	if (kind == PTM_PKT_KINDS || size == NULL)
		return false;

	struct ptm_pkt *pkt = &v->pkt[v->npkts++];
	pkt->kind = (uint8_t)kind;
	pkt->size = (uint8_t)strtoul(size, NULL, 0);
	while ((word = strtok_r(NULL, " \n", &save)) != NULL)
		if (!vector_field(pkt, word))
			return false;
	return true;
}

static inline bool vector_parse(struct vector *v, char *line)
{
	char *save;
	char *name = strtok_r(line, ":", &save);
	char *hex = strtok_r(NULL, ":", &save);
	char *packets = strtok_r(NULL, ":", &save);

	*v = (struct vector){0};
	if (packets == NULL)
		return false;
	name[strcspn(name, " ")] = '\0';
	(void)snprintf(v->name, sizeof(v->name), "%s", name);
	for (char *byte = strtok_r(hex, " ", &save); byte != NULL;
	     byte = strtok_r(NULL, " ", &save)) {
		if (v->nbytes == VECTOR_BYTES || strlen(byte) != 2)
			return false;
		v->bytes[v->nbytes++] = (uint8_t)strtoul(byte, NULL, 16);
	}
	for (char *p = strtok_r(packets, ";", &save); p != NULL; p = strtok_r(NULL, ";", &save))
		if (!vector_packet(v, p))
			return false;
	return true;
}

/* Calls @fn with every vector; returns how many there were, or -1 with a message for a line it
 * cannot read. */
static inline int vectors_each(void (*fn)(const struct vector *v))
{
	FILE *f = fopen(PTM_SOURCE_DIR "/tests/vectors/packets.txt", "re");
	char line[1024];
	struct vector v;
	int n = 0;

	if (f == NULL)
		return -1;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '#' || line[0] == '\n' || line[0] == '=')
			continue;
		if (!vector_parse(&v, line)) {
			(void)fprintf(stderr, "packets.txt: cannot read case \"%s\"\n", v.name);
			n = -1;
			break;
		}
		fn(&v);
		n++;
	}
	(void)fclose(f);
	return n;
}

#endif
