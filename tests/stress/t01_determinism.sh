#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The output is a function of the input: the same bytes for any number of workers, any segment size, any timing.
# Traces of at least 50 segments are decoded with random delays in the workers, and compared with a run of one worker
# without: a real program's, several joined to one, and the same damaged at random places.
set -euo pipefail

workers=(1 2 3 8)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# join and damage: what the seed says is cut out, flipped or overwritten, a few places in each 10 KB.
python3 - "$SRC/datasets" "$work" <<'END'
import pathlib
import random
import sys

datasets, work = map(pathlib.Path, sys.argv[1:])
sig, noise, calc = ((datasets / d / "streams/tid1.pt").read_bytes() for d in ("sig", "noise", "calc"))
joined = sig + noise + sig[:20000] + noise[5000:]
(work / "joined.pt").write_bytes(joined)
for seed in range(3):
    rng = random.Random(seed)
    data = bytearray(joined)
    for _ in range(len(data) // 3000):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            del data[at:at + rng.randrange(1, 300)]
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at:at + 8] = rng.randbytes(8)
        else:  # half a PSB, or a run of its bytes
            data[at:at] = b"\x02\x82" * rng.randrange(1, 20)
    (work / f"damaged{seed}.pt").write_bytes(data)
END
cp "$SRC/datasets/calc/streams/tid1.pt" "$work/calc.pt"

# run NAME COMMAND OPTION...: the output's checksum; what the run cost is no part of it.
run() {
	local name=$1 command=$2 program=sig
	shift 2
	[ "$name" = calc ] && program=calc
	local images=(--elf "$SRC/datasets/$program/images"/*
		--mtc-freq 3 --nom-freq 24 --cpuid-0x15.eax 2 --cpuid-0x15.ebx 200)
	case $command in
	decode) set -- decode "${images[@]}" "$@" ;;
	digest) set -- digest --every 10007 "${images[@]}" "$@" ;;
	stat) set -- stat --json "${images[@]}" "$@" ;;
	dump) set -- dump "$@" ;;
	esac
	if [ "$command" = stat ]; then
		"$PTMILL" "$@" -q "$work/$name.pt" >"$work/stat.json"
		python3 - "$work/stat.json" "$work/segments" <<'END'
import json
import sys

report = json.load(open(sys.argv[1]))
print(report.pop("run")["segments"], file=open(sys.argv[2], "w"))
for stream in report["streams"]:
    assert stream["bytes"]["exact"], stream
print(json.dumps(report))
END
	else
		"$PTMILL" "$@" -q "$work/$name.pt"
	fi | sha256sum
}

seed=0
least=0
failures=0
runs=0
# check NAME COMMAND: against the run of one worker, at all sizes and numbers of workers.
check() {
	local name=$1 command=$2 expected got
	expected=$(run "$name" "$command" -j 1)
	for size in "${sizes[@]}"; do
		for n in "${workers[@]}"; do
			seed=$((seed + 1))
			runs=$((runs + 1))
			got=$(run "$name" "$command" -j "$n" --segment-size "$size" --test-delays $seed)
			if [ "$got" != "$expected" ]; then
				echo "$name: $command -j $n --segment-size $size --test-delays $seed: other bytes"
				failures=$((failures + 1))
			fi
			if [ "$command" = stat ]; then
				least=$(cat "$work/segments")
				if [ "$least" -lt 50 ]; then
					echo "$name: $least segments of $size: a test of order needs 50"
					failures=$((failures + 1))
				fi
			fi
		done
	done
}

# The count and the digest that the recorder wrote down while the program ran.
read -r count digest < <(awk '$1 == "instructions" { n = $2 } $1 == "digest" { print n, $2 }' "$SRC/datasets/calc/truth/tid1.txt")
# Not a pipe into grep -q: the program would be told that nobody reads on.
"$PTMILL" digest -q "$work/calc.pt" --elf "$SRC/datasets/calc/images"/* >"$work/line"
if ! grep -q " instructions $count digest $digest\$" "$work/line"; then
	echo "calc: expected $count instructions, digest $digest: $(cat "$work/line")"
	exit 1
fi

for name in calc joined damaged0 damaged1 damaged2; do
	for command in stat digest dump decode; do
		case "$name $command" in
		"calc decode") sizes=(4K) ;; # 87 MB of text each time
		calc*) sizes=(1000 4K 5500) ;;
		*) sizes=(300 1000 2500) ;;
		esac
		# A sanitizer makes each run several times as long.
		[ -n "${PTM_SANITIZE:-}" ] && sizes=("${sizes[0]}" "${sizes[-1]}")
		check "$name" "$command"
	done
	echo "$name: $(stat -c %s "$work/$name.pt") bytes, $least segments or more"
done
echo "$runs runs with delays, $failures failures"
[ $failures = 0 ]
