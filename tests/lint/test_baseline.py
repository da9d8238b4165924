# SPDX-License-Identifier: MIT
"""A baseline holds where lines move, in another folder and with other options of the compiler; a new site is new; what is gone is told."""

import json
import os
import re
import subprocess
import unittest

import lint
import made

CC = os.environ["LINT_CC"].split()
CUDA = os.environ["CUDA_INCLUDE"]
FREE = "\tOK(cuMemFree(block)); /* FINDING */\n"


class Sources(lint.Lint):
    """Programs compiled from a changed source."""

    def build(self, text, folder="a", options=("-g", "-O1"), name="program.c"):
        place = self.path(folder)
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, name), "w") as file:
            file.write(text.replace('"common.h"', f'"{lint.SOURCES}/common.h"'))
        binary = os.path.join(place, "program")
        subprocess.run([*CC, *options, "-isystem", CUDA, os.path.join(place, name), "-o", binary, f"-L{lint.DRIVER}", "-l:libcuda.so.1",
                        f"-Wl,-rpath-link,{lint.DRIVER}"], check=True, cwd=place)
        return binary

    def source(self, rule="L12"):
        with open(os.path.join(lint.SOURCES, f"{rule}.c")) as file:
            return file.read()

    def baseline(self, command):
        path = self.path("baseline.json")
        done = self.lint("--driver", lint.DRIVER, "--write-baseline", path, "--", command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def again(self, command, baseline, status):
        return self.run_json(command, "--baseline", baseline, status=status)


class Baseline(Sources):
    def setUp(self):
        super().setUp()
        self.first = self.build(self.source())
        self.known = self.baseline(self.first)

    def assert_known(self, text=None, **build):
        report = self.again(self.build(text or self.source(), **build), self.known, 0)
        self.assertEqual([(result["rule"], result["known"]) for result in report["results"] if result["level"] == "warning"], [("L12", True)])
        self.assertEqual(report["gone"], [])
        self.assertEqual(report["verdict"], "clean")

    def test_the_same_program(self):
        self.assert_known()

    def test_moved_lines(self):
        text = self.source().replace("static void step", "\n\n/* moved */\n\nstatic void step").replace("\tbegin();", "\n\n\tbegin();")
        self.assert_known(text)

    def test_another_folder(self):
        self.assert_known(folder="somewhere/else")

    def test_relative_file_names(self):
        self.assert_known(folder="b", options=("-g", "-O1", f"-ffile-prefix-map={self.folder}=."))

    def test_other_options_of_the_compiler(self):
        self.assert_known(folder="c", options=("-g", "-O0"))
        self.assert_known(folder="d", options=("-g", "-O2", "-fPIE", "-pie", "-Wl,--build-id=none"))

    def test_a_count_that_grew(self):
        self.assert_known(self.source().replace("i < ROUNDS", "i < 3 * ROUNDS"))

    def assert_new(self, text, known, new):
        report = self.again(self.build(text, folder="e"), self.known, 1)
        results = [result for result in report["results"] if result["level"] == "warning"]
        self.assertEqual(([result["known"] for result in results].count(True), [result["known"] for result in results].count(False)),
                         (known, new), results)

    def test_a_new_site_in_another_function(self):
        text = self.source().replace("int main", "static void other(CUstream stream)\n{\n\tCUdeviceptr block = on_device(64);\n\n"
                                     "\tspin(stream, BUSY);\n\tOK(cuMemFree(block));\n}\n\nint main")
        self.assert_new(text.replace("\t\tstep(stream);", "\t\tstep(stream), other(stream);"), 1, 1)

    def test_a_new_site_in_the_same_function(self):
        text = self.source().replace(FREE, FREE + "\tblock = on_device(64);\n\tspin(stream, BUSY);\n" + FREE)
        self.assert_new(text, 1, 1)

    def test_a_new_caller(self):
        text = self.source().replace("int main", "static void twice(CUstream stream)\n{\n\tstep(stream);\n\tstep(stream);\n}\n\nint main")
        self.assert_new(text.replace("\t\tstep(stream);\n\tOK", "\t\tstep(stream), twice(stream);\n\tOK"), 1, 2)

    def test_what_is_gone_is_told_and_does_not_fail(self):
        report = self.again(lint.program("L12", "fixed"), self.known, 0)
        self.assertEqual([(entry["rule"], entry["occurrence"]) for entry in report["gone"]], [("L12", 1)])
        self.assertRegex(report["gone"][0]["place"], r"program\.c:\d+$")
        done = self.lint("--driver", lint.DRIVER, "--baseline", self.known, "--", lint.program("L12", "fixed"))
        self.assertIn("no finding, 1 of the baseline gone", done.stderr)

    def test_known_ones_are_told(self):
        done = self.lint("--driver", lint.DRIVER, "--baseline", self.known, "--", self.first)
        self.assertEqual(done.returncode, 0)
        self.assertIn("known warning: cuMemFree_v2: free drains the device", done.stderr)
        self.assertIn("no new finding, 1 known from the baseline", done.stderr)

    def test_the_file_has_no_path_of_this_machine_and_no_time(self):
        with open(self.known) as file:
            text = file.read()
        entries = json.loads(text)["results"]
        self.assertEqual([sorted(entry) for entry in entries], [["fingerprint", "occurrence", "place", "rule"]])
        self.assertNotRegex(text, "build-|blocked|calls")


class Made(lint.Lint):
    def test_nothing_is_written_where_the_run_says_too_little(self):
        path = self.path("baseline.json")
        process = made.Made(dropped=1)
        process.wait()
        done = self.lint("--write-baseline", path, process.write(self.path("records")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no baseline is written: the run is inconclusive", done.stderr)
        done = self.lint("--driver", lint.DRIVER, "--write-baseline", path, "--", "sh", "-c", f"{lint.program('L12')}; exit 3")
        self.assertEqual(done.returncode, 4)
        self.assertFalse(os.path.exists(path))

    def test_notes_are_not_in_it(self):
        process = made.Made()
        process.wait(slug="observed-unknown")
        process.wait()
        path = self.path("baseline.json")
        self.assertEqual(self.lint("--write-baseline", path, process.write(self.path("records"))).returncode, 0)
        with open(path) as file:
            self.assertEqual([entry["rule"] for entry in json.load(file)["results"]], ["implicit-wait/d2h"])

    def test_without_debug_information_places_are_told_apart(self):
        first, second = made.Made(), made.Made()
        for process, offsets in ((first, (0x100, 0x200)), (second, (0x140, 0x240, 0x340))):
            r = process.records
            module = r.module("/opt/app/solver")
            function, rule = r.function("cuMemcpyDtoH_v2"), r.rule("d2h", "synchronous copy to host memory", 2)
            process.functions["cuMemcpyDtoH_v2"] = function
            for offset in offsets:
                r.wait(function, rule, r.site([(module, offset)]), 2, 6, 1, count=1, blocked=made.MS, amount=4096)
        path = self.path("baseline.json")
        self.assertEqual(self.lint("--write-baseline", path, first.write(self.path("first"))).returncode, 0)
        report = self.json("--baseline", path, second.write(self.path("second")), status=1)
        self.assertEqual([(result["fingerprint"][-2:], result["known"]) for result in report["results"]],
                         [("/1", True), ("/2", True), ("/3", False)])
        done = self.lint(self.path("second"))
        self.assertTrue(re.match(r"\? in solver\+0x140: warning: ", done.stdout), done.stdout)


if __name__ == "__main__":
    unittest.main()
