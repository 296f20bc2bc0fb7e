#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh clone to a decoded trace: installs, builds, decodes the captures in datasets/ and compares with the truth
# that was recorded with them.  Needs no Intel PT hardware.
set -euo pipefail
if [ $# -gt 0 ]; then
	usage="Usage: scripts/quickstart.sh
Installs what the build needs (scripts/install-deps.sh, by the package manager), builds ptmill in build/release, decodes the
captures in datasets/ and compares them with what was executed.  Takes no options."
	case $1 in
	-h | --help)
		echo "$usage"
		exit 0
		;;
	esac
	echo "$usage" >&2
	exit 64
fi
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

say "installing what the build needs"
scripts/install-deps.sh
say "building (preset release, in build/release)"
cmake --preset release >/dev/null
cmake --build --preset release --target ptmill
ptmill=build/release/src/cli/ptmill

say "every instruction of the captures in datasets/, compared with what was executed"
for dir in datasets/*/; do
	dir=${dir%/}
	[ -f "$dir/capture.json" ] || continue
	echo "\$ $ptmill verify $dir"
	"$ptmill" verify -q "$dir"
	first=${first:-$dir}
done
if [ -z "${first:-}" ]; then
	echo "datasets/ has no captures"
	exit 1
fi

say "$first: the first instructions"
echo "\$ $ptmill decode $first -o build/quickstart.txt"
"$ptmill" decode "$first" -o build/quickstart.txt
head -n 12 build/quickstart.txt
echo "... $(wc -l <build/quickstart.txt) lines"

say "$first: its figures"
echo "\$ $ptmill stat $first"
"$ptmill" stat "$first"

step() { printf '  %-70s  %s\n' "$@"; }

say "done"
echo "Installed what was missing, built $ptmill, decoded the captures in datasets/: every instruction is right."
echo "Next:"
step "$ptmill help decode" "what decode can do"
step "$ptmill dump $first | head" "the packets"
step "$ptmill record -o /tmp/true -- /bin/true" "a trace of your own, without PT hardware"
step "cmake --build --preset release && sudo cmake --install build/release" "ptmill, its manual pages, the library"
step "scripts/test.sh" "all tests, with sanitizers"
