#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cost of the shim: every figure raw and with the shim, by turns in one go; medians.

    overhead.py --build DIR [--driver DIR] [--rounds N] [--json FILE] [--check] [--quick]

--check holds the figures against the limits: at most 10 ns added to cuCtxGetCurrent, 1 % to a 500-deep launch loop, 3 ms to process
start, no growth over 1e8 calls. They are meant for a real GPU; on the simulated driver the figures only show that the benchmark works.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# KiB that the resident size may differ by over 1e8 calls: the allocator's own noise, far below a byte a call.
FLAT_KIB = 1024


class Bench:
    def __init__(self, options):
        self.program = os.path.join(options.build, "tests", "bench", "overhead")
        self.shim = os.path.abspath(os.path.join(options.build, "shim", "libslipstream.so"))
        self.raw = {
            name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"
        }
        if options.driver:
            self.raw["LD_LIBRARY_PATH"] = os.path.abspath(options.driver)

    def run(self, shim, *arguments):
        """Figures printed, and the wall time of the process in ms."""
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(self.raw)
            if shim:
                environment.update(LD_PRELOAD=self.shim, SLIPSTREAM_OUT=folder)
            begin = time.monotonic()
            done = subprocess.run([self.program, *arguments], capture_output=True, text=True, env=environment, check=False)
            wall = (time.monotonic() - begin) * 1000
            if done.returncode:
                sys.exit(f"overhead: {' '.join(arguments)} {'with the shim' if shim else 'raw'}: status {done.returncode}: {done.stderr[-300:]}")
            if shim and arguments[0] != "nothing" and not os.listdir(folder):
                sys.exit("overhead: the shim left no record: it was not there, and the figures would mean nothing")
        figures = {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}
        figures["wall_ms"] = wall
        return figures

    def both(self, rounds, *arguments):
        """{figure: (raw samples, shim samples)}"""
        samples = {}
        for round_ in range(rounds):
            # Which of the two comes first changes, so that neither profits from the other's warm caches.
            for shim in (round_ % 2 == 0, round_ % 2 == 1):
                for name, value in self.run(shim, *arguments).items():
                    samples.setdefault(name, ([], []))[shim].append(value)
        return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true", help="status 1 if a limit is passed")
    parser.add_argument("--quick", action="store_true", help="fewer calls: tries the benchmark, not the shim")
    options = parser.parse_args()
    bench = Bench(options)
    results, over = {}, []

    def figure(name, samples, limit, relative):
        raw, shim = statistics.median(samples[0]), statistics.median(samples[1])
        added = (shim / raw - 1) * 100 if relative else shim - raw
        unit = "%" if relative else name.rsplit("_", 1)[1]
        results[name] = {"raw": raw, "shim": shim, "added": added, "unit": unit, "limit": limit, "raw_samples": samples[0],
                         "shim_samples": samples[1], "added_minima": min(samples[1]) - min(samples[0])}
        print(f"{name:26} raw {raw:10.2f}  shim {shim:10.2f}  added {added:+8.2f} {unit}  (limit {limit} {unit})", flush=True)
        if added > limit:
            over.append(name)

    figure("get_current_ns", bench.both(options.rounds, "get-current")["get_current_ns"], 10, False)
    launches = bench.both(options.rounds, "launches")
    figure("launch_null_ns", launches["launch_null_ns"], 1, True)
    figure("launch_non_blocking_ns", launches["launch_non_blocking_ns"], 1, True)
    figure("start_without_cuda_ms", bench.both(3 * options.rounds, "nothing")["wall_ms"], 3, False)
    start = bench.both(2 * options.rounds, "start")
    figure("start_ms", start["wall_ms"], 3, False)
    figure("init_ms", start["init_ms"], 3, False)
    calls, count = ("1000000", "10000") if options.quick else ("100000000", "1000000")
    flat = bench.run(True, "flat", calls, count)
    raw_flat = bench.run(False, "flat", calls, count)
    for name in ("resident_growth_kib", "recorded_growth_kib"):
        results[name] = {"raw": raw_flat[name], "shim": flat[name], "limit": FLAT_KIB}
        print(f"{name:26} raw {raw_flat[name]:10.0f}  shim {flat[name]:10.0f}  over {calls} calls and {count} launches", flush=True)
        if flat[name] - raw_flat[name] > FLAT_KIB:
            over.append(name)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    if over:
        print(f"over the limit: {', '.join(over)}", file=sys.stderr)
    return 1 if options.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
