/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_bundle.c - LLDB bundles and context switches of any content.
 *
 * Up to the first NUL the input is a trace.json, behind it stand the bytes of the file "s" beside
 * it, which "contextSwitchTrace" may name.  The same bytes also go to the parser of records in two
 * pieces cut anywhere, which must say the same as in one.
 */
#include "desc_check.h"

#include "input/desc_priv.h"
#include "input/switches.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/ptm-fuzz-bundle-XXXXXX";
static char records[sizeof(dir) + 2];

static void clean_up(void)
{
	(void)unlink(records);
	(void)rmdir(dir);
}

static void write_records(const uint8_t *data, size_t size)
{
	FILE *f;

	if (records[0] == '\0') {
		CHECK(mkdtemp(dir) != NULL);
		(void)snprintf(records, sizeof(records), "%s/s", dir);
		(void)atexit(clean_up);
	}
	f = fopen(records, "wb");
	CHECK(f != NULL && (size == 0 || fwrite(data, 1, size, f) == size));
	(void)fclose(f);
}

static void read_bundle(const char *text, size_t len)
{
	struct ptm_desc desc = {0};
	struct ptm_error err = {0};
	struct ptm_json_doc *doc = ptm_json_read_text("trace.json", text, len, &err);
	int ret = -(int)err.code;

	if (doc != NULL)
		ret = ptm_lldb_read(&desc, doc, dir, &err);
	if (ret == 0)
		check_desc(&desc);
	else if (err.code != PTM_E_NOINPUT)
		check_refusal(&err, ret);
	ptm_json_doc_destroy(doc);
	ptm_desc_fini(&desc);
}

static void parse_records(const uint8_t *data, size_t size)
{
	static const struct ptm_desc_time time = {true, 1076264588, 31, 77};
	struct ptm_desc_stream one = {0}, two = {0};
	struct ptm_error err = {0};
	size_t left = 1 << 20, cut = size > 0 ? data[0] % (size + 1) : 0;
	int64_t n = ptm_switches_parse(&one, &time, data, size, 0, "s", &left, &err);
	int64_t a = ptm_switches_parse(&two, &time, data, cut, 0, "s", &left, &err), b = 0;

	CHECK(n <= (int64_t)size && a <= (int64_t)cut);
	if (n < 0)
		check_refusal(&err, (int)n);
	if (a >= 0)
		b = ptm_switches_parse(&two, &time, data + a, size - (size_t)a, (uint64_t)a, "s",
				       &left, &err);
	CHECK(a < 0 || b < 0 ? n < 0 : n == a + b);
	CHECK(one.switches.n == two.switches.n);
	if (one.switches.n > 0)
		CHECK(memcmp(one.switches.v + one.switches.n - 1,
			     two.switches.v + two.switches.n - 1,
			     offsetof(struct ptm_desc_switch, in)) == 0);
	free(one.switches.v);
	free(two.switches.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = strnlen((const char *)data, size);
	size_t more = len < size ? len + 1 : size;

	write_records(data + more, size - more);
	read_bundle((const char *)data, len);
	parse_records(data + more, size - more);
	return 0;
}
