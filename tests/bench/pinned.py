#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pinned memory allocated and freed, by the driver and in mode fix, in one go.

    pinned.py --build BUILD [--driver FOLDER] [--rewrites WORDS] [--rounds N] [--quick] [--torch PYTHON] [--check]

`--rewrites`: those that are on, pinned among them (pinned,frees,staging). Runs of the two alternate; of each cell the median run counts. `--driver` puts a folder first on LD_LIBRARY_PATH (the simulated driver).
Prints a table: ns a pair (median of bursts), pairs a second of all threads; of the mix also the bytes that the driver had for the program
when it ended over those it had asked for, and of each cell what mode fix held at most. `--torch`: beside it PyTorch's own cache of pinned
memory, by that Python, without the shim. `--check`: at most 100 ns hot, 10 M pairs a second of 8 threads, 15 % more live than asked for.
Fails if a run fails, or mode fix is not at least as fast.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SIZES = (4 << 10, 1 << 20, 64 << 20)
CELLS = [("hot", threads, size) for threads in (1, 8) for size in SIZES] + [("busy", 1, 4 << 10), ("busy", 1, 1 << 20), ("busy", 8, 4 << 10),
                                                                           ("mix", 1, 4 << 20), ("mix", 8, 1 << 20)]
QUICK_CELLS = [("hot", 1, 4 << 10), ("hot", 8, 1 << 20), ("busy", 1, 4 << 10), ("mix", 2, 64 << 10)]
HOT_LIMIT_NS, PAIRS_LIMIT, LIVE_LIMIT = 100, 10e6, 1.15
# Warm, its cache serves each of these; what an empty tensor costs anyway is taken off.
TORCH = """
import time, torch
torch.cuda.init()
torch.empty(1, pin_memory=True)
def pair(size, pinned, count=20000):
    for _ in range(count // 10):
        torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    begin = time.perf_counter_ns()
    for _ in range(count):
        torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    return (time.perf_counter_ns() - begin) / count
for size in {sizes}:
    pinned = sorted(pair(size, True) for _ in range(5))[2]
    pageable = sorted(pair(0, False) for _ in range(5))[2]
    print(size, pinned, pageable)
"""


def run(options, fix, how, threads, size):
    """Median, least, greatest ns, pairs a second, bytes live; and what the report says of mode fix."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.driver:
        environment["LD_LIBRARY_PATH"] = options.driver
        environment["SIMCUDA_COSTS"] = "measured"
    with tempfile.TemporaryDirectory() as folder:
        if fix:
            environment.update(LD_PRELOAD=os.path.join(options.build, "shim/libslipstream.so"), SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX=options.rewrites, SLIPSTREAM_OUT=folder)
        done = subprocess.run([os.path.join(options.build, "tests/bench/pinned"), how, str(threads), str(size), "50" if options.quick else "300"],
                              env=environment, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode == 77:
            print(done.stderr.strip())
            sys.exit(77)
        if done.returncode:
            sys.exit(f"pinned: {done.stderr.strip()}")
        figures, rewrite = [float(word) for word in done.stdout.split()], {}
        if fix:
            environment.pop("LD_PRELOAD")
            report = os.path.join(folder, "report.json")
            # Its status tells of waits, too.
            subprocess.run([os.path.join(options.build, "tools/slipstream"), "report", "--json=" + report, folder], env=environment,
                           capture_output=True, check=False)
            with open(report, encoding="utf-8") as stream:
                rewrite = next(one for one in json.load(stream)["rewrites"] if one["name"] == "pinned")
    return figures, rewrite


def torch_cache(options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    done = subprocess.run([options.torch, "-c", TORCH.format(sizes=list(SIZES))], env=environment, capture_output=True, text=True, timeout=300,
                          check=False)
    if done.returncode:
        print("PyTorch: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
        return
    print("PyTorch's cache, torch.empty(pin_memory=True), one thread, from Python: ns/pair, and of an empty pageable tensor")
    for line in done.stdout.splitlines():
        size, pinned, pageable = line.split()
        print(f"{int(size):21} {float(pinned):13.0f} {float(pageable):13.0f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath)
    parser.add_argument("--rewrites", default="pinned,frees,staging")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--torch", metavar="PYTHON", nargs="?", const=sys.executable)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    slower, missed = [], []
    print(f"rewrites {options.rewrites}")
    print("how  threads      bytes   raw ns/pair   fix ns/pair      raw pairs/s      fix pairs/s   live/asked   held at most, MiB")
    for how, threads, size in QUICK_CELLS if options.quick else CELLS:
        runs = {False: [], True: []}
        for _ in range(options.rounds):
            for fix in (False, True):
                runs[fix].append(run(options, fix, how, threads, size))
        raw, fixed = ([statistics.median(one[i] for one, _ in runs[fix]) for i in (0, 3)] for fix in (False, True))
        held = max(rewrite["peak_bytes"] for _, rewrite in runs[True])
        live = max(rewrite["live_bytes"] / one[4] if one[4] else 0 for one, rewrite in runs[True])
        print(f"{how:4} {threads:7} {size:10} {raw[0]:13.0f} {fixed[0]:13.1f} {raw[1]:16.0f} {fixed[1]:16.0f} "
              f"{f'{live:.3f}' if live else '-':>12} {held / 2**20:19.1f}", flush=True)
        cell = f"{how}, {threads} threads, {size} bytes"
        if fixed[0] > raw[0]:
            slower.append(cell)
        if how == "hot" and threads == 1 and fixed[0] > HOT_LIMIT_NS:
            missed.append(f"{cell}: {fixed[0]:.1f} ns")
        if how == "hot" and threads == 8 and fixed[1] < PAIRS_LIMIT:
            missed.append(f"{cell}: {fixed[1]:.0f} pairs a second")
        if live > LIVE_LIMIT:
            missed.append(f"{cell}: {live:.3f} of what was asked for is live")
    if options.torch:
        torch_cache(options)
    if slower:
        sys.exit("slower than the driver: " + "; ".join(slower))
    if options.check and missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
