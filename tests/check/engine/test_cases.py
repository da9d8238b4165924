# SPDX-License-Identifier: MIT
"""Each case of the program: exactly the marked lines are found, with the marked other side, and the others are clean.

    test_cases.py [-k NAME]
"""
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TOOL, CASES, DRIVER = (os.environ[name] for name in ("TESTED_TOOL", "CHECK_CASES", "SIMCUDA_FOLDER"))
RULE = re.compile(r"/\* ([LS]\d\d) \*/")


def environment():
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SIMCUDA_", "CUDA_", "SLIPSTREAM_"))}
    return {**clean, "SLIPSTREAM_LIBRARY": os.environ["SLIPSTREAM_LIBRARY"]}


def marked():
    """{case: {(file, line): rule}}, and the lines of the other sides."""
    cases, others = {}, set()
    for path in sorted(glob.glob(os.path.join(HERE, "cases_*.c"))):
        name, relative = None, os.path.relpath(path, ROOT)
        with open(path) as file:
            for number, line in enumerate(file, 1):
                begin = re.match(r"static void case_(\w+)\(void\)", line)
                if begin:
                    name = begin[1]
                    cases[name] = {}
                if line.startswith("}"):
                    name = None
                rule = RULE.search(line)
                if rule:
                    cases[name][relative, number] = rule[1]
                if "/* other */" in line:
                    others.add((relative, number))
    return cases, others


class Cases(unittest.TestCase):
    pass


def judge(test, name, expected, others):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lint.json")
        done = subprocess.run([TOOL, "lint", "--driver", DRIVER, "--format", f"json={path}", "--", CASES, name], capture_output=True, text=True,
                              timeout=60, check=False, cwd=ROOT, env=environment())
        test.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        with open(path) as file:
            report = json.load(file)
    rules = {rule for case in CASES_MARKED.values() for rule in case.values()}
    found = [result for result in report["results"] if result["rule"] in rules]
    places = {(result["place"]["file"], result["place"]["line"]): result["rule"] for result in found if result["place"]}
    test.assertEqual(places, expected, json.dumps(found, indent=1))
    test.assertEqual(report["reasons"], [])
    for result in found:
        if result["other"]:
            test.assertIn((result["other"]["place"]["file"], result["other"]["place"]["line"]), others, json.dumps(result, indent=1))
            test.assertIn("; the other side: ", result["message"])


CASES_MARKED, OTHERS = marked()
for case in CASES_MARKED:
    def run(self, case=case):
        judge(self, case, CASES_MARKED[case], OTHERS)
    setattr(Cases, f"test_{case}", run)


class Program(unittest.TestCase):
    def test_its_cases_are_those_of_its_sources(self):
        listed = subprocess.run([CASES], capture_output=True, text=True, check=True, env={**os.environ, "LD_LIBRARY_PATH": DRIVER}).stdout.split()
        self.assertEqual(sorted(listed), sorted(CASES_MARKED))


class Recorded(unittest.TestCase):
    """What is found while the program runs is in its record files, and in a trace."""

    def found(self, path):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "lint.json")
            done = subprocess.run([TOOL, "lint", "--format", f"json={out}", path], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
                                  env=environment())
            with open(out) as file:
                return done.returncode, [(result["rule"], result["place"]["line"], result["other"]["place"]["line"]) for result in json.load(file)["results"]
                                         if result["other"]]

    def expected(self):
        (place,) = CASES_MARKED["two_writes"]
        return place[1]

    def test_in_record_files(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([TOOL, "run", "--check=order", "--driver", DRIVER, "--out", folder, "--", CASES, "two_writes"], capture_output=True, timeout=60,
                           check=True, env=environment())
            status, found = self.found(folder)
        self.assertEqual((status, [result[:2] for result in found]), (1, [("S09", self.expected())]))

    @unittest.skipUnless(os.environ.get("HAS_TRACE"), "built without LTTng")
    def test_in_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([TOOL, "trace", "--check=order", "--driver", DRIVER, "--", CASES, "two_writes"], capture_output=True, timeout=120, check=True,
                           cwd=folder, env={**environment(), "LTTNG_HOME": folder})
            (trace,) = glob.glob(os.path.join(folder, "slipstream-trace-*"))
            status, found = self.found(trace)
        self.assertEqual((status, [result[:2] for result in found]), (1, [("S09", self.expected())]))


if __name__ == "__main__":
    unittest.main()
