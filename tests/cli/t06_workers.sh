#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Workers: one a core that we were given; the plan of another machine says that it is one.
. "$SRC/tests/cli/lib.sh" || exit 1

# The first CPU of our own set: CPU 1 need not be there.
allowed=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)
cpu=${allowed%%[,-]*}
shown="taskset -c $cpu ptmill digest"
out=$(taskset -c "$cpu" "$PTMILL" digest "$trace" "${images[@]}" 2>.err)
like "standard output" "$out" "stream [^ ]+ $truth"
like "standard error" "$(cat .err)" "ptmill: 1 stream, .*, 1 worker"
shown="taskset -c $cpu ptmill info --topology"
out=$(taskset -c "$cpu" "$PTMILL" info --topology)
same "standard output" "$(grep -v '^nodes' <<<"$out" | sed 's/ core.*//')" "topology this machine
worker 0 cpu $cpu"
run digest "$trace" "${images[@]}" -j3
like "standard error" "$err" "ptmill: 1 stream, .*, 3 workers"

run info --topology --synthetic "node:2 core:8 pu:2"
same "exit code" "$code" 0
same "standard error" "$err" ""
same "the head" "$(head -n 2 <<<"$out")" "topology not this machine: nothing would be bound
nodes 2 cores 16 quota $(awk '$1 == "nodes" { print $6 }' <<<"$out") workers $(grep -c ^worker <<<"$out") bind auto"
run info --topology --synthetic "node:2 core:8 pu:2" --cpuset 0-3,16 -j 4
same "the head" "$(head -n 2 <<<"$out" | sed 's/quota [^ ]*/quota Q/')" "topology not this machine: nothing would be bound
nodes 2 cores 3 quota Q workers 4 bind auto"
# CPU 1 and 3 are second threads of their cores; the fourth worker wraps round to the first core.
same "the places" "$(grep ^worker <<<"$out" | cut -d' ' -f3- | sort | uniq -c | tr -s ' ')" " 2 cpu 0 core 0 node 0
 1 cpu 16 core 8 node 1
 1 cpu 2 core 1 node 0"
run info --topology --synthetic "wheels:4"
same "exit code" "$code" 64
same "standard output" "$out" ""
like "standard error" "$err" 'ptmill: [^'$'\n'']*wheels:4[^'$'\n'']*'
run info --topology --cpuset 3-1
same "exit code" "$code" 64
run info --topology --xml missing.xml
same "exit code" "$code" 66
HWLOC_SYNTHETIC="node:2 core:2 pu:1" run info --topology -j2
like "standard output" "$out" "topology not this machine.*"
finish
