#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# stat --hot: the lists as text, names and lines as nm and addr2line say, images without symbols, wrong numbers.
#
# The list of datasets/sig is what ptmill printed; tests/diff/t12_hot.py counts the same once more from what libipt decodes.
. "$SRC/tests/cli/lib.sh" || exit 1

hot() {
	run stat -q "$@"
	same "exit code" "$code" 0
	out=$(sed -n '/^hottest/,$p' .out)
}

for threads in 1 2 8; do
	hot --hot 2 -j $threads --segment-size 4k "$data"
	expect 0 'hottest functions
     instructions   share        entries  address           function
           205227 100.00%              -  -                 without a symbol in sig
hottest blocks
     instructions   share     executions  long  address           place
            63720  31.05%          10620     6  0000000000401325  sig+0x1325
            53100  25.87%          10620     5  000000000040135f  sig+0x135f
hottest conditional branches
       executions          taken      not taken   taken  address           place
            10620           5340           5280  50.28%  000000000040132c  sig+0x132c
              151            113             38  74.83%  00000000004034a7  sig+0x34a7
hottest indirect branches, returns and far transfers
       executions        targets  address           place
            10620              3  0000000000401364  sig+0x1364
                            5280  49.72% to  0000000000401336  sig+0x1336
                            5280  49.72% to  0000000000401340  sig+0x1340
             5280              1  0000000000401355  sig+0x1355
                            5280 100.00% to  0000000000401356  sig+0x1356' ""
done
hot --hot 2 "$trace" "${images[@]}"
like "without a capture" "$out" '.*without a symbol in 695b86be6899f34c'$'\n''.*'
run stat -q "$data"
[[ $out != *hottest* ]] || fail "nobody asked for what is hot"
for wrong in 0 x 100001; do
	run stat --hot "$wrong" "$data"
	same "exit code of --hot $wrong" "$code" 64
	like "standard error" "$err" 'ptmill stat: --hot: [^'$'\n'']*'
done

# A trace in which nothing is executed.
: >empty
cp "$trace" noimage
hot --hot 3 noimage
same "its functions" "$(sed -n 3p <<<"$out")" "hottest blocks"

cc=${CC:-cc}
command -v nm >/dev/null || { echo "skipped: symbols and lines: binutils are not here"; finish; }
"$cc" -g -O1 -static -nostdlib -fno-pie -no-pie -fcf-protection=none -fno-stack-protector -fno-builtin -o hot \
	"$SRC/tests/cli/hot.c" || exit 1
run record -q --backend step -o capture -- ./hot
if [ "$code" = 75 ]; then
	echo "skipped: programs cannot be recorded here: $err"
	finish
fi

# field NAME FUNCTION: of the row of the function in the first list.
field() {
	sed -n '/^hottest functions/,/^hottest blocks/p' .out | awk -v what="$1" -v name="$2" \
		'$5 == name { print what == "entries" ? $3 : what == "address" ? $4 : $NF }'
}
hot --hot 1000 capture
for function in often:7 one:5 two:4 _start:1; do
	name=${function%:*}
	address=$(nm hot | awk -v name="$name" '$3 == name { print $1 }')
	same "entries of $name" "$(field entries "$name")" "${function#*:}"
	same "address of $name" "$(field address "$name")" "$address"
	same "line of $name" "$(field line "$name")" "$(basename "$(addr2line -e hot "0x$address")")"
done
# Each place of every list.
grep -oE '[0-9a-f]{16}  [a-z_]+(\+0x[0-9a-f]+)? in hot at hot\.c:[0-9]+$' .out | sort -u >places
while read -r address name _ _ _ line; do
	begin=$(nm hot | awk -v name="${name%+*}" '$3 == name { print $1 }')
	offset=$((0x$address - 0x$begin))
	[ "$name" = "${name%+*}" ] && [ $offset = 0 ] || [ "${name#*+}" = "$(printf '0x%x' $offset)" ] ||
		fail "$address is not $name"
	same "line of $address" "$line" "$(basename "$(addr2line -e hot "0x$address" | sed 's/ .*//')")"
done <places
[ "$(wc -l <places)" -ge 20 ] || fail "only $(wc -l <places) places"
# Five times the one function, four times the other; the loop turns a hundred times, seven times over.
like "the call" "$out" '.*
 +9 +2  [0-9a-f]{16}  _start\+0x[0-9a-f]+ in hot at hot\.c:[0-9]+
 +5  55\.56% to  [0-9a-f]{16}  one in hot at hot\.c:[0-9]+
 +4  44\.44% to  [0-9a-f]{16}  two in hot at hot\.c:[0-9]+
.*'
like "the loop" "$out" '.*
 +700 +(693 +7  99\.00|7 +693   1\.00)%  [0-9a-f]{16}  often\+.*'

# Compressed debug information says the same.
listed=$out
cp -r capture packed
for image in packed/images/*; do
	objcopy --compress-debug-sections "$image" || exit 1
done
readelf -t packed/images/* | grep -q COMPRESSED || fail "nothing is compressed"
hot --hot 1000 packed
same "with compressed debug information" "$out" "$listed"

# Symbols, but no lines; nothing at all.
cp -r capture bare && strip -g bare/images/*
hot --hot 1000 bare
same "entries of often" "$(field entries often)" 7
[[ $out != *hot.c* ]] || fail "there are lines without debug information"
strip bare/images/*
hot --hot 1000 bare
like "a stripped image" "$out" 'hottest functions
[^'$'\n'']*
 +[0-9]+ 100\.00% +-  - +without a symbol in hot
.* hot\+0x[0-9a-f]+
.*'

# A symbol that begins far outside of its file, for an earlier segment has the same addresses: the image of `sig` with a table of
# symbols and two segments put behind it.
cp -r "$data" evil
chmod -R u+w evil
cat >evil.py <<'END'
import struct, sys
path, outside = sys.argv[1], int(sys.argv[2], 0)
image = bytearray(open(path, "rb").read())
image += bytes(-len(image) % 16)
segments = [(1, 5, outside, 0x401000, 0x401000, 0x1000, 0x1000, 4096), (1, 5, 0x1000, 0x401000, 0x401000, 24576, 24576, 4096)]
at_segments = len(image)
image += b"".join(struct.pack("<IIQQQQQQ", *s) for s in segments)
names = b"\0first\0"
at_names = len(image)
image += names + bytes(-len(names) % 8)
symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x401000, 0x5000)
at_symbols = len(image)
image += symbols
at_sections = len(image)
sections = [(0,) * 10, (0, 1, 6, 0x401000, 0x1000, 24576, 0, 0, 16, 0), (0, 3, 0, 0, at_names, len(names), 0, 0, 1, 0),
            (0, 2, 0, 0, at_symbols, len(symbols), 2, 1, 8, 24)]
image += b"".join(struct.pack("<IIQQQQIIQQ", *s) for s in sections)
struct.pack_into("<QQ", image, 32, at_segments, at_sections)
struct.pack_into("<HHHHH", image, 54, 56, len(segments), 64, len(sections), 0)
open(path, "wb").write(image)
END
for outside in 0xffff000000000000 0x4000000123; do
	cp "$data"/images/* evil/images/
	python3 evil.py evil/images/* $outside
	run stat -q --hot 3 evil
	same "exit code" "$code" 0
	like "a symbol outside ($outside)" "$out" '.*
 +[0-9]+ 100\.00% +-  - +without a symbol in [^'$'\n'']*
.*'
done
cp "$data"/images/* evil/images/
python3 evil.py evil/images/* 0x1000
run stat -q --hot 3 evil
like "the same inside" "$out" '.*
 +[0-9]+ 100\.00% +[0-9]+  [0-9a-f]+  first in [^'$'\n'']*
.*'

# Code so far behind in a file that places have no room for it; a file system that knows no such files is passed over.
if truncate -s $(((1 << 38) + 0x8000)) far 2>/dev/null; then
	dd if="$(echo "$data"/images/*)" of=far bs=4096 skip=1 seek=$(((1 << 38) / 4096)) count=6 conv=notrunc status=none
	run stat -q --hot 2 --raw far:0x4000000000-0x4000006000:0x401000 "$trace"
	expect 65 "" "ptmill: Cannot count code at 0x401013: it lies beyond the first 256 GiB of its file"
	rm far
fi
finish
