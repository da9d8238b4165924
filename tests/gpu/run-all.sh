#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs the GPU suite from a finished build on a machine with a GPU: tests/gpu/run-all.sh [BUILD [OUT]]. See run_all.py.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
out=${2:-$build/gpu-results}
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing 2>/dev/null
exec python3 "$here/run_all.py" --build "$build" --out "$out" "${@:3}"
