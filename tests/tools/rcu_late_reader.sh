#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# rcu_late_reader.sh PROGRAM SANITIZERS - rcu_late_reader.c is fine where it behaves, and a build with sanitizers reports
# each planted misuse: ThreadSanitizer both, AddressSanitizer the read of freed memory.
set -euo pipefail
program=$1 sanitizers=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
	cat "$log"
	echo "rcu_late_reader: $*"
	exit 1
}

# must_report MODE REST EXIT TEXT
must_report() {
	local status=0
	"$program" "$1" "$2" >"$log" 2>&1 || status=$?
	[ $status = "$3" ] || fail "$1 $2: exit code $status, not $3"
	grep -qE "$4" "$log" || fail "$1 $2: no report of \"$4\""
	grep -qE '\buse\b.*rcu_late_reader\.c' "$log" || fail "$1 $2: the report does not name the reader"
	echo "$1 $2: reported"
}

for rest in quiescent offline; do
	"$program" good $rest >"$log" 2>&1 || fail "good $rest: exit code $?"
	[ "$(cat "$log")" = 84 ] || fail "good $rest: not what was expected"
	case $sanitizers in
	*thread*)
		must_report before $rest 66 'ThreadSanitizer: (data race|heap-use-after-free)'
		must_report after $rest 66 'ThreadSanitizer: (data race|heap-use-after-free)' ;;
	*address*)
		must_report after $rest 1 'AddressSanitizer: heap-use-after-free' ;;
	esac
done
