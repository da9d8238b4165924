#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rewritten default stream where only a real driver can tell: the same output raw and in mode fix, and no hang that is not there raw.

    streams.py --build DIR --out DIR [--minutes N] [--quick] [--only TEXT ...] [--workers N] [--driver DIR] [--shim FILE]

First gate programs (tests/programs/streams/gates.c): streams that stand still and are let go, on devices whose streams share few hardware queues, at
the numbers of streams where our own could tip the balance. Then the deadlock suite and the directed cases of tests/programs/streams. Each runs raw and with
SLIPSTREAM_FIX=streams, eager and as it is by default, in 20 seconds. What fails or hangs raw says nothing of the shim: skipped. Prints one line a
program and 'N passed, N failed, N skipped' at last; --out gets streams.json and differing outputs.
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STREAMS = os.path.join(os.path.dirname(HERE), "programs", "streams")
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "bench")]
import safety  # noqa: E402
from place import record_place  # noqa: E402

spec = importlib.util.spec_from_file_location("streams_run", os.path.join(STREAMS, "run.py"))
streams_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(streams_run)

PATTERNS = ("values-in-order", "values-reversed", "loose", "kernels-in-order", "kernels-reversed", "legacy-gate", "chain")
# Around the numbers of connections that a driver has by default, and at most.
COUNTS = (1, 7, 8, 9, 31, 32, 33, 64)
QUICK_COUNTS = (7, 33)
# Of the whole device, or of every core.
ALONE = ("threads-mix-everything", "threads-exit", "persistent-kernel-on-blocking")
SETTINGS = {"eager": {"SLIPSTREAM_LEGACY_AFTER": "0"}, "by default": {}}
FIGURES = ("redirected", "native", "barriers", "elided", "turns")


class Suite(safety.Suite):
    def __init__(self, options):
        super().__init__(options)
        self.programs = os.path.join(self.build, "tests", "programs", "streams")


def commands(quick):
    """(name, command, must something be redirected?)"""
    for count in QUICK_COUNTS if quick else COUNTS:
        for pattern in PATTERNS:
            yield f"{pattern}, {count} streams", ["streams-gates", pattern, count], True
    deadlocks = streams_run.DEADLOCKS
    for name in deadlocks[::6] if quick else deadlocks:
        yield name, ["streams-deadlocks", name], False
    for name in list(streams_run.CASES)[::6] if quick else streams_run.CASES:
        yield name, ["streams-cases", name], False


def counted(suite, folder):
    report = os.path.join(folder, "report.json")
    subprocess.run([suite.slipstream, "report", "--json", report, "--output", os.devnull, folder], capture_output=True, timeout=60, check=False)
    try:
        with open(report, encoding="utf-8") as file:
            rewrites = json.load(file)["rewrites"]
    except (OSError, ValueError):
        return {}
    return next(({key: one[key] for key in FIGURES} for one in rewrites if one["name"] == streams_run.SWITCH), {})


def in_fix(suite, command, variables):
    folder = tempfile.mkdtemp(prefix="slipstream-streams-", dir=record_place())
    try:
        fixed = safety.Run(suite, command, {"LD_PRELOAD": suite.shim, "SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": streams_run.SWITCH,
                                            "SLIPSTREAM_OUT": folder, **variables})
        return fixed, counted(suite, folder)
    finally:
        shutil.rmtree(folder)


def one(suite, name, command, needs):
    """[(what, name, text)]"""
    if suite.left() < safety.LIMIT_S:
        return [("skip", name, "no time left")]
    raw = safety.Run(suite, command, {})
    if raw.status != 0:
        return [("skip", name, f"raw: {'hangs' if 'hangs' in raw.output else raw.fault()}")]
    results = []
    for setting, variables in SETTINGS.items():
        fixed, counts = in_fix(suite, command, variables)
        what, text = "ok", ", ".join(f"{key} {value}" for key, value in counts.items() if value)
        if fixed.status != 0:
            what, text = "FAIL", "hangs, and not raw" if "hangs" in fixed.output else fixed.fault()
        elif fixed.lines() != raw.lines():
            what, text = "FAIL", f"another output: {safety.difference(raw.lines(), fixed.lines())}"
        elif needs and setting == "eager" and not counts.get("redirected"):
            what, text = "FAIL", "nothing was redirected"
        if what == "FAIL":
            safety.keep(suite, f"{name} {setting}", raw, fixed)
        suite.rows.append({"program": name, "setting": setting, "what": what, "text": text, "counts": counts, "raw_s": raw.seconds, "fix_s": fixed.seconds})
        results.append((what, f"{name}, {setting}", text))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--only", action="append", help="programs with this in their name")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--driver", help="a simulated one's folder")
    parser.add_argument("--shim")
    options = parser.parse_args()
    options.seed = 1
    suite = Suite(options)
    wanted = [command for command in commands(options.quick) if not options.only or any(text in command[0] for text in options.only)]
    # What shares the device with others is slower, but as right; what measures its threads against the clock is not.
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for results in pool.map(lambda command: one(suite, *command), [command for command in wanted if command[0] not in ALONE]):
            for result in results:
                suite.say(*result)
    for command in wanted:
        if command[0] in ALONE:
            for result in one(suite, *command):
                suite.say(*result)
    with open(os.path.join(suite.out, "streams.json"), "w", encoding="utf-8") as file:
        json.dump(suite.rows, file, indent=1)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    sys.exit(1 if suite.failed or not suite.passed else 0)


if __name__ == "__main__":
    main()
