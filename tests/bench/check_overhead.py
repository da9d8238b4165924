#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""overhead.py's judgement, on programs that print what they are told: each limit is held, and a benchmark without the shim is refused.

    check_overhead.py
"""
import json
import os
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Stands in for `overhead` and `paired`; FIGURES is a JSON file of what to print. Preloaded or not is told by the record folder.
PROGRAM = r'''#!{python}
import json, os, sys
with open({figures!r}, encoding="utf-8") as file:
    figures = json.load(file)
out = os.environ.get("SLIPSTREAM_OUT")
if out and figures["record"] and sys.argv[1] not in ("nothing", "clocks"):
    open(os.path.join(out, "1-1.slip"), "w").close()
if sys.argv[1] == "calls" and not out and not figures["finds_no_shim"]:
    sys.exit(77)
for line in figures[os.path.basename(sys.argv[0])][sys.argv[1]]["shim" if out else "raw"]:
    print(line)
'''


def cell(name, raw, added):
    return f"cell {name} raw {raw} shim {raw + added} difference {added} low {added} high {added} pairs 10 calls 500"


def right():
    start = ["open_ms 1.0", "driver_init_ms 100.0"]
    same = {"raw": ["get_current_ns 8.0"], "shim": ["get_current_ns 9.0"]}
    launches = ["launch_null_ns 3000.0", "launch_non_blocking_ns 3000.0"]
    flat = ["resident_growth_kib 0", "recorded_growth_kib 0"]
    return {
        "record": True, "finds_no_shim": False,
        "paired": {
            "calls": {"raw": [], "shim": ["seed 1", "processor 0", cell("get_current", 8.0, 9.0), cell("launch_null", 3000.0, 29.0),
                                          cell("launch_non_blocking", 3000.0, 29.0), cell("control_launch", 3000.0, 1.0)]},
            "clocks": {"raw": ["tick_ns 8", "clock_ns 20"], "shim": []}, "start": {"raw": start + ["set_up_ms 0.0"], "shim": start + ["set_up_ms 1.0"]},
        },
        "overhead": {
            "get-current": same, "launches": {"raw": launches, "shim": launches}, "nothing": {"raw": [], "shim": []},
            "start": {"raw": ["init_ms 100.0"], "shim": ["init_ms 100.0"]}, "flat": {"raw": flat, "shim": list(flat)},
        },
    }


def run(change=None):
    figures = right()
    if change:
        change(figures)
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "tests", "bench"))
        path = os.path.join(folder, "figures.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(figures, file)
        for name in ("overhead", "paired"):
            program = os.path.join(folder, "tests", "bench", name)
            with open(program, "w", encoding="utf-8") as file:
                file.write(PROGRAM.format(python=sys.executable, figures=path))
            os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        os.makedirs(os.path.join(folder, "shim"))
        command = [sys.executable, os.path.join(HERE, "overhead.py"), "--build", folder, "--quick", "--rounds", "1", "--check", "--seed", "5"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# The wall time of the stand-ins is real: a busy machine may add 3 ms to it.
REAL = {"start wall", "start own work"}


def over(change=None):
    """What is said to be over its limit."""
    status, stdout, stderr = run(change)
    names = set()
    if stderr:
        assert stderr.startswith("over the limit: ") and stderr.count("\n") == 1, (stdout, stderr)
        names = set(stderr.removeprefix("over the limit: ").strip().split(", "))
    assert status == (1 if names else 0), (status, stdout, stderr)
    assert "seed 5" in stdout and "start own work" in stdout, stdout
    return names


def refused(change):
    status, stdout, stderr = run(change)
    assert status == 1 and stderr.startswith("overhead: "), (status, stdout, stderr)
    return stderr


def main():
    assert over() <= REAL

    calls = ("paired", "calls", "shim")

    def replace(where, index, line):
        def change(figures):
            lines = figures
            for key in where:
                lines = lines[key]
            lines[index] = line
        return change

    assert over(replace(calls, 2, cell("get_current", 8.0, 10.5))) - REAL == {"paired get_current"}
    assert over(replace(calls, 3, cell("launch_null", 3000.0, 31.0))) - REAL == {"paired launch_null"}
    assert over(replace(calls, 4, cell("launch_non_blocking", 3000.0, 31.0))) - REAL == {"paired launch_non_blocking"}
    assert over(replace(("overhead", "flat", "shim"), 0, "resident_growth_kib 2000")) - REAL == {"resident_growth_kib"}
    assert over(replace(("overhead", "flat", "shim"), 1, "recorded_growth_kib 2000")) - REAL == {"recorded_growth_kib"}
    # Far above what a busy machine adds to the start of the stand-ins.
    assert "start own work" in over(replace(("paired", "start", "shim"), 2, "set_up_ms 500.0"))
    assert "no record" in refused(lambda figures: figures.update(record=False))
    assert "without the shim" in refused(lambda figures: figures.update(finds_no_shim=True))


if __name__ == "__main__":
    main()
