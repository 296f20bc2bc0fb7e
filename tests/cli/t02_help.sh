#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Help and version go to standard output, exit code 0; a full disk is noticed there, too.
. "$SRC/tests/cli/lib.sh" || exit 1

run --help
same "exit code" "$code" 0
same "standard error" "$err" ""
help=$out
for command in decode digest stat dump info record; do
	[[ $help == *"  $command "* ]] || fail "does not list $command"
	run help $command
	same "exit code" "$code" 0
	same "standard error" "$err" ""
	like "the first line" "${out%%$'\n'*}" "Usage: ptmill $command \[?.*"
	of_help=$out
	run $command --help
	expect 0 "$of_help" ""
	[[ $out != *test-delays* ]] || fail "shows a hidden option"
	run $command --usage
	same "exit code" "$code" 0
	run $command --version
	like "standard output" "${out%%$'\n'*}" 'ptmill [0-9]+\.[0-9]+\.[0-9]+'
done
for option in -h '-?' help; do
	run $option
	expect 0 "$help" ""
done
version=$(sed -n 's/^project(ptmill VERSION \([0-9.]*\).*/\1/p' "$SRC/CMakeLists.txt")
run --version
like "standard output" "$out" "ptmill $version"$'\n'"libipt [0-9.]+, zydis .*, capstone .*, hwloc .*, zstd .*"
same "standard error" "$err" ""
same "exit code" "$code" 0
versions=$out
run -V
expect 0 "$versions" ""

shown="ptmill --help >/dev/full"
"$PTMILL" --help >/dev/full 2>.err
code=$? out="" err=$(cat .err)
expect 75 "" "ptmill: Cannot write to standard output: No space left on device"
finish
