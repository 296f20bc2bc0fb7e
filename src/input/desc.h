/* SPDX-License-Identifier: Apache-2.0
 *
 * desc.h - what a trace bundle or a capture says about itself: CPU, clocks, processes, images,
 * streams.
 *
 * LLDB's trace.json and our capture.json are read into the same description.  All strings are owned
 * by the description; paths are ready to be opened (joined with the directory of the JSON file, or
 * absolute where LLDB's bundle says so).  A description that was read is consistent: indices are in
 * range, names are unique.
 */
#ifndef PTM_INPUT_DESC_H
#define PTM_INPUT_DESC_H

#include "base/error.h"
#include "base/vec.h"
#include "os/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An image mapped into a process. */
struct ptm_desc_map {
	char *path;     /* file to open */
	char *name;     /* path on the recorded machine, for reports */
	char *build_id; /* hex, lower case, as the description states it; "" if it does not */
	bool whole_elf; /* LLDB: the ELF's executable segments, the lowest PT_LOAD at `address` */
	uint64_t address;
	uint64_t size;        /* unless whole_elf: bytes mapped */
	uint64_t file_offset; /* unless whole_elf: of the first of them */
};

struct ptm_desc_process {
	uint32_t pid;
	PTM_VEC(uint32_t) tids;
	PTM_VEC(struct ptm_desc_map) maps;
};

/* Who runs on a CPU from a time on. */
struct ptm_desc_switch {
	uint64_t tsc;
	uint32_t pid, tid;
	bool in; /* false: it is switched out */
};

#define PTM_DESC_NO_PROCESS SIZE_MAX

/* What a capture says that a file is. */
struct ptm_desc_sum {
	bool known;
	uint64_t bytes, digest; /* its size and XXH3-64 */
};

struct ptm_desc_stream {
	char *name;     /* unique, as it appears in output */
	char *path;     /* of the trace */
	size_t process; /* index, if the trace is of one thread; else PTM_DESC_NO_PROCESS */
	uint32_t tid;   /* if so */
	uint32_t cpu;   /* if not */
	struct ptm_desc_sum sum;      /* of the trace */
	struct ptm_block_sums blocks; /* of the trace, if the capture has them */
	char *truth;                  /* path of the file of truths; NULL: none */
	struct ptm_desc_sum truth_sum;
	PTM_VEC(struct ptm_desc_switch) switches; /* per-CPU traces: in order of time */
};

/* perf time to TSC: tsc = ((ns - zero) << shift) / mult, as perf's time_conv. */
struct ptm_desc_time {
	bool known;
	uint32_t mult;
	uint16_t shift;
	uint64_t zero;
};

struct ptm_desc {
	char *path; /* of the JSON file */
	bool has_cpu;
	uint16_t family;
	uint8_t model, stepping;
	uint8_t mtc_freq, nom_freq;
	uint32_t cpuid_0x15_eax, cpuid_0x15_ebx;
	struct ptm_desc_time time;
	PTM_VEC(struct ptm_desc_process) processes;
	PTM_VEC(struct ptm_desc_map) kernel;
	PTM_VEC(struct ptm_desc_stream) streams;
};

void ptm_desc_fini(struct ptm_desc *desc);

/* Is @path a directory with a capture.json or a trace.json in it, or such a file itself?  (By name
 * and content; never an error.) */
enum ptm_desc_kind { PTM_DESC_NONE, PTM_DESC_LLDB, PTM_DESC_CAPTURE };
enum ptm_desc_kind ptm_desc_probe(const char *path);

/* Read a description.  Errors name the file and the place in it ("trace.json: processes[0].pid:
 * missing").  A path that leaves a capture's directory is PTM_E_FORMAT. */
int ptm_desc_read(struct ptm_desc *desc, const char *path, enum ptm_desc_kind kind,
		  struct ptm_error *err);

/* Is the file @path, of a stream or its truth, what @sum says?  Reads all of it, unless @sum says
 * nothing.  Returns 0, or -PTM_E_FORMAT if it is not. */
int ptm_desc_check(const char *path, const struct ptm_desc_sum *sum, const atomic_bool *cancel,
		   struct ptm_error *err);

/* The same by its size @bytes alone. */
int ptm_desc_check_size(const char *path, const struct ptm_desc_sum *sum, uint64_t bytes,
			struct ptm_error *err);

#endif
