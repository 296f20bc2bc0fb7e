#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What stands on standard error: a summary, or nothing; progress on a terminal, or when asked for.
. "$SRC/tests/cli/lib.sh" || exit 1
instructions=$(awk '$1 == "instructions" { print $2 }' "$data/truth/tid1.txt")

run digest "$trace" "${images[@]}"
like "standard error" "$err" 'ptmill: 1 stream, [0-9.]+ [KM]?B, [0-9]+ instructions, 0 gaps, [0-9.]+ s \([0-9.]+ M instructions/s\), [0-9]+ workers?'
same "the count" "$(grep -o '[0-9]* instructions,' <<<"$err")" "$instructions instructions,"
run dump "$trace"
like "standard error" "$err" 'ptmill: 1 stream, [0-9.]+ [KM]?B, [0-9.]+ s \([0-9.]+ [KMG]?B/s\), [0-9]+ workers?'
run digest "$trace" "${images[@]}" -q
same "standard error" "$err" ""

# A file: bytes, share, rate, time left.  Some 300 segments with delays around each, a second or so.
psbs=$(grep -c ^psb "$data/truth/tid1.txt")
for _ in $(seq $((300 / psbs + 1))); do cat "$trace"; done >long.pt
run dump long.pt --segment-size 64 --test-delays 7 -j2 --progress always
line=$(tr '\r' '\n' <<<"$err" | grep '^ptmill: ' | tail -n 2 | head -n 1)
like "a line of progress" "$line" 'ptmill: [0-9.]+ [KM]?B of [0-9.]+ [KM]?B \([0-9]+ %\), [0-9.]+ [KMG]?B/s, ETA [0-9]+:[0-9][0-9].*'
like "the end" "$err" $'.*\r\e\\[Kptmill: 1 stream, .*'

# Standard input, which takes its time: bytes and rate.
slowly() { cat "$trace"; sleep 0.9; }
for when in always never auto; do
	shown="ptmill dump - --progress $when"
	slowly | "$PTMILL" dump - --progress $when >.out 2>.err
	if [ $when = always ]; then
		like "standard error" "$(cat .err)" $'.*\rptmill: [0-9.]+ [KM]?B, [0-9.]+ [KMG]?B/s.*'
	else
		like "standard error" "$(cat .err)" 'ptmill: 1 stream, [^'$'\r'']*'
	fi
done

# On a terminal by itself, but not where the data go to the same terminal.
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	shown="ptmill dump (on a terminal)"
	args="{ cat $(printf %q "$trace"); sleep 0.9; } | $(printf %q "$PTMILL") dump -"
	script -qec "$args -o result" /dev/null </dev/null >.tty
	grep -q 'B/s.*B/s' <(tr -d '\n' <.tty) || fail "no progress on a terminal"
	script -qec "$args" /dev/null </dev/null >.tty
	! grep -q $'\e' .tty || fail "progress among the data on a terminal"
	script -qec "$args -o result --quiet" /dev/null </dev/null >.tty
	[ ! -s .tty ] || fail "--quiet is not"
else
	echo "skipped: progress on a terminal: script(1) finds no pseudo-terminal here"
fi
finish
