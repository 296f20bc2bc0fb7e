# SPDX-License-Identifier: Apache-2.0
"""`ptmill dump` against `perf script -D` on the perf.data files of the real recordings.

In pipe mode perf 6.1 takes the payload from 16 bytes too early, the size of the header, and stops at the second
AUXTRACE record: there the lines of the first record are compared, moved by 16, and without its last 16 bytes.
"""
import sys

import dump_perf
import real

FILES = ("hase/control_flow.perf.data", "hase/loopy.perf.data", "quipper/perf.data", "quipper/perf.data.piped")
PIPE_SHIFT = 16


def check_bytes(what, lines, payload):
    """perf has printed every byte of the payload."""
    if b"".join(raw for _, raw, _ in lines) != payload:
        sys.exit(f"{what}: perf prints other bytes than the AUXTRACE record has")


def compare(differ, traces, name):
    path = traces / name
    data = path.read_bytes()
    records = real.aux_records(data)
    streams = dump_perf.our_lines(real.run("dump", "-q", path))
    printed = dump_perf.script(path)
    if len({idx for idx, _, _ in records}) != len(records):
        sys.exit(f"{name}: several records of a buffer: which stream is which is not worked out here")
    if len(streams) != len(records):
        sys.exit(f"{name}: {len(streams)} streams of {len(records)} AUXTRACE records")
    compared = 0
    for (idx, offset, payload), ours in zip(records, streams):
        if (idx, offset) not in printed:
            if not path.suffix == ".piped" or compared == 0:
                sys.exit(f"{name}: perf does not print the record of buffer {idx}")
            print(f"{name}: perf does not print the record of buffer {idx}: not compared")
            continue
        size, lines = printed[idx, offset]
        if size != len(payload):
            sys.exit(f"{name}: perf says {size} bytes, the record has {len(payload)}")
        theirs = dump_perf.translate(lines)
        if path.suffix == ".piped":
            theirs = [(at - PIPE_SHIFT, text) for at, text in theirs if at >= PIPE_SHIFT]
            end = theirs[-1][0] + 1  # the last bytes that perf prints may be part of a packet
            while theirs and theirs[-1][1] in ("pad", dump_perf.BAD):
                end = theirs.pop()[0]
            ours = [(at, text) for at, text in ours if at < end]
            if end + 2 * PIPE_SHIFT < size:
                sys.exit(f"{name}: perf prints {end} of {size} bytes")
        else:
            check_bytes(name, lines, payload)
        differ.compare(f"{name}, buffer {idx}", ours, theirs)
        compared += 1
    print(f"{name}: {compared} of {len(records)} AUXTRACE records compared")


def main():
    traces = real.real_traces()
    if traces is None:
        real.skip(f"{len(FILES)} perf.data files: PTMILL_REAL_TRACES is not set")
    if not dump_perf.available():
        real.skip(f"{len(FILES)} perf.data files: perf (Debian: linux-perf) is not here")
    differ = dump_perf.Differ()
    for name in FILES:
        compare(differ, traces, name)
    print(f"{differ.equal} packets are the same; known differences:")
    differ.report()
    if differ.failed:
        sys.exit(f"{differ.failed} differences that are not explained")


if __name__ == "__main__":
    main()
