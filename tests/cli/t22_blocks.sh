#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A capture says what each block of a trace is.  The blocks are compared while they are decoded: nothing that comes of
# another one is told, and the first one is, however many workers there are.
. "$SRC/tests/cli/lib.sh" || exit 1

shown="ptmill record -- sh"
"$PTMILL" record -q --backend step -o capture --max-instructions 20000 --irq-period 5 --timing cyc --psb-period 256 -- \
	/bin/sh -c : >.out 2>.err </dev/null
code=$? err=$(cat .err)
if [ $code = 75 ] && [[ $err == *ptrace* ]]; then
	echo "skipped: ptrace is refused here: $err"
	exit 77
fi
same "exit code" "$code" 0
trace=capture/streams/tid1.pt
size=$(stat -c %s $trace)
[ "$size" -gt 40000 ] || fail "a trace of $size bytes has too few blocks"
cp $trace good.pt
cp capture/capture.json good.json
truth=$(awk '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 } END { print "instructions", n, "digest", d }' \
	capture/truth/tid1.txt)

# block OFFSET: begin, size and digest of the block with that byte, as capture.json states it.
block() {
	python3 - "$1" "$size" <<'END'
import json, sys
offset, size = int(sys.argv[1]), int(sys.argv[2])
blocks = json.load(open("good.json"))["streams"][0]["blocks"]
n = blocks["size"]
assert n == 16384 and len(blocks["xxh3_64"]) == 16 * -(-size // n), blocks
k = offset // n
print(k * n, min(n, size - k * n), blocks["xxh3_64"][16 * k:16 * k + 16])
END
}

# turn OFFSET: one bit of that byte.
turn() {
	python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1)[0]
f.seek(int(sys.argv[2])); f.write(bytes([b ^ 4]))' $trace "$1"
}

# refused OFFSET COMMAND...: the block with that byte is told, by any number of workers, behind the same bytes.
refused() {
	local at=$1 begin len digest j first=""
	shift
	read -r begin len digest < <(block "$at")
	for j in 1 2 8; do
		run "$@" -q -j$j --test-delays $j capture
		same "exit code" "$code" 65
		like "standard error" "$err" "ptmill: capture/streams/tid1\\.pt: the file is not what capture\\.json says \\(block at \
offset=$begin, bytes=$len, digest 0x[0-9a-f]{16}, not 0x$digest\\)"
		[ $j = 1 ] && first=$err
		same "standard error of $j workers" "$err" "$first"
		cp .out out$j
		cmp out1 out$j || fail "another output by $j workers"
	done
}

for option in --segment-size=64 --segment-size=1000 --segment-size=1M -j2; do
	run digest -q $option capture
	expect 0 "stream capture:tid1 $truth" ""
done
run verify -q capture
same "exit code" "$code" 0
"$PTMILL" decode -q capture >decoded
"$PTMILL" dump -q capture >dumped

# In the first block, in others, the last byte, whose block is shorter.
for at in 0 9000 16384 33000 $((size - 1)); do
	turn $at
	refused $at digest
	[ -s .out ] && fail "a digest of it: $(cat .out)"
	refused $at digest --segment-size 64
	[ $at != 33000 ] || for command in verify stat; do
		refused $at $command
	done
	refused $at decode --segment-size 500
	cmp -n "$(stat -c %s .out)" .out decoded || fail "not what the whole begins with"
	refused $at dump --segment-size 500
	cmp -n "$(stat -c %s .out)" .out dumped || fail "not what the whole begins with"
	cp good.pt $trace
done
# Of two, the first in the stream.
turn $((size - 1))
turn 20000
refused 20000 digest --segment-size 1000
# Nothing is left of an output.
run decode capture -o result
same "exit code" "$code" 65
[ ! -e result ] || fail "there is output"
cp good.pt $trace

# Another size is told at once, and first.
turn 0
printf x >>$trace
for j in 1 2 8; do
	run decode -q -j$j --segment-size 64 capture
	expect 65 "" "ptmill: $trace: the file is not what capture.json says (size $((size + 1)), not $size)"
done
truncate -s $((size - 1)) $trace
run dump -q capture
expect 65 "" "ptmill: $trace: the file is not what capture.json says (size $((size - 1)), not $size)"
cp good.pt $trace

# For decoding, the blocks count; without them, the digest of the file.
sed -i '0,/"xxh3_64": "0x/s//&0/; 0,/\("xxh3_64": "0x[0-9a-f]\{16\}\)[0-9a-f]/s//\1/' capture/capture.json
! cmp -s good.json capture/capture.json || fail "capture.json is as before"
run digest -q capture
expect 0 "stream capture:tid1 $truth" ""
sed -i 's/"blocks"/"others"/' capture/capture.json
run digest -q capture
same "exit code" "$code" 65
same "standard output" "$out" ""
like "standard error" "$err" "ptmill: $trace: the file is not what capture.json says \\(digest 0x[0-9a-f]{16}, not 0x[0-9a-f]{16}\\)"

# A digest too few.
sed 's/\("xxh3_64": "\)[0-9a-f]\{16\}\([0-9a-f]*"\)/\1\2/' good.json >capture/capture.json
run digest -q capture
same "exit code" "$code" 65
like "standard error" "$err" 'ptmill: capture/capture.json: streams\[0\]\.blocks\.xxh3_64: must have [0-9]+ digits, 16 a block'

# Blocks of a file that is compressed are not looked at.
if command -v zstd >/dev/null; then
	zstd -qf good.pt -o $trace
	python3 - $trace <<'END'
import ctypes, ctypes.util, json, pathlib, sys
data = pathlib.Path(sys.argv[1]).read_bytes()
lib = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so")
lib.XXH3_64bits.restype = ctypes.c_uint64
lib.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
capture = json.load(open("good.json"))
stream = capture["streams"][0]
stream["bytes"], stream["xxh3_64"] = len(data), f"{lib.XXH3_64bits(data, len(data)):#018x}"
stream["blocks"]["xxh3_64"] = "0" * 16 * -(-len(data) // 16384)
json.dump(capture, open("capture/capture.json", "w"))
END
	run digest -q capture
	expect 0 "stream capture:tid1 $truth" ""
	turn $(($(stat -c %s $trace) - 1))
	run digest -q capture
	same "exit code" "$code" 65
fi
finish
