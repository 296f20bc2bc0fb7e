#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make-large.sh OUT [MIB] - a trace of at least MIB MiB (default: 20) for measurements, made of datasets/calc.
#
# It is the same recording (276 KB, 2.5 million instructions) again and again: each copy begins with a PSB, so each is
# decoded like the first, but caches of decoded code are as warm as a long run of a small program would make them.  It
# measures the pipeline, not the variety of real programs.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	echo "usage: make-large.sh OUT [MIB]" >&2
	exit 64
fi
trace=$(dirname "$0")/../datasets/calc/streams/tid1.pt
want=$((${2:-20} << 20))
size=$(stat -c %s "$trace")
copies=$(((want + size - 1) / size))
part=$1.part
trap 'rm -f "$part"' EXIT
for ((i = 0; i < copies; i++)); do
	cat "$trace"
done >"$part"
mv "$part" "$1"
echo "$1: $copies copies of $size bytes, $(stat -c %s "$1") bytes"
