#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random programs under the real tracer: traces of level full as `slipstream trace` leaves them, and the order of each run proved from its trace.

    ctf.py --property FILE --simcuda DIR --tool FILE [--first SEED] [--count N] [--chunk N] [--fix WORDS]

CHUNK programs (100) run in one process, which is one session and one trace. They must print what they print without us, and `slipstream verify` must prove the
trace, of which the tracer must have lost nothing. Exit status 77 with a reason where a machine has no LTTng.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tracing")]
import programs  # noqa: E402
import session  # noqa: E402

BUFFERS = "4Mx8"


def traced(options, arguments, folder, after):
    """What the programs print in a traced process."""
    environment = programs.environment(options, False, None)
    environment.update(TMPDIR=folder, SLIPSTREAM_STAGE_FROM="256")
    for name in [name for name in environment if name.startswith("LTTNG_")]:
        del environment[name]
    done = subprocess.run(
        [options.tool, "trace", "--driver", options.simcuda, "--output", os.devnull, "--folder", os.path.join(folder, "trace"), "--buffers", BUFFERS,
         "--level", "full", "--mode", "fix", "--fix", options.fix, "--legacy-after", str(after), "--", options.property, *arguments],
        env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise programs.Broken(f"{' '.join(arguments)}: ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def prove(options, folder):
    """What verify found, as JSON, and its words where the trace is not proved."""
    file = os.path.join(folder, "verify.json")
    done = subprocess.run([options.tool, "verify", "--limit", "3", "--json", file, os.path.join(folder, "trace")], capture_output=True, text=True, check=False)
    with open(file, encoding="utf-8") as stream:
        trace, = json.load(stream)["traces"]
    return trace, "" if not done.returncode else done.stdout + done.stderr


def run_chunk(options, first, count, counts):
    """What is wrong with it; None: nothing."""
    arguments = ["--seeds", f"{first}:{first + count}"]
    raw = subprocess.run([options.property, *arguments], env=programs.environment(options, False, None), capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        fixed = traced(options, arguments, folder, programs.after_of(options, first))
        trace, words = prove(options, folder)
    for name in ("contexts", "records", "operations", "legacy_operations", "orderings"):
        counts[name.replace("_", " ")] += trace[name]
    counts["barriers"] += sum(trace["barriers"].values())
    counts["operations of other streams"] += trace["submissions"]["elsewhere"]
    counts["traces proved"] += not words
    counts["programs"] += count
    differ = [line for line in raw.splitlines() if line not in fixed.splitlines()]
    return words or (f"programs differ: {differ[:3]}" if differ else None)


def main():
    parser = argparse.ArgumentParser()
    for name in ("property", "simcuda", "tool"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--first", type=int, default=500000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--fix", default="pinned,frees,staging,streams")
    options = parser.parse_args()
    options.after = None
    try:
        session.need_tools()
    except session.Skip as reason:
        print(reason)
        sys.exit(77)
    begin, counts, broken = time.monotonic(), collections.Counter(), 0
    for first in range(options.first, options.first + options.count, options.chunk):
        found = run_chunk(options, first, min(options.chunk, options.first + options.count - first), counts)
        if found:
            broken += 1
            print(f"programs {first} on: {found}", file=sys.stderr)
    print(f"{counts.pop('programs')} programs, {time.monotonic() - begin:.1f} s: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
