# SPDX-License-Identifier: MIT
"""What the tests of real clients share: run one on the simulated driver with and without slipstream, read the report."""
import json
import os
import subprocess
import sys
import tempfile

SKIP = 77


class Build:
    """Where the parts under test are; from the build folder that Meson passes."""

    def __init__(self, build_root, source_root):
        self.tool = os.path.join(build_root, "tools", "slipstream")
        self.library = os.path.join(build_root, "shim", "libslipstream.so")
        self.driver = os.path.join(build_root, "tests", "simcuda")
        self.source_root = source_root

    def venv_python(self):
        """The interpreter that has the clients; ends the test where there is none."""
        python = os.path.join(self.source_root, "build", "venv", "bin", "python")
        if os.path.exists(python):
            return python
        reason_file = os.path.join(self.source_root, "build", "venv.reason")
        try:
            with open(reason_file) as file:
                reason = file.read().strip()
        except FileNotFoundError:
            reason = "skipped: tests/clients/prepare has not run"
        print(reason)
        sys.exit(SKIP if reason.startswith("skipped") else 1)

    def environment(self):
        environment = dict(os.environ)
        for name in [n for n in environment if n.startswith("SLIPSTREAM_")]:
            del environment[name]
        environment.pop("LD_PRELOAD", None)
        return environment

    def run_bare(self, command):
        """On the simulated driver, without slipstream."""
        environment = self.environment()
        old = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = self.driver + (":" + old if old else "")
        return finished(command, subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                                                capture_output=True, text=True, timeout=240))

    def run_observed(self, command, *options):
        """Under `slipstream run`; returns what it printed and the report."""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            whole = [self.tool, "run", "--driver", self.driver, "--json", report, "--output",
                     os.path.join(folder, "report.txt"), *options, "--", *command]
            result = finished(whole, subprocess.run(whole, env=self.environment(), stdin=subprocess.DEVNULL,
                                                    capture_output=True, text=True, timeout=240))
            with open(report) as file:
                return result, json.load(file)


def finished(command, result):
    if result.returncode != 0:
        sys.exit("%s\nended with status %d\n%s\n%s" % (" ".join(command), result.returncode, result.stdout[-2000:],
                                                     result.stderr[-2000:]))
    return result


def expect(what, got, wanted):
    if got != wanted:
        sys.exit("%s: got %r, expected %r" % (what, got, wanted))


def expect_calls(report, wanted):
    """wanted: exported name -> how often the client called it."""
    counted = report["calls"]["by_function"]
    wrong = {name: (counted.get(name, 0), times) for name, times in wanted.items() if counted.get(name, 0) != times}
    if wrong:
        sys.exit("calls counted / calls made differ: %s\nall counts: %s" % (wrong, counted))
    expect("unwrapped calls", report["calls"]["unwrapped"], 0)
