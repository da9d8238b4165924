#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SLIPSTREAM_FUZZ_SECONDS reaches the fuzzers.

    test_seconds.py RUN TOOLS-CHECK
"""
import os
import subprocess
import sys


def run(seconds, command=None):
    values = {name: value for name, value in os.environ.items() if name != "SLIPSTREAM_FUZZ_SECONDS"}
    if seconds is not None:
        values["SLIPSTREAM_FUZZ_SECONDS"] = seconds
    done = subprocess.run(command or [sys.argv[1], "echo", "-seed_inputs=a"], env=values, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def expect(got, wanted):
    assert got == wanted, (got, wanted)


def main():
    rest = "-seed=1 -error_exitcode=1 -print_final_stats=1 -seed_inputs=a\n"
    expect(run(None), (0, "-runs=100000 " + rest, ""))
    expect(run("7"), (0, "-max_total_time=7 " + rest, ""))
    for bad in ("x", "0", "-1", "1.5"):
        expect(run(bad), (2, "", f"SLIPSTREAM_FUZZ_SECONDS needs a number from 1, not '{bad}'\n"))
        # Before it builds anything.
        expect(run(bad, [sys.argv[2]]), (2, "", f"tools/check: SLIPSTREAM_FUZZ_SECONDS needs a number from 1, not '{bad}'\n"))


main()
