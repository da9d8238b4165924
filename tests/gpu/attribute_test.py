#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""With --attribute a candidate becomes certain; without, it stays a candidate. A few cells of the table test, either way.

    attribute_test.py --slipstream PATH --program PATH [--driver DIR]

All of these cells wait. With --attribute a cell must name the kernel that kept it waiting, and nothing else, as certain; what is idle is no candidate any more.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "programs", "table"))
import table_test  # noqa: E402

CELLS = (
    ("mem-free-1m", "null"), ("mem-free-1m", "blocking"), ("mem-free-1m", "non-blocking"), ("host-free-1m", "non-blocking"),
    ("htod-pageable-4k", "null"), ("htod-pageable-4k", "blocking"), ("dtoh-async-pageable-4k", "non-blocking"),
)
TRIES = 4


def run_once(options, cell, stream, attribute):
    """(faults, whether the driver did as the table says)"""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "report.json")
        command = [options.slipstream, "run", f"--attribute={'on' if attribute else 'off'}", "--json", output, "--output", os.devnull]
        if options.driver:
            command += ["--driver", options.driver]
        command += ["--", options.program, cell, stream]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        if done.returncode:
            return [f"status {done.returncode}: {done.stderr.strip()[-300:]}"], True
        with open(output, encoding="utf-8") as file:
            report = json.load(file)
    busy, idle = (int(one) for one in done.stdout.split())
    function, rule, _ = table_test.CELLS[cell]
    found = [
        sync for sync in report["syncs"] if (sync["function"], sync["rule"]) == (function, rule) and
        [region["count"] for region in sync["regions"] if region["name"] == "cell"] == [1]
    ]
    faults = [] if len(found) == 1 else [f"{len(found)} findings of {rule} in {function} instead of 1"]
    waited_for = [one for sync in found for one in sync["waited_for"]]
    candidates = {(one["operation"], one["name"], one["stream_kind"]) for one in waited_for}
    if ("kernel", "spin", table_test.KIND[stream]) not in candidates:
        faults.append(f"waited for {sorted(map(str, candidates)) or 'nothing'}")
    certain = {(one["operation"], one["name"], one["stream_kind"]) for one in waited_for if one["certain"]}
    expected = {("kernel", "spin", table_test.KIND[stream])} if attribute else set()
    if certain != expected:
        faults.append(f"certain: {sorted(map(str, certain)) or 'nothing'}, expected: {sorted(map(str, expected)) or 'nothing'}")
    return faults, busy > idle + table_test.KERNEL_NS // 2000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipstream", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    options = parser.parse_args()
    failed = 0
    for cell, stream in CELLS:
        for attribute in (True, False):
            for _ in range(TRIES):
                faults, as_told = run_once(options, cell, stream, attribute)
                if as_told:
                    break
            failed += bool(faults)
            print(f"{'FAIL' if faults else 'ok':4} {cell:24} {stream:13} {'attribute' if attribute else 'candidates'}" +
                  "".join(f"\n     {line}" for line in faults), flush=True)
    print(f"{2 * len(CELLS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
