# SPDX-License-Identifier: Apache-2.0
"""The small captures of datasets/ against the truth that was recorded with them: whole, from PSBs on, by libipt's decoders.

What is checked and how: scripts/check-datasets.py.  The same script must find out when the truth is another one.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MIN_CAPTURES = 8
PSBS = "12"


def check(source, *captures):
    script = source / "scripts" / "check-datasets.py"
    return subprocess.run([sys.executable, script, "--psbs", PSBS, *captures], capture_output=True, text=True)


def spoil(capture, pattern, change):
    truth = capture / "truth" / "tid1.txt"
    text, n = re.subn(pattern, change, truth.read_text(), count=1, flags=re.M)
    if n != 1:
        sys.exit(f"{truth}: nothing matches {pattern}")
    truth.write_text(text)


def must_fail(source, name, what, pattern, change):
    """A truth that is wrong in one place, and only there, is noticed by the check that is meant for it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch, name)
        shutil.copytree(source / "datasets" / name, copy)
        spoil(copy, pattern, change)
        done = check(source, copy)
    if done.returncode != 1 or what not in done.stdout:
        sys.exit(f"{name} with another truth ({what}) is not refused: {done.returncode}: {done.stdout}{done.stderr}")


def main():
    source = pathlib.Path(os.environ["SRC"])
    if shutil.which("zstd") is None:
        print("skipped: the captures of datasets/: the program zstd is not here")
        sys.exit(77)
    captures = sorted(p.parent for p in (source / "datasets").glob("*/capture.json"))
    if len(captures) < MIN_CAPTURES:
        sys.exit(f"only {len(captures)} captures in datasets/")
    done = check(source, *captures)
    print(done.stdout + done.stderr, end="")
    if done.returncode != 0:
        sys.exit(1)

    def other(m):
        return m.group(1) + ("1" if m.group(2) != "1" else "2")

    must_fail(source, "calc", "expected", r"^(digest 0x[0-9a-f]{15})(.)", other)
    must_fail(source, "calc", "checkpoints", r"^(checkpoint \d+ 0x[0-9a-f]{15})(.)", other)
    must_fail(source, "calc", "the part at", r"^(psb 0 0 0x[0-9a-f]{15})(.)", other)
    print("another digest, checkpoint, PSB: noticed")


if __name__ == "__main__":
    main()
