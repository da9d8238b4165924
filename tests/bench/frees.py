#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Frees of device memory, pinned memory and arrays while a kernel runs elsewhere, by the driver and in mode fix, in one go.

    frees.py --build BUILD [--driver FOLDER] [--count N] [--raw-count N] [--kernel-us N] [--rounds N] [--kinds KIND...] [--check]

Of each side the median of the rounds counts, of the worst calls the worst. `--driver` puts a folder first on LD_LIBRARY_PATH (the simulated
driver). `--raw-count`: fewer turns of the loop without the shim, where each free waits for a kernel; its total is then given for COUNT
turns. Arrays are only held back, not used again; what raw says of them is whether their destroy waits.

`--check` fails if of mode fix the median single free takes more than 1 us or the worst of them has waited (a tenth of the kernel); if the loop takes longer than raw; if its
worst call, an allocation or a free, takes a tenth longer than the worst of raw: then a stall has only moved; or if more was held than the limit.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

FREE_LIMIT_NS = 1000
WAITED = 0.1  # of the kernel
WORST_LIMIT = 1.1  # of raw's worst call
SINGLE, SINGLE_WORST, TOTAL, CALLS, ALLOC, FREE = range(6)  # of a row


def run(options, kind, fix, count):
    """Figures of one process, and what mode fix held at most."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.driver:
        environment.update(LD_LIBRARY_PATH=options.driver, SIMCUDA_COSTS="measured")
    with tempfile.TemporaryDirectory() as folder:
        if fix:
            environment.update(LD_PRELOAD=os.path.join(options.build, "shim/libslipstream.so"), SLIPSTREAM_MODE="fix",
                               SLIPSTREAM_FIX="pinned,frees", SLIPSTREAM_OUT=folder)
        done = subprocess.run([os.path.join(options.build, "tests/bench/frees"), kind, str(count), str(options.kernel_us)], env=environment,
                              capture_output=True, text=True, timeout=580, check=False)
        if done.returncode == 77:
            print(done.stderr.strip())
            sys.exit(77)
        if done.returncode:
            sys.exit(f"frees: {done.stderr.strip()}")
        figures = {line.split()[0]: [int(word) for word in line.split()[1:]] for line in done.stdout.splitlines()}
        if fix:
            environment.pop("LD_PRELOAD")
            report = os.path.join(folder, "report.json")
            # Its status tells of waits, too.
            subprocess.run([os.path.join(options.build, "tools/slipstream"), "report", "--json=" + report, folder], env=environment,
                           capture_output=True, check=False)
            name = "pinned" if kind == "pinned" else "frees"
            with open(report, encoding="utf-8") as stream:
                rewrites = json.load(stream)["rewrites"]
            figures["rewrite"] = next(one for one in rewrites if one["name"] == name)
            # Proofs are for both.
            figures["rewrite"].update({what: sum(one[what] for one in rewrites) for what in ("queries", "events")})
    return figures


def judged(options, kind, raw, fix, held, limit):
    """Prints what the limits are about; and what is missed."""
    worst_raw, worst = max(raw[ALLOC], raw[FREE]), max(fix[ALLOC], fix[FREE])
    print(f"            total {fix[TOTAL] / raw[TOTAL]:.4f} of raw, worst call {worst / 1e3:.1f} us ({worst / worst_raw:.4f} of raw's), "
          f"worst single free {fix[SINGLE_WORST] / 1e3:.1f} us, held {held / 2**20:.1f} MiB of {limit / 2**20:.1f}", flush=True)
    if fix[SINGLE] > FREE_LIMIT_NS:
        yield f"{kind}: a single free takes {fix[SINGLE]:.0f} ns"
    if fix[SINGLE_WORST] > WAITED * options.kernel_us * 1000:
        yield f"{kind}: the worst single free takes {fix[SINGLE_WORST] / 1e3:.1f} us, so it has waited"
    if fix[TOTAL] > raw[TOTAL]:
        yield f"{kind}: the loop is slower"
    if worst > WORST_LIMIT * worst_raw:
        yield f"{kind}: the worst call takes {worst / 1e3:.1f} us, raw {worst_raw / 1e3:.1f}"
    if held > limit:
        yield f"{kind}: {held / 2**20:.1f} MiB held, more than the limit"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--raw-count", type=int)
    parser.add_argument("--kernel-us", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=("device", "pinned", "array"), default=("device", "pinned", "array"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    raw_count = options.raw_count or options.count
    failed = []
    print(f"kernel of {options.kernel_us} us; loop of {options.count} (raw: {raw_count}) allocations and frees")
    print("            one free, us (at most)   of 32, each      loop, ms     in calls, ms    worst alloc, us     worst free, us   held at most, MiB", flush=True)
    for kind in options.kinds:
        runs = {False: [], True: []}
        for _ in range(options.rounds):
            for fix in (False, True):
                runs[fix].append(run(options, kind, fix, options.count if fix else raw_count))
        rows = {}
        for fix, side in runs.items():
            scale = 1 if fix else options.count / raw_count
            burst = statistics.median(one["burst"][0] for one in side)
            rows[fix] = [statistics.median(one["single"][0] for one in side), max(one["single"][1] for one in side),
                         statistics.median(one["loop"][0] for one in side) * scale, statistics.median(one["loop"][3] for one in side) * scale,
                         max(one["loop"][1] for one in side), max(one["loop"][2] for one in side)]
            held = max(one["rewrite"]["peak_bytes"] for one in side) if fix else 0
            one, worst, total, calls, alloc, free = rows[fix]
            print(f"{kind:7} {'fix' if fix else 'raw'} {one / 1e3:10.3f} (to {worst / 1e3:8.1f}) {burst / 1e3:12.3f} {total / 1e6:12.1f} {calls / 1e6:16.1f} "
                  f"{alloc / 1e3:18.1f} {free / 1e3:18.1f} {held / 2**20:20.1f}", flush=True)
            if fix:
                rewrite = side[-1]["rewrite"]
                print(f"            {rewrite['hits']} used again, {rewrite['misses']} by the driver ({rewrite['unproven']} with blocks held), "
                      f"{rewrite['parked']} frees parked, {rewrite['real_frees']} by the driver, {rewrite['queries']} queries, "
                      f"{rewrite['events']} events", flush=True)
                limit = max(one["rewrite"]["limit_bytes"] for one in side)
        failed += judged(options, kind, rows[False], rows[True], held, limit)
    if options.check and failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
