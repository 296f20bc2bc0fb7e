#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# SIGINT, SIGTERM and SIGHUP stop a run: exit code 75, one line, nothing half-written.
. "$SRC/tests/cli/lib.sh" || exit 1
# Enough work for minutes: delays around each of many thousand segments.
for _ in $(seq 100); do cat "$trace"; done >some.pt
for _ in $(seq 50); do cat some.pt; done >long.pt
rm some.pt
slow=(--segment-size 64 --test-delays 1 -j2)

# stop SIGNAL ARG...: run, signal when the run has begun (its output exists).
stop() {
	local sig=$1
	shift
	shown="ptmill $* (SIG$sig)"
	# A background job of a script ignores SIGINT unless told otherwise.
	env --default-signal=INT,TERM,HUP "$PTMILL" "$@" "${slow[@]}" >.out 2>.err </dev/null &
	local pid=$!
	for _ in $(seq 600); do
		[ -z "$(find . -name 'result.tmp-*')" ] || break
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	[ -n "$(find . -name 'result.tmp-*')" ] || fail "there is no temporary output while it runs"
	sleep 0.2
	kill -s "$sig" $pid
	wait $pid
	code=$? out=$(cat .out) err=$(cat .err)
}

for sig in INT TERM HUP; do
	stop $sig digest long.pt "${images[@]}" -o result
	expect 75 "" "ptmill: Stopped by SIG$sig: nothing was written: path=\"result\""
	nothing_but long.pt
done
echo old >result
stop TERM decode long.pt "${images[@]}" -o result
expect 75 "" 'ptmill: Stopped by SIGTERM: nothing was written: path="result"'
same "the old output" "$(cat result)" old
nothing_but long.pt result

# To standard output, the lines so far may stand, but the message says so.
shown="ptmill decode | head (SIGTERM)"
env --default-signal=TERM "$PTMILL" decode long.pt "${images[@]}" "${slow[@]}" >.out 2>.err </dev/null &
pid=$!
for _ in $(seq 600); do
	[ ! -s .out ] || break
	sleep 0.1
done
kill -s TERM $pid
wait $pid
same "exit code" "$?" 75
same "standard error" "$(cat .err)" "ptmill: Stopped by SIGTERM: the output is not complete"
finish
