# SPDX-License-Identifier: Apache-2.0
"""The real LLDB bundles by their trace.json: counts, digests and gaps, for any number of workers and segment size.

The numbers are those of libipt 2.0.5's instruction decoder that goes on at the next PSB after an error, as they stand
beside the recordings.
"""
import sys

import real

# bundle, gaps, then stream, instructions, digest.
BUNDLES = [
    ("intelpt-trace", 0, [("tid3842849", 21, 0x961af61dacfbbfc3)]),
    ("intelpt-trace/trace_2threads.json", 0,
     [("tid3842849", 21, 0x961af61dacfbbfc3), ("tid3842850", 21, 0x961af61dacfbbfc3)]),
    ("intelpt-trace-multi-file/multi-file-no-ld.json", 1, [("tid815455", 45, 0x4f3b3d7b6bf5e941)]),
    ("intelpt-multi-core-trace", 4, [("cpu45", 61825, 0x2b499e6745da46f8), ("cpu51", 19521, 0xb6b1469962a8ab1c)]),
    ("intelpt-multi-core-trace/trace_with_string_numbers.json", 4,
     [("cpu45", 61825, 0x2b499e6745da46f8), ("cpu51", 19521, 0xb6b1469962a8ab1c)]),
]


def check(item):
    top, (bundle, gaps, streams), threads, size = item
    wanted = "".join(f"stream {bundle}:{name} instructions {n} digest 0x{digest:016x}\n" for name, n, digest in streams)
    options = ["-q", "--resync", "psb", "-j", threads, "--segment-size", size]
    got = real.run("digest", bundle, *options, cwd=top).decode()
    if got != wanted:
        return f"{bundle} -j{threads} --segment-size {size}:\n{got}and not\n{wanted}"
    found = real.run("decode", bundle, *options, cwd=top).decode().count("[gap ")
    return "" if found == gaps else f"{bundle}: {found} gaps and not {gaps}"


def main():
    traces = real.real_traces()
    if traces is None:
        real.skip(f"{len(BUNDLES)} bundles: PTMILL_REAL_TRACES is not set")
    work = [(traces / "lldb", b, j, s) for b in BUNDLES for j in (1, 2, 8) for s in ("64", "1000", "256k")]
    failures = list(filter(None, real.each(check, work)))
    print("\n".join(failures) or f"{len(BUNDLES)} bundles, {len(work)} runs: as libipt decodes them")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
