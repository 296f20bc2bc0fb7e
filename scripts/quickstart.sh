#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh clone to a decoded trace: installs, builds, decodes the traces in datasets/ and compares with the truth
# that was recorded with them.  Needs no Intel PT hardware.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

say "installing what the build needs"
scripts/install-deps.sh
say "building (preset release, in build/release)"
cmake --preset release >/dev/null
cmake --build --preset release --target ptmill
ptmill=build/release/src/cli/ptmill

for dir in datasets/*/; do
	dir=${dir%/}
	[ -f "$dir/trace.pt" ] || continue
	images=(--maps "$dir/maps" --sysroot "$dir/images")
	say "$dir: number and digest of the executed instructions"
	echo "\$ $ptmill digest $dir/trace.pt ${images[*]}"
	line=$("$ptmill" digest "$dir/trace.pt" "${images[@]}")
	echo "$line"
	truth=$(awk '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 }
		END { print "instructions", n, "digest", d }' "$dir/truth.txt")
	if [[ $line != *" $truth" ]]; then
		echo "this is not what was executed: $truth"
		exit 1
	fi
	echo "exactly what was executed, says $dir/truth.txt"
	first=${first:-$dir}
done
if [ -z "${first:-}" ]; then
	echo "datasets/ has no traces"
	exit 1
fi
images=(--maps "$first/maps" --sysroot "$first/images")

say "$first: the first instructions"
echo "\$ $ptmill decode $first/trace.pt ${images[*]} -o build/quickstart.txt"
"$ptmill" decode "$first/trace.pt" "${images[@]}" -o build/quickstart.txt
head -n 12 build/quickstart.txt
echo "... $(wc -l <build/quickstart.txt) lines"

say "$first: its figures"
echo "\$ $ptmill stat $first/trace.pt ${images[*]}"
"$ptmill" stat "$first/trace.pt" "${images[@]}"

cat <<END

== done
Installed what was missing, built $ptmill, decoded the traces in datasets/: every instruction is right.
Next:
  $ptmill help decode                           what decode can do
  $ptmill dump $first/trace.pt | head           the packets
  $ptmill record -o /tmp/true -- /bin/true       a trace of your own, without PT hardware
  scripts/test.sh                                                  all tests, with sanitizers
END
