# SPDX-License-Identifier: Apache-2.0
"""Real recordings against libipt: the count and the digest of their instructions.

The expected numbers were measured with libipt 2.0.5, its instruction decoder used directly, resynchronised at the next
PSB after an error; they are no output of ours.  They must come out for every number of workers and every segment size,
from a file, a compressed file and standard input.  The text of `decode` must be the same bytes each time, and the
addresses in it must give the same digest once more, computed here.
"""
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import real

STATIC_B = "--cpu 6/85/4 --mtc-freq 3 --nom-freq 37 --cpuid-0x15.eax 2 --cpuid-0x15.ebx 308"
MULTI_CORE = "--cpu 6/85/4 --elf lldb/intelpt-multi-core-trace/modules/m.out:0x400000"
MULTI_FILE = "lldb/intelpt-trace-multi-file"
# Trace, options, instructions, digest.
TRACES = [
    ("dynamorio-pie/trace.pt",
     "--cpu 6/85/7 --raw dynamorio-pie/hello:0x1000-0x2000:0x563f851fb000 "
     "--raw dynamorio-pie/ld-2.33.so:0x1000-0x25000:0x7f68d5f4b000 "
     "--raw dynamorio-pie/libc-2.33.so:0x22000-0x17a000:0x7f68d5d79000", 146740, 0xf10b4fbb10140ff8),
    ("dynamorio-static-a/trace.pt", "--cpu 6/85/7 --elf dynamorio-static-a/hello", 103749, 0x1a5cc52381b5900b),
    ("dynamorio-static-b/trace.pt", STATIC_B + " --elf dynamorio-static-b/hello", 59234, 0xdba6076c802d58b2),
    ("dynamorio-tiny/trace.pt", STATIC_B + " --elf dynamorio-tiny/hello", 8, 0x26bc19bf2ffe3ab0),
    ("lldb/intelpt-multi-core-trace/cores/45.intelpt_trace", MULTI_CORE, 61825, 0x2b499e6745da46f8),
    ("lldb/intelpt-multi-core-trace/cores/51.intelpt_trace", MULTI_CORE, 19521, 0xb6b1469962a8ab1c),
    ("lldb/intelpt-trace/3842849.trace", "--cpu 6/79/1 --elf lldb/intelpt-trace/a.out", 21, 0x961af61dacfbbfc3),
    (MULTI_FILE + "/multi-file.trace",
     f"--cpu 6/79/1 --elf {MULTI_FILE}/a.out:0x400000 --elf {MULTI_FILE}/libfoo.so:0x7ffff7bd9000 "
     f"--elf {MULTI_FILE}/libbar.so:0x7ffff79d7000", 45, 0x4f3b3d7b6bf5e941),
    ("hase/loopy.perf.data", "--cpu 6/61/4 --elf hase/loopy", 57, 0xf56f35afe85a3a66),
    ("hase/control_flow.perf.data", "--cpu 6/94/3 --elf hase/control_flow", 1092, 0x46adc74a0d78ad4e),
]
THREADS = (1, 2, 8)
SIZES = ("64", "1000", "4K", "256K")
MASK = (1 << 64) - 1


def digest_of(text):
    """Count and digest of the addresses that begin the lines of `decode`; lines of events begin with a bracket."""
    n = h = 0
    for line in text.split(b"\n"):
        if not line or line.startswith(b"["):
            continue
        x = int(line[:16], 16) * 0xc2b2ae3d27d4eb4f & MASK
        h = (h * 0x9e3779b97f4a7c15 + (x ^ x >> 32)) & MASK
        n += 1
    return n, h


def check_digest(what, out, count, digest):
    m = re.fullmatch(r"stream .* instructions (\d+) digest (0x[0-9a-f]{16})\n", out.decode())
    if not m or (int(m.group(1)), int(m.group(2), 16)) != (count, digest):
        sys.exit(f"{what}: expected {count} instructions, digest {digest:#018x}; got: {out.decode()}")


def check(traces, trace, options, count, digest, scratch):
    options = ["-q", "--resync", "psb", *options.split()]
    text = real.run("decode", trace, *options, "-j1", cwd=traces)
    if digest_of(text) != (count, digest):
        sys.exit(f"{trace}: the lines of decode: {digest_of(text)}, expected {count}, {digest:#x}")

    def one(case):
        args = [*options, "-j", case[0], "--segment-size", case[1]]
        check_digest(f"{trace} {args}", real.run("digest", trace, *args, cwd=traces), count, digest)
        if real.run("decode", trace, *args, cwd=traces) != text:
            sys.exit(f"{trace} {args}: decode prints another text than with -j1")

    real.each(one, itertools.product(THREADS, SIZES))
    if trace.endswith(".perf.data"):
        return 24
    packed = pathlib.Path(scratch, "trace.zst")
    subprocess.run([shutil.which("zstd"), "-q", "-f", str(traces / trace), "-o", str(packed)], check=True)

    def other(case):
        threads, size, name, stdin = case
        args = [name, *options, "-j", threads, "--segment-size", size]
        check_digest(f"{trace} {args}", real.run("digest", *args, cwd=traces, stdin=stdin), count, digest)
        if real.run("decode", *args, cwd=traces, stdin=stdin) != text:
            sys.exit(f"{trace} {args}: decode prints another text than of the plain file")

    ways = [(str(packed), None), ("-", traces / trace), ("-", packed)]
    cases = [(j, size, *way) for way in ways for j, size in ((1, "256K"), (8, "64"), (2, "1000"))]
    real.each(other, cases)
    return 24 + 2 * len(cases)


def main():
    traces = real.real_traces()
    if traces is None:
        real.skip(f"{len(TRACES)} traces: PTMILL_REAL_TRACES is not set")
    if shutil.which("zstd") is None:
        real.skip(f"{len(TRACES)} traces: the program zstd is not here")
    absent = [t[0] for t in TRACES if not (traces / t[0]).exists()]
    if absent:
        sys.exit(f"{len(absent)} of {len(TRACES)} traces are missing in {os.fspath(traces)}: {', '.join(absent)}")
    for trace, options, count, digest in TRACES:
        with tempfile.TemporaryDirectory() as scratch:
            runs = check(traces, trace, options, count, digest, scratch)
        print(f"{trace}: {count} instructions, {digest:#018x} in {runs} runs")


if __name__ == "__main__":
    main()
