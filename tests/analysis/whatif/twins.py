#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What-if against the truth: the naive form of a twin is traced at level full, the wait is then really taken out, and the difference of the
two times must lie in the interval that was told for that wait, which must be at most 30 % wide.

    twins.py --tool SLIPSTREAM --twins PROGRAM [--driver FOLDER] [--user LIBRARY] [--rounds N] [--kernel US] [--host US] [--pairs N] NAME...

NAME: free, pageable, context (twins.c). Both forms run traced, by turns, so that what tracing costs is in both. Each measures its own loop.
One line a twin. Of each form the least disturbed run counts. Kernels and host work have known durations, so it is known how much a run was disturbed: pairs
are run until one of each form was not (2 pairs at least, at most --pairs); a machine too busy for that is skipped (77). How far the two least runs of each form
differ is the precision of the measured saving; it is printed, and a saving outside the interval by less than that is no proof against it.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

# Twin: function, rule whose wait is missing in the fixed form.
WAITS = {
    "free": ("cuMemFree", "round_free"),
    "pageable": ("cuMemcpyHtoD", "round_pageable"),
    "context": ("cuCtxSynchronize", "round_context"),
}
WIDEST = 0.30   # of the measured saving
QUIET = 0.015    # a run takes at most that much longer than its kernels and its host's work


class Failed(Exception):
    pass


def ideal(options, name, form):
    """ns of the kernels and the host's work alone; the work is shorter than a kernel, and runs beside one in the fixed form."""
    kernels = 2 if name == "context" else 1
    return options.rounds * (kernels * options.kernel + (options.host if form == "naive" else 0)) * 1000


def environment(base):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "LTTNG_HOME", "LTTNG_UST_"))
             and name not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    return {**clean, "TMPDIR": base}


def traced(options, base, name, form, number):
    """(ns of the loop, folder of the trace)"""
    folder = os.path.join(base, f"{name}-{form}-{number}")
    driver = ["--driver", options.driver] if options.driver else []
    command = [options.tool, "trace", "--level", "full", *driver, "--folder", folder, "--output", os.devnull, "--", options.twins, name, form,
               str(options.rounds), str(options.kernel), str(options.host)]
    done = subprocess.run(command, env=environment(base), capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 77:
        print(f"skip  {name}: {done.stderr.strip()}")
        sys.exit(77)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.returncode}: {done.stderr[-800:]}")
    if " lost" in done.stderr:
        raise Failed(f"{name}: {done.stderr.strip()}")
    return int(done.stdout), folder


def told(options, base, name, folder):
    """The row of the wait, and that of its process."""
    path = os.path.join(base, "report.json")
    done = subprocess.run([options.tool, "report", "--what-if", "--json", path, "--output", os.devnull, folder], env=environment(base),
                          capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise Failed(f"report {folder}: {done.returncode}: {done.stderr[-800:]}")
    with open(path, encoding="utf-8") as stream:
        what_if = json.load(stream)["what_if"]
    if what_if["why_none"]:
        raise Failed(f"{name}: no numbers: {what_if['why_none']}")
    function, place = WAITS[name]
    rows = [row for row in what_if["sites"] if row["function"].startswith(function) and place in row["where"]]
    if len(rows) != 1 or rows[0]["count"] != options.rounds:
        raise Failed(f"{name}: not one row with {options.rounds} waits of {function} in {place}: {what_if['sites']}")
    return rows[0], what_if["processes"][0]


def attempt(options, base, name):
    """(line, verdict): True, False, or None where the runs differ too much to tell."""
    times = {"naive": [], "fixed": []}
    folders = []
    for number in range(options.pairs):
        for form in ("naive", "fixed") if number % 2 else ("fixed", "naive"):
            ns, folder = traced(options, base, name, form, number)
            times[form].append(ns)
            if form == "naive":
                folders.append(folder)
            else:
                shutil.rmtree(folder)
        naive, fixed = min(times["naive"]), min(times["fixed"])
        quiet = all(min(times[form]) <= (1 + QUIET) * ideal(options, name, form) for form in times)
        if quiet and number:
            break
    saved = naive - fixed
    spread = sum(sorted(values)[1] - min(values) for values in times.values())
    row, process = told(options, base, name, folders[times["naive"].index(naive)])
    low, high = row["saving_low_ns"], row["saving_high_ns"]
    outside = max(low - saved, saved - high, 0)
    width = (high - low) / saved if saved > 0 else float("inf")
    line = (f"{name}: {options.rounds} rounds, naive {naive / 1e6:.3f} ms, fixed {fixed / 1e6:.3f} ms, saved "
            f"{saved / 1e6:.3f} ms, told {low / 1e6:.3f} to {high / 1e6:.3f} ms ({width * 100:.1f} % wide), "
            + (f"outside by {outside / 1e6:.3f} ms" if outside else "inside") + f", {len(folders)} pairs, the least differ by {spread / 1e6:.3f} ms, baseline off by "
            f"{process['unexplained_ns'] / 1e6:.3f} ms, {process['contradictions']} contradictions")
    if width <= WIDEST and outside == 0:
        return line, True
    if not quiet:
        return line, None
    return line, width <= WIDEST and outside <= spread


def judge(options, name):
    base = tempfile.mkdtemp(prefix="slip-", dir=options.out)
    try:
        line, verdict = attempt(options, base, name)
    except (Failed, subprocess.TimeoutExpired) as error:
        line, verdict = f"{name}: {error}", False
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print({True: "ok    ", False: "FAIL  ", None: "noisy "}[verdict] + line, flush=True)
    return verdict


class Parser(argparse.ArgumentParser):
    """What is wrong, in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def between(least, most):
    def number(text):
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from {least} to {most}")
        return int(text)
    return number


def parse(arguments=None):
    parser = Parser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--twins", required=True)
    parser.add_argument("--driver")
    parser.add_argument("--out", default=None)
    parser.add_argument("--rounds", type=between(1, 1000), default=10)
    parser.add_argument("--kernel", type=between(2, 1000000), default=20000)
    parser.add_argument("--host", type=between(1, 1000000), default=12000)
    parser.add_argument("--pairs", type=between(2, 1000), default=12)
    parser.add_argument("names", nargs="+", choices=sorted(WAITS))
    options = parser.parse_args(arguments)
    if options.host >= options.kernel:
        parser.error(f"--host {options.host}: the host's work must be shorter than a kernel, {options.kernel} us")
    return options


def main(arguments=None, head=None):
    """`head`: a line to begin with, once the arguments are right."""
    options = parse(arguments)
    if head:
        print(head, flush=True)
    for tool in ("lttng-sessiond", "babeltrace2"):
        if not shutil.which(tool):
            print(f"skip  no {tool} here")
            return 77
    verdicts = [judge(options, name) for name in options.names]
    if False in verdicts:
        return 1
    return 77 if None in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
