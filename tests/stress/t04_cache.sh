#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Eight engines on one code cache that is too small for what they decode, in address spaces that come and go: each
# segment yields what it does alone.  And an engine that goes on with a generation that was freed while it was off line
# is reported by sanitizers.
set -euo pipefail
tool=$BUILD/tests/tools/cache_race
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
	cat "$log"
	echo "FAIL: $*"
	exit 1
}

segments=200
[ -z "$PTM_SANITIZE" ] || segments=20
# The programs differ, so that they drive each other's nodes out.
inputs=()
for name in database everything generate interpret shapes threads; do
	inputs+=("$SRC/datasets/$name")
done
for limit in 100000 400000; do
	"$tool" race $limit $segments "${inputs[@]}" >"$log" 2>&1 || fail "race, limit $limit"
	cat "$log"
done

"$tool" late-good "$SRC/datasets/shapes" >"$log" 2>&1 || fail "a walk that starts afresh"
case $PTM_SANITIZE in
*thread*) report='ThreadSanitizer: (data race|heap-use-after-free|SEGV)' ;;
*address*) report='AddressSanitizer: heap-use-after-free' ;;
*) echo "1 passed, 0 failed, 1 skipped (no sanitizer: a late reader is not looked for)"; exit 0 ;;
esac
"$tool" late "$SRC/datasets/shapes" >"$log" 2>&1 && fail "a late reader was not noticed"
grep -qE "$report" "$log" || fail "no report of a late reader"
grep -q 'walk\.c' "$log" || fail "the report does not name the reader"
echo "2 passed, 0 failed"
