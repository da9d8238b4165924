# SPDX-License-Identifier: MIT
"""Reports from constructed record files: exact text and JSON (golden/), merging over processes, call sites with file and line, the
schema, exit statuses. UPDATE_GOLDEN=1 writes the golden files anew; read the difference before keeping it."""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

sys.dont_write_bytecode = True
import records

TOOL = os.environ["TESTED_TOOL"]
SOURCE = os.environ["SOURCE_ROOT"]
CC = os.environ.get("CC_FOR_TESTS", "cc")
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")

with open(os.path.join(SOURCE, "tools/slipstream.schema.json")) as schema_file:
    SCHEMA = json.load(schema_file)


class Report(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def tool(self, *arguments, environment=None):
        return subprocess.run([TOOL, "report", *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(environment or {})})

    def text(self, *arguments):
        result = self.tool(self.folder.name, *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def json(self, *arguments):
        with tempfile.NamedTemporaryFile("r") as file:
            result = self.tool(*(arguments or [self.folder.name]), "--json", file.name, "--output", "/dev/null")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
            raw = file.read()
        report = json.loads(raw)
        jsonschema.Draft202012Validator(SCHEMA).validate(report)
        self.raw = raw
        return report

    def assert_golden(self, name, text):
        path = os.path.join(GOLDEN, name)
        if os.environ.get("UPDATE_GOLDEN"):
            with open(path, "w") as file:
                file.write(text)
        with open(path) as file:
            self.assertEqual(text, file.read())


class Golden(Report):
    def test_sample(self):
        records.sample().write(self.path("1-1.slip"))
        self.assert_golden("sample.txt", self.text())
        self.assert_golden("sample-by-site.txt", self.text("--by=site"))
        self.assert_golden("sample-by-function.txt", self.text("--by", "function"))
        self.json()
        version = json.loads(self.raw)["version"]
        self.assert_golden("sample.json", self.raw.replace('"version": "%s"' % version, '"version": "VERSION"'))

    def test_everything_that_makes_a_verdict_inconclusive(self):
        r = records.sample(dropped=3)
        thing = r.function("cuThunk", wrapped=False, handed_out=1)
        r.counters([0] * thing + [2], thunks=True)
        for code, text in enumerate(("cuHidden", "00000000-0000-0000-0000-000000000bad", "/opt/libcuda.so.1", "context was reset",
                                     "sites: too many", "3.99", "no memory", "SLIPSTREAM_STACK: bad", "cuOld"), 1):
            r.note(code, text, code)
        r.write(self.path("1-1.slip"))
        with open(self.path("2-2.slip"), "w") as file:
            file.write("no record file")
        self.assert_golden("inconclusive.txt", self.text("--limit=2"))
        coverage = self.json()["coverage"]
        self.assertTrue(coverage["inconclusive"])
        self.assertEqual(coverage["reasons"], [
            "damaged record file 2-2.slip: not a record file: only 14 bytes",
            "3 records could not be written",
            "a function without wrapper was handed out: cuHidden",
            "an unknown export table was handed out: 00000000-0000-0000-0000-000000000bad",
            "a second driver library was used: /opt/libcuda.so.1",
            "calls passed unclassified: context was reset",
            "records were lost: sites: too many",
            "slipstream failed in the program: no memory",
            "unwrapped function called: cuThunk (2 calls)"])
        self.assertEqual(coverage["handed_out_unwrapped"], [{"name": "cuHidden", "count": 1}])
        self.assertEqual(coverage["unwrapped_names"], ["cuNewThing", "cuThunk"])

    def test_two_processes(self):
        records.sample().write(self.path("1-1.slip"))
        child = records.sample(pid=records.GONE_PID + 1, start=1020000000, base=0x7E0000000000, parent=records.GONE_PID, forked=1,
                               state=records.LIVE, command="demo\t--child")
        child.header["end"] = 0
        child.write(self.path("2-2.slip"))
        self.assert_golden("two.txt", self.text())


class OwnCost(Report):
    def records(self, flags):
        r = records.sample()
        pin, load = r.function("cuMemHostAlloc"), r.function("cuModuleLoadData")
        pinning = r.rule("pinning", "pins host memory", records.IMPLICIT, flags)
        loading = r.rule("module-load", "loads a module", records.IMPLICIT, flags)
        r.wait(load, loading, basis=0, count=1, blocked=50000000)
        r.wait(pin, pinning, destination=3, basis=0, count=2, blocked=6000000, amount=8192)
        r.wait(pin, pinning, basis=0, allowed=1, count=1, blocked=1000000)
        r.write(self.path("1-1.slip"))

    def test_slow_calls_are_no_waits(self):
        """They have a section behind the waits, whatever they cost, and a headline of their own."""
        self.records(records.OWN_COST)
        text = self.text()
        self.assert_golden("own-cost.txt", text)
        lines = text.splitlines()
        self.assertEqual(lines[0], "slipstream: 17 implicit synchronizations blocked the program for 34.0 ms (34.0 % of 100 ms)")
        self.assertEqual(lines[1], "slipstream: 3 calls slow by their own work took 56.0 ms (56.0 %)")
        headings = [line for line in lines if re.match(r"[A-Z]", line)]
        self.assertEqual(headings[:4], [
            "IMPLICIT SYNCHRONIZATIONS", "IMPLICIT SYNCHRONIZATIONS IN AN ALLOWED SCOPE",
            "SLOW CALLS (the call's own work blocked the host: loading, pinning, creating)", "SLOW CALLS IN AN ALLOWED SCOPE"])
        waits = text[text.index("IMPLICIT"):text.index("SLOW CALLS")]
        slow = text[text.index("SLOW CALLS"):text.index("DEVICE")]
        for rule in ("pinning", "module-load"):
            self.assertNotIn(rule, waits)
            self.assertIn(rule, slow)
        self.assertNotIn("pageable-h2d", slow)
        for by in ("site", "function"):
            waits = self.text("--by=" + by)
            self.assertNotIn("pinning", waits[waits.index("IMPLICIT"):waits.index("SLOW CALLS")])

    def test_json_says_which(self):
        self.records(records.OWN_COST)
        report = self.json()
        own = {sync["rule"]: (sync["class"], sync["own_cost"]) for sync in report["syncs"]}
        self.assertEqual(own["pinning"], ("implicit", True))
        self.assertEqual(own["module-load"], ("implicit", True))
        self.assertEqual(own["pageable-h2d"], ("implicit", False))
        self.assertEqual(own["stream-synchronize"], ("explicit", False))
        self.assertEqual((report["implicit_blocked_ns"], report["own_cost_ns"]), (90000000, 56000000))

    def test_records_of_an_older_library(self):
        """Their rules have no flags: all implicit findings are waits, as they were then."""
        self.records(None)
        self.assertNotIn("SLOW CALLS", self.text())
        report = self.json()
        self.assertEqual({sync["own_cost"] for sync in report["syncs"]}, {False})
        self.assertEqual((report["implicit_blocked_ns"], report["own_cost_ns"]), (90000000, 0))


class Merge(Report):
    def test_each_reason_alone_makes_it_inconclusive(self):
        """And nothing else does: the known tables, an uncalled thunk, notes on Python and settings."""
        for code, text, inconclusive in ((1, "cuHidden", True), (2, "6BD5FB6C5BF4E74A8987D93912FD9DF9", False),
                                         (2, "6bd5fb6c-5bf4-e74a-8987-d93912fd9dfa", True),
                                         (2, "21318c60-9714-3248-8ca6-41ff7324c8f2", True),
                                         (2, "21318c60-9714-3248-8ca6-41ff7324c8f2 libother.so", True),
                                         (2, "21318c60-9714-3248-8ca6-41ff7324c8f2 libcublasLt.so.13", False), (3, "x", True), (4, "x", True),
                                         (5, "x", True), (6, "x", False), (7, "x", True), (8, "x", False), (9, "x", False)):
            r = records.sample()
            r.note(code, text)
            r.write(self.path("1-1.slip"))
            coverage = self.json()["coverage"]
            self.assertEqual((code, text, coverage["inconclusive"]), (code, text, inconclusive))
            self.assertEqual(len(coverage["reasons"]), inconclusive)

    def test_counted_functions_without_wrapper(self):
        """Handed out is no doubt as long as nobody calls them; a forked child of a CUDA process cannot wait."""
        r = records.sample()
        names = ["cuGL%d" % i for i in range(30)]
        for name in names:
            r.function(name, wrapped=False, handed_out=1)
            r.note(1, name)
        r.note(4, "forked after cuInit")
        r.write(self.path("1-1.slip"))
        coverage = self.json()["coverage"]
        self.assertEqual((coverage["inconclusive"], coverage["reasons"]), (False, []))
        self.assertEqual(len(coverage["handed_out_unwrapped"]), 30)
        text = self.text()
        self.assertIn("  30 functions without wrapper handed out, none called: cuGL0, cuGL1, cuGL10, cuGL11, ...\n", text)
        self.assertNotIn("cuGL7", text)
        self.assertIn("  handed out without wrapper: cuGL7 (1x)\n", self.text("--limit=0"))
        r.counters([0] * 8 + [1], thunks=True)
        r.write(self.path("1-1.slip"))
        self.assertEqual(self.json()["coverage"]["reasons"], ["unwrapped function called: cuGL1 (1 call)"])
        text = self.text()
        self.assertIn("  29 functions without wrapper handed out, none called: cuGL0, cuGL10, cuGL11, cuGL12, ...\n", text)
        self.assertIn("  counted only: cuGL1, 1 call\n", text)

    def test_same_sites_of_two_processes_are_one(self):
        records.sample().write(self.path("1-1.slip"))
        one = self.json()
        records.sample(pid=records.GONE_PID + 1, base=0x7E0000000000).write(self.path("2-2.slip"))
        two = self.json()
        self.assertEqual([s["rule"] for s in two["syncs"]], [s["rule"] for s in one["syncs"]])
        for before, after in zip(one["syncs"], two["syncs"]):
            self.assertEqual(after["count"], 2 * before["count"])
            self.assertEqual(after["blocked_ns"], 2 * before["blocked_ns"])
            self.assertEqual(after["blocked_max_ns"], before["blocked_max_ns"])
            self.assertEqual([s["id"] for s in after["sites"]], [s["id"] for s in before["sites"]])
            self.assertEqual(len(after["waited_for"]), 2 * len(before["waited_for"]))  # streams are numbered per process
        self.assertEqual(two["calls"]["total"], 70)

    def test_order_of_files_does_not_matter(self):
        for i in range(5):
            records.sample(pid=records.GONE_PID + i, start=1000000000 + i, config="MODE=%d\n" % i).write(
                self.path("%d.slip" % i))
        paths = [self.path("%d.slip" % i) for i in range(5)]
        self.json(*paths)
        first = self.raw
        self.json(*paths[::-1])
        self.assertEqual(self.raw, first)
        self.assertEqual(json.loads(first)["config"], {"MODE": "0"})

    def test_other_build_id_is_another_site(self):
        ids = []
        for build_id in (b"\1\2\3\4", b"\1\2\3\5"):
            r = records.Records()
            site = r.site([(r.module("/usr/bin/demo", build_id), 0x10)])
            r.wait(r.function("cuMemFree_v2"), r.rule("free", "frees", records.IMPLICIT), site, blocked=5)
            r.counters([1])
            r.write(self.path("1-1.slip"))
            ids.append(self.json()["syncs"][0]["sites"][0]["id"])
        self.assertEqual(len(set(ids)), 2)

    def test_ranking(self):
        r = records.Records()
        function = r.function("cuMemFree_v2")
        for slug, blocked, count in (("small", 10, 9), ("big", 30, 1), ("tie-b", 20, 1), ("tie-a", 20, 1), ("tie-many", 20, 2)):
            r.wait(function, r.rule(slug, "c", records.IMPLICIT), blocked=blocked, count=count)
        r.counters([14])
        r.write(self.path("1-1.slip"))
        self.assertEqual([s["rule"] for s in self.json()["syncs"]], ["big", "tie-many", "tie-a", "tie-b", "small"])
        self.assertEqual(re.findall(r"^ +\d+ +\d+ ns.*  (\S+) in", self.text("--limit=2"), re.M), ["big", "tie-many"])
        self.assertIn("  (3 more lines)\n", self.text("--limit=2"))
        self.assertEqual(len(re.findall(r" in cuMemFree_v2$", self.text("--limit=0"), re.M)), 5)

    def test_threads_and_thunks_are_added_up(self):
        r = records.Records()
        r.function("cuA")
        r.function("cuB", wrapped=False)
        r.counters([1, 0], thread=1)
        r.counters([2, 0], thread=2)
        r.counters([0, 40], thunks=True)
        r.write(self.path("1-1.slip"))
        report = self.json()
        self.assertEqual(report["calls"], {"total": 43, "unwrapped": 40, "by_function": {"cuA": 3, "cuB": 40}})

    def test_sums_do_not_wrap(self):
        r = records.Records()
        function, rule = r.function("cuA"), r.rule("r", "c", records.IMPLICIT)
        for _ in range(2):
            r.wait(function, rule, blocked=2 ** 64 - 1)
        r.write(self.path("1-1.slip"))
        self.assertEqual(self.json()["syncs"][0]["blocked_ns"], 2 ** 63 - 1)


class States(Report):
    def write_live(self, pid, start):
        r = records.sample(pid=pid, start=start, state=records.LIVE)
        r.header["end"] = 0
        r.write(self.path("1-1.slip"))

    def test_running(self):
        self.write_live(os.getpid(), time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        process = self.json()["processes"][0]
        self.assertEqual((process["state"], process["end_ns"]), ("running", None))

    def test_reused_number_is_gone(self):
        self.write_live(os.getpid(), 1000)  # this process is younger than the record
        self.assertEqual(self.json()["processes"][0]["state"], "gone")

    def test_zombie_is_gone(self):
        child = subprocess.Popen(["true"])
        time.sleep(0.3)
        self.write_live(child.pid, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.assertEqual(self.json()["processes"][0]["state"], "gone")
        child.wait()

    def test_another_boot_is_gone(self):
        self.write_live(os.getpid(), 2 ** 62)
        self.assertEqual(self.json()["processes"][0]["state"], "gone")

    def test_end_is_estimated_from_the_last_wait(self):
        self.write_live(records.GONE_PID, 1000000000)
        report = self.json()
        self.assertIsNone(report["processes"][0]["end_ns"])
        self.assertEqual(report["wall_ns"], 50000000)


class Sites(Report):
    SOURCE = """
        __attribute__((noinline)) void driver(void) { __asm__ volatile(""); }
        static inline __attribute__((always_inline)) void inlined(void) { driver(); __asm__ volatile(""); }
        __attribute__((noinline)) void step(void) {
            inlined(); /* line 5 */
            __asm__ volatile("");
        }
        int main(void) { step(); return 0; }
        """

    def build(self, *flags):
        program = self.path("program")
        with open(self.path("program.c"), "w") as file:
            file.write(self.SOURCE)
        subprocess.run([CC, self.path("program.c"), "-O1", "-fno-optimize-sibling-calls", "-fno-ipa-pure-const",
                        "-Wl,--build-id=sha1", "-o", program, *flags], check=True)
        notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
        build_id = bytes.fromhex(re.search(r"Build ID: (\w+)", notes).group(1))
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True,
                                 check=True).stdout
        body = listing[listing.index("<step>:"):].splitlines()
        call = next(i for i, line in enumerate(body) if "call" in line and "<driver>" in line)
        return program, build_id, int(body[call + 1].split(":")[0], 16)

    def frames(self, program, build_id, offset):
        r = records.Records()
        site = r.site([(r.module(program, build_id), offset)])
        r.wait(r.function("cuMemFree_v2"), r.rule("free", "frees", records.IMPLICIT), site, blocked=5)
        r.counters([1])
        r.write(self.path("1-1.slip"))
        return self.json()["syncs"][0]["sites"][0]["frames"]

    def test_file_and_line_with_debug_information(self):
        program, build_id, offset = self.build("-g")
        frames = self.frames(program, build_id, offset)
        self.assertEqual([(f["function"], os.path.basename(f["file"]), f["line"], f["inlined"]) for f in frames],
                         [("inlined", "program.c", 3, True), ("step", "program.c", 5, False)])
        self.assertEqual({(f["module"], f["offset"]) for f in frames}, {(program, offset)})
        self.assertIn("program.c:3  inlined (inlined)\n", self.text())
        self.assertIn("program.c:5  step\n", self.text())

    def test_function_without_debug_information(self):
        program, build_id, offset = self.build()
        (frame,) = self.frames(program, build_id, offset)
        self.assertEqual((frame["function"], frame["file"], frame["line"]), ("step", None, None))
        self.assertIn("program+0x%x  step\n" % offset, self.text())

    def test_another_file_than_the_one_recorded_gives_no_names(self):
        program, build_id, offset = self.build("-g")
        (frame,) = self.frames(program, bytes(20), offset)
        self.assertEqual((frame["function"], frame["file"], frame["offset"]), (None, None, offset))

    def test_vanished_file(self):
        (frame,) = self.frames("/gone/libmaths.so", b"\1", 0x77)
        self.assertEqual(frame, {"function": None, "file": None, "line": None, "module": "/gone/libmaths.so", "offset": 0x77,
                                 "inlined": False})


class Schema(Report):
    def test_schema_is_a_schema_and_strict(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        records.sample().write(self.path("1-1.slip"))
        good = self.json()

        def places(value, path=()):
            yield path
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
                yield from places(inner, path + (key,))

        validator = jsonschema.Draft202012Validator(SCHEMA)
        free = {"by_function", "config", "idle_basis"}  # keys come from the run
        removed = 0
        for path in places(good):
            if not path or not isinstance(path[-1], str) or (len(path) > 1 and path[-2] in free):
                continue
            broken = copy.deepcopy(good)
            parent = broken
            for key in path[:-1]:
                parent = parent[key]
            del parent[path[-1]]
            self.assertFalse(validator.is_valid(broken), path)
            parent[path[-1]] = {"no": ["such"]}
            self.assertFalse(validator.is_valid(broken), path)
            removed += 1
        self.assertGreater(removed, 100)

    def test_issue_names_are_there(self):
        records.sample().write(self.path("1-1.slip"))
        report = self.json()
        self.assertLessEqual({"total", "unwrapped", "by_function"}, set(report["calls"]))
        self.assertLessEqual({"exported", "wrapped", "unwrapped_names"}, set(report["coverage"]))
        self.assertLessEqual({"rule", "function", "class", "cause", "count", "blocked_ns", "bytes", "sites"},
                             set(report["syncs"][0]))
        self.assertLessEqual({"id", "count", "blocked_ns", "frames", "python"}, set(report["syncs"][0]["sites"][0]))
        self.assertLessEqual({"processes", "config", "version"}, set(report))

    def test_foreign_bytes_stay_valid_json(self):
        records.sample(command=b"a\xff\x1b[31m\xc3\xa9").write(self.path("1-1.slip"))
        self.assertEqual(self.json()["processes"][0]["command"], "a\\xff\x1b[31m\u00e9")


class Look(Report):
    def on_terminal(self, columns, environment):
        import fcntl
        import pty
        import struct
        import termios
        records.sample().write(self.path("1-1.slip"))
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen([TOOL, "report", self.folder.name], stdout=slave, stderr=subprocess.PIPE,
                                   env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, **environment})
        os.close(slave)
        text = b""
        try:
            while True:
                text += os.read(master, 65536)
        except OSError:
            pass
        os.close(master)
        process.stderr.close()
        self.assertEqual(process.wait(), 0)
        return text.decode().replace("\r\n", "\n")

    def test_width_and_colour(self):
        text = self.on_terminal(60, {"TERM": "xterm"})
        self.assertIn("\033[1;4mCOVERAGE\033[0m\n", text)
        plain = re.sub(r"\033\[[0-9;]*m", "", text)
        self.assertEqual(max(map(len, plain.splitlines())), 60)
        self.assertTrue(any(line.endswith("...") for line in plain.splitlines()))

    def test_no_color(self):
        self.assertNotIn("\033", self.on_terminal(80, {"TERM": "xterm", "NO_COLOR": "1"}))
        self.assertNotIn("\033", self.on_terminal(80, {"TERM": "dumb"}))

    def test_neither_without_a_terminal(self):
        records.sample(command="x" * 500).write(self.path("1-1.slip"))
        records.sample(command="y" * 500).write(self.path("2-2.slip"))
        text = self.text()
        self.assertNotIn("\033", text)
        self.assertIn("x" * 500 + "\n", text)


class Usage(Report):
    def test_bad_input(self):
        records.sample().write(self.path("1-1.slip"))
        os.mkdir(self.path("empty"))
        for arguments, status, text in (([], 2, "no folder, record file or trace given"), (["--x"], 2, "unknown option --x"),
                                        (["--by=time", "x"], 2, "--by needs rule, site, function, stream, thread, rank, host or gpu, not time"),
                                        (["--limit=x", "x"], 2, "--limit needs a number, not x"),
                                        (["/none"], 1, "/none: No such file or directory"),
                                        ([self.path("empty")], 1, "no record file in "),
                                        ([self.path("1-1.slip"), "--json", "/none/x"], 1, "cannot write /none/x: No such file"),
                                        ([self.path("1-1.slip"), "--output=/dev/full"], 1, "cannot write /dev/full: No space")):
            result = self.tool(*arguments)
            self.assertEqual((result.returncode, result.stdout), (status, ""), arguments)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertTrue(result.stderr.startswith("slipstream report: " + text), result.stderr)

    def test_one_bad_file_of_two(self):
        records.sample().write(self.path("1-1.slip"))
        result = self.tool("/none", self.path("1-1.slip"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("17 implicit", result.stdout)

    def test_full_stdout(self):
        records.sample().write(self.path("1-1.slip"))
        with open("/dev/full", "w") as full:
            result = subprocess.run([TOOL, "report", self.folder.name], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "slipstream report: cannot write the report to stdout\n"))

    def test_main_command(self):
        for arguments, status, text in (([], 2, "slipstream: no command given (try --help)\n"),
                                        (["bogus"], 2, "slipstream: unknown command bogus (try --help)\n"),
                                        (["--bogus"], 2, "slipstream: unknown option --bogus (try --help)\n")):
            result = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (status, "", text))
        result = subprocess.run([TOOL, "--version"], capture_output=True, text=True)
        self.assertRegex(result.stdout, r"^slipstream \d+\.\d+\.\d+\n$")
        result = subprocess.run([TOOL, "--help"], capture_output=True, text=True)
        self.assertEqual(re.findall(r"^  (\w+)", result.stdout, re.M), ["run", "attach", "report", "lint", "bisect", "doctor", "dump", "trace", "verify", "calibrate"])


if __name__ == "__main__":
    unittest.main()
