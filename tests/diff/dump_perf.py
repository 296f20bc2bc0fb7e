# SPDX-License-Identifier: Apache-2.0
"""`ptmill dump` against `perf script -D`, packet by packet.

perf prints a packet together with the padding behind it, up to eight bytes, and addresses as they stand in the packet.
Its lines are taken apart here into lines of our form: the padding, the packet's size and last-IP are worked out from
the bytes that perf prints (SDM vol. 3, ch. Intel PT), all other fields from its text.
"""
import re
import shutil
import subprocess

import real

LINE = re.compile(r"\.  ([0-9a-f]{8}):  ((?:[0-9a-f]{2} )+) *(.*)$")
RECORD = re.compile(r".*PERF_RECORD_AUXTRACE size: 0x([0-9a-f]+)  offset: (?:0x)?([0-9a-f]+)  ref: .*  idx: (\d+)")
BAD = "Bad packet!"

# Differences that are right: name, our line without offset, what perf has there, reason.
KNOWN = [
    ("TRIG", r"trig\b.*", BAD, "perf 6.1 does not know the packet of trigger tracing"),
    ("no packet", r"bad +\d+ bytes skipped", BAD, "the same verdict; perf goes on at the next byte, we at the next PSB"),
    ("cut off", r"truncated +\d+ bytes skipped", r".*",
     "a packet cut off by the end or by a PSB: perf calls its bytes bad, or reads on into the PSB"),
    ("CYC beyond 64 bits", r"bad +\d+ bytes skipped", r"cyc +[0-9a-f]{16}",
     "a count that does not fit 64 bits is no packet for us; perf drops the bits above"),
    ("reserved bytes of MWAIT", r"mwait +[0-9a-f]{6}([0-9a-f]{2}), [0-9a-f]{2}", r"mwait +0{6}{1}, 0[0-3]",
     "SDM: 8 bits of hints and 2 of extensions; perf shows no others, we show the reserved ones of their bytes, too"),
    ("reserved byte of CBR", r"(cbr +\d+)", r"{1}, reserved [0-9a-f]+", "SDM: the ratio has 8 bits; perf shows 16"),
    ("reserved mode", r"mode\.exec +reserved.*", BAD,
     "CS.L and CS.D are not set both: perf takes it for no packet, we for one with a reserved value, like libipt"),
    ("TNT without branches", r"bad +\d+ bytes skipped", r"tnt\.64",
     "a long TNT of a stop bit alone is no packet (SDM: 1 to 47 branches); perf prints it with none"),
    ("before the first PSB", r"head +\d+ bytes (?:before the first|without a) psb", r".*",
     "nothing tells where packets begin there: perf reads on from the first byte"),
]
# Both see a packet of the same size: what is behind it is compared, too.
SAME_SIZE = {"reserved bytes of MWAIT", "reserved byte of CBR"}


def available():
    return shutil.which("perf") is not None


def script(path):
    """{(idx, AUX offset): (size, [(offset, bytes, text)])} of each AUXTRACE record that perf prints."""
    with open(path, "rb") as f:
        done = subprocess.run(["perf", "script", "-D", "-i", "-" if path.suffix == ".piped" else path], stdin=f,
                              capture_output=True, timeout=real.TIMEOUT)
    records = {}
    lines = None
    for line in done.stdout.decode(errors="replace").splitlines():
        m = RECORD.match(line)
        if m:
            lines = []
            records[int(m.group(3)), int(m.group(2), 16)] = (int(m.group(1), 16), lines)
            continue
        m = LINE.match(line)
        if m:
            lines.append((int(m.group(1), 16), bytes.fromhex(m.group(2)), m.group(3).strip()))
    return records


IP_SIZE = {0: 1, 1: 3, 2: 5, 3: 7, 4: 7, 6: 9}
EXT_SIZE = {0x03: 4, 0x12: 6, 0x13: 4, 0x22: 4, 0x23: 2, 0x32: 10, 0x33: 2, 0x43: 8, 0x53: 11, 0x62: 2, 0x63: 3,
            0x73: 7, 0x82: 16, 0x83: 2, 0x92: 6, 0xa2: 7, 0xa3: 8, 0xb2: 10, 0xb3: 2, 0xc2: 10, 0xc3: 11, 0xc8: 7,
            0xe2: 2, 0xf3: 2}


def own_size(name, raw, item=0):
    """Bytes of the packet without the padding that perf adds; @item: bytes of an item of the block."""
    if name == "BIP":
        return 1 + item
    if raw[0] == 2:
        return EXT_SIZE[raw[1]]
    if raw[0] & 1 == 0:
        return 1
    if raw[0] & 3 == 3:
        n = 1
        more = raw[0] & 4
        while more:
            more = raw[n] & 1
            n += 1
        return n
    if raw[0] in (0x19, 0x59, 0x99):
        return {0x19: 8, 0x59: 2, 0x99: 2}[raw[0]]
    return IP_SIZE[raw[0] >> 5]


def ip_text(raw, text, last):
    """(our text, new last-IP)."""
    ipbytes = raw[0] >> 5
    if text == "no ip":
        return "0: ????????????????", last
    ip = int(text, 16)
    keep = {1: 16, 2: 32, 3: 64, 4: 48, 6: 64}[ipbytes]
    ip = last >> keep << keep | ip
    if ipbytes == 3 and ip >> 47 & 1:
        ip |= 0xffff << 48
    return f"{ipbytes}: {ip:016x}", ip


CFE = {1: "intr", 2: "iret", 3: "smi", 4: "rsm", 5: "sipi", 6: "init", 7: "vmentry", 8: "vmexit", 9: "vmexit_intr",
       10: "shutdown", 12: "uintr", 13: "uiret", 14: "swintr", 15: "syscall"}
EVD = {0: "cr2", 1: "vmxq", 2: "vmxr"}
PLAIN = {"PSB": "psb", "PSBEND": "psbend", "OVF": "ovf", "TraceSTOP": "stop"}
HEX = {"TSC": "tsc", "MTC": "mtc", "CYC": "cyc", "MNT": "mnt"}
FLOW = {"TIP": "tip", "TIP.PGE": "tip.pge", "TIP.PGD": "tip.pgd", "FUP": "fup"}


def numbers(text):
    """The numbers of a text, hexadecimal ones with 0x."""
    return [int(n, 0) for n in re.findall(r"\b0x[0-9a-f]+\b|\b\d+\b", text)]


def payload(name, rest, raw, item):
    """perf's fields of a packet in our words; None for a name that is not known here."""
    n = numbers(rest)
    if name in ("BEP", "EXSTOP"):
        return name.lower(), "ip" if n[0] else ""
    if name == "TNT":
        kind = "tnt.8" if raw[0] != 2 else "tnt.64"
        return kind, rest.split(" ")[0].translate({ord("T"): "!", ord("N"): "."})
    if name == "CBR":
        return "cbr", f"{n[0] & 255}{f', reserved {n[0] >> 8:x}' if n[0] > 255 else ''}"
    if name == "TMA":
        return "tma", f"{n[0]:x}, {n[1]:x}"
    if name == "MODE.Exec":
        return "mode.exec", f"{n[1]}-bit{', if' if n[0] else ''}" if n[1] else "reserved"
    if name == "MODE.TSX":
        return "mode.tsx", ["commit", "intx", "abort", "intx, abort"][n[0] << 1 | n[1]]
    if name == "PIP":  # perf prints bits 51:5 of CR3
        return "pip", f"{n[0] << 5:x}{', nr' if n[1] else ''}"
    if name == "VMCS":  # bits 51:12 of the address
        return "vmcs", f"{n[0] << 12:x}"
    if name == "PTWRITE":
        size = own_size(name, raw) - 2
        return "ptw", f"{size // 8}: {n[0]:0{size * 2}x}{', ip' if n[1] else ''}"
    if name == "MWAIT":
        return "mwait", f"{n[1]:08x}, {n[2]:02x}"
    if name == "PWRE":
        return "pwre", f"c{n[2]}.{n[3]}{', hw' if n[1] else ''}"
    if name == "PWRX":
        return "pwrx", f"last c{n[1]}, deepest c{n[2]}, wake {n[3]:x}"
    if name == "BBP":
        return "bbp", f"type {int(rest.split()[-1], 16)}, {rest.split()[1][0]}-byte items"
    if name == "BIP":
        return "bip", f"id {n[0]}: {n[1]:0{item * 2}x}"
    if name == "CFE":
        return "cfe", f"{n[1]} {CFE.get(n[1], '?')}, vector {n[2]}{', ip' if n[0] else ''}"
    if name == "EVD":
        return "evd", f"{n[0]} {EVD.get(n[0], '?')}: {n[1]:016x}"
    return None


def translate(lines):
    """[(offset, text)] in our form; a text that is perf's own begins with a capital letter."""
    out = []
    last = item = 0
    for offset, raw, text in lines:
        name, _, rest = text.partition(" ")
        size = 0
        if name in FLOW:
            ip, last = ip_text(raw, rest, last)
            out.append((offset, f"{FLOW[name]:<12}{ip}"))
            size = own_size(name, raw)
        elif name in PLAIN or name in HEX:
            if name == "PSB":
                last = 0
            value = f"{int(rest, 16):x}" if name in HEX else ""
            out.append((offset, f"{ {**PLAIN, **HEX}[name]:<12}{value}".rstrip()))
            size = own_size(name, raw)
        elif text == BAD:
            out.append((offset, BAD))
            size = len(raw)
        elif name != "PAD":
            fields = payload(name, rest, raw, item)
            if fields is None:
                raise SystemExit(f"perf prints a packet that this test cannot read: {text}")
            out.append((offset, f"{fields[0]:<12}{fields[1]}".rstrip()))
            size = own_size(name, raw, item)
            if name == "BBP":
                item = int(rest.split()[1][0])
        if any(raw[size:]):
            raise SystemExit(f"perf adds bytes that are not padding: {offset:#x} {raw.hex()} {text}")
        out += [(offset + i, "pad") for i in range(size, len(raw))]
    return out


def explains(entry, ours, perfs):
    m = re.fullmatch(entry[1], ours)
    return m and re.fullmatch(entry[2].replace("{1}", m.group(1)) if m.groups() else entry[2], perfs)


class Differ:
    def __init__(self):
        self.met = dict.fromkeys((entry[0] for entry in KNOWN), 0)
        self.equal = 0
        self.failed = 0

    def fail(self, what, offset, ours, theirs):
        print(f"{what}, offset {offset:#x}\n  ours: {ours}\n  perf: {theirs}")
        self.failed += 1

    def compare(self, what, ours, theirs):
        """Both: [(offset, text)].  Behind a difference they are compared again from the next PSB that both see."""
        a, b = dict(ours), dict(theirs)
        psbs = sorted(o for o in a if a[o] == "psb" and b.get(o) == "psb")
        at = 0
        for offset in sorted({*a, *b}):
            if offset < at:
                continue
            mine, perfs = a.get(offset, "nothing"), b.get(offset, "nothing")
            if mine == perfs:
                self.equal += 1
                continue
            entry = next((e for e in KNOWN if explains(e, mine, perfs)), None)
            if entry is None:
                self.fail(what, offset, mine, perfs)
            else:
                self.met[entry[0]] += 1
            if entry is not None and entry[0] in SAME_SIZE:
                continue
            at = next((o for o in psbs if o > offset), 1 << 64)

    def report(self):
        for name, _, _, reason in KNOWN:
            print(f"  {name}: {self.met[name]} times.  {reason}")
        return [name for name, n in self.met.items() if n == 0]


def our_lines(out):
    """Streams of the output of `ptmill dump`: [(offset, text)] each; where there are several, each has its name first."""
    streams = []
    for line in out.decode().splitlines():
        if line.startswith("[stream ") or not streams:
            streams.append([])
        if not line.startswith("[stream "):
            streams[-1].append((int(line[:16], 16), line[18:]))
    return streams
