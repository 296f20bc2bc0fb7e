/* SPDX-License-Identifier: Apache-2.0
 *
 * lldb.c - trace bundles as LLDB saves them ("trace save").
 *
 * The members and their meaning follow what LLDB documents for the plug-in "intel-pt" ("trace
 * schema intel-pt"): either threads have a trace each (processes[].threads[].iptTrace), or CPUs
 * have (cpus[]), with files of context switches and the conversion of their times.  With "kernel",
 * the trace is of the kernel alone.  Paths are absolute or relative to the bundle.  LLDB writes
 * addresses and the zero of the time as numbers or as strings.
 */
#include "input/desc_priv.h"

#include "input/switches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LLDB's assumption for a kernel whose load address is not given: x86-64 Linux without KASLR. */
#define KERNEL_ADDRESS UINT64_C(0xffffffff81000000)

/* A UUID that is shorter is the checksum that LLDB uses for a file without build-id. */
#define MIN_BUILD_ID 8

struct reader {
	struct ptm_desc *desc;
	const char *dir;
	struct ptm_error *err;
	struct ptm_desc_ids pids, tids, cpus;
	size_t switches; /* how many more may be read */
};

static int read_cpu_info(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at info = ptm_json_member(root, "cpuInfo");
	struct ptm_json_at vendor = ptm_json_member(&info, "vendor");
	struct ptm_json_at family = ptm_json_member(&info, "family");
	struct ptm_json_at model = ptm_json_member(&info, "model");
	struct ptm_json_at stepping = ptm_json_member(&info, "stepping");
	uint32_t f, m, s;
	const char *name;

	PTM_TRY(ptm_json_check_object(&info, r->err));
	PTM_TRY(ptm_json_get_str(&vendor, &name, r->err));
	PTM_TRY(ptm_desc_get_u32(&family, &f, r->err));
	PTM_TRY(ptm_desc_get_u32(&model, &m, r->err));
	PTM_TRY(ptm_desc_get_u32(&stepping, &s, r->err));
	/* Numbers that no CPU has are those of a CPU that we do not know. */
	if (strcmp(name, "GenuineIntel") != 0 || f > UINT16_MAX || m > UINT8_MAX || s > UINT8_MAX)
		return 0;
	r->desc->has_cpu = true;
	r->desc->family = (uint16_t)f;
	r->desc->model = (uint8_t)m;
	r->desc->stepping = (uint8_t)s;
	return 0;
}

static int read_time(struct reader *r, const struct ptm_json_at *root)
{
	static const struct ptm_desc_time_keys keys = {"timeMult", "timeShift", "timeZero"};
	struct ptm_json_at time = ptm_json_member(root, "tscPerfZeroConversion");

	return ptm_desc_get_time(&time, &keys, &r->desc->time, r->err);
}

/* The UUID of a module, which is optional. */
static int read_uuid(struct reader *r, const struct ptm_json_at *module, struct ptm_desc_map *map)
{
	struct ptm_json_at uuid = ptm_json_member(module, "uuid");
	const char *text = "";

	if (ptm_json_is_there(&uuid))
		PTM_TRY(ptm_json_get_str(&uuid, &text, r->err));
	PTM_TRY(ptm_desc_set_build_id(map, &uuid, text, r->err));
	if (strlen(map->build_id) < (size_t)2 * MIN_BUILD_ID)
		map->build_id[0] = '\0';
	return 0;
}

static int read_module(struct reader *r, const struct ptm_json_at *module, struct ptm_desc_map *map)
{
	struct ptm_json_at file = ptm_json_member(module, "file");
	struct ptm_json_at system = ptm_json_member(module, "systemPath");
	struct ptm_json_at address = ptm_json_member(module, "loadAddress");
	const char *name, *path;

	PTM_TRY(ptm_json_check_object(module, r->err));
	PTM_TRY(ptm_desc_get_text(&system, &name, r->err));
	path = name;
	if (ptm_json_is_there(&file))
		PTM_TRY(ptm_desc_get_text(&file, &path, r->err));
	PTM_TRY(ptm_json_get_u64(&address, &map->address, r->err));
	PTM_TRY(read_uuid(r, module, map));
	map->whole_elf = true;
	map->path = ptm_desc_join(r->dir, path);
	map->name = ptm_desc_clean(name);
	return map->path != NULL && map->name != NULL ? 0 : ptm_desc_no_memory(module, r->err);
}

static int read_modules(struct reader *r, const struct ptm_json_at *process, size_t p)
{
	struct ptm_json_at modules = ptm_json_member(process, "modules");
	size_t n;

	PTM_TRY(ptm_json_get_array(&modules, &n, r->err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at module = ptm_json_element(&modules, i);
		struct ptm_desc_map map = {0};
		int ret = read_module(r, &module, &map);

		if (ret == 0 && !ptm_vec_push(&r->desc->processes.v[p].maps, map))
			ret = ptm_desc_no_memory(&module, r->err);
		if (ret < 0) {
			ptm_desc_map_fini(&map);
			return ret;
		}
	}
	return 0;
}

/* Add the stream "tidN" or "cpuN". */
static int add_stream(struct reader *r, const struct ptm_json_at *at, const char *kind, uint32_t id,
		      const char *path)
{
	struct ptm_desc_stream stream = {.process = PTM_DESC_NO_PROCESS};

	if (asprintf(&stream.name, "%s%u", kind, id) < 0)
		stream.name = NULL;
	stream.path = ptm_desc_join(r->dir, path);
	if (stream.name == NULL || stream.path == NULL ||
	    !ptm_vec_push(&r->desc->streams, stream)) {
		ptm_desc_stream_fini(&stream);
		return ptm_desc_no_memory(at, r->err);
	}
	return 0;
}

static int read_thread(struct reader *r, const struct ptm_json_at *thread, size_t p)
{
	struct ptm_json_at tid = ptm_json_member(thread, "tid");
	struct ptm_json_at trace = ptm_json_member(thread, "iptTrace");
	struct ptm_desc_id id = {.index = r->tids.list.n};
	struct ptm_desc_stream *stream;
	const char *path;

	PTM_TRY(ptm_json_check_object(thread, r->err));
	PTM_TRY(ptm_desc_get_u32(&tid, &id.id, r->err));
	if (!ptm_vec_push(&r->desc->processes.v[p].tids, id.id) || !ptm_vec_push(&r->tids.list, id))
		return ptm_desc_no_memory(thread, r->err);
	if (!ptm_json_is_there(&trace))
		return 0;
	PTM_TRY(ptm_desc_get_text(&trace, &path, r->err));
	PTM_TRY(add_stream(r, thread, "tid", id.id, path));
	stream = &r->desc->streams.v[r->desc->streams.n - 1];
	stream->process = p;
	stream->tid = id.id;
	return 0;
}

static int read_process(struct reader *r, const struct ptm_json_at *process)
{
	struct ptm_json_at pid = ptm_json_member(process, "pid");
	struct ptm_json_at threads = ptm_json_member(process, "threads");
	struct ptm_desc_process p = {0};
	size_t index = r->desc->processes.n, n;
	struct ptm_desc_id id = {.index = index};

	PTM_TRY(ptm_json_check_object(process, r->err));
	PTM_TRY(ptm_desc_get_u32(&pid, &p.pid, r->err));
	id.id = p.pid;
	if (!ptm_vec_push(&r->desc->processes, p) || !ptm_vec_push(&r->pids.list, id))
		return ptm_desc_no_memory(process, r->err);
	PTM_TRY(ptm_json_get_array(&threads, &n, r->err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at thread = ptm_json_element(&threads, i);

		PTM_TRY(read_thread(r, &thread, index));
	}
	return read_modules(r, process, index);
}

static int read_processes(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at processes = ptm_json_member(root, "processes");
	size_t n;

	if (!ptm_json_is_there(&processes))
		return 0;
	PTM_TRY(ptm_json_get_array(&processes, &n, r->err));
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at process = ptm_json_element(&processes, i);

		PTM_TRY(read_process(r, &process));
	}
	return 0;
}

static int read_cpu(struct reader *r, const struct ptm_json_at *cpu)
{
	struct ptm_json_at number = ptm_json_member(cpu, "id");
	struct ptm_json_at trace = ptm_json_member(cpu, "iptTrace");
	struct ptm_json_at switches = ptm_json_member(cpu, "contextSwitchTrace");
	struct ptm_desc_id id = {.index = r->cpus.list.n};
	struct ptm_desc_stream *stream;
	const char *path, *records;
	char *joined;
	int ret;

	PTM_TRY(ptm_json_check_object(cpu, r->err));
	PTM_TRY(ptm_desc_get_u32(&number, &id.id, r->err));
	PTM_TRY(ptm_desc_get_text(&trace, &path, r->err));
	PTM_TRY(ptm_desc_get_text(&switches, &records, r->err));
	if (!ptm_vec_push(&r->cpus.list, id))
		return ptm_desc_no_memory(cpu, r->err);
	PTM_TRY(add_stream(r, cpu, "cpu", id.id, path));
	stream = &r->desc->streams.v[r->desc->streams.n - 1];
	stream->cpu = id.id;
	joined = ptm_desc_join(r->dir, records);
	if (joined == NULL)
		return ptm_desc_no_memory(cpu, r->err);
	ret = ptm_switches_read(stream, &r->desc->time, joined, &r->switches, r->err);
	free(joined);
	return ret;
}

static int read_cpus(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at cpus = ptm_json_member(root, "cpus");
	struct ptm_json_at time = ptm_json_member(root, "tscPerfZeroConversion");
	size_t n;

	if (!ptm_json_is_there(&cpus))
		return 0;
	PTM_TRY(ptm_json_get_array(&cpus, &n, r->err));
	if (!r->desc->time.known)
		return ptm_json_fail(&time, PTM_E_FORMAT, r->err,
				     "missing (must be given where \"cpus\" is)");
	if (r->desc->streams.n > 0)
		return ptm_json_fail(&cpus, PTM_E_FORMAT, r->err,
				     "must not be given where a thread has an \"iptTrace\"");
	for (size_t i = 0; i < n; i++) {
		struct ptm_json_at cpu = ptm_json_element(&cpus, i);

		PTM_TRY(read_cpu(r, &cpu));
	}
	return 0;
}

static int read_kernel_map(struct reader *r, const struct ptm_json_at *kernel,
			   struct ptm_desc_map *map)
{
	struct ptm_json_at file = ptm_json_member(kernel, "file");
	struct ptm_json_at address = ptm_json_member(kernel, "loadAddress");
	const char *path;

	PTM_TRY(ptm_desc_get_text(&file, &path, r->err));
	map->address = KERNEL_ADDRESS;
	if (ptm_json_is_there(&address))
		PTM_TRY(ptm_json_get_u64(&address, &map->address, r->err));
	map->whole_elf = true;
	map->path = ptm_desc_join(r->dir, path);
	map->name = ptm_desc_clean(path);
	map->build_id = strdup("");
	if (map->path == NULL || map->name == NULL || map->build_id == NULL)
		return ptm_desc_no_memory(kernel, r->err);
	return 0;
}

static int read_kernel(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at kernel = ptm_json_member(root, "kernel");
	struct ptm_json_at processes = ptm_json_member(root, "processes");
	struct ptm_json_at cpus = ptm_json_member(root, "cpus");
	struct ptm_desc_map map = {0};
	int ret;

	if (!ptm_json_is_there(&kernel))
		return 0;
	PTM_TRY(ptm_json_check_object(&kernel, r->err));
	if (r->desc->processes.n > 0)
		return ptm_json_fail(&processes, PTM_E_FORMAT, r->err,
				     "must be empty where \"kernel\" is given");
	if (!ptm_json_is_there(&cpus))
		return ptm_json_fail(&cpus, PTM_E_FORMAT, r->err,
				     "missing (must be given where \"kernel\" is)");
	ret = read_kernel_map(r, &kernel, &map);
	if (ret == 0 && !ptm_vec_push(&r->desc->kernel, map))
		ret = ptm_desc_no_memory(&kernel, r->err);
	if (ret < 0)
		ptm_desc_map_fini(&map);
	return ret;
}

static int check_unique(struct reader *r, const struct ptm_json_at *root, struct ptm_desc_ids *ids,
			const char *what)
{
	const struct ptm_desc_id *twice;

	ptm_desc_ids_sort(ids);
	twice = ptm_desc_ids_twice(ids);
	if (twice == NULL)
		return 0;
	return ptm_json_fail(root, PTM_E_FORMAT, r->err, "%s %u stands twice", what, twice->id);
}

static int read_root(struct reader *r, const struct ptm_json_at *root)
{
	struct ptm_json_at type = ptm_json_member(root, "type");
	const char *name;

	PTM_TRY(ptm_json_check_object(root, r->err));
	PTM_TRY(ptm_json_get_str(&type, &name, r->err));
	if (strcmp(name, "intel-pt") != 0)
		return ptm_json_fail(&type, PTM_E_FORMAT, r->err, "must be \"intel-pt\"");
	PTM_TRY(read_cpu_info(r, root));
	PTM_TRY(read_time(r, root));
	PTM_TRY(read_processes(r, root));
	PTM_TRY(read_kernel(r, root));
	PTM_TRY(read_cpus(r, root));
	PTM_TRY(check_unique(r, root, &r->pids, "process"));
	PTM_TRY(check_unique(r, root, &r->tids, "thread"));
	PTM_TRY(check_unique(r, root, &r->cpus, "CPU"));
	if (r->desc->streams.n == 0)
		return ptm_json_fail(
			root, PTM_E_FORMAT, r->err,
			"names no trace: neither \"cpus\" nor a thread with an \"iptTrace\"");
	return 0;
}

int ptm_lldb_read(struct ptm_desc *desc, const struct ptm_json_doc *doc, const char *dir,
		  struct ptm_error *err)
{
	struct reader r = {.desc = desc, .dir = dir, .err = err, .switches = PTM_MAX_SWITCHES};
	struct ptm_json_at root = ptm_json_root(doc);
	int ret = read_root(&r, &root);

	free(r.pids.list.v);
	free(r.tids.list.v);
	free(r.cpus.list.v);
	return ret;
}
