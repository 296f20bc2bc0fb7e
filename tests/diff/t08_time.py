# SPDX-License-Identifier: Apache-2.0
"""Our tracker of time against libipt's, at each time packet, TIP.PGE and OVF (tests/tools/time_compare.c).

On the captures of datasets/, and on real recordings where PTMILL_REAL_TRACES is set.  BOUNDS are ticks: where they are not
0, the two may differ, and the reason is given.  What a TSC packet says against what MTC and CYC made of that time before
("slip") needs no libipt: it is hardware that judges.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import real

NO_CLOCKS = (255, 0, 0, 0)
SKYLAKE_X = (3, 37, 2, 308)  # MTC each 8 crystal clocks, nominal ratio, CPUID leaf 15H: 154 ticks a clock

# Reasons for differences:
#   RATIO  libipt measures the ratio of ticks to cycles between MTCs, we take nominal ratio / CBR, the SDM's formula. Our
#          recorder lets time pass in steps (a system call) with an MTC in the middle, which misleads such a measurement.
#   HOLD   Where the estimate ran ahead of what the next MTC or TSC says, libipt goes back, we stand still.
#   ROUND  libipt rounds ticks down at each packet, we carry the fraction along.
#   OVF    libipt forgets the ratio at an overflow and its time stands still until it has measured a new one.
# MTC alone leaves no room: there we are equal, but for HOLD.
#
# What is compared: name, clocks (None: the file tells), largest and median difference allowed; and of the slip, or None.
# Slip: on hardware less than a crystal clock; on our recordings, where time is exact, 1 or 2 ticks with CYC (but for the
# steps) and less than a period of the MTC without (two, where an overflow has hidden some).
REAL = [
    ("dynamorio-pie/trace.pt", SKYLAKE_X, 40, 4, (154, 154)),  # RATIO, HOLD, ROUND: all four
    ("dynamorio-static-a/trace.pt", SKYLAKE_X, 70, 5, (154, 154)),
    ("dynamorio-static-b/trace.pt", SKYLAKE_X, 40, 5, None),
    ("dynamorio-tiny/trace.pt", SKYLAKE_X, 10, 3, None),
    ("lldb/intelpt-multi-core-trace/cores/45.intelpt_trace", NO_CLOCKS, 0, 0, None),
    ("lldb/intelpt-multi-core-trace/cores/51.intelpt_trace", NO_CLOCKS, 0, 0, None),
    ("lldb/intelpt-trace/3842849.trace", NO_CLOCKS, 0, 0, None),  # no TSC at all: no time
    ("hase/control_flow.perf.data", None, 0, 0, None),
    ("hase/loopy.perf.data", None, 0, 0, None),
    ("quipper/perf.data", None, 0, 0, None),
    ("quipper/perf.data.piped", None, 6, 0, None),  # HOLD: a TSC 6 ticks behind its MTC
]
CAPTURES = [
    ("calc", 1500, 90, (200, 2)),  # RATIO, HOLD
    ("generate", 5000, 140, (300, 2)),  # RATIO, HOLD
    ("everything", 3300, 20, (1400, 2)),  # RATIO, HOLD, OVF
    ("noise", 0, 0, (1600, 500)),
    ("threads", 0, 0, (800, 500)),
    ("compress", 0, 0, (800, 500)),
    ("shapes", 0, 0, None),
]
AUXTRACE_INFO, AUXTRACE, HEADER_ATTR, TRACING_DATA = 70, 71, 64, 66
MTC_PERIOD_SHIFT = 14  # in attr.config, as the kernel's intel_pt PMU has it


def records(data):
    """(type, offset, size) of each record of a perf.data file."""
    pipe = struct.unpack_from("<Q", data, 8)[0] == 16
    pos, end = 16, len(data)
    if not pipe:
        pos, size = struct.unpack_from("<QQ", data, 40)
        end = pos + size
    while pos + 8 <= end:
        kind, _, size = struct.unpack_from("<IHH", data, pos)
        yield kind, pos, size
        if kind == AUXTRACE:
            size += struct.unpack_from("<Q", data, pos + 8)[0]
        elif kind == TRACING_DATA and pipe:
            size += struct.unpack_from("<I", data, pos + 8)[0]
        pos += size


def perf_clocks(data):
    """What AUXTRACE_INFO and the attributes of a perf.data file say of the clocks."""
    attrs = []
    if struct.unpack_from("<Q", data, 8)[0] != 16:
        step, first, size = struct.unpack_from("<QQQ", data, 16)
        attrs = [first + i for i in range(0, size, step)]
    info = None
    for kind, pos, size in records(data):
        if kind == HEADER_ATTR:
            attrs.append(pos + 8)
        elif kind == AUXTRACE_INFO:
            info = struct.unpack_from(f"<{(size - 16) // 8}Q", data, pos + 16)
    pmu, mtc_bit, mtc_bits, ebx, eax, nominal = info[0], info[10], info[11], info[12], info[13], info[15]
    configs = [struct.unpack_from("<I4xQ", data, at) for at in attrs]
    config = next(config for kind, config in configs if kind == pmu)
    period = (config & mtc_bits) >> MTC_PERIOD_SHIFT if config & mtc_bit else NO_CLOCKS[0]
    return period, nominal, eax, ebx


def capture_clocks(capture):
    clocks = json.loads((capture / "capture.json").read_text())["clocks"]
    leaf = clocks["cpuid_0x15"]
    return clocks.get("mtc_freq", 0), clocks["nom_freq"], leaf["eax"], leaf["ebx"]


class Comparer:
    def __init__(self, scratch):
        self.tool = pathlib.Path(os.environ["BUILD"], "tests/tools/time_compare")
        self.scratch = pathlib.Path(scratch, "trace")
        self.failed = []

    def run(self, path, clocks):
        done = subprocess.run([self.tool, path, *map(str, clocks)], capture_output=True, text=True, timeout=real.TIMEOUT)
        if done.returncode != 0:
            sys.exit(f"time_compare {path}: exit {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def check(self, name, path, clocks, bounds):
        got = self.run(path, clocks)
        worst, median, slip = bounds
        kinds = {k: v for k, v in got.items() if isinstance(v, dict) and k != "slip"}
        told = ", ".join(f"{k} {v['n']}: {v['median']}/{v['p99']}/{v['max']} ({v['mean']:+})" for k, v in kinds.items())
        print(f"{name}: {got['frames']} frames; median/p99/max (mean): {told}")
        print(f"    slip {got.get('slip')}; {got['ns_packet']} ns a packet, {got['ns_packet_now']} with the time asked for")
        if got["unequal"] or not (kinds or got["neither"]):
            self.failed.append(f"{name}: {got['unequal']} places where only one of us has a time, {len(kinds)} kinds of packet")
        for kind, v in kinds.items():
            if v["max"] > worst or v["median"] > median:
                self.failed.append(f"{name}: {kind}: median {v['median']}, max {v['max']}, allowed {median}, {worst}")
        slips = got.get("slip")
        if slip is not None and slips and (slips["max"] > slip[0] or slips["median"] > slip[1]):
            self.failed.append(f"{name}: slip {slips}, allowed {slip}")
        return slips

    def check_bytes(self, name, data, clocks, bounds):
        self.scratch.write_bytes(data)
        return self.check(name, self.scratch, clocks, bounds)


def check_captures(comparer):
    for name, *bounds in CAPTURES:
        capture = pathlib.Path(os.environ["SRC"], "datasets", name)
        for stream in sorted((capture / "streams").iterdir()):
            data = stream.read_bytes()
            if stream.suffix == ".zst":
                data = subprocess.run(["zstd", "-q", "-d", "-c", stream], capture_output=True, check=True).stdout
            comparer.check_bytes(f"{name}/{stream.name}", data, capture_clocks(capture), bounds)


def check_real(comparer, traces):
    for name, clocks, *bounds in REAL:
        data = (traces / name).read_bytes()
        if clocks is not None:
            comparer.check_bytes(name, data, clocks, bounds)
            continue
        for i, stream in enumerate(real.aux_streams(data)):
            comparer.check_bytes(f"{name}, AUX stream {i}", stream, perf_clocks(data), bounds)


def main():
    traces = real.real_traces()
    with tempfile.TemporaryDirectory() as scratch:
        comparer = Comparer(scratch)
        check_captures(comparer)
        if traces is not None:
            check_real(comparer, traces)
        else:
            print("real recordings not compared: PTMILL_REAL_TRACES is not set")
    if comparer.failed:
        sys.exit("\n".join(comparer.failed))


if __name__ == "__main__":
    main()
