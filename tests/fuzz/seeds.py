#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed corpus of fuzz_packet from tests/vectors/packets.txt: one file a section.

Usage: seeds.py (run after a change of the vectors; the files are committed).
"""
import pathlib

TESTS = pathlib.Path(__file__).resolve().parent.parent
out = TESTS / "fuzz" / "corpus" / "packet"
out.mkdir(parents=True, exist_ok=True)
seeds = {}
section = None
for line in (TESTS / "vectors" / "packets.txt").read_text().splitlines():
    if line.startswith("== "):
        section = line[3:].strip()
    elif line and not line.startswith("#"):
        seeds[section] = seeds.get(section, b"") + bytes.fromhex(line.split(":")[1])
for name, data in seeds.items():
    (out / name).write_bytes(data)
