#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Copies what the GPU suite needs of a build folder, laid out alike and small, for a machine where nothing can be built:
# tests/gpu/pack.sh BUILD FOLDER; there: tests/gpu/run-all.sh FOLDER.
set -eu
[ $# -eq 2 ] || { echo "usage: pack.sh BUILD FOLDER" >&2; exit 2; }
build=$1 folder=$2
[ -e "$build/tools/slipstream" ] || { echo "pack.sh: $build: no finished build" >&2; exit 1; }
mkdir -p "$folder"
for needed in shim/libslipstream.so bpf/slipstream-witness tests/bench/overhead tests/bench/paired tests/programs/table/table \
	tools/calibrate/slipstream-calibrate; do
	[ -e "$build/$needed" ] || { echo "pack.sh: $build/$needed is missing: the build is not finished" >&2; exit 1; }
done
# An older pack's files would be mistaken for this build's.
rm -rf "${folder:?}/shim" "$folder/tools" "$folder/bpf" "$folder/tracing" "$folder/tests"
# Intermediate objects and generated sources stay behind; whatever is an executable or a library goes.
(cd "$build" && find shim tools bpf tracing tests/bench tests/programs tests/property tests/verify tests/simcuda tests/tracing tests/analysis -type d -name '*.p' -prune -o \( -type f -o -type l \) \( -perm -u+x -o -name '*.so*' \) -print0 2>/dev/null) |
	while IFS= read -r -d '' file; do
		mkdir -p "$folder/$(dirname "$file")"
		cp -a "$build/$file" "$folder/$file"
	done
# There is no git over there; the sections of RESULTS.md name what ran.
python3 - "$(cd "$(dirname "$0")" && pwd)" >"$folder/commit" <<'PYTHON'
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from machine import built_from

print(built_from("/nonexistent"))
PYTHON
du -sh "$folder"
