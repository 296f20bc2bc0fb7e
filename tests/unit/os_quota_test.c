/* SPDX-License-Identifier: Apache-2.0
 *
 * os_quota_test.c - CPU quotas of control groups, in trees of files made here.
 *
 * The formats are those of the kernel's documentation (cgroup-v2, sched-bwc, proc(5)).
 */
#include "os/quota.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		int cpus;
	} cases[] = {
		{"150000 100000", 2},
		{"150000 100000\n", 2},
		{"100000 100000\n", 1},
		{"100001 100000\n", 2},
		{"1000 100000\n", 1},
		{"1600000 100000\n", 16},
		{"max 100000\n", 0},
		{"18446744073709551615 1\n", INT_MAX},
		{"", -1},
		{"max", -1},
		{"max\n", -1},
		{"maximum 100000", -1},
		{"150000", -1},
		{"150000 0\n", -1},
		{"0 100000\n", -1},
		{"-1 100000\n", -1},
		{"150000 100000 x\n", -1},
		{"150000  100000\n", -1},
		{"1e5 100000\n", -1},
		{"99999999999999999999 100000\n", -1},
		{"garbage\n", -1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (ptm_quota_parse(cases[i].text) != cases[i].cpus)
			fail_msg("\"%s\" gives %d, not %d", cases[i].text,
				 ptm_quota_parse(cases[i].text), cases[i].cpus);
	}
}

static char root[64];

/* Write a file of the tree, with the directories before it. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = strchr(full + strlen(root) + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(full, 0700);
		*p = '/';
	}
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int new_tree(void **state)
{
	(void)state;
	(void)strcpy(root, "/tmp/ptm-cgroup-XXXXXX");
	return mkdtemp(root) != NULL ? 0 : -1;
}

static int drop_tree(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

#define V2_MOUNT "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

static void test_v2_smallest_on_the_way(void **state)
{
	(void)state;
	put("/proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/root rw\n" V2_MOUNT);
	put("/proc/self/cgroup", "0::/slurm/job7/step0\n");
	assert_int_equal(ptm_quota_own(root), 0);
	put("/sys/fs/cgroup/slurm/job7/step0/cpu.max", "max 100000\n");
	assert_int_equal(ptm_quota_own(root), 0);
	put("/sys/fs/cgroup/slurm/cpu.max", "900000 100000\n");
	assert_int_equal(ptm_quota_own(root), 9);
	put("/sys/fs/cgroup/slurm/job7/cpu.max", "250000 100000\n");
	assert_int_equal(ptm_quota_own(root), 3);
	put("/sys/fs/cgroup/slurm/job7/step0/cpu.max", "800000 100000\n");
	assert_int_equal(ptm_quota_own(root), 3);
	/* A sibling's limit is not ours. */
	put("/sys/fs/cgroup/slurm/job8/cpu.max", "100000 100000\n");
	assert_int_equal(ptm_quota_own(root), 3);
	/* A container with a name space of its own sees the limit at its root. */
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/cpu.max", "200000 50000\n");
	assert_int_equal(ptm_quota_own(root), 4);
}

static void test_v1(void **state)
{
	(void)state;
	put("/proc/self/mountinfo",
	    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
	    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
	    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	    "32 31 0:29 /docker/ab /sys/fs/cgroup/cpu\\040x rw - cgroup cgroup rw,cpuacct,cpu\n");
	put("/proc/self/cgroup", "4:cpuset:/docker/ab\n1:cpuacct,cpu:/docker/ab/in\n0::/\n");
	/* The group /docker/ab is what the mount point shows. */
	put("/sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu x/cpu.cfs_period_us", "100000\n");
	assert_int_equal(ptm_quota_own(root), 0);
	put("/sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "350000\n");
	assert_int_equal(ptm_quota_own(root), 4);
	put("/sys/fs/cgroup/cpu x/in/cpu.cfs_quota_us", "50000\n");
	put("/sys/fs/cgroup/cpu x/in/cpu.cfs_period_us", "100000\n");
	assert_int_equal(ptm_quota_own(root), 1);
	put("/sys/fs/cgroup/cpu x/in/cpu.cfs_period_us", "0\n");
	assert_int_equal(ptm_quota_own(root), 4);
	/* Not below what is mounted, though its name begins alike. */
	put("/proc/self/cgroup", "1:cpuacct,cpu:/docker/abc\n");
	assert_int_equal(ptm_quota_own(root), 4);
}

static void test_odd_trees(void **state)
{
	(void)state;
	assert_int_equal(ptm_quota_own(root), 0);
	put("/proc/self/cgroup", "nonsense\n:\n0:\n0::/../up\n");
	assert_int_equal(ptm_quota_own(root), 0);
	put("/proc/self/mountinfo", "- \n - cgroup2\n1 2 3 - cgroup2 a b\n" V2_MOUNT);
	assert_int_equal(ptm_quota_own(root), 0);
	put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
	assert_int_equal(ptm_quota_own(root), 2);
	put("/sys/fs/cgroup/cpu.max", "garbage\n");
	assert_int_equal(ptm_quota_own(root), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test_setup_teardown(test_v2_smallest_on_the_way, new_tree, drop_tree),
		cmocka_unit_test_setup_teardown(test_v1, new_tree, drop_tree),
		cmocka_unit_test_setup_teardown(test_odd_trees, new_tree, drop_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
