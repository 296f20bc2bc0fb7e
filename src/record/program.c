/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - finds the program that is to be recorded.
 *
 * Scripts are followed as the kernel does it, by their first line; a file without one is no
 * program, though a shell would take it for a script.
 */
#include "record/program.h"

#include "base/bytes.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 256 };

static bool is_executable(const char *path)
{
	struct stat sb;

	return stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && access(path, X_OK) == 0;
}

char *ptm_find_program(const char *name)
{
	const char *dirs = getenv("PATH");
	char *path;

	if (strchr(name, '/') != NULL)
		return access(name, F_OK) == 0 ? strdup(name) : NULL;
	for (dirs = dirs != NULL ? dirs : "/bin:/usr/bin"; *dirs != '\0';) {
		int len = (int)strcspn(dirs, ":");

		if (asprintf(&path, "%.*s/%s", len > 0 ? len : 1, len > 0 ? dirs : ".", name) < 0)
			return NULL;
		if (is_executable(path))
			return path;
		free(path);
		dirs += len;
		dirs += *dirs == ':';
	}
	return NULL;
}

void ptm_program_fini(struct ptm_program *p)
{
	free(p->found);
	free(p->path);
	for (unsigned i = 0; i < p->n; i++)
		free(p->before[i]);
	*p = (struct ptm_program){0};
}

static int not_executable(struct ptm_error *err, const char *path, const char *why)
{
	return PTM_FAIL(err, PTM_E_NOINPUT, "Cannot execute \"%s\": %s", path, why);
}

static int no_memory(struct ptm_error *err)
{
	return PTM_FAIL(err, PTM_E_NOMEM, "Cannot start the program: out of memory");
}

/* @line begins with "#!".  The script becomes the first argument of its interpreter. */
static int use_interpreter(struct ptm_program *p, char *line, struct ptm_error *err)
{
	char *name = line + 2 + strspn(line + 2, " \t");
	size_t len = strcspn(name, " \t");
	char *arg = name + len + strspn(name + len, " \t");
	size_t end = strlen(arg);

	while (end > 0 && (arg[end - 1] == ' ' || arg[end - 1] == '\t'))
		arg[--end] = '\0';
	name[len] = '\0';
	if (len == 0 || p->n + 2 > sizeof(p->before) / sizeof(p->before[0]))
		return not_executable(err, p->path, "its first line names no interpreter");
	memmove(p->before + (*arg != '\0' ? 2 : 1), p->before, p->n * sizeof(p->before[0]));
	p->before[*arg != '\0' ? 1 : 0] = p->path;
	p->n++;
	if (*arg != '\0') {
		p->before[0] = strdup(arg);
		p->n++;
	}
	p->path = strdup(name);
	return p->path != NULL && (*arg == '\0' || p->before[0] != NULL) ? 0 : no_memory(err);
}

/* The program header at @offset: is what it asks for there? */
static int check_segment(const char *path, int fd, uint64_t offset, uint64_t size,
			 struct ptm_error *err)
{
	uint8_t ph[sizeof(Elf64_Phdr)];
	char name[PATH_MAX] = "";
	uint64_t at, len, end;

	if (pread(fd, ph, sizeof(ph), (off_t)offset) != (ssize_t)sizeof(ph))
		return not_executable(err, path, "the file is cut short");
	at = ptm_load_le64(ph + offsetof(Elf64_Phdr, p_offset));
	len = ptm_load_le64(ph + offsetof(Elf64_Phdr, p_filesz));
	switch (ptm_load_le32(ph + offsetof(Elf64_Phdr, p_type))) {
	case PT_LOAD:
		return !ptm_add_overflow(at, len, &end) && end <= size
			       ? 0
			       : not_executable(err, path, "the file is cut short");
	case PT_INTERP:
		if (len >= sizeof(name) || pread(fd, name, (size_t)len, (off_t)at) != (ssize_t)len)
			return not_executable(err, path, "the file is cut short");
		return is_executable(name)
			       ? 0
			       : PTM_FAIL(err, PTM_E_NOINPUT,
					  "Cannot execute \"%s\": its loader \"%s\" is missing",
					  path, name);
	default:
		return 0;
	}
}

/* @head is the begin of the file @fd.  Is it a program, and whole? */
static int check_elf(const char *path, int fd, const uint8_t head[LINE], struct ptm_error *err)
{
	unsigned type = ptm_load_le16(head + offsetof(Elf64_Ehdr, e_type));
	unsigned n = ptm_load_le16(head + offsetof(Elf64_Ehdr, e_phnum));
	uint64_t offset = ptm_load_le64(head + offsetof(Elf64_Ehdr, e_phoff));
	struct stat sb;

	if (memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64 ||
	    head[offsetof(Elf64_Ehdr, e_machine)] != EM_X86_64 ||
	    (type != ET_EXEC && type != ET_DYN))
		return not_executable(err, path, "no program for 64-bit x86");
	if (fstat(fd, &sb) != 0 || (uint64_t)sb.st_size < sizeof(Elf64_Ehdr) || n == 0 ||
	    ptm_load_le16(head + offsetof(Elf64_Ehdr, e_phentsize)) != sizeof(Elf64_Phdr) ||
	    offset > (uint64_t)sb.st_size)
		return not_executable(err, path, "the file is cut short");
	for (unsigned i = 0; i < n; i++)
		PTM_TRY(check_segment(path, fd, offset + i * sizeof(Elf64_Phdr),
				      (uint64_t)sb.st_size, err));
	return 0;
}

/* Returns 1 if p->path is a program, 0 if its interpreter has taken its place, or -PTM_E_*. */
static int follow(struct ptm_program *p, struct ptm_error *err)
{
	int fd = is_executable(p->path) ? open(p->path, O_RDONLY | O_CLOEXEC) : -1;
	char line[LINE] = "";
	int ret = 1;

	if (fd < 0)
		return not_executable(err, p->path,
				      access(p->path, F_OK) == 0 ? strerror(EACCES)
								 : strerror(ENOENT));
	if (read(fd, line, sizeof(line) - 1) < 0) {
		ret = not_executable(err, p->path, strerror(errno));
	} else if (memcmp(line, "#!", 2) != 0) {
		ret = check_elf(p->path, fd, (const uint8_t *)line, err);
		ret = ret < 0 ? ret : 1;
	} else {
		line[strcspn(line, "\n")] = '\0';
		ret = use_interpreter(p, line, err);
	}
	(void)close(fd);
	return ret;
}

int ptm_program_resolve(struct ptm_program *p, const char *name, struct ptm_error *err)
{
	int ret;

	*p = (struct ptm_program){.found = ptm_find_program(name)};
	if (p->found == NULL)
		return not_executable(err, name, strerror(ENOENT));
	p->path = strdup(p->found);
	if (p->path == NULL)
		return no_memory(err);
	do
		ret = follow(p, err);
	while (ret == 0);
	return ret < 0 ? ret : 0;
}
