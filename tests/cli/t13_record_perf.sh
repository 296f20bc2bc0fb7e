#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Recording by perf: what becomes of a perf.data file (written here by hand, in place of perf), and of failures.
. "$SRC/tests/cli/lib.sh" || exit 1
mkdir bin none
image=$(ls "$SRC"/datasets/sig/images/*)
python3 - "$SRC/datasets/sig" "$image" bin/data <<'END' || exit 1
import json, struct, sys

base, image, out = sys.argv[1:]
trace = open(base + "/streams/tid1.pt", "rb").read()
maps = json.load(open(base + "/capture.json"))["processes"][0]["mappings"]


def mmap2(pid, address, size, offset, prot, name):
    body = struct.pack("<IIQQQIIQQII", pid, pid, address, size, offset, 0, 0, 0, 0, prot, 2) + name.encode() + b"\0"
    body += b"\0" * (-len(body) % 8)
    return struct.pack("<IHH", 10, 2, 8 + len(body)) + body


def auxtrace(offset, payload):
    return struct.pack("<IHHQQQIIII", 71, 0, 48, len(payload), offset, 0, 0, 4242, 0xffffffff, 0) + payload


data = mmap2(0xffffffff, 0xffffffff81000000, 4096, 0, 4, "[kernel.kallsyms]_text")
for m in maps:
    data += mmap2(4242, int(m["address"], 16), m["size"], m["offset"], 5, image)
data += mmap2(4242, 0x7fff00000000, 4096, 0, 3, "/nowhere/data") + mmap2(4242, 0x7ffff7fc1000, 4096, 0, 5, "[vdso]")
data += mmap2(4343, 0x10000, 4096, 0, 5, "/nowhere/of a child")
half = len(trace) // 16 * 8
for name, jump in ("", 0), (".lost", 64):
    body = data + auxtrace(0, trace[:half]) + auxtrace(half + jump, trace[half:])
    header = b"PERFILE2" + struct.pack("<QQQQQQQQQ", 104, 0, 104, 0, 104, len(body), 0, 0, 0) + bytes(24)
    open(out + name, "wb").write(header + body)
END
cat >bin/perf <<'END'
#!/bin/bash
# In place of perf: writes the file it was told to, runs the program.
[ "$2" != --dry-run ] || exec sh -c "exit ${FAKE_REFUSES:-0}"
[ -n "$FAKE" ] || exit 129
printf '%s\n' "$@" >"${FAKE_ARGS:-/dev/null}"
while [ "$1" != -- ]; do
	[ "$1" = -o ] && cp "$FAKE" "$2"
	shift
done
shift
"$@"
END
chmod +x bin/perf
PATH=$tmp/bin:$PATH

export FAKE=$tmp/bin/data
run record --backend perf -o capture -- sh -c 'echo $1; exit 4' sh here
same "exit code" "$code" 0
same "standard output" "$out" here
like "standard error" "$err" 'ptmill: 3[67] KB by perf, [0-9.]+ s, exit code 4: capture'
# This CPU, which recorded nothing, may be one that ptmill does not know: that is a warning.
run digest -q --strict capture
same "exit code" "$code" 0
same "standard output" "$out" "stream capture:tid1 $truth"
same "the trace" "$(cmp capture/streams/tid1.pt "$trace" && echo equal)" equal
same "mappings of the vdso" "$(grep -c '"path"' capture/capture.json)" $(($(grep -c '"path"' "$data/capture.json") + 1))
same "what is there" "$(ls capture | tr '\n' ' ')" "capture.json images streams truth "
like "the CPU" "$(grep -A 1 '"cpu": {' capture/capture.json | tail -n 1)" ' *"vendor": "[A-Za-z ]{12}",'
rm -rf capture

# PTWRITE is the CPU's.
for options in : --ptwrite:,ptw=1 --fup-on-ptw:,ptw=1,fup_on_ptw=1; do
	FAKE_ARGS=$tmp/args run record -q --backend perf ${options%%:*} -o capture -- true
	same "exit code" "$code" 0
	same "what perf records" "$(grep intel_pt args)" "intel_pt/tsc=0,mtc=0${options#*:}/u"
	rm -rf args capture
done

# A signal to us alone reaches perf.
cp bin/perf bin/perf.quick
sed -i 's/^\[ -n .*/&\ntrap "exit 143" TERM; echo ready >\&2; while [ ! -e done ]; do sleep 0.1; done/' bin/perf
shown="ptmill record --backend perf, and SIGTERM"
"$PTMILL" record -q --backend perf -o capture -- true 2>.err &
recorder=$!
until grep -q ready .err || ! kill -0 $recorder 2>/dev/null; do sleep 0.1; done
kill -TERM $recorder
(sleep 20; touch done) >/dev/null 2>&1 &
watch=$!
wait $recorder
same "exit code" $? 75
same "whether it was stopped" "$(ls done 2>/dev/null)" ""
kill $watch 2>/dev/null
mv bin/perf.quick bin/perf
nothing_but bin none

FAKE=$tmp/bin/data.lost
run record --backend perf -o capture -- true
same "exit code" "$code" 75
like "standard error" "$err" 'ptmill: Cannot use what perf recorded: it lost trace data behind the first [0-9]+ bytes[^'$'\n'']*'
FAKE=$trace
run record --backend perf -o capture -- true
same "exit code" "$code" 65
like "standard error" "$err" 'ptmill: [^'$'\n'']*'
FAKE=
run record --backend perf -o capture -- true
same "exit code" "$code" 75
like "standard error" "$err" 'ptmill: Cannot record by perf: it failed with exit code 129[^'$'\n'']*'
# The event is not there: one line, and nothing of what perf says about it.
FAKE_REFUSES=129 run record --backend perf -o capture -- true
if [ -e /sys/bus/event_source/devices/intel_pt ]; then
	expect 75 "" "ptmill: Cannot record by perf: it refuses the event; \`perf record -e intel_pt/tsc=0,mtc=0/u -- true' tells why"
else
	expect 66 "" 'ptmill: Cannot record by perf: the kernel has no intel_pt on this machine (--backend qemu and step need none): path="/sys/bus/event_source/devices/intel_pt"'
fi
run record --backend perf -o capture -- ./missing
expect 66 "" 'ptmill: Cannot execute "./missing": No such file or directory'
shown="ptmill record --backend perf, no perf"
PATH=$tmp/none "$PTMILL" record --backend perf -o capture -- /bin/true 2>.err
same "exit code" $? 66
like "standard error" "$(cat .err)" 'ptmill: Cannot record by perf: there is no perf in PATH[^'$'\n'']*'
nothing_but bin none
finish
