#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench measures decoders that see the same instructions, and says what it compared.  No figure of time is tested.
. "$SRC/tests/cli/lib.sh" || exit 1

# look PROGRAM: the JSON in bench.json, as Python's `b`, must make the assertions true.
look() {
	python3 - "$truth" <<-END || fail "what bench printed"
		import json, sys
		b = json.load(open("bench.json"))
		_, n, _, digest = sys.argv[1].split()
		by_name = {c["name"]: c for c in b["contenders"]}
		$1
	END
}

run bench --json --runs 2 -j2 -o bench.json "$data"
expect 0 "" ""
look '
assert b["agree"] is True and b["instructions"] == int(n) and b["digest"] == digest, b
assert list(by_name) == ["process", "process_threads", "cold", "self_warm", "self_warm_threads", "libipt_block", "libipt_insn"], by_name
assert b["cache"]["by_another_recording"] is False
for c in by_name.values():
    assert c["instructions"] == int(n) and c["runs"] == 2, c
    assert c.get("digest", digest) == digest and ("digest" in c) == (c["name"] != "libipt_block"), c
    assert c["threads"] == (2 if "threads" in c["name"] else 1), c
    for clock in ("cpu_seconds", "wall_seconds"):
        assert 0 < c[clock]["min"] <= c[clock]["median"] <= c[clock]["max"], c
    assert ("peak_rss" in c) == c["name"].startswith("process"), c
assert by_name["process"]["peak_rss"] > 1 << 20
assert set(b["ratios"]) == {"warm_by_libipt_insn", "warm_by_libipt_block", "process_by_libipt_insn", "process_by_libipt_block",
                            "threads_by_one", "process_threads_by_one"}, b["ratios"]
'

# The trace itself leaves nothing to add; noise is a recording of the same program.
run bench --json --runs 1 -j1 --no-libipt --warm "$SRC/datasets/noise" -o bench.json "$data"
expect 0 "" ""
look '
assert list(by_name) == ["process", "cold", "warm"], by_name
c = b["cache"]
assert c["by_another_recording"] is True and c["filled_by"].endswith("/noise") and c["generations"] == 1, c
assert c["nodes"] > 200 and c["new_nodes"] < c["nodes"] / 4, c
'
# Another program is of no help: all that the trace needs is new.
run bench --json --runs 1 -j1 --no-libipt --warm "$SRC/datasets/calc" -o bench.json "$data"
same "exit code" "$code" 0
like "standard error" "$err" 'ptmill: [^ ]*/calc left [0-9] % of the code that the trace needs in the cache: [^'$'\n'']*'
look '
c = b["cache"]
assert c["new_nodes"] > 200, c
'

# TNT bits and TIPs are those that stat counts.
"$PTMILL" stat -q --json "$data" >stat.json
look '
stream, = json.load(open("stat.json"))["streams"]
assert b["tnt_bits"] == stream["tnt_bits"] and b["tips"] == stream["packets"]["tip"]["count"], stream
assert b["branches"] == b["tnt_bits"] + b["tips"]
'

# As a table; images by options, which the processes must get, too.
run bench --runs 1 -j1 "${images[@]}" "$trace"
same "exit code" "$code" 0
same "standard error" "$err" ""
for line in 'self_warm: the cache was filled by the same trace' $'\nprocess   ' $'\nlibipt_block   ' ' CPU ' \
	'self_warm against libipt'; do
	[[ $out == *"$line"* ]] || fail "the table has no line '$line': $out"
done

# Where a trace is cut off libipt walks on behind the last packet: the figures do not compare.
head -c 20000 "$trace" >cut.pt
run bench --runs 1 -j1 "${images[@]}" cut.pt
same "exit code of a trace that is cut off" "$code" 1
same "standard error" "$err" "ptmill: the decoders saw different instructions: the figures compare different work"
[[ $out == *"They DIFFER"* ]] || fail "the table does not say that they differ: $out"
run bench --json --runs 1 -j1 "${images[@]}" cut.pt -o bench.json
same "exit code of a trace that is cut off" "$code" 1
look 'assert b["agree"] is False'

# What makes no sense.
run bench
expect 64 "" "ptmill bench: no INPUT given: name a trace"
run bench -
expect 64 "" "ptmill bench: a trace is read many times: it cannot be standard input"
run bench --runs 0 x
expect 64 "" "ptmill bench: --runs: '0' is not a number from 1 to 1000"
run bench --warm= x
expect 64 "" "ptmill bench: --warm: OTHER is no file name: ''"
run bench --engine fast x
expect 64 "" "ptmill bench: all engines are measured: --engine makes no sense"
run bench -o "" x
expect 64 "" "ptmill bench: --output: the FILE is an empty name"
run bench missing.pt
same "exit code" "$code" 66
run bench --warm missing.pt "$data"
same "exit code" "$code" 66
# Without images nothing can be decoded.
run bench "$trace"
expect 65 "" "ptmill: $trace: no instruction can be decoded: there is nothing to measure"
nothing_but bench.json stat.json cut.pt
finish
