/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_path.h - paths that must not leave a capture.
 */
#ifndef PTM_INPUT_CAPTURE_PATH_H
#define PTM_INPUT_CAPTURE_PATH_H

#include "os/json_read.h"

/* The directory of a capture. */
struct ptm_capture_root {
	const char *dir; /* as it was named; "" for the current one; borrowed */
	char *real;      /* its canonical path; owned */
};

int ptm_capture_root_init(struct ptm_capture_root *root, const char *dir, struct ptm_error *err);
void ptm_capture_root_fini(struct ptm_capture_root *root);

/* The path that @at states, joined with the directory, for the caller to free.  -PTM_E_FORMAT if it
 * is not of the form of docs/capture-format.md, or leads out of the directory now; what is missing
 * is none. */
int ptm_capture_path(const struct ptm_capture_root *root, const struct ptm_json_at *at, char **path,
		     struct ptm_error *err);

#endif
