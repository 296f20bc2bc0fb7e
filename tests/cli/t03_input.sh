#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Inputs: files, standard input, zstd, several at once, and what is none.
. "$SRC/tests/cli/lib.sh" || exit 1
cp "$trace" trace.pt
zstd -q trace.pt -o packed.pt.zst
: >empty.pt
mkdir dir

run digest trace.pt "${images[@]}" --quiet
expect 0 "stream trace.pt $truth" ""
run digest packed.pt.zst "${images[@]}" --quiet
expect 0 "stream packed.pt.zst $truth" ""
run digest trace.pt packed.pt.zst "${images[@]}" -q -j2
expect 0 "stream trace.pt $truth
stream packed.pt.zst $truth" ""
# Images by the mappings of the process, below another root.
mkdir root
cp "$data"/images/* root/sig
echo "00401000-00407000 r-xp 00001000 08:01 42 /sig" >maps
run digest trace.pt --maps maps --sysroot root -q
expect 0 "stream trace.pt $truth" ""
# A capture needs no more than its directory, wherever it lies.
cp -r "$data" capture
mv capture "moved capture"
run digest "moved capture" -q --strict
expect 0 "stream moved capture:tid1 $truth" ""
# Options may follow and precede; numbers may be hexadecimal; sizes have suffixes.
run digest "${images[@]}" -j 0x2 --segment-size=1k --cpu 6/85/7 trace.pt -q --bind=none --engine libipt --resync psb --cache-limit 4M
expect 0 "stream trace.pt $truth" ""

shown="ptmill digest - <trace.pt"
out=$("$PTMILL" digest - "${images[@]}" -q <trace.pt 2>.err)
code=$? err=$(cat .err)
like "standard output" "$out" "stream [^ ]+ $truth"
same "exit code and standard error" "$code $err" "0 "
shown="cat packed.pt.zst | ptmill digest -"
out=$(cat packed.pt.zst | "$PTMILL" digest - "${images[@]}" -q 2>.err)
code=$? err=$(cat .err)
like "standard output" "$out" "stream [^ ]+ $truth"
same "exit code and standard error" "$code $err" "0 "

run digest missing.pt
expect 66 "" 'ptmill: Cannot open input: No such file or directory: path="missing.pt"'
run digest dir
expect 66 "" 'ptmill: Input is a directory, not a file: path="dir"'
# A name is printed on one line, whatever is in it.
run digest $'a\nb'
expect 66 "" 'ptmill: Cannot open input: No such file or directory: path="a?b"'
run digest trace.pt --elf missing
same "exit code" "$code" 66
like "standard error" "$err" 'ptmill: .*path="missing".*No such file or directory|ptmill: .*No such file or directory.*path="missing"'
run digest trace.pt --maps missing
same "exit code" "$code" 66
# A missing input touches no output.
echo old >result
run digest missing.pt -o result
same "the old output" "$(cat result)" old

# A run over nothing that has a PSB was not given a trace: an empty file ...
run digest empty.pt -q
expect 65 "stream empty.pt instructions 0 digest 0x0000000000000000" \
	"ptmill: warning: empty.pt: no PSB in 0 bytes: is it an Intel PT trace?"
run digest /dev/null -q --strict
expect 65 "stream /dev/null instructions 0 digest 0x0000000000000000" \
	"ptmill: warning: /dev/null: no PSB in 0 bytes: is it an Intel PT trace?"
# ... or what is no trace at all.
head -c 5000 /dev/zero | tr '\0' '\377' >noise.pt
run digest noise.pt -q --strict
expect 65 "stream noise.pt instructions 0 digest 0x0000000000000000" \
	"ptmill: warning: noise.pt: no PSB in 5000 bytes: is it an Intel PT trace?"
run dump -q noise.pt empty.pt
same "exit code" "$code" 65
same "standard error" "$err" "ptmill: warning: noise.pt: no PSB in 5000 bytes: is it an Intel PT trace? (and 1 more)"
# Beside a trace it is damage.
run digest noise.pt trace.pt -q "${images[@]}"
same "exit code" "$code" 0
same "standard error" "$err" "ptmill: warning: noise.pt: no PSB in 5000 bytes: is it an Intel PT trace?"
# Without images nothing is decoded; with those of another program neither.
run digest trace.pt -q
expect 0 "stream trace.pt instructions 0 digest 0x0000000000000000" "ptmill: warning: no images are given for a stream, \
without which nothing of it is decoded: name them by --elf, --raw or --maps"
run digest trace.pt -q --raw "$trace:0x7000000000"
same "exit code" "$code" 0
like "standard error" "$err" "ptmill: warning: [0-9]+ of [0-9]+ gaps are for want of an image: [^"$'\n'"]*"
run digest trace.pt -q --strict
same "exit code" "$code" 3
run digest trace.pt "${images[@]}" -q --strict
expect 0 "stream trace.pt $truth" ""
# Cut off inside a zstd frame.
head -c 300 packed.pt.zst >cut.pt.zst
run digest cut.pt.zst "${images[@]}" -q
same "exit code" "$code" 65
like "standard error" "$err" 'ptmill: [^'$'\n'']*cut\.pt\.zst[^'$'\n'']*'

run info trace.pt --quiet
same "exit code" "$code" 64
run info trace.pt packed.pt.zst
same "exit code and standard error" "$code $err" "0 "
like "standard output" "$out" "stream trace.pt bytes $(stat -c %s trace.pt) path trace.pt
stream packed.pt.zst bytes unknown sequential path packed.pt.zst
unmapped share 100.0% of [1-9][0-9]* addresses"
finish
