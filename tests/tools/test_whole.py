# SPDX-License-Identifier: MIT
"""The command with the real library on the simulated driver: run, report on a preload by hand, killed, running, forked and switched-off
programs, sanitizers."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import jsonschema

TOOL = os.environ["TESTED_TOOL"]
LIBRARY = os.environ["REAL_LIBRARY"]
DRIVER = os.environ["SIMCUDA_FOLDER"]
DEMO = os.environ["DEMO"]
CC = os.environ.get("CC_FOR_TESTS", "cc")

with open(os.path.join(os.environ["SOURCE_ROOT"], "tools/slipstream.schema.json")) as schema_file:
    SCHEMA = jsonschema.Draft202012Validator(json.load(schema_file))

# Three calls, then whatever the test adds.
CLIENT = """
import ctypes, os, signal, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
"""


class Whole(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith("SLIPSTREAM_") and k not in ("LD_PRELOAD", "ASAN_OPTIONS", "LD_LIBRARY_PATH")}
        self.environment["TMPDIR"] = self.folder.name

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def load(self, path):
        with open(path) as file:
            report = json.load(file)
        SCHEMA.validate(report)
        return report

    def run_tool(self, *arguments, status=0):
        result = subprocess.run([TOOL, "run", "--driver", DRIVER, "--json", self.path("run.json"), *arguments],
                                env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, status, result.stderr)
        return self.load(self.path("run.json")), result

    def report(self, folder):
        subprocess.run([TOOL, "report", folder, "--json", self.path("report.json"), "--output", self.path("report.txt")],
                       check=True, timeout=120)
        return self.load(self.path("report.json"))

    @staticmethod
    def calls(report):
        return report["calls"]["by_function"]

    def test_preload_by_hand_leaves_the_same_records(self):
        under, result = self.run_tool(DEMO)
        os.mkdir(self.path("records"))
        subprocess.run([DEMO], check=True, stdout=subprocess.DEVNULL, timeout=120,
                       env={**self.environment, "LD_PRELOAD": LIBRARY, "LD_LIBRARY_PATH": DRIVER,
                            "SLIPSTREAM_OUT": self.path("records")})
        by_hand = self.report(self.path("records"))
        self.assertEqual(self.calls(under), self.calls(by_hand))
        self.assertGreater(under["calls"]["total"], 100)

        def explicit(report):  # those do not depend on how fast this machine is
            return {(s["rule"], s["function"], s["count"]) for s in report["syncs"] if s["class"] == "explicit"}
        self.assertEqual(explicit(under), explicit(by_hand))
        self.assertGreaterEqual(len({s["rule"] for s in under["syncs"] if s["class"] == "implicit"}), 6)
        self.assertEqual(os.listdir(self.path("records"))[0][-5:], ".slip")

    def test_sites_are_the_same_in_the_next_run(self):
        first, _ = self.run_tool(DEMO)
        second, _ = self.run_tool(DEMO)

        def sites(report):
            return {(s["rule"], s["function"], site["id"]) for s in report["syncs"] if s["class"] == "explicit"
                    for site in s["sites"]}
        self.assertEqual(sites(first), sites(second))
        self.assertGreater(len(sites(first)), 2)

    def test_killed(self):
        report, _ = self.run_tool("/usr/bin/python3", "-c", CLIENT + "os.kill(os.getpid(), signal.SIGKILL)",
                                  status=-signal.SIGKILL)
        self.assertEqual(self.calls(report), {"cuInit": 1, "cuDeviceGetCount": 2})
        (process,) = report["processes"]
        self.assertEqual(process["state"], "gone")
        self.assertIsNotNone(process["end_ns"])  # run saw it end

    def test_exit_without_handlers(self):
        report, _ = self.run_tool("/usr/bin/python3", "-c", CLIENT + "os._exit(7)", status=7)
        self.assertEqual(self.calls(report), {"cuInit": 1, "cuDeviceGetCount": 2})

    def test_running(self):
        process = subprocess.Popen([TOOL, "run", "--driver", DRIVER, "--out", self.path("out"), "--output", self.path("text"),
                                    "/usr/bin/python3", "-c", CLIENT + "print('ready', flush=True); time.sleep(60)"],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        report = self.report(self.path("out"))
        self.assertEqual([(p["state"], p["calls"]) for p in report["processes"]], [("running", 3)])
        self.assertIn("still runs, its later calls are not in this report", "".join(report["coverage"]["reasons"]))
        process.terminate()
        self.assertEqual(process.wait(60), -signal.SIGTERM)
        report = self.report(self.path("out"))
        self.assertEqual([(p["state"], p["calls"]) for p in report["processes"]], [("gone", 3)])
        self.assertEqual(report["coverage"]["reasons"], [])

    def test_a_process_that_cannot_write_is_missed_aloud(self):
        for limit in ("resource.RLIMIT_FSIZE, (4096, 4096)", "resource.RLIMIT_NOFILE, (3, 3)"):
            child = CLIENT.replace("assert", "import resource\nresource.setrlimit(%s)\nassert" % limit, 1)
            report, result = self.run_tool("/usr/bin/python3", "-c", CLIENT +
                                           "import subprocess\nsubprocess.run([sys.executable, '-c', %r], check=True)" % child)
            self.assertEqual(self.calls(report), {"cuInit": 1, "cuDeviceGetCount": 2}, limit)
            self.assertEqual(result.stderr.count("cannot write records"), 1, result.stderr)
            self.assertEqual(len(report["coverage"]["reasons"]), 1, report["coverage"]["reasons"])
            self.assertIn("could not write", report["coverage"]["reasons"][0])

    def test_children(self):
        report, _ = self.run_tool("/usr/bin/python3", "-c", CLIENT +
                                  "import subprocess\nsubprocess.run([sys.executable, '-c', %r], check=True)" % CLIENT)
        self.assertEqual(self.calls(report), {"cuInit": 2, "cuDeviceGetCount": 4})
        self.assertEqual([p["forked"] for p in report["processes"]], [False, False])

    def test_forked_child_of_a_cuda_process(self):
        report, _ = self.run_tool("/usr/bin/python3", "-c", CLIENT +
                                  "child = os.fork()\n"
                                  "if not child:\n    os._exit(cuda.cuDeviceGetCount(ctypes.byref(count)))\n"
                                  "_, status = os.waitpid(child, 0)\nsys.exit(os.waitstatus_to_exitcode(status))\n", status=3)
        self.assertEqual(sorted(p["forked"] for p in report["processes"]), [False, True])
        self.assertEqual(self.calls(report)["cuDeviceGetCount"], 3)
        self.assertFalse(report["coverage"]["inconclusive"], report["coverage"]["reasons"])

    def test_no_cuda(self):
        report, result = self.run_tool("bash", "-c", "/bin/true; exit 3", status=3)
        self.assertEqual(report["calls"]["total"], 0)
        self.assertEqual(result.stderr.splitlines()[0], "slipstream: no call of the CUDA driver was seen")

    def test_off(self):
        report, _ = self.run_tool("--mode=off", DEMO)
        self.assertEqual(report["calls"]["total"], 0)

    def test_address_sanitizer_program(self):
        program = self.path("program")
        source = "#include <dlfcn.h>\n#include <stdlib.h>\nint main(void) {\n" \
                 "void *library = dlopen(\"libcuda.so.1\", RTLD_NOW); free(malloc(9));\n" \
                 "int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, \"cuInit\") : 0;\n" \
                 "return init ? init(0) + 5 : 1; }\n"
        subprocess.run([CC, "-fsanitize=address", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
        report, result = self.run_tool(program, status=5)
        self.assertEqual(self.calls(report), {"cuInit": 1})
        self.assertNotIn("Sanitizer", result.stderr)


if __name__ == "__main__":
    unittest.main()
