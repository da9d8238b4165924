# SPDX-License-Identifier: MIT
"""Each practitioner's case and each order rule: the failing program is found with rule and line, in its fixed twin nothing is."""

import concurrent.futures
import json
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
import lint  # noqa: E402

NAMES = sorted(name[:-2] for name in os.listdir(lint.SOURCES) if name.endswith(".c"))

# Programs that hang: the seconds after which they are ended are enough for all that comes before.
HANGS = {"case-09", "case-14", "case-15", "case-16", "case-17", "case-25"}
TIMEOUT_S = "5"
# Rules that need page protection.
GUARDED = {"case-20", "L02", "S04"}
# Rules that are notes or off by themselves are made to fail.
RAISED = {"S02": "S02", "S04": "S04", "S06": "S06", "S08": "S08", "case-28": "L17"}
# Rules that go by the time of a wait get a threshold of their own: elsewhere a moment without the processor must be no finding.
THRESHOLD = {"SLIPSTREAM_THRESHOLD": "1s"}
SHORT = {"SLIPSTREAM_THRESHOLD": "2ms"}
# Case 16: a driver that submits nothing while a call of another thread waits for the device.
VARIABLES = {"case-16": {"SIMCUDA_DRAIN_LOCK": "on"}, "case-19": SHORT, "case-22": SHORT, "case-24": SHORT}
# Without SIMCUDA_FOLDER the programs run on a real driver, whose folder is first on LD_LIBRARY_PATH then.
DRIVER = ["--driver", lint.DRIVER] if lint.DRIVER else []
# Where the sources lay when the programs were built, if not here (tests/gpu/lint.py).
if os.environ.get("LINT_ROOT"):
    DRIVER += ["--root", os.environ["LINT_ROOT"]]
# What the simulated driver cannot show, or no rule finds yet, and why.
NOT_FOUND = {
    "S04": "managed memory is not guarded yet",
}


def marked(name):
    """{(rule, line)} of the program's comments."""
    found = set()
    with open(os.path.join(lint.SOURCES, f"{name}.c")) as file:
        for number, line in enumerate(file, 1):
            for rules in re.findall(r"/\* FOUND: ([^*]*) \*/$", line.rstrip()):
                found |= {(rule, number) for rule in rules.split()}
    return found


class Cases(lint.Lint):
    def check(self, name, form):
        """(exit status, {(rule, line)} of what fails, everything that was said)."""
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--format", f"json={folder}/lint.json", *DRIVER]
            if name in RAISED and name not in NOT_FOUND:
                with open(f"{folder}/config.yaml", "w") as file:
                    file.write(f"version: 1\nrules: {{{RAISED[name]}: warning}}\n")
                arguments += ["--config", f"{folder}/config.yaml"]
            if name in HANGS:
                arguments += ["--timeout", TIMEOUT_S]
            if name in GUARDED:
                arguments.append("--guard")
            command = [os.path.join(lint.PROGRAMS, f"check-{name}"), form]
            done = self.lint(*arguments, "--", *command, **{**THRESHOLD, **VARIABLES.get(name, {})})
            if not os.path.exists(f"{folder}/lint.json"):
                return done.returncode, set(), done.stdout + done.stderr
            with open(f"{folder}/lint.json") as file:
                report = json.load(file)
        source = os.path.relpath(os.path.join(lint.SOURCES, f"{name}.c"), lint.ROOT)
        found = set()
        for result in lint.failing(report):
            place = result["place"] or {}
            found.add((result["rule"], place.get("line") if place.get("file") == source else str(place)))
        return done.returncode, found, done.stdout + done.stderr

    def each(self, form, names):
        """The programs hang and sleep more than they work: several at once."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return dict(zip(names, pool.map(lambda name: self.check(name, form), names)))

    def test_the_failing_program_of_each_case_is_found_with_rule_and_line(self):
        for name, (status, found, said) in self.each("failing", [name for name in NAMES if name not in NOT_FOUND]).items():
            with self.subTest(name):
                self.assertEqual((found, status), (marked(name), 1), said)

    def test_the_fixed_program_of_each_case_is_clean(self):
        for name, (status, found, said) in self.each("fixed", NAMES).items():
            with self.subTest(name):
                self.assertEqual((found, status), (set(), 0), said)

    def test_what_is_not_found_has_a_program_and_a_reason(self):
        for name, reason in NOT_FOUND.items():
            self.assertIn(name, NAMES)
            self.assertTrue(reason)


if __name__ == "__main__":
    unittest.main()
