# SPDX-License-Identifier: Apache-2.0
#
# lib.sh - what the tests of the program share: run it, and compare standard output, standard error and exit code.
#
# shellcheck shell=bash
set -u
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
failures=0
data=$SRC/datasets/sig
trace=$data/streams/tid1.pt
images=(--elf "$data"/images/*)
# What the recorder saw: `instructions N digest 0x...`.
truth=$(awk '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 } END { print "instructions", n, "digest", d }' \
	"$data/truth/tid1.txt")

# run ARG...: the program; leaves $code, $out, $err (the newline at the end stripped).
run() {
	shown="ptmill $*"
	"$PTMILL" "$@" >"$tmp/.out" 2>"$tmp/.err" </dev/null
	code=$?
	out=$(tr -d '\0' <"$tmp/.out")
	err=$(tr -d '\0' <"$tmp/.err")
}

fail() {
	echo "FAIL: $shown: $*"
	failures=$((failures + 1))
}

# same WHAT GOT WANTED
same() {
	[ "$2" = "$3" ] || fail "$1 is
  $2
and not
  $3"
}

# like WHAT GOT REGEX
like() {
	[[ $2 =~ ^$3$ ]] || fail "$1 is
  $2
and not like
  $3"
}

# expect CODE OUT ERR: of the last run.
expect() {
	same "exit code" "$code" "$1"
	same "standard output" "$out" "$2"
	same "standard error" "$err" "$3"
}

# nothing_but FILE...: the working directory holds these and nothing else.
nothing_but() {
	local there want
	there=$(find . -mindepth 1 -maxdepth 1 ! -name .out ! -name .err -printf '%f\n' | sort | tr '\n' ' ')
	want=$([ $# = 0 ] || printf '%s\n' "$@" | sort | tr '\n' ' ')
	same "the directory" "$there" "$want"
}

finish() {
	[ $failures = 0 ] || exit 1
	exit 0
}
