#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A ten-line program is built against an installed tree in the four ways that we promise, and run.
set -euo pipefail
if [ -n "${PTM_SANITIZE:-}" ]; then
	echo "skipped: a consumer would have to be built with the sanitizers, too"
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cmake --install "$BUILD" --prefix "$tmp/first" >"$tmp/log"
# An installed tree may be moved: nothing in it names where it was.
mv "$tmp/first" "$tmp/prefix"
prefix=$tmp/prefix
libdir=$(dirname "$(find "$prefix" -name libptmill.a)")
export LD_LIBRARY_PATH=$libdir
# A test must not succeed with files of the source or build tree.
if grep -rIl -e "$SRC" -e "$BUILD" "$prefix"; then
	echo "these installed files name the source or the build tree"
	exit 1
fi

echo "== find_package, shared and static"
cmake -S "$SRC/tests/install/consumer" -B "$tmp/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$tmp/log"
cmake --build "$tmp/cmake" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
"$tmp/cmake/shared"
env -u LD_LIBRARY_PATH "$tmp/cmake/static"

echo "== pkg-config, shared and static"
export PKG_CONFIG_PATH=$libdir/pkgconfig
main=$SRC/tests/install/consumer/main.c
read -ra cflags < <(pkg-config --cflags ptmill)
read -ra libs < <(pkg-config --libs ptmill)
"$CC" "${cflags[@]}" "$main" "${libs[@]}" -o "$tmp/pc-shared"
"$tmp/pc-shared"
read -ra libs < <(pkg-config --static --libs ptmill | sed 's/-lptmill\b/-l:libptmill.a/')
"$CC" "${cflags[@]}" "$main" "${libs[@]}" -o "$tmp/pc-static"
env -u LD_LIBRARY_PATH "$tmp/pc-static"

# Each was linked as it says.
for program in "$tmp/cmake/shared" "$tmp/pc-shared"; do
	readelf -d "$program" | grep -q 'NEEDED.*libptmill\.so\.0'
done
for program in "$tmp/cmake/static" "$tmp/pc-static"; do
	if readelf -d "$program" | grep 'NEEDED.*libptmill'; then
		exit 1
	fi
done
