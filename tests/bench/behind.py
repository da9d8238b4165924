#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls that mode fix answers while a kernel runs (behind.c): synchronous copies with relax=order, and frees; and what they are made of.

    behind.py --build BUILD [--driver FOLDER] [--parts order,free] [--rounds N] [--kernel-us N] [--seed N] [--json FILE] [--check] [--quick]

Prints microseconds: first of the process, least, median, 90th hundredth, greatest, for each call and each state of the caches (behind.c tells of
them); then the calls of the driver that a copy of 4 KiB is made of, added up, and what is left: the shim's own and the copying. `--check` fails if the
median of the call behind the launch (cold) is above its limit. Fails if the waits were not left out.
"""
import argparse
import sys

import by_turns

LIMITS_US = {("order", "copy_1"): 10, ("order", "copy_4k"): 10, ("free", "free_host_4k"): 1, ("free", "free_host_1m"): 1,
             ("free", "free_device_4k"): 1, ("free", "free_device_1m"): 1}
# Of a staged copy of up to a chunk (shim/stage/stage.c, shim/rewrite/staging_memory.c), and how often.
MADE_OF = {"raw_ask_pageable": 2, "raw_ask_flags": 1, "raw_ask_device": 1, "raw_exchange_mode_twice": 1, "raw_copy_pinned_4k": 1, "raw_event_record": 1}
PATTERNS = ("cold", "second", "later", "evicted", "row", "idle")


def measure(options, part):
    rounds = options.rounds or (200 if part == "order" else 120)
    arguments = [part, f"--rounds={rounds}", f"--seed={options.seed}"]
    if options.kernel_us:
        arguments.append(f"--kernel-us={options.kernel_us}")
    lines, rewrites = by_turns.run(options, "behind", arguments, "fix", relax="free,order")
    figures = {}
    print(f"{part}, {rounds} rounds, seed {options.seed}: us\ncall                     state      times     first     least    median       90%  greatest")
    for words in lines:
        if words[0] != "cell":
            continue
        count, first, least, median, most, greatest = (float(word) / 1e3 for word in words[3:])
        figures[words[1], words[2]] = {"times": int(words[3]), "first": first, "least": least, "median": median, "p90": most, "greatest": greatest}
        print(f"{words[1]:24} {words[2]:8} {int(count * 1e3):7} {first:9.3f} {least:9.3f} {median:9.3f} {most:9.3f} {greatest:9.3f}")
    return figures, rewrites


def add_up(figures):
    print("of a copy of 4 KiB, medians in us: " + ", ".join(f"{times} x {name}" for name, times in MADE_OF.items()))
    for pattern in PATTERNS:
        clock = figures["clock", pattern]["median"]
        parts = sum((figures[name, pattern]["median"] - clock) * times for name, times in MADE_OF.items())
        whole = figures["copy_4k", pattern]["median"]
        print(f"  {pattern:8} whole {whole:8.3f} = driver's calls {parts:8.3f} + clock {clock:6.3f} + the rest {whole - parts - clock:8.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    by_turns.add_options(parser)
    parser.add_argument("--parts", default="order,free")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--kernel-us", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.kernel_us = 3, 1000
    every, missed = {}, []
    for part in options.parts.split(","):
        figures, rewrites = measure(options, part)
        every[part] = [{"call": call, "state": state, **figure} for (call, state), figure in figures.items()]
        if part == "order":
            add_up(figures)
        did = {name: {key: value for key, value in one.items() if value} for name, one in rewrites.items()}
        print(f"in mode fix: {did}", flush=True)
        names = ("staging",) if part == "order" else ("pinned", "frees")
        if not all(rewrites[name]["waits_avoided"] for name in names):
            sys.exit(f"behind: {part}: no wait was left out: {did}")
        for (which, call), limit in LIMITS_US.items():
            if which == part and figures[call, "cold"]["median"] > limit:
                missed.append(f"{call}: {figures[call, 'cold']['median']:.2f} us, limit {limit}")
    by_turns.write_json(options, {"seed": options.seed, **every})
    if missed:
        print("above the limit: " + "; ".join(missed))
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
