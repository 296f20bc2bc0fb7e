/* SPDX-License-Identifier: Apache-2.0
 *
 * stat_print.c - the figures of a run as a table and as JSON.
 *
 * Both derive the same figures (struct derived).  "Branches" are those that take a packet:
 * conditional branches, near returns, indirect branches, far transfers; direct calls are counted,
 * but cost no packet.
 */
#include "sink/stat.h"

#include "fmt/pt_packet.h"
#include "os/json.h"
#include "ptmill/event.h"

#include <inttypes.h>
#include <math.h>

struct derived {
	uint64_t branches;
	uint64_t accounted; /* sum of the byte classes */
	uint64_t gaps;
	double bits_per_branch, bytes_per_insn, frame_mean; /* NAN: does not apply */
	double seconds; /* from the first TSC packet to the last, which is a PSB's length short; NAN
			 */
};

static double ratio(double a, uint64_t b)
{
	return b > 0 ? a / (double)b : NAN;
}

static struct derived derive(const struct ptm_stat_stream *stream)
{
	const struct ptm_tally *t = &stream->tally;
	struct derived d = {.branches = t->cond + t->ret + t->indirect + t->far};

	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		d.accounted += t->bytes[i];
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++)
		d.gaps += t->gaps[i];
	d.bits_per_branch = ratio((double)stream->size * 8, d.branches);
	d.bytes_per_insn = ratio((double)stream->size, t->insns);
	d.frame_mean = ratio((double)t->frame_sum, t->frame_n);
	d.seconds = stream->tsc_hz > 0 && t->tsc_max > t->tsc_min
			    ? (double)(t->tsc_max - t->tsc_min) / stream->tsc_hz
			    : NAN;
	return d;
}

static struct ptm_json *json_branches(const struct ptm_tally *t, const struct derived *d)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_u64(j, "total", d->branches);
	ptm_json_set_u64(j, "conditional", t->cond);
	ptm_json_set_u64(j, "returns", t->ret);
	ptm_json_set_u64(j, "indirect", t->indirect);
	ptm_json_set_u64(j, "far", t->far);
	ptm_json_set_u64(j, "calls", t->call);
	return j;
}

static struct ptm_json *json_packets(const struct ptm_tally *t)
{
	struct ptm_json *j = ptm_json_object();

	for (unsigned i = 0; i < PTM_PKT_KINDS; i++) {
		struct ptm_json *kind;

		if (t->packets[i] == 0)
			continue;
		kind = ptm_json_object();
		ptm_json_set_u64(kind, "count", t->packets[i]);
		ptm_json_set_u64(kind, "bytes", t->packet_bytes[i]);
		ptm_json_set(j, ptm_pkt_name(i), kind);
	}
	return j;
}

static struct ptm_json *json_psbs(const struct ptm_tally *t, const struct derived *d)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_u64(j, "count", t->frames);
	ptm_json_set_u64(j, "min", t->frame_min);
	ptm_json_set_double(j, "mean", d->frame_mean);
	ptm_json_set_u64(j, "max", t->frame_max);
	return j;
}

/* Advice on the size of a ring buffer: how long a GiB of this trace lasts. */
static double ring_seconds(const struct ptm_stat_stream *stream, const struct derived *d)
{
	return d->seconds / (double)stream->size * (double)(1u << 30);
}

static struct ptm_json *json_time(const struct ptm_stat_stream *stream, const struct derived *d)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_u64(j, "tsc_first", stream->tally.tsc_min);
	ptm_json_set_u64(j, "tsc_last", stream->tally.tsc_max);
	if (!isnan(d->seconds)) {
		ptm_json_set_double(j, "seconds", d->seconds);
		ptm_json_set_double(j, "trace_mb_per_second",
				    (double)stream->size / 1e6 / d->seconds);
		ptm_json_set_double(j, "ring_1_gib_seconds", ring_seconds(stream, d));
	}
	return j;
}

static struct ptm_json *json_gaps(const struct ptm_tally *t, const struct derived *d)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_u64(j, "total", d->gaps);
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++) {
		if (t->gaps[i] > 0)
			ptm_json_set_u64(j, ptm_gap_name(i), t->gaps[i]);
	}
	return j;
}

static struct ptm_json *json_bytes(const struct ptm_stat_stream *stream, const struct derived *d)
{
	struct ptm_json *j = ptm_json_object();

	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		ptm_json_set_u64(j, ptm_byte_class_name(i), stream->tally.bytes[i]);
	ptm_json_set_u64(j, "sum", d->accounted);
	ptm_json_set_u64(j, "size", stream->size);
	ptm_json_set_bool(j, "exact", d->accounted == stream->size);
	return j;
}

static struct ptm_json *json_stream(const struct ptm_stat_stream *stream)
{
	const struct ptm_tally *t = &stream->tally;
	struct derived d = derive(stream);
	struct ptm_json *j = ptm_json_object();

	if (stream->name != NULL)
		ptm_json_set_str(j, "name", stream->name);
	ptm_json_set_u64(j, "size", stream->size);
	ptm_json_set_u64(j, "instructions", t->insns);
	if (stream->name != NULL)
		ptm_json_set_hex(j, "digest", stream->digest.b);
	ptm_json_set_u64(j, "resynced", t->resynced);
	ptm_json_set_u64(j, "guessed_runs", t->guessed);
	ptm_json_set(j, "branches", json_branches(t, &d));
	ptm_json_set_u64(j, "tnt_bits", t->tnt_bits);
	ptm_json_set_double(j, "trace_bits_per_branch", d.bits_per_branch);
	ptm_json_set_double(j, "trace_bytes_per_instruction", d.bytes_per_insn);
	ptm_json_set(j, "packets", json_packets(t));
	ptm_json_set(j, "psb_spacing", json_psbs(t, &d));
	if (stream->name != NULL && t->tsc_max > 0)
		ptm_json_set(j, "time", json_time(stream, &d));
	ptm_json_set_u64(j, "events", t->events);
	ptm_json_set_u64(j, "overflows", t->overflows);
	ptm_json_set(j, "gaps", json_gaps(t, &d));
	ptm_json_set(j, "bytes", json_bytes(stream, &d));
	return j;
}

static struct ptm_json *json_run(const struct ptm_run_stats *run)
{
	struct ptm_json *j = ptm_json_object();

	ptm_json_set_u64(j, "workers", run->workers);
	ptm_json_set_u64(j, "pinned", run->pinned);
	ptm_json_set_u64(j, "segments", run->segments);
	ptm_json_set_double(j, "seconds", run->seconds);
	ptm_json_set_double(j, "cpu_seconds", run->cpu_seconds);
	ptm_json_set_double(j, "bytes_per_second", (double)run->bytes / run->seconds);
	ptm_json_set_double(j, "instructions_per_second", (double)run->insns / run->seconds);
	return j;
}

int ptm_stat_print_json(const struct ptm_stat *stat, struct ptm_out *out, struct ptm_error *err)
{
	struct ptm_json *root = ptm_json_object();
	struct ptm_json *streams = ptm_json_array();
	int status;

	for (size_t i = 0; i < stat->nstreams; i++)
		ptm_json_append(streams, json_stream(&stat->streams[i]));
	ptm_json_set(root, "streams", streams);
	if (stat->total != NULL)
		ptm_json_set(root, "total", json_stream(stat->total));
	if (stat->hot != NULL)
		ptm_json_set(root, "hot", ptm_hot_json(stat->hot));
	if (stat->run != NULL)
		ptm_json_set(root, "run", json_run(stat->run));
	status = ptm_json_write(root, out, err);
	ptm_json_destroy(root);
	return status;
}

/* The lines of the table: a label in 28 columns, then a number. */
static int put_u64(struct ptm_out *out, const char *label, uint64_t v, struct ptm_error *err)
{
	return ptm_out_printf(out, err, "  %-26s%15" PRIu64 "\n", label, v);
}

static int put_double(struct ptm_out *out, const char *label, double v, struct ptm_error *err)
{
	if (isnan(v))
		return ptm_out_printf(out, err, "  %-26s%15s\n", label, "-");
	return ptm_out_printf(out, err, "  %-26s%15.3f\n", label, v);
}

static int put_flow(const struct ptm_stat_stream *stream, const struct derived *d,
		    struct ptm_out *out, struct ptm_error *err)
{
	const struct ptm_tally *t = &stream->tally;

	PTM_TRY(put_u64(out, "instructions", t->insns, err));
	if (stream->name != NULL)
		PTM_TRY(ptm_out_printf(out, err, "  %-23s0x%016" PRIx64 "\n", "digest",
				       stream->digest.b));
	PTM_TRY(put_u64(out, "resynced", t->resynced, err));
	/* Rare: runs with an instruction that Zydis does not know. */
	if (t->guessed > 0)
		PTM_TRY(put_u64(out, "guessed runs", t->guessed, err));
	PTM_TRY(put_u64(out, "branches with a packet", d->branches, err));
	PTM_TRY(put_u64(out, "  conditional", t->cond, err));
	PTM_TRY(put_u64(out, "  returns", t->ret, err));
	PTM_TRY(put_u64(out, "  indirect", t->indirect, err));
	PTM_TRY(put_u64(out, "  far", t->far, err));
	PTM_TRY(put_u64(out, "calls", t->call, err));
	PTM_TRY(put_u64(out, "tnt bits", t->tnt_bits, err));
	PTM_TRY(put_double(out, "trace bits a branch", d->bits_per_branch, err));
	PTM_TRY(put_double(out, "trace bytes an instruction", d->bytes_per_insn, err));
	PTM_TRY(put_u64(out, "events", t->events, err));
	PTM_TRY(put_u64(out, "overflows", t->overflows, err));
	PTM_TRY(put_u64(out, "gaps", d->gaps, err));
	for (unsigned i = 0; i < PTM_GAP_KINDS; i++) {
		if (t->gaps[i] > 0)
			PTM_TRY(ptm_out_printf(out, err, "    %-24s%15" PRIu64 "\n",
					       ptm_gap_name(i), t->gaps[i]));
	}
	return 0;
}

static int put_packets(const struct ptm_tally *t, const struct derived *d, struct ptm_out *out,
		       struct ptm_error *err)
{
	PTM_TRY(put_u64(out, "psbs", t->frames, err));
	PTM_TRY(put_u64(out, "  least bytes apart", t->frame_min, err));
	PTM_TRY(put_double(out, "  mean", d->frame_mean, err));
	PTM_TRY(put_u64(out, "  most", t->frame_max, err));
	PTM_TRY(ptm_out_printf(out, err, "  %-26s%15s%15s\n", "packets", "count", "bytes"));
	for (unsigned i = 0; i < PTM_PKT_KINDS; i++) {
		if (t->packets[i] > 0)
			PTM_TRY(ptm_out_printf(out, err, "    %-24s%15" PRIu64 "%15" PRIu64 "\n",
					       ptm_pkt_name(i), t->packets[i], t->packet_bytes[i]));
	}
	return 0;
}

static int put_time(const struct ptm_stat_stream *stream, const struct derived *d,
		    struct ptm_out *out, struct ptm_error *err)
{
	if (stream->name == NULL || isnan(d->seconds))
		return 0;
	PTM_TRY(put_double(out, "seconds of trace", d->seconds, err));
	PTM_TRY(put_double(out, "MB of trace a second", (double)stream->size / 1e6 / d->seconds,
			   err));
	return put_double(out, "seconds in a 1 GiB ring", ring_seconds(stream, d), err);
}

static int put_bytes(const struct ptm_stat_stream *stream, const struct derived *d,
		     struct ptm_out *out, struct ptm_error *err)
{
	PTM_TRY(ptm_out_printf(out, err, "  %s\n", "bytes"));
	for (unsigned i = 0; i < PTM_BYTES_CLASSES; i++)
		PTM_TRY(ptm_out_printf(out, err, "    %-24s%15" PRIu64 "\n", ptm_byte_class_name(i),
				       stream->tally.bytes[i]));
	PTM_TRY(put_u64(out, "  sum", d->accounted, err));
	return ptm_out_printf(out, err, "  %-26s%15" PRIu64 "%s\n", "  size of the trace",
			      stream->size,
			      d->accounted == stream->size ? ", every byte is accounted for"
							   : ", DIFFERS FROM THE SUM");
}

static int put_stream(const struct ptm_stat_stream *stream, struct ptm_out *out,
		      struct ptm_error *err)
{
	struct derived d = derive(stream);

	if (stream->name != NULL)
		PTM_TRY(ptm_out_printf(out, err, "stream %s\n", stream->name));
	else
		PTM_TRY(ptm_out_printf(out, err, "total\n"));
	PTM_TRY(put_flow(stream, &d, out, err));
	PTM_TRY(put_packets(&stream->tally, &d, out, err));
	PTM_TRY(put_time(stream, &d, out, err));
	return put_bytes(stream, &d, out, err);
}

int ptm_stat_print_table(const struct ptm_stat *stat, struct ptm_out *out, struct ptm_error *err)
{
	for (size_t i = 0; i < stat->nstreams; i++)
		PTM_TRY(put_stream(&stat->streams[i], out, err));
	if (stat->total != NULL)
		PTM_TRY(put_stream(stat->total, out, err));
	return stat->hot != NULL ? ptm_hot_print_table(stat->hot, out, err) : 0;
}
