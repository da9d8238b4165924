#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies of ordinary memory, by the driver's own address and by the wrapper, in turns within one process.

    copies.py --build BUILD [--driver FOLDER] [--modes fix,observe] [--sources warm,cold] [--cold MIB] [--control] [--milliseconds N] [--rounds N]
              [--largest BYTES] [--few] [--seed N] [--json FILE] [--check] [--quick]

One process for each mode and source (raw and observe cannot meet fix in one process, but raw is in each). Prints a table: microseconds, GB/s, median ratio
wrapped / raw and median difference within a pair of turns, each with its 95 % interval (bootstrap of the pairs), until the call returned
and until its stream was done. Sizes are the powers of two up to 1 GiB and some beside them, in one dimension; some of them in two and three. `--few`: seven sizes.

The rule: a copy is not slower than the driver's by more than 5 % or 0.3 us. A figure of a cell is
    slower      if even the lower ends of both intervals are beyond: the ratio's above 1.05 and the difference's above 0.3 us;
    ok          if the upper end of one of them is within;
    undecided   else, or of fewer than 6 pairs; more milliseconds make it one of the two.
The rule of speed, in mode fix: a synchronous copy of 256 MiB on an idle device moves at least 45 GB/s to the device and 40 GB/s from it, until its stream is done.

Exit status: 0, all is ok; 1, a figure is slower, or a speed is missed, or mode fix did not stage what it should have; 2, nothing of that, but figures are undecided. With
`--check` a speed that was not measured is missed, too; with `--quick` only what was staged counts. `--cold 0`: twice the last-level cache. `--control`: both sides by the
driver's address; what is not ok there is the method's own. With relax=order: behind.py.
"""
import argparse
import sys

import by_turns

RATIO, MICROSECONDS = 1.05, 0.3
SPEED_BYTES, SPEEDS = 256 << 20, {"to": 45.0, "from": 40.0}  # GB/s
SLOWER, UNDECIDED = 1, 2
# Of fewer samples not even the least and the greatest hold the median with 95 %.
PAIRS_ENOUGH = 6


def verdict(ratio, difference, pairs):
    if pairs < PAIRS_ENOUGH:
        return "undecided"
    if ratio[1] > RATIO and difference[1] > MICROSECONDS:
        return "slower"
    return "ok" if ratio[2] <= RATIO or difference[2] <= MICROSECONDS else "undecided"


def cells_of(lines):
    cells = []
    for words in lines:
        if words[0] != "cell":
            continue
        numbers = [float(word) for word in words[7:]]
        cell = dict(zip(("direction", "form", "state"), words[1:4]), bytes=int(words[4]), figure=words[5], pairs=int(words[6]), raw_us=numbers[0],
                    wrapped_us=numbers[1], ratio=numbers[2:5], difference_us=numbers[5:8])
        cell["verdict"] = verdict(cell["ratio"], cell["difference_us"], cell["pairs"])
        for side in ("raw", "wrapped"):
            cell[side + "_gbps"] = cell["bytes"] / cell[side + "_us"] / 1e3 if cell[side + "_us"] else 0.0
        cells.append(cell)
    return sorted(cells, key=lambda cell: (cell["form"].partition("-")[2], cell["bytes"]))


def speeds_of(cells):
    """What the rule of speed says of these cells: a line for each direction, and whether it is kept; None: not measured."""
    for direction, least in SPEEDS.items():
        found = [cell["wrapped_gbps"] for cell in cells if (cell["direction"], cell["form"], cell["state"], cell["bytes"], cell["figure"]) ==
                 (direction, "sync", "idle", SPEED_BYTES, "whole")]
        told_ = f"256 MiB {direction} the device: " + (f"{found[0]:.1f} GB/s, at least {least:.0f} wanted" if found else "not measured")
        yield told_, found[0] >= least if found else None


def told(cell):
    name = f"{cell['direction']} {cell['form']} {cell['state']}"
    return (f"{name:22} {cell['bytes']:11} {cell['figure']:6} {cell['pairs']:5} {cell['raw_us']:11.2f} {cell['wrapped_us']:11.2f} {cell['raw_gbps']:8.3f} "
            f"{cell['wrapped_gbps']:8.3f}   "
            f"{cell['ratio'][0]:6.3f} [{cell['ratio'][1]:6.3f}, {cell['ratio'][2]:6.3f}]   "
            f"{cell['difference_us'][0]:+10.3f} [{cell['difference_us'][1]:+10.3f}, {cell['difference_us'][2]:+10.3f}]  "
            f"{'' if cell['verdict'] == 'ok' else cell['verdict']}")


HEAD = ("what                         bytes  until  pairs      raw us  wrapped us raw GB/s  wr. GB/s   ratio and its interval      "
        "difference, us, and its interval")


def measure(options, mode, source):
    cold = 0 if source == "warm" else options.cold or "auto"
    arguments = [f"--milliseconds={options.milliseconds}", f"--rounds={options.rounds}", f"--largest={options.largest}", f"--cold={cold}",
                 f"--seed={options.seed}"]
    arguments += [f"--{word}" for word in ("control", "few") if getattr(options, word)]
    lines, rewrites = by_turns.run(options, "copies", arguments, mode)
    cells = cells_of(lines)
    large, cold = (next(int(words[1]) for words in lines if words[0] == name) for name in ("idle_copies_of_4m", "cold_mib"))
    staging = rewrites.get("staging", {})
    staged = staging.get("to_device", 0) + staging.get("from_device", 0)
    print(f"mode {mode}{', control: both sides by the driver' if options.control else ''}, source {source}{f' ({cold} MiB)' if cold else ''}, "
          f"seed {options.seed}: {staged} copies staged, of {large} by the wrapper of 4 MiB and more on an idle device\n{HEAD}")
    for cell in cells:
        print(told(cell))
    for what in ("slower", "undecided"):
        those = [cell for cell in cells if cell["verdict"] == what]
        print(f"{len(those)} of {len(cells)} figures {what}{':' if those else ''}", flush=True)
        for cell in those:
            print("  " + told(cell))
    if mode == "fix" and not options.control and staged < large:
        sys.exit(f"copies: {large} copies should have been staged, {staged} were: {staging}")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    by_turns.add_options(parser)
    parser.add_argument("--modes", default="fix")
    parser.add_argument("--sources", default="warm,cold")
    parser.add_argument("--cold", type=int, default=0, metavar="MIB")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--milliseconds", type=int, default=100, help="a cell")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--largest", type=int, default=1 << 30)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.milliseconds, options.rounds, options.largest, options.few = 2, 1, 4 << 20, True
    figures = {f"{mode} {source}": measure(options, mode, source) for mode in options.modes.split(",") for source in options.sources.split(",")}
    by_turns.write_json(options, {"seed": options.seed, "control": options.control, "cells": figures})
    missed = []
    for name, cells in figures.items():
        for told_, kept in speeds_of(cells) if name.startswith("fix ") and not options.control else ():
            print(f"{name}: {told_}")
            if kept is False or kept is None and options.check:
                missed.append(told_)
    verdicts = [cell["verdict"] for cells in figures.values() for cell in cells]
    print(f"all together: {verdicts.count('slower')} figures slower, {verdicts.count('undecided')} undecided, {verdicts.count('ok')} ok; {len(missed)} speeds missed", flush=True)
    if options.quick:
        return
    sys.exit(SLOWER if missed or "slower" in verdicts else UNDECIDED if "undecided" in verdicts else 0)


if __name__ == "__main__":
    main()
