#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random programs whose launches go past the rooms (shim/state/launch.h) and do not: what is reported must be the same.

    run.py --shim FILE --program FILE --simcuda DIR [--steps N] SEED...

Each seed runs three times on the simulated driver, in virtual time: as it is, with a call before each launch that ends its row, and where no launch is short (a
launch that joins is short in the first two).
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "entry"))
import slip  # noqa: E402

LAUNCHES = ("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")
# What is reported whatever the time.
TIMELESS = {"legacy-join", "stream-synchronize", "event-synchronize", "context-synchronize"}
# Calls that took long themselves, and could have no finding of the first kind. Any other finding is a call that lost the processor, and
# can hide one.
ASIDE = {"graph-instantiate", "module-load", "module-unload", "stream-create", "context-create", "context-destroy", "teardown"}
TRIES = 20


def candidates(path, process):
    """Findings by rule, function, and the candidate's context, stream, kind, operation and name."""
    names = {number: name for name, (number, _, _) in process.functions.items()}
    rules, waits, found, result = {}, {}, {}, {}
    for kind, body in slip.records(path):
        if kind == slip.RULE:
            number, slug = struct.unpack_from("<II", body, 8)
            rules[number] = process.strings[slug]
        elif kind == slip.CANDIDATE:
            number, stream_kind, context, stream, operation, name = struct.unpack_from("<IIQQII", body, 8)
            found[number] = (context, stream, stream_kind, operation, process.strings[name])
        elif kind == slip.WAIT:
            number, function, rule = struct.unpack_from("<III", body, 8)
            waits[number] = (rules[rule], names[function])
            result[waits[number]] = result.get(waits[number], 0) + struct.unpack_from("<Q", body, 32)[0]
        elif kind == slip.WAITED_FOR:
            wait, candidate, count = struct.unpack_from("<IIQ", body, 8)
            key = waits[wait] + found[candidate]
            result[key] = result.get(key, 0) + count
    return result


def count_calls(journal):
    called = {}
    with open(journal, encoding="utf-8") as stream:
        for line in stream:
            if line.startswith("call "):
                function = line.split(" ", 3)[2].strip()
                called[function] = called.get(function, 0) + 1
    return called


def run(options, seed, *each, check="off"):
    """The counts and findings of a run that no call lost its processor in; one by one also what the driver says was called."""
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_"))}
            environment.update(LD_PRELOAD=options.shim, LD_LIBRARY_PATH=options.simcuda, SLIPSTREAM_OUT=folder,
                               SLIPSTREAM_THRESHOLD="60s", SIMCUDA_TIME="virtual", SIMCUDA_COSTS="none", SLIPSTREAM_CHECK=check)
            if each:  # its two system calls a launch would leave none that is soon after another
                environment["SIMCUDA_JOURNAL"] = os.path.join(folder, "journal")
            subprocess.run([options.program, str(seed), str(options.steps), *each], env=environment, check=True, timeout=60)
            process, = slip.processes(folder)
            found = {key: count for key, count in candidates(process.path, process).items() if key[0] not in ASIDE}
            called = count_calls(os.path.join(folder, "journal")) if each else None
        if {key[0] for key in found} <= TIMELESS:
            return process.counts, found, called
    print(f"seed {seed}: {sorted({key[:2] for key in found if key[0] not in TIMELESS})} in each of {TRIES} runs", file=sys.stderr)
    sys.exit(77)


def differences(one, other):
    return [f"    {key}: {one.get(key)}, {other.get(key)}" for key in sorted(set(one) | set(other), key=str) if one.get(key) != other.get(key)]


def main():
    parser = argparse.ArgumentParser()
    for name in ("shim", "program", "simcuda"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("seeds", nargs="+", type=int)
    options = parser.parse_args()
    failures, findings = [], 0
    for seed in options.seeds:
        counts, found, _ = run(options, seed)
        timed_counts, timed, called = run(options, seed, "each")
        # What is held against rules takes the long way.
        long_counts, long, _ = run(options, seed, check="order")
        findings += sum(found.values())
        for text, one, other in (
                ("launches counted, in the driver's journal", {name: counts.get(name) for name in LAUNCHES},
                 {name: called.get(name) for name in LAUNCHES}),
                ("launches counted in rows, one by one", {name: counts.get(name) for name in LAUNCHES},
                 {name: timed_counts.get(name) for name in LAUNCHES}),
                ("launches counted in rows, the long way", {name: counts.get(name) for name in LAUNCHES},
                 {name: long_counts.get(name) for name in LAUNCHES}),
                ("findings of launches in rows, the long way", found, long),
                ("findings of launches in rows, one by one", found, timed)):
            differ = differences(one, other)
            if differ:
                failures += [f"seed {seed}: {text}", *differ[:10]]
    print(f"seeds {options.seeds[0]} to {options.seeds[-1]}, {options.steps} steps: {findings} findings")
    if failures:
        sys.exit("\n".join(failures))
    assert findings, "nothing was found at all"


if __name__ == "__main__":
    main()
