#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# verify compares with what was executed, and says where the first difference is.
. "$SRC/tests/cli/lib.sh" || exit 1
cp -r "$data" capture
chmod -R u+w capture
number=$(grep -cE '^(psb|checkpoint|gap) ' capture/truth/tid1.txt)
for size in 64 1000 256k; do
	run verify -q capture --segment-size $size -j2
	expect 0 "stream capture:tid1 as recorded: ${truth/ digest/ digest}, $number places" ""
done
run verify -q "$SRC/datasets/noise" "$SRC/datasets/calc"
same "exit code" "$code" 0
run verify -q "$trace" "${images[@]}" --truth capture/truth/tid1.txt
expect 0 "stream $trace as recorded: $truth, $number places" ""
# One digest in the middle is another.
read -r _ offset n _ < <(grep '^psb ' capture/truth/tid1.txt | sed -n 11p)
sed -i "s/^psb $offset $n 0x..../psb $offset $n 0x0000/" capture/truth/tid1.txt
read -r _ before_offset before_n _ < <(grep '^psb ' capture/truth/tid1.txt | sed -n 10p)
run verify -q capture
expect 1 "stream capture:tid1 differs: $truth, recorded $(echo "$truth" | awk '{ print $2, $4 }')
  as recorded up to $before_n instructions, psb at offset $(printf '0x%x' "$before_offset")
  not any more after $n instructions, psb at offset $(printf '0x%x' "$offset")" ""
# The trace stops early, and is not checked against the capture: the last places are missing.
head -c $(($(stat -c %s "$trace") / 2)) "$trace" >half.pt
run verify -q half.pt "${images[@]}" --truth "$data/truth/tid1.txt"
same "exit code" "$code" 1
like "the report" "$out" 'stream half\.pt differs: instructions [0-9]+ digest 0x[0-9a-f]+, recorded 205227 0x[0-9a-f]+
  as recorded up to [0-9]+ instructions, psb at offset 0x[0-9a-f]+'
# Where nothing tells what was executed, and on demand, the engines are compared.
for size in 64 256k; do
	run verify -q "$trace" "${images[@]}" --segment-size $size -j2
	same "exit code without a truth" "$code" 0
	same "standard error" "$err" ""
	like "the report" "$out" "stream $trace same by [a-z]+ and libipt: $truth, 37 frames, 771 events, 0 of them gaps"
done
run verify -q "$data" --engines
same "exit code" "$code" 0
like "the report" "$out" "stream $data:tid1 same by [a-z]+ and libipt: $truth, 37 frames, 771 events, 0 of them gaps"
run verify -q "$trace" --engines
expect 66 "" "ptmill: $trace: no images are given, so that nothing can be compared: name them by --elf, --raw or --maps"
run verify -q "$trace" "${images[@]}" --engine libipt
expect 64 "" "ptmill: $trace: nothing to compare with: name its file with --truth, or compare the engines with --engines"
run verify -q "$trace" "${images[@]}" "$data"
same "exit code of a stream without a truth beside one with" "$code" 64
# Without its image a stream cannot be compared; one that nobody needs does not matter.
cp -r "$data" bare
chmod -R u+w bare
rm bare/images/*
run verify -q bare
same "exit code" "$code" 66
same "standard output" "$out" ""
like "standard error" "$err" 'ptmill: warning: 1 mapped image is missing; `ptmill info` lists it
ptmill: bare:tid1: cannot be compared: images are missing \([0-9]+ gaps?\); `ptmill info` lists what there is'
run verify -q "$trace" --truth "$data/truth/tid1.txt"
same "exit code without images" "$code" 66
printf '00010000-00011000 r-xp 00000000 00:00 0 /nowhere\n' >nowhere.maps
run verify -q "$trace" "${images[@]}" --maps nowhere.maps --truth "$data/truth/tid1.txt"
same "exit code with an image that nobody needs" "$code" 0
# A truth that was cut in a number, or has two beginnings.
for edit in '$s/.$//' '3s/0x.*/0x12/' '5s/.*/instructions 7/' '4s/^\(psb [0-9]*\) [0-9]*/\1 99999999999/' '2d'; do
	sed "$edit" "$data/truth/tid1.txt" >cut.txt
	run verify -q "$trace" "${images[@]}" --truth cut.txt
	same "exit code of a truth after sed '$edit'" "$code" 65
done
# Lines are missing at its end: a file that tells their number shows it, and so does one with none.
number=$(grep -cE '^(psb|checkpoint|gap) ' "$data/truth/tid1.txt")
sed "2a places $number" "$data/truth/tid1.txt" >places.txt
run verify -q "$trace" "${images[@]}" --truth places.txt
expect 0 "stream $trace as recorded: $truth, $number places" ""
sed '$d' places.txt >cut.txt
run verify -q "$trace" "${images[@]}" --truth cut.txt
expect 65 "" "ptmill: cut.txt: cut: lines are missing"
head -n 3 places.txt >cut.txt
run verify -q "$trace" "${images[@]}" --truth cut.txt
expect 65 "" "ptmill: cut.txt: cut: lines are missing"
head -n 2 places.txt >cut.txt
run verify -q "$trace" "${images[@]}" --truth cut.txt
expect 65 "" "ptmill: cut.txt: cut: lines are missing"
sed '1d' places.txt >cut.txt
run verify -q "$trace" "${images[@]}" --truth cut.txt
same "exit code of a truth without its first line" "$code" 65
# A capture may say what its file of truths is; the digest is what xxhsum -H3 prints.
cp -r "$data" stated
chmod -R u+w stated
sed -i 's|"truth": .*|&, "truth_bytes": 1341, "truth_xxh3_64": "0x4fd408d6332c7bf8"|' stated/capture.json
run verify -q stated
expect 0 "stream stated:tid1 as recorded: $truth, $number places" ""
# Lines are missing at its end, and where a PSB stands is another place: nothing else would tell.
other="ptmill: stated/truth/tid1.txt: the file is not what capture.json says"
sed '$d' "$data/truth/tid1.txt" >stated/truth/tid1.txt
run verify -q stated
expect 65 "" "$other (size 1305, not 1341)"
sed 's/^psb 1025 /psb 1026 /' "$data/truth/tid1.txt" >stated/truth/tid1.txt
run verify -q stated
same "exit code" "$code" 65
same "standard output" "$out" ""
like "standard error" "$err" "${other//./\\.} \\(digest 0x[0-9a-f]{16}, not 0x4fd408d6332c7bf8\\)"
# Who does not compare with it does not mind.
for command in "digest" "verify --engines"; do
	run $command -q stated
	same "exit code" "$code" 0
	same "standard error" "$err" ""
done
rm stated/truth/tid1.txt
run verify -q stated
same "exit code of a capture without its file of truths" "$code" 66
# What record writes agrees with itself.
run record -q --backend step --max-instructions 3000 -o own -- /bin/true
same "exit code" "$code" 0
like "capture.json" "$(grep -c '"truth_xxh3_64": "0x[0-9a-f]*"' own/capture.json)" 1
run verify -q own
like "the report" "$out" 'stream own:tid1 as recorded: instructions 3000 digest 0x[0-9a-f]+, [0-9]+ places?'
sed -i '$s/^psb /psb 1/' own/truth/tid1.txt
run verify -q own
same "exit code of a truth with another place" "$code" 65

echo "nonsense 1" >bad.txt
run verify -q "$trace" "${images[@]}" --truth bad.txt
expect 65 "" 'ptmill: bad.txt: line 1: not a truth: "nonsense 1"'
run verify -q "$trace" "${images[@]}" --truth missing
same "exit code" "$code" 66
run verify a b --truth c
same "exit code" "$code" 64
finish
