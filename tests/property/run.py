#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The property test of mode fix: random programs give the same statuses, host reads and final bytes with and without it.

    run.py --property FILE [--simcuda DIR] --shim FILE [--first SEED] [--count N] [--fix WORDS] [--schedule N] [--jobs N]
           [--raw] [--shrink N] [--corpus FOLDER] [--keep FILE] [--journal PROVIDER --verify TOOL] [--repeat N] [--threads-only] [--after N] [--chunk N] [--seconds N]

Seeds FIRST to FIRST + N, raw and fixed, and the programs of a corpus. Of those that differ the first few are made small and printed, and added to the file
of --keep. --journal: the order of each run is written down (tests/verify/journal.c) and proved by `slipstream verify`. --raw: also raw with another schedule of the simulated driver, which shows that the programs are free of races. Exit status 1 where
anything differs. --repeat: each program N times, raw and fixed, with another schedule each time; that finds what only happens when threads meet in one way, and
so does not every run. --threads-only: of the seeds only those whose program has threads that run beside each other. --after: SLIPSTREAM_LEGACY_AFTER
of seeds, instead of some of each. --chunk: programs of one process; --seconds: no new chunk is begun later, and what was done so far is told as it comes. Without --simcuda the machine's own driver is used (a GPU), in contexts that are kept.
"""
import argparse
import os
import sys
import time

import programs


def parse():
    parser = argparse.ArgumentParser()
    for name in ("property", "shim"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--simcuda", type=os.path.abspath)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--fix", default="pinned,frees,staging,streams")
    parser.add_argument("--schedule", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--shrink", type=int, default=3)
    parser.add_argument("--corpus")
    parser.add_argument("--keep")
    parser.add_argument("--journal", type=os.path.abspath)
    parser.add_argument("--verify", type=os.path.abspath)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--threads-only", action="store_true")
    parser.add_argument("--after", type=int)
    parser.add_argument("--chunk", type=int, default=programs.CHUNK)
    parser.add_argument("--seconds", type=float)
    return parser.parse_args()


def run_corpus(options):
    named = list(programs.corpus(options))
    texts = [text for _, text in named]
    differ = [name for (name, _), raw, fixed in zip(named, programs.run_texts(options, texts, False), programs.run_texts(options, texts, True))
              if raw != fixed or raw == programs.HANGS or " " in raw or programs.is_race(raw)]
    print(f"corpus: {len(named)} programs, {len(differ)} differ")
    for name in differ:
        print(f"differs: {name}", file=sys.stderr)
    return len(differ)


def run_seeds(options):
    begin = time.monotonic()

    def is_over(found):
        if options.seconds:
            print(f"  {time.monotonic() - begin:.1f} s: {found.programs} programs, {len(found.differ)} differ", flush=True)
        return bool(options.seconds) and time.monotonic() - begin > options.seconds

    found = programs.compare(options, options.first, options.count, is_over, raw_too=options.raw)
    took = time.monotonic() - begin
    print(f"seeds {options.first} to {options.first + options.count}: {found.programs} programs, {len(found.differ)} differ, {took:.1f} s, "
          f"{1000 * took * options.jobs / max(1, found.programs):.2f} ms a program and processor (both runs)")
    for name, count in sorted(found.counts.items()):
        print(f"  {name}: {count}")
    off = programs.idle(options, found)
    for reason in off:
        print(reason if reason.startswith(programs.NOT_PROVED) else f"nothing was tested: {reason}", file=sys.stderr)
    for number, (seed, text) in enumerate(sorted(found.differ.items())):
        print(f"seed {seed}: {text}", file=sys.stderr)
        if number < options.shrink:
            after = programs.after_of(options, seed)
            small = programs.shrink(options, programs.text_of(options, seed), after)
            print(f"{small}{programs.explain(options, small, after)}" if small else "  (no difference with other schedules)", file=sys.stderr)
            if small and options.keep:
                with open(options.keep, "a", encoding="utf-8") as stream:
                    stream.write(f"# seed {seed}\n{small}")
    return len(found.differ) + len(off)


def main():
    options = parse()
    broken = run_corpus(options) if options.corpus else 0
    if options.count:
        broken += run_seeds(options)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
