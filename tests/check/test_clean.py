# SPDX-License-Identifier: MIT
"""Correct programs have no finding of level error or warning, and those that come close to a rule none of that rule either."""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
import lint  # noqa: E402

CLEAN = os.path.join(lint.PROGRAMS, "check-clean")
NAMES = subprocess.run([CLEAN], capture_output=True, text=True, check=True).stdout.split()
# The rules of class order that are notes by themselves fail here, too.
CONFIG = "version: 1\nrules: {S02: error, S06: error, S08: error, L17: error}\n"
# Without SIMCUDA_FOLDER the programs run on a real driver, whose folder is first on LD_LIBRARY_PATH then.
DRIVER = ["--driver", lint.DRIVER] if lint.DRIVER else []
# Where the sources lay when the programs were built, if not here (tests/gpu/lint.py).
if os.environ.get("LINT_ROOT"):
    DRIVER += ["--root", os.environ["LINT_ROOT"]]
# A moment without the processor is no finding.
THRESHOLD = "1s"


class Clean(lint.Lint):
    def found(self, *command):
        """(exit status, [finding in words], everything that was said)."""
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/config.yaml", "w") as file:
                file.write(CONFIG)
            done = self.lint("--format", f"json={folder}/lint.json", "--config", f"{folder}/config.yaml", *DRIVER, "--", *command,
                             SLIPSTREAM_THRESHOLD=THRESHOLD)
            with open(f"{folder}/lint.json") as file:
                report = json.load(file)
        return done.returncode, [(result["rule"], result["message"]) for result in lint.failing(report)], done.stdout + done.stderr

    def expect_clean(self, commands):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = pool.map(lambda command: self.found(*command), commands.values())
            for name, (status, found, said) in zip(commands, results):
                with self.subTest(name):
                    self.assertEqual((status, found), (0, []), said)

    def test_nothing_is_said_of_programs_that_come_close(self):
        self.assertGreaterEqual(len(NAMES), 40)
        self.expect_clean({name: [CLEAN, name] for name in NAMES})

    def test_nothing_is_said_of_pipelines_with_futures_and_of_the_fixed_programs_of_the_other_rules(self):
        # Long enough that what it pins at start is done at start.
        commands = {"futures": [os.environ["FUTURE_PIPELINE"], "3000"]}
        for rule in ("L04", "L11", "L12", "L13", "L14", "L17", "L18", "copies", "host-free"):
            commands[rule] = [os.path.join(os.environ["LINT_FIXED"], f"{rule}-fixed")]
        self.expect_clean(commands)


if __name__ == "__main__":
    unittest.main()
