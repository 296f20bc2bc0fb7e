# SPDX-License-Identifier: Apache-2.0
"""Damaged variants of the small captures (scripts/damage.py): whatever the damage, every byte is accounted for, the output
does not depend on segments and workers, and what is decoded before the first damage is what was executed.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SRC = pathlib.Path(os.environ["SRC"])
KINDS = ["truncate", "rotate", "flip", "page", "overflow"]
SEEDS = range(2 if os.environ.get("PTM_SANITIZE") else 6)


def ptmill(*args):
    done = subprocess.run([os.environ["PTMILL"], *map(str, args)], capture_output=True, timeout=300)
    if done.returncode not in (0, 3):
        sys.exit(f"{args}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return done


def digests(*args):
    return [line.split()[2:] for line in ptmill("digest", "-q", *args).stdout.splitlines()]


def check_compressed(scratch):
    """What is damaged of a compressed stream is the trace, and the options know the clocks."""
    out = pathlib.Path(scratch, "compressed")
    subprocess.run([sys.executable, SRC / "scripts/damage.py", "flip", "3", SRC / "datasets/everything", out], check=True)
    options = (out / "options").read_text().split("\n")[:-1]
    same = digests(out) == digests(out / "trace.pt", *options)
    return "" if same and "--mtc-freq=5" in options else "everything: as a capture it is another trace"


def check(job):
    kind, seed, capture, scratch = job
    what = f"{capture.name} {kind} {seed}"
    out = pathlib.Path(scratch, what.replace(" ", "-"))
    subprocess.run([sys.executable, SRC / "scripts/damage.py", kind, str(seed), capture, out], check=True)
    trace, options = out / "trace.pt", (out / "options").read_text().split("\n")[:-1]
    stream, = json.loads(ptmill("stat", "-q", "--json", trace, *options).stdout)["streams"]
    sizes = stream["bytes"]
    classes = sum(n for name, n in sizes.items() if name not in ("sum", "size", "exact"))
    if not sizes["exact"] or classes != trace.stat().st_size:
        return f"{what}: bytes do not add up: {sizes}"
    texts = {ptmill("decode", "-q", trace, *options, "-j", j, "--segment-size", size).stdout
             for j, size in ((1, "1M"), (3, "64"), (2, "4k"))}
    if len(texts) != 1:
        return f"{what}: the output depends on workers and segments"
    if kind != "page" and digests(out) != digests(trace, *options):
        return f"{what}: as a capture it is another trace"
    if kind == "overflow" and stream["overflows"] < 1:
        return f"{what}: the overflow is not told"
    # A cut trace is right up to its end.
    truth = next((capture / "truth").iterdir())
    report = ptmill_verify(trace, options, truth)
    if kind == "truncate" and "not any more" in report:
        return f"{what}: {report}"
    if kind == "page" and stream["gaps"].get("no image", 0) == 0 and "as recorded:" not in report:
        return f"{what}: code that is not there is missed without a gap: {report}"
    return ""


def ptmill_verify(trace, options, truth):
    done = subprocess.run([os.environ["PTMILL"], "verify", "-q", trace, *options, "--truth", truth],
                          capture_output=True, timeout=300)
    if done.returncode not in (0, 1):
        sys.exit(f"verify {trace}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        jobs = [(kind, seed, SRC / "datasets" / name, scratch) for kind in KINDS for seed in SEEDS
                for name in ("sig", "noise")]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            failures = [f for f in [*pool.map(check, jobs), check_compressed(scratch)] if f]
    print("\n".join(failures) or f"{len(jobs)} damaged traces")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
