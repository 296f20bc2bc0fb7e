# SPDX-License-Identifier: Apache-2.0
"""What the tests of this directory share: real recordings, running the program, and the AUX payloads of perf.data.

Real recordings are not part of the project: PTMILL_REAL_TRACES names the directory they are in.
"""
import concurrent.futures
import os
import pathlib
import struct
import subprocess
import sys

SKIP = 77
TIMEOUT = 300


def skip(text):
    print(f"skipped: {text}")
    sys.exit(SKIP)


def real_traces():
    """The directory, or None where it is not set; a name that leads nowhere is an error, not a reason to skip."""
    name = os.environ.get("PTMILL_REAL_TRACES")
    if not name:
        return None
    if not os.path.isdir(name):
        sys.exit(f"PTMILL_REAL_TRACES: no directory: {name}")
    return pathlib.Path(name)


def run(*args, cwd=None, stdin=None):
    """Standard output of `ptmill args`, which must succeed."""
    command = [os.environ["PTMILL"], *map(str, args)]
    with open(stdin or os.devnull, "rb") as f:
        done = subprocess.run(command, cwd=cwd, stdin=f, capture_output=True, timeout=TIMEOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return done.stdout


def each(function, items):
    """function(item) of each, two at a time, in the order of the items."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


AUXTRACE = 71
TRACING_DATA = 66


def aux_records(data):
    """(idx, offset in the AUX area, payload) of each AUXTRACE record of a perf.data file (linux,
    tools/perf/Documentation/perf.data-file-format.txt): the payload stands behind its record."""
    magic, header_size = struct.unpack_from("<8sQ", data, 0)
    if magic != b"PERFILE2":
        sys.exit(f"no perf.data: it begins with {magic!r}")
    pipe = header_size == 16
    pos, end = 16, len(data)
    if not pipe:
        pos, size = struct.unpack_from("<QQ", data, 40)
        end = pos + size
    records = []
    while pos + 8 <= end:
        kind, _, size = struct.unpack_from("<IHH", data, pos)
        if size < 8:
            sys.exit(f"perf.data: record of {size} bytes at {pos}")
        if kind == AUXTRACE:
            length, offset, _, idx = struct.unpack_from("<QQQI", data, pos + 8)
            records.append((idx, offset, data[pos + size:pos + size + length]))
            size += length
        elif kind == TRACING_DATA and pipe:
            size += struct.unpack_from("<I", data, pos + 8)[0]
        pos += size
    return records


def aux_streams(data):
    """The payloads, joined where the AUX area goes on: what is decoded in one piece, in order of first appearance."""
    streams = []
    last = {}
    for idx, offset, payload in aux_records(data):
        if not payload:
            continue
        if last.get(idx, (None,))[0] == offset:
            stream = last[idx][1]
        else:
            stream = bytearray()
            streams.append(stream)
        stream += payload
        last[idx] = (offset + len(payload), stream)
    return [bytes(s) for s in streams]
