# SPDX-License-Identifier: Apache-2.0
"""Every option of the recorder: a small program (t10_program.c) is recorded with it, and the fast engine yields what was
executed, with and without steps, for any number of workers and segment size; and so does libipt, where it can.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import real
import t10_fast_truth as truth

COMMON = [
    "", "--timing none", "--timing tsc", "--timing mtc", "--timing mtc --mtc-freq 0", "--timing cyc --mtc-freq 9",
    "--ret-comp on", "--ret-comp sdm", "--ret-comp off", "--tnt64", "--tips flush", "--tips defer",
    "--tips mixed --seed 1", "--tips mixed --seed 2 --tnt64", "--psb-period 64", "--psb-period 1k", "--psb-period 1M",
    "--ovf-period 100", "--ovf-period 300 --seed 3 --psb-period 128", "--irq-period 3", "--irq-period 100 --seed 4",
    "--compress", "--max-instructions 5000",
    "--timing cyc --tips mixed --tnt64 --psb-period 256 --ovf-period 500 --irq-period 40 --seed 5",
    "--timing mtc --ret-comp sdm --tips defer --psb-period 128 --ovf-period 300 --irq-period 20 --seed 6",
    "--timing tsc --ret-comp off --tnt64 --tips defer --psb-period 64 --irq-period 7 --seed 7 --compress",
]
# QEMU knows no PTWRITE.
STEP = [
    "--ptwrite", "--fup-on-ptw", "--ptwrite --irq-period 5 --psb-period 64 --timing mtc",
    "--fup-on-ptw --timing cyc --tips mixed --tnt64 --psb-period 128 --ovf-period 200 --irq-period 30 --seed 8",
]
# The program's arguments, and what the back end leaves out to keep the time short: single steps are slow.
ARGUMENTS = {"qemu": ["1", "2"], "step": []}
WAYS = [("1", None), ("1", "64"), ("2", "1000"), ("3", "64"), ("8", "64"), ("8", "4096")]



def ptmill(*args):
    return subprocess.run([os.environ["PTMILL"], *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=real.TIMEOUT)


def record(backend, options, program, capture):
    extra = ["1"] if "ptw" in options else ARGUMENTS[backend]
    done = ptmill("record", "-q", "--backend", backend, *options.split(), "-o", capture, "--", program, *extra)
    if done.returncode == 75 and "ptrace" in done.stderr:
        real.skip(f"ptrace is refused here: {done.stderr}")
    if done.returncode != 0:
        sys.exit(f"record --backend {backend} {options}: exit {done.returncode}\n{done.stderr}")


def check_libipt(what, capture, size):
    """By libipt: the truth, and the fast engine's events."""
    done = ptmill("verify", "-q", "--engine", "libipt", "--segment-size", size, capture)
    wrong = [] if done.returncode == 0 else [f"{what}: libipt: {done.stdout}{done.stderr}"]
    done = ptmill("verify", "-q", "--engines", "--segment-size", size, capture)
    same = re.fullmatch(r"stream .* same by fast and libipt: .*\n", done.stdout)
    return wrong + ([] if done.returncode == 0 and same else [f"{what}: engines: {done.stdout}{done.stderr}"])


def check(job):
    backend, options, program = job
    what = f"--backend {backend} {options}"
    with tempfile.TemporaryDirectory() as scratch:
        capture = pathlib.Path(scratch, "capture")
        record(backend, options, program, capture)
        (n, _, _, overflows), = truth.truths(capture).values()
        wrong = [] if n >= 2000 else [f"{what}: only {n} instructions recorded"]
        if ("--ovf" in options) != (overflows > 0):
            wrong.append(f"{what}: {overflows} overflows recorded")
        for way in WAYS:
            wrong += [f"{what}: {text}" for text in (truth.check_digest((capture, *way)), truth.check_verify((capture, *way)))
                      if text]
        if "sdm" not in options:
            wrong += check_libipt(what, capture, "1000")
        texts = {real.run("decode", *truth.workers(*way), capture) for way in WAYS[1:3]}
        if len(texts) != 1:
            wrong.append(f"{what}: the text depends on workers and segments")
        if "ptw" in options and texts.pop().count(b"\n[ptwrite ") == 0:
            wrong.append(f"{what}: no PTW in the trace")
    return wrong


def main():
    backends = ["step"] + (["qemu"] if shutil.which("qemu-x86_64") else [])
    if len(backends) == 1:
        print("not looked at: the back end qemu: qemu-x86_64 is not here (Debian: qemu-user)")
    source = pathlib.Path(__file__).parent / "t10_program.c"
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch, "program")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-fcf-protection=none",
                        "-fno-stack-protector", "-fno-builtin", "-o", program, source], check=True)
        jobs = [(backend, options, program) for backend in backends for options in COMMON] + \
               [("step", options, program) for options in STEP]
        wrong = sum(real.each(check, jobs), [])
    print("\n".join(wrong) or f"{len(jobs)} recordings, {len(WAYS)} ways each: as recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
