# SPDX-License-Identifier: Apache-2.0
"""`ptmill dump` against libipt's packet decoder on every raw trace and every AUX payload of the real recordings."""
import sys
import tempfile

import dump_libipt
import real


def recordings(differ, traces):
    files = sorted(p for p in traces.rglob("*") if p.suffix in (".pt", ".trace", ".intelpt_trace"))
    for path in files:
        differ.compare(str(path.relative_to(traces)), path.read_bytes())
    streams = 0
    for path in sorted(p for p in traces.rglob("*perf.data*") if p.is_file()):
        for i, data in enumerate(real.aux_streams(path.read_bytes())):
            differ.compare(f"{path.relative_to(traces)}, AUX stream {i}", data)
            streams += 1
    if not files or not streams:
        sys.exit(f"PTMILL_REAL_TRACES: {len(files)} raw traces and {streams} AUX streams in {traces}")
    print(f"{len(files)} raw traces and {streams} AUX streams compared")


def main():
    traces = real.real_traces()
    if traces is None:
        real.skip("8 raw traces, 6 AUX streams: PTMILL_REAL_TRACES is not set")
    with tempfile.TemporaryDirectory() as scratch:
        differ = dump_libipt.Differ(scratch)
        recordings(differ, traces)
    print(f"{differ.lines} lines of real recordings; known differences:")
    differ.report()
    if differ.failed:
        sys.exit(f"{differ.failed} differences that are not explained")


if __name__ == "__main__":
    main()
