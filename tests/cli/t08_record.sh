#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Recording a program, and decoding what was recorded to the same instructions.
. "$SRC/tests/cli/lib.sh" || exit 1
. "$SRC/tests/cli/record.sh" || exit 1

shown="ptmill record -- sh"
"$PTMILL" record --backend step -o capture --max-instructions 3000 --psb-period 0x100 -- /bin/sh -c 'echo "$0 $1"; exit 3' -o x \
	>.out 2>.err </dev/null
code=$? out=$(cat .out) err=$(cat .err)
if [ $code = 75 ] && [[ $err == *ptrace* ]]; then
	echo "skipped: ptrace is refused here: $err"
	exit 77
fi
same "exit code" "$code" 0
same "standard output" "$out" "-o x"
like "standard error" "$err" 'ptmill: 3000 instructions, [0-9.]+ [KM]?B, [0-9]+ PSBs?, 0 overflows, [0-9.]+ s, exit code 3: capture'
nothing_but capture
truth=$(awk '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 } END { print "instructions", n, "digest", d }' \
	capture/truth/tid1.txt)
same "its number of places" "$(sed -n 's/^places //p' capture/truth/tid1.txt)" \
	"$(grep -cE '^(psb|checkpoint|gap) ' capture/truth/tid1.txt)"
like "the truth" "$truth" 'instructions 3000 digest 0x[0-9a-f]{16}'
run digest capture -q --strict
expect 0 "stream capture:tid1 $truth" ""
# It can be moved: nothing outside is looked at.
mkdir away
mv capture away/moved
run digest away/moved -q --strict
expect 0 "stream away/moved:tid1 $truth" ""
sed -i 's|"path": "/|"path": "/nowhere/|' away/moved/capture.json
run digest away/moved -q --strict
expect 0 "stream away/moved:tid1 $truth" ""
# A trace that is not the one that was recorded is refused.
truncate -s -1 away/moved/streams/tid1.pt
run digest away/moved -q
same "exit code" "$code" 65
same "standard output" "$out" ""
like "standard error" "$err" 'ptmill: [^'$'\n'']*tid1\.pt[^'$'\n'']*'
printf X >>away/moved/streams/tid1.pt
run digest away/moved -q
same "exit code" "$code" 65
like "standard error" "$err" 'ptmill: [^'$'\n'']*tid1\.pt[^'$'\n'']*'
rm -r away

run record -q --backend step --compress -o capture --max-instructions 3000 -- /bin/sh -c 'exit 3'
same "exit code" "$code" 0
like "the files" "$(ls capture/streams)" 'tid1\.pt\.zst'
truth=$(awk '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 } END { print "instructions", n, "digest", d }' \
	capture/truth/tid1.txt)
run digest capture -q --strict
expect 0 "stream capture:tid1 $truth" ""

signals_end step

run record -q --backend step -o capture -- true
same "exit code" "$code" 64
like "standard error" "$err" 'ptmill: [^'$'\n'']*capture[^'$'\n'']*exists[^'$'\n'']*'
run record -q --backend step -o other -- ./missing
same "exit code" "$code" 66
like "standard error" "$err" 'ptmill: [^'$'\n'']*missing[^'$'\n'']*'
nothing_but capture
# A limit of file sizes: one line, and nothing is left.
shown="ulimit -f; ptmill record"
(
	ulimit -f 1
	exec "$PTMILL" record --backend step --max-instructions 100000 -o limited -- sh -c : >.out 2>.err
)
same "exit code" $? 75
like "standard error" "$(cat .err)" 'ptmill: Cannot [^'$'\n'']*: File too large[^'$'\n'']*'
[ ! -e limited ] || fail "something is left: $(find limited*)"
finish
