# SPDX-License-Identifier: Apache-2.0
"""Made-up traces for the comparisons of `ptmill dump`: the cases of tests/vectors/packets.txt, and random packets."""
import os
import pathlib

PSB = b"\x02\x82" * 8


def vectors():
    """(name, bytes, whether the lexer is to stop inside) of each case of packets.txt."""
    for line in pathlib.Path(os.environ["SRC"], "tests/vectors/packets.txt").read_text().splitlines():
        parts = [p.strip() for p in line.split(":", 2)]
        if len(parts) == 3 and not line.startswith("#"):
            yield parts[0], bytes.fromhex(parts[1]), parts[2].endswith("truncated")


def random_packet(rng):
    """Any packet that libipt knows, by the tables of SDM vol. 3, ch. Intel PT."""
    kind = rng.randrange(26)
    ipbytes, size = rng.choice([(0, 0), (1, 2), (2, 4), (3, 6), (4, 6), (6, 8)])
    if kind < 8:  # a short TNT: a stop bit above one to six branches
        bits = rng.randrange(1, 7)
        return bytes([((1 << bits) | rng.getrandbits(bits)) << 1])
    if kind < 12:
        return bytes([rng.choice([0x0d, 0x11, 0x01, 0x1d]) | ipbytes << 5]) + rng.randbytes(size)
    if kind == 12:
        bits = rng.randrange(1, 48)
        return b"\x02\xa3" + ((1 << bits) | rng.getrandbits(bits)).to_bytes(6, "little")
    if kind == 13:  # CYC of one to six bytes
        more = rng.randrange(6)
        rest = [rng.getrandbits(7) << 1 | (i < more - 1) for i in range(more)]
        return bytes([rng.getrandbits(5) << 3 | (more > 0) << 2 | 3, *rest])
    return [
        b"\x00", b"\x99" + bytes([rng.randrange(3)]), b"\x99" + bytes([0x20 | rng.randrange(3)]),
        b"\x19" + rng.randbytes(7), b"\x59" + rng.randbytes(1),
        b"\x02\x73" + rng.randbytes(2) + b"\x00" + rng.randbytes(1) + bytes([rng.randrange(2)]),
        b"\x02\x03" + rng.randbytes(1) + b"\x00", b"\x02\x43" + rng.randbytes(6), b"\x02\xc8" + rng.randbytes(5),
        rng.choice([b"\x02\xf3", b"\x02\x83", b"\x02\x23", b"\x02\x62", b"\x02\xe2"]),
        rng.choice([b"\x02\xc3\x88" + rng.randbytes(8), b"\x02\x12" + rng.randbytes(4), b"\x02\x92" + rng.randbytes(4),
                    b"\x02\x32" + rng.randbytes(8), b"\x02\xb2" + rng.randbytes(8)]),
        rng.choice([b"\x02\xc2" + rng.randbytes(4) + bytes([rng.randrange(4), 0, 0, 0]),
                    b"\x02\x22" + bytes([rng.randrange(2) << 7]) + rng.randbytes(1),
                    b"\x02\xa2" + rng.randbytes(1) + bytes([rng.choice([0, 1, 4, 8])]) + b"\0\0\0"]),
    ][kind - 14]


def random_trace(rng, frames, damage):
    data = bytearray()
    for _ in range(frames):
        data += PSB + b"".join(random_packet(rng) for _ in range(rng.randrange(60)))
    for _ in range(damage):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)
