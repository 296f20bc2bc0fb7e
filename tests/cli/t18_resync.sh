#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One byte of a trace is another: what is decoded behind it inside its PSB frame is counted and digested on its own.
. "$SRC/tests/cli/lib.sh" || exit 1
at=20000
cp "$trace" hurt.pt
chmod u+w hurt.pt
printf '\004' | dd of=hurt.pt bs=1 seek=$at conv=notrunc 2>dd.txt
# The frame, as the recorder saw it: its PSB, the next one, and how many instructions precede each.
read -r begin before end behind < <(awk -v at=$at '
	$1 == "psb" && $2 <= at { offset = $2; n = $3 }
	$1 == "psb" && $2 > at { print offset, n, $2, $3; exit }' "$data/truth/tid1.txt")
all=$(awk '$1 == "instructions" { print $2 }' "$data/truth/tid1.txt")

run digest -q hurt.pt "${images[@]}" --resync psb
same "exit code" "$code" 0
like "standard output" "$out" 'stream hurt\.pt instructions [0-9]+ digest 0x[0-9a-f]{16}'
sure=$out
n=$(echo "$sure" | awk '{ print $4 }')
((n < all && n >= all - (behind - before))) || fail "$n of $all instructions, $((behind - before)) of them in the frame"
run digest -q hurt.pt "${images[@]}"
same "exit code" "$code" 0
like "standard output" "$out" "$sure"$'\n''stream hurt\.pt resynced [1-9][0-9]* digest 0x[0-9a-f]{16}'
both=$out
resynced=$(echo "$both" | awk '$3 == "resynced" { print $4 }')
((n + resynced <= all)) || fail "$n instructions and $resynced resynced, of $all"
for size in 64 1000 256k; do
	run digest -q hurt.pt "${images[@]}" --segment-size $size -j3 --resync ip
	expect 0 "$both" ""
done
# The marks count what is sure: up to the frame they are the recorder's.
run digest -q hurt.pt "${images[@]}" --every "$before"
same "the digest up to the frame" "$(echo "$out" | awk '$3 == "at" { print $4, $6; exit }')" \
	"$(awk -v at="$begin" '$1 == "psb" && $2 == at { print $3, $4 }' "$data/truth/tid1.txt")"
run stat -q hurt.pt "${images[@]}"
like "the table" "$out" ".*  resynced +$resynced"$'\n'".*every byte is accounted for"
run stat -q --json hurt.pt "${images[@]}"
like "the JSON" "$out" ".*\"resynced\": $resynced,.*"
run digest hurt.pt "${images[@]}"
like "the summary" "$err" "ptmill: 1 stream, .*, $n instructions and $resynced resynced, [0-9]+ gaps?, .*"
# What was resynced is not what was recorded, even if its number is right.
run verify -q hurt.pt "${images[@]}" --truth "$data/truth/tid1.txt"
same "exit code" "$code" 1
like "the report" "$out" "stream hurt\.pt differs: .*
  as recorded up to $before instructions, psb at offset $(printf '0x%x' "$begin")
  not any more after $behind instructions, psb at offset $(printf '0x%x' "$end")
  not compared: $resynced resynced instructions"
# The engine that cannot do it.
run digest -q hurt.pt "${images[@]}" --engine libipt
same "exit code" "$code" 0
like "standard output" "$out" 'stream hurt\.pt instructions [0-9]+ digest 0x[0-9a-f]{16}'
# A comparison of the engines goes on at PSBs, and its report is the same however the trace was cut.
run verify -q hurt.pt "${images[@]}"
report=$out
[ "$code" = 0 ] || [ "$code" = 1 ] || fail "exit code $code"
for size in 64 1000; do
	run verify -q hurt.pt "${images[@]}" --segment-size $size -j3
	same "the report" "$out" "$report"
done
finish
