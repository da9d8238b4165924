#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The open measurements of mode fix, one after the other, on one machine: README.md says which question each answers.

    batch.py --build BUILD --out FOLDER [--driver FOLDER] [--only NAME,...] [--cold MIB] [--seed N] [--quick]

Each prints into FOLDER/NAME.txt and, where it can, FOLDER/NAME.json. Prints a line for each: how it ended, and its seconds; and the last lines of those
that missed a limit. With a GPU and 16 processors all of it takes about twelve minutes; `copies-fix` and `copies-cold` are seven of them. Fails if one could not be
measured; a limit that was missed is a result.
"""
import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "gpu"))
from machine import what_ran  # noqa: E402

# Name, program, words; those with a program of this folder know --build, --driver, --seed, --json and --quick.
PARTS = [
    ("machine", "stage-wide", ["cpu"]),
    ("sweep", "stage_sweep.py", []),
    ("order", "behind.py", ["--parts", "order", "--check"]),
    ("free", "behind.py", ["--parts", "free", "--check"]),
    ("upload", "upload.py", ["--check"]),
    ("copies-fix", "copies.py", ["--sources", "warm", "--check"]),
    ("copies-cold", "copies.py", ["--sources", "cold", "--check"]),
    ("copies-observe", "copies.py", ["--modes", "observe", "--sources", "warm", "--few", "--milliseconds", "150", "--largest", str(16 << 20)]),
    ("copies-control", "copies.py", ["--control", "--sources", "warm", "--few", "--milliseconds", "150", "--largest", str(64 << 20)]),
]
# These measure with cold memory.
COLD = ("stage_sweep.py", "upload.py", "copies.py")


def command_of(options, name, program, words):
    if not program.endswith(".py"):
        return [os.path.join(options.build, "tests/bench", program), *words]
    command = [sys.executable, os.path.join(HERE, program), "--build", options.build, *words, "--seed", str(options.seed),
               "--json", os.path.join(options.out, name + ".json")]
    if options.cold and program in COLD:
        command += ["--cold", options.cold]
    return command + (["--driver", options.driver] if options.driver else []) + (["--quick"] if options.quick else [])


def one(options, name, program, words):
    path, figures, begin = os.path.join(options.out, name + ".txt"), os.path.join(options.out, name + ".json"), time.monotonic()
    if os.path.exists(figures):
        os.remove(figures)
    with open(path, "w", encoding="utf-8") as file:
        try:
            status = subprocess.run(command_of(options, name, program, words), stdout=file, stderr=subprocess.STDOUT, timeout=590, check=False).returncode
        except subprocess.TimeoutExpired:
            status = "no end after 590 s"
    how = {0: "ok", 1: "missed, or failed", 2: "undecided", 77: "nothing to measure here"}.get(status, f"status {status}")
    print(f"{name:15} {time.monotonic() - begin:6.1f} s  {how}", flush=True)
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if status:
        print("    " + "\n    ".join(line[:160] for line in lines[-4:]), flush=True)
    # A missed limit comes behind the figures, which are written in JSON.
    return status == 0 or (status in (1, 2) and os.path.exists(figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--out", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath, help="folder of the driver to use (the simulated one)")
    parser.add_argument("--only", default=",".join(name for name, _, _ in PARTS))
    parser.add_argument("--cold", metavar="MIB", help="where the last-level cache is not what the processor says of it: twice its size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    names = options.only.split(",")
    unknown = set(names) - {name for name, _, _ in PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(what_ran(options.build), flush=True)
    measured = [one(options, *part) for part in PARTS if part[0] in names]
    return 0 if all(measured) else 1


if __name__ == "__main__":
    sys.exit(main())
