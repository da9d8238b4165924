#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/demo --prebuilt: the report blames the lines of the demo that say so, as often as they ran.

Reads the `expect: RULE FUNCTION COUNT` comments of the demo's sources; each stands above the line that it speaks of.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

FIXED_NAMES = {
    "calls": {"total", "unwrapped", "by_function"},
    "coverage": {"exported", "wrapped", "unwrapped_names"},
    "syncs": None, "processes": None, "config": None, "version": None,
}
SYNC_NAMES = {"rule", "function", "class", "cause", "count", "blocked_ns", "bytes", "sites"}
SITE_NAMES = {"id", "count", "blocked_ns", "frames", "python"}
LEAST_IMPLICIT_RULES = 6
# Counted by reading the sources: calls per frame, and calls once.
CALLS = {
    "cuInit": (0, 1), "cuLaunchKernel": (14, 3), "cuMemcpyHtoD_v2": (2, 0), "cuMemcpyDtoH_v2": (2, 0),
    "cuMemcpyHtoDAsync_v2": (2, 0), "cuMemcpyDtoHAsync_v2": (1, 0), "cuMemAlloc_v2": (1, 2), "cuMemFree_v2": (1, 2),
    "cuMemHostAlloc": (1, 0), "cuMemFreeHost": (1, 0), "cuMemHostRegister_v2": (1, 0), "cuMemHostUnregister": (1, 0),
    "cuMemsetD8_v2": (1, 0), "cuMemsetD8Async": (2, 0), "cuStreamSynchronize": (2, 0), "cuEventRecord": (1, 0),
    "cuEventSynchronize": (1, 0), "cuCtxSynchronize": (0, 2), "cuCtxSetLimit": (0, 1), "cuStreamCreate": (0, 2),
    "cuModuleLoadData": (0, 2), "cuModuleGetFunction": (0, 4),
}
# A busy machine can put the program aside between a launch and the call that would wait for it: the kernel has then ended, and
# there was nothing to wait for. So a run with too few waits, and no other fault, is made again. It can add no wait.
TRIES = 6
problems = []
missed = []


def expect(condition, message):
    if not condition:
        problems.append(message)


def expectations(folder, frame_count):
    """(rule, function, file, line, count) of every marked line."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.c"))):
        with open(path) as file:
            for number, text in enumerate(file, 1):
                marker = re.search(r"/\* expect: (\S+) (\S+) (\S+) \*/", text)
                if marker:
                    rule, function, count = marker.groups()
                    count = frame_count if count == "FRAME_COUNT" else int(count)
                    found.append((rule, function, os.path.basename(path), number + 1, count))
    return found


def place(site):
    """File and line of the call site: its innermost frame."""
    for frame in site["frames"]:
        return os.path.basename(frame["file"] or "?"), frame["line"]
    return "?", None


def check_sites(report, marked):
    seen = {}
    for sync in report["syncs"]:
        for site in sync["sites"]:
            key = (sync["rule"], sync["function"]) + place(site)
            seen[key] = seen.get(key, 0) + site["count"]
            if sync["class"] != "device":
                expect(0 < site["blocked_ns"], "no blocked time: %s %s" % (sync["rule"], place(site)))
            expect(any(os.path.basename(f["file"] or "") == "demo.c" and f["function"] == "main" for f in site["frames"]),
                   "main() of demo.c is not in the stack of %s %s" % (sync["rule"], place(site)))
    for rule, function, file, line, count in marked:
        got = seen.get((rule, function, file, line), 0)
        others = [key for key in seen if key[2:] == (file, line)]
        if got != count:
            (missed if got < count else problems).append(
                "%s:%d: expected %s of %s %d times, got %d (seen there: %s)" % (file, line, rule, function, count, got, others))


def check_scopes(report):
    """The region "frame" holds what process_frame() waited for; the event's wait is the one that is allowed."""
    for sync in report["syncs"]:
        expect(sync["allowed"] == (sync["rule"] == "event-synchronize"), "%s: allowed is %s" % (sync["rule"], sync["allowed"]))
        inside = sum(region["count"] for region in sync["regions"] if region["name"] == "frame")
        in_frame = sum(site["count"] for site in sync["sites"] if any(f["function"] == "process_frame" for f in site["frames"]))
        expect(inside == in_frame, "%s of %s: %d in region 'frame', %d below process_frame()"
               % (sync["rule"], sync["function"], inside, in_frame))


def check(build_root, source_root, program, marked, frame_count):
    """Runs the demo and fills `problems` and `missed`; returns what it printed and its implicit rules."""
    with tempfile.TemporaryDirectory() as work:
        output = os.path.join(work, "demo.json")
        command = [os.path.join(source_root, "tools", "demo"), "--prebuilt", "--simulated", "--build", build_root, "--json", output]
        command += ["--program", program[0]] if program else []
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if result.returncode != 0:
            sys.exit("tools/demo ended with status %d\n%s\n%s" % (result.returncode, result.stdout, result.stderr))
        with open(output) as file:
            report = json.load(file)

    for name, below in FIXED_NAMES.items():
        expect(name in report and (below is None or below <= set(report[name])), "the JSON lacks %s %s" % (name, below or ""))
    for sync in report["syncs"]:
        expect(SYNC_NAMES <= set(sync), "a sync lacks %s" % (SYNC_NAMES - set(sync)))
        for site in sync["sites"]:
            expect(SITE_NAMES <= set(site), "a site lacks %s" % (SITE_NAMES - set(site)))

    for function, (per_frame, once) in CALLS.items():
        got = report["calls"]["by_function"].get(function, 0)
        expect(got == per_frame * frame_count + once,
               "%s was called %d times, counted %d" % (function, per_frame * frame_count + once, got))
    expect(report["calls"]["unwrapped"] == 0, "unwrapped calls: %s" % report["calls"]["unwrapped"])

    check_sites(report, marked)
    check_scopes(report)
    implicit = {sync["rule"] for sync in report["syncs"] if sync["class"] == "implicit" and sync["rule"] in {m[0] for m in marked}}
    expect(len(implicit) >= LEAST_IMPLICIT_RULES, "only these implicit rules: %s" % sorted(implicit))
    for rule in sorted({m[0] for m in marked}):
        expect(rule in result.stdout, "the printed report does not name %s" % rule)
    expect(result.stdout.rstrip().splitlines()[-1].startswith("Look next at "), "the last line does not say where to look")

    return result.stdout, implicit


def main():
    build_root, source_root, *program = sys.argv[1:]
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "pipeline.h")) as file:
        frame_count = int(re.search(r"#define\s+FRAME_COUNT\s+(\d+)", file.read()).group(1))
    marked = expectations(folder, frame_count)

    for attempt in range(TRIES):
        missed.clear()
        text, implicit = check(build_root, source_root, program, marked, frame_count)
        if problems or not missed:
            break
        print("try %d: %s" % (attempt + 1, "; ".join(missed)))

    if problems or missed:
        print(text)
        sys.exit("\n".join(problems + missed))
    print("%d marked lines, %d implicit rules: %s" % (len(marked), len(implicit), ", ".join(sorted(implicit))))


main()
