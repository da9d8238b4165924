#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tracing on a real driver: PyTorch training steps raw and traced by turns, in pairs.

    trace.py --build DIR --out DIR [--pairs N] [--steps N] [--limit PERCENT]

LTTng's programs are found by PATH. Prints what ran, `ok`, `FAIL` or `skip` lines and a table row for RESULTS.md. The claims: the same output; a median step costs
at most --limit percent more (default 1); no event lost; the report names the Python lines that wait; its counts are those of the record files.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

from machine import what_ran

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "pytorch_train.py")


class Failed(Exception):
    pass


def run(command, out, name, **environment):
    """Standard output of a run that must succeed; what it says on standard error is kept."""
    clean = {key: text for key, text in os.environ.items() if not key.startswith("SLIPSTREAM_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**clean, **environment}, timeout=240)
    with open(os.path.join(out, name + ".stderr"), "w", encoding="utf-8") as stream:
        stream.write(done.stderr)
    if done.returncode:
        raise Failed(f"{name}: exit status {done.returncode}: {done.stderr[-600:]}")
    return done.stdout


def step_ns(path):
    """(median, lower quartile) of the steps, the first fifth left out: allocations, loading, clocks."""
    with open(path, encoding="utf-8") as stream:
        times = [int(line) for line in stream]
    lower, median, _ = statistics.quantiles(times[len(times) // 5:])
    return median, lower


def marked_lines():
    with open(PROGRAM, encoding="utf-8") as stream:
        return {number for number, line in enumerate(stream, 1) if "# marker:" in line}


def counts(report):
    """What the trace and the record files of one run must agree in."""
    return sorted((sync["rule"], sync["function"], sync["class"], sync["count"], sync["blocked_ns"], sync["bytes"]) for sync in report["syncs"])


def check_report(build, out, folder):
    tool = os.path.join(build, "tools", "slipstream")
    reports = {}
    for kind, path in (("trace", folder), ("records", os.path.join(folder, "records"))):
        name = os.path.join(out, f"training-{kind}.json")
        run([tool, "report", "--json", name, "--output", os.path.join(out, f"training-{kind}.txt"), path], out, f"report-{kind}")
        with open(name, encoding="utf-8") as stream:
            reports[kind] = json.load(stream)
    if counts(reports["trace"]) != counts(reports["records"]):
        raise Failed("the trace's counts are not those of the record files")
    if reports["trace"]["calls"] != reports["records"]["calls"]:
        raise Failed("the trace's calls are not those of the record files")
    seen = {frame["line"] for sync in reports["trace"]["syncs"] for site in sync["sites"] for frame in site.get("python", [])
            if frame.get("file", "").endswith("pytorch_train.py")}
    missing = marked_lines() - seen
    if missing:
        raise Failed(f"lines {sorted(missing)} of pytorch_train.py are not in the report")
    return sum(sync["count"] for sync in reports["trace"]["syncs"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("--level", default="waits")
    options = parser.parse_args()
    build, out = os.path.abspath(options.build), os.path.abspath(options.out)
    os.makedirs(out, exist_ok=True)
    print(what_ran(build), flush=True)
    if subprocess.run([sys.executable, "-c", "import torch; torch.cuda.init()"], capture_output=True, check=False).returncode:
        print("skip  training: no PyTorch with a GPU here")
        return 77
    ratios, quiet, raws, traced, outputs, lost = [], [], [], [], set(), []
    folder = ""
    try:
        for pair in range(options.pairs):
            steps = {}
            for kind in ("raw", "traced") if pair % 2 else ("traced", "raw"):
                times = os.path.join(out, f"steps-{pair}-{kind}")
                command = [sys.executable, PROGRAM, str(options.steps), times]
                if kind == "traced":
                    folder = os.path.join(out, f"trace-{pair}-{time.monotonic_ns()}")
                    command = [os.path.join(build, "tools", "slipstream"), "trace", "--folder", folder, "--level", options.level, "--output",
                               os.path.join(out, f"report-{pair}.txt"), "--", *command]
                outputs.add(run(command, out, f"{kind}-{pair}", CUBLAS_WORKSPACE_CONFIG=":4096:8"))
                if kind == "traced":
                    with open(os.path.join(out, f"{kind}-{pair}.stderr"), encoding="utf-8") as stream:
                        lost += re.findall(r".*\blost\b.*", stream.read())
                steps[kind] = step_ns(times)
            raws.append(steps["raw"][0])
            traced.append(steps["traced"][0])
            ratios.append(steps["traced"][0] / steps["raw"][0])
            quiet.append(steps["traced"][1] / steps["raw"][1])
        if len(outputs) != 1:
            raise Failed(f"the outputs differ: {outputs}")
        if lost:
            raise Failed(lost[0])
        waits = check_report(build, out, folder)
    except (Failed, subprocess.TimeoutExpired) as error:
        print(f"FAIL  training: {error}")
        return 1
    overhead = (statistics.median(ratios) - 1) * 100
    verdict = "ok   " if overhead <= options.limit else "FAIL "
    print(f"{verdict} training, level {options.level}: {options.pairs} pairs of {options.steps} steps, median step raw {statistics.median(raws) / 1e6:.4f} ms, "
          f"traced {statistics.median(traced) / 1e6:.4f} ms, overhead {overhead:+.2f} % (pairs {', '.join(f'{(ratio - 1) * 100:+.2f}' for ratio in ratios)}; of the lower quartiles "
          f"{(statistics.median(quiet) - 1) * 100:+.2f} %), "
          f"{waits} waits, none lost, counts equal, Python lines named")
    return 0 if overhead <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
