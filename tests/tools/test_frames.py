# SPDX-License-Identifier: MIT
"""Native frames of the report: all of them in a time that does not grow with frames times symbols, and of them the ones a person wants
to see."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import records

TOOL = os.environ["TESTED_TOOL"]
CC = os.environ.get("CC_FOR_TESTS", "cc")
sys.path.insert(0, os.path.join(os.environ["SOURCE_ROOT"], "tests/unit/site"))
import many_symbols


class Frames(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def report(self, sites, *arguments):
        """Text and JSON of one wait at each of these sites: lists of (path, build id, address of a call's return)."""
        r = records.Records()
        modules = {}
        function, rule = r.function("cuMemFree_v2"), r.rule("free", "frees", records.IMPLICIT)
        for frames in sites:
            for path, build_id, _ in frames:
                if path not in modules:
                    modules[path] = r.module(path, build_id)
            r.wait(function, rule, r.site([(modules[path], address) for path, _, address in frames]), blocked=5)
        r.counters([len(sites)])
        r.write(self.path("1-1.slip"))
        result = subprocess.run([TOOL, "report", self.path("1-1.slip"), "--json", self.path("json"), *arguments],
                                capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": ""})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(self.path("json")) as file:
            return result.stdout, json.load(file)["syncs"][0]["sites"]

    def build(self, name, source, *flags):
        """A library without debug information, and the addresses just behind the starts of its functions."""
        path = self.path(name)
        with open(self.path("source.c"), "w") as file:
            file.write(source)
        subprocess.run([CC, self.path("source.c"), "-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id=none", "-o", path,
                        *flags], check=True)
        listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        places = {fields[2]: (path, b"", int(fields[0], 16) + 1) for fields in map(str.split, listing.splitlines())
                  if len(fields) == 3 and fields[1] in "tT"}
        subprocess.run(["strip", path], check=True)  # leaves the exported names
        return places

    def shown(self, text):
        """The frames of the only site, without their place."""
        lines = text.splitlines()
        begin = next(i for i, line in enumerate(lines) if "at site" in line)
        indent = len(lines[begin + 1]) - len(lines[begin + 1].lstrip())
        frames = []
        for line in lines[begin + 1:]:
            if len(line) - len(line.lstrip()) != indent:
                break
            frames.append(line.split("  ")[-1].strip() if "+0x" not in line or "  " in line.strip() else "?")
        return frames


def functions(*names):
    return "\n".join("__attribute__((noinline)) void %s(void) { __asm__ volatile(\"nop; nop; nop\"); }" % name for name in names)


class StartCode(Frames):
    def setUp(self):
        super().setUp()
        self.program = self.build("program", functions("step", "main_loop", "clone_buffer", "_start"))
        self.c_library = self.build("libc.so.6", functions("qsort", "__libc_start_main", "clone", "clone3").replace(
            "void clone3", "static __attribute__((used)) void clone3") + "\n" + functions("a", "b").replace(
                "noinline))", "noinline, used, visibility(\"hidden\")))"))
        self.other = self.build("libother.so", functions("work").replace("noinline))", "noinline, visibility(\"hidden\"), used))"))

    def test_below_main(self):
        p, c = self.program, self.c_library
        site = [p["step"], p["main_loop"], c["a"], c["__libc_start_main"], p["_start"]]
        text, sites = self.report([site])
        self.assertEqual(self.shown(text), ["step", "main_loop", "(3 frames of start code left out)"])
        self.assertEqual([f["function"] for f in sites[0]["frames"]], ["step", "main_loop", None, "__libc_start_main", "_start"])
        text, _ = self.report([site], "--limit=0")
        self.assertEqual(self.shown(text), ["step", "main_loop", "?", "__libc_start_main", "_start"])

    def test_below_a_thread(self):
        p, c = self.program, self.c_library
        text, _ = self.report([[p["step"], c["a"], c["clone3"]]])
        self.assertEqual(self.shown(text), ["step", "(2 frames of start code left out)"])
        text, _ = self.report([[p["step"], c["a"], c["clone"]]])
        self.assertEqual(self.shown(text), ["step", "(2 frames of start code left out)"])

    def test_one_frame(self):
        p = self.program
        text, _ = self.report([[p["step"], p["_start"]]])
        self.assertEqual(self.shown(text), ["step", "(1 frame of start code left out)"])

    def test_long_stack(self):
        p, c = self.program, self.c_library
        text, _ = self.report([[p["step"]] * 8 + [c["a"], c["__libc_start_main"], p["_start"]]])
        self.assertEqual(self.shown(text), ["step"] * 6 + ["(2 more frames, and 3 of start code)"])
        text, _ = self.report([[p["step"]] * 8])
        self.assertEqual(self.shown(text), ["step"] * 6 + ["(2 more frames)"])

    def test_only_the_end_of_the_stack(self):
        p, c, o = self.program, self.c_library, self.other
        text, _ = self.report([[p["step"], c["a"], c["qsort"]]])
        self.assertEqual(self.shown(text), ["step", "?", "qsort"])
        text, _ = self.report([[p["step"], c["a"], p["main_loop"]]])
        self.assertEqual(self.shown(text), ["step", "?", "main_loop"])
        text, _ = self.report([[p["step"], p["clone_buffer"]]])
        self.assertEqual(self.shown(text), ["step", "clone_buffer"])
        text, _ = self.report([[p["step"], o["work"]]])
        self.assertEqual(self.shown(text), ["step", "?"])

    def test_never_all(self):
        p, c = self.program, self.c_library
        text, _ = self.report([[c["a"], c["__libc_start_main"], p["_start"]]])
        self.assertEqual(self.shown(text), ["?", "(2 frames of start code left out)"])


class Names(Frames):
    def test_long_name_is_cut_in_the_text(self):
        name = "f" + "x" * 5000
        long = self.build("long", functions(name))[name]
        text, sites = self.report([[long]])
        self.assertEqual(self.shown(text), [name[:157] + "..."])
        self.assertEqual(sites[0]["frames"][0]["function"], name)
        text, _ = self.report([[long]], "--limit=0")
        self.assertEqual(self.shown(text), [name])


class Time(Frames):
    def test_many_frames_in_a_large_library(self):
        """A walk through all symbols for each frame would take several seconds."""
        count, sites, depth = 200000, 60, 5
        path = self.path("many.so")
        with open(path, "wb") as file:
            file.write(many_symbols.library(count, 1))
        step = count // (sites * depth)
        numbers = [[step * (site * depth + i) for i in range(depth)] for site in range(sites)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _, got = self.report([[(path, b"", many_symbols.TEXT + 16 * number + 1) for number in site] for site in numbers])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print("%d frames among %d symbols: %.3f s" % (sites * depth, count, spent))
        self.assertEqual(sorted([f["function"] for f in site["frames"]] for site in got),
                         sorted(["function_%d" % number for number in site] for site in numbers))
        self.assertLess(spent, 0.6)


if __name__ == "__main__":
    unittest.main()
