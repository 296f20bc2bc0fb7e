#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Inputs are never written over, waiting inputs can be stopped, and what the system does to us (cut files, few file
# descriptors, a full disk) is said in one line.
. "$SRC/tests/cli/lib.sh" || exit 1
cp -r "$data" capture
chmod -R u+w capture
cp "$trace" trace.pt
cp "${images[1]}" image
echo "401000-407000 r-xp 00001000 00:00 0 $tmp/image" >maps

# spared FILE ARG...: -o FILE is refused and FILE stays as it is.
spared() {
	local file=$1 before
	shift
	before=$(sha256sum <"$file")
	run digest "$@" -o "$file"
	expect 64 "" "ptmill: The output is one of the inputs: choose another name: path=\"$file\""
	same "what was in $file" "$(sha256sum <"$file")" "$before"
}
spared capture/streams/tid1.pt capture
spared capture/capture.json capture
spared capture/capture.json capture/capture.json
spared "capture/images/$(ls capture/images)" capture
spared image trace.pt --elf image
spared image trace.pt --raw image:0x1000-0x2000:0x401000
spared image trace.pt --maps maps
spared maps trace.pt --maps maps
spared trace.pt trace.pt
ln image hard
ln -s image soft
spared hard trace.pt --elf image
spared image trace.pt --elf soft
shown="ptmill digest - <trace.pt -o trace.pt"
"$PTMILL" digest - <trace.pt -o trace.pt >.out 2>.err
code=$? out=$(cat .out) err=$(cat .err)
expect 64 "" 'ptmill: The output is one of the inputs: choose another name: path="trace.pt"'
run digest -q trace.pt --maps maps -o other
expect 0 "" ""
same "the digest" "$(cat other)" "stream trace.pt $truth"

# stop SIGNAL ARG...: send it to a run that waits for a FIFO that nobody writes to.
stop() {
	local sig=$1 pid
	shift
	shown="ptmill $* (SIG$sig)"
	env --default-signal=INT,TERM,HUP "$PTMILL" "$@" >.out 2>.err </dev/null &
	pid=$!
	for _ in $(seq 100); do
		# Blocked: it is the signal thread's.
		[ "$(awk '$1 == "SigBlk:" { print $2 }' /proc/$pid/status 2>/dev/null)" = 0000000000000000 ] || break
		sleep 0.1
	done
	sleep 0.3
	kill -s "$sig" $pid
	for _ in $(seq 200); do
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	kill -9 $pid 2>/dev/null
	wait $pid
	code=$?
	out=$(cat .out) err=$(cat .err)
}
mkfifo fifo
for sig in INT TERM HUP; do
	stop $sig digest trace.pt --maps fifo
	expect 75 "" "ptmill: Stopped by SIG$sig: the output is not complete"
	stop $sig decode trace.pt --maps fifo -o result
	expect 75 "" "ptmill: Stopped by SIG$sig: nothing was written: path=\"result\""
done
stop TERM dump fifo
expect 75 "" "ptmill: Stopped by SIGTERM: the output is not complete"
stop INT digest fifo -o result
expect 75 "" 'ptmill: Stopped by SIGINT: nothing was written: path="result"'
stop TERM info trace.pt --maps fifo
expect 75 "" "ptmill: Stopped by SIGTERM: the output is not complete"
same "files of outputs" "$(find . -name 'result*')" ""
# timeout(1) sends the signal twice, to the process and to its group.
shown="timeout ptmill digest fifo -o result"
timeout --preserve-status -k 20 -s TERM 1 "$PTMILL" digest fifo -o result 2>.err
same "exit code" $? 75
same "files of outputs" "$(find . -name 'result*')" ""
# A writer that comes later.
shown="ptmill digest fifo, then cat >fifo"
{ sleep 0.5 && timeout 60 sh -c 'cat trace.pt >fifo'; } &
timeout 60 "$PTMILL" digest -q fifo "${images[@]}" >.out
same "exit code" $? 0
same "the digest" "$(cat .out)" "stream fifo $truth"
wait

# An image that is cut while it is mapped.
for _ in $(seq 300); do cat trace.pt; done >long.pt
shown="ptmill digest --elf image (cut)"
"$PTMILL" digest long.pt --elf image --segment-size 64 --test-delays 1 -j2 -o cut >.out 2>.err </dev/null &
pid=$!
for _ in $(seq 600); do
	[ -z "$(find . -name 'cut.tmp-*')" ] || break
	sleep 0.1
done
: >image
wait $pid
code=$? out=$(cat .out) err=$(cat .err)
expect 74 "" "ptmill: An image or trace was cut while it was read, or its disk failed: leave files alone while ptmill \
reads them, and run it again"
[ ! -e cut ] || fail "there is an output"
shown="kill -s BUS"
"$PTMILL" dump fifo 2>.err &
pid=$!
sleep 0.5
kill -s BUS $pid
wait $pid 2>/dev/null
[ $? != 74 ] || fail "a signal of somebody else is taken for a cut file"

# More streams than the soft limit of file descriptors allows.
for i in $(seq 100); do cp trace.pt many$i.pt; done
shown="ulimit -Sn 40; ptmill dump many*.pt"
(ulimit -Sn 40 && exec "$PTMILL" dump -q many*.pt >.out 2>.err)
same "exit code" $? 0
same "streams" "$(grep -c '^\[stream ' .out)" 100

# A full disk: one message, "try again".
for args in help "help decode" --version "info capture" "info --topology" "info capture --topology"; do
	shown="ptmill $args >/dev/full"
	# shellcheck disable=SC2086
	"$PTMILL" $args >/dev/full 2>.err
	same "exit code" $? 75
	same "standard error" "$(cat .err)" "ptmill: Cannot write to standard output: No space left on device"
done

# Every subcommand says what it reads.
for name in decode digest stat dump info; do
	run help $name
	text=$(echo "$out" | tr -s ' \n' ' ')
	[[ $text =~ "An INPUT is a capture ".*capture\.json.*trace\.json.*perf\.data\ file,\ or\ -\  ]] ||
		fail "the help does not tell what an INPUT is"
	page=$(tr -s ' \n' ' ' <"$SRC/docs/ptmill-$name.1.scd")
	[[ $page =~ capture\.json.*capture-format\.md.*trace\.json.*perf\.data ]] ||
		fail "the manual page does not tell what an INPUT is"
done
run help dump
[[ $out != *[Dd]ecode\ * ]] || fail "dump says that it decodes"
finish
