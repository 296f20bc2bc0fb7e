/* SPDX-License-Identifier: Apache-2.0
 *
 * program.h - finds the program that is to be recorded, and refuses what cannot be: the same for
 * every back end.
 */
#ifndef PTM_RECORD_PROGRAM_H
#define PTM_RECORD_PROGRAM_H

#include "base/error.h"

#define PTM_PROGRAM_SCRIPTS 4

struct ptm_program {
	char *found; /* owned; what the user named, by PATH */
	/* The ELF file that runs: itself, or the interpreter of a script; owned.  Then arguments
	 * that come before those of the user but for the first; owned. */
	char *path;
	char *before[2 * PTM_PROGRAM_SCRIPTS];
	unsigned n;
};

/* The path of @name by PATH, or @name if it has a slash and is there; to be freed, NULL if there is
 * none. */
char *ptm_find_program(const char *name);

/* Find @name, and follow scripts to their interpreter.  Returns 0, or -PTM_E_NOINPUT for what
 * cannot be executed or is no whole program for 64-bit x86, or another -PTM_E_*; to be freed either
 * way. */
int ptm_program_resolve(struct ptm_program *program, const char *name, struct ptm_error *err);
void ptm_program_fini(struct ptm_program *program);

#endif
