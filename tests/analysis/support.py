# SPDX-License-Identifier: MIT
"""What the tests of the analysis share: the command, babeltrace2 with the plugin, a folder for each test, golden files.

Golden files are rewritten with UPDATE_GOLDEN=1 in the environment; look at the difference before it is committed.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest

import jsonschema

TOOL = os.environ["TESTED_TOOL"]
ANALYZE = os.environ["TESTED_ANALYZE"]
PLUGIN = os.path.dirname(os.environ["TESTED_PLUGIN"])
DUMP = os.environ["ANALYSIS_DUMP"]
SOURCE = os.environ["SOURCE_ROOT"]
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")

with open(os.path.join(SOURCE, "tools", "slipstream.schema.json"), encoding="utf-8") as schema_file:
    SCHEMA = jsonschema.Draft202012Validator(json.load(schema_file))



def plugin_environment():
    """A plugin of a sanitizer build wants its runtime in babeltrace2, from the start: the thread sanitizer's finds no room for its
    thread-local memory later. What babeltrace2 itself leaks is not ours to tell."""
    needed = subprocess.run(["objdump", "-p", os.environ["TESTED_PLUGIN"]], capture_output=True, text=True, check=True).stdout
    for name in ("asan", "tsan"):
        if f"lib{name}.so" in needed:
            runtime = subprocess.run(["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True).stdout.strip()
            return {**os.environ, "LD_PRELOAD": os.path.realpath(runtime), "ASAN_OPTIONS": "detect_leaks=0"}
    return None


PLUGIN_ENVIRONMENT = plugin_environment()
SANITIZED = PLUGIN_ENVIRONMENT is not None
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def golden(name):
    return os.path.join(GOLDEN, name + ".trace")


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def load(self, path):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        SCHEMA.validate(report)
        return report

    def run_command(self, *command, status=0, **options):
        result = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=120, check=False, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def report(self, *arguments, status=0):
        """`slipstream report`: what it printed."""
        return self.run_command(TOOL, "report", *arguments, status=status)

    def report_json(self, *arguments, status=0):
        result = self.report("--json", self.path("report.json"), *arguments, status=status)
        return self.load(self.path("report.json")), result

    def babeltrace(self, *arguments, status=0):
        return self.run_command("babeltrace2", "--plugin-path", PLUGIN, *arguments, status=status, env=PLUGIN_ENVIRONMENT)

    def text_source(self, path):
        return "--component=source.slipstream.text", f'--params=path="{path}"'

    def check_golden(self, name, text):
        path = os.path.join(GOLDEN, name)
        if os.environ.get("UPDATE_GOLDEN"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(text, file.read(), f"{name} differs; UPDATE_GOLDEN=1 writes it anew")
