#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pipeline of correct futures under `slipstream run`: no implicit wait, no explicit one, and nothing inconclusive; in mode fix it computes the same.

A call that loses its processor on a busy machine is reported as a wait by no known rule. A wait by design would come with every batch, so one of a function's calls
or a tenth of them may look so.

    test_pipeline.py --build BUILD --driver FOLDER --pipeline PROGRAM
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

problems = []


def expect(condition, what):
    if not condition:
        problems.append(what)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--build", "--driver", "--pipeline"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    tool = os.path.join(options.build, "tools", "slipstream")
    with tempfile.TemporaryDirectory() as work:
        for mode in ("observe", "fix"):
            report = os.path.join(work, mode + ".json")
            ran = subprocess.run([tool, "run", "--mode", mode, "--driver", options.driver, "--output", os.path.join(work, "report.txt"), "--json", report,
                                  "--", options.pipeline, "60"], capture_output=True, text=True, timeout=100)
            expect(ran.returncode == 0 and ran.stdout == "60 batches\n", "%s: exit status %d, %s%s" % (mode, ran.returncode, ran.stdout, ran.stderr))
            with open(report, encoding="utf-8") as file:
                data = json.load(file)
            calls = data["calls"]["by_function"]
            expect(calls.get("cuEventQuery", 0) >= 60 and calls.get("cuLaunchKernel") == 60, "%s: the calls were not seen: %s" % (mode, calls))
            expect(not data["coverage"]["inconclusive"], "%s: inconclusive" % mode)
            expect(data["explicit_blocked_ns"] == 0, "%s: explicit waits" % mode)
            for row in data["syncs"]:
                if row["class"] != "implicit" or row["own_cost"]:
                    continue
                chance = row["rule"] == "observed-unknown" and row["count"] <= max(1, calls[row["function"]] // 10)
                expect(chance, "%s: %d waits of %s by %s" % (mode, row["count"], row["function"], row["rule"]))
    for problem in problems:
        print("test_pipeline:", problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
