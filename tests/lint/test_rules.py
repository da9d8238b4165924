# SPDX-License-Identifier: MIT
"""Each rule finds its program with rule and line, and nothing in the fixed twin; what is not checked is told."""

import os
import subprocess
import unittest

import lint

RULES = {"L04": "L04", "L11": "L11", "L12": "L12", "L13": "L13", "L14": "L14", "L18": "L18", "implicit-wait": "implicit-wait/d2h"}
UNCHECKED = {"L01", "L02", "L03", "L05", "L06", "L07", "L08", "L09", "L10", "L15", "L16", *(f"S{number:02}" for number in range(1, 10))}


class Rules(lint.Lint):
    def test_failing_programs_are_found_with_rule_and_line(self):
        for name, rule in RULES.items():
            with self.subTest(rule):
                report = self.run_json(lint.program(name), status=1)
                source = os.path.join(lint.SOURCES, f"{name}.c")
                found = [result for result in lint.failing(report) if result["rule"] == rule and
                         (result["place"]["file"], result["place"]["line"]) ==
                         (os.path.relpath(source, lint.ROOT), lint.finding_line(source))]
                self.assertEqual(len(found), 1, report["results"])
                self.assertEqual({result["rule"] for result in lint.failing(report)}, {rule})
                self.assertEqual(found[0]["place"]["function"], "step")
                self.assertEqual(report["verdict"], "findings")

    def test_fixed_programs_are_clean(self):
        for name in RULES:
            with self.subTest(name):
                report = self.run_json(lint.program(name, "fixed"), status=0)
                self.assertEqual(lint.failing(report), [])
                self.assertEqual(report["verdict"], "clean")

    def test_unchecked_rules_are_told(self):
        done = self.lint("--rules")
        self.assertEqual(done.returncode, 0)
        told = {line.split()[0] for line in done.stdout.splitlines() if ": not checked, " in line}
        self.assertEqual(told, UNCHECKED)
        report = self.run_json(lint.program("L12", "fixed"), status=0)
        self.assertEqual(set(report["unchecked_rules"]), UNCHECKED)
        done = self.lint("--driver", lint.DRIVER, "--", lint.program("L12", "fixed"))
        self.assertIn(f"{len(UNCHECKED)} rules are not checked in this version", done.stderr)

    def test_record_files_give_the_same_results(self):
        folder = self.record(lint.program("L12"))
        direct = lint.failing(self.run_json(lint.program("L12"), status=1))
        again = lint.failing(self.json(folder, status=1))
        keys = ("rule", "place", "frames", "fingerprint", "function")
        self.assertEqual([[result[key] for key in keys] for result in direct], [[result[key] for key in keys] for result in again])

    def test_equal_records_give_equal_bytes(self):
        folder = self.record(lint.program("L04"))
        outputs = {self.lint("--format", form, folder).stdout for form in ("sarif",) for _ in range(3)}
        self.assertEqual(len(outputs), 1)

    def test_the_program_keeps_its_stdout(self):
        done = subprocess.run([lint.TOOL, "lint", "--driver", lint.DRIVER, "--", "sh", "-c", f"echo hello; {lint.program('L12')}"],
                              capture_output=True, text=True, timeout=lint.LIMIT_S, check=False, env=lint.environment())
        self.assertEqual((done.returncode, done.stdout), (1, "hello\n"))
        self.assertIn("L12 free-drains-device", done.stderr)


if __name__ == "__main__":
    unittest.main()
