#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pinned memory allocated and freed in a loop, by the driver and in mode fix, in one go.

    pinned.py --build BUILD [--driver FOLDER] [--rounds N] [--quick]

Runs of the two alternate; of each cell the median run counts. `--driver` puts a folder first on LD_LIBRARY_PATH (the simulated driver).
Prints a table: ns a pair (median of bursts), pairs a second of all threads. Fails if a run fails, or mode fix is not at least as fast.
"""
import argparse
import os
import statistics
import subprocess
import sys

CELLS = [(threads, size) for threads in (1, 8) for size in (4 << 10, 1 << 20, 64 << 20)]


def run(options, fix, threads, size):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.driver:
        environment["LD_LIBRARY_PATH"] = options.driver
        environment["SIMCUDA_COSTS"] = "measured"
    if fix:
        environment.update(LD_PRELOAD=os.path.join(options.build, "shim/libslipstream.so"), SLIPSTREAM_MODE="fix")
    done = subprocess.run([os.path.join(options.build, "tests/bench/pinned"), str(threads), str(size), "50" if options.quick else "300"],
                          env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 77:
        print(done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"pinned: {done.stderr.strip()}")
    return [float(word) for word in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    slower = []
    print("threads      bytes   raw ns/pair   fix ns/pair      raw pairs/s      fix pairs/s")
    for threads, size in CELLS:
        runs = {False: [], True: []}
        for _ in range(options.rounds):
            for fix in (False, True):
                runs[fix].append(run(options, fix, threads, size))
        raw, fixed = ([statistics.median(one[i] for one in runs[fix]) for i in (0, 3)] for fix in (False, True))
        print(f"{threads:7} {size:10} {raw[0]:13.0f} {fixed[0]:13.1f} {raw[1]:16.0f} {fixed[1]:16.0f}", flush=True)
        if fixed[0] > raw[0]:
            slower.append(f"{threads} threads, {size} bytes")
    if slower:
        sys.exit("slower than the driver: " + "; ".join(slower))


if __name__ == "__main__":
    main()
