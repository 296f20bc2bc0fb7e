/* SPDX-License-Identifier: Apache-2.0
 *
 * topo.h - where the workers run: the plan made from the machine's topology and the CPUs we were
 * given.
 *
 * One worker a core (not a hardware thread) of the allowed CPU set (taskset, cgroup, Slurm), no
 * more than the CPU bandwidth that the cgroup allows (cpu.max), spread over the NUMA nodes in
 * proportion to their cores.
 */
#ifndef PTMILL_TOPO_H
#define PTMILL_TOPO_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ptm_bind {
	PTM_BIND_AUTO = 0, /* pin each worker to its core */
	PTM_BIND_NONE = 1  /* leave placement to the scheduler */
};

struct ptm_worker_place {
	uint32_t cpu;  /* OS index of the first hardware thread of the core */
	uint32_t core; /* logical index of the core */
	uint32_t node; /* OS index of the NUMA node */
};

/* Opaque. */
struct ptm_plan;

/* What the plan is made from.  Zero-initialise, then set `size`. */
struct ptm_plan_config {
	size_t size;      /* sizeof(struct ptm_plan_config) */
	unsigned threads; /* 0: as many as the plan finds */
	enum ptm_bind bind;
	const char *synthetic; /* an hwloc synthetic description instead of this machine ("node:2
				  core:8 pu:2"), or NULL */
	const char *xml;       /* an hwloc XML file instead of this machine, or NULL */
	const char *cpuset;    /* restrict to a CPU list ("0-3,8"), or NULL */
	const char *cgroup;    /* path of a cpu.max file instead of our own cgroup's, or NULL */
};

/* Make a plan; destroy with ptm_plan_destroy().  NULL and @err on failure (a bad description is
 * PTM_E_USAGE, never silently ignored). */
PTM_API struct ptm_plan *ptm_plan_create(const struct ptm_plan_config *config,
					 struct ptm_error *err);
PTM_API void ptm_plan_destroy(struct ptm_plan *plan);

/* Workers of the plan, at least 1; workers beyond the number of cores wrap round. */
PTM_API unsigned ptm_plan_workers(const struct ptm_plan *plan);
PTM_API struct ptm_worker_place ptm_plan_place(const struct ptm_plan *plan, unsigned worker);

PTM_API unsigned ptm_plan_cores(const struct ptm_plan *plan); /* allowed cores */
PTM_API unsigned ptm_plan_nodes(const struct ptm_plan *plan); /* NUMA nodes with allowed cores */
/* CPUs' worth of bandwidth that the cgroup grants, rounded up; 0: no limit. */
PTM_API unsigned ptm_plan_quota(const struct ptm_plan *plan);
/* True if the plan describes the machine we run on (so that binding means something). */
PTM_API bool ptm_plan_is_this_machine(const struct ptm_plan *plan);

/* Pin the calling thread to the place of @worker.  Does nothing under PTM_BIND_NONE and for a plan
 * of another machine.  Returns 1 if pinned, 0 if there was nothing to do, -PTM_E_SYSTEM if the
 * system refused. */
PTM_API int ptm_plan_bind(const struct ptm_plan *plan, unsigned worker, struct ptm_error *err);

#ifdef __cplusplus
}
#endif
#endif
