#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies of ordinary memory, by the driver and in mode fix, in one go.

    copies.py --build BUILD [--driver FOLDER] [--rounds N] [--milliseconds N] [--largest BYTES] [--relax WORDS] [--quick]

Runs of the two alternate; of each cell the least of the runs' medians counts, of the driver and of mode fix alike. `--driver` puts a folder
first on LD_LIBRARY_PATH (the simulated driver). Prints a table: microseconds until the call returned and until its stream was done, and GB/s of
the latter. Fails if a run fails, or a cell is slower in mode fix than the driver's by more than 5 % and 0.3 us; not so with `--quick`.
"""
import argparse
import os
import subprocess
import sys


def run(options, fix):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.driver:
        environment["LD_LIBRARY_PATH"] = options.driver
        environment["SIMCUDA_COSTS"] = "measured"
    if fix:
        environment.update(LD_PRELOAD=os.path.join(options.build, "shim/libslipstream.so"), SLIPSTREAM_MODE="fix",
                           SLIPSTREAM_FIX="staging", SLIPSTREAM_RELAX=options.relax)
    done = subprocess.run([os.path.join(options.build, "tests/bench/copies"), str(options.milliseconds), str(options.largest)],
                          env=environment, capture_output=True, text=True, timeout=550, check=False)
    if done.returncode == 77:
        print(done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"copies: {'fix' if fix else 'raw'}: {done.stderr.strip()}")
    cells = {}
    for line in done.stdout.splitlines():
        direction, form, state, size, _, call, everything = line.split()
        cells[direction, form, state, int(size)] = float(call), float(everything)
    return cells


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--milliseconds", type=int, default=60, help="a cell")
    parser.add_argument("--largest", type=int, default=1 << 30)
    parser.add_argument("--relax", default="free")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.milliseconds, options.largest = 1, 1, 1 << 22
    best = {False: {}, True: {}}
    for _ in range(options.rounds):
        for fix in (False, True):
            for cell, times in run(options, fix).items():
                before = best[fix].get(cell, times)
                best[fix][cell] = min(before[0], times[0]), min(before[1], times[1])
    slower = []
    print("what                      bytes  raw call us  fix call us       raw us       fix us  raw GB/s  fix GB/s")
    for cell in sorted(best[False]):
        raw, fixed = best[False][cell], best[True][cell]
        name, size = " ".join(cell[:3]), cell[3]
        print(f"{name:16} {size:14} {raw[0]:12.2f} {fixed[0]:12.2f} {raw[1]:12.2f} {fixed[1]:12.2f} {size / raw[1] / 1000:9.2f} "
              f"{size / fixed[1] / 1000:9.2f}", flush=True)
        for what in (0, 1):
            if fixed[what] > raw[what] * 1.05 and fixed[what] > raw[what] + 0.3:
                slower.append(f"{name} {size}: {('call', 'whole')[what]} {fixed[what]:.2f} us, raw {raw[what]:.2f}")
    if slower:
        print(f"slower than the driver by more than 5 % and 0.3 us, {len(slower)} cells:\n  " + "\n  ".join(slower))
        if not options.quick:
            sys.exit(1)


if __name__ == "__main__":
    main()
