# SPDX-License-Identifier: MIT
"""slipstream bisect finds planted dependences, on the simulated driver, and says so plainly where it cannot."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TOOL = os.environ["TESTED_TOOL"]
SIMCUDA = os.environ["SIMCUDA_FOLDER"]
PROGRAMS = os.environ["PROGRAMS"]


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.deny = os.path.join(self.folder.name, "sites.deny")
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("CUDA_", "SIMCUDA_", "SLIPSTREAM_")) or k == "SLIPSTREAM_LIBRARY"}
        # Virtual time: kernels go on only while somebody waits for them, so it is no matter of luck what the host finds.
        self.environment.update(TMPDIR=self.folder.name, SIMCUDA_TIME="virtual")

    def tool(self, *arguments, **variables):
        return subprocess.run([TOOL, *arguments], env={**self.environment, **variables}, timeout=100, capture_output=True, text=True)

    def bisect(self, program, *arguments, status=1, options=(), **variables):
        result = self.tool("bisect", "--driver", SIMCUDA, "--deny-out", self.deny, *options, "--",
                           os.path.join(PROGRAMS, "bisect-" + program), *arguments, **variables)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("slipstream-")], [])
        return result.stdout

    def run_fixed(self, program, *options):
        return self.tool("run", "--driver", SIMCUDA, "--mode", "fix", *options, "--", os.path.join(PROGRAMS, "bisect-" + program))

    def deny_text(self, text):
        with open(self.deny, "w") as file:
            file.write(text)

    def refused(self, text, part):
        self.deny_text(text)
        result = self.run_fixed("zero", "--deny", self.deny)
        self.assertEqual(result.returncode, 125)
        self.assertIn(part, result.stderr)

    def found(self, text, rewrite="pinned"):
        """The driver function and the innermost function of each call site."""
        return re.findall(r"call site [0-9a-f]{16}: (\w+), rewritten by %s\n +\S+:\d+  (\w+)" % rewrite, text)


class Bisect(Programs):
    def test_a_free_that_was_a_barrier(self):
        text = self.bisect("barrier")
        self.assertEqual(self.found(text), [("cuMemFreeHost", "drop_scratch")])
        self.assertIn("stdout differs from byte 1 on", text)
        self.assertIn("switch: pinned\n", text)
        self.assertIn("relaxation: free (the outcome is that of raw runs with SLIPSTREAM_RELAX=strict-free)", text)
        self.assertNotIn("innocent", text)
        # The list works by itself; the program is wrong without it.
        self.assertEqual(self.run_fixed("barrier").stdout, "0\n")
        self.assertEqual(self.run_fixed("barrier", "--deny", self.deny).stdout, "42\n")
        with open(self.deny) as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertRegex(lines[1], r"^# cuMemFreeHost in drop_scratch \(\S+/barrier\.c:\d+\)$")
        self.assertRegex(lines[2], r"^site [0-9a-f]{16} pinned$")

    def test_a_free_of_device_memory_that_was_a_barrier(self):
        """The switch is found among several; the other one's rewrites stay."""
        text = self.bisect("barrier_device", options=["--fix", "pinned,frees"])
        self.assertEqual(self.found(text, "frees"), [("cuMemFree_v2", "drop_weights")])
        self.assertIn("switch: frees\n", text)
        self.assertIn("relaxation: free (", text)
        options = ["--fix", "pinned,frees"]
        self.assertEqual(self.run_fixed("barrier_device", *options).stdout, "0\n")
        fixed = self.run_fixed("barrier_device", *options, "--deny", self.deny)
        self.assertEqual(fixed.stdout, "42\n")
        self.assertRegex(fixed.stderr, r"at site [0-9a-f]{16}: cuMemFree_v2, 1 call, 1 denied\n +\S+barrier_device.c:\d+  drop_weights")
        self.assertRegex(fixed.stderr, r"frees: \d+ waits? avoided, [45] of 6 allocations from freed blocks")

    def test_a_copy_that_was_a_barrier(self):
        options = ["--fix", "pinned,frees,staging", "--relax", "order"]
        text = self.bisect("order", options=options)
        self.assertEqual(self.found(text, "staging"), [("cuMemcpyHtoD_v2", "upload")])
        self.assertIn("switch: staging\n", text)
        self.assertIn("relaxation: order (the outcome is that of raw runs with SLIPSTREAM_RELAX=free)", text)
        self.assertEqual(self.run_fixed("order", *options).stdout, "at work\n")
        fixed = self.run_fixed("order", *options, "--deny", self.deny)
        self.assertEqual(fixed.stdout, "done\n")
        self.assertRegex(fixed.stderr, r"staging: 2\d\d waits avoided, 2\d\d copies staged")

    def test_memory_taken_for_zeroed(self):
        text = self.bisect("zero")
        self.assertEqual(self.found(text), [("cuMemHostAlloc", "make_counters")])
        self.assertIn("mode fix: ends with exit status 7", text)
        self.assertNotIn("relaxation", text)
        self.assertEqual(self.run_fixed("zero").returncode, 7)
        self.assertEqual(self.run_fixed("zero", "--deny", self.deny).returncode, 0)

    def test_two_at_once(self):
        text = self.bisect("two")
        self.assertEqual(sorted(self.found(text)), [("cuMemHostAlloc", "make_counters"), ("cuMemHostAlloc", "make_sums")])
        self.assertEqual(self.run_fixed("two", "--deny", self.deny).stdout, "0 0\n")

    def test_python(self):
        """One native call site, told apart by the Python frames behind it; the function can be named by hand as well."""
        program = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted.py")]
        result = self.tool("bisect", "--driver", SIMCUDA, "--deny-out", self.deny, "--", *program)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(len(re.findall("call site", result.stdout)), 1)
        self.assertRegex(result.stdout, r"planted\.py:\d+  allocate \(Python\)\n +\S+planted\.py:\d+  make_counters \(Python\)")
        by_hand = os.path.join(self.folder.name, "by-hand")
        with open(by_hand, "w") as file:
            file.write("python make_counters\n")
        for deny, output in (("/dev/null", "b'\\n'\n"), (self.deny, "b'\\x00'\n"), (by_hand, "b'\\x00'\n")):
            fixed = self.tool("run", "--driver", SIMCUDA, "--mode", "fix", "--deny", deny, "--", *program)
            self.assertEqual(fixed.stdout, output, deny)

    def json(self, program, *options, status=1, **variables):
        path = os.path.join(self.folder.name, "result.json")
        text = self.bisect(program, status=status, options=["--json", path, *options], **variables)
        with open(path) as file:
            result = json.load(file)
        with open(os.path.join(SOURCE, "tools", "slipstream.schema.json")) as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator({"$ref": "#/$defs/bisect", "$defs": schema["$defs"]}).validate(result)
        self.assertEqual(result["reason"] is None, result["result"] != "inconclusive")
        return text, result

    def test_json(self):
        text, result = self.json("barrier")
        self.assertEqual((result["result"], result["switches"], result["relaxations"], result["relax"], result["deny_list"]),
                         ("found", ["pinned"], ["free"], "strict-free", self.deny))
        self.assertEqual((result["raw"], result["fix"]), ("ends with exit status 0", "stdout differs from byte 1 on"))
        self.assertIn(f"{result['runs']} runs\n", text)
        [site] = result["sites"]
        self.assertEqual((site["function"], site["rewrite"], site["frames"][0]["function"]), ("cuMemFreeHost", "pinned", "drop_scratch"))
        with open(self.deny) as file:
            self.assertIn(f"site {site['id']} pinned\n", file.read())

    def test_json_of_no_difference_and_of_no_result(self):
        _, result = self.json("barrier", "--check", "true", status=0)
        self.assertEqual((result["result"], result["switches"], result["sites"], result["fix"]), ("none", None, None, None))
        _, result = self.json("barrier", "--check", "grep -q 43", status=3)
        self.assertEqual((result["result"], result["reason"], result["raw"], result["runs"]),
                         ("inconclusive", "the check finds the program bad without any rewrite", None, 1))

    def test_json_that_cannot_be_written(self):
        """Known before the first run."""
        result = self.tool("bisect", "--driver", SIMCUDA, "--json", os.path.join(self.folder.name, "no", "file"), "--",
                           os.path.join(PROGRAMS, "bisect-barrier"))
        self.assertEqual(result.returncode, 125)
        self.assertNotIn("run 1", result.stderr)

    def test_functions_named_by_hand(self):
        """Wherever it is called from; what another function does is rewritten all the same."""
        def run(program, *options):
            fixed = self.run_fixed(program, "--deny", self.deny, *options)
            return fixed.stdout, fixed.stderr
        for text in ("function cuMemFreeHost\n", "function cuMemFreeHost pinned\n"):
            self.deny_text(text)
            self.assertEqual(run("barrier")[0], "42\n", text)
        for text in ("function cuMemFreeHost frees\n", "function cuMemFree\n"):
            self.deny_text(text)
            self.assertEqual(run("barrier")[0], "0\n", text)
        # Each version of it, by the name without one.
        for name in ("cuMemFree", "cuMemFree_v2"):
            self.deny_text(f"function {name} frees\n")
            output, told = run("barrier_device", "--fix", "pinned,frees")
            self.assertEqual(output, "42\n", name)
            self.assertRegex(told, r"at site [0-9a-f]{16}: cuMemFree_v2, 1 call, 1 denied\n")

    def test_function_that_is_none(self):
        """Who denies one wants it denied: nothing is rewritten."""
        self.deny_text("function cuMemFreeHots\n")
        fixed = self.run_fixed("barrier", "--deny", self.deny)
        self.assertEqual(fixed.stdout, "42\n")
        self.assertIn("names a function that the driver does not have", fixed.stderr)

    def test_list_of_the_user_stays(self):
        """What is denied already is not searched for again, and is in the list that is written."""
        self.bisect("two")
        with open(self.deny) as file:
            both = [line for line in file if line.startswith("site")]
        base = os.path.join(self.folder.name, "base")
        with open(base, "w") as file:
            file.write("# mine\n" + both[0])
        text = self.bisect("two", options=["--deny", base])
        self.assertEqual(len(self.found(text)), 1)
        with open(self.deny) as file:
            self.assertTrue(file.read().startswith("# mine\n" + both[0]))
        self.assertEqual(self.run_fixed("two", "--deny", self.deny).stdout, "0 0\n")

    def test_check_instead_of_comparing(self):
        text = self.bisect("barrier", options=["--check", "grep -q 42"])
        self.assertEqual(self.found(text), [("cuMemFreeHost", "drop_scratch")])
        self.assertIn("mode fix: the check ends with exit status 1", text)
        self.assertIn("the check finds the program bad", self.bisect("barrier", options=["--check", "grep -q 43"], status=3))
        self.assertIn("no difference", self.bisect("barrier", options=["--check", "true"], status=0))

    def test_output_file(self):
        path = os.path.join(self.folder.name, "out")
        script = os.path.join(self.folder.name, "script")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n%s > %s\n" % (os.path.join(PROGRAMS, "bisect-barrier"), path))
        os.chmod(script, 0o755)
        result = self.tool("bisect", "--driver", SIMCUDA, "--", script)
        self.assertEqual((result.returncode, "no difference" in result.stdout), (0, True), result.stdout + result.stderr)
        result = self.tool("bisect", "--driver", SIMCUDA, "--output", path, "--", script)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("out differs from byte 1 on", result.stdout)
        self.assertEqual(self.found(result.stdout), [("cuMemFreeHost", "drop_scratch")])

    def test_a_program_that_fails_now_and_then(self):
        """Bad in one run of three: with --runs 3 each setting has a bad run, unless it is right."""
        script, count = (os.path.join(self.folder.name, name) for name in ("script", "count"))
        with open(script, "w") as file:
            file.write('#!/bin/sh\nn=$(cat %s 2>/dev/null || echo 0)\necho $((n + 1)) > %s\n'
                       '[ $((n %% 3)) = 1 ] || exit 0\nexec %s > /dev/null\n' % (count, count, os.path.join(PROGRAMS, "bisect-zero")))
        os.chmod(script, 0o755)
        result = self.tool("bisect", "--driver", SIMCUDA, "--deny-out", self.deny, "--runs", "3", "--", script)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(self.found(result.stdout), [("cuMemHostAlloc", "make_counters")])
        self.assertEqual(self.run_fixed("zero", "--deny", self.deny).returncode, 0)

    def test_no_difference(self):
        self.assertIn("mode fix made rewrites at 20 call sites", self.bisect("ways", "right", status=0))
        self.assertIn("mode fix made no rewrite at all", self.bisect("ways", "right", status=0, CUDA_LAUNCH_BLOCKING="1"))

    def test_raw_runs_that_differ(self):
        self.assertIn("inconclusive: raw runs of the program differ", self.bisect("ways", "random", status=3))

    def test_no_call_site_explains_it(self):
        text = self.bisect("ways", "bad", status=3)
        self.assertIn("mode fix: ends by signal 6 (Aborted)", text)
        self.assertIn("with all 20 known call sites denied the outcome is still another one", text)
        self.assertFalse(os.path.exists(self.deny))

    def test_hang_at_a_call_site(self):
        text = self.bisect("barrier", "poll", options=["--timeout", "2"])
        self.assertRegex(text, r"mode fix: does not end within 2\.\d+ s")
        self.assertEqual(self.found(text), [("cuMemFreeHost", "drop_scratch")])

    def test_hang_at_none(self):
        text = self.bisect("ways", "hang", status=3, options=["--timeout", "1"])
        self.assertRegex(text, r"mode fix: does not end within 1\.\d+ s")

    def test_command_line(self):
        for arguments, part in (([], "no program given"), (["--runs", "0", "true"], "--runs needs a number"),
                                (["--mode", "fix", "true"], "--mode and --out are not for bisect"),
                                (["--fix", "nonsense", "true"], "--fix needs"), (["--nonsense", "true"], "unknown option")):
            result = self.tool("bisect", *arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(part, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertEqual(self.tool("bisect", "/nowhere").returncode, 127)


class Lists(Programs):
    """What a list by hand may say, and what a bad one does."""

    def test_bad_lists_are_refused(self):
        self.refused("site 12\n", "sites.deny:1: the key of a site is 16 digits")
        self.refused("# fine\n\nsite 0123456789abcdef nonsense\n", "sites.deny:3: no such rewrite")
        self.refused("functions cuMemFree\n", "sites.deny:1: expected: site KEY")
        result = self.run_fixed("zero", "--deny", "/nowhere/list")
        self.assertEqual((result.returncode, "No such file" in result.stderr), (125, True))

    def test_by_file(self):
        with open(self.deny, "w") as file:
            file.write("file bisect-zero pinned # all of it\n")
        self.assertEqual(self.run_fixed("zero", "--deny", self.deny).returncode, 0)
        with open(self.deny, "w") as file:
            file.write("file sect-zero\nfile bisect-zero frees\n")
        self.assertEqual(self.run_fixed("zero", "--deny", self.deny).returncode, 7)

    def test_a_bad_list_turns_the_rewrites_off(self):
        """And one line says so: in a program that is started by hand nobody could refuse it."""
        with open(self.deny, "w") as file:
            file.write("nonsense\n")
        for path, why in ((self.deny, "the deny list has a bad line"), ("/nowhere/list", "the deny list cannot be read")):
            done = subprocess.run([os.path.join(PROGRAMS, "bisect-zero")], timeout=60, capture_output=True, text=True, env={
                **self.environment, "LD_PRELOAD": os.environ["SLIPSTREAM_LIBRARY"], "LD_LIBRARY_PATH": SIMCUDA,
                "SLIPSTREAM_MODE": "fix", "SLIPSTREAM_DENY": path})
            self.assertEqual((done.returncode, done.stderr), (0, f"slipstream: SLIPSTREAM_DENY: bad value '{path}': off: {why}\n"))


if __name__ == "__main__":
    unittest.main()
