# SPDX-License-Identifier: MIT
"""Large traces are decoded by several threads: the result is that of one thread, in the same order; a damaged stream, Ctrl-C and a full disk end
them all."""
import os
import signal
import subprocess
import sys
import time
import unittest

import ctf
from support import ANALYZE, SOURCE, Case
from test_errors import WAIT, define

sys.path.insert(0, os.path.join(SOURCE, "tests", "bench"))
import analysis  # noqa: E402


def threads_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


class Lanes(Case):
    def analyze(self, *arguments, status=0, processors=None):
        return self.run_command(ANALYZE, *arguments, status=status,
                                preexec_fn=(lambda: os.sched_setaffinity(0, processors)) if processors else None)

    def several(self, folder, streams=4, packets=60, waits=5000):
        """Streams of about 18 MB that interleave; each process has two of them."""
        trace = ctf.Trace(self.path(folder))
        for number in range(streams):
            stream = trace.stream()
            pid = 100 + number % 2
            define(stream, 1000000 + number, pid=pid)
            payload = bytes(stream.payload)
            stream.payload.clear()
            stream.begin = None
            stream.packet(1000000 + number, 1999999, payload)
            body = b"".join(bytes(stream.encode(10000000 + index * 1000 + number, "wait", pid, pid + index % 3, dict(WAIT))) for index in range(waits))
            for packet in range(packets):
                stream.packet(packet * ctf.PERIOD + 10000000, (packet + 1) * ctf.PERIOD - 1, body)
        trace.close()
        return streams * packets * waits

    def test_same_as_one(self):
        waits = self.several("trace")
        one = {next(iter(os.sched_getaffinity(0)))}
        for option in ("--by=rule", "--by=thread", "--waits"):
            results = []
            for processors in (one, None):
                arguments = [option, "--output", self.path("text"), self.path("trace")]
                if option != "--waits":
                    arguments[:0] = ["--json", self.path("report.json")]
                else:
                    arguments[:0] = ["--end=1s"]
                self.analyze(*arguments, processors=processors)
                with open(self.path("text"), encoding="utf-8") as file:
                    results.append((file.read(), self.load(self.path("report.json"))))
            self.assertEqual(results[0], results[1], option)
        self.assertEqual(sum(sync["count"] for sync in results[0][1]["syncs"]), waits)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor here")
    def test_there_are_threads(self):
        self.several("trace")
        process = subprocess.Popen([ANALYZE, "--output", "/dev/null", self.path("trace")])
        most = 0
        while process.poll() is None:
            most = max(most, threads_of(process.pid))
            time.sleep(0.002)
        self.assertGreaterEqual(most, 3)
        self.several("small", packets=2)
        process = subprocess.Popen([ANALYZE, "--output", "/dev/null", self.path("small")])
        while process.poll() is None:
            self.assertLessEqual(threads_of(process.pid), 1)

    def test_damaged_stream(self):
        """Streams of the same thread end with it, those of others are read on."""
        waits = self.several("trace")
        path = self.path("trace/slipstream_2")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2 + 100000)
            file.write(b"\xff" * 300)
        result = self.analyze("--json", self.path("report.json"), self.path("trace"), status=1)
        report = self.load(self.path("report.json"))
        count = sum(sync["count"] for sync in report["syncs"])
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertNotIn("addr=", result.stderr)
        self.assertGreater(count, waits // 3)
        self.assertLess(count, waits)
        self.assertIsNotNone(report["trace"]["broken"])

    def test_damaged_head(self):
        """Damage over the head of a packet: babeltrace2 refuses the folder, its whole packets are read."""
        waits = self.several("trace")
        path = self.path("trace/slipstream_2")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            file.write(b"\xff" * 300000)  # longer than a packet
        result = self.analyze("--json", self.path("report.json"), self.path("trace"), status=1)
        count = sum(sync["count"] for sync in self.load(self.path("report.json"))["syncs"])
        self.assertIn("the trace is read in part", result.stderr)
        self.assertGreater(count, waits * 4 // 10)
        self.assertLess(count, waits)

    def test_interrupt(self):
        self.several("trace", packets=150)
        for _ in range(3):
            process = subprocess.Popen([ANALYZE, "--json", self.path("report.json"), self.path("trace")], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            time.sleep(0.6)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            report = self.load(self.path("report.json"))
            self.assertEqual((process.returncode, report["trace"]["interrupted"]), (1, True), errors)
            self.assertIn(f"stopped after {report['trace']['events']} events", errors)

    def test_full_disk(self):
        """A consumer that fails ends the threads as well."""
        self.several("trace")
        result = self.analyze("--waits", "--output=/dev/full", self.path("trace"), status=1)
        self.assertIn("/dev/full", result.stderr)


if __name__ == "__main__":
    unittest.main()
