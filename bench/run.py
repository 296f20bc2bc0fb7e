#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All benchmarks over the medium data sets, as a table and as JSON.

A round takes every program in turn: its native run, repeated until it has used a second of CPU time, then `ptmill bench` once: whole
process with an empty cache; one thread, empty cache; one thread and many, cache filled by another recording of the program; libipt's
two decoders.  Rounds follow one another, so that what else the machine does meets all alike; figures are medians over the rounds.
Samples are appended to RESULTS/samples.jsonl as they come, and what is there already counts (--fresh: not), so that a run can be
stopped and gone on with.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ["gzip", "xz", "sqlite3", "perl", "python3", "cc1", "node"]
# The recorded program ran on qemu's CPU, which has AVX2 and ERMS, but not AVX-512, RTM and FSRM: the same string functions of the C library.
TUNABLES = ("GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-RTM,-FSRM:"
            "glibc.cpu.x86_rep_movsb_threshold=8192")
NATIVE_SECONDS = 1.0


def say(text):
    print(text, file=sys.stderr, flush=True)


def cpu_of_child(args, **kw):
    """CPU seconds of a process and those that it waited for."""
    child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime, usage.ru_stime


def native(command):
    """Mean CPU seconds of a run: user alone, user and system."""
    user = system = 0.0
    runs = 0
    while user + system < NATIVE_SECONDS:
        u, s = cpu_of_child(command)
        user, system, runs = user + u, system + s, runs + 1
    return {"native_user": user / runs, "native": (user + system) / runs, "native_runs": runs}


def commands(work, names):
    """What was recorded, to be run natively."""
    out = subprocess.run([HERE.parent / "scripts/make-datasets.sh", "--inputs", work / "native", *names], check=True,
                         capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        name, *words = shlex.split(line)
        at = words.index("-i") + 1
        found[name] = words[:at] + [TUNABLES] + words[at:]
    return found


def record(args, names):
    """The recordings that are not there yet."""
    for where, seed, *more in ((args.data, 1), (args.other, 2), (args.plain, 1, "--plain"), (args.plain / "other", 2, "--plain")):
        if more and args.only not in (None, "plain") or more and args.quick:
            continue
        missing = [n for n in names if not (where / n / "capture.json").exists()]
        if missing:
            say(f"recording {' '.join(missing)} (seed {seed}) into {where}")
            subprocess.run([HERE.parent / "scripts/make-datasets.sh", "--seed", str(seed), *more, where, *missing], check=True,
                           stdout=sys.stderr)


def bench(args, trace, other, *more):
    """One run of `ptmill bench` over @trace."""
    run = subprocess.run([args.ptmill, "bench", "--json", "--runs", "1", "-j", str(args.threads), "--warm", other, *more, trace],
                         capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"run.py: ptmill bench {trace}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def sample(args, name, command, libipt):
    r = bench(args, args.data / name, args.other / name, *([] if libipt else ["--no-libipt"]))
    if not r["agree"]:
        say(f"{name}: the decoders saw different instructions")
    s = {"name": name, "agree": r["agree"], **native(command), "load": os.getloadavg()[0], "cache": r["cache"]}
    s.update({k: r[k] for k in ("trace_bytes", "instructions", "digest", "branches", "tnt_bits", "tips", "threads")})
    for c in r["contenders"]:
        s[c["name"]] = {"cpu": c["cpu_seconds"]["median"], "wall": c["wall_seconds"]["median"],
                        **{k: c[k] for k in ("peak_rss", "decode_cpu_seconds", "serial_cpu_seconds") if k in c}}
    return s


def revision():
    git = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return git.stdout.strip() or None


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    return {"cpu": model.group(1) if model else platform.machine(), "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "virtual": "hypervisor" in text, "commit": revision(), "load": os.getloadavg()[0], "date": datetime.datetime.now().isoformat(timespec="seconds")}


def median(samples, *path):
    values = []
    for s in samples:
        for key in path:
            s = s.get(key) if s is not None else None
        if s is not None:
            values.append(s)
    return statistics.median(values) if values else math.nan


def ratios(samples, over, under, key="cpu"):
    """The median of what each round gives, for both sides met the same machine; of the medians if few rounds have both."""
    values = [s[over][key] / s[under][key] for s in samples if over in s and under in s]
    if len(values) >= 3 or len(values) == len(samples):
        return statistics.median(values)
    return median(samples, over, key) / median(samples, under, key)


def row(name, samples):
    last = samples[-1]
    cpu = {c: median(samples, c, "cpu") for c in ("process", "cold", "warm", "warm_threads", "libipt_block", "libipt_insn")}
    nat = median(samples, "native")
    return {
        "name": name, "rounds": len(samples), "libipt_rounds": sum("libipt_insn" in s for s in samples), "threads": last["threads"],
        "agree": all(s["agree"] for s in samples), "instructions": last["instructions"], "branches": last["branches"],
        "trace_bytes": last["trace_bytes"], "native_cpu_s": nat, "cpu_s": cpu,
        "cpu_s_min": {c: min((s[c]["cpu"] for s in samples if c in s), default=math.nan) for c in cpu},
        "cpu_s_max": {c: max((s[c]["cpu"] for s in samples if c in s), default=math.nan) for c in cpu},
        "warm_insns_per_s": last["instructions"] / cpu["warm"], "warm_bytes_per_s": last["trace_bytes"] / cpu["warm"],
        "warm_ns_a_branch": cpu["warm"] * 1e9 / last["branches"], "cold_ns_a_branch": cpu["cold"] * 1e9 / last["branches"],
        "slowdown": {c: median(samples, c, "cpu") / nat for c in cpu},
        "warm_by_insn": ratios(samples, "libipt_insn", "warm"), "warm_by_block": ratios(samples, "libipt_block", "warm"),
        "process_by_insn": ratios(samples, "libipt_insn", "process"), "process_by_block": ratios(samples, "libipt_block", "process"),
        "threads_by_one": ratios(samples, "warm", "warm_threads", "wall"), "threads_cpu": ratios(samples, "warm_threads", "warm"),
        "serial_share": median(samples, "warm", "serial_cpu_seconds") / median(samples, "warm", "cpu"),
        "decode_share": median(samples, "warm", "decode_cpu_seconds") / median(samples, "warm", "cpu"),
        "peak_rss": max([s[c]["peak_rss"] for s in samples for c in ("process", "process_threads") if c in s], default=0),
        "hit_rate_at_least": median(samples, "cache", "hit_rate_at_least"), "nodes": last["cache"]["nodes"], "edges": last["cache"]["edges"],
    }


def geomean(values):
    values = [v for v in values if not math.isnan(v)]
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan


COLUMNS = [
    ("native s", lambda r: r["native_cpu_s"], "{:.3f}", False),
    ("insn s", lambda r: r["cpu_s"]["libipt_insn"], "{:.2f}", False),
    ("block s", lambda r: r["cpu_s"]["libipt_block"], "{:.2f}", False),
    ("process s", lambda r: r["cpu_s"]["process"], "{:.3f}", False),
    ("cold s", lambda r: r["cpu_s"]["cold"], "{:.3f}", False),
    ("warm s", lambda r: r["cpu_s"]["warm"], "{:.3f}", False),
    ("M insn/s", lambda r: r["warm_insns_per_s"] / 1e6, "{:,.0f}", True),
    ("MB/s", lambda r: r["warm_bytes_per_s"] / 1e6, "{:,.0f}", True),
    ("ns/branch", lambda r: r["warm_ns_a_branch"], "{:.2f}", True),
    ("slowdown", lambda r: r["slowdown"]["warm"], "{:.2f}", True),
    ("insn slowdown", lambda r: r["slowdown"]["libipt_insn"], "{:.0f}", True),
    ("block slowdown", lambda r: r["slowdown"]["libipt_block"], "{:.1f}", True),
    ("warm : insn", lambda r: r["warm_by_insn"], "{:.0f}", True),
    ("warm : block", lambda r: r["warm_by_block"], "{:.1f}", True),
    ("process : block", lambda r: r["process_by_block"], "{:.1f}", True),
    ("threads : 1", lambda r: r["threads_by_one"], "{:.2f}", True),
    ("serial %", lambda r: r["serial_share"] * 100, "{:.1f}", False),
    ("hits %", lambda r: r["hit_rate_at_least"] * 100, "{:.2f}", False),
    ("RSS MiB", lambda r: r["peak_rss"] / 2**20, "{:.0f}", False),
]


def table(rows):
    """In Markdown; the last line has the geometric means of the columns that have one."""
    def cell(value, fmt):
        return "-" if math.isnan(value) else fmt.format(value)
    lines = ["| program | " + " | ".join(c[0] for c in COLUMNS) + " |", "|---|" + "--:|" * len(COLUMNS)]
    for r in rows:
        lines.append(f"| {r['name']} | " + " | ".join(cell(get(r), fmt) for _, get, fmt, _ in COLUMNS) + " |")
    means = [cell(geomean([get(r) for r in rows]), fmt) if mean else "" for _, get, fmt, mean in COLUMNS]
    lines.append("| geometric mean | " + " | ".join(means) + " |")
    return "\n".join(lines)


def main_part(args, names):
    path = args.results / "samples.jsonl"
    if args.fresh:
        path.unlink(missing_ok=True)
    what = commands(args.work, names)
    for round_ in range(args.rounds):
        for name in names:
            if name not in what:
                continue
            say(f"round {round_ + 1} of {args.rounds}: {name}")
            s = sample(args, name, what[name], round_ < args.libipt_rounds)
            with open(path, "a") as f:
                f.write(json.dumps(s) + "\n")
    samples = [json.loads(line) for line in open(path)] if path.exists() else []
    return [row(n, mine) for n in names if (mine := [s for s in samples if s["name"] == n])]


def stream_of(root):
    return root / json.loads((root / "capture.json").read_text())["streams"][0]["file"]


def repeated(args, name, times):
    """The stream of the capture @name again and again: each copy begins with a PSB, so each is decoded like the first."""
    path = args.work / f"{name}-x{times}.pt"
    data = stream_of(args.data / name).read_bytes()
    if not path.exists() or path.stat().st_size != len(data) * times:
        with open(path, "wb") as f:
            for _ in range(times):
                f.write(data)
    return path


def images_of(root):
    """The options by which a raw trace gets the images of a capture."""
    capture = json.loads((root / "capture.json").read_text())
    for m in capture["processes"][0]["mappings"]:
        image = root / m["image"]
        size = min(m["size"], image.stat().st_size - m["offset"])
        if size > 0:
            yield f"--raw={image}:{m['offset']:#x}-{m['offset'] + size:#x}:{int(str(m['address']), 0):#x}"


def size_part(args, name, sizes):
    """CPU and wall seconds at each size, warm and as a whole process."""
    rows = {t: [] for t in sizes}
    images = [*images_of(args.data / name)]
    for round_ in range(args.rounds):
        for t in sizes:
            say(f"round {round_ + 1} of {args.rounds}: {name}, {t} times")
            r = bench(args, repeated(args, name, t), stream_of(args.other / name), "--no-libipt", *images)
            rows[t].append({c["name"]: {"cpu": c["cpu_seconds"]["median"], "wall": c["wall_seconds"]["median"],
                                        "serial": c.get("serial_cpu_seconds"), "peak_rss": c.get("peak_rss")} for c in r["contenders"]})
    out = []
    for t in sizes:
        m = {"name": name, "times": t, "rounds": len(rows[t])}
        for who in ("warm", "warm_threads", "process", "process_threads"):
            if who in rows[t][0]:
                m[who] = {k: median(rows[t], who, k) for k in ("cpu", "wall", "serial", "peak_rss")}
        m["threads_by_one"] = ratios(rows[t], "warm", "warm_threads", "wall")
        m["warm_by_1x"] = statistics.median([a["warm"]["cpu"] / b["warm"]["cpu"] for a, b in zip(rows[t], rows[sizes[0]])])
        m["process_by_1x"] = statistics.median([a["process"]["cpu"] / b["process"]["cpu"] for a, b in zip(rows[t], rows[sizes[0]])])
        out.append(m)
    return out


def size_table(rows):
    lines = ["| trace | warm CPU s | by 1x | process CPU s | by 1x | threads : 1, wall | serial CPU s | RSS MiB |", "|---|" + "--:|" * 7]
    for r in rows:
        lines.append(f"| {r['name']} x {r['times']} | {r['warm']['cpu']:.3f} | {r['warm_by_1x']:.2f} | {r['process']['cpu']:.3f} | "
                     f"{r['process_by_1x']:.2f} | {r['threads_by_one']:.2f} | {r['warm']['serial']:.4f} | "
                     f"{r['process']['peak_rss'] / 2**20:.0f} |")
    return "\n".join(lines)


def plain_part(args, names):
    """Traces without time packets and compressed returns, warm."""
    rows = {n: [] for n in names}
    for round_ in range(args.rounds):
        for n in names:
            say(f"round {round_ + 1} of {args.rounds}: {n} without time packets and compressed returns")
            r = bench(args, args.plain / n, args.plain / "other" / n, "--no-libipt", "-j1")
            rows[n].append({c["name"]: c["cpu_seconds"]["median"] * 1e9 / r["branches"] for c in r["contenders"]})
    return [{"name": n, **{k: statistics.median(s[k] for s in rows[n]) for k in rows[n][0]}} for n in names]


def plain_table(rows):
    lines = ["| program | warm ns/branch | cold ns/branch |", "|---|--:|--:|"]
    lines += [f"| {r['name']} | {r['warm']:.2f} | {r['cold']:.2f} |" for r in rows]
    lines.append(f"| geometric mean | {geomean([r['warm'] for r in rows]):.2f} | {geomean([r['cold'] for r in rows]):.2f} |")
    return "\n".join(lines)


def text_part(args):
    """MB of text a second of wall time, to /dev/null."""
    rows = []
    for name in ("compress", "database"):
        root = HERE.parent / "datasets" / name
        for what, more in (("IPs only", ["--no-disasm"]), ("with disassembly", [])):
            command = [args.ptmill, "decode", "-q", "-j", str(args.threads), *more, root]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
                size = sum(len(part) for part in iter(lambda: child.stdout.read(1 << 20), b""))
            walls, cpus = [], []
            for _ in range(args.rounds):
                begin = time.monotonic()
                cpus.append(sum(cpu_of_child([*command, "-o", "/dev/null"])))
                walls.append(time.monotonic() - begin)
            rows.append({"name": name, "what": what, "bytes": size, "wall_s": statistics.median(walls), "cpu_s": statistics.median(cpus),
                         "wall_s_min": min(walls)})
    return rows


def text_table(rows):
    lines = ["| small capture | text | MB | wall s | MB/s | MB/s a CPU |", "|---|---|--:|--:|--:|--:|"]
    lines += [f"| {r['name']} | {r['what']} | {r['bytes'] / 1e6:.0f} | {r['wall_s']:.3f} | {r['bytes'] / 1e6 / r['wall_s']:.0f} | "
              f"{r['bytes'] / 1e6 / r['cpu_s']:.0f} |" for r in rows]
    return "\n".join(lines)


def micro_part(args, names):
    tool = args.micro
    if not tool.exists():
        say(f"{tool} is not built (-DPTM_BUILD_BENCH=ON): no micro-benchmarks")
        return []
    out = []
    for name in names:
        run = subprocess.run([tool, str(args.rounds), args.data / name, args.other / name], check=True, capture_output=True, text=True)
        out.append({"name": name, **json.loads(run.stdout)})
    return out


def micro_table(rows):
    if not rows:
        return ""
    keys = [k for k in rows[0] if k != "name"]
    lines = ["| program | " + " | ".join(k.replace("_", " ") for k in keys) + " |", "|---|" + "--:|" * len(keys)]
    lines += [f"| {r['name']} | " + " | ".join(f"{r[k]:.2f}" for k in keys) + " |" for r in rows]
    return "\n".join(lines)


def arguments():
    p = argparse.ArgumentParser(prog="bench/run.sh", description=__doc__.split("\n")[0])
    p.add_argument("--quick", action="store_true", help="one round, three programs, no cost by size")
    p.add_argument("--rounds", type=int, default=5, help="rounds (5)")
    p.add_argument("--libipt-rounds", type=int, metavar="N", help="rounds with libipt's decoders (all)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="where there are many (all CPUs)")
    p.add_argument("--work", type=pathlib.Path, default=pathlib.Path("bench-work"), help="what is made for the benchmarks (bench-work)")
    p.add_argument("--data", type=pathlib.Path, help="recordings of make-datasets.sh, made if missing (WORK/data)")
    p.add_argument("--other", type=pathlib.Path, help="recordings with another seed (WORK/other)")
    p.add_argument("--plain", type=pathlib.Path, help="recordings without time packets and compressed returns (WORK/plain)")
    p.add_argument("--results", type=pathlib.Path, default=HERE / "results", help="where results go (bench/results)")
    p.add_argument("--fresh", action="store_true", help="forget samples of earlier rounds")
    p.add_argument("--only", choices=["main", "micro", "plain", "size", "text"], help="one part only")
    p.add_argument("names", nargs="*", metavar="NAME", help=f"programs: {' '.join(NAMES)}")
    args = p.parse_args()
    args.names = args.names or (["gzip", "sqlite3", "perl"] if args.quick else NAMES)
    if args.quick:
        args.rounds = 1
    if args.libipt_rounds is None:
        args.libipt_rounds = args.rounds
    if any(n not in NAMES for n in args.names) or args.rounds < 0 or args.threads < 1:
        p.error("no such program, or a number that makes no sense")
    args.data = args.data or args.work / "data"
    args.other = args.other or args.work / "other"
    args.plain = args.plain or args.work / "plain"
    args.ptmill = pathlib.Path(os.environ.get("PTMILL", "ptmill")).resolve()
    args.micro = pathlib.Path(os.environ.get("PTM_MICRO", args.ptmill.parent / "../../bench/micro/ptm_micro"))
    return args


def main():
    args = arguments()
    for d in (args.work, args.results):
        d.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "threads": args.threads, "rounds": args.rounds}
    record(args, args.names)
    if args.only in (None, "main"):
        result["programs"] = main_part(args, args.names)
        result["geometric_means"] = {title: geomean([get(r) for r in result["programs"]]) for title, get, _, mean in COLUMNS if mean}
        print(table(result["programs"]) + "\n", flush=True)
    if args.only in (None, "micro"):
        result["micro"] = micro_part(args, args.names)
        print(micro_table(result["micro"]) + "\n", flush=True)
    if args.only in (None, "text"):
        result["text"] = text_part(args)
        print(text_table(result["text"]) + "\n", flush=True)
    if args.only == "plain" or (args.only is None and not args.quick):
        result["plain"] = plain_part(args, args.names)
        print(plain_table(result["plain"]) + "\n", flush=True)
    if args.only == "size" or (args.only is None and not args.quick):
        result["size"] = size_part(args, args.names[0] if args.names != NAMES else "xz", [1, 4, 16])
        print(size_table(result["size"]), flush=True)
    (args.results / ("run.json" if args.only is None else f"run-{args.only}.json")).write_text(json.dumps(result, indent=1) + "\n")
    if not all(r["agree"] for r in result.get("programs", [])):
        sys.exit("run.py: decoders saw different instructions: figures compare different work")


if __name__ == "__main__":
    main()
