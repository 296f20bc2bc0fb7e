#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What recorders find hard, by every back end that is here: programs that are none, PTWRITE, code that is replaced, loops that
# only a signal ends.
. "$SRC/tests/cli/lib.sh" || exit 1

cc=${CC:-cc}
# By way of memory that is there and cannot be written to: text does not move.
"$cc" -O1 -static -fno-pie -no-pie -o odd "$SRC/tests/cli/odd.c" || exit 1
backends=
"$PTMILL" record -q --backend step -o try -- ./odd still 2>.err && backends=step
if [ -z "$backends" ]; then
	grep -q ptrace .err || { cat .err; exit 1; }
	echo "not by step: ptrace is refused here"
fi
if command -v qemu-x86_64 >/dev/null; then
	backends="$backends qemu"
else
	echo "not under QEMU: qemu-x86_64 is not here (Debian: qemu-user)"
fi
rm -rf try
[ -n "$backends" ] || exit 77

# refused FILE WHY: the same words and the same code, whatever records.
refused() {
	local backend
	for backend in $backends; do
		run record -q --backend "$backend" -o capture -- "$1"
		expect 66 "" "ptmill: Cannot execute \"$1\": $2"
	done
}

# patched NAME OFFSET BYTES: a copy of the program with other bytes there.
patched() {
	cp odd "$1"
	printf "$3" | dd of="$1" bs=1 seek=$(($2)) conv=notrunc status=none
}

none="no program for 64-bit x86"
printf 'echo a shell would run this\n' >script && chmod +x script
refused ./script "$none"
: >empty && chmod +x empty
refused ./empty "$none"
patched i386 4 '\001'
refused ./i386 "$none"
patched arm 18 '\267'
refused ./arm "$none"
patched object 16 '\001'
refused ./object "$none"
for size in 40 100 5000; do
	head -c "$size" odd >"cut$size" && chmod +x "cut$size"
	refused "./cut$size" "the file is cut short"
done
printf '#!/nowhere/sh\n' >orphan && chmod +x orphan
for backend in $backends; do
	run record -q --backend "$backend" -o capture -- ./orphan
	expect 66 "" 'ptmill: Cannot execute "/nowhere/sh": No such file or directory'
done
printf '#!\n' >nobody && chmod +x nobody
refused ./nobody "its first line names no interpreter"
mkdir folder
refused ./folder "Permission denied"
cp odd closed && chmod -x closed
refused ./closed "Permission denied"
refused ./missing "No such file or directory"
if "$cc" -O1 -Wl,--dynamic-linker=/nowhere/ld.so -o alien "$SRC/tests/cli/odd.c"; then
	for backend in $backends; do
		run record -q --backend "$backend" -o capture -- ./alien
		expect 66 "" 'ptmill: Cannot execute "./alien": its loader "/nowhere/ld.so" is missing'
	done
fi
rm -rf script empty i386 arm object cut* orphan nobody folder closed alien

# What fails is called as the user called it.
for backend in $backends; do
	run record -q --backend "$backend" -o nowhere/capture -- ./odd still
	same "exit code" "$code" 74
	like "standard error" "$err" 'ptmill: Cannot make directory "nowhere/capture": No such file or directory'
	if [ "$(id -u)" != 0 ] || [ -w /proc/self/comm ]; then
		(
			ulimit -f 8
			trap '' XFSZ
			"$PTMILL" record -q --backend "$backend" -o small -- ./odd still >/dev/null 2>.err
		)
		shown="ptmill record --backend $backend, files of 8 KB"
		like "standard error" "$(cat .err)" 'ptmill: .*'
		same "names of temporary files" "$(grep -c 'tmp-' .err)" 0
	fi
done
nothing_but odd

# PTWRITE: the values that the program wrote, behind the instructions that wrote them, by libipt.
if [[ $backends == step* ]]; then
	for options in --ptwrite --fup-on-ptw "--ptwrite --tips defer --timing mtc --psb-period 64" \
		"--fup-on-ptw --timing cyc --tnt64 --irq-period 20 --psb-period 64 --seed 3"; do
		# shellcheck disable=SC2086
		run record -q --backend step $options -o capture -- ./odd write
		expect 0 "" ""
		run verify -q --strict --segment-size=4k capture
		same "exit code" "$code" 0
		like "standard output" "$out" 'stream capture:tid1 as recorded: .*'
		run decode -q --engine libipt --no-disasm capture
		same "values" "$(grep '^\[ptwrite' <<<"$out" | sed 's/ ip=.*//')" "[ptwrite value=0x4 bytes=8
[ptwrite value=0xd bytes=8
[ptwrite value=0x28 bytes=8
[ptwrite value=0xdeadbeefcafef00d bytes=8
[ptwrite value=0xcafef00d bytes=4
[ptwrite value=0x1111222233334444 bytes=8
[ptwrite value=0xaaaabbbb bytes=4"
		# Each has the address of the instruction before it.
		same "addresses" "$(grep '^\[ptwrite' <<<"$out" | sed 's/.*ip=\([0-9a-f]*\)]/\1/')" \
			"$(awk '/^\[ptwrite/ { print last } /^[0-9a-f]/ { last = $1 }' <<<"$out")"
		fups=$("$PTMILL" dump -q capture/streams/tid1.pt | grep -A 1 -w ptw | grep -c -w fup)
		case $options in
		*--fup*) same "FUPs behind PTW" "$fups" 7 ;;
		*) same "FUPs behind PTW" "$fups" 0 ;;
		esac
		rm -rf capture
	done
fi
if [[ $backends == *qemu ]]; then
	run record --backend qemu -o capture -- ./odd write
	like "standard error" "$err" '.*ptmill: PTWRITE at 0x[0-9a-f]+ raises SIGILL under QEMU: record with --backend step --ptwrite
ptmill: .* exit code 132: capture'
	rm -rf capture
	run record -q --backend qemu --ptwrite -o capture -- ./odd write
	expect 64 "" "ptmill: Cannot record PTWRITE under QEMU, which does not know it: use the back end step"
fi

for backend in $backends; do
	# Code that is replaced is told of, in words and in the capture.
	run record -q --backend "$backend" -o capture -- ./odd again
	same "exit code" "$code" 0
	# The stepper tells instructions, QEMU blocks: one or two were replaced.
	like "standard error" "$err" 'ptmill: executed code was replaced at its address, [12] times, first at 0x10000040: the '\
'capture has one state of it, and what ran before may decode wrongly'
	like "capture.json" "$(grep -A 2 '"replaced"' capture/capture.json | tr -d ' \n')" \
		'"replaced":\{"times":[12],"address":"0x0000000010000040"'
	rm -rf capture
	run record -q --backend "$backend" -o capture -- ./odd still
	expect 0 "" ""
	same "capture.json" "$(grep -c '"replaced"\|"ambiguous"' capture/capture.json)" 0
	run verify -q --strict capture
	same "exit code" "$code" 0
	rm -rf capture

	# A loop that only a signal ends: nobody can tell at which turn.  What we make up does not fall into it.
	run record -q --backend "$backend" --irq-period 50 --timing mtc --psb-period 64 -o capture -- ./odd loop
	like "standard error" "$err" 'ptmill: a loop without a conditional branch was left by a signal, 1 times, first behind '\
'instruction [0-9]+ of tid1: the trace does not show at which turn'
	same "exit code" "$code" 0
	n=$(grep -A 3 '"ambiguous"' capture/capture.json | sed -n 's/.*"instructions": \([0-9]*\).*/\1/p')
	like "the place" "$n" '[0-9]{4,}'
	# Everything up to there decodes to the truth: 64 bytes of time packets make a PSB come due in the loop, too.
	run verify -q --strict capture
	same "exit code" "$code" 1
	last=$(sed -n 's/.*as recorded up to \([0-9]*\) instructions.*/\1/p' <<<"$out")
	wrong=$(sed -n 's/.*not any more after \([0-9]*\) instructions.*/\1/p' <<<"$out")
	like "the last place that is right" "$last" '[0-9]{4,}'
	[ "${wrong:-$n}" -ge "$n" ] || fail "wrong before the signal: $out"
	rm -rf capture
done
nothing_but odd
finish
