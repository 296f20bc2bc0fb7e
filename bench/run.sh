#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh - all benchmarks in one command: decoders against native runs over the medium data sets, micro-benchmarks, cost by size.
#
# `bench/run.sh --help` tells the options. The program is $PTMILL, or that of preset release, which is built if need be.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${PTMILL:-}" ] && [[ " $* " != *" --help "* ]]; then
	(cd "$here/.." && cmake --preset release >/dev/null && cmake --build --preset release >/dev/null)
	export PTMILL=$here/../build/release/src/cli/ptmill
fi
exec python3 "$here/run.py" "$@"
