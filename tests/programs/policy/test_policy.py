# SPDX-License-Identifier: MIT
"""Mode fix makes no rewrite under tools, and says which. The program ends with 7 where pinned memory is used again, else with 0."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

TOOL = os.environ["TESTED_TOOL"]
SIMCUDA = os.environ["SIMCUDA_FOLDER"]
PROGRAM = os.environ["PROGRAM"]
TRACER = os.environ["TRACER"]
LIBRARY = os.environ["ANY_LIBRARY"]
DEFINITIONS = os.environ["DEFINITIONS"]
REWRITTEN, AS_THE_DRIVER = 7, 0


def signs(kind):
    with open(DEFINITIONS) as file:
        return re.findall(r'^%s\("([^"]+)", "([^"]*)"\)' % kind, file.read(), re.M)


class Policy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        names = [name for name, _ in signs("VARIABLE")]
        self.environment = {k: v for k, v in os.environ.items() if k not in names and k != "LD_PRELOAD" and
                            (k == "SLIPSTREAM_LIBRARY" or not k.startswith(("SLIPSTREAM_", "SIMCUDA_")))}

    def run_program(self, *command, mode="fix", **variables):
        """Exit status, and the reasons of mode fix."""
        path = os.path.join(self.folder.name, "report.json")
        done = subprocess.run([TOOL, "run", "--driver", SIMCUDA, "--mode", mode, "--json", path, "--", *command, PROGRAM], timeout=60,
                              capture_output=True, text=True, env={**self.environment, **variables})
        with open(path) as file:
            report = json.load(file)
        self.assertGreater(report["calls"]["total"], 20)
        return done.returncode, [note["text"] for note in report["coverage"]["notes"] if note["code"] == "rewrite"]

    def test_without_a_tool(self):
        self.assertEqual(self.run_program(), (REWRITTEN, []))

    def test_variables(self):
        self.assertGreaterEqual(len(signs("VARIABLE")), 8)
        for name, tool in signs("VARIABLE"):
            reason = "off: %s is set%s" % (name, " (%s)" % tool if tool else "")
            self.assertEqual(self.run_program(**{name: "1"}), (AS_THE_DRIVER, [reason]))
            self.assertEqual(self.run_program(**{name: ""}), (REWRITTEN, []))
            self.assertEqual(self.run_program(**{name: "0"}), (REWRITTEN, []))

    def test_settings_of_tools_are_no_sign(self):
        self.assertEqual(self.run_program(NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT="1", NSYS_TSC_SUPPORT="1"), (REWRITTEN, []))

    def test_libraries(self):
        self.assertGreaterEqual(len(signs("LIBRARY")), 6)
        for name, tool in signs("LIBRARY"):
            path = os.path.join(self.folder.name, name)
            shutil.copy(LIBRARY, path)
            self.assertEqual(self.run_program(LD_PRELOAD=path), (AS_THE_DRIVER, ["off: %s is loaded (%s)" % (name, tool)]))

    def test_cupti_alone_is_no_sign(self):
        path = os.path.join(self.folder.name, "libcupti.so.12")
        shutil.copy(LIBRARY, path)
        self.assertEqual(self.run_program(LD_PRELOAD=path), (REWRITTEN, []))

    def test_debugger(self):
        status, reasons = self.run_program(TRACER)
        if status == 77:
            self.skipTest("ptrace is not allowed here")
        self.assertEqual((status, reasons), (AS_THE_DRIVER, ["off: traced by another process (policy-tracer)"]))

    def test_observing_goes_on(self):
        self.assertEqual(self.run_program(mode="observe", NSYS_PROFILING_SESSION_ID="1"), (AS_THE_DRIVER, []))

    def test_doctor_says_so(self):
        for name, _ in signs("VARIABLE"):
            done = subprocess.run([TOOL, "doctor"], timeout=60, capture_output=True, text=True, env={**self.environment, name: "1"})
            self.assertIn("%s is set: mode fix makes no rewrite" % name, done.stdout)


if __name__ == "__main__":
    unittest.main()
