# SPDX-License-Identifier: Apache-2.0
"""`decode --format blocks` and `json` against `--format text`: the same instructions, cut where the format says.

The addresses and events are those of the text, whose digests other tests compare with the recorder's.  Lengths and
kinds of the instructions are objdump's, which shares nothing with our decoders; so the blocks are made here anew.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PTMILL = os.environ["PTMILL"]
DATASETS = pathlib.Path(os.environ["SRC"], "datasets")
SLOW = bool(os.environ.get("PTM_SANITIZE"))
EVENT = re.compile(r"\[([a-z ]+?)((?: [a-z0-9]+=\S+)*)\]")

# The first lines of the program of `sig`, by hand from `objdump -d` of it: the C library's _start.
SIG_BEGIN = ["[enabled ip=0000000000401205]", "[exec mode bits=64 ip=0000000000401205]",
             "0000000000401205 5 22 call", "0000000000401220 7 35 jump"]
SIG_BEGIN_JSON = [
    {"kind": "stream", "name": "sig:tid1"},
    {"kind": "event", "event": "enabled", "ip": "0x0000000000401205"},
    {"kind": "event", "event": "exec mode", "bits": 64, "ip": "0x0000000000401205"},
    {"kind": "block", "ip": "0x0000000000401205", "instructions": 5, "bytes": 22, "bits": 64, "ends": "call"}]


def decode(dataset, *options):
    run = subprocess.run([PTMILL, "decode", "-q", *options, dataset], cwd=DATASETS, stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().splitlines()


def kind_of(mnemonic, operands):
    """What an instruction does to the flow, by its name in objdump's Intel syntax."""
    indirect = not re.match(r"(0x)?[0-9a-f]+\b", operands)
    if mnemonic in ("ret", "retn"):
        return "ret"
    if mnemonic == "jmp":
        return "jump-indirect" if indirect else "jump"
    if mnemonic == "call":
        return "call-indirect" if indirect else "call"
    if re.fullmatch(r"j[a-z]+|loop\w*", mnemonic):
        return "cond"
    if mnemonic in ("syscall", "sysenter", "int", "int3", "int1"):
        return "far-call"
    if mnemonic.startswith(("iret", "sysret", "retf")):
        return "far-return"
    return "none"


class Code:
    """Lengths and kinds of the instructions of an ELF file, as objdump finds them one after the other."""
    LINE = re.compile(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t?(.*)")
    PREFIXES = {"bnd", "notrack", "rep", "repz", "repnz", "lock", "data16", "cs", "ds", "rex.W"}

    def __init__(self, elf):
        self.elf, self.known = elf, {}
        self.read()

    def read(self, *options):
        text = subprocess.run(["objdump", "-d", "-w", "-M", "intel", *options, str(self.elf)], stdout=subprocess.PIPE,
                              check=True).stdout.decode(errors="replace")
        for m in map(self.LINE.match, text.splitlines()):
            if m:
                words = m.group(3).split()
                while len(words) > 1 and words[0] in self.PREFIXES:
                    words.pop(0)
                words += ["", ""]
                self.known.setdefault(int(m.group(1), 16), (len(m.group(2).split()), kind_of(words[0], words[1])))

    def at(self, ip):
        if ip not in self.known:  # objdump went through data and lost its step
            self.read(f"--start-address={ip:#x}", f"--stop-address={ip + 16:#x}")
        return self.known[ip]


def blocks_of(text, code):
    """The blocks' lines that belong to the lines of `--no-disasm`."""
    out, block = [], None
    for line in text + ["[]"]:
        if line.startswith("["):
            if block:
                out.append("%016x %d %d none" % (block[0], block[1], block[2] - block[0]))
            block = None
            out.append(line)
            continue
        ip = int(line, 16)
        length, kind = code.at(ip)
        if block and block[2] != ip:
            out.append("%016x %d %d none" % (block[0], block[1], block[2] - block[0]))
            block = None
        block = [ip, 1, ip + length] if not block else [block[0], block[1] + 1, ip + length]
        if kind != "none":
            out.append("%016x %d %d %s" % (block[0], block[1], block[2] - block[0], kind))
            block = None
    return out[:-1]


def number(text):
    if re.fullmatch(r"[0-9a-f]{16}", text):
        return "0x" + text
    if text.startswith("0x"):
        return "0x%016x" % int(text, 16)
    return int(text) if text.isdigit() else text


def json_of(blocks):
    """The objects that belong to the lines of blocks of a stream in 64-bit code, without that of the stream."""
    out, resynced = [], {}
    for line in blocks:
        if line.startswith("[resync "):
            resynced = {"resynced": True} if line == "[resync begin]" else {}
            continue
        m = EVENT.fullmatch(line)
        if m:
            fields = {k: number(v) for k, v in (f.split("=") for f in m.group(2).split())}
            head = {"kind": "gap"} if m.group(1) == "gap" else {"kind": "event", "event": m.group(1)}
            out.append({**head, **fields})
        else:
            ip, n, size, ends = line.split()
            out.append({"kind": "block", "ip": "0x" + ip, "instructions": int(n), "bytes": int(size), "bits": 64,
                        "ends": ends, **resynced})
    return out


def expand(objects, code):
    """The addresses of the blocks' instructions."""
    for o in objects:
        if o["kind"] == "block":
            ip = int(o["ip"], 16)
            for _ in range(o["instructions"]):
                yield ip
                ip += code.at(ip)[0]


def differ(name, got, want):
    for n, (g, w) in enumerate(zip(got, want), 1):
        if g != w:
            return [f"{name}: line {n} is {g!r}, not {w!r}"]
    return [f"{name}: {len(got)} lines, not {len(want)}"] if len(got) != len(want) else []


def check(dataset, code):
    text = decode(dataset, "--no-disasm")
    blocks = blocks_of(text, code)
    bad = differ(f"{dataset}: blocks", decode(dataset, "--format=blocks"), blocks)
    lines = decode(dataset, "--format=json")
    objects = [json.loads(line) for line in lines]
    if objects[0] != {"kind": "stream", "name": f"{dataset}:tid1"}:
        bad.append(f"{dataset}: json begins with {objects[0]}")
    bad += differ(f"{dataset}: json", objects[1:], json_of(blocks))
    ips = [int(line, 16) for line in text if not line.startswith("[")]
    bad += differ(f"{dataset}: expanded", list(expand(objects, code)), ips)
    for form, want in (("blocks", blocks), ("json", lines)):
        for threads in ("1", "2", "3", "8"):
            for size in ("300", "16k") if SLOW else ("300", "1000", "16k", "1M"):
                got = decode(dataset, f"--format={form}", "-j", threads, "--segment-size", size)
                bad += differ(f"{dataset}: {form} -j {threads} --segment-size {size}", got, want)
    print(f"{dataset}: {len(ips)} instructions, {len(blocks)} lines of blocks and events")
    return bad


def main():
    if shutil.which("objdump") is None:
        print("skipped: objdump is not here")
        return 77
    # The comparison must be able to fail.
    assert differ("x", ["a", "b"], ["a", "c"]) and differ("x", ["a"], ["a", "b"])
    code = Code(next((DATASETS / "sig/images").iterdir()))
    problems = differ("sig: by hand", decode("sig", "--format=blocks")[:4], SIG_BEGIN)
    problems += differ("sig: by hand", [json.loads(x) for x in decode("sig", "--format=json")[:4]], SIG_BEGIN_JSON)
    problems += check("sig", code) + check("noise", code)
    # Damage: gaps, too.
    with tempfile.TemporaryDirectory() as d:
        data = bytearray((DATASETS / "sig/streams/tid1.pt").read_bytes())
        for at in range(2000, len(data), 3001):
            data[at:at + 3] = b"\xff\xff\xff"
        path = pathlib.Path(d, "damaged")
        path.write_bytes(data)
        options = ["--elf", str(code.elf)]
        text = decode(str(path), "--no-disasm", *options)
        assert any(line.startswith("[gap ") for line in text)
        assert any(line == "[resync begin]" for line in text), "no resync: a test of its marks needs one"
        blocks = blocks_of(text, code)
        problems += differ("damaged: blocks", decode(str(path), "--format=blocks", *options), blocks)
        objects = [json.loads(line) for line in decode(str(path), "--format=json", *options)]
        problems += differ("damaged: json", objects[1:], json_of(blocks))
    print("\n".join(problems) or "blocks and JSON agree with the text")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
