# SPDX-License-Identifier: Apache-2.0
"""A small trace cut at every byte, rotated at every byte, with every single bit flipped (tests/tools/damage.c).

No crash, no hang, no failed run; every byte of a variant is in exactly one class; and the segment size changes
nothing.  The trace is a frame of datasets/noise that holds an overflow, and the beginning of the next one.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NEXT_FRAME = 100  # bytes of it
TIMEOUT = 800


def small_trace(noise):
    """The shortest frame with an overflow, by the recorder's own list of offsets, and some of the next."""
    psbs, gaps = [], []
    for line in (noise / "truth/tid1.txt").read_text().splitlines():
        word, offset = line.split()[:2]
        if word == "psb":
            psbs.append(int(offset))
        elif word == "gap":
            gaps.append(int(offset))
    frames = [(b, e) for b, e in zip(psbs, psbs[1:]) if any(b < g < e for g in gaps)]
    begin, end = min(frames, key=lambda f: f[1] - f[0])
    return (noise / "streams/tid1.pt").read_bytes()[begin:end + NEXT_FRAME]


def main():
    noise = pathlib.Path(os.environ["SRC"], "datasets/noise")
    tool = pathlib.Path(os.environ["BUILD"], "tests/tools/damage")
    image, = (noise / "images").iterdir()
    data = small_trace(noise)
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch, "trace.pt")
        trace.write_bytes(data)
        done = subprocess.run([tool, trace, image, scratch], capture_output=True, text=True, timeout=TIMEOUT)
    print(done.stdout[-20000:])
    m = re.search(r"^(\d+) variants, (\d+) instructions, 0 failures$", done.stdout, re.M)
    if done.returncode != 0 or not m:
        sys.exit(f"exit {done.returncode}\n{done.stderr[-5000:]}")
    if int(m.group(1)) != 10 * len(data) or int(m.group(2)) < 1000 * len(data):
        sys.exit(f"a trace of {len(data)} bytes has {10 * len(data)} variants, of some thousand instructions each")


if __name__ == "__main__":
    main()
