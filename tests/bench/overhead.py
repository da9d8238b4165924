#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cost of the shim, raw and with the shim in one go.

    overhead.py --build DIR [--driver DIR] [--rounds N] [--pairs N] [--processes N] [--seed N] [--json FILE] [--check] [--quick]

Three kinds of figures:

paired      `paired calls`, one process under the shim that calls each function by the wrapper and by the driver's own address, bursts by
            turns in random order; the median of the differences, with its 95 % interval, over several processes.
            The cell "control_launch" has the driver's address on both sides: what the method itself makes up.
process     `overhead`, a process without and a process with the shim by turns; the median of each. Raw launches alone differ by 30 %
            from process to process (3081 to 4271 ns on one H200), so a difference of 1 % cannot be seen this way.
start       wall time of a process that calls cuInit, without and with the shim by turns; the median of the differences by position with its
            interval. Records go where `slipstream run` puts them, memory where there is any. cuInit itself differs by 10 ms and more from
            process to process, so the shim's own work is also timed apart: `paired start` calls the driver's cuInit first and the wrapper after it.

--check holds the figures against the limits: at most 10 ns added to cuCtxGetCurrent and 1 % to a 500-deep launch loop (NULL and non-blocking
stream), both by the paired figure for the reason above; at most 3 ms to process start: the own work must be below, and so must the
lower end of the wall difference's interval (above it the difference is not noise); no growth over 1e8 calls. They are meant for a real GPU;
on the simulated driver the figures only show that the benchmark works.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from place import record_place  # noqa: E402

# KiB that the resident size may differ by over 1e8 calls: the allocator's own noise, far below a byte a call.
FLAT_KIB = 1024
NO_SHIM = 77
# What two bursts of the same function may differ by before the figures are doubtful.
CONTROL_PERCENT = 0.3
# Limits of the paired figures: (how much, "ns" or "%").
LIMITS = {"get_current": (10, "ns"), "launch_null": (1, "%"), "launch_non_blocking": (1, "%")}


def interval(samples):
    """The 95 % interval of the median, by ranks: no matter how the samples are distributed."""
    ordered, half = sorted(samples), len(samples) // 2
    spread = min(half, math.ceil(0.98 * math.sqrt(len(samples))))
    return ordered[half - spread], ordered[min(half + spread, len(samples) - 1)]


class Bench:
    def __init__(self, options):
        self.folder = os.path.join(options.build, "tests", "bench")
        self.shim = os.path.abspath(os.path.join(options.build, "shim", "libslipstream.so"))
        self.raw = {
            name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"
        }
        if options.driver:
            self.raw["LD_LIBRARY_PATH"] = os.path.abspath(options.driver)
        self.place = record_place()

    def start(self, program, shim, *arguments, may_skip=False):
        """(standard output, wall time in ms); None for the output if the program found no shim."""
        with tempfile.TemporaryDirectory(dir=self.place) as folder:
            environment = dict(self.raw)
            if shim:
                environment.update(LD_PRELOAD=self.shim, SLIPSTREAM_OUT=folder)
            command = [os.path.join(self.folder, program), *arguments]
            begin = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            wall = (time.monotonic() - begin) * 1000
            if done.returncode == NO_SHIM and may_skip:
                return None, wall
            if done.returncode:
                sys.exit(f"overhead: {program} {' '.join(arguments)} {'with the shim' if shim else 'raw'}: status {done.returncode}: {done.stderr[-300:]}")
            if shim and arguments[0] not in ("nothing", "clocks") and not os.listdir(folder):
                sys.exit("overhead: the shim left no record: it was not there, and the figures would mean nothing")
        return done.stdout, wall

    def figures(self, program, shim, *arguments):
        stdout, wall = self.start(program, shim, *arguments)
        figures = {name: float(value) for name, value in (line.split() for line in stdout.splitlines())}
        figures["wall_ms"] = wall
        return figures

    def both(self, rounds, program, *arguments):
        """{figure: (raw samples, shim samples)}"""
        samples = {}
        for round_ in range(rounds):
            # Which of the two comes first changes, so that neither profits from the other's warm caches.
            for shim in (round_ % 2 == 0, round_ % 2 == 1):
                for name, value in self.figures(program, shim, *arguments).items():
                    samples.setdefault(name, ([], []))[shim].append(value)
        return samples

    def paired(self, processes, pairs, seed):
        """{cell: [figures of each process]}, and the other lines of the last process"""
        if self.start("paired", False, "calls", "1", str(seed), may_skip=True)[0] is not None:
            sys.exit("overhead: `paired` without the shim found two different addresses of one function")
        cells, facts = {}, {}
        for process in range(processes):
            for line in self.start("paired", True, "calls", str(pairs), str(seed + process))[0].splitlines():
                words = line.split()
                if words[0] == "cell":
                    cells.setdefault(words[1], []).append({words[i]: float(words[i + 1]) for i in range(2, len(words), 2)})
                else:
                    facts[words[0]] = " ".join(words[1:])
        return cells, facts


def report_paired(bench, options, results, over):
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}: {options.processes} processes, up to {options.pairs} pairs of bursts each", flush=True)
    cells, facts = bench.paired(options.processes, options.pairs, seed)
    facts["seed"] = seed
    facts.update(bench.figures("paired", False, "clocks"))
    results["paired_facts"] = facts
    for name, runs in cells.items():
        raw = statistics.median(run["raw"] for run in runs)
        added = statistics.median(run["difference"] for run in runs)
        percent = statistics.median(run["difference"] / run["raw"] * 100 for run in runs)
        low, high = min(run["low"] for run in runs), max(run["high"] for run in runs)
        limit, unit = LIMITS.get(name, (None, "ns"))
        results.setdefault("paired", {})[name] = {
            "raw_ns": raw, "shim_ns": statistics.median(run["shim"] for run in runs), "added_ns": added, "added_percent": percent, "low_ns": low,
            "high_ns": high, "limit": limit, "unit": unit, "runs": runs,
        }
        text = f"  (limit {limit} {unit})" if limit is not None else ""
        print(f"paired {name:24} raw {raw:9.2f} ns  added {added:+8.2f} ns [{low:+.2f} {high:+.2f}]  {percent:+6.2f} %{text}", flush=True)
        if limit is not None and (added if unit == "ns" else percent) > limit:
            over.append(f"paired {name}")


def report_process(bench, options, results):
    samples = bench.both(options.rounds, "overhead", "get-current")
    launches = bench.both(options.rounds, "overhead", "launches")
    for name, (raw, shim) in (
        ("get_current_ns", samples["get_current_ns"]), ("launch_null_ns", launches["launch_null_ns"]),
        ("launch_non_blocking_ns", launches["launch_non_blocking_ns"]),
    ):
        results.setdefault("process", {})[name] = {"raw": statistics.median(raw), "shim": statistics.median(shim), "raw_samples": raw,
                                                   "shim_samples": shim}
        print(f"process {name:23} raw {statistics.median(raw):9.2f} ({min(raw):.2f} to {max(raw):.2f})  shim {statistics.median(shim):9.2f} "
              f"({min(shim):.2f} to {max(shim):.2f})", flush=True)


def report_start(bench, options, results, over):
    limit = 3
    rounds = 2 if options.quick else 30
    plain = bench.both(rounds, "overhead", "nothing")["wall_ms"]
    wall = bench.both(rounds, "overhead", "start")["wall_ms"]
    own = bench.both(2 if options.quick else 15, "paired", "start")
    # Opening the driver (the hook of dlsym, the names) and the wrapper's cuInit; the process's own beginning and end.
    opened = [sum(pair) for pair in zip(own["open_ms"][0], own["set_up_ms"][0])], [sum(pair) for pair in zip(own["open_ms"][1], own["set_up_ms"][1])]
    # What is left of the process: exec, dynamic linking, constructors, the end. Noisy where a driver is taken down; information only.
    rest = tuple([
        total - open_ - init - set_up for total, open_, init, set_up in zip(*(own[name][shim] for name in ("wall_ms", "open_ms", "driver_init_ms", "set_up_ms")))
    ] for shim in (False, True))
    for name, (raw, shim) in (("without_cuda", plain), ("wall", wall), ("open_and_set_up", opened), ("set_up", own["set_up_ms"]), ("rest", rest)):
        differences = [b - a for a, b in zip(raw, shim)]
        low, high = interval(differences)
        results.setdefault("start", {})[name] = {
            "raw_ms": statistics.median(raw), "shim_ms": statistics.median(shim), "added_ms": statistics.median(differences), "low_ms": low,
            "high_ms": high, "added_minima_ms": min(shim) - min(raw), "raw_samples": raw, "shim_samples": shim,
        }
        print(f"start {name:25} raw {statistics.median(raw):9.3f} ms  added {statistics.median(differences):+8.3f} ms [{low:+.3f} {high:+.3f}]  "
              f"of minima {min(shim) - min(raw):+.3f} ms", flush=True)
    start = results["start"]
    start["own_ms"] = start["without_cuda"]["added_ms"] + start["open_and_set_up"]["added_ms"]
    start["limit_ms"] = limit
    print(f"start own work {start['own_ms']:+.3f} ms  (limit {limit} ms)", flush=True)
    if start["own_ms"] > limit:
        over.append("start own work")
    if start["wall"]["low_ms"] > limit:
        over.append("start wall")


def report_flat(bench, options, results, over):
    calls, count = ("1000000", "10000") if options.quick else ("100000000", "1000000")
    shim = bench.figures("overhead", True, "flat", calls, count)
    raw = bench.figures("overhead", False, "flat", calls, count)
    for name in ("resident_growth_kib", "recorded_growth_kib"):
        results.setdefault("flat", {"calls": int(calls), "launches": int(count)})[name] = {"raw": raw[name], "shim": shim[name], "limit": FLAT_KIB}
        print(f"flat {name:26} raw {raw[name]:9.0f}  shim {shim[name]:9.0f}  over {calls} calls and {count} launches", flush=True)
        if shim[name] - raw[name] > FLAT_KIB:
            over.append(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--rounds", type=int, default=3, help="of the figures between processes")
    parser.add_argument("--pairs", type=int, default=1000, help="of bursts a process, at most 4000")
    parser.add_argument("--processes", type=int, default=3, help="of the paired figures")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true", help="status 1 if a limit is passed")
    parser.add_argument("--quick", action="store_true", help="fewer calls: tries the benchmark, not the shim")
    options = parser.parse_args()
    if options.quick:
        options.pairs, options.processes = min(options.pairs, 10), min(options.processes, 2)
    if min(options.rounds, options.pairs, options.processes) < 1:
        parser.error("--rounds, --pairs and --processes: at least 1")
    bench = Bench(options)
    results, over = {}, []
    report_paired(bench, options, results, over)
    report_process(bench, options, results)
    report_start(bench, options, results, over)
    report_flat(bench, options, results, over)
    results["over"] = over
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    control = results["paired"]["control_launch"]
    if abs(control["added_percent"]) > CONTROL_PERCENT and not options.quick:
        print(f"overhead: the control differs by {control['added_percent']:+.2f} %: too noisy a machine for a limit of 1 %", file=sys.stderr)
    if over:
        print(f"over the limit: {', '.join(over)}", file=sys.stderr)
    return 1 if options.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
