# SPDX-License-Identifier: Apache-2.0
"""`ptmill dump` against libipt's packet decoder on made-up packets, intact and damaged; needs no recordings.

Each known difference must be met at least once: else it is one no longer, and its entry is to go.
"""
import random
import sys
import tempfile

import dump_libipt
import made_up


def compare_all(differ):
    whole = b""
    for name, data, cut in made_up.vectors():
        if cut:
            differ.compare(f"case {name}", made_up.PSB + data)
        else:
            whole += made_up.PSB + data
    differ.compare("the cases of packets.txt", whole)
    for seed in range(20):
        differ.compare(f"random packets, seed {seed}", made_up.random_trace(random.Random(seed), 200, 0))
    for seed in range(20):
        differ.compare(f"damaged packets, seed {seed}", made_up.random_trace(random.Random(seed), 200, 400))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        differ = dump_libipt.Differ(scratch)
        compare_all(differ)
    print(f"{differ.lines} lines of made-up packets; known differences:")
    never = differ.report()
    if never:
        sys.exit(f"known differences that are no longer met: {', '.join(never)}")
    if differ.failed:
        sys.exit(f"{differ.failed} differences that are not explained")


if __name__ == "__main__":
    main()
