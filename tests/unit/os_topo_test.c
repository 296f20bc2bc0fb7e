/* SPDX-License-Identifier: Apache-2.0
 *
 * os_topo_test.c - the plan, on described machines and on this one.
 *
 * Expected places follow from the descriptions by hand: "node:2 core:8 pu:2" numbers its CPUs depth
 * first, so core i has the CPUs 2i and 2i + 1, and node 1 begins at core 8.
 * tests/data/topo/offline.xml has two nodes of two cores of two threads, of which CPUs 0, 6 and 7
 * are off-line, and a node 2 that is memory only.
 */
#include "ptmill/topo.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA PTM_SOURCE_DIR "/tests/data/topo/"

/* hwloc 2.9 forgets the object at which it gives up on an XML file. */
PTM_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:hwloc_alloc_setup_object";
}

static struct ptm_plan_config synthetic(const char *description)
{
	return (struct ptm_plan_config){.size = sizeof(struct ptm_plan_config),
					.synthetic = description};
}

static struct ptm_plan *make(const struct ptm_plan_config *config)
{
	struct ptm_error err = {0};
	struct ptm_plan *plan = ptm_plan_create(config, &err);

	if (plan == NULL)
		fail_msg("no plan: %s", err.cause[0].text);
	return plan;
}

static void assert_place(const struct ptm_plan *plan, unsigned worker, unsigned cpu, unsigned core,
			 unsigned node)
{
	struct ptm_worker_place place = ptm_plan_place(plan, worker);

	assert_int_equal(place.cpu, cpu);
	assert_int_equal(place.core, core);
	assert_int_equal(place.node, node);
}

static void assert_refused(const struct ptm_plan_config *config, enum ptm_err code,
			   const char *mention)
{
	struct ptm_error err = {0};

	assert_null(ptm_plan_create(config, &err));
	assert_int_equal(err.code, code);
	assert_int_equal(err.ncauses, 1);
	if (strstr(err.cause[0].text, mention) == NULL)
		fail_msg("\"%s\" does not mention \"%s\"", err.cause[0].text, mention);
}

static void test_two_nodes(void **state)
{
	struct ptm_plan_config config = synthetic("node:2 core:8 pu:2");
	struct ptm_plan *plan = make(&config);
	struct ptm_error err = {0};

	(void)state;
	assert_int_equal(ptm_plan_workers(plan), 16);
	assert_int_equal(ptm_plan_cores(plan), 16);
	assert_int_equal(ptm_plan_nodes(plan), 2);
	assert_int_equal(ptm_plan_quota(plan), 0);
	assert_false(ptm_plan_is_this_machine(plan));
	for (unsigned i = 0; i < 16; i++) {
		unsigned core = i / 2 + (i % 2) * 8;

		assert_place(plan, i, 2 * core, core, i % 2);
	}
	assert_int_equal(ptm_plan_bind(plan, 0, &err), 0);
	ptm_plan_destroy(plan);
}

static void test_uneven_nodes(void **state)
{
	struct ptm_plan_config config = synthetic("node:2 core:4 pu:1");
	struct ptm_plan *plan;

	(void)state;
	/* Four cores of node 0, two of node 1: shares 1/4; 1/2 against 2/4, a tie; 1/2; and again.
	 */
	config.cpuset = "0-3,5,7";
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 6);
	assert_place(plan, 0, 0, 0, 0);
	assert_place(plan, 1, 1, 1, 0);
	assert_place(plan, 2, 5, 5, 1);
	assert_place(plan, 3, 2, 2, 0);
	assert_place(plan, 4, 3, 3, 0);
	assert_place(plan, 5, 7, 7, 1);
	ptm_plan_destroy(plan);
}

static void test_cpuset(void **state)
{
	struct ptm_plan_config config = synthetic("node:1 core:4 pu:1");
	struct ptm_plan *plan;

	(void)state;
	config.cpuset = "2-3";
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 2);
	assert_int_equal(ptm_plan_nodes(plan), 1);
	assert_place(plan, 0, 2, 2, 0);
	assert_place(plan, 1, 3, 3, 0);
	ptm_plan_destroy(plan);

	/* Second threads of the cores only, one core with both. */
	config = synthetic("node:1 core:4 pu:2");
	config.cpuset = "1,3-5";
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 3);
	assert_place(plan, 0, 1, 0, 0);
	assert_place(plan, 1, 3, 1, 0);
	assert_place(plan, 2, 4, 2, 0);
	ptm_plan_destroy(plan);

	/* CPUs that are not there are left out. */
	config.cpuset = "6-99";
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 1);
	assert_place(plan, 0, 6, 3, 0);
	ptm_plan_destroy(plan);
}

static void test_bad_cpusets(void **state)
{
	static const char *const bad[] = {"",      "x",       "0-",    "-1",
					  "3-2",   "0,",      ",0",    "0;1",
					  "0 1",   "0x1",     "0-1-2", "99999999999999999999",
					  "65536", "1-65536", "+1"};
	struct ptm_plan_config config = synthetic("node:1 core:4 pu:1");

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config.cpuset = bad[i];
		assert_refused(&config, PTM_E_USAGE, "CPU list");
	}
	config.cpuset = "4-7";
	assert_refused(&config, PTM_E_USAGE, "0-3");
}

static void test_offline_xml(void **state)
{
	struct ptm_plan_config config = {.size = sizeof(config), .xml = DATA "offline.xml"};
	struct ptm_plan *plan = make(&config);

	(void)state;
	assert_int_equal(ptm_plan_workers(plan), 3);
	assert_int_equal(ptm_plan_nodes(plan), 2);
	assert_false(ptm_plan_is_this_machine(plan));
	/* Core 0 has only its second thread; node 0 gives 1/2, node 1 all of its one core, node 0
	 * the rest. */
	assert_place(plan, 0, 1, 0, 0);
	assert_place(plan, 1, 2, 1, 0);
	assert_place(plan, 2, 4, 2, 1);
	ptm_plan_destroy(plan);
}

static void test_threads(void **state)
{
	static const unsigned order[] = {0, 2, 1, 3};
	struct ptm_plan_config config = synthetic("node:2 core:2 pu:1");
	struct ptm_plan *plan;

	(void)state;
	config.threads = 10;
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 10);
	assert_int_equal(ptm_plan_cores(plan), 4);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(ptm_plan_place(plan, i).cpu, order[i % 4]);
	ptm_plan_destroy(plan);
	config.threads = 1;
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 1);
	ptm_plan_destroy(plan);
}

static void test_no_cores_known(void **state)
{
	struct ptm_plan_config config = synthetic("node:1 pu:3");
	struct ptm_plan *plan = make(&config);

	(void)state;
	assert_int_equal(ptm_plan_workers(plan), 3);
	assert_place(plan, 2, 2, 2, 0);
	ptm_plan_destroy(plan);
}

static void test_bad_descriptions(void **state)
{
	static const char *const bad[] = {"",      "bogus",      "node:2 core:x", "core:0 pu:1",
					  "node:", "pu:2 core:2"};
	struct ptm_plan_config config = {.size = sizeof(config)};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config.synthetic = bad[i];
		assert_refused(&config, PTM_E_USAGE, "synthetic topology");
	}
	config.synthetic = "core:99999999 pu:99";
	assert_refused(&config, PTM_E_USAGE, "larger");
	config.synthetic = "node:0x40 core:0x41 pu:1";
	assert_refused(&config, PTM_E_USAGE, "larger");
	config.xml = DATA "offline.xml";
	assert_refused(&config, PTM_E_USAGE, "Two topologies");
	config.synthetic = NULL;
	config.xml = DATA "truncated.xml";
	assert_refused(&config, PTM_E_USAGE, "truncated.xml");
	config.xml = __FILE__;
	assert_refused(&config, PTM_E_USAGE, "os_topo_test.c");
	config.xml = DATA "no-such.xml";
	assert_refused(&config, PTM_E_NOINPUT, "no-such.xml");
	config = (struct ptm_plan_config){.size = 0};
	assert_refused(&config, PTM_E_USAGE, "size");
	config = (struct ptm_plan_config){.size = sizeof(config), .bind = (enum ptm_bind)7};
	assert_refused(&config, PTM_E_USAGE, "binding");
}

/* A description in the environment counts as if it had been given. */
static void test_environment(void **state)
{
	struct ptm_plan_config config = {.size = sizeof(config)};
	struct ptm_plan_config given = synthetic("node:1 core:2 pu:1");
	struct ptm_plan *plan;

	(void)state;
	assert_int_equal(setenv("HWLOC_SYNTHETIC", "node:1 core:5 pu:1", 1), 0);
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 5);
	assert_false(ptm_plan_is_this_machine(plan));
	ptm_plan_destroy(plan);
	plan = make(&given);
	assert_int_equal(ptm_plan_workers(plan), 2);
	ptm_plan_destroy(plan);
	assert_int_equal(setenv("HWLOC_SYNTHETIC", "nonsense", 1), 0);
	assert_refused(&config, PTM_E_USAGE, "HWLOC_SYNTHETIC");
	assert_int_equal(setenv("HWLOC_XMLFILE", DATA "truncated.xml", 1), 0);
	assert_refused(&config, PTM_E_USAGE, "HWLOC_XMLFILE");
	assert_int_equal(setenv("HWLOC_XMLFILE", DATA "offline.xml", 1), 0);
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 3);
	assert_false(ptm_plan_is_this_machine(plan));
	ptm_plan_destroy(plan);
	assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
	assert_int_equal(unsetenv("HWLOC_SYNTHETIC"), 0);
}

/* A caller built against an older header has a shorter structure. */
static void test_config_versions(void **state)
{
	struct {
		struct ptm_plan_config config;
		uint64_t more;
	} later = {synthetic("node:1 core:2 pu:1"), 0};
	struct ptm_plan_config config = synthetic("node:1 core:2 pu:1");
	struct ptm_plan *plan;

	(void)state;
	config.cpuset = "0";
	config.size = offsetof(struct ptm_plan_config, cpuset);
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 2);
	ptm_plan_destroy(plan);
	later.config.size = sizeof(later);
	ptm_plan_destroy(make(&later.config));
	later.more = 1;
	assert_refused(&later.config, PTM_E_USAGE, "version");
}

static void test_quota_caps_workers(void **state)
{
	char path[] = "/tmp/ptm-quota-XXXXXX";
	struct ptm_plan_config config = synthetic("node:2 core:8 pu:2");
	struct ptm_plan *plan;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "150000 100000\n", 14), 14);
	config.cgroup = path;
	plan = make(&config);
	assert_int_equal(ptm_plan_quota(plan), 2);
	assert_int_equal(ptm_plan_workers(plan), 2);
	assert_int_equal(ptm_plan_cores(plan), 16);
	assert_place(plan, 0, 0, 0, 0);
	assert_place(plan, 1, 16, 8, 1);
	ptm_plan_destroy(plan);
	/* Who asks for more gets more. */
	config.threads = 5;
	plan = make(&config);
	assert_int_equal(ptm_plan_workers(plan), 5);
	ptm_plan_destroy(plan);
	config.threads = 0;
	assert_int_equal(pwrite(fd, "max    100000\n", 14, 0), 14);
	assert_refused(&config, PTM_E_USAGE, path);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "max 100000\n", 11, 0), 11);
	plan = make(&config);
	assert_int_equal(ptm_plan_quota(plan), 0);
	assert_int_equal(ptm_plan_workers(plan), 16);
	ptm_plan_destroy(plan);
	(void)close(fd);
	(void)unlink(path);
	assert_refused(&config, PTM_E_NOINPUT, path);
}

struct pinned {
	const struct ptm_plan *plan;
	unsigned worker;
	int ret;
	cpu_set_t set;
};

static void *pin(void *arg)
{
	struct pinned *p = arg;

	p->ret = ptm_plan_bind(p->plan, p->worker, NULL);
	(void)sched_getaffinity(0, sizeof(p->set), &p->set);
	return NULL;
}

static void test_real_pinning(void **state)
{
	struct ptm_plan_config config = {.size = sizeof(config)};
	struct ptm_plan *plan = make(&config);
	cpu_set_t before, after;

	(void)state;
	if (!ptm_plan_is_this_machine(plan)) {
		print_message("skipped: hwloc does not describe this machine\n");
		ptm_plan_destroy(plan);
		return;
	}
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (unsigned i = 0; i < ptm_plan_cores(plan); i++) {
		struct pinned p = {.plan = plan, .worker = i};
		unsigned cpu = ptm_plan_place(plan, i).cpu;
		pthread_t thread;

		assert_true(CPU_ISSET(cpu, &before));
		assert_int_equal(pthread_create(&thread, NULL, pin, &p), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(p.ret, 1);
		assert_int_equal(CPU_COUNT(&p.set), 1);
		assert_true(CPU_ISSET(cpu, &p.set));
	}
	ptm_plan_destroy(plan);

	/* Unbound on request; and the caller's own binding is as it was. */
	config.bind = PTM_BIND_NONE;
	plan = make(&config);
	assert_int_equal(ptm_plan_bind(plan, 0, NULL), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
	ptm_plan_destroy(plan);
}

/* Let every thread of the process run on @cpu only, as a program started under taskset does (a
 * sanitizer may have a thread of its own). */
static bool restrict_process(unsigned cpu)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *e;
	cpu_set_t set;
	bool ok = tasks != NULL;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	while (ok && (e = readdir(tasks)) != NULL) {
		if (e->d_name[0] != '.')
			ok = sched_setaffinity(atoi(e->d_name), sizeof(set), &set) == 0;
	}
	if (tasks != NULL)
		(void)closedir(tasks);
	return ok;
}

/* In a child: only @cpu allowed.  The exit status tells how it went. */
static int one_cpu_child(unsigned cpu)
{
	struct ptm_plan_config config = {.size = sizeof(config)};
	struct ptm_plan *plan;
	int bad;

	if (!restrict_process(cpu))
		return 3;
	plan = ptm_plan_create(&config, NULL);
	if (plan == NULL)
		return 2;
	bad = ptm_plan_workers(plan) != 1 || ptm_plan_cores(plan) != 1 ||
	      ptm_plan_place(plan, 0).cpu != cpu;
	ptm_plan_destroy(plan);
	return bad;
}

static void test_one_allowed_cpu(void **state)
{
	cpu_set_t set;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int status = 0;
		pid_t pid;

		if (!CPU_ISSET(cpu, &set))
			continue;
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(one_cpu_child(cpu));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_nodes),
		cmocka_unit_test(test_uneven_nodes),
		cmocka_unit_test(test_cpuset),
		cmocka_unit_test(test_bad_cpusets),
		cmocka_unit_test(test_offline_xml),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_no_cores_known),
		cmocka_unit_test(test_bad_descriptions),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_config_versions),
		cmocka_unit_test(test_quota_caps_workers),
		cmocka_unit_test(test_one_allowed_cpu),
		cmocka_unit_test(test_real_pinning),
	};

	/* What the caller's environment says of other machines is none of these tests' business. */
	(void)unsetenv("HWLOC_SYNTHETIC");
	(void)unsetenv("HWLOC_XMLFILE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
