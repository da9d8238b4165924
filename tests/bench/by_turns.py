# SPDX-License-Identifier: MIT
"""Starts a benchmark that takes turns within one process (sides.h) under the shim, and sees in its record whether the rewrites were on; used by
copies.py, behind.py and upload.py."""
import json
import os
import subprocess
import sys
import tempfile

from place import record_place

NOTHING_HERE = 77


def add_options(parser):
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", type=os.path.abspath, help="folder of the driver to use (the simulated one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the figures here")


def run(options, program, arguments, mode, relax="free", rewrites="pinned,frees,staging", more=None):
    """Lines of its output, split into words; and of the report: the rewrites by name. `more`: other variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    if options.driver:
        environment.update(LD_LIBRARY_PATH=options.driver, SIMCUDA_COSTS="measured")
    with tempfile.TemporaryDirectory(dir=record_place()) as folder:
        command = [os.path.join(options.build, "tests/bench", program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=590, check=False, env={
            **environment, "LD_PRELOAD": os.path.join(options.build, "shim/libslipstream.so"), "SLIPSTREAM_MODE": mode, "SLIPSTREAM_FIX": rewrites,
            "SLIPSTREAM_RELAX": relax, "SLIPSTREAM_OUT": folder, **(more or {})})
        if done.returncode == NOTHING_HERE:
            print(done.stderr.strip())
            sys.exit(NOTHING_HERE)
        if done.returncode:
            sys.exit(f"{program}: status {done.returncode}: {done.stderr.strip()}")
        report = os.path.join(folder, "report.json")
        # Its status tells of waits, too.
        subprocess.run([os.path.join(options.build, "tools/slipstream"), "report", "--json=" + report, folder], env=environment,
                       capture_output=True, check=False)
        with open(report, encoding="utf-8") as stream:
            told = json.load(stream)
    bad = [note["text"] for note in told["coverage"]["notes"] if note["code"] == "config"]
    if bad:
        sys.exit(f"{program}: {bad[0]}")
    if mode == "fix":
        objections = [note for note in json.dumps(told).split('"') if note.startswith("off: ")]
        if objections:
            sys.exit(f"{program}: rewrites were off: {objections[0]}")
    return [line.split() for line in done.stdout.splitlines()], {one["name"]: one for one in told.get("rewrites", [])}


def write_json(options, what):
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump(what, stream, indent=1)
