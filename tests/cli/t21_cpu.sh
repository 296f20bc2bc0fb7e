#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# t21_cpu.sh - the program runs, and yields the same, on a CPU that lacks what its fastest loops are compiled for: emulated ones
# without BMI2 (an instruction of it would be illegal there) and with.
. "$SRC/tests/cli/lib.sh"

if ! command -v qemu-x86_64 >/dev/null || [ "$(uname -m)" != x86_64 ]; then
	echo "skipped: this needs an x86-64 and qemu-x86_64 (Debian: qemu-user)"
	exit 77
fi
if [ -n "${PTM_SANITIZE:-}" ]; then
	echo "skipped: sanitizers do not run under QEMU"
	exit 77
fi

program=$PTMILL
for set in "$SRC"/datasets/*/; do
	[ -e "$set/capture.json" ] || continue
	run digest -q "$set"
	want=$out
	for cpu in Nehalem max,-bmi2 max; do
		PTMILL=qemu-x86_64
		run -cpu "$cpu" "$program" digest -q -j1 "$set"
		expect 0 "$want" ""
		PTMILL=$program
	done
done
finish
