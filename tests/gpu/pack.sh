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
rm -rf "${folder:?}/shim" "$folder/tools" "$folder/bpf" "$folder/tracing" "$folder/tests" "$folder/lib"
# Intermediate objects, generated sources and unit tests stay behind; whatever else is an executable or a library goes.
(cd "$build" && find shim tools bpf tracing tests/bench tests/programs tests/property tests/verify tests/simcuda tests/tracing tests/analysis tests/check tests/lint tests/guard tests/future -type d \( -name '*.p' -o -path tests/analysis/pictures \) -prune -o ! -name 'test-*' ! -name 'test_*' \( -type f -o -type l \) \( -perm -u+x -o -name '*.so*' \) -print0 2>/dev/null) |
	while IFS= read -r -d '' file; do
		mkdir -p "$folder/$(dirname "$file")"
		cp -a "$build/$file" "$folder/$file"
	done
# What the watch looks for, read by witness.py.
cp "$build/bpf/watch_table_generated.c" "$folder/bpf/"
# Reports on traces (slipstream attach, slipstream report FOLDER) need babeltrace2, which few machines have: with LD_LIBRARY_PATH=FOLDER/lib and
# BABELTRACE_PLUGIN_PATH=FOLDER/lib/babeltrace2/plugins they do without. The C library is never one of them.
analyze=$build/tracing/analysis/slipstream-analyze
if [ -e "$analyze" ]; then
	library=$(ldd "$analyze" | awk '/libbabeltrace2/ { print $3 }')
	plugins=$(dirname "$(readlink -f "$library")")/babeltrace2/plugins
	mkdir -p "$folder/lib/babeltrace2/plugins"
	cp -L "$plugins/babeltrace-plugin-ctf.so" "$plugins/babeltrace-plugin-utils.so" "$folder/lib/babeltrace2/plugins/"
	ldd "$analyze" "$plugins/babeltrace-plugin-ctf.so" "$plugins/babeltrace-plugin-utils.so" |
		awk '$3 ~ "^/" && $1 !~ "^(libc|libm|libdl|librt|libpthread)\\.so" { print $3 }' | sort -u |
		while IFS= read -r file; do cp -L "$file" "$folder/lib/"; done
fi
# There is no git over there; the sections of RESULTS.md name what ran.
python3 - "$(cd "$(dirname "$0")" && pwd)" >"$folder/commit" <<'PYTHON'
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from machine import built_from

print(built_from("/nonexistent"))
PYTHON
du -sh "$folder"
