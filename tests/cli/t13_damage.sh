#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Damage is data: a clear line or a gap in its place, the right exit code, and every byte accounted for.
. "$SRC/tests/cli/lib.sh" || exit 1

# accounted WHAT: every stream's byte classes add up to its size, which is that of the input.
accounted() {
	run stat -q --json "$1" "${images[@]}" "${@:2}"
	same "exit code" "$code" "${wanted_code:-0}"
	echo "$out" | python3 -c '
import json, sys
for s in json.load(sys.stdin)["streams"]:
    b = s["bytes"]
    kinds = [b[k] for k in b if k not in ("sum", "size", "exact")]
    if not b["exact"] or sum(kinds) != int(sys.argv[1]) or b["size"] != int(sys.argv[1]):
        sys.exit(f"not accounted for: {b}, size {sys.argv[1]}")
' "$(stat -c %s "$1")" >.why 2>&1 || fail "$(cat .why)"
}

: >empty.pt
run decode -q empty.pt
expect 65 "[gap class=no-sync offset=0x0 bytes=0]" "ptmill: warning: empty.pt: no PSB in 0 bytes: is it an Intel PT trace?"
printf '\2' >one.pt
run decode -q one.pt
expect 65 "[gap class=no-sync offset=0x0 bytes=1]" "ptmill: warning: one.pt: no PSB in 1 byte: is it an Intel PT trace?"
wanted_code=65 accounted one.pt

# Megabytes without a PSB, before a good trace.
head -c 8000000 /dev/zero | tr '\0' '\6' >long.pt
cat "$trace" >>long.pt
for size in 64k 1M; do
	run digest -q long.pt "${images[@]}" --segment-size $size
	expect 0 "stream long.pt $truth" ""
done
accounted long.pt
head -c 8000000 long.pt >none.pt
run decode -q none.pt
expect 65 "[gap class=no-sync offset=0x0 bytes=8000000]" \
	"ptmill: warning: none.pt: no PSB in 8000000 bytes: is it an Intel PT trace?"
wanted_code=65 accounted none.pt

# A ring: the newest part has overwritten the oldest, so it begins in the middle of a frame; or it was never full, and
# its tail is what the kernel cleared.
half=$(($(stat -c %s "$trace") / 2))
{ tail -c +$((half + 1)) "$trace"; head -c $half "$trace"; } >wrapped.pt
accounted wrapped.pt
run digest -q wrapped.pt "${images[@]}"
like "most of it" "$out" 'stream wrapped\.pt instructions (19|20)[0-9]{4} digest 0x[0-9a-f]{16}'
{ cat "$trace"; head -c 100000 /dev/zero; } >tail.pt
run digest -q --strict tail.pt "${images[@]}"
expect 0 "stream tail.pt $truth" ""
accounted tail.pt
run stat -q tail.pt "${images[@]}"
like "padding" "$out" '.*
    padding +100000
.*'

# A frame that is longer than any that hardware makes (twice 64 MiB): what is too much is skipped, and said.
if [ -z "${PTM_SANITIZE:-}" ]; then
	cat "$trace" >huge.pt
	truncate -s 200M huge.pt
	cat "$trace" >>huge.pt
	run decode -q --no-disasm huge.pt "${images[@]}" -o huge.txt
	same "exit code" "$code" 0
	like "the gap" "$(grep gap huge.txt)" '\[gap class=too-long offset=0x[0-9a-f]+ bytes=7[0-9]{7}\]'
	accounted huge.pt
fi

# Images.
run digest -q "$trace" --elf missing
same "exit code" "$code" 66
like "the error" "$err" 'ptmill: .*missing.*'
run digest -q "$trace" --elf "$SRC/README.md"
same "exit code" "$code" 65
run digest -q "$trace"
same "exit code" "$code" 0
like "no image" "$out" 'stream .* instructions 0 digest 0x0000000000000000'
# Code for another mode: a 32-bit program at the same place.
python3 - "${images[1]}" <<'END'
import pathlib, struct, sys
code = bytes(4096)
head = b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, 0x401000, 52, 0, 0, 52, 32, 1, 0, 0, 0)
head += struct.pack("<IIIIIIII", 1, 4096, 0x401000, 0x401000, len(code), len(code), 5, 4096)
pathlib.Path("elf32").write_bytes(head.ljust(4096, b"\0") + code)
END
run digest -q --strict "$trace" --elf elf32
same "exit code" "$code" 3
run digest -q "$tmp"
same "exit code of a directory" "$code" 66
finish
