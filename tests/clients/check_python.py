#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The PyPI packages cuda-bindings and cuda-core on the simulated driver: same output with slipstream, every call counted."""
import json
import os
import sys

from client import Build, expect, expect_calls

HERE = os.path.dirname(os.path.abspath(__file__))


def check_bindings(build, python):
    command = [python, os.path.join(HERE, "bindings.py")]
    bare = build.run_bare(command)
    result, report = build.run_observed(command)
    expect("output", result.stdout, bare.stdout)
    expect_calls(report, json.loads(result.stdout))
    waits = [site for sync in report["syncs"] for site in sync["sites"]
             if sync["rule"] == "pageable-h2d" and site["blocked_ns"] > 1000000]
    named = [frame for site in waits for frame in site["python"] if frame["function"] == "upload_behind_a_kernel"]
    expect("Python frames of the copy that waits", [os.path.basename(frame["file"]) for frame in named], ["bindings.py"])
    with open(command[1]) as file:
        line = file.read().splitlines()[named[0]["line"] - 1]
    expect("the line that waits", line.strip(), 'call("cuMemcpyHtoD", memory, source, BYTES)')
    print("%d calls counted" % report["calls"]["total"])


def check_core(build, python):
    command = [python, os.path.join(HERE, "core.py")]
    bare = build.run_bare(command)
    result, report = build.run_observed(command)
    expect("output", result.stdout, bare.stdout)
    # What core.py asks for: two streams, an event between them, two pinned blocks, one block of the device's pool, two copies.
    expect_calls(report, {"cuStreamCreateWithPriority": 2, "cuStreamDestroy_v2": 2, "cuEventRecord": 1, "cuStreamWaitEvent": 1,
                          "cuEventSynchronize": 1, "cuEventQuery": 1, "cuMemAllocHost_v2": 2, "cuMemFreeHost": 2,
                          "cuMemAllocFromPoolAsync": 1, "cuMemFreeAsync": 1, "cuMemcpyAsync": 2})
    print("%d calls counted" % report["calls"]["total"])


def main():
    which, build_root, source_root = sys.argv[1:4]
    build = Build(build_root, source_root)
    python = build.venv_python()
    {"bindings": check_bindings, "core": check_core}[which](build, python)
    return 0


sys.exit(main())
