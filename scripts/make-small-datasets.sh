#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make-small-datasets.sh [DIR] [NAME...] - record the small captures of datasets/ again, into DIR (default: datasets/ itself).
#
# Needs musl-gcc, g++, python3 and qemu-user, ptrace for `calc', `sig' and `noise', and a minute.  The program is taken from $PTMILL, or
# from build/*/.  $PTMILL_SOURCES names a directory with the Debian source archives of lua5.4, libzstd and sqlite3
# (`apt-get source --download-only lua5.4 libzstd sqlite3', needs a deb-src line); without it, only our own programs are recorded.
# Another compiler, or another turn of the threads, gives other counts: the truth beside each trace is always its own.
set -euo pipefail

src=$(cd "$(dirname "$0")/.." && pwd)
dest=${1:-$src/datasets}
[ $# -eq 0 ] || shift
only=" $* "
work=/tmp/ptmill-datasets # the path is recorded: the same everywhere
sources=${PTMILL_SOURCES:-}

die() {
	echo "make-small-datasets.sh: $2" >&2
	exit "$1"
}

if [ -z "${PTMILL:-}" ]; then
	for p in "$src"/build/*/src/cli/ptmill; do
		[ -x "$p" ] && PTMILL=$p
	done
fi
[ -n "${PTMILL:-}" ] || die 66 "no ptmill: build it, or set PTMILL"
command -v musl-gcc >/dev/null || die 66 "no musl-gcc: install musl-tools"
PTMILL=$(realpath "$PTMILL")
[ -z "$sources" ] || sources=$(realpath "$sources")

# Only we may say what runs there.
[ ! -e "$work" ] || die 75 "$work exists: remove it first"
mkdir -m 700 "$work" "$work/src"
trap 'rm -rf "$work"' EXIT
cd "$work"

# unpack ARCHIVE SHA256 - a source archive, if it is the one that we mean.
unpack() {
	echo "$2  $sources/$1" | sha256sum --quiet -c - || die 65 "$sources/$1 is missing, or another version"
	tar -xf "$sources/$1" -C "$work/src"
}

# drop_vdso CAPTURE - the kernel's own code: not executed by these programs, and not ours to pass on.
drop_vdso() {
	python3 - "$1" <<-'END'
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
	END
}

is_wanted() {
	[ "$only" = "  " ] || [[ $only == *" $1 "* ]]
}

# record NAME EXIT-CODE "OPTIONS" COMMAND... - natively, too: what it prints and how it ends must be the same.
record() {
	local name=$1 want=$2 options=$3 code=0
	shift 3
	is_wanted "$name" || return 0
	env -i PATH=/usr/bin:/bin "$@" >native.txt || code=$?
	[ "$code" = "$want" ] || die 70 "$name: exit code $code"
	# The environment lies on the program's stack and is read at start-up.  Options are words without blanks.
	# shellcheck disable=SC2086
	env -i PATH=/usr/bin:/bin "$PTMILL" record $options -o "$work/out" -- "$@" >recorded.txt 2>summary.txt ||
		{ cat summary.txt >&2; exit 70; }
	grep -q "exit code $want\>" summary.txt || { cat summary.txt >&2; exit 70; }
	cmp recorded.txt native.txt
	drop_vdso out
	mkdir -p "$dest"
	rm -rf "${dest:?}/$name"
	mv out "$dest/$name"
	awk -v name="$name" -v bytes="$(cat "$dest/$name"/streams/* | wc -c)" '
		$1 == "instructions" { n += $2 } $1 == "digest" { d = d " " $2 } $1 == "psb" { psbs++ } $1 == "gap" { gaps++; lost += $6 }
		END { printf "%s: %d instructions, %d bytes, %d PSBs, %d gaps (%d lost), digests%s\n", name, n, bytes, psbs, gaps, lost, d }' \
		"$dest/$name"/truth/*
}

link=(-static -s -fno-pie -no-pie -ffunction-sections -fdata-sections -Wl,--gc-sections)
cc=(musl-gcc -std=gnu11 -Os "${link[@]}")

for p in calc sig; do
	musl-gcc -std=gnu11 -Os -static -s -fno-pie -no-pie "$src/datasets/src/$p.c" -o "$p"
done
"${cc[@]}" "$src/datasets/src/threads.c" -o threads

# musl has no C++ compiler: glibc's headers agree with musl where these few parts of the library look.
g++ -std=c++17 -Os -fno-pie -ffunction-sections -U_FORTIFY_SOURCE -c "$src/datasets/src/shapes.cpp" -o shapes.o
musl-gcc -Os -c "$src/datasets/src/musl_cxx.c" -o musl_cxx.o
"${cc[@]}" -Wl,--eh-frame-hdr shapes.o musl_cxx.o -o shapes -Wl,--start-group "$(g++ -print-file-name=libstdc++.a)" \
	"$(g++ -print-file-name=libgcc_eh.a)" "$(g++ -print-file-name=libgcc.a)" -lc -Wl,--end-group

step="--backend step"
noise="--tnt64 --tips mixed --seed 7"
record calc 0 "$step --timing cyc --tips mixed --psb-period 2048" "$work/calc"
record sig 3 "$step --timing none --psb-period 1024" "$work/sig"
record noise 3 "$step --timing mtc $noise --psb-period 1024 --ovf-period 4096 --irq-period 500" "$work/sig"
record shapes 0 "--backend qemu --timing tsc --psb-period 2048 --compress" ./shapes
record everything 0 "--backend qemu --timing cyc --mtc-freq 5 $noise --psb-period 2048 --ovf-period 16384 --irq-period 5000 --compress" ./shapes
record threads 5 "--backend qemu --timing mtc --tips defer --psb-period 2048" ./threads

if [ -z "$sources" ]; then
	echo "PTMILL_SOURCES is not set: compress, database, interpret and generate are left out"
	exit 0
fi
unpack lua5.4_5.4.4.orig.tar.gz 164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61
unpack libzstd_1.5.4+dfsg2.orig.tar.xz 8cf4bbb65e77ec348d052c8d6230eba66d435bddf64c8b5be2fcb16880c19953
unpack sqlite3_3.40.1.orig.tar.xz aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655

if is_wanted interpret; then
	find src/lua-5.4.4/src -name '*.c' ! -name luac.c -exec "${cc[@]}" -DLUA_USE_POSIX '-Dluai_makeseed(L)=1u' -o interpret {} +
	cp "$src/datasets/src/interpret.lua" .
	record interpret 0 "--backend qemu --timing none --tips defer --psb-period 4k" ./interpret interpret.lua
fi
if is_wanted compress; then
	zstd=src/zstd-1.5.4/lib
	"${cc[@]}" -DZSTD_DISABLE_ASM -DZSTD_LEGACY_SUPPORT=0 -I$zstd $zstd/common/*.c $zstd/compress/*.c $zstd/decompress/*.c \
		"$src/datasets/src/compress.c" -o compress
	record compress 0 "--backend qemu --timing mtc --psb-period 4k --compress" ./compress
fi
sqlite=src/sqlite3-3.40.1
if is_wanted database; then
	mkdir build
	(cd build && ../$sqlite/configure --disable-tcl --disable-readline && make sqlite3.c) >build.log 2>&1 || { tail build.log >&2; exit 70; }
	"${cc[@]}" -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_DQS=0 -Ibuild build/sqlite3.c "$src/datasets/src/database.c" \
		-o database
	record database 0 "--backend qemu --timing none --tnt64 --psb-period 4k --compress" ./database
fi
if is_wanted generate; then
	"${cc[@]}" $sqlite/tool/lemon.c -o generate
	cp $sqlite/tool/lempar.c $sqlite/ext/fts5/fts5parse.y .
	record generate 0 "--backend qemu --timing cyc --ret-comp off --psb-period 4k --compress" ./generate -q -Tlempar.c fts5parse.y
fi
