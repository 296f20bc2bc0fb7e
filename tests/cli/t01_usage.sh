#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage errors: one line on standard error, nothing on standard output, exit code 64.
. "$SRC/tests/cli/lib.sh" || exit 1

# bad MESSAGE ARG...
bad() {
	local message=$1
	shift
	run "$@"
	expect 64 "" "$message"
}

run
like "standard error" "$err" "Usage: ptmill COMMAND .*"
same "exit code" "$code" 64
same "standard output" "$out" ""

bad "ptmill: unknown command 'frobnicate': \`ptmill --help' lists what there is" frobnicate
bad "ptmill: unknown option '--frobnicate': \`ptmill --help' lists what there is" --frobnicate
bad "ptmill: unknown command 'frobnicate': \`ptmill --help' lists what there is" help frobnicate
for command in decode digest stat dump; do
	bad "ptmill $command: no INPUT given: name a trace, or - for standard input" $command
	bad "ptmill $command: unrecognized option '--frobnicate'" $command --frobnicate x
	bad "ptmill $command: invalid option -- 'Z'" $command -Z x
	bad "ptmill $command: option '--threads' requires an argument" $command x --threads
	bad "ptmill $command: option '--strict' doesn't allow an argument" $command --strict=1 x
	bad "ptmill $command: an INPUT is an empty name" $command ""
	bad "ptmill $command: --output: the FILE is an empty name" $command x -o ""
	for n in "" 0 -1 " 1" 1x 0x 0xg 1025 99999999999999999999999 1k; do
		bad "ptmill $command: --threads: '$n' is not a number from 1 to 1024" $command -j "$n" x
	done
	for n in 63 "" k 1kk 2G 0x40000001 17179869184G; do
		bad "ptmill $command: --segment-size: '$n' is not a number from 64 to 1073741824; k, M or G may follow it" \
			$command --segment-size "$n" x
	done
	bad "ptmill $command: --bind: 'all' is none of: auto, none" $command --bind all x
	bad "ptmill $command: --progress: 'yes' is none of: auto, always, never" $command --progress yes x
	bad "ptmill $command: --quiet and --progress=always contradict each other" \
		$command --quiet --progress always x
	bad "ptmill $command: --test-delays: '0' is not a number of at least 1" $command --test-delays 0 x
done
for command in decode digest stat info verify; do
	for cpu in 6 6/ /6 6/85/ 6/85/7/1 a/b 6/256 65536/1 6/85/256 ""; do
		bad "ptmill $command: --cpu: '$cpu' is none of: auto, none, FAMILY/MODEL[/STEPPING] (as in 6/85/7)" \
			$command --cpu "$cpu" x
	done
	bad "ptmill $command: --engine: 'magic' is none of: fast, libipt" $command --engine magic x
	bad "ptmill $command: --resync: 'soon' is none of: ip, psb" $command --resync soon x
	bad "ptmill $command: --resync=ip: engine libipt goes on at PSBs only" \
		$command --resync ip x --engine libipt
	for n in "" 0 4194303 4095k 3M 3m 4MB 1T 1t -1; do
		bad "ptmill $command: --cache-limit: '$n' is not a number of at least 4194304; k, M or G may follow it" \
			$command --cache-limit "$n" x
	done
	bad "ptmill $command: --mtc-freq: '16' is not a number from 0 to 15" $command --mtc-freq 16 x
	bad "ptmill $command: --nom-freq: '0x100' is not a number from 0 to 255" $command --nom-freq 0x100 x
	bad "ptmill $command: --cpuid-0x15.eax: '4294967296' is not a number from 0 to 4294967295" \
		$command --cpuid-0x15.eax 4294967296 x
	bad "ptmill $command: --cpuid-0x15.ebx: '' is not a number from 0 to 4294967295" \
		$command --cpuid-0x15.ebx= x
	bad "ptmill $command: --sysroot needs --maps, whose files it is for" $command --sysroot / x
	bad "ptmill $command: --elf, --raw, --maps: the FILE is an empty name" $command --elf "" x
done
bad "ptmill decode: --format: 'xml' is none of: text, blocks, json" decode --format xml x
bad "ptmill digest: --every: '0' is not a number of at least 1" digest --every 0 x
bad "ptmill dump: unrecognized option '--elf'" dump --elf x x
bad "ptmill dump: unrecognized option '--resync'" dump --resync psb x
bad "ptmill verify: --truth is of one stream: name one INPUT" verify a b --truth c
bad "ptmill verify: --truth and --engines contradict each other" verify a --truth c --engines
bad "ptmill verify: --engines compares all: --engine makes no sense with it" verify a --engines --engine fast
bad "ptmill verify: --engines goes on at PSBs: --resync=ip contradicts it" verify a --engines --resync ip
bad "ptmill info: nothing to tell: name an INPUT, or give --topology" info
bad "ptmill info: --synthetic, --xml and --cpuset need --topology" info --cpuset 0
bad "ptmill info: --synthetic and --xml contradict each other" info --topology --synthetic core:1 --xml x
bad "ptmill record: no program given: \`ptmill record -o CAPTURE -- CMD...'" record -o x
bad "ptmill record: no directory given: say where by -o CAPTURE" record -- true
bad "ptmill record: --psb-period: '63' is not a number from 64 to 9223372036854775807; k, M or G may follow it" \
	record --psb-period 63 -o x true
bad "ptmill record: --timing: 'gps' is none of: none, tsc, mtc, cyc" record --timing gps -o x true
nothing_but
finish
