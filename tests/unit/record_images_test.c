/* SPDX-License-Identifier: Apache-2.0
 *
 * record_images_test.c - copies of what a process has mapped: this one, with files that the test
 * made.
 */
#include "record/images.h"

#include <dirent.h>
#include <elf.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, SIZE = 2 * PAGE };

static char dir[] = "/tmp/ptmill-images-XXXXXX";
static struct ptm_images images;

static int remove_one(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
	(void)sb;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int set_up(void **state)
{
	char *copies;

	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/ptmill-images-XXXXXX");
	if (mkdtemp(dir) == NULL || asprintf(&copies, "%s/copies", dir) < 0 ||
	    mkdir(copies, 0700) != 0)
		return -1;
	memset(&images, 0, sizeof(images));
	ptm_images_init(&images, copies, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ptm_images_fini(&images);
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* An ELF file of two pages with build-id @id, and @fill in its second page. */
static void make_elf(const char *name, const char id[4], uint8_t fill)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		Elf64_Nhdr nh;
		char gnu[4], id[4];
	} head = {
		.eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				   EV_CURRENT},
		       .e_type = ET_DYN,
		       .e_machine = EM_X86_64,
		       .e_version = EV_CURRENT,
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1},
		.ph = {.p_type = PT_NOTE,
		       .p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
		       .p_filesz = sizeof(Elf64_Nhdr) + 8,
		       .p_align = 4},
		.nh = {.n_namesz = 4, .n_descsz = 4, .n_type = NT_GNU_BUILD_ID},
		.gnu = "GNU",
	};
	static uint8_t bytes[SIZE];
	char path[PATH_MAX];
	FILE *f;

	memcpy(head.id, id, 4);
	memset(bytes, fill, sizeof(bytes));
	memcpy(bytes, &head, sizeof(head));
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, SIZE, f), SIZE);
	assert_int_equal(fclose(f), 0);
}

/* Map it executable, at @at unless NULL; not writable, so that SELinux and the like agree. */
static uint8_t *map_file(const char *name, void *at)
{
	char path[PATH_MAX];
	uint8_t *p;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	p = mmap(at, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at != NULL ? MAP_FIXED : 0), fd,
		 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	(void)close(fd);
	return p;
}

static void scan(void)
{
	assert_int_equal(ptm_images_scan(&images, getpid()), 0);
}

/* The last mapping of the file, as a place in the list. */
static size_t place_of(const char *name)
{
	size_t place = SIZE_MAX;

	for (size_t i = 0; i < images.maps.n; i++) {
		const char *base = strrchr(images.maps.v[i].path, '/');

		if (base != NULL && strcmp(base + 1, name) == 0)
			place = i;
	}
	assert_true(place < images.maps.n);
	return place;
}

static const struct ptm_rec_image *image_of(const char *name)
{
	return &images.images.v[images.maps.v[place_of(name)].image];
}

static uint8_t byte_of(const struct ptm_rec_image *image, long at)
{
	char path[PATH_MAX];
	FILE *f;
	int c;

	(void)snprintf(path, sizeof(path), "%s/copies/%s", dir, image->name);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	c = getc(f);
	assert_true(c != EOF);
	(void)fclose(f);
	return (uint8_t)c;
}

static void same_bytes_lie_there_once(void **state)
{
	uint8_t *a, *b, *c, *d;
	size_t distinct = 0, files = 0;
	DIR *copies;

	(void)state;
	make_elf("one", "\x01\x02\xab\xcd", 0x90);
	make_elf("two", "\x01\x02\xab\xcd", 0x90);
	make_elf("patched", "\x01\x02\xab\xcd", 0xcc);
	a = map_file("one", NULL);
	b = map_file("two", NULL);
	c = map_file("patched", NULL);
	d = map_file("one", NULL);
	scan();
	assert_int_equal(ptm_images_settle(&images), 0);
	assert_string_equal(image_of("one")->name, "0102abcd");
	assert_string_equal(image_of("one")->build_id, "0102abcd");
	assert_string_equal(image_of("two")->name, "0102abcd");
	/* The build-id is taken, by other bytes. */
	assert_int_equal(strlen(image_of("patched")->name), 16);
	assert_string_equal(image_of("patched")->build_id, "0102abcd");
	assert_int_equal(byte_of(image_of("one"), PAGE), 0x90);
	assert_int_equal(byte_of(image_of("patched"), PAGE), 0xcc);
	/* As many files as names. */
	for (size_t i = 0; i < images.images.n; i++) {
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first = first &&
				strcmp(images.images.v[k].name, images.images.v[i].name) != 0;
		distinct += first;
	}
	copies = opendir(images.dir);
	assert_non_null(copies);
	for (struct dirent *e; (e = readdir(copies)) != NULL;)
		files += e->d_name[0] != '.';
	(void)closedir(copies);
	assert_int_equal(files, distinct);
	assert_true(images.images.n > distinct);
	(void)munmap(a, SIZE);
	(void)munmap(b, SIZE);
	(void)munmap(c, SIZE);
	(void)munmap(d, SIZE);
}

static void what_is_there_at_the_end_comes_last(void **state)
{
	uint8_t *at;

	(void)state;
	make_elf("back", "\x01\x00\x00\x01", 0x90);
	make_elf("between", "\x02\x00\x00\x02", 0xcc);
	at = map_file("back", NULL);
	scan();
	assert_ptr_equal(map_file("between", at), at);
	scan();
	assert_true(place_of("back") < place_of("between"));
	assert_ptr_equal(map_file("back", at), at);
	scan();
	assert_int_equal(ptm_images_settle(&images), 0);
	assert_true(place_of("between") < place_of("back"));
	/* What is gone is kept. */
	assert_int_equal(byte_of(image_of("between"), PAGE), 0xcc);
	(void)munmap(at, SIZE);
}

/* Text relocations, a file that was replaced: what runs is what lies in memory. */
static void memory_wins_over_its_file(void **state)
{
	uint8_t *at;

	(void)state;
	make_elf("new", "\x03\x00\x00\x03", 0x90);
	at = map_file("new", NULL);
	assert_int_equal(mprotect(at, SIZE, PROT_READ | PROT_WRITE), 0);
	at[PAGE + 1] = 0xf4;
	assert_int_equal(mprotect(at, SIZE, PROT_READ | PROT_EXEC), 0);
	scan();
	assert_int_equal(ptm_images_settle(&images), 0);
	assert_null(image_of("new")->source);
	assert_string_equal(image_of("new")->build_id, "");
	assert_int_equal(byte_of(image_of("new"), PAGE), 0x90);
	assert_int_equal(byte_of(image_of("new"), PAGE + 1), 0xf4);
	assert_int_equal(ptm_images_offset(&images, &images.maps.v[place_of("new")]), 0);
	(void)munmap(at, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(same_bytes_lie_there_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_there_at_the_end_comes_last, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(memory_wins_over_its_file, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
