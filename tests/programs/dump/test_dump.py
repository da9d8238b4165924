# SPDX-License-Identifier: MIT
"""slipstream dump: shows what programs that hang are inside of, live and after their death, and says in one line why there is nothing to show."""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import records  # noqa: E402

TOOL = os.environ["TESTED_TOOL"]
LIBRARY = os.environ["SLIPSTREAM_LIBRARY"]
HANG = os.environ["HANG"]
with open(os.environ["SCHEMA"], encoding="utf-8") as schema_file:
    SCHEMA = json.load(schema_file)
PATIENCE_S = 40
NOBODY = 65534
CLOCK, THREAD, ORDER, GATE, HELD, CONTEXT, STREAM = 20, 21, 22, 23, 24, 15, 16
WAITS, HOLDS = 1 << 14, 2 << 14


class Dump(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_")) and name != "LD_PRELOAD"}

    def start(self, name, ready=True, **variables):
        """A program under the library; its record file, if it has one, lies in self.folder."""
        environment = {**self.environment, "LD_PRELOAD": LIBRARY, "LD_LIBRARY_PATH": os.environ["SIMCUDA_FOLDER"],
                       "SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": "pinned,frees,staging,streams", "SLIPSTREAM_LEGACY_AFTER": "0",
                       "SLIPSTREAM_RELAX": "free", "SLIPSTREAM_OUT": self.folder.name, **variables}
        process = subprocess.Popen([HANG, name], env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        if ready:
            self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def end(self, process):
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()

    def tool(self, *arguments, **more):
        environment = {**self.environment, **more.pop("environment", {})}
        return subprocess.run([more.pop("program", TOOL), "dump", *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60,
                              check=False, **more)

    def json(self, what):
        done = self.tool(what, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answer = json.loads(done.stdout)
        jsonschema.validate(answer, SCHEMA)
        return answer

    def text(self, what):
        done = self.tool(what)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def wait_for(self, process, condition):
        """The first answer that satisfies the condition."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer = self.json(process.pid)
            if condition(answer):
                return answer
            time.sleep(0.05)
        self.fail("not within %d s: %s" % (PATIENCE_S, json.dumps(answer, indent=1)))

    def record(self):
        (name,) = [name for name in os.listdir(self.folder.name) if name.endswith(".slip")]
        return os.path.join(self.folder.name, name)

    def assert_one_line(self, done, text):
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "slipstream dump: %s\n" % text)


class Hanging(Dump):
    FOUR = ["cuCtxSetLimit", "cuMemsetD8Async", "cuMemsetD8Async", "cuStreamSynchronize"]

    def blocked(self, answer):
        """All four threads are where they stay."""
        return (sorted(thread["function"] for thread in answer["threads"]) == self.FOUR and
                sorted(str(thread["lock"]) for thread in answer["threads"]) == ["None", "None", "holds", "waits"] and
                all(thread["in_driver"] for thread in answer["threads"] if thread["lock"] != "waits"))

    def check_lock(self, answer):
        by_lock = {thread["lock"]: thread for thread in answer["threads"]}
        (context,) = answer["contexts"]
        self.assertEqual(context["lock_holder"], by_lock["holds"]["thread"])
        self.assertEqual((context["lock_waiters"], context["turn"], context["in_flight"]), (1, "substitute", 0))
        self.assertGreater(context["turns"], 0)
        self.assertEqual({by_lock[lock]["lock_context"] for lock in ("holds", "waits")}, {context["context"]})
        self.assertFalse(by_lock["waits"]["in_driver"])
        self.assertIsNone(by_lock["waits"]["since_ns"])
        start = answer["process"]["start_ns"]
        for thread in answer["threads"]:
            since = thread["lock_since_ns" if thread["lock"] == "waits" else "since_ns"]
            self.assertTrue(start < since < time.monotonic_ns(), thread)
        self.assertEqual(answer["held"]["pinned"], {"blocks": 1, "bytes": 1 << 16, "parked": 1})
        self.assertEqual(answer["held"]["device"], {"blocks": 1, "bytes": 1 << 20, "parked": 1})
        self.assertEqual(answer["held"]["arrays"], {"blocks": 0, "bytes": 0, "parked": 0})
        (batch,) = answer["held"]["batches"]
        self.assertEqual((batch["streams"], batch["stream_kind"]), (1, "non-blocking"))
        self.assertEqual(answer["gates"], [])
        self.assertEqual((answer["process"]["mode"], answer["process"]["fix"]), ("fix", "pinned,frees,staging,streams"))

    def test_submission_lock_held(self):
        process = self.start("lock", SIMCUDA_DRAIN_LOCK="on")
        answer = self.wait_for(process, self.blocked)
        self.check_lock(answer)
        self.assertEqual(answer["process"]["state"], "running")
        for thread in answer["threads"]:
            self.assertIn(thread["kernel"]["state"], ("S", "R", "D"))
            self.assertEqual(thread["kernel"]["name"], os.path.basename(HANG)[:15])
            self.assertGreater(thread["lock_for_ns"] if thread["lock"] == "waits" else thread["for_ns"], 0)
        self.assertIn(process.pid, [thread["thread"] for thread in answer["other_threads"]])
        text = self.text(process.pid)
        self.assertRegex(text, r"(?m)^  thread \d+: cuStreamSynchronize, in the driver for [\d.]+ m?s$")
        self.assertRegex(text, r"(?m)^  thread \d+: cuMemsetD8Async, in the library\n    waits for [\d.]+ m?s for the submission lock of context 1$")
        self.assertRegex(text, r"(?m)^  context 1, device 0: turn substitute after \d+ changes?, 0 operations in flight, "
                               r"submission lock held by thread \d+, 1 thread waits for it$")
        self.assertRegex(text, r"(?m)^  device: 1 block, 1\.00 MiB; 1 not yet proven to be unused$")
        self.assertRegex(text, r"(?m)^  batch 1 waits for 1 stream, non-blocking stream \d+$")
        self.assertNotIn("Nothing of mode fix", text)
        # Of a thread of it the same is told.
        self.assertEqual(self.json(answer["threads"][0]["thread"])["process"]["pid"], process.pid)
        # It outlives the process.
        process.kill()
        process.wait()
        left = self.json(self.record())
        self.check_lock(left)
        self.assertEqual(left["process"]["state"], "gone")
        for thread in left["threads"]:
            self.assertEqual((thread["kernel"], thread["for_ns"], thread["lock_for_ns"]), (None, None, None))
        self.assertEqual(sorted(thread["thread"] for thread in left["threads"]), sorted(thread["thread"] for thread in answer["threads"]))

    def test_gate_closed(self):
        process = self.start("gate", SIMCUDA_SEED="1", SIMCUDA_DELAY_US="1000000")
        answer = self.wait_for(process, lambda answer: answer["gates"] and answer["gates"][0]["state"] == "arrived" and
                               answer["gates"][0]["confirmed"])
        (gate,), (thread,), (context,) = answer["gates"], answer["threads"], answer["contexts"]
        self.assertEqual((gate["thread"], thread["function"]), (thread["thread"], "cuMemcpyHtoD_v2"))
        self.assertEqual((gate["bytes"], gate["pieces"], gate["direction"], gate["stream"]), (64 << 20, 32, "to-device", "legacy"))
        self.assertTrue(0 < gate["confirmed"] <= gate["submitted"] <= gate["pieces"], gate)
        self.assertTrue(thread["since_ns"] <= gate["since_ns"] + 1000000, answer)
        self.assertEqual((thread["in_flight"], context["in_flight"], context["lock_holder"]), ([context["context"]], 1, None))
        self.assertRegex(self.text(process.pid), r"(?m)^  thread %d: for [\d.]+ m?s, 64\.0 MiB to the device, \d+ of 32 pieces confirmed, \d+ submitted; "
                                                 % gate["thread"])

    def test_nothing_hangs(self):
        process = self.start("idle")
        answer = self.json(process.pid)
        self.assertEqual((answer["threads"], answer["gates"], answer["contexts"]), ([], [], []))
        self.assertIn("\nNothing of mode fix is held up.\n", self.text(process.pid))

    def test_mode_observe_records_no_calls(self):
        process = self.start("idle", SLIPSTREAM_MODE="observe")
        self.assertIn("\nInside driver calls now\n  not recorded: that is done in mode fix only\n", self.text(process.pid))

    def test_why_rewrites_are_off(self):
        process = self.start("idle", CUDA_LAUNCH_BLOCKING="1")
        notes = [note["text"] for note in self.json(process.pid)["notes"] if note["kind"] == "rewrite"]
        self.assertTrue(any("CUDA_LAUNCH_BLOCKING" in note for note in notes), notes)
        self.assertIn("\nOff, left to the driver, not seen\n  rewrite: ", self.text(process.pid))


class NothingToShow(Dump):
    def test_no_process(self):
        self.assert_one_line(self.tool(records.GONE_PID), "there is no process %d" % records.GONE_PID)

    def test_finished_process(self):
        process = self.start("idle")
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assert_one_line(self.tool(process.pid), "process %d has ended" % process.pid)
        process.wait()
        done = self.tool(process.pid, environment={"SLIPSTREAM_OUT": self.folder.name})
        self.assert_one_line(done, "process %d has ended; what it left: slipstream dump %s" % (process.pid, self.record()))

    def test_without_the_library(self):
        with subprocess.Popen(["sleep", "60"]) as process:
            self.addCleanup(process.kill)
            done = self.tool(process.pid)
            process.kill()
        self.assert_one_line(done, "process %d runs without the library (start it with slipstream run)" % process.pid)

    def test_without_a_record_file(self):
        process = self.start("idle", SLIPSTREAM_OUT="")
        self.assert_one_line(self.tool(process.pid), "process %d has the library, but no record file: SLIPSTREAM_OUT is not set or cannot be written, "
                                                     "or no driver function was called yet" % process.pid)

    def test_record_file_was_deleted(self):
        process = self.start("idle")
        os.unlink(self.record())
        done = self.tool(process.pid)
        if done.returncode:  # who is not root may not open it any more
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"^slipstream dump: /.*\.slip: [^\n]+\n$")
        else:
            self.assertIn("Nothing of mode fix is held up.", done.stdout)

    def test_process_of_another_user(self):
        others, more, program = 1, {}, TOOL
        if os.geteuid() == 0:
            others = self.start("idle").pid
            program = shutil.copy(TOOL, self.folder.name)
            os.chmod(program, 0o755)
            os.chmod(self.folder.name, 0o711)
            more = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        elif os.stat("/proc/1").st_uid == os.geteuid():
            self.skipTest("process 1 is of this user")
        done = self.tool(others, program=program, **more)
        self.assert_one_line(done, "process %d may not be looked into: it is of user root; only that user and root may, and of some programs root alone"
                             % others)

    def test_usage(self):
        for arguments, text in (([], "no process given"), (["--x"], "unknown option --x"), (["1", "2"], "unexpected argument 2")):
            done = self.tool(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "slipstream dump: %s (try --help)\n" % text))
        for number in ("0", "4294967296", "99999999999999999999"):
            done = self.tool(number)
            self.assertEqual((done.returncode, done.stderr), (2, "slipstream dump: %s is no number of a process\n" % number))
        missing = os.path.join(self.folder.name, "missing")
        self.assert_one_line(self.tool(missing), "%s: No such file or directory" % missing)


def constructed():
    """A process that ended with one of everything. Its ticks are nanoseconds."""
    start = 1 << 40
    r = records.Records(start=start, end=0, state=records.LIVE, command="evil\x1b[31m\nname", config="MODE=fix\nFIX=frees\x1b\nRELAX=\n")
    copy = r.function("cuMemcpy\x1b[2J")
    r.function("cuMemFree_v2")
    r.note(11, "frees: \x1b]0;title\x07", 3)
    r.record(CLOCK, struct.pack("<QQII", start, start, 0, 0))

    def at(what, ticks):
        return what << 48 | ticks >> 8

    def thread(number, call=0, lock=0, drain=0, flight=(0, 0, 0)):
        r.record(THREAD, struct.pack("<II6Q3Q3Q6Q", number, 0, *[0] * 6, call, lock, drain, *flight, *[0] * 6))

    second = 1000000000
    thread(0, at(copy + 1, start + second))  # nobody's any more
    thread(70, at(copy + 1, start + 2 * second), at(HOLDS | 1, 0))
    thread(71, at(copy + 2, 0), at(WAITS | 1, start + 3 * second))
    thread(72, at(copy + 1, start + second), 0, 0, (1, 1, 0))
    thread(73, at(copy + 2, 0), 0, at(1, start + 4 * second), (2, 1, 2))
    thread(74, at(copy + 2, 0) | 1)  # in the driver, nobody looked at the clock
    thread(75)
    thread(76, at(9999, start - 5 * second))  # no such function, before the start
    for number in (1, 2):
        r.record(CONTEXT, struct.pack("<IiQ", number, number - 1, 100 + number))
    r.record(STREAM, struct.pack("<IIQQ", 5, 3, 101, 0x5000))
    r.record(ORDER, struct.pack("<IIQ", 1, 1, 7))
    r.record(ORDER, struct.pack("<IIQ", 2, 0, 4))
    r.record(ORDER, struct.pack("<IIQ", 0, 0, 9))  # of a context that ended
    r.record(GATE, struct.pack("<IIQQQQIIII", 2, 72, 101, 0x5000, start + second, 20 << 20, 0, 10, 8, 3))
    r.record(GATE, struct.pack("<IIQQQQIIII", 0, 72, 101, 1, start, 1, 1, 1, 1, 1))  # over
    r.record(HELD, struct.pack("<9QII16I", 3, 3 << 20, 2, 0, 0, 0, 1, 4096, 1, 2, 0, 2, 5, 0, 0, *[0] * 12))
    return r


class Constructed(Dump):
    def write(self, r):
        path = os.path.join(self.folder.name, "1-1.slip")
        r.write(path)
        return path

    def test_all_figures(self):
        answer = self.json(self.write(constructed()))
        start = answer["process"]["start_ns"]
        threads = [(t["thread"], t["function"], t["in_driver"], t["since_ns"] and round((t["since_ns"] - start) / 1e9, 3), t["lock"], t["lock_context"],
                    t["lock_since_ns"] and round((t["lock_since_ns"] - start) / 1e9, 3), t["waits_for_gates"], t["in_flight"]) for t in answer["threads"]]
        copy = "cuMemcpy\x1b[2J"
        self.assertEqual(threads, [
            (72, copy, True, 1.0, None, None, None, False, [1]),
            (70, copy, True, 2.0, "holds", 1, None, False, []),
            (71, "cuMemFree_v2", False, None, "waits", 1, 3.0, False, []),
            (73, "cuMemFree_v2", False, None, None, None, None, True, [1, 2]),
            (74, "cuMemFree_v2", True, None, None, None, None, False, []),
            (76, "unknown function", True, None, None, None, None, False, []),
        ])
        self.assertEqual(answer["contexts"], [
            {"context": 1, "device": 0, "turn": "substitute", "turns": 7, "in_flight": 2, "lock_holder": 70, "lock_waiters": 1},
            {"context": 2, "device": 1, "turn": "native", "turns": 4, "in_flight": 1, "lock_holder": None, "lock_waiters": 0},
        ])
        self.assertEqual(answer["gates"], [
            {"thread": 72, "state": "placed", "context": 1, "stream": "blocking", "direction": "from-device", "bytes": 20 << 20,
             "since_ns": start + 1000000000, "for_ns": None, "pieces": 10, "submitted": 8, "confirmed": 3}])
        self.assertEqual(answer["held"], {
            "pinned": {"blocks": 3, "bytes": 3 << 20, "parked": 2}, "device": {"blocks": 0, "bytes": 0, "parked": 0},
            "arrays": {"blocks": 1, "bytes": 4096, "parked": 1}, "cached_bytes": 0,
            "batches": [{"streams": 2, "stream": 5, "stream_kind": "blocking"}, {"streams": None, "stream": None, "stream_kind": None}]})
        self.assertEqual(answer["notes"], [{"kind": "rewrite", "text": "frees: \x1b]0;title\x07", "count": 3}])

    def test_names_of_the_program_are_escaped(self):
        text = self.text(self.write(constructed()))
        self.assertEqual([character for character in text if ord(character) < 32 and character != "\n"], [])
        for escaped in ("evil\\x1b[31m\\x0aname", "cuMemcpy\\x1b[2J", "frees: \\x1b]0;title\\x07 (3x)", "rewrites frees\\x1b"):
            self.assertIn(escaped, text)

    def test_damaged_files(self):
        seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
        print("seed", seed)
        chance, whole = random.Random(seed), constructed().bytes()
        path = os.path.join(self.folder.name, "1-1.slip")
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(chance.randrange(1, 30)):
                data[chance.randrange(96, len(data))] = chance.randrange(256)
            with open(path, "wb") as file:
                file.write(data[:chance.randrange(96, len(data) + 1)])
            done = self.tool(path, *chance.choice(([], ["--json"])))
            self.assertIn(done.returncode, (0, 1), "seed %d: %s" % (seed, done.stderr))

    def test_not_a_record_file(self):
        path = os.path.join(self.folder.name, "text.slip")
        with open(path, "w", encoding="utf-8") as file:
            file.write("x" * 200)
        self.assert_one_line(self.tool(path), "%s: not a record file: its head is another" % path)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for option in ([], ["--json"]):
                done = subprocess.run([TOOL, "dump", self.write(constructed()), *option], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (1, "slipstream dump: cannot write to stdout\n"))


if __name__ == "__main__":
    unittest.main()
