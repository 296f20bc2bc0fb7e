#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The .deb: its fields, its files, and that its program and library run from it.
set -euo pipefail
if [ -n "${PTM_SANITIZE:-}" ]; then
	echo "skipped: a package is not made of a build with sanitizers"
	exit 77
fi
if ! command -v dpkg-shlibdeps >/dev/null; then
	echo "skipped: dpkg-shlibdeps is not here (apt-get install dpkg-dev)"
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cpack -G DEB --config "$BUILD/CPackConfig.cmake" -B "$tmp/cpack" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
deb=("$tmp"/cpack/ptmill_*.deb)
[ ${#deb[@]} = 1 ]

field() { dpkg-deb -f "${deb[0]}" "$1"; }
fail() { echo "$*"; exit 1; }
[ "$(field Package)" = ptmill ] || fail "Package: $(field Package)"
[ "$(field Architecture)" = "$(dpkg --print-architecture)" ] || fail "Architecture: $(field Architecture)"
depends=$(field Depends)
for lib in libc6 libipt2 libzydis libcapstone libhwloc libzstd libelf libdw libjson-c liburcu; do
	[[ $depends == *$lib* ]] || fail "Depends has no $lib: $depends"
done

dpkg-deb -x "${deb[0]}" "$tmp/root"
want=(bin/ptmill lib/ptmill/ptmill-qemu.so lib/libptmill.a lib/libptmill.so lib/libptmill.so.0 include/ptmill/ptmill.h
	include/ptmill/version.h lib/pkgconfig/ptmill.pc lib/cmake/ptmill/ptmillConfig.cmake
	lib/cmake/ptmill/ptmillConfigVersion.cmake lib/cmake/ptmill/ptmillTargets.cmake
	share/doc/ptmill/LICENSE share/doc/ptmill/CHANGELOG.md)
if [ -d "$BUILD/man" ]; then
	for page in "$SRC"/docs/*.scd; do
		page=$(basename "$page" .scd)
		want+=("share/man/man${page##*.}/$page")
	done
fi
for file in "${want[@]}"; do
	[ -e "$tmp/root/usr/$file" ] || fail "the package has no usr/$file"
done
for header in "$SRC"/include/ptmill/*.h; do
	[ -e "$tmp/root/usr/include/ptmill/$(basename "$header")" ] || fail "the package has no $header"
done
# Nothing but what belongs there.
(cd "$tmp/root" && find . -type f) | grep -vE \
	'^\./usr/(bin/ptmill|lib/(libptmill\.|ptmill/ptmill-qemu\.so|pkgconfig/|cmake/ptmill/)|include/ptmill/|share/(doc/ptmill|man)/)' &&
	fail "the package has files that it should not have"
"$tmp/root/usr/bin/ptmill" --version
