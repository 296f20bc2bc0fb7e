# SPDX-License-Identifier: Apache-2.0
#
# record.sh - what the tests of the recording back ends share; to be read behind lib.sh.
#
# shellcheck shell=bash

# truth_of CAPTURE: as `ptmill digest` prints it.
truth_of() {
	local file
	for file in $(find "$1/truth" -name '*.txt' | sort -V); do
		awk -v name="$1:$(basename "$file" .txt)" '$1 == "instructions" { n = $2 } $1 == "digest" { d = $2 }
			END { print "stream", name, "instructions", n, "digest", d }' "$file"
	done
}

# check CAPTURE [OPTION...]: decodes to its truth, as a whole and in small segments.
check() {
	local capture=$1 option truth
	shift
	truth=$(truth_of "$capture")
	like "the truth" "${truth%%$'\n'*}" 'stream .*:tid1 instructions [1-9][0-9]* digest 0x[0-9a-f]{16}'
	for option in --threads=1 --segment-size=4k; do
		run digest -q "$option" "$@" "$capture"
		expect 0 "$truth" ""
	done
}

# begin BACKEND CMD...: records to `ended` in the background, as $recorder.
begin() {
	local backend=$1
	shift
	"$PTMILL" record --backend "$backend" -o ended -- "$@" 2>.err &
	recorder=$!
}

# signals_end BACKEND: asked to end, by a signal to it alone, it asks the program to, and keeps what was recorded.
signals_end() {
	local signal
	for signal in TERM:143 INT:130 HUP:129; do
		shown="ptmill record -- sleep 600, and SIG${signal%%:*}"
		begin "$1" sleep 600
		until [ -e ended.tmp-$recorder/streams/tid1.pt ] || ! kill -0 $recorder 2>/dev/null; do sleep 0.1; done
		sleep 0.3
		kill -"${signal%%:*}" $recorder
		wait $recorder
		same "exit code" $? 75
		like "standard error" "$(tail -n 2 .err)" "ptmill: signal $((${signal#*:} - 128)) ended the program: ended holds what was \
recorded until then"$'\n'"ptmill: .* exit code ${signal#*:}: ended"
		check ended --strict
		rm -r ended
	done
	# One that the program survives is no end.
	shown="ptmill record -- sh, which takes SIGTERM"
	begin "$1" sh -c 'trap "exit 7" TERM; echo ready >&2; while :; do sleep 0.1; done'
	until grep -q ready .err || ! kill -0 $recorder 2>/dev/null; do sleep 0.1; done
	kill -TERM $recorder
	wait $recorder
	same "exit code" $? 0
	like "standard error" "$(tail -n 1 .err)" 'ptmill: .* exit code 7: ended'
	check ended --strict
	rm -r ended
}
