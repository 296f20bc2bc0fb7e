#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a damaged variant of a stream of a capture, for tests of what decoders do with damage.

    scripts/damage.py KIND SEED CAPTURE OUT

KIND is one of
  truncate   the trace ends early, at any byte
  rotate     as a ring buffer that was written round: the begin stands behind the end, cut at any byte
  flip       some bits are other ones
  page       a page of an image is missing
  overflow   the hardware lost all packets from some place up to the next PSB, and says so

OUT becomes a directory with the trace (trace.pt, not compressed, whatever the stream was) and the options that name the
images and the recording machine (options, one a line): give both to `ptmill`.  But for a missing page, which none could
describe, OUT is a capture as well, of that stream alone, without what was executed.  The same KIND, SEED and CAPTURE make
the same bytes.  $PTMILL is the program (for the places of packets).
"""
import ctypes
import ctypes.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

PAGE = 4096


def truncate(rng, trace):
    return trace[:rng.randrange(1, len(trace))]


def rotate(rng, trace):
    cut = rng.randrange(1, len(trace))
    return trace[cut:] + trace[:cut]


def flip(rng, trace):
    data = bytearray(trace)
    for _ in range(rng.randrange(1, 9)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def packets(path):
    """[(offset, name)] of the packets of a trace."""
    lines = subprocess.run([os.environ.get("PTMILL", "ptmill"), "dump", "-q", path], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [(int(line[:16], 16), line[18:].split()[0]) for line in lines]


def overflow(rng, trace, path):
    places = packets(path)
    psbs = [offset for offset, name in places if name == "psb"] + [len(trace)]
    # Somewhere in a frame, behind its PSB+.
    ends = [i for i, (_, name) in enumerate(places) if name == "psbend"]
    i = rng.choice(ends)
    psb_next = min(p for p in psbs if p > places[i][0])
    inside = [offset for offset, _ in places[i + 1:] if offset < psb_next]
    cut = rng.choice(inside) if inside else psb_next
    return trace[:cut] + b"\x02\xf3" + trace[psb_next:]


def read_trace(path):
    if path.suffix != ".zst":
        return path.read_bytes()
    zstd = shutil.which("zstd")
    if zstd is None:
        sys.exit(f"damage.py: {path} is compressed, and there is no program zstd (scripts/install-deps.sh installs it)")
    return subprocess.run([zstd, "-dcq", "--long=31", path], check=True, capture_output=True).stdout


def xxh3(data):
    """As captures have it; None without the library, which the build needs."""
    name = ctypes.util.find_library("xxhash")
    if name is None:
        return None
    lib = ctypes.CDLL(name)
    lib.XXH3_64bits.restype = ctypes.c_uint64
    lib.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return f"{lib.XXH3_64bits(data, len(data)):#018x}"


def write_capture(capture, out, description, stream, trace):
    """The variant as a capture of one stream, whose truth nobody knows."""
    digest = xxh3(trace)
    if digest is None:
        print("damage.py: there is no library libxxhash: no capture.json is written", file=sys.stderr)
        return
    for image in {m["image"] for p in description["processes"] for m in p["mappings"]}:
        (out / image).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(capture / image, out / image)
    stream = {k: v for k, v in stream.items() if k in ("name", "kind", "pid", "tid", "cpu")}
    stream |= {"file": "trace.pt", "bytes": len(trace), "xxh3_64": digest}
    (out / "capture.json").write_text(json.dumps({**description, "streams": [stream]}, indent=2) + "\n")


def machine(description):
    """The clocks and the CPU, as options."""
    clocks, cpu = description.get("clocks", {}), description.get("cpu")
    cpuid = clocks.get("cpuid_0x15", {})
    values = [("mtc-freq", clocks.get("mtc_freq")), ("nom-freq", clocks.get("nom_freq")),
              ("cpuid-0x15.eax", cpuid.get("eax")), ("cpuid-0x15.ebx", cpuid.get("ebx")),
              ("cpu", cpu and f"{cpu['family']}/{cpu['model']}/{cpu['stepping']}")]
    return [f"--{name}={value}" for name, value in values if value is not None]


def options(rng, capture, description, missing_page):
    """--raw for every mapping; without one page of one of them if asked."""
    maps = [m for p in description["processes"] for m in p["mappings"]]
    hole = rng.randrange(len(maps)) if missing_page else -1
    lines = []
    for i, m in enumerate(maps):
        image = (capture / m["image"]).resolve()
        begin, base = int(m["offset"]), int(str(m["address"]), 0)
        end = min(begin + int(m["size"]), image.stat().st_size)
        cuts = [(begin, end)]
        if i == hole:
            page = begin + rng.randrange((end - begin + PAGE - 1) // PAGE) * PAGE
            cuts = [(begin, page), (page + PAGE, end)]
        lines += [f"--raw={image}:{a:#x}-{b:#x}:{base + a - begin:#x}" for a, b in cuts if a < b]
    return lines


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("truncate", "rotate", "flip", "page", "overflow"):
        print(__doc__, file=sys.stderr)
        return 64
    kind, seed, capture, out = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
    rng = random.Random(f"{kind} {seed}")
    description = json.loads((capture / "capture.json").read_text())
    stream = rng.choice(description["streams"])
    path = capture / stream["file"]
    trace = read_trace(path)
    if kind == "overflow":
        damaged = overflow(rng, trace, path)  # ptmill reads it compressed, too
    elif kind == "page":
        damaged = trace
    else:
        damaged = {"truncate": truncate, "rotate": rotate, "flip": flip}[kind](rng, trace)
    out.mkdir(parents=True)
    (out / "trace.pt").write_bytes(damaged)
    if kind != "page":
        write_capture(capture, out, description, stream, damaged)
    lines = options(rng, capture, description, kind == "page") + machine(description)
    (out / "options").write_text("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
