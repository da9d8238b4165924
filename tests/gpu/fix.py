#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Unmodified programs in mode fix: the same output as without the shim, with each rewrite by itself and with all of them.

    fix.py --build DIR --out DIR [--rewrites pinned,frees,staging,streams] [--settings NAME,...] [--minutes N] [--program NAME=COMMAND]

The programs are those of run_all.py, and loops of PyTorch that print every loss (pytorch_losses.py). A setting is one of the rewrites by itself, `fix` (all of
them), `relaxed` (with relax=order as well) or `observe`; without --settings each of them. Prints one line a program and setting (same output or not, seconds,
what was rewritten); then what moving tensors costs in PyTorch, raw and fix by turns; fix.json and fix.md (a table of times) go to --out. Fails if an
output differs or a rewrite did nothing anywhere.
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

COUNTS = ("hits", "misses", "parked", "waits_avoided", "real_frees", "purges", "to_device", "from_device", "to_driver", "peak_bytes", "redirected", "native",
          "barriers")
DID = ("hits", "parked", "to_device", "from_device", "redirected")
WHOLE = ("observe", "fix", "relaxed")


def in_setting(suite, name, command, setting, folder):
    rewrites = suite.options.rewrites if setting in WHOLE else setting
    mode = {"SLIPSTREAM_MODE": "observe"} if setting == "observe" else {"SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": rewrites}
    if setting == "relaxed":
        mode["SLIPSTREAM_RELAX"] = "free,order"
    return suite.run(f"{name} {setting}", command, 150, LD_PRELOAD=suite.shim, SLIPSTREAM_OUT=folder, **mode)


def rewritten(suite, folder):
    """{rewrite: counts} of a folder of record files, and why calls were left to the driver."""
    path = os.path.join(suite.out, "fix.report.json")
    status, _, stderr, _ = suite.run("report", [suite.slipstream, "report", "--json", path, "--output", os.devnull, folder], 100)
    if status != 0:
        raise ValueError(f"slipstream report: status {status}: {tail(stderr)}")
    report = load(path)
    found = {rewrite["name"]: {key: value for key, value in rewrite.items() if isinstance(value, int) and value} for rewrite in report.get("rewrites", [])}
    return found, {note["text"]: note["count"] for note in report["coverage"]["notes"] if note["code"] == "rewrite"}


def one(suite, name, command, setting, expected):
    folder = tempfile.mkdtemp(prefix="slipstream-fix-", dir=record_place())
    try:
        status, stdout, stderr, seconds = in_setting(suite, name, command, setting, folder)
        found, left = rewritten(suite, folder)
    finally:
        shutil.rmtree(folder)
    same = status == 0 and stdout == expected
    if not same:
        with open(os.path.join(suite.out, f"differs-{name}-{setting}.txt".replace(" ", "-")), "wb") as file:
            file.write(b"expected\n" + expected + b"\nwith the shim\n" + stdout + b"\nstderr\n" + stderr)
    text = "; ".join(f"{rewrite}: " + ", ".join(f"{key} {counts[key]}" for key in COUNTS if key in counts) for rewrite, counts in found.items())
    suite.say("ok" if same else "FAIL", f"{name}, {setting}", f"{seconds:.2f} s; {text}" if same else f"status {status}: {tail(stderr)}")
    for why, times in sorted(left.items(), key=lambda item: -item[1])[:6]:
        print(f"        left to the driver {times} times: {why}")
    suite.rows.append({"program": name, "setting": setting, "same_output": same, "seconds": seconds, "counts": found, "left": left})


def all_programs(suite):
    yield from programs(suite)
    if not suite.options.program and python_has(suite, "torch"):
        yield "PyTorch losses", [sys.executable, os.path.join(HERE, "pytorch_losses.py")]


def part_programs(suite, settings):
    for name, command in all_programs(suite):
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
        suite.rows.append({"program": name, "setting": "raw", "same_output": True, "seconds": seconds, "counts": {}, "left": {}})
        for setting in settings:
            if suite.left() < 2 * seconds + 5:
                suite.say("skip", f"{name}, {setting}", "no time left")
                continue
            one(suite, name, command, setting, expected)


def part_upload(suite):
    if not python_has(suite, "torch"):
        return suite.say("skip", "moving tensors", "no Python package torch")
    command = [sys.executable, os.path.join(HERE, "pytorch_upload.py")]
    times, digests = {}, {}
    folder = tempfile.mkdtemp(prefix="slipstream-fix-", dir=record_place())
    try:
        for _ in range(3):
            for setting in ("raw", "fix"):
                run = suite.run("upload raw", command, 100) if setting == "raw" else in_setting(suite, "upload", command, setting, folder)
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


def write_table(suite):
    """fix.md: seconds by program and setting."""
    settings = list(dict.fromkeys(row["setting"] for row in suite.rows))
    seconds = {(row["program"], row["setting"]): f"{row['seconds']:.2f}" + ("" if row["same_output"] else ", not the same output") for row in suite.rows}
    with open(os.path.join(suite.out, "fix.md"), "w", encoding="utf-8") as file:
        file.write(f"| program | {' | '.join(settings)} |\n|---|{'---|' * len(settings)}\n")
        for program in dict.fromkeys(row["program"] for row in suite.rows):
            file.write(f"| {program} | {' | '.join(seconds.get((program, setting), '') for setting in settings)} |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rewrites", default="pinned,frees,staging,streams")
    parser.add_argument("--settings", help="default: each rewrite, fix, relaxed, observe")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--program", action="append", metavar="NAME=COMMAND", help="this program instead of the suite's own")
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    options = parser.parse_args()
    settings = options.settings.split(",") if options.settings else [*options.rewrites.split(","), *reversed(WHOLE)]
    suite = Suite(options)
    part_programs(suite, settings)
    if not options.program:
        part_upload(suite)
    done = {name for row in suite.rows for name, counts in row["counts"].items() if any(counts.get(key) for key in DID)}
    for rewrite in options.rewrites.split(","):
        if rewrite not in done and set(settings) & {rewrite, "fix", "relaxed"}:
            suite.say("FAIL", rewrite, "rewrote nothing in any program")
    suite.results["fix"] = suite.rows
    with open(os.path.join(suite.out, "fix.json"), "w", encoding="utf-8") as file:
        json.dump(suite.results, file, indent=1)
    write_table(suite)
    shutil.rmtree(os.path.join(suite.out, "triton-cache"), ignore_errors=True)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
