#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Files that are not what they were or should be: cut while they are read, cut in an AUX payload, perf.data in a pipe;
# and cuts of a stream where an overflow stands before a PSB.
. "$SRC/tests/cli/lib.sh" || exit 1

# A trace that shrinks under the reader: an error, not a short answer.
for _ in $(seq 30); do cat "$trace"; done >shrinks.pt
env --default-signal=TERM "$PTMILL" digest -q --test-delays 1 --segment-size 1000 -j2 "${images[@]}" shrinks.pt -o result \
	>.out 2>.err </dev/null &
pid=$!
for _ in $(seq 600); do
	[ -z "$(find . -name 'result.tmp-*')" ] || break
	sleep 0.1
done
: >shrinks.pt
wait $pid
same "exit code" "$?" 74
like "the error" "$(cat .err)" 'ptmill: shrinks\.pt: the file shrank while it was read: offset=[0-9]+'
[ ! -e result ] || fail "there is output"

# perf.data with one AUX buffer, whole and cut off in its payload.
python3 - "$trace" <<'END'
import pathlib, struct, sys
trace = pathlib.Path(sys.argv[1]).read_bytes()
aux = struct.pack("<IHHQQQIIII", 71, 0, 48, len(trace), 0, 0, 0, 1, 0, 0)
head = struct.pack("<8sQQQQQQQQQ", b"PERFILE2", 104, 0, 104, 0, 104, len(aux) + len(trace), 0, 0, 0)
whole = head.ljust(104, b"\0") + aux + trace
pathlib.Path("whole.perf.data").write_bytes(whole)
pathlib.Path("cut.perf.data").write_bytes(whole[:-1000])
END
run digest -q whole.perf.data "${images[@]}"
expect 0 "stream whole.perf.data:cpu0 $truth" ""
run digest -q --strict cut.perf.data "${images[@]}"
same "exit code" "$code" 3
run decode -q cut.perf.data "${images[@]}"
like "the gap" "$out" '.*
\[gap class=truncated offset=0x[0-9a-f]+ bytes=1000\]'
shown="ptmill digest - <whole.perf.data"
out=$("$PTMILL" digest -q - "${images[@]}" <whole.perf.data)
same "output" "$out" "stream -:cpu0 $truth"
cat whole.perf.data | "$PTMILL" dump -q - >.out 2>.err
same "exit code of a pipe" "$?" 65
like "the error" "$(cat .err)" 'ptmill: -: a perf\.data file can not be read from a pipe.*'

# OVF, then N bytes of PAD, then PSB+ and the resume IP behind it: the same however the stream is cut.
python3 - <<'END'
import pathlib
psb, on, off = b"\x02\x82" * 8, b"\x99\x01", b"\x02\x23"
ip = lambda op, a: bytes([op | 3 << 5]) + a.to_bytes(6, "little")
for pads in (0, 100, 4094, 4095, 5000, 40000):
    first = psb + on + ip(0x1d, 0x401205) + off
    pathlib.Path(f"ovf{pads}.pt").write_bytes(first + b"\x02\xf3" + bytes(pads) + psb + off + ip(0x1d, 0x401205) +
                                              first + b"\x02\xf3" + bytes(pads) + first)
    pathlib.Path(f"begin{pads}.pt").write_bytes(b"\x02\xf3" + bytes(pads) + psb + off + ip(0x1d, 0x401205))
END
for pads in 0 100 4094 4095 5000 40000; do
	for assume in "" "--assume-sync=0x401205"; do
		for kind in ovf begin; do
			run decode -q $kind$pads.pt "${images[@]}" $assume --segment-size 1M
			wanted=$out
			for size in 64 1000 8k; do
				run decode -q $kind$pads.pt "${images[@]}" $assume --segment-size $size
				same "output of size $size" "$out" "$wanted"
				shown="ptmill decode - <$kind$pads.pt $assume --segment-size $size"
				out=$("$PTMILL" decode -q - "${images[@]}" $assume --segment-size $size <$kind$pads.pt)
				same "output" "$out" "$wanted"
			done
		done
	done
done
finish
