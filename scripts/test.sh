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
trees=()
for preset in "${presets[@]}"; do
	echo "== building preset $preset"
	cmake --preset "$preset" >/dev/null
	cmake --build --preset "$preset" -j "$jobs" -- --quiet
	trees+=("build/$preset")
done
echo "== testing presets ${presets[*]}"
# One ctest over all of them, so that there is one verdict.
python3 scripts/merge-tests.py build/all-tests "${trees[@]}"
ctest --test-dir build/all-tests --output-on-failure --no-tests=error -j "$jobs"
