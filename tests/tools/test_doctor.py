# SPDX-License-Identifier: MIT
"""slipstream doctor: finds what is there and what is not, initializes nothing, and answers with its exit status."""

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = os.environ["TESTED_TOOL"]
FAKE = os.path.realpath(os.environ["FAKE_LIBRARY"])
CC = os.environ.get("CC_FOR_TESTS", "cc")

DRIVER = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned int flags) { close(open(getenv("MARKER"), O_CREAT | O_WRONLY, 0600)); return 0; }
int cuDriverGetVersion(int *version) { *version = 13020; return 0; }
__attribute__((constructor)) static void loaded(void) { %s }
"""


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.marker = os.path.join(self.folder.name, "cuInit-was-called")
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("SLIPSTREAM_", "CUDA_", "LD_"))}
        self.environment.update(SLIPSTREAM_LIBRARY=FAKE, MARKER=self.marker)

    def run_tool(self, *arguments, environment=None, **more):
        return subprocess.run([TOOL, "doctor", *arguments], env={**self.environment, **(environment or {})}, timeout=60,
                              capture_output=True, text=True, **more)

    def findings(self, status=0, **more):
        result = self.run_tool("--json", **more)
        self.assertEqual((result.returncode, result.stderr), (status, ""))
        answer = json.loads(result.stdout)
        self.assertEqual(sorted(answer), ["findings", "limits", "usable", "version"])
        self.assertEqual(answer["usable"], status == 0)
        return [(f["name"], f["status"], f["text"]) for f in answer["findings"]]

    def driver(self, constructor=""):
        subprocess.run([CC, "-shared", "-fPIC", "-x", "c", "-", "-o", os.path.join(self.folder.name, "libcuda.so.1")],
                       input=DRIVER % constructor, text=True, check=True)
        return {"LD_LIBRARY_PATH": self.folder.name}

    def one(self, findings, name):
        (found,) = [f for f in findings if f[0] == name]
        return found[1:]

    def table(self, *lines):
        text = "".join(line + "\n" for line in ("slipstream-calibration 1", *lines)).encode()
        value = 0xCBF29CE484222325
        for byte in text:
            value = (value ^ byte) * 0x100000001B3 % 2**64
        path = os.path.join(self.folder.name, "table")
        with open(path, "wb") as file:
            file.write(text + b"checksum %016x\n" % value)
        return path

    def test_calibration_table(self):
        name, idle, stage = "calibration table", "idle cuMemFree_v2 device none 12 47000", "stage to-device sync idle 65536"
        self.assertEqual(self.one(self.findings(), name), (
            "note", "none is set: mode fix stages copies by sizes measured on an H200; slipstream calibrate --output FILE, then run "
            "--calibration FILE"))
        path = self.table("driver 13000", "gpu Some GPU", idle, stage, "stage from-device sync idle never")
        text = path + ", of GPU Some GPU, driver 13000: 1 idle costs, sizes of 2 kinds of staged copies"
        given = {"SLIPSTREAM_CALIBRATION": path}
        self.assertEqual(self.one(self.findings(environment=given), name), ("ok", text + ", used on that GPU and driver"))
        self.assertEqual(self.one(self.findings(environment={**given, "SLIPSTREAM_STAGE_FROM": "1M"}), name),
                         ("ok", text + ", but SLIPSTREAM_STAGE_FROM is set and wins"))
        self.table(idle, idle)
        self.assertEqual(self.one(self.findings(environment=given), name), (
            "note", path + ", of GPU unknown, driver unknown: 2 idle costs, sizes of 0 kinds of staged copies (measure it again to have them)"))
        for broken in (b"", b"nonsense\n", b"slipstream-calibration 1\nchecksum 0\n"):
            with open(path, "wb") as file:
                file.write(broken)
            self.assertEqual(self.one(self.findings(environment=given), name),
                             ("warning", path + " is ignored: missing, damaged or of another version"))
        os.unlink(path)
        self.assertEqual(self.one(self.findings(environment=given), name)[0], "warning")

    def test_library(self):
        findings = self.findings()
        self.assertEqual(self.one(findings, "library"), ("ok", FAKE + " loads"))
        self.assertRegex(self.one(findings, "glibc")[1], r"^2\.\d+ here, the library needs 2\.\d+ or newer$")
        self.assertEqual(self.run_tool().stdout.splitlines()[-1], "slipstream run works here.")

    def test_missing_library(self):
        environment = {"SLIPSTREAM_LIBRARY": "/none/lib.so"}
        self.assertEqual(self.one(self.findings(1, environment=environment), "library"),
                         ("missing", "libslipstream.so not found, tried /none/lib.so"))
        self.assertEqual(self.run_tool(environment=environment).stdout.splitlines()[-1], "slipstream run cannot work here.")

    def test_library_that_does_not_load(self):
        broken = os.path.join(self.folder.name, "broken.so")
        with open(broken, "w") as file:
            file.write("no library")
        status, text = self.one(self.findings(1, environment={"SLIPSTREAM_LIBRARY": broken}), "library")
        self.assertEqual(status, "missing")
        self.assertIn("cannot be preloaded", text)

    def test_no_driver(self):
        status, text = self.one(self.findings(environment={"LD_LIBRARY_PATH": ""}), "driver")
        if not text.startswith("libcuda.so.1: cannot open shared object file"):
            self.skipTest("there is a driver on this machine")
        self.assertEqual(status, "warning")

    def test_driver_is_found_and_not_initialized(self):
        findings = self.findings(environment=self.driver())
        self.assertEqual(self.one(findings, "driver"), ("ok", os.path.realpath(self.folder.name) + "/libcuda.so.1, CUDA 13.2"))
        self.assertFalse(os.path.exists(self.marker))

    def test_driver_that_dies_or_talks_at_load(self):
        self.assertEqual(self.one(self.findings(environment=self.driver("abort();")), "driver"),
                         ("warning", "loading libcuda.so.1 ended the process"))
        self.assertEqual(self.one(self.findings(environment=self.driver('write(1, "hello", 5); write(2, "x", 1);')), "driver")[0],
                         "ok")

    def test_environment(self):
        values = {"CUDA_LAUNCH_BLOCKING": "1", "CUDA_INJECTION64_PATH": "/x", "CUDA_MODULE_LOADING": "LAZY", "LD_PRELOAD": "/none"}
        found = {f[2].split("=")[0]: f[1] for f in
                 self.findings_despite_preload(values) if f[0] == "environment"}
        self.assertEqual(found, {"CUDA_LAUNCH_BLOCKING": "warning", "CUDA_INJECTION64_PATH": "note",
                                 "CUDA_MODULE_LOADING": "note", "LD_PRELOAD": "note"})
        found = [f for f in self.findings(environment={"CUDA_LAUNCH_BLOCKING": "0"}) if f[0] == "environment"]
        self.assertEqual(found, [])

    def findings_despite_preload(self, values):
        result = self.run_tool("--json", environment=values)  # the loader complains on stderr about /none
        self.assertEqual(result.returncode, 0)
        return [(f["name"], f["status"], f["text"]) for f in json.loads(result.stdout)["findings"]]

    def test_limits(self):
        findings = self.findings(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual(self.one(findings, "limits"),
                         ("warning", "files may grow to 1.00 MiB (ulimit -f): record files grow with what is found"))
        self.assertNotIn("limits", [f[0] for f in self.findings()])

    def test_folder_for_records(self):
        self.assertEqual(self.one(self.findings(environment={"TMPDIR": "/proc"}), "records")[0], "warning")
        self.assertEqual(self.one(self.findings(environment={"TMPDIR": self.folder.name}), "records")[0], "ok")

    @unittest.skipUnless(platform.machine() == "x86_64", "the witness is for x86-64")
    def test_witness_and_the_capability_that_it_lacks(self):
        findings = self.findings()
        if not os.path.exists(os.path.join(os.path.dirname(TOOL), "..", "bpf", "slipstream-witness")):
            self.assertEqual(self.one(findings, "bpf")[0], "note")
            self.assertNotIn("witness", [finding[0] for finding in findings])
            self.skipTest("the witness is not part of this build")
        self.assertEqual(self.one(findings, "bpf")[0], "ok")
        self.assertTrue(self.one(findings, "bpf")[1].endswith("/slipstream-witness"))
        if os.geteuid() or not shutil.which("setpriv"):
            self.skipTest("not root: no rights to give up")
        for rights, status, text in (([], "note", "CAP_BPF is missing, to load BPF programs"),
                                     (["perfmon"], "note", "CAP_BPF is missing"),
                                     (["bpf"], "note", "CAP_PERFMON is missing, to probe functions"),
                                     (["bpf", "perfmon"], "ok", "processes of other users need CAP_SYS_PTRACE"),
                                     (["bpf", "perfmon", "sys_ptrace"], "ok", "attach and run --witness work here")):
            names = ",".join("+" + name for name in rights)
            keep = [f"--inh-caps=-all,{names}", f"--ambient-caps=-all,{names}"] if names else ["--inh-caps=-all"]
            result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *keep, TOOL, "doctor", "--json"],
                                    env=self.environment, timeout=60, capture_output=True, text=True, cwd="/")
            found = next(finding for finding in json.loads(result.stdout)["findings"] if finding["name"] == "witness")
            if status == "ok" and found["status"] == "warning":
                self.skipTest("BPF is refused on this machine")
            self.assertEqual(found["status"], status, found)
            self.assertIn(text, found["text"])

    @unittest.skipUnless(platform.machine() == "x86_64", "the witness is for x86-64")
    def test_probes_for_tracers(self):
        status, text = self.one(self.findings(), "usdt")
        self.assertEqual(status, "note")
        self.assertIn("no probes for tracers", text)
        with open(os.path.join(self.folder.name, "told.c"), "w") as file:
            file.write("#include <sys/sdt.h>\nvoid told(int a);\nvoid told(int a) { STAP_PROBE1(slipstream, wait, a); STAP_PROBE1(other, not_ours, a); }\n")
        library = os.path.join(self.folder.name, "libtold.so")
        if subprocess.run([CC, "-shared", "-fPIC", file.name, "-o", library], capture_output=True).returncode:
            self.skipTest("no <sys/sdt.h>")
        result = json.loads(self.run_tool("--json", environment={"SLIPSTREAM_LIBRARY": library}).stdout)
        self.assertIn({"name": "usdt", "status": "ok", "text": "the library tells tracers: wait"}, result["findings"])

    def test_control_characters(self):
        text = self.run_tool(environment={"CUDA_VISIBLE_DEVICES": "\x1b[31m"}).stdout
        self.assertIn("CUDA_VISIBLE_DEVICES=\\x1b[31m: ", text)

    def test_usage(self):
        for arguments, text in ((["--x"], "unknown option --x"), (["x"], "unknown argument x")):
            result = self.run_tool(*arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (2, "", "slipstream doctor: %s (try --help)\n" % text))

    def test_every_line_has_a_status(self):
        lines = self.run_tool().stdout.split("\n\n")[0].splitlines()
        self.assertGreater(len(lines), 8)
        for line in lines:
            self.assertRegex(line, r"^(ok|note|warning|missing) +\w+ +\S")


if __name__ == "__main__":
    unittest.main()
