#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is needed, builds and runs all tests: plain, with ASan and UBSan, and with TSan.  Fails if any part
# fails; the last line is ctest's verdict over all of them.
#
#   scripts/test.sh          debug, asan, tsan
#   scripts/test.sh --quick  debug only
set -euo pipefail
cd "$(dirname "$0")/.."

presets=(debug asan tsan)
case "${1:-}" in
"") ;;
--quick) presets=(debug) ;;
*)
	echo "usage: scripts/test.sh [--quick]" >&2
	exit 64
	;;
esac

jobs=$(nproc)
scripts/install-deps.sh
# One ctest over the build trees of all presets, so that there is one verdict.
all=build/all-tests
mkdir -p "$all"
: >"$all/CTestTestfile.cmake"
for preset in "${presets[@]}"; do
	echo "== building preset $preset"
	cmake --preset "$preset" >/dev/null
	cmake --build --preset "$preset" -j "$jobs" -- --quiet
	printf 'subdirs("%s")\n' "$PWD/build/$preset" >>"$all/CTestTestfile.cmake"
done
echo "== testing presets ${presets[*]}"
ctest --test-dir "$all" --output-on-failure --no-tests=error -j "$jobs"
