#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# make-small-datasets.sh [DIR] - record the small captures of datasets/ again, into DIR (default: datasets/ itself).
#
# Needs musl-gcc, python3, ptrace and some minutes.  The program is taken from $PTMILL, or from build/*/.  Another compiler, or another
# child-process timing in sig, gives other counts: the truth beside each trace is always its own.
set -eu

src=$(cd "$(dirname "$0")/.." && pwd)
dest=${1:-$src/datasets}
work=/tmp/ptmill-datasets # the path is recorded: the same everywhere

if [ -z "${PTMILL:-}" ]; then
	for p in "$src"/build/*/src/cli/ptmill "$src"/build/*/ptmill; do
		[ -x "$p" ] && PTMILL=$p
	done
fi
[ -n "${PTMILL:-}" ] || { echo "make-small-datasets.sh: no ptmill: build it, or set PTMILL" >&2; exit 66; }
command -v musl-gcc >/dev/null || { echo "make-small-datasets.sh: no musl-gcc: install musl-tools" >&2; exit 66; }
PTMILL=$(realpath "$PTMILL")

# Only we may say what runs there.
[ ! -e "$work" ] || { echo "make-small-datasets.sh: $work exists: remove it first" >&2; exit 75; }
mkdir -m 700 "$work"
trap 'rm -rf "$work"' EXIT

# drop_vdso CAPTURE - the kernel's own code: not executed by these programs, and not ours to pass on.
drop_vdso() {
	python3 - "$1" <<-'EOF'
		import json, os, sys
		path = sys.argv[1] + "/capture.json"
		with open(path) as f:
		    capture = json.load(f)
		for process in capture["processes"]:
		    for m in [m for m in process["mappings"] if m["path"] == "[vdso]"]:
		        process["mappings"].remove(m)
		        os.remove(sys.argv[1] + "/" + m["image"])
		with open(path, "w") as f:
		    json.dump(capture, f, indent=2)
		    f.write("\n")
	EOF
}

# record NAME PROGRAM EXIT-CODE OPTIONS...
record() {
	name=$1 program=$2 want=$3
	shift 3
	# The environment lies on the program's stack and is read at start-up.
	env -i PATH=/usr/bin:/bin "$PTMILL" record --backend step "$@" -o "$work/out" -- "$work/$program" \
		>"$work/recorded.txt" 2>"$work/summary.txt" || { cat "$work/summary.txt" >&2; exit 70; }
	grep -q "exit code $want\>" "$work/summary.txt" || { cat "$work/summary.txt" >&2; exit 70; }
	"$work/$program" >"$work/native.txt" || true
	cmp "$work/recorded.txt" "$work/native.txt"
	drop_vdso "$work/out"
	mkdir -p "$dest"
	rm -rf "${dest:?}/$name"
	mv "$work/out" "$dest/$name"
	head -n 2 "$dest/$name/truth/tid1.txt" | tr '\n' ' '
	echo "$name: $(grep -c ^psb "$dest/$name/truth/tid1.txt") PSBs, $(wc -c <"$dest/$name/streams/tid1.pt") bytes"
}

for p in calc sig; do
	musl-gcc -std=gnu11 -Os -static -s -fno-pie -no-pie "$src/datasets/src/$p.c" -o "$work/$p"
done
record calc calc 0 --timing cyc --tips mixed --psb-period 2048
record sig sig 3 --timing none --psb-period 1024
record noise sig 3 --timing mtc --tips mixed --tnt64 --psb-period 1024 --ovf-period 4096 --irq-period 500 --seed 7
