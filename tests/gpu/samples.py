#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Public CUDA samples, unmodified: raw, in mode observe, in mode fix with all rewrites, and with every relaxation: the same output, and how long each takes.

    samples.py --build BUILD --bin FOLDER --out OUT [--list FILE] [--rounds N] [--minutes N] [--only NAME,...] [--least N] [--seed N]
    samples.py --as-json [--list FILE]          prints the list as JSON, for a machine whose Python has no YAML

BUILD is a finished build or what pack.sh left, FOLDER has the built programs, samples.yaml names them and tells how they are built and what of their
output is not compared. A program is run raw twice first; one whose masked output differs between those is skipped, with the line. Then every setting runs once
a round, in random order, in a folder of its own. Status, output and errors must be those of raw. OUT gets samples.json, samples.md (a table for RESULTS.md) and,
of what differs, both outputs. Fails if anything differs, or if fewer programs ran than `--least`.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "bench")]
from fix import rewritten  # noqa: E402
from machine import what_ran  # noqa: E402
from place import record_place  # noqa: E402
from run_all import Suite  # noqa: E402

REWRITES = "pinned,frees,staging,streams"
SETTINGS = {
    "raw": None,
    "observe": {"SLIPSTREAM_MODE": "observe"},
    "fix": {"SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": REWRITES, "SLIPSTREAM_RELAX": "free"},
    "fix relaxed": {"SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": REWRITES, "SLIPSTREAM_RELAX": "free,order"},
}
# Of a program that hangs, raw or not.
LIMIT_S = 60
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\b(?:inf|nan)\b")
# What is told of a rewrite in the table.
TOLD = {"pinned": "hits", "frees": "hits", "staging": ("to_device", "from_device"), "streams": "redirected"}


def read_list(path):
    with open(path, encoding="utf-8") as stream:
        if path.endswith(".json"):
            return json.load(stream)
        import yaml  # pylint: disable=import-outside-toplevel

        return yaml.safe_load(stream)


def masked(text, program, common):
    """Lines with the numbers of those that tell times replaced, without those that are never the same."""
    lines = []
    for line in text.decode(errors="replace").splitlines():
        if any(re.search(pattern, line) for pattern in program.get("drop", [])):
            continue
        if any(re.search(pattern, line) for pattern in common + program.get("mask", [])):
            # A number that became wider moves what stands beside it.
            line = re.sub(r"\s+", " ", NUMBER.sub("#", line))
        lines.append(line.rstrip())
    return sorted(lines) if program.get("sort") else lines


def first_difference(expected, found):
    for at, line in enumerate(expected):
        if at >= len(found) or found[at] != line:
            return f"line {at + 1}: {line[:100]!r}, now {found[at][:100]!r}" if at < len(found) else f"line {at + 1} is missing: {line[:100]!r}"
    return f"more lines, from {found[len(expected)][:100]!r} on" if len(found) > len(expected) else ""


class Samples:
    def __init__(self, options):
        self.options, self.suite = options, Suite(options)
        listed = read_list(options.list)
        self.common = listed["mask"]
        self.programs = [one for one in listed["programs"] if not options.only or one["name"] in options.only.split(",")]
        self.turns = random.Random(options.seed)
        self.rows = []

    def once(self, program, setting, folder=None):
        command = [os.path.join(os.path.abspath(self.options.bin), program["name"]), *map(str, program.get("arguments", []))]
        more = {} if setting == "raw" else {"LD_PRELOAD": self.suite.shim, "SLIPSTREAM_OUT": folder, **SETTINGS[setting]}
        status, stdout, stderr, seconds = self.suite.run(f"{program['name']} {setting}", command, LIMIT_S, **more)
        return status, masked(stdout, program, self.common), masked(stderr, program, self.common), seconds

    def raw(self, program):
        """(status, output, errors) that all settings must have; None: it cannot be compared, and that is told."""
        name = program["name"]
        if not os.access(os.path.join(self.options.bin, name), os.X_OK):
            self.suite.say("skip", name, "was not built")
            return None
        first, second = self.once(program, "raw"), self.once(program, "raw")
        if first[0] != program.get("status", 0):
            self.suite.say("skip", name, f"does not run raw: status {first[0]}: {' '.join((first[1] + first[2])[-2:])[:200]}")
            return None
        fault = first_difference(first[1], second[1]) or first_difference(first[2], second[2])
        if fault or first[0] != second[0]:
            self.suite.say("skip", name, f"raw is not the same from run to run: {fault or 'the status'}")
            return None
        return first[:3]

    def compare(self, program, setting, expected, ran):
        if ran[0] != expected[0]:
            return f"{setting}: status {ran[0]}, not {expected[0]}: {' '.join((ran[1] + ran[2])[-2:])[:200]}"
        fault = first_difference(expected[1], ran[1]) or first_difference(expected[2], ran[2])
        if not fault:
            return ""
        with open(os.path.join(self.suite.out, f"differs-{program['name']}-{setting}.txt".replace(" ", "-")), "w", encoding="utf-8") as file:
            for title, lines in (("raw", expected), (setting, ran)):
                file.write(f"== {title}\n" + "\n".join(lines[1]) + "\n-- errors\n" + "\n".join(lines[2]) + "\n")
        return f"{setting}: {fault}"

    def one(self, program):
        expected = self.raw(program)
        if not expected:
            return
        seconds, faults, rewrites, left = {setting: [] for setting in SETTINGS}, [], {}, {}
        for number in range(self.options.rounds):
            order = list(SETTINGS)
            self.turns.shuffle(order)
            for setting in order:
                folder = tempfile.mkdtemp(prefix="slipstream-samples-", dir=record_place())
                try:
                    ran = self.once(program, setting, folder)
                    seconds[setting].append(ran[3])
                    fault = self.compare(program, setting, expected, ran)
                    if fault:
                        faults.append(fault)
                    elif setting != "raw" and not os.listdir(folder):
                        faults.append(f"{setting}: no record: the shim was not there")
                    elif setting.startswith("fix") and number == 0:
                        rewrites[setting], left[setting] = rewritten(self.suite, folder)
                        faults += [f"{setting}: {text}" for text in left[setting] if "bad value" in text]
                finally:
                    shutil.rmtree(folder)
        medians = {setting: statistics.median(each) for setting, each in seconds.items()}
        times = ", ".join(f"{setting} {value:.3f}" for setting, value in medians.items())
        self.suite.say("FAIL" if faults else "ok", program["name"], "; ".join(faults[:2]) if faults else times + " s")
        self.rows.append({"program": program["name"], "arguments": program.get("arguments", []), "same": not faults, "faults": faults, "seconds": seconds,
                          "median_s": medians, "rewrites": rewrites, "left": left})

    def table(self):
        lines = [
            "### Public CUDA samples", "",
            f"{what_ran(self.suite.build)}; {self.options.rounds} rounds, medians of the whole process in s, start-up of the driver included.", "",
            "| program | same output | raw | observe | fix | fix relaxed | rewritten |", "|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            told = []
            for name, counts in row["rewrites"].get("fix", {}).items():
                keys = TOLD.get(name, ())
                number = sum(counts.get(key, 0) for key in ((keys,) if isinstance(keys, str) else keys))
                told += [f"{name} {number}"] if number else []
            figures = " | ".join(f"{row['median_s'][setting]:.3f}" for setting in SETTINGS)
            lines.append(f"| {' '.join([row['program'], *map(str, row['arguments'])])} | {'yes' if row['same'] else 'NO'} | {figures} | {', '.join(told) or 'nothing'} |")
        return "\n".join(lines) + "\n"

    def run(self):
        for program in self.programs:
            if self.suite.left() < 2:
                self.suite.say("skip", program["name"], "no time left")
                continue
            try:
                self.one(program)
            except (OSError, ValueError, KeyError) as error:
                self.suite.say("FAIL", program["name"], f"{type(error).__name__}: {error}")
        with open(os.path.join(self.suite.out, "samples.json"), "w", encoding="utf-8") as file:
            json.dump({"ran": what_ran(self.suite.build), "seed": self.options.seed, "rows": self.rows}, file, indent=1)
        with open(os.path.join(self.suite.out, "samples.md"), "w", encoding="utf-8") as file:
            file.write(self.table())
        same = sum(row["same"] for row in self.rows)
        print(f"{same} of {len(self.rows)} programs have the same output in every setting; {self.suite.skipped} skipped; seed {self.options.seed}")
        if same < self.options.least:
            print(f"fewer than {self.options.least}", file=sys.stderr)
        return 1 if self.suite.failed or same < self.options.least else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build")
    parser.add_argument("--bin", metavar="FOLDER", help="with the built programs")
    parser.add_argument("--out")
    parser.add_argument("--list", default=os.path.join(HERE, "samples.yaml"), help="YAML, or JSON by its name")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--only", metavar="NAME,...")
    parser.add_argument("--least", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--as-json", action="store_true")
    options = parser.parse_args()
    if options.as_json:
        json.dump(read_list(options.list), sys.stdout, indent=1)
        return 0
    if not options.build or not options.bin or not options.out or options.rounds < 1:
        parser.error("--build, --bin and --out are needed, and at least one round")
    return Samples(options).run()


if __name__ == "__main__":
    sys.exit(main())
