# SPDX-License-Identifier: Apache-2.0
"""What was executed most (`stat --hot`), of the captures of datasets/ and of real recordings.

Of the small ones everything is counted here once more, from the text that `decode --engine libipt` prints: there libipt
decides what is executed, and capstone what a branch is and where it leads.  Of all the two engines must list the same, for
any number of workers and size of segments, and the lists must add up.

libipt does not say where a branch led if an overflow follows it directly; so where there are overflows it may know a few
branches less.
"""
import collections
import json
import os
import pathlib
import re
import sys

import real

DATASETS = pathlib.Path(os.environ["SRC"], "datasets")
COUNTED = ("noise", "shapes", "sig", "threads")
ALL = "100000"
PAIRS = [("2", "4096"), ("8", "1000"), ("3", "64")]
PIE = ("dynamorio-pie/trace.pt --cpu 6/85/7 --raw dynamorio-pie/hello:0x1000-0x2000:0x563f851fb000 "
       "--raw dynamorio-pie/ld-2.33.so:0x1000-0x25000:0x7f68d5f4b000 --raw dynamorio-pie/libc-2.33.so:0x22000-0x17a000:0x7f68d5d79000")
REAL = (PIE, "lldb/intelpt-trace", "lldb/intelpt-trace-multi-file/multi-file-no-ld.json", "lldb/intelpt-multi-core-trace")
PREFIXES = {"bnd", "notrack", "rep", "repe", "repne", "repz", "repnz", "lock", "data16"}
NEXT = re.compile(r"\[(?:async disabled|async branch) ip=([0-9a-f]{16})")
BREAKS = ("[enabled", "[resumed", "[disabled", "[overflow", "[gap", "[stream", "[async")


def kind_of(text):
    """none, direct, cond or way, and the target of what has one."""
    words = text.split()
    while words[0] in PREFIXES and len(words) > 1:
        words = words[1:]
    name, target = words[0], words[1] if len(words) == 2 and words[1].startswith("0x") else None
    if name.startswith("loop") or name.startswith("j") and name != "jmp":
        return "cond", int(target, 16)
    if name in ("jmp", "call"):
        return ("direct" if target else "way"), None
    if name.startswith(("ret", "iret", "sysret", "sysexit", "syscall", "sysenter", "int", "ljmp", "lcall")):
        return "way", None
    return "none", None


class Counts:
    """Of the lines of `decode`, once more."""

    def __init__(self, lines):
        self.insns, self.succ, self.kind = collections.Counter(), {}, {}
        self.taken, self.fall, self.ways = collections.Counter(), collections.Counter(), collections.Counter()
        before = None
        for line in lines:
            if line[0] == "[":
                stands = NEXT.match(line)
                if stands and before is not None:
                    self.step(before, int(stands[1], 16))
                if line.startswith(BREAKS):
                    before = None
                continue
            ip = int(line[:16], 16)
            if ip not in self.kind:
                self.kind[ip] = kind_of(line[18:])
            if before is not None:
                self.step(before, ip)
            self.insns[ip] += 1
            before = ip

    def step(self, ip, to):
        kind, target = self.kind[ip]
        if kind == "none":
            # A `rep` that was interrupted stands where it stood.
            if to != ip:
                self.succ[ip] = to
        elif kind == "cond":
            (self.taken if to == target else self.fall)[ip] += 1
        elif kind == "way":
            self.ways[ip, to] += 1

    def blocks(self):
        done, found = set(), set()
        for begin in sorted(self.insns):
            if begin in done:
                continue
            ip, n = begin, 0
            while True:
                done.add(ip)
                n += 1
                to = self.succ.get(ip) if self.kind[ip][0] == "none" else None
                if to is None or to in done or self.insns[to] != self.insns[ip]:
                    break
                ip = to
            found.add((begin, n, self.insns[begin]))
        return found


def address(row):
    return int(row["address"], 16)


def hot(capture, *options):
    text = real.run("stat", "-q", "--json", "--hot", ALL, *options, capture)
    report = json.loads(text)
    del report["run"]
    return report


def check_counted(name):
    capture = DATASETS / name
    counts = Counts(real.run("decode", "-q", "--engine", "libipt", capture).decode().splitlines())
    report = hot(capture, "--resync", "psb")
    lists = report["hot"]
    got = {(address(b), b["length"], b["executions"]) for b in lists["blocks"]}
    bad = [f"{name}: block {b}" for b in sorted(got ^ counts.blocks())]
    streams = report["streams"]
    slack = sum(s["overflows"] for s in streams)
    if sum(counts.insns.values()) != lists["instructions"]:
        bad.append(f"{name}: {lists['instructions']} instructions and not {sum(counts.insns.values())}")
    branches = {address(b): (b["taken"], b["not_taken"]) for b in lists["branches"]}
    ways = {(address(b), address(t)): t["times"] for b in lists["indirect"] for t in b["targets"]}
    over = 0
    for ip in branches.keys() | counts.taken.keys() | counts.fall.keys():
        more = [a - b for a, b in zip(branches.get(ip, (0, 0)), (counts.taken[ip], counts.fall[ip]))]
        over += sum(more)
        bad += [f"{name}: branch {ip:#x}: {more}"] * (min(more) < 0)
    for way in ways.keys() | counts.ways.keys():
        more = ways.get(way, 0) - counts.ways[way]
        over += more
        bad += [f"{name}: way {way[0]:#x} to {way[1]:#x}: {more}"] * (more < 0)
    if over > slack:
        bad.append(f"{name}: {over} branches too many, with {slack} overflows")
    if len(lists["branches"]) < 20 or len(got) < 100:
        bad.append(f"{name}: only {len(lists['branches'])} branches and {len(got)} blocks: is that the dataset?")
    print(f"{name}: {len(got)} blocks, {len(branches)} branches, {len(ways)} ways counted again, {over} more than libipt shows")
    return bad


def known(report):
    lists = report["hot"]
    return sum(b["taken"] + b["not_taken"] for b in lists["branches"]) + sum(b["executions"] for b in lists["indirect"])


def compare(name, fast, libipt):
    bad = [f"{name}: the engines list other {key}" for key in ("instructions", "functions", "blocks")
           if fast["hot"][key] != libipt["hot"][key]]
    slack = sum(s["overflows"] for s in fast["streams"])
    if slack == 0 and fast["hot"] != libipt["hot"]:
        bad.append(f"{name}: the engines list other branches")
    if not 0 <= known(fast) - known(libipt) <= slack:
        bad.append(f"{name}: {known(fast)} branches by fast, {known(libipt)} by libipt, with {slack} overflows")
    return bad


def check_engines(capture):
    fast = hot(capture, "--resync", "psb", "-j", "1")
    bad = compare(capture.name, fast, hot(capture, "--engine", "libipt"))
    for threads, size in PAIRS:
        if hot(capture, "--resync", "psb", "-j", threads, "--segment-size", size) != fast:
            bad.append(f"{capture.name}: another report with -j {threads} --segment-size {size}")
    lists = fast["hot"]
    executed = sum(s["instructions"] + s["resynced"] for s in fast["streams"])
    for key in ("functions", "blocks"):
        if sum(row["instructions"] for row in lists[key]) != executed or executed != lists["instructions"]:
            bad.append(f"{capture.name}: the {key} do not add up to {executed} instructions")
    for row in lists["indirect"]:
        if sum(t["times"] for t in row["targets"]) != row["executions"] or len(row["targets"]) != row["different_targets"]:
            bad.append(f"{capture.name}: targets of {row['address']} do not add up")
    return bad


def check_real(options):
    traces = real.real_traces()
    args = ["stat", "-q", "--json", "--hot", ALL, *options.split()]
    fast = json.loads(real.run(*args, "--resync", "psb", cwd=traces))
    libipt = json.loads(real.run(*args, "--engine", "libipt", cwd=traces))
    if fast["hot"]["instructions"] == 0:
        return [f"{options}: nothing is executed"]
    return compare(options.split()[0], fast, libipt)


def main():
    captures = sorted(p.parent for p in DATASETS.glob("*/capture.json"))
    if len(captures) < 8:
        sys.exit(f"only {len(captures)} captures in {DATASETS}")
    # The comparison must be able to fail.
    assert Counts(["0000000000000001  nop", "0000000000000002  je 0x1", "0000000000000001  nop", "[overflow]",
                   "0000000000000003  ret", "[async disabled ip=0000000000000009]"]).blocks() == {
                       (1, 1, 2), (2, 1, 1), (3, 1, 1)}
    bad = sum(real.each(check_counted, COUNTED), []) + sum(real.each(check_engines, captures), [])
    print(f"{len(captures)} captures: same by both engines and by {len(PAIRS)} ways to share the work")
    if real.real_traces() is None:
        print("real recordings are skipped: PTMILL_REAL_TRACES is not set")
    else:
        bad += sum(real.each(check_real, REAL), [])
        print(f"{len(REAL)} real recordings: same by both engines")
    print("\n".join(bad[:40]))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
