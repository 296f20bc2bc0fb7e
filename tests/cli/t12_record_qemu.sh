#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Recording under qemu-user: libipt decodes each stream to the truth, the program behaves as without us, and the
# single-stepper sees the same instructions.
. "$SRC/tests/cli/lib.sh" || exit 1
. "$SRC/tests/cli/record.sh" || exit 1

# What happens without QEMU is the same everywhere.
shown="ptmill record --backend qemu, no qemu-user"
mkdir empty
PATH=$tmp/empty "$PTMILL" record -q --backend qemu -o capture -- /bin/true >.out 2>.err
same "exit code" $? 66
like "standard error" "$(cat .err)" 'ptmill: Cannot record under QEMU: there is no qemu-x86_64 in PATH[^'$'\n'']*'
rmdir empty
nothing_but

if ! command -v qemu-x86_64 >/dev/null; then
	echo "skipped: qemu-x86_64 is not here (Debian: qemu-user)"
	[ $failures = 0 ] && exit 77
	finish
fi
cc=${CC:-cc}
"$cc" -O1 -static -nostdlib -fno-pie -no-pie -fcf-protection=none -fno-stack-protector -fno-builtin -o free \
	"$SRC/tests/cli/free.c" || exit 1
"$cc" -O1 -pthread -o threads "$SRC/tests/cli/threads.c" || exit 1
calc=$(ls "$SRC"/datasets/calc/images/*) sig=$(ls "$SRC"/datasets/sig/images/*)
cp "$calc" calc && cp "$sig" sig && chmod +x calc sig
printf '#!%s/free\n' "$tmp" >script && chmod +x script
seq 20000 >numbers

# record CAPTURE OPTIONS -- CMD...: what the program does is what it does alone.
record() {
	local capture=$1 want_code want_out options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	"$@" >.alone </dev/null 2>/dev/null
	want_code=$?
	want_out=$(tr -d '\0' <.alone)
	rm .alone
	shown="ptmill record ${options[*]} -- $*"
	"$PTMILL" record --backend qemu -o "$capture" "${options[@]}" -- "$@" >.out 2>.err </dev/null
	same "exit code" $? 0
	same "standard output of the program" "$(tr -d '\0' <.out)" "$want_out"
	like "standard error" "$(tail -n 1 .err)" "ptmill: .* exit code $want_code: $capture"
}

# Every choice of packets, with a program that has a bit of everything, and signals.
n=0
for options in "" "--timing tsc --ret-comp off" "--timing mtc --tips defer --psb-period 1024" \
	"--timing cyc --tips mixed --tnt64 --psb-period 512 --irq-period 300 --seed 5" \
	"--ovf-period 4096 --psb-period 2048 --seed 9" "--irq-period 100 --psb-period 64 --compress" \
	"--timing cyc --ovf-period 2048 --irq-period 400 --tnt64 --tips defer --psb-period 1024 --seed 3"; do
	for program in free calc sig; do
		n=$((n + 1))
		# shellcheck disable=SC2086
		record "c$n" $options -- ./$program
		if [[ $options == *--ovf* ]]; then
			check "c$n"
		else
			check "c$n" --strict
		fi
		rm -rf "c$n"
	done
done

# Threads: a stream for each.
record threads.c -- ./threads
same "the number of streams" "$(ls threads.c/streams | wc -l)" 16
check threads.c --strict
record threads.i --irq-period 1000 --timing cyc --tips mixed --psb-period 1024 -- ./threads
check threads.i --strict

# Unmodified programs, dynamically linked; pipes, child processes (not recorded), death by a signal.
record true.c -- true
check true.c --strict
record gzip.c -- gzip -c numbers
check gzip.c --strict
record sh.c -- sh -c 'echo $(seq 3 | tail -n 1); kill -9 $$'
check sh.c --strict
record script.c -- ./script
check script.c --strict

# The images are whole files, by build-id; the capture can go elsewhere.
mkdir away && mv gzip.c away/moved
sed -i 's|"path": "/|"path": "/nowhere/|' away/moved/capture.json
check away/moved --strict
same "a part of the path" "$(grep -c '"path": "/nowhere/.*gzip"' away/moved/capture.json)" 1

# Another recorder, another way to see it: the same instructions at the same addresses.
record free.q -- ./free
shown="ptmill record --backend step -- ./free"
"$PTMILL" record -q --backend step -o free.s -- ./free 2>.err
code=$?
if [ $code = 75 ] && grep -q ptrace .err; then
	echo "not compared with the single-stepper: ptrace is refused here"
else
	same "exit code" $code 0
	same "the truth of the stepper" "$(head -n 2 free.s/truth/tid1.txt)" "$(head -n 2 free.q/truth/tid1.txt)"
fi

# With a C library they differ where the kernel tells the program about itself: musl's start-up reads the auxiliary vector, one
# turn of a loop (0x401b90 to 0x401baa of `calc') an entry, and QEMU hands over fewer entries.  Nothing else differs.
for backend in qemu step; do
	env -i PATH=/usr/bin:/bin "$PTMILL" record -q --backend $backend --max-instructions 50000 -o calc.$backend.c -- ./calc \
		>.out 2>.err </dev/null || { grep -q ptrace .err && continue; fail "$(cat .err)"; }
	run decode -q --no-disasm calc.$backend.c
	same "exit code" "$code" 0
	grep -E '^[0-9a-f]{16}$' <<<"$out" >calc.$backend
	grep -Ev '^0000000000401b(9.|a[0-9])$' calc.$backend | head -n 49500 >calc.$backend.rest
done
if [ -e calc.step ]; then
	shown="what qemu and step tell of calc"
	same "the first 49500 instructions but for that loop" "$(cmp calc.qemu.rest calc.step.rest && wc -l <calc.step.rest)" 49500
	# Entries under 38 take 8 instructions, others 6.
	turns() { grep -c '^0000000000401ba9$' "$1"; }
	stores() { grep -c '^0000000000401b96$' "$1"; }
	turns=$(($(turns calc.step) - $(turns calc.qemu))) stores=$(($(stores calc.step) - $(stores calc.qemu)))
	loop() { grep -cE '^0000000000401b(9.|a[0-9])$' "$1"; }
	same "the difference" "$(($(loop calc.step) - $(loop calc.qemu)))" $((6 * turns + 2 * stores))
	entries=$(($(od -An -v -tx8 -w16 /proc/self/auxv | wc -l) - 1))
	same "the entries that step saw" "$(turns calc.step)" $entries
fi
rm -rf calc.qemu* calc.step*

# A limit is exact, and the program runs on.
record limit.c --max-instructions 20000 -- ./free
same "the limit" "$(head -n 1 limit.c/truth/tid1.txt)" "instructions 20000"
check limit.c --strict

# What cannot be recorded leaves nothing.
rm -rf ./*.c ./*.i ./*.q ./*.s away
run record -q --backend qemu -o capture -- ./missing
expect 66 "" 'ptmill: Cannot execute "./missing": No such file or directory'
run record -q --backend qemu -o capture -- ./numbers
expect 66 "" 'ptmill: Cannot execute "./numbers": Permission denied'
chmod +x numbers
run record -q --backend qemu -o capture -- ./numbers
expect 66 "" 'ptmill: Cannot execute "./numbers": no program for 64-bit x86'
run record -q --backend qemu -o capture -- sh -c 'exec true'
same "exit code" "$code" 75
like "standard error" "$err" 'ptmill: Cannot record a program that replaces itself by exec[^'$'\n'']*'

signals_end qemu

# Killed, it takes the program with it and leaves its temporary directory only.
"$PTMILL" record --backend qemu -o killed -- sleep 600 2>.err &
recorder=$!
until [ -e killed.tmp-$recorder/streams/tid1.pt ] || ! kill -0 $recorder 2>/dev/null; do sleep 0.1; done
program=$(ps -o pid= --ppid $recorder | tr -d ' ')
kill -KILL $recorder
wait $recorder 2>/dev/null
shown="ptmill record, killed"
like "the process of the program" "$program" '[0-9]+'
for _ in 1 2 3 4 5 6 7 8 9 10; do
	[ -d "/proc/$program" ] || break
	sleep 0.2
done
if [ -d "/proc/$program" ] && ! grep -q '^State:.*Z' "/proc/$program/status"; then
	fail "the program lives on"
	kill -KILL "$program"
fi
rm -rf killed.tmp-*
nothing_but calc free numbers script sig threads
finish
