#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Recording a program, and decoding what was recorded to the same instructions.
. "$SRC/tests/cli/lib.sh" || exit 1

shown="ptmill record -- sh"
"$PTMILL" record -o capture --max-instructions 3000 --psb-period 0x100 -- /bin/sh -c 'echo "$0 $1"; exit 3' -o x \
	>.out 2>.err </dev/null
code=$? out=$(cat .out) err=$(cat .err)
if [ $code = 75 ] && [[ $err == *ptrace* ]]; then
	echo "skipped: ptrace is refused here: $err"
	exit 77
fi
same "exit code" "$code" 0
same "standard output" "$out" "-o x"
like "standard error" "$err" 'ptmill: 3000 instructions, [0-9.]+ [KM]?B, [0-9]+ PSBs, 0 gaps, [0-9.]+ s, exit code 3: capture'
nothing_but capture
truth=$(awk '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 } END { print "instructions", n, "digest", d }' \
	capture/truth.txt)
like "the truth" "$truth" 'instructions 3000 digest 0x[0-9a-f]{16}'
run digest capture/trace.pt --maps capture/maps --sysroot capture/images -q
expect 0 "stream capture/trace.pt $truth" ""

run record -q -o capture -- true
same "exit code" "$code" 64
like "standard error" "$err" 'ptmill: [^'$'\n'']*capture[^'$'\n'']*exists[^'$'\n'']*'
run record -q -o other -- ./missing
same "exit code" "$code" 66
like "standard error" "$err" 'ptmill: [^'$'\n'']*missing[^'$'\n'']*'
nothing_but capture
finish
