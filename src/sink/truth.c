/* SPDX-License-Identifier: Apache-2.0
 *
 * truth.c - reads files of truths: lines of a word and numbers.
 */
#include "sink/truth.h"

#include "os/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some 40 bytes a PSB: millions of them. */
#define TRUTH_MAX ((size_t)256 << 20)

/* A digest is 0x and sixteen digits: a shorter one was cut. */
static bool whole_digest(const char *line)
{
	const char *hex = strstr(line, "0x");

	return hex != NULL && strspn(hex + 2, "0123456789abcdef") == 16;
}

/* The two lines at the begin of the file. */
static bool take_head(struct ptm_truth *truth, size_t number, const char *line)
{
	int end = -1;

	if (number == 1)
		return sscanf(line, "instructions %" SCNu64 "%n", &truth->instructions, &end) ==
			       1 &&
		       end > 0 && line[end] == '\0';
	return sscanf(line, "digest %" SCNx64 "%n", &truth->digest, &end) == 1 && end > 0 &&
	       line[end] == '\0' && whole_digest(line);
}

/* How many lines follow.  Recorders did not always write it. */
static bool take_places(struct ptm_truth *truth, const char *line)
{
	int end = -1;

	truth->has_places = sscanf(line, "places %" SCNu64 "%n", &truth->places, &end) == 1 &&
			    end > 0 && line[end] == '\0';
	return truth->has_places;
}

/* One line; false if it is not of the format. */
static bool take_line(struct ptm_truth *truth, size_t number, const char *line)
{
	struct ptm_truth_mark mark = {0};
	uint64_t lost;
	int end = -1;

	if (number <= 2)
		return take_head(truth, number, line);
	if (number == 3 && take_places(truth, line))
		return true;
	mark.psb = sscanf(line, "psb %" SCNu64 " %" SCNu64 " %" SCNx64 "%n", &mark.offset, &mark.n,
			  &mark.digest, &end) == 3;
	if (!mark.psb &&
	    sscanf(line, "checkpoint %" SCNu64 " %" SCNx64 "%n", &mark.n, &mark.digest, &end) !=
		    2 &&
	    sscanf(line, "gap %" SCNu64 " %" SCNu64 " %" SCNx64 " lost %" SCNu64 "%n", &mark.offset,
		   &mark.n, &mark.digest, &lost, &end) != 4)
		return false;
	return end > 0 && line[end] == '\0' && whole_digest(line) &&
	       mark.n <= truth->instructions && ptm_vec_push(&truth->marks, mark);
}

/* Lines at the end can be missing without a trace only where nobody counted them; but a stream that
 * shows instructions has a PSB. */
static bool is_whole(const struct ptm_truth *truth)
{
	if (truth->has_places && truth->marks.n != truth->places)
		return false;
	return truth->instructions == 0 || truth->marks.n > 0;
}

static int by_n(const void *a, const void *b)
{
	const struct ptm_truth_mark *x = (const struct ptm_truth_mark *)a,
				    *y = (const struct ptm_truth_mark *)b;

	return (x->n > y->n) - (x->n < y->n);
}

int ptm_truth_read(struct ptm_truth *truth, const char *path, struct ptm_error *err)
{
	char *text, *save = NULL;
	size_t number = 0, len;

	*truth = (struct ptm_truth){0};
	PTM_TRY(ptm_file_read_all(path, TRUTH_MAX, &text, &len, err));
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		number++;
		if (take_line(truth, number, line))
			continue;
		(void)PTM_FAIL(err, PTM_E_FORMAT, "%s: line %zu: not a truth: \"%.60s\"", path,
			       number, line);
		free(text);
		ptm_truth_fini(truth);
		return -PTM_E_FORMAT;
	}
	free(text);
	if (truth->marks.n > 0)
		qsort(truth->marks.v, truth->marks.n, sizeof(*truth->marks.v), by_n);
	if (number < 2 || !is_whole(truth)) {
		ptm_truth_fini(truth);
		return PTM_FAIL(err, PTM_E_FORMAT, "%s: %s", path,
				number < 2 ? "no file of truths" : "cut: lines are missing");
	}
	return 0;
}

void ptm_truth_fini(struct ptm_truth *truth)
{
	free(truth->marks.v);
	truth->marks.v = NULL;
}
