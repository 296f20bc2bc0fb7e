#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what ptmill needs to be built and tested on Debian 12: does nothing if all of it is there.
set -euo pipefail

packages=(
	# to build
	gcc libc6-dev cmake ninja-build pkg-config scdoc
	libipt-dev libzydis-dev libcapstone-dev libhwloc-dev libzstd-dev libelf-dev libdw-dev libjson-c-dev libxxhash-dev liburcu-dev
	# to test: g++ for the headers, python3 for checks, zstd for compressed inputs, dpkg-dev and file for the package,
	# perf as another decoder of packets, QEMU to record
	g++ libcmocka-dev python3 zstd dpkg-dev file clang-format-14 linux-perf qemu-user procps
)

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
	echo "install-deps: nothing to install"
	exit 0
fi

root=()
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "install-deps: run this as root, or install sudo; missing: ${missing[*]}" >&2
		exit 1
	fi
	root=(sudo)
fi
echo "install-deps: installing ${missing[*]}"
"${root[@]}" apt-get update -q
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
