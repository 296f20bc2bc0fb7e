#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# B28: a trace without a PSB at its begin is decoded from an IP and a mode that the user states.
. "$SRC/tests/cli/lib.sh" || exit 1
# The trace begins with psb, cbr, psbend (22 bytes), mode.exec, tip.pge 401205 (7 bytes).
tail -c +23 "$trace" >off.pt
tail -c +30 "$trace" >on.pt
for size in 64 1000 256k; do
	run digest -q off.pt "${images[@]}" --assume-sync off --segment-size $size
	expect 0 "stream off.pt $truth" ""
	run digest -q on.pt "${images[@]}" --assume-sync 0x401205 --segment-size $size
	expect 0 "stream on.pt $truth" ""
	shown="ptmill digest - (assume-sync)"
	out=$("$PTMILL" digest -q - "${images[@]}" --assume-sync 0x401205/64 --segment-size $size <on.pt)
	same "output from a pipe" "$out" "stream - $truth"
done
# It does not matter where there is a PSB at the begin.
run digest -q "$trace" "${images[@]}" --assume-sync 0x1234
expect 0 "stream $trace $truth" ""
# No PSB at all: nothing is decoded, and that is said; with the option it is.
head -c 500 on.pt >none.pt
run decode none.pt -q "${images[@]}"
expect 65 "[gap class=no-sync offset=0x0 bytes=500]" \
	"ptmill: warning: none.pt: no PSB in 500 bytes: is it an Intel PT trace?"
run digest -q --strict none.pt "${images[@]}" --assume-sync 0x401205
same "exit code" "$code" 0
like "instructions" "$out" 'stream none\.pt instructions [1-9][0-9]+ digest 0x[0-9a-f]{16}'
# The first addresses are compressed against the IP that is assumed.
run dump -q "$trace"
wanted=$(echo "$out" | sed -n '/tip.pge/,$p' | sed 1d | head -n 300 | cut -c17-)
run dump -q on.pt --assume-sync 0x401205
same "the packets" "$(echo "$out" | head -n 300 | cut -c17-)" "$wanted"
[[ $wanted == *"1: 000000000040"* ]] || fail "no compressed address in it"
# Every byte is accounted for.
run stat -q none.pt "${images[@]}" --assume-sync 0x401205
like "accounting" "$out" '.* size of the trace +500, every byte is accounted for'
# A wrong mode is a gap, not a crash.
run digest -q --strict none.pt "${images[@]}" --assume-sync 0x401205/16
same "exit code of a wrong mode" "$code" 3
for bad in "" on 0x 401205/ 0x401205/65 /64 -1; do
	run digest "$trace" --assume-sync "$bad"
	same "exit code of --assume-sync '$bad'" "$code" 64
done
finish
