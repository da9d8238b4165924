#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Unmodified programs in mode fix: the same output as without the shim, with each rewrite by itself and with all of them.

    fix.py --build DIR --out DIR [--rewrites pinned,frees,staging] [--minutes N] [--program NAME=COMMAND]

The programs are those of run_all.py. Prints one line a program and setting (same output or not, seconds raw and fix, what was rewritten); then
what moving tensors costs in PyTorch, raw and fix by turns; writes fix.json to --out. Fails if an output differs or a rewrite did nothing anywhere.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(1, os.path.join(os.path.dirname(HERE), "bench"))
from place import record_place  # noqa: E402
from run_all import Suite, load, programs, python_has, tail  # noqa: E402

COUNTS = ("hits", "misses", "parked", "waits_avoided", "real_frees", "purges", "to_device", "from_device", "to_driver", "peak_bytes")


def in_fix(suite, name, command, rewrites, folder):
    return suite.run(f"{name} fix {rewrites}", command, 150, LD_PRELOAD=suite.shim, SLIPSTREAM_OUT=folder, SLIPSTREAM_MODE="fix",
                     SLIPSTREAM_FIX=rewrites)


def rewritten(suite, folder):
    """{rewrite: counts} of a folder of record files, and why calls were left to the driver."""
    path = os.path.join(suite.out, "fix.report.json")
    status, _, stderr, _ = suite.run("report", [suite.slipstream, "report", "--json", path, "--output", os.devnull, folder], 100)
    if status != 0:
        raise ValueError(f"slipstream report: status {status}: {tail(stderr)}")
    report = load(path)
    found = {rewrite["name"]: {key: value for key, value in rewrite.items() if isinstance(value, int) and value} for rewrite in report["rewrites"]}
    return found, {note["text"]: note["count"] for note in report["coverage"]["notes"] if note["code"] == "rewrite"}


def one(suite, name, command, rewrites, expected):
    folder = tempfile.mkdtemp(prefix="slipstream-fix-", dir=record_place())
    try:
        status, stdout, stderr, seconds = in_fix(suite, name, command, rewrites, folder)
        found, left = rewritten(suite, folder)
    finally:
        shutil.rmtree(folder)
    same = status == 0 and stdout == expected
    if not same:
        with open(os.path.join(suite.out, f"differs-{name}-{rewrites}.txt".replace(" ", "-")), "wb") as file:
            file.write(b"expected\n" + expected + b"\nin mode fix\n" + stdout + b"\nstderr\n" + stderr)
    text = "; ".join(f"{rewrite}: " + ", ".join(f"{key} {counts[key]}" for key in COUNTS if key in counts) for rewrite, counts in found.items())
    suite.say("ok" if same else "FAIL", f"{name}, {rewrites}", f"{seconds:.2f} s; {text}" if same else f"status {status}: {tail(stderr)}")
    for why, times in sorted(left.items(), key=lambda item: -item[1])[:6]:
        print(f"        left to the driver {times} times: {why}")
    suite.rows.append({"program": name, "rewrites": rewrites, "same_output": same, "seconds": seconds, "counts": found, "left": left})


def part_programs(suite, settings):
    for name, command in programs(suite):
        status, expected, stderr, seconds = suite.run(f"{name} raw", command, 150)
        if status != 0:
            suite.say("skip", name, f"does not run without the shim: {tail(stderr)}")
            continue
        if name == "forked children" or seconds < 20:
            status, again, _, seconds = suite.run(f"{name} raw again", command, 150)
            if again != expected:
                suite.say("skip", name, "its output is not the same from run to run")
                continue
        print(f"      {name}: raw {seconds:.2f} s")
        for rewrites in settings:
            if suite.left() < 2 * seconds + 5:
                suite.say("skip", f"{name}, {rewrites}", "no time left")
                continue
            one(suite, name, command, rewrites, expected)


def part_upload(suite, settings):
    if not python_has(suite, "torch"):
        return suite.say("skip", "moving tensors", "no Python package torch")
    command = [sys.executable, os.path.join(HERE, "pytorch_upload.py")]
    times, digests = {}, {}
    folder = tempfile.mkdtemp(prefix="slipstream-fix-", dir=record_place())
    try:
        for _ in range(3):
            for setting in ("raw", settings[-1]):
                run = suite.run("upload raw", command, 100) if setting == "raw" else in_fix(suite, "upload", command, setting, folder)
                if run[0] != 0:
                    return suite.say("FAIL", f"moving tensors, {setting}", f"status {run[0]}: {tail(run[2])}")
                for line in run[1].decode().splitlines():
                    size, _, up, _, down, digest = line.split()
                    times.setdefault((int(size), setting, "cuda()"), []).append(float(up))
                    times.setdefault((int(size), setting, "cpu()"), []).append(float(down))
                    digests.setdefault(size, set()).add(digest)
    finally:
        shutil.rmtree(folder)
    for (size, setting, way), figures in sorted(times.items(), key=lambda item: (item[0][0], item[0][2], item[0][1])):
        if setting == "raw":
            continue
        raw, fixed = statistics.median(times[size, "raw", way]), statistics.median(figures)
        suite.results.setdefault("upload", []).append({"bytes": size, "way": way, "raw_us": raw, "fix_us": fixed})
        print(f"      {way} of {size} bytes: raw {raw:.1f} us, fix {fixed:.1f} us: {raw / fixed:.2f} times as fast")
    same = all(len(each) == 1 for each in digests.values())
    return suite.say("ok" if same else "FAIL", "moving tensors", "same bytes" if same else "other bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rewrites", default="pinned,frees,staging")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--program", action="append", metavar="NAME=COMMAND", help="this program instead of the suite's own")
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    options = parser.parse_args()
    settings = options.rewrites.split(",")
    if len(settings) > 1:
        settings.append(options.rewrites)
    suite = Suite(options)
    part_programs(suite, settings)
    if not options.program:
        part_upload(suite, settings)
    done = {name for row in suite.rows for name, counts in row["counts"].items() if any(counts.get(key) for key in ("hits", "parked", "to_device", "from_device"))}
    for rewrite in options.rewrites.split(","):
        if rewrite not in done:
            suite.say("FAIL", rewrite, "rewrote nothing in any program")
    suite.results["fix"] = suite.rows
    with open(os.path.join(suite.out, "fix.json"), "w", encoding="utf-8") as file:
        json.dump(suite.results, file, indent=1)
    shutil.rmtree(os.path.join(suite.out, "triton-cache"), ignore_errors=True)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
