#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check captures against the truth that was recorded with them.

    check-datasets.py [--psbs N] [--tools DIR] CAPTURE...

For each stream of each capture:
  (a) `ptmill digest --every` of the whole stream is the truth at every checkpoint;
  (b) N sampled PSBs (default 40, spread over the stream; 0: all): the bytes from a PSB to the end of the next PSB+, as a trace
      of their own, are the part that the truth has between the two: that is what makes decoding in parallel right;
  (c) plain programs around libipt's instruction and block decoder count the same, the former with the same digest
      (tests/tools/ipt_block.c, looked for in DIR, default $BUILD/tests/tools).

$PTMILL is the program.  Ends with code 1 if anything differs.  How long decoding takes is what bench/run.sh measures.
"""
import argparse
import bisect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MASK = (1 << 64) - 1
K = 0x9e3779b97f4a7c15
PSB = bytes.fromhex("0282" * 8)
EVERY = 1000000
# Packets that may stand in a PSB+ (SDM vol. 3, ch. Intel PT, "PSB+"): first bytes, size.
PLUS = [(b"\x02\x03", 4), (b"\x02\x73", 7), (b"\x02\x43", 8), (b"\x02\xc8", 7), (b"\x19", 8), (b"\x99", 2), (b"\x59", 2), (b"\x00", 1)]
IP_BYTES = {0: 0, 1: 2, 2: 4, 3: 6, 4: 6, 6: 8}


class Truth:
    def __init__(self, path):
        self.checkpoints, self.psbs, self.gaps = [], [], []
        for line in path.read_text().splitlines():
            kind, *v = line.split()
            if kind == "instructions":
                self.n = int(v[0])
            elif kind == "digest":
                self.digest = int(v[0], 16)
            elif kind == "checkpoint":
                self.checkpoints.append((int(v[0]), int(v[1], 16)))
            elif kind == "psb":
                self.psbs.append((int(v[0]), int(v[1]), int(v[2], 16)))
            elif kind == "gap":
                self.gaps.append(int(v[0]))


class Failed(Exception):
    pass


def run(args, **kw):
    """What a program prints."""
    child = subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True, **kw)
    if child.returncode != 0:
        raise Failed(f"{args[0]} {args[1]}: exit code {child.returncode}: {child.stderr.decode(errors='replace').strip()}")
    return child.stdout.decode()


def end_of_psbplus(data, at):
    """Offset behind the PSBEND of the PSB+ at @at."""
    at += len(PSB)
    while at < len(data):
        if data[at:at + 2] == b"\x02\x23":
            return at + 2
        for head, size in PLUS:
            if data.startswith(head, at):
                at += size
                break
        else:
            if data[at] & 0x1f == 0x1d:
                at += 1 + IP_BYTES[data[at] >> 5]
            elif data[at] & 3 == 3:
                more = data[at] & 4
                at += 1
                while more:
                    more = data[at] & 1
                    at += 1
            else:
                raise Failed(f"offset {at:#x}: byte {data[at]:#04x} begins no packet of a PSB+")
    raise Failed("a PSB+ is cut off")


def part(a, b):
    """What lies between two points of the truth: instructions, and their own digest."""
    n = b[1] - a[1]
    return n, (b[2] - a[2] * pow(K, n, 1 << 64)) & MASK


def stream_line(out):
    m = re.search(r"^(?:stream .* )?instructions (\d+) digest (0x[0-9a-f]{16})$", out, re.M)
    if not m:
        raise Failed(f"no figures in: {out[:300]}")
    return int(m.group(1)), int(m.group(2), 16)


class Stream:
    def __init__(self, root, capture, stream):
        self.root, self.name = root, stream["name"]
        self.trace = root / stream["file"]
        self.truth = Truth(root / stream["truth"])
        self.process = next(p for p in capture["processes"] if p["pid"] == stream["pid"])
        self.clocks = capture.get("clocks", {})

    def unpack(self, scratch):
        """The plain trace: a compressed one is unpacked by the program zstd."""
        if self.trace.suffix == ".zst":
            plain = pathlib.Path(scratch, self.name + ".pt")
            run(["zstd", "-q", "-d", "-f", self.trace, "-o", plain])
            self.trace = plain

    def clock_options(self):
        c = self.clocks
        options = []
        for name, value in (("--mtc-freq", c.get("mtc_freq")), ("--nom-freq", c.get("nom_freq")),
                            ("--cpuid-0x15.eax", c.get("cpuid_0x15", {}).get("eax")),
                            ("--cpuid-0x15.ebx", c.get("cpuid_0x15", {}).get("ebx"))):
            if value is not None:
                options += [name, value]
        return options

    def sections(self):
        """(file, offset, size, address) of each mapping, no more than the file has."""
        for m in self.process["mappings"]:
            image = self.root / m["image"]
            size = min(m["size"], image.stat().st_size - m["offset"])
            if size > 0:
                yield image, m["offset"], size, int(str(m["address"]), 0)


def check_whole(ptmill, root, streams, report):
    """(a): all streams of a capture in one run."""
    out = run([ptmill, "digest", "-q", "-j1", "--bind=none", f"--every={EVERY}", root])
    for s in streams:
        text = "\n".join(re.findall(rf"^stream .*:{re.escape(s.name)} ((?:at|instructions) .*)$", out, re.M))
        if stream_line(text) != (s.truth.n, s.truth.digest):
            raise Failed(f"{s.name}: {stream_line(text)}, expected {s.truth.n}, {s.truth.digest:#018x}")
        got = [(int(n), int(d, 16)) for n, d in re.findall(r"^at (\d+) digest (0x[0-9a-f]{16})$", text, re.M)]
        if got != s.truth.checkpoints:
            raise Failed(f"{s.name}: {len(got)} checkpoints, {len(s.truth.checkpoints)} expected; the first that differs: "
                         f"{next((a for a in zip(got, s.truth.checkpoints) if a[0] != a[1]), 'none')}")
        report["checkpoints"] += len(got)


def check_psbs(ptmill, s, want, scratch, report):
    """(b)"""
    data = s.trace.read_bytes()
    psbs = [*s.truth.psbs]
    n = len(psbs)
    if want and n > want:
        psbs_at = sorted({i * (n - 1) // (want - 1) for i in range(want)}) if want > 1 else [n // 2]
    else:
        psbs_at = range(n)
    raws = [f"--raw={image}:{offset:#x}-{offset + size:#x}:{address:#x}" for image, offset, size, address in s.sections()]
    piece = pathlib.Path(scratch, "piece.pt")
    for i in psbs_at:
        begin = psbs[i]
        last = i + 1 == n
        end = (len(data), s.truth.n, s.truth.digest) if last else psbs[i + 1]
        if data[begin[0]:begin[0] + 16] != PSB:
            raise Failed(f"{s.name}: no PSB at {begin[0]:#x}")
        piece.write_bytes(data[begin[0]:len(data) if last else end_of_psbplus(data, end[0])])
        strict = [] if overflow_in(s, begin, end) else ["--strict"]
        out = run([ptmill, "digest", "-q", "-j1", "--bind=none", *strict, *s.clock_options(), *raws, piece])
        if stream_line(out) != part(begin, end):
            raise Failed(f"{s.name}: the part at {begin[0]:#x} is {stream_line(out)}, expected {part(begin, end)}")
        report["psbs"] += 1


def overflow_in(s, begin, end):
    """Does an overflow lie in the part, or at its end?  Then it has a gap, and --strict would complain."""
    i = bisect.bisect_left(s.truth.gaps, begin[0])
    return i < len(s.truth.gaps) and s.truth.gaps[i] <= end[0]


def check_libipt(tool, s):
    """(c)"""
    sections = [f"{image}:{offset}:{size}:{address:#x}" for image, offset, size, address in s.sections()]
    for way in ("block", "insn"):
        out = run([tool, way, s.trace, *sections])
        m = re.match(r"instructions (\d+)\n(?:digest (0x[0-9a-f]{16})\n)?$", out)
        got = int(m.group(1)), int(m.group(2) or "0", 16)
        if got != (s.truth.n, s.truth.digest if way == "insn" else 0):
            raise Failed(f"{s.name}: libipt's {way} decoder: {got[0]}, {got[1]:#x}, expected {s.truth.n}, {s.truth.digest:#x}")


def check(args, root):
    report = {"name": root.name, "streams": 0, "instructions": 0, "checkpoints": 0, "psbs": 0}
    with open(root / "capture.json") as f:
        capture = json.load(f)
    streams = [Stream(root, capture, s) for s in capture["streams"]]
    report["streams"] = len(streams)
    report["instructions"] = sum(s.truth.n for s in streams)
    check_whole(args.ptmill, root, streams, report)
    with tempfile.TemporaryDirectory() as scratch:
        for s in streams:
            s.unpack(scratch)
            check_psbs(args.ptmill, s, args.psbs, scratch, report)
            check_libipt(args.tools / "ipt_block", s)
    return report


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--psbs", type=int, default=40, metavar="N", help="PSBs a stream to decode on their own (40; 0: all)")
    p.add_argument("--tools", type=pathlib.Path, default=pathlib.Path(os.environ.get("BUILD", "build"), "tests/tools"))
    p.add_argument("captures", nargs="+", type=pathlib.Path, metavar="CAPTURE")
    args = p.parse_args()
    args.ptmill = os.environ.get("PTMILL", "ptmill")
    bad = 0
    for root in args.captures:
        try:
            r = check(args, root)
        except (Failed, OSError, KeyError, ValueError) as e:
            print(f"{root.name}: FAILED: {'' if isinstance(e, Failed) else type(e).__name__ + ': '}{e}", flush=True)
            bad += 1
            continue
        print(f"{r['name']}: {r['streams']} streams, {r['instructions']} instructions, {r['checkpoints']} checkpoints, "
              f"{r['psbs']} PSBs on their own, libipt's two decoders: the same", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
