/* SPDX-License-Identifier: Apache-2.0
 *
 * topo.c - the plan: which worker runs where.
 *
 * hwloc says which hardware threads we may use and how they form cores and NUMA nodes.  The plan is
 * an array of places, one a core, in the order in which workers are given out: at every step the
 * node with the smallest share of its cores in use gives its next core, so that any number of
 * workers is spread over the nodes in proportion to their cores.  The topology is kept for binding
 * and never changed after it is loaded.
 */
#include "ptmill/topo.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/vec.h"
#include "os/quota.h"

#include <hwloc.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hardware threads of a synthetic machine: more than any real one has, and hwloc, whose time grows
 * faster than with the square of the breadth, still loads it within seconds. */
#define PTM_TOPO_CPUS 4096

/* Numbers in a CPU list lie below this: eight times what Linux can be built for. */
#define PTM_TOPO_LIST 65536

struct ptm_plan {
	hwloc_topology_t topology;       /* owned */
	struct ptm_worker_place *places; /* owned; one a core, in the order of the workers */
	unsigned cores;
	unsigned nodes;
	unsigned workers;
	unsigned quota;
	enum ptm_bind bind;
	bool is_this_machine;
};

/* Where the topology comes from; both NULL: this machine. */
struct source {
	const char *synthetic;
	const char *xml;
	const char *from; /* what gave it, for messages */
};

struct node {
	uint32_t os_index;
	unsigned total; /* allowed cores */
	unsigned used;  /* of them given out */
	size_t at;      /* where its next core is looked for */
};

typedef PTM_VEC(struct node) node_vec;

struct core {
	struct ptm_worker_place place;
	size_t node; /* index into the nodes */
};

typedef PTM_VEC(struct core) core_vec;

/* Is the product of the arities small?  hwloc checks the syntax; this only keeps "core:99999999"
 * from filling the memory.  An arity begins a word or follows a colon; what stands in () and []
 * (attributes, attached memory) is none. */
static bool is_small_synthetic(const char *s)
{
	unsigned long total = 1;
	int depth = 0;
	char before = ' ';

	while (*s != '\0') {
		char *end;
		unsigned long n;

		depth += (*s == '(' || *s == '[') - (*s == ')' || *s == ']');
		if (depth > 0 || *s < '0' || *s > '9' || (before != ' ' && before != ':')) {
			before = *s++;
			continue;
		}
		n = strtoul(s, &end, 0);
		if (n > PTM_TOPO_CPUS || (n > 0 && total > PTM_TOPO_CPUS / n))
			return false;
		total *= n > 0 ? n : 1;
		before = '0';
		s = end;
	}
	return true;
}

static const char *env(const char *name)
{
	const char *v = getenv(name); /* NOLINT(concurrency-mt-unsafe): read only, as hwloc does */

	return v != NULL && v[0] != '\0' ? v : NULL;
}

static int choose_source(const struct ptm_plan_config *config, struct source *src,
			 struct ptm_error *err)
{
	*src = (struct source){config->synthetic, config->xml, "the caller"};
	if (src->synthetic != NULL && src->xml != NULL)
		return PTM_FAIL(err, PTM_E_USAGE,
				"Two topologies given, synthetic and XML: leave out one");
	if (src->synthetic != NULL || src->xml != NULL)
		return 0;
	/* hwloc reads these by itself, but passes over a bad value without a word. */
	src->xml = env("HWLOC_XMLFILE");
	if (src->xml != NULL) {
		src->from = "HWLOC_XMLFILE";
		return 0;
	}
	src->synthetic = env("HWLOC_SYNTHETIC");
	src->from = "HWLOC_SYNTHETIC";
	return 0;
}

static int set_source(hwloc_topology_t topology, const struct source *src, struct ptm_error *err)
{
	if (src->synthetic != NULL) {
		if (!is_small_synthetic(src->synthetic))
			return PTM_FAIL(err, PTM_E_USAGE,
					"Synthetic topology from %s is larger than %d CPUs: \"%s\"",
					src->from, PTM_TOPO_CPUS, src->synthetic);
		if (hwloc_topology_set_synthetic(topology, src->synthetic) < 0)
			return PTM_FAIL(err, PTM_E_USAGE,
					"Bad synthetic topology from %s (want the like of "
					"\"node:2 core:8 pu:2\"): \"%s\"",
					src->from, src->synthetic);
		return 0;
	}
	if (access(src->xml, R_OK) < 0)
		return PTM_FAIL(err, PTM_E_NOINPUT,
				"Cannot read topology file from %s: %m: path=\"%s\"", src->from,
				src->xml);
	if (hwloc_topology_set_xml(topology, src->xml) < 0)
		return PTM_FAIL(err, PTM_E_USAGE, "Not an hwloc XML topology, from %s: path=\"%s\"",
				src->from, src->xml);
	return 0;
}

static int load(struct ptm_plan *plan, const struct source *src, struct ptm_error *err)
{
	bool foreign = src->synthetic != NULL || src->xml != NULL;
	unsigned long flags = HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
			      HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;

	if (hwloc_topology_init(&plan->topology) < 0) {
		plan->topology = NULL;
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot set up the topology: out of memory");
	}
	if (foreign)
		PTM_TRY(set_source(plan->topology, src, err));
	/* Restricting needs IS_THISSYSTEM, which would belie an hwloc that reads another machine's
	 * files.  Other threads may be running: leave their bindings alone. */
	else if (env("HWLOC_FSROOT") == NULL && env("HWLOC_CPUID_PATH") == NULL)
		flags |= HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM |
			 HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING |
			 HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
	if (hwloc_topology_set_flags(plan->topology, flags) < 0 ||
	    hwloc_topology_set_cache_types_filter(plan->topology, HWLOC_TYPE_FILTER_KEEP_NONE) < 0)
		return PTM_FAIL(err, PTM_E_BUG, "hwloc refuses our flags: %m");
	if (hwloc_topology_load(plan->topology) < 0)
		return foreign ? PTM_FAIL(err, PTM_E_USAGE,
					  "Bad topology from %s: hwloc cannot load \"%s\"",
					  src->from, src->xml != NULL ? src->xml : src->synthetic)
			       : PTM_FAIL(err, PTM_E_SYSTEM,
					  "Cannot find out the machine's topology: %m");
	plan->is_this_machine = !foreign && hwloc_topology_is_thissystem(plan->topology) != 0;
	return 0;
}

static bool parse_cpu(const char **p, unsigned *cpu)
{
	char *end;
	unsigned long v;

	if (**p < '0' || **p > '9')
		return false;
	v = strtoul(*p, &end, 10);
	*p = end;
	*cpu = (unsigned)v;
	return v < PTM_TOPO_LIST;
}

static bool parse_cpu_list(const char *p, hwloc_bitmap_t set)
{
	for (;;) {
		unsigned first, last;

		if (!parse_cpu(&p, &first))
			return false;
		last = first;
		if (*p == '-' && (p++, !parse_cpu(&p, &last) || last < first))
			return false;
		if (hwloc_bitmap_set_range(set, first, (int)last) < 0)
			return false;
		if (*p == '\0')
			return true;
		if (*p++ != ',')
			return false;
	}
}

/* The CPUs we may use, restricted to the list @cpuset (or NULL), into @allowed. */
static int find_allowed(const struct ptm_plan *plan, const char *cpuset, hwloc_bitmap_t allowed,
			struct ptm_error *err)
{
	hwloc_const_bitmap_t ours = hwloc_topology_get_allowed_cpuset(plan->topology);
	char text[128];

	if (cpuset == NULL)
		return hwloc_bitmap_copy(allowed, ours) < 0
			       ? PTM_FAIL(err, PTM_E_NOMEM, "Cannot make a plan: out of memory")
			       : 0;
	if (!parse_cpu_list(cpuset, allowed))
		return PTM_FAIL(err, PTM_E_USAGE, "Bad CPU list (want the like of 0-3,8): \"%s\"",
				cpuset);
	(void)hwloc_bitmap_and(allowed, allowed, ours);
	if (!hwloc_bitmap_iszero(allowed))
		return 0;
	(void)hwloc_bitmap_list_snprintf(text, sizeof(text), ours);
	return PTM_FAIL(err, PTM_E_USAGE, "No CPU of \"%s\" is usable here: there are %s", cpuset,
			text);
}

/* The NUMA node of a hardware thread, as an OS index: the nearest one, by the tree, that has this
 * CPU (a node without CPUs is nobody's).  A CPU whose node we may not use takes any node that we
 * may. */
static uint32_t node_of(hwloc_topology_t topology, hwloc_obj_t pu)
{
	hwloc_obj_t node;

	for (hwloc_obj_t obj = pu; obj != NULL; obj = obj->parent) {
		for (hwloc_obj_t m = obj->memory_first_child; m != NULL; m = m->next_sibling) {
			/* A memory-side cache stands before its node. */
			for (node = m; node != NULL && node->type != HWLOC_OBJ_NUMANODE;)
				node = node->memory_first_child;
			if (node != NULL && hwloc_bitmap_isset(node->cpuset, pu->os_index))
				return node->os_index;
		}
	}
	node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, 0);
	return node != NULL ? node->os_index : 0;
}

/* Index of the node with an OS index, SIZE_MAX when out of memory.  A new one has its first core at
 * @at.  Neighbours share nodes, so the search goes backwards. */
static size_t node_index(node_vec *nodes, uint32_t os_index, size_t at)
{
	struct node fresh = {os_index, 0, 0, at};

	for (size_t i = nodes->n; i-- > 0;) {
		if (nodes->v[i].os_index == os_index)
			return i;
	}
	return ptm_vec_push(nodes, fresh) ? nodes->n - 1 : SIZE_MAX;
}

/* One entry for every core with an allowed hardware thread, the first such thread of it. */
static bool collect_cores(hwloc_topology_t topology, hwloc_const_bitmap_t allowed, core_vec *cores,
			  node_vec *nodes)
{
	hwloc_obj_t pu = NULL, last = NULL;

	while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != NULL) {
		hwloc_obj_t core;
		struct core c;

		if (!hwloc_bitmap_isset(allowed, pu->os_index))
			continue;
		/* Where nothing is known of cores, a hardware thread is one. */
		core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
		if (core == NULL)
			core = pu;
		if (core == last)
			continue;
		last = core;
		c.place.cpu = pu->os_index;
		c.place.core = core->logical_index;
		c.place.node = node_of(topology, pu);
		c.node = node_index(nodes, c.place.node, cores->n);
		if (c.node == SIZE_MAX || !ptm_vec_push(cores, c))
			return false;
		nodes->v[c.node].total++;
	}
	return true;
}

/* The node that gives the next core: the smallest share in use once it did, the first on a tie. */
static struct node *next_node(node_vec *nodes)
{
	struct node *best = NULL;

	for (size_t i = 0; i < nodes->n; i++) {
		struct node *node = &nodes->v[i];

		if (node->used == node->total)
			continue;
		if (best == NULL || (uint64_t)(node->used + 1) * best->total <
					    (uint64_t)(best->used + 1) * node->total)
			best = node;
	}
	return best;
}

static bool order_cores(struct ptm_plan *plan, const core_vec *cores, node_vec *nodes)
{
	plan->places = calloc(cores->n, sizeof(*plan->places));
	if (plan->places == NULL)
		return false;
	for (size_t i = 0; i < cores->n; i++) {
		struct node *node = next_node(nodes);

		while (cores->v[node->at].node != (size_t)(node - nodes->v))
			node->at++;
		plan->places[i] = cores->v[node->at++].place;
		node->used++;
	}
	plan->cores = (unsigned)cores->n;
	plan->nodes = (unsigned)nodes->n;
	return true;
}

static int place_workers(struct ptm_plan *plan, const char *cpuset, struct ptm_error *err)
{
	core_vec cores = {0};
	node_vec nodes = {0};
	hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
	int ret;

	if (allowed == NULL)
		return PTM_FAIL(err, PTM_E_NOMEM, "Cannot make a plan: out of memory");
	ret = find_allowed(plan, cpuset, allowed, err);
	if (ret < 0)
		goto out;
	if (!collect_cores(plan->topology, allowed, &cores, &nodes) ||
	    (cores.n > 0 && !order_cores(plan, &cores, &nodes)))
		ret = PTM_FAIL(err, PTM_E_NOMEM, "Cannot make a plan: out of memory");
	else if (cores.n == 0)
		ret = PTM_FAIL(err, PTM_E_USAGE, "The topology has no CPU that may be used");
out:
	free(cores.v);
	free(nodes.v);
	hwloc_bitmap_free(allowed);
	return ret;
}

/* How many workers: as told, or one a core within the quota.  The quota of our own group says
 * nothing about another machine. */
static int count_workers(struct ptm_plan *plan, const struct ptm_plan_config *config,
			 struct ptm_error *err)
{
	if (config->cgroup != NULL) {
		int quota = ptm_quota_read(config->cgroup, err);

		PTM_TRY(quota);
		plan->quota = (unsigned)quota;
	} else if (plan->is_this_machine) {
		plan->quota = ptm_quota_own("");
	}
	plan->workers = config->threads;
	if (plan->workers == 0) {
		plan->workers = plan->cores;
		if (plan->quota > 0 && plan->quota < plan->workers)
			plan->workers = plan->quota;
	}
	return 0;
}

/* Take over the caller's configuration, which may be of an older or newer version of the structure.
 */
static int copy_config(struct ptm_plan_config *to, const struct ptm_plan_config *from,
		       struct ptm_error *err)
{
	memset(to, 0, sizeof(*to));
	if (from == NULL)
		return 0;
	if (from->size < sizeof(from->size))
		return PTM_FAIL(err, PTM_E_USAGE, "ptm_plan_config.size is not set");
	for (size_t i = sizeof(*to); i < from->size; i++) {
		if (((const unsigned char *)from)[i] != 0)
			return PTM_FAIL(err, PTM_E_USAGE,
					"ptm_plan_config asks for what this version cannot do");
	}
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	if (to->bind != PTM_BIND_AUTO && to->bind != PTM_BIND_NONE)
		return PTM_FAIL(err, PTM_E_USAGE, "Unknown binding: %d", (int)to->bind);
	return 0;
}

struct ptm_plan *ptm_plan_create(const struct ptm_plan_config *config, struct ptm_error *err)
{
	struct ptm_plan_config c;
	struct ptm_plan *plan;
	struct source src;

	if (copy_config(&c, config, err) < 0 || choose_source(&c, &src, err) < 0)
		return NULL;
	plan = calloc(1, sizeof(*plan));
	if (plan == NULL) {
		(void)PTM_FAIL(err, PTM_E_NOMEM, "Cannot make a plan: out of memory");
		return NULL;
	}
	plan->bind = c.bind;
	if (load(plan, &src, err) < 0 || place_workers(plan, c.cpuset, err) < 0 ||
	    count_workers(plan, &c, err) < 0) {
		ptm_plan_destroy(plan);
		return NULL;
	}
	return plan;
}

void ptm_plan_destroy(struct ptm_plan *plan)
{
	if (plan == NULL)
		return;
	if (plan->topology != NULL)
		hwloc_topology_destroy(plan->topology);
	free(plan->places);
	free(plan);
}

unsigned ptm_plan_workers(const struct ptm_plan *plan)
{
	return plan->workers;
}

struct ptm_worker_place ptm_plan_place(const struct ptm_plan *plan, unsigned worker)
{
	return plan->places[worker % plan->cores];
}

unsigned ptm_plan_cores(const struct ptm_plan *plan)
{
	return plan->cores;
}

unsigned ptm_plan_nodes(const struct ptm_plan *plan)
{
	return plan->nodes;
}

unsigned ptm_plan_quota(const struct ptm_plan *plan)
{
	return plan->quota;
}

bool ptm_plan_is_this_machine(const struct ptm_plan *plan)
{
	return plan->is_this_machine;
}

int ptm_plan_bind(const struct ptm_plan *plan, unsigned worker, struct ptm_error *err)
{
	struct ptm_worker_place place = ptm_plan_place(plan, worker);
	hwloc_bitmap_t set;
	int ret = 1;

	if (plan->bind == PTM_BIND_NONE || !plan->is_this_machine)
		return 0;
	set = hwloc_bitmap_alloc();
	if (set == NULL || hwloc_bitmap_only(set, place.cpu) < 0)
		ret = PTM_FAIL(err, PTM_E_NOMEM, "Cannot pin worker %u: out of memory", worker);
	else if (hwloc_set_cpubind(plan->topology, set, HWLOC_CPUBIND_THREAD) < 0)
		ret = PTM_FAIL(err, PTM_E_SYSTEM,
			       "Cannot pin worker %u to CPU %u: %m (try --bind none)", worker,
			       place.cpu);
	hwloc_bitmap_free(set);
	return ret;
}
