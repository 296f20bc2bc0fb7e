# SPDX-License-Identifier: Apache-2.0
"""`ptmill dump` against `perf script -D` on made-up packets, in a perf.data file made here; needs no recordings.

perf knows what libipt 2.0.5 does not: the packets of PEBS and Event Trace, and IF of MODE.Exec.
"""
import os
import pathlib
import random
import struct
import sys
import tempfile

import dump_perf
import made_up
import real

ATTR_SIZE = 128
HEADER_SIZE = 104
SAMPLE_TYPE = 0x10087  # IP, TID, TIME, CPU, IDENTIFIER: without them perf script refuses the file
SAMPLE_ID_ALL = 1 << 18
AUXTRACE_INFO = 70
INTEL_PT = 1
PMU = 8


def perf_data(payload):
    """A perf.data file with one event, one AUXTRACE_INFO and one AUXTRACE record."""
    attr = struct.pack("<IIQQQQQ", PMU, ATTR_SIZE, 0, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL).ljust(ATTR_SIZE, b"\0")
    ids = HEADER_SIZE + ATTR_SIZE + 16
    attrs = attr + struct.pack("<QQ", ids, 8)
    info = struct.pack("<IHHIIQ", AUXTRACE_INFO, 0, 136, INTEL_PT, 0, PMU).ljust(136, b"\0")
    record = struct.pack("<IHHQQQIIII", real.AUXTRACE, 0, 48, len(payload), 0, 0, 0, 0xffffffff, 0, 0)
    data = info + record + payload
    header = struct.pack("<8sQQQQQQQQ", b"PERFILE2", HEADER_SIZE, ATTR_SIZE + 16, HEADER_SIZE, len(attrs), ids + 8,
                         len(data), 0, 0)
    return header.ljust(HEADER_SIZE, b"\0") + attrs + struct.pack("<Q", 1) + data


def event_packet(rng):
    """A packet of Event Trace or PEBS, or a whole block; the reserved bits are 0."""
    item = rng.choice([4, 8])
    block = b"\x02\x63" + bytes([(item == 4) << 7 | rng.randrange(32)])
    for _ in range(rng.randrange(1, 6)):
        # A last byte of the item that is not 0: perf counts zeros behind a packet as part of it.
        block += bytes([rng.randrange(32) << 3 | 4]) + rng.randbytes(item - 1) + b"\x01"
    block += rng.choice([b"\x02\x33", b"\x02\xb3", b""])
    return rng.choice([b"\x02\x13" + bytes([rng.getrandbits(1) << 7 | rng.randrange(32), rng.randrange(1, 256)]),
                       b"\x02\x53" + bytes([rng.randrange(64)]) + rng.randbytes(7) + b"\x01",
                       b"\x99" + bytes([4 | rng.randrange(3)]), block])


def trace(seed, damage):
    rng = random.Random(seed)
    data = bytearray()
    for _ in range(200):
        data += made_up.PSB
        for _ in range(rng.randrange(60)):
            data += event_packet(rng) if rng.randrange(4) == 0 else made_up.random_packet(rng)
    for _ in range(damage):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def compare(differ, scratch, what, payload):
    path = pathlib.Path(scratch, "made.perf.data")
    path.write_bytes(perf_data(payload))
    records = dump_perf.script(path)
    if list(records) != [(0, 0)] or not records[0, 0][1]:
        sys.exit(f"{what}: perf does not print the packets of the file that is made here")
    ours, = dump_perf.our_lines(real.run("dump", "-q", path))
    differ.compare(what, ours, dump_perf.translate(records[0, 0][1]))


def main():
    if not dump_perf.available():
        real.skip("all made-up packets: perf (Debian: linux-perf) is not here")
    differ = dump_perf.Differ()
    cases = list(made_up.vectors())
    with tempfile.TemporaryDirectory() as scratch:
        compare(differ, scratch, "packets.txt", b"\x06" + b"".join(made_up.PSB + data for _, data, _ in cases))
        # What only our recorder writes is read by another decoder of packets, too.
        for path in sorted(pathlib.Path(os.environ["SRC"], "datasets").glob("*/streams/*.pt")):
            compare(differ, scratch, path.parent.parent.name, path.read_bytes())
        for seed in range(10):
            compare(differ, scratch, f"random packets, seed {seed}", trace(seed, 0))
            compare(differ, scratch, f"damaged packets, seed {seed}", trace(seed, 300))
    print(f"{differ.equal} packets are the same; known differences:")
    never = differ.report()
    if never:
        sys.exit(f"known differences that are no longer met: {', '.join(never)}")
    if differ.failed:
        sys.exit(f"{differ.failed} differences that are not explained")


if __name__ == "__main__":
    main()
