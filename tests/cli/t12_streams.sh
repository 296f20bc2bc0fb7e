#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Several streams: one after the other, each with its name where the lines would not tell.
. "$SRC/tests/cli/lib.sh" || exit 1
head -c 3000 "$trace" >a.pt
head -c 5000 "$trace" >b.pt
for command in decode dump; do
	[ $command = decode ] && options=("${images[@]}") || options=()
	for t in a b; do
		run $command -q $t.pt "${options[@]}"
		same "exit code" "$code" 0
		[[ $out != *stream* ]] || fail "one stream is named"
		echo "$out" >$t.txt
	done
	run $command -q a.pt b.pt "${options[@]}"
	expect 0 "[stream a.pt]
$(cat a.txt)
[stream b.pt]
$(cat b.txt)" ""
	run $command -q a.pt b.pt "${options[@]}" -j3 --segment-size 64 --test-delays 3
	same "output with delays" "$out" "[stream a.pt]
$(cat a.txt)
[stream b.pt]
$(cat b.txt)"
done
run digest -q a.pt b.pt "${images[@]}"
like "two digests" "$out" 'stream a\.pt instructions [0-9]+ digest 0x[0-9a-f]{16}
stream b\.pt instructions [0-9]+ digest 0x[0-9a-f]{16}'
run digest -q a.pt ./b.pt a.pt
expect 64 "" "ptmill: a.pt: named twice"
finish
