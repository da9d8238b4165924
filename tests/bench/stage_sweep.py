#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each choice of the engine of staged copies is worth, and which choices together are best: one run for the constants of shim/stage/stage.c.

    stage_sweep.py --build BUILD [--driver FOLDER] [--sizes BYTES,...] [--cold MIB] [--warm] [--huge] [--fresh] [--rounds N] [--runs N] [--seed N]
                   [--json FILE] [--quick]

All combinations of the grid below, the driver, and the choices as shipped, by turns in one process (`stage-wide`: as stage.c, with higher limits than the library
has), the host's memory in no cache unless `--warm`. Prints for each direction and size
- the best combinations, beside the driver and what is shipped;
- each knob's values: GB/s of the best combination with that value, the median of all with it, and what is shipped with that value alone changed.
The best few of the largest size and what is shipped are then measured again, cold and warm, with their bytes checked: the best of many is partly luck.
About 60 s on a 16-core machine with an H200.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys

K, M = 1 << 10, 1 << 20
# "streamed": stores past the caches, of all sizes or of none; into chunks (to the device), or into the program's memory (from it).
GRID = {"streamed": (0, 1), "helpers": (4, 6, 8, 11, 15), "piece": (1 * M, 2 * M, 4 * M), "unit": (64 * K, 128 * K, 256 * K), "ring": (4, 8)}
BEYOND = [{"ring": 16, "piece": 1 * M}, {"ring": 16}, {"unit": 512 * K}, {"helpers": 2}, {"helpers": 3}, {"helpers": 5}, {"helpers": 13}, {"piece": 512 * K}]
QUICK_GRID = {"streamed": (0, 1), "helpers": (0, 1), "piece": (1 * M, 2 * M), "unit": (128 * K,), "ring": (4,)}
DIRECTIONS = ("to", "from")
BEST = 5


def words_of(combination):
    """For stage-wide: both directions at once, since a copy uses the words of its own."""
    return [f"fill_streamed={combination['streamed']}", f"empty_streamed={combination['streamed']}", f"fill_streamed_most={1 << 40}", "empty_streamed_least=1",
            *(f"{knob}={combination[knob]}" for knob in ("helpers", "piece", "unit", "ring"))]


def run(options, program, words):
    environment = dict(os.environ, LD_LIBRARY_PATH=options.driver) if options.driver else os.environ
    done = subprocess.run([os.path.join(options.build, "tests/bench", program), *words], env=environment, capture_output=True, text=True, timeout=580,
                          check=False)
    if done.returncode == 77:
        print(done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"{program}: status {done.returncode}: {done.stderr.strip()}")
    if done.stderr:
        print(done.stderr.strip())
    return done.stdout.splitlines()


def measure(options, sets, sizes, *words):
    """GB/s by set, size and direction; set 0 is the driver."""
    arguments = [f"sizes={','.join(map(str, sizes))}", "brief=1", f"seed={options.seed}", *words]
    for number, each in enumerate(sets):
        arguments += ([] if not number else ["--"]) + each
    rates = {}
    for line in run(options, "stage-wide", arguments):
        if not line.startswith("set "):
            print(line)
            continue
        number, size, *took = (int(word) for word in line.split()[1:])
        for direction, ns in zip(DIRECTIONS, took):
            rates[number, size, direction] = size / ns if ns else 0
    return rates


def shipped(options, direction):
    """As a combination; "streamed" is for the size it is asked for."""
    words = dict(word.split("=") for word in run(options, "stage", ["show"])[0].split())
    numbers = {name: int(value) for name, value in words.items()}
    side = {"to": "fill", "from": "empty"}[direction]

    def at(size):
        limit = numbers["fill_streamed_most"] >= size if direction == "to" else numbers["empty_streamed_least"] <= size
        return {"streamed": int(numbers[side + "_streamed"] and limit), "helpers": numbers[side + "_helpers"], "piece": numbers["piece"], "unit": numbers["unit"],
                "ring": numbers["ring"]}
    return at


def told(combination):
    return " ".join(f"{knob} {value if value < K else f'{value // K}K' if value < M else f'{value // M}M'}" for knob, value in combination.items())


def show(rates, sets, ship, size, direction):
    def rate(combination):
        return rates[sets.index(combination) + 1, size, direction]
    ours, best = ship[direction](size), sorted(sets, key=rate, reverse=True)
    print(f"\n{direction} the device, {size} bytes: the driver {rates[0, size, direction]:.1f} GB/s, shipped {rate(ours):.1f} ({told(ours)})")
    for combination in best[:BEST]:
        print(f"  {rate(combination):6.1f}  {told(combination)}")
    for knob in GRID:
        parts = []
        for value in sorted({combination[knob] for combination in sets}):
            those, alone = [rate(combination) for combination in sets if combination[knob] == value], {**ours, knob: value}
            alone = f"{rate(alone):.1f}" if alone in sets else "-"
            parts.append(f"{told({knob: value}).split()[1]}: {max(those):.1f} / {statistics.median(those):.1f} / {alone}")
        print(f"  {knob:9} best / median / alone   " + "   ".join(parts))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath, help="folder of the driver to use (the simulated one)")
    parser.add_argument("--sizes", default=f"{16 * M},{64 * M},{256 * M}")
    parser.add_argument("--cold", default="auto", metavar="MIB")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--huge", action="store_true", help="the program's memory on huge pages")
    parser.add_argument("--fresh", action="store_true", help="targets that were never touched")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    grid, cold = GRID, options.cold
    if options.quick:
        grid, cold, options.sizes, options.rounds, options.runs = QUICK_GRID, "16", str(5 * M), 1, 1
    sizes = sorted(int(word) for word in options.sizes.split(","))
    ship = {direction: shipped(options, direction) for direction in DIRECTIONS}
    sets = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    bases = [ship[direction](size) for direction in DIRECTIONS for size in sizes]
    for combination in bases if options.quick else bases + [{**base, **other} for base in bases for other in BEYOND]:
        if combination not in sets:
            sets.append(combination)
    common = [f"huge={int(options.huge)}", f"fresh={int(options.fresh)}"]
    words = [words_of(combination) for combination in sets]
    # The first words are the driver's and the first set's.
    rates = measure(options, words, sizes, *common, "check=0", f"cold={0 if options.warm else cold}", f"rounds={options.rounds}", f"runs={options.runs}")
    print(f"{len(sets)} combinations, {options.rounds} rounds of {options.runs} copies, {'warm' if options.warm else 'cold'}, seed {options.seed}")
    finals = bases[:]
    for size in sizes:
        for direction in DIRECTIONS:
            best = show(rates, sets, ship, size, direction)
            if size == sizes[-1]:
                finals += best[:3]
    finals = [combination for number, combination in enumerate(finals) if combination not in finals[:number]]
    again = {}
    for source, much in (("cold", cold), ("warm", 0)):
        again[source] = measure(options, [words_of(combination) for combination in finals], sizes, *common, f"cold={much}",
                                f"rounds={1 if options.quick else 5}", f"runs={options.runs}")
        for size in sizes:
            print(f"\nagain, {source}, {size} bytes: to / from the device, GB/s; the driver "
                  f"{again[source][0, size, 'to']:.1f} / {again[source][0, size, 'from']:.1f}")
            for number, combination in enumerate(finals):
                marks = [f"shipped {direction}" for direction in DIRECTIONS if combination == ship[direction](size)]
                print(f"  {again[source][number + 1, size, 'to']:6.1f} / {again[source][number + 1, size, 'from']:6.1f}  {told(combination)}  {', '.join(marks)}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump({"sets": [{**combination, "gb_s": {f"{direction} {size}": rates[number + 1, size, direction] for size in sizes for direction in DIRECTIONS}}
                                for number, combination in enumerate(sets)],
                       "again": {source: [{**combination, "gb_s": {f"{direction} {size}": them[number + 1, size, direction] for size in sizes for direction in DIRECTIONS}}
                                          for number, combination in enumerate(finals)] for source, them in again.items()}}, stream, indent=1)


if __name__ == "__main__":
    main()
