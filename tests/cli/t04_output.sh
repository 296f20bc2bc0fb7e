#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Outputs appear when they are complete, or not at all.
. "$SRC/tests/cli/lib.sh" || exit 1
cp "$trace" trace.pt
"$PTMILL" decode trace.pt "${images[@]}" -q >reference
[ "$(grep -c '^[0-9a-f]' reference)" = "$(awk '$1 == "instructions" { print $2 }' "$data/truth/tid1.txt")" ] ||
	fail "text has another number of instructions than the truth"

run decode trace.pt "${images[@]}" -q -o text
expect 0 "" ""
cmp text reference || fail "-o and standard output differ"
# What was there is replaced, with its permissions.
echo old >text
chmod 600 text
run decode trace.pt "${images[@]}" -q --output=text
expect 0 "" ""
cmp text reference || fail "the old output was not replaced"
same "the mode" "$(stat -c %a text)" 600
run decode trace.pt "${images[@]}" -q -o -
cmp .out reference || fail "-o - is not standard output"
run decode trace.pt "${images[@]}" -q --no-disasm
cut -d' ' -f1 reference | grep -v '^\[' | cmp - <(grep -v '^\[' .out) || fail "--no-disasm prints other addresses"

cp trace.pt same.pt
run digest same.pt "${images[@]}" -o same.pt
expect 64 "" 'ptmill: The output is one of the inputs: choose another name: path="same.pt"'
ln -s same.pt link.pt
run digest same.pt "${images[@]}" -o link.pt
expect 64 "" 'ptmill: The output is one of the inputs: choose another name: path="link.pt"'
cmp same.pt trace.pt || fail "the input was overwritten"
run digest trace.pt "${images[@]}" -o no/such/dir
expect 74 "" 'ptmill: Cannot create output: No such file or directory: path="no/such/dir"'

for name in decode digest stat dump; do
	args=("${images[@]}")
	[ $name != dump ] || args=()
	run $name trace.pt "${args[@]}" -o /dev/full -q
	expect 75 "" 'ptmill: Cannot write output: No space left on device: path="/dev/full"'
	shown="ptmill $name >/dev/full"
	"$PTMILL" $name trace.pt "${args[@]}" -q >/dev/full 2>.err
	code=$? out="" err=$(cat .err)
	expect 75 "" 'ptmill: Cannot write output: No space left on device: path="-"'
done
# Nobody reads: that is no news for who closed the pipe.
shown="ptmill decode | true"
{
	"$PTMILL" decode trace.pt "${images[@]}" -q 2>.err
	echo $? >.code
} | true
code=$(cat .code) out="" err=$(cat .err)
rm .code
expect 74 "" ""
# A limit is as a full disk: said, and nothing is left.
for out in text /dev/stdout; do
	shown="ulimit -f; ptmill decode -o $out"
	(
		ulimit -f 1
		exec "$PTMILL" decode trace.pt "${images[@]}" -q -o $out >limited 2>.err
	)
	code=$? out="" err=$(sed "s/path=.*//" .err)
	expect 75 "" 'ptmill: Cannot write output: File too large: '
done
cmp text reference || fail "the old output was touched"
rm limited
# A closed standard output is not somebody else's file.
shown="ptmill digest >&-"
"$PTMILL" digest trace.pt "${images[@]}" -q >&- 2>.err
code=$? out="" err=$(cat .err)
same "exit code" "$code" 74

nothing_but trace.pt same.pt link.pt text reference
finish
