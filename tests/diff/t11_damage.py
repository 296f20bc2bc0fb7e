# SPDX-License-Identifier: Apache-2.0
"""Damaged copies (scripts/damage.py) of captures and of real recordings, by the fast engine: the digest at every 10,007th
instruction is the same for any number of workers and segment size, by --resync psb and ip; and what is certain is the
same by both.
"""
import importlib.util
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import real

SRC = pathlib.Path(os.environ["SRC"])
KINDS = ["truncate", "rotate", "flip", "page", "overflow"]
SEEDS = range(1 if os.environ.get("PTM_SANITIZE") else 2)
CASES = [("1", "1M"), ("1", "64"), ("2", "1000"), ("3", "65536"), ("8", "4096")]


def mapping(image, begin, end, address):
    return {"image": image, "offset": begin, "size": end - begin, "address": address}


# Trace, the CPU, and the mappings as in capture.json.
REAL = [
    ("dynamorio-pie/trace.pt", "--cpu=6/85/7",
     [mapping("dynamorio-pie/hello", 0x1000, 0x2000, 0x563f851fb000),
      mapping("dynamorio-pie/ld-2.33.so", 0x1000, 0x25000, 0x7f68d5f4b000),
      mapping("dynamorio-pie/libc-2.33.so", 0x22000, 0x17a000, 0x7f68d5d79000)]),
    ("lldb/intelpt-multi-core-trace/cores/51.intelpt_trace", "--cpu=6/85/4",
     [mapping("lldb/intelpt-multi-core-trace/modules/m.out", 0, 0x1f82, 0x400000)]),
]


def damage_script():
    spec = importlib.util.spec_from_file_location("damage", SRC / "scripts/damage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources():
    """(directory, trace in it, description with the mappings, other options)"""
    for name in ("noise", "calc"):
        capture = SRC / "datasets" / name
        description = json.loads((capture / "capture.json").read_text())
        yield capture, description["streams"][0]["file"], description, []
    top = real.real_traces()
    if top is None:
        print(f"not looked at: {len(REAL)} real traces: PTMILL_REAL_TRACES is not set")
        return
    for trace, cpu, mappings in REAL:
        yield top, trace, {"processes": [{"mappings": mappings}]}, [cpu]


def damaged(damage, kind, seed, source, scratch):
    """The damaged trace, and options to decode it."""
    top, trace, description, cpu = source
    rng = random.Random(f"{trace} {kind} {seed}")
    data = (top / trace).read_bytes()
    if kind == "overflow":
        data = damage.overflow(rng, data, top / trace)
    elif kind != "page":
        data = {"truncate": damage.truncate, "rotate": damage.rotate, "flip": damage.flip}[kind](rng, data)
    path = pathlib.Path(scratch, "trace.pt")
    path.write_bytes(data)
    return path, [*cpu, *damage.options(rng, top, description, kind == "page")]


def digest(path, options):
    """What `ptmill digest` prints.  Of what is left without a PSB it says so, and exits with 65."""
    command = [os.environ["PTMILL"], "digest", "-q", "--every", "10007", path, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=real.TIMEOUT)
    if done.returncode != (0 if b"\x02\x82" * 8 in path.read_bytes() else 65):
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def check(job):
    damage, kind, seed, source = job
    what = f"{source[1]} {kind} {seed}"
    with tempfile.TemporaryDirectory() as scratch:
        path, options = damaged(damage, kind, seed, source, scratch)
        outs = {}
        for resync in ("psb", "ip"):
            texts = {digest(path, [*options, "--resync", resync, "-j", j, "--segment-size", size]) for j, size in CASES}
            if len(texts) != 1:
                return f"{what} --resync {resync}: the output depends on workers and segments", 0
            outs[resync] = texts.pop()
    certain, gained = re.subn(r"^stream .* resynced \d+ digest .*\n", "", outs["ip"], flags=re.M)
    if certain != outs["psb"]:
        return f"{what}: what is certain is, by ip,\n{certain}and by psb\n{outs['psb']}", 0
    return "", gained


def main():
    damage = damage_script()
    jobs = [(damage, kind, seed, source) for source in sources() for kind in KINDS for seed in SEEDS]
    results = real.each(check, jobs)
    failures = [text for text, _ in results if text]
    gained = sum(n for _, n in results)
    if not failures and gained == 0:
        failures = ["--resync ip gained nothing anywhere: nothing was compared"]
    print("\n".join(failures) or f"{len(jobs)} damaged traces, {2 * len(CASES)} runs each; {gained} with resynced instructions")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
