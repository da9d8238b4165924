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
# Intermediate objects and generated sources stay behind; whatever is an executable or a library goes.
(cd "$build" && find shim tools bpf tracing tests -type d -name '*.p' -prune -o \( -type f -o -type l \) \( -perm -u+x -o -name '*.so*' \) -print0 2>/dev/null) |
	while IFS= read -r -d '' file; do
		mkdir -p "$folder/$(dirname "$file")"
		cp -a "$build/$file" "$folder/$file"
	done
du -sh "$folder"
