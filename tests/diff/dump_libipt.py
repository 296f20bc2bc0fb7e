# SPDX-License-Identifier: Apache-2.0
"""`ptmill dump` against libipt's packet decoder (tests/tools/ipt_packets.c), line by line.

All lines must be equal but for the differences in KNOWN, each with its reason; what was met of them is reported.
"""
import os
import pathlib
import re
import subprocess

import real

# Differences that are right: name, our line and libipt's at the same offset (without it; {1} is our first group), what
# follows, reason.  What follows: "" = the next line is compared; "frame" = libipt has given the frame up, it goes on at
# the next PSB; "step" = it reads over the next PSB, it goes on at the first one that both see.
BAD = r"bad +\d+ bytes skipped"
CUT = r"truncated +\d+ bytes skipped"
KNOWN = [
    ("new packets", r"(?:bbp|bep|cfe|evd|trig)\b.*", BAD, "frame",
     "libipt 2.0.5 does not know the packets of PEBS, Event Trace and trigger tracing"),
    ("new packets, cut off", CUT, BAD, "frame",
     "the same, but cut off by a PSB or the end: we know that they are longer"),
    ("IF of MODE.Exec", r"(mode\.exec +\S+), if", r"{1}", "",
     "libipt 2.0.5 does not show bit 2 of MODE.Exec, IF, which Event Trace added"),
    ("HW of PWRE", r"(pwre +c\d+\.\d+)(?:, hw)?", r"{1}(?:, hw)?", "",
     "SDM: HW is bit 7 of byte 2, and perf reads it there; libipt 2.0.5 looks at bit 3, which is reserved"),
    ("reserved bits of TMA", r"tma .*", BAD, "frame",
     "libipt rejects a TMA with reserved bits set; a decoder is to ignore them"),
    ("reserved bits of MWAIT", r"(mwait +[0-9a-f]{8}, )([0-9a-f]{2})", r"{1}[0-9a-f]{1,6}{2}", "",
     "libipt shows four bytes of extensions; SDM: bits 1:0 of the first, the rest is reserved"),
    ("reserved bit of PWRX", r"(pwrx +last c\d+, deepest c\d+, wake )[0-9a-f]", r"{1}[0-9a-f]", "",
     "bit 1 of the wake reasons is reserved: libipt does not show it, we do"),
    ("CYC of ten bytes", r"cyc +[0-9a-f]{16}", BAD, "frame",
     "SDM: a CYC ends with the byte whose Exp bit is 0; libipt stops at nine, though the count still fits 64 bits"),
    ("a long run of 02 82", CUT, "psb", "step",
     "the PSB is the last 16 bytes of the run, behind a packet that was cut off; libipt takes the first 16"),
    ("cut off by a PSB", CUT, r".*", "step",
     "a PSB may follow a packet that was cut off at any byte: we look for it first, libipt reads on into it"),
]


def split(line):
    return line[:16], line[18:]


def frames(text):
    """{offset of a PSB: the lines of its frame}; what stands before the first has the key ""."""
    out = {"": []}
    current = out[""]
    for line in text.decode().splitlines():
        offset, packet = split(line)
        if packet == "psb":
            current = out.setdefault(offset, [])
        current.append(line)
    return out


class Differ:
    def __init__(self, scratch):
        self.path = pathlib.Path(scratch, "trace")
        self.met = dict.fromkeys((entry[0] for entry in KNOWN), 0)
        self.lines = 0
        self.failed = 0

    def known(self, a, b, psbs):
        """The entry that explains two lines; @psbs: the offsets of our PSBs."""
        (at, ours), (there, theirs) = split(a), split(b)
        if at != there:
            return None
        for entry in KNOWN:
            m = re.fullmatch(entry[1], ours)
            if not m:
                continue
            groups = [re.escape(g) for g in m.groups()]
            pattern = re.sub(r"\{([12])\}", lambda n: groups[int(n.group(1)) - 1], entry[2]) if groups else entry[2]
            if not re.fullmatch(pattern, theirs):
                continue
            if entry[3] == "step" and f"{int(at, 16) + int(ours.split()[1]):016x}" not in psbs:
                continue  # cut off by the end of the data
            return entry
        return None

    def frame(self, what, ours, theirs, rest, psbs):
        """Compare the lines of a frame; @rest: libipt's line behind it.  What follows, as in KNOWN."""
        for i in range(max(len(ours), len(theirs))):
            a = ours[i] if i < len(ours) else "nothing"
            b = theirs[i] if i < len(theirs) else rest if i == len(theirs) else "nothing"
            self.lines += 1
            if a == b:
                continue
            entry = self.known(a, b, psbs)
            if entry is None:
                print(f"{what}\n  ours:   {a}\n  libipt: {b}")
                self.failed += 1
                return "frame"
            self.met[entry[0]] += 1
            if entry[3]:
                return entry[3]
        return ""

    def compare(self, what, data):
        tool = pathlib.Path(os.environ["BUILD"], "tests/tools/ipt_packets")
        self.path.write_bytes(data)
        ours = frames(real.run("dump", "-q", self.path))
        theirs = frames(subprocess.run([tool, self.path], check=True, capture_output=True,
                                       timeout=real.TIMEOUT).stdout)
        keys = sorted({*ours, *theirs})
        in_step = True
        for key, after in zip(keys, [*keys[1:], None]):
            if not in_step and not (key in ours and key in theirs):
                continue
            rest = theirs.get(after, ["nothing"])[0]
            in_step = self.frame(what, ours.get(key, []), theirs.get(key, []), rest, ours) != "step"

    def report(self):
        """Print what was met of the known differences; the names of those that were not."""
        for name, _, _, _, reason in KNOWN:
            print(f"  {name}: {self.met[name]} times.  {reason}")
        return [name for name, n in self.met.items() if n == 0]
