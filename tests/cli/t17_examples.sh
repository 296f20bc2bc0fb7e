# SPDX-License-Identifier: Apache-2.0
#
# The examples: what they print is what the lines of `ptmill decode` say, counted in another way.
. "$SRC/tests/cli/lib.sh" || exit 1

calls=$BUILD/examples/calls
[ -x "$calls" ] || {
	echo "skipped: the examples were not built"
	exit 77
}

# Calls are counted by their mnemonics.
count_calls() {
	awk '/^\[/ { if ($0 ~ /^\[(gap|overflow|disabled|async)/) called = 0; next }
		{ if (called) n[$1]++; called = $2 == "call" }
		END { for (ip in n) print ip, n[ip] }' | LC_ALL=C sort -k 2,2nr -k 1,1 | head -n 10
}

for name in sig noise calc interpret; do
	shown="calls $name"
	want=$("$PTMILL" decode -q "$SRC/datasets/$name" | count_calls)
	like "ten lines" "$want" '([0-9a-f]{16} [0-9]+'$'\n''){9}[0-9a-f]{16} [0-9]+'
	same "standard output" "$("$calls" "$SRC/datasets/$name")" "$want"
done
shown="calls TRACE ELF"
want=$("$PTMILL" decode -q "$trace" "${images[@]}" | count_calls)
same "standard output" "$("$calls" "$trace" "${images[1]}")" "$want"

shown="calls, and a trace that is not there"
out=$("$calls" nothing 2>.err)
same "exit code" $? 1
same "standard output" "$out" ""
like "standard error" "$(cat .err)" 'calls: .*nothing.*'
finish
