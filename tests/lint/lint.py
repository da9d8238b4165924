# SPDX-License-Identifier: MIT
"""What the tests of `slipstream lint` share: how it is called, and where a program's finding must be."""

import json
import os
import subprocess
import tempfile
import unittest

TOOL = os.environ["TESTED_TOOL"]
PROGRAMS = os.environ["LINT_PROGRAMS"]
SOURCES = os.environ["LINT_SOURCES"]
DRIVER = os.environ["SIMCUDA_FOLDER"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(SOURCES)))
LIMIT_S = 60


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SIMCUDA_", "CUDA_", "SLIPSTREAM_"))}
    return {**clean, "SLIPSTREAM_LIBRARY": os.environ["SLIPSTREAM_LIBRARY"], **variables}


def program(rule, form="fails"):
    return os.path.join(PROGRAMS, f"{rule}-{form}")


def finding_line(path):
    with open(path) as file:
        lines = [number for number, line in enumerate(file, 1) if "FINDING" in line]
    assert len(lines) == 1, path
    return lines[0]


class Lint(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def lint(self, *arguments, **variables):
        return subprocess.run([TOOL, "lint", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT,
                              env=environment(**variables))

    def json(self, *arguments, status=None, **variables):
        """The JSON of a run; `arguments` end with the program or folder."""
        path = self.path("lint.json")
        done = self.lint("--format", f"json={path}", *arguments, **variables)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        with open(path) as file:
            return json.load(file)

    def run_json(self, command, *arguments, status=None, **variables):
        return self.json("--driver", DRIVER, *arguments, "--", *([command] if isinstance(command, str) else command), status=status,
                         **variables)

    def record(self, command, name="records", **variables):
        """A folder with the record files of a run."""
        folder = self.path(name)
        done = subprocess.run([TOOL, "run", "--driver", DRIVER, "--out", folder, "--", *([command] if isinstance(command, str) else command)], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, env=environment(**variables))
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder


def failing(report):
    return [result for result in report["results"] if result["level"] in ("error", "warning") and not result["known"]]
