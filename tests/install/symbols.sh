#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The shared library exports what the public headers declare with PTM_API, and nothing else.
set -euo pipefail
lib=$BUILD/src/libptmill.so
exported=$(nm -D --defined-only --format=posix "$lib" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort)
declared=$(cat "$SRC"/include/ptmill/*.h | tr '\n' ' ' | grep -oE 'PTM_API [^(;]*\(' | grep -oE 'ptm_\w+\($' |
	tr -d '(' | sort)
[ -n "$declared" ]
if ! diff <(echo "$declared") <(echo "$exported"); then
	echo "< is declared but not exported, > is exported but not declared"
	exit 1
fi
echo "$(echo "$exported" | wc -l) symbols, as declared"
