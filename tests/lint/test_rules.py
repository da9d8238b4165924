# SPDX-License-Identifier: MIT
"""Each rule finds its program with rule and line, and nothing in the fixed twin; what is not checked is told."""

import os
import subprocess
import sys
import unittest

import lint

sys.path.insert(0, os.path.join(lint.ROOT, "tools/gen"))
import lint_table  # noqa: E402

RULES = {"L04": "L04", "L11": "L11", "L12": "L12", "L13": "L13", "L14": "L14", "L18": "L18", "implicit-wait": "implicit-wait/d2h"}
UNCHECKED = {rule.id for rule in lint_table.load(os.path.join(lint.ROOT, "shim/catalogue"))[0] if rule.needs}


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
        # The simulated driver's pool grows at no cost: the failing program of L17 shows on a device only.
        for name in (*RULES, "L17"):
            with self.subTest(name):
                report = self.run_json(lint.program(name, "fixed"), status=0)
                self.assertEqual(lint.failing(report), [])
                self.assertEqual(report["verdict"], "clean")

    def marked(self, name, report):
        """{rule: lines} of what fails, and {word: line} of the comments of the program."""
        found, comments = {}, {}
        for result in lint.failing(report):
            found.setdefault(result["rule"], set()).add(result["place"]["line"])
        with open(os.path.join(lint.SOURCES, f"{name}.c")) as file:
            for number, line in enumerate(file, 1):
                if line.rstrip().endswith("*/") and "; /* " in line:
                    comments[line.split("/* ")[1].split(" */")[0]] = number
        return found, comments

    def test_implicit_waits_without_a_rule_of_their_own_are_found(self):
        found, comments = self.marked("copies", self.run_json(lint.program("copies"), status=1))
        self.assertEqual(found, {f"implicit-wait/{slug}": {line} for slug, line in comments.items()})
        self.assertEqual(len(found), 4)
        self.assertEqual(lint.failing(self.run_json(lint.program("copies", "fixed"), status=0)), [])

    def test_pinned_memory_and_registrations_drain_the_device(self):
        report = self.run_json(lint.program("host-free"), status=1)
        self.assertEqual({(result["rule"], result["function"]) for result in lint.failing(report)},
                         {("L12", "cuMemFreeHost"), ("L12", "cuMemHostUnregister")})
        self.assertEqual(lint.failing(self.run_json(lint.program("host-free", "fixed"), status=0)), [])

    def test_a_budget_of_a_region_of_the_program(self):
        config = self.file("config.yaml", "version: 1\nrules: {implicit-wait: note}\nbudgets: [{region: step, implicit: 0}]\n")
        report = self.run_json(lint.program("budget"), "--config", config, status=1)
        self.assertEqual([(result["rule"], result["level"], result["budget"]) for result in lint.failing(report)], [("budget", "error", "step")])
        note = [result for result in report["results"] if result["rule"] == "implicit-wait/d2h"]
        self.assertEqual([[region["name"] for region in result["regions"]] for result in note], [["step"]])
        self.assertEqual(note[0]["place"]["line"], lint.finding_line(os.path.join(lint.SOURCES, "budget.c")))
        report = self.run_json(lint.program("budget", "fixed"), "--config", config, status=0)
        self.assertEqual((lint.failing(report), report["left_out"]["allowed_scopes"]), ([], 1))

    def test_unchecked_rules_are_told(self):
        done = self.lint("--rules")
        self.assertEqual(done.returncode, 0)
        told = {line.split()[0] for line in done.stdout.splitlines() if ": not checked, " in line}
        self.assertEqual(told, UNCHECKED)
        report = self.run_json(lint.program("L12", "fixed"), status=0)
        self.assertEqual(set(report["unchecked_rules"]), UNCHECKED)
        done = self.lint("--driver", lint.DRIVER, "--", lint.program("L12", "fixed"))
        self.assertIn(f"\nnot checked in this version (slipstream lint --rules): {', '.join(sorted(UNCHECKED))}\n", done.stderr)

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
