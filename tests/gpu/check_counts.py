#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shim's counts equal the kernel's, for programs on the simulated driver; and a call that came past the shim is found.

    check_counts.py BUILD
"""
import copy
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare_counts import compare  # noqa: E402

SKIP = 77
build = os.path.abspath(sys.argv[1])
slipstream = os.path.join(build, "tools", "slipstream")
witness = os.path.join(build, "bpf", "slipstream-witness")
driver = os.path.join(build, "tests", "simcuda")


def main():
    probe = subprocess.run([witness, "--probe"], capture_output=True, text=True, check=False)
    if probe.returncode == SKIP:
        print(probe.stderr.strip())
        return SKIP
    table = os.path.join(build, "tests", "programs", "table", "table")
    programs = [
        [table, "mem-free-1m", "blocking"],
        [table, "htod-async-pageable-16m", "non-blocking"],
        # Counted and jumped to, a great many times.
        [os.path.join(build, "tests", "bench", "overhead"), "flat", "300000", "5000"],
        # Children that share a process group, a shell between, a child after the parent's cuInit.
        ["sh", "-c", f"{table} stack-limit null; {table} dtod-1m null; exit 3"],
        [os.path.join(build, "tests", "programs", "demo", "demo")],
    ]
    environment = dict(os.environ, LD_LIBRARY_PATH=driver)
    environment.pop("LD_PRELOAD", None)
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            seen, report = os.path.join(folder, "seen.json"), os.path.join(folder, "report.json")
            command = [witness, "--library", os.path.join(driver, "libcuda.so.1"), "--output", seen, "--", slipstream, "run", "--driver", driver,
                       "--json", report, "--output", os.devnull, "--", *program]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
            assert done.returncode == (3 if program[0] == "sh" else 0), (program, done)
            with open(seen, encoding="utf-8") as file:
                kernel = json.load(file)
            with open(report, encoding="utf-8") as file:
                shim = json.load(file)
        verdict, lines, figures = compare(kernel, shim)
        print(f"{verdict}: {figures['kernel']} calls of {figures['functions']} functions: {' '.join(program)[-60:]}")
        assert verdict == "equal", "\n".join(lines)
        assert figures["kernel"] > 10, figures

    # The comparison itself: one call more or less on either side, and lost calls, are told.
    name = next(iter(shim["calls"]["by_function"]))
    for change in (1, -1):
        other = copy.deepcopy(shim)
        other["calls"]["by_function"][name] += change
        assert compare(kernel, other)[0] == "different"
    other = copy.deepcopy(kernel)
    other["functions"]["cuEscaped"] = {"total": 1, "elsewhere": {"/somewhere": 1}}
    assert compare(other, shim)[:2] == ("different", ["cuEscaped: kernel 1, shim 0 (1 from /somewhere)"])
    assert compare(dict(kernel, lost=1), shim)[0] == "inconclusive"
    other = copy.deepcopy(kernel)
    other["functions"][name]["unknown"] = 1
    assert compare(other, shim)[0] == "inconclusive"
    empty = {"calls": {"by_function": {}}, "coverage": {"unwrapped_names": []}}
    assert compare(dict(kernel, functions={}), empty)[0] == "inconclusive"
    return 0


if __name__ == "__main__":
    sys.exit(main())
