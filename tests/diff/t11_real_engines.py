# SPDX-License-Identifier: Apache-2.0
"""Real recordings: the fast engine against libipt, and what --resync ip gains over --resync psb (docs/resync.md).

With --resync psb the engines must tell the same, frame by frame, but for the size of the gaps in the table.  With --resync ip the
certain part must stay as it is, and what comes on top is in the table.  Where there is something it is checked twice
without our resync: against libipt, which is given a PSB+ made up for the place where the gap ends; and, where images
were left out on purpose, against the trace with all its images.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import real
import t01_real_digests as whole

PIE = "dynamorio-pie/trace.pt"
PIE_HELLO = "--raw dynamorio-pie/hello:0x1000-0x2000:0x563f851fb000 "
PIE_LD = "--raw dynamorio-pie/ld-2.33.so:0x1000-0x25000:0x7f68d5f4b000 "
PIE_LIBC = "--raw dynamorio-pie/libc-2.33.so:0x22000-0x17a000:0x7f68d5d79000 "
MULTI = whole.MULTI_FILE + "/multi-file.trace"
MULTI_OUT = f"--elf {whole.MULTI_FILE}/a.out:0x400000 "
MULTI_FOO = f"--elf {whole.MULTI_FILE}/libfoo.so:0x7ffff7bd9000 "
MULTI_BAR = f"--elf {whole.MULTI_FILE}/libbar.so:0x7ffff79d7000 "
CORE51 = "lldb/intelpt-multi-core-trace/cores/51.intelpt_trace"

# Of a trace: its options; `differ`: streams of which the engines tell gaps of other sizes, in how many of how many frames
# (`verify` leaves the size out);
# `resynced`: stream: number and digest of the instructions that --resync ip gains; `not_found`: instructions whose image is
# there, and that are not told all the same.
Case = collections.namedtuple("Case", "trace options differ resynced not_found", defaults=({}, {}, 0))
CASES = [
    Case(trace, options, {}, {CORE51: (30482, 0xc4d8d6f92cb00d0b)} if trace == CORE51 else {})
    for trace, options, _, _ in whole.TRACES
] + [
    Case(trace, "") for trace in (
        "lldb/intelpt-trace", "lldb/intelpt-trace/trace_2threads.json", "lldb/intelpt-trace/trace_wrong_cpu.json",
        "lldb/intelpt-trace-multi-file/multi-file-no-ld.json", "lldb/intelpt-multi-core-trace",
        "lldb/intelpt-multi-core-trace/trace_with_string_numbers.json",
        "lldb/intelpt-multi-core-trace/trace_missing_threads.json",
        "hase/control_flow.perf.data", "quipper/perf.data", "quipper/perf.data.piped")
] + [
    # No image where tracing was enabled, and an asynchronous event next: see check_late().
    Case("lldb/intelpt-trace/trace_bad_image.json", "", {"tid3842849": (1, 4)}),
    Case("hase/loopy.perf.data", "", {"cpu1": (1, 10)}),
    Case("dynamorio-static-a/trace.pt", "", {"": (1, 2)}),
    Case("dynamorio-static-b/trace.pt", "", {"": (1, 1)}),
    Case("dynamorio-tiny/trace.pt", "", {"": (1, 1)}),
    # One of the images is left out.
    Case(PIE, "--cpu 6/85/7 " + PIE_LD + PIE_LIBC, {}, {PIE: (5270, 0x240bdb219fd95238)}),
    Case(PIE, "--cpu 6/85/7 " + PIE_HELLO + PIE_LIBC, {"": (1, 2)}, {PIE: (4023, 0xa2262d89f073a280)}),
    Case(PIE, "--cpu 6/85/7 " + PIE_HELLO + PIE_LD, {}, {PIE: (13320, 0x9ab03a6876ff9f99)}, 33),
    Case(MULTI, "--cpu 6/79/1 " + MULTI_FOO + MULTI_BAR, {"": (4, 12)}, {MULTI: (21, 0xd2bdf83b2194cdbf)}, 1),
    Case(MULTI, "--cpu 6/79/1 " + MULTI_OUT + MULTI_BAR, {}, {MULTI: (8, 0x8b609a405056b6b2)}, 4),
    Case(MULTI, "--cpu 6/79/1 " + MULTI_OUT + MULTI_FOO, not_found=11),
]
# What is malformed is refused before anything is decoded.
REFUSED = [f"lldb/intelpt-trace/trace_bad{n}.json" for n in ("", "2", "3", "4", "5")]
GAP = re.compile(r"\[gap class=(\S+) offset=0x([0-9a-f]+) bytes=(\d+)(.*)\]")


def check_engines(top, case):
    command = [os.environ["PTMILL"], "verify", "-q", "--engines", case.trace, *case.options.split()]
    done = subprocess.run(command, cwd=top, capture_output=True, text=True, timeout=real.TIMEOUT)
    # Nothing to compare where no image is given, nor told by a bundle.
    if not case.options and not case.trace.startswith("lldb/"):
        return [] if done.returncode == 66 and not done.stdout else [f"{case}: exit {done.returncode}"]
    if done.returncode != 0:
        return [f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}"]
    return [f"{case}: {line}" for line in re.findall(r"^stream .*$", done.stdout, re.M)
            if not re.fullmatch(r"stream (.*) same by fast and libipt: .*", line)]


def gaps_and_rest(text):
    """The gaps of a listing, and its lines with the places of the gaps taken out."""
    gaps = [(int(m[2], 16), int(m[3])) for m in GAP.finditer(text)]
    return gaps, GAP.sub(r"[gap class=\1\4]", text).split("\n")


def packets_of(top, trace, scratch):
    """(offset, kind) of each packet; of a perf.data file, those of its only stream."""
    path = top / trace
    if trace.endswith(".json"):
        path = path.parent / "3842849.trace"
    elif trace.endswith(".perf.data"):
        stream, = real.aux_streams(path.read_bytes())
        path = pathlib.Path(scratch, "aux.pt")
        path.write_bytes(stream)
    lines = real.run("dump", "-q", path).decode().splitlines()
    return [(int(line[:16], 16), line[18:].split()[0]) for line in lines]


def check_late(top, case, scratch):
    """The one difference there may be: libipt has read an asynchronous event (FUP, TIP.PGD) or a TIP.PGD when it finds that
    there is no code to walk to it, and tells neither it nor where it stood.  So these packets lie before its gap, though
    they came to nothing; ours begins with them, where the manual has the flow stop."""
    args = ["-q", "--no-disasm", case.trace, *case.options.split()]
    ours, ours_rest = gaps_and_rest(real.run("decode", *args, "--resync", "psb", cwd=top).decode())
    theirs, theirs_rest = gaps_and_rest(real.run("decode", *args, "--engine", "libipt", cwd=top).decode())
    if ours_rest != theirs_rest:
        return [f"{case}: not only places of gaps differ"]
    packets = packets_of(top, case.trace, scratch)
    wrong = []
    late = [(a, b) for a, b in zip(ours, theirs) if a != b]
    if len(late) != sum(frames for frames, _ in case.differ.values()):
        wrong.append(f"{case}: {len(late)} gaps differ")
    for (begin, size), (begin_ipt, size_ipt) in late:
        between = [kind for at, kind in packets if begin <= at < begin_ipt and kind not in ("pad", "cyc", "mtc", "tsc")]
        if begin + size != begin_ipt + size_ipt or between not in (["fup", "tip.pgd"], ["tip.pgd"]):
            wrong.append(f"{case}: gaps at {begin:#x} and {begin_ipt:#x} with {between} between")
        if dict(packets).get(begin) not in ("fup", "tip.pgd"):
            wrong.append(f"{case}: the gap at {begin:#x} does not begin with what the flow had to walk to")
    return wrong


def digests(top, case, resync):
    text = real.run("digest", "-q", case.trace, *case.options.split(), "--resync", resync, cwd=top).decode()
    certain = re.findall(r"^stream .* instructions \d+ digest \S+$", text, re.M)
    resynced = {m[0]: (int(m[1]), int(m[2], 16))
                for m in re.findall(r"^stream (.*) resynced (\d+) digest (\S+)$", text, re.M)}
    if len(certain) + len(resynced) != text.count("\n"):
        sys.exit(f"{case}: {text}")
    return certain, resynced


def check_gain(top, case):
    certain, none = digests(top, case, "psb")
    same, resynced = digests(top, case, "ip")
    if none or same != certain:
        return [f"{case}: what is certain is {same} with --resync ip, {certain} with psb"]
    return [] if resynced == case.resynced else [f"{case}: resynced {resynced}"]


def addresses(text):
    """(certain, resynced) addresses of a listing, in order."""
    lists, resynced = ([], []), False
    for line in text.decode().splitlines():
        if line.startswith("[resync "):
            resynced = line == "[resync begin]"
        elif line and not line.startswith("["):
            lists[resynced].append(int(line[:16], 16))
    return lists


def digest(insns):
    h = 0
    for ip in insns:
        x = ip * 0xc2b2ae3d27d4eb4f & whole.MASK
        h = (h * 0x9e3779b97f4a7c15 + (x ^ x >> 32)) & whole.MASK
    return h


def check_left_out(top, case):
    """An image is left out: with it, all instructions that are told without it come in this order, too."""
    full = next(options for trace, options, _, _ in whole.TRACES if trace == case.trace)
    every, none = addresses(real.run("decode", "-q", "--no-disasm", case.trace, *full.split(), cwd=top))
    text = real.run("decode", "-q", "--no-disasm", case.trace, *case.options.split(), cwd=top)
    some = [int(line[:16], 16) for line in text.decode().splitlines() if line and not line.startswith("[")]
    rest = iter(every)
    if none or not all(ip in rest for ip in some):
        return [f"{case}: what is told without an image is not told in this order with it"]
    # What could be had: the instructions in images that are there, which lie 1 MiB and more apart.
    bases = {option.rsplit(":", 1)[1] for option in case.options.split() if ":" in option}
    bases = {int(base, 16) for base in bases}
    others = {int(option.rsplit(":", 1)[1], 16) for option in full.split() if ":" in option} - bases
    there = sum(max(b for b in bases | others if b <= ip) in bases for ip in every)
    if there - len(some) != case.not_found:
        return [f"{case}: {there} instructions are in images that are there, {len(some)} told"]
    parts = addresses(text)
    resynced = {case.trace: (len(parts[1]), digest(parts[1]))} if parts[1] else {}
    return [] if resynced == case.resynced else [f"{case}: the listing has {resynced}"]


def check_core51(top, scratch):
    """Core 51: libc is missing, and a TIP leads back to m.out.  A PSB+ in place of that TIP, and libipt: it must arrive at
    the address that the next, real PSB+ states, with as many instructions."""
    data = (top / CORE51).read_bytes()
    tip, target, next_psb = 0xf30, 0x400b99, 0x1331
    if data[tip:tip + 7] != b"\x6d" + target.to_bytes(6, "little"):
        return ["core 51: the TIP is not where it was"]
    psbplus = b"\x02\x82" * 8 + b"\x99\x01" + b"\x7d" + target.to_bytes(6, "little") + b"\x02\x23"
    path = pathlib.Path(scratch, "core51.pt")
    # Up to the next PSB+, whose FUP ends the walk, and nothing more.
    path.write_bytes(psbplus + data[tip + 7:next_psb] + data[next_psb:data.index(b"\x02\x23", next_psb) + 2])
    options = ["-q", *whole.MULTI_CORE.split(), "--engine", "libipt"]
    insns, none = addresses(real.run("decode", "--no-disasm", path, *options, cwd=top))
    stats = json.loads(real.run("stat", "--json", path, *options, cwd=top))["streams"][0]
    case, = (c for c in CASES if c.trace == CORE51)
    if none or stats["gaps"]["total"] != 0 or {CORE51: (len(insns), digest(insns))} != case.resynced:
        return [f"core 51 by libipt: {len(insns)} {digest(insns):#x}, gaps {stats['gaps']}"]
    return []


def check(item):
    top, case = item
    wrong = check_engines(top, case) + check_gain(top, case)
    with tempfile.TemporaryDirectory() as scratch:
        if case.differ and not wrong:
            wrong += check_late(top, case, scratch)
        if case.trace == CORE51:
            wrong += check_core51(top, scratch)
    if case.resynced and case.trace != CORE51 or case.not_found:
        wrong += check_left_out(top, case)
    return wrong


def check_refused(top, trace):
    command = [os.environ["PTMILL"], "verify", "-q", "--engines", trace]
    done = subprocess.run(command, cwd=top, capture_output=True, timeout=real.TIMEOUT)
    return [] if done.returncode == 65 and not done.stdout else [f"{trace}: exit {done.returncode}"]


def check_page(cases):
    """docs/resync.md tells the same numbers."""
    page = pathlib.Path(os.environ["SRC"], "docs/resync.md").read_text()
    told = sorted(int(n.replace(",", "")) for n in re.findall(r"^\|.*\| ([\d,]+) \|$", page, re.M))
    gained = sorted(n for case in cases for n, _ in case.resynced.values())
    return [] if [n for n in told if n] == gained else [f"docs/resync.md tells {told}, found {gained}"]


def main():
    top = real.real_traces()
    if top is None:
        real.skip(f"{len(CASES)} traces by both engines: PTMILL_REAL_TRACES is not set")
    wrong = sum(real.each(check, [(top, case) for case in CASES]), [])
    wrong += sum((check_refused(top, trace) for trace in REFUSED), []) + check_page(CASES)
    print("\n".join(wrong) or f"{len(CASES)} traces: by both engines the same but for {sum(bool(c.differ) for c in CASES)} "
          f"that are explained; --resync ip gains {sum(n for c in CASES for n, _ in c.resynced.values())} instructions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
