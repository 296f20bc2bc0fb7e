# SPDX-License-Identifier: Apache-2.0
"""The captures of datasets/ by the fast engine: what was recorded, for any number of workers and segment size.

`digest` takes the fast path (no steps), `verify` the one with steps; both must yield the truth that the recorder wrote.
`decode` must print the same bytes each time, and the addresses in them must be the truth, too.
"""
import collections
import hashlib
import itertools
import os
import pathlib
import re
import sys

import real
import t01_real_digests as whole

DATASETS = pathlib.Path(os.environ["SRC"], "datasets")
THREADS = ("1", "2", "3", "8")
SIZES = ("64", "1000", "4096", "65536", None, "1M")
# Each number of workers and each size at least once, the odd ones together.
PAIRS = [("1", None), ("1", "64"), ("2", "1000"), ("2", "1M"), ("3", "4096"), ("3", "64"), ("8", "65536"), ("8", "1000")]
TEXT = ("noise", "sig")


def truths(capture):
    """stream: (instructions, digest, places, overflows) as the recorder wrote them."""
    found = {}
    for file in (capture / "truth").glob("*.txt"):
        text = file.read_text()
        n, digest = re.match(r"instructions (\d+)\ndigest (0x[0-9a-f]{16})\n", text).groups()
        places = len(re.findall(r"^(?:psb|checkpoint|gap) ", text, re.M))
        found[f"{capture}:{file.stem}"] = (int(n), digest, places, len(re.findall("^gap ", text, re.M)))
    if not found:
        sys.exit(f"{capture}: no truth")
    return found


def workers(threads, size):
    return ["-q", "-j", threads, *([] if size is None else ["--segment-size", size])]


def compare(what, output, pattern, wanted):
    got = {m[0]: m[1:] for m in re.findall(pattern, output, re.M)}
    if got == wanted and output.count("\n") == len(wanted):
        return ""
    return f"{what}:\n{output}and not {wanted}"


def check_digest(job):
    capture, threads, size = job
    options = workers(threads, size)
    recorded = truths(capture)
    if not any(overflows for _, _, _, overflows in recorded.values()):
        options.append("--strict")
    return compare(f"digest {capture.name} {options}", real.run("digest", *options, capture).decode(),
                   r"^stream (.*) instructions (\d+) digest (0x[0-9a-f]{16})$",
                   {name: (str(n), digest) for name, (n, digest, _, _) in recorded.items()})


def check_verify(job):
    capture, threads, size = job
    options = workers(threads, size)
    return compare(f"verify {capture.name} {options}", real.run("verify", *options, capture).decode(),
                   r"^stream (.*) as recorded: instructions (\d+) digest (0x[0-9a-f]{16}), (\d+) places?$",
                   {name: (str(n), digest, str(places)) for name, (n, digest, places, _) in truths(capture).items()})


def check_text(capture):
    (n, digest, _, _), = truths(capture).values()
    sums = collections.defaultdict(list)
    for threads, size in PAIRS:
        text = real.run("decode", "--no-disasm", *workers(threads, size), capture)
        sums[hashlib.sha256(text).digest()].append((threads, size))
    if len(sums) != 1:
        return f"decode {capture.name}: the text depends on workers and segments: {list(sums.values())}"
    got = whole.digest_of(text)
    return "" if got == (n, int(digest, 16)) else f"decode {capture.name}: {got}, recorded {n} {digest}"


def main():
    captures = sorted(p.parent for p in DATASETS.glob("*/capture.json"))
    if len(captures) < 8:
        sys.exit(f"only {len(captures)} captures in {DATASETS}")
    digests = [(capture, *way) for capture in captures for way in itertools.product(THREADS, SIZES)]
    if os.environ.get("PTM_SANITIZE"):
        digests = [job for job in digests if job[1:] in PAIRS]
    verifies = [(capture, *way) for capture in captures for way in PAIRS]
    texts = [DATASETS / name for name in TEXT]
    wrong = real.each(check_digest, digests) + real.each(check_verify, verifies) + real.each(check_text, texts)
    wrong = [text for text in wrong if text]
    print("\n".join(wrong) or f"{len(captures)} captures: {len(digests)} digests, {len(verifies)} comparisons with the truth, "
          f"{len(texts) * len(PAIRS)} texts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
