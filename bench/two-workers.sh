#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# two-workers.sh - two workers against one: wall and CPU seconds of `ptmill digest` on a trace of 20 MiB.
#
# Runs of -j1 and -j2 take turns (RUNS each, default 7), so that what else the machine does meets both alike; medians are
# compared.  The program is $PTMILL, or that of preset release.  A line of JSON is appended to bench/results/two-workers.jsonl.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PTMILL=${PTMILL:-$here/../build/release/src/cli/ptmill}
if [ ! -x "$PTMILL" ]; then
	echo "two-workers.sh: no program at $PTMILL: build preset release, or set PTMILL" >&2
	exit 66
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/make-large.sh" "$work/large.pt"
mkdir -p "$here/results"
python3 - "$PTMILL" "$work/large.pt" "$here" "${RUNS:-7}" <<'END'
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import time

program, trace, here, runs = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), max(5, int(sys.argv[4]))
image, = (here / "../datasets/calc/images").iterdir()


def measure(workers):
    """Wall and CPU seconds of one run, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    out = subprocess.run([program, "digest", "-q", "-j", str(workers), "--elf", image, trace], check=True,
                         capture_output=True, text=True).stdout
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def cpu_model():
    m = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return m.group(1) if m else platform.machine()


measure(1)  # the file is in memory, the CPU awake
samples = {1: [], 2: []}
printed = set()
for _ in range(runs):
    for workers in samples:
        wall, cpu, out = measure(workers)
        samples[workers].append((wall, cpu))
        printed.add(out)
if len(printed) != 1:
    sys.exit(f"one and two workers print other results: {printed}")
instructions = int(re.search(r"instructions (\d+)", printed.pop()).group(1))
result = {"bench": "two-workers", "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
          "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
          "trace_bytes": os.path.getsize(trace), "instructions": instructions, "runs": runs}
print(f"{result['cpu']}, {result['cores']} CPUs, load {result['load']:.1f}; {instructions} instructions, "
      f"{result['trace_bytes']} bytes, {runs} runs each, medians (least to most):")
for workers, list_ in samples.items():
    walls, cpus = zip(*list_)
    wall, cpu = statistics.median(walls), statistics.median(cpus)
    result[f"j{workers}"] = {"wall_s": round(wall, 4), "cpu_s": round(cpu, 4), "walls_s": [round(w, 4) for w in walls]}
    print(f"  -j{workers}: wall {wall:.3f} s ({min(walls):.3f} to {max(walls):.3f}), CPU {cpu:.3f} s "
          f"({min(cpus):.3f} to {max(cpus):.3f}), {instructions / wall / 1e6:.1f} M instructions/s")
result["speedup"] = round(result["j1"]["wall_s"] / result["j2"]["wall_s"], 3)
result["cpu_ratio"] = round(result["j2"]["cpu_s"] / result["j1"]["cpu_s"], 3)
print(f"  two workers are {result['speedup']} times as fast as one, and use {result['cpu_ratio']} times the CPU time")
with open(here / "results/two-workers.jsonl", "a") as f:
    f.write(json.dumps(result) + "\n")
END
