# SPDX-License-Identifier: MIT
"""Traces of real LTTng sessions on the simulated driver: the report of a trace equals that of the record files of the same run; live
reading through a relay daemon; a session that started late; a consumer's death. Skipped where LTTng's tools are missing."""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

from support import ANALYZE, SOURCE, Case

sys.path.insert(0, os.path.join(SOURCE, "tests", "tracing"))
import session  # noqa: E402

LIBRARY = os.environ["REAL_LIBRARY"]
PROVIDER = os.environ["REAL_PROVIDER"]
SIMCUDA = os.environ["SIMCUDA_FOLDER"]
DEMO = os.environ["DEMO"]
USER = os.environ["TRACING_USER"]
PROGRAM = os.environ["TRACING_PROGRAM"]


def pieces(report):
    """What must be equal: all but what only a trace has, and two points in time that the process takes once for each."""
    report = {key: value for key, value in report.items() if key not in ("trace", "threads", "streams", "ranks", "wall_ns")}
    for process in report["processes"]:
        for key in ("end_ns", "host", "rank", "recorded"):
            process.pop(key, None)
    for sync in report["syncs"]:
        for waited in sync["waited_for"]:
            waited.pop("host", None)
    return report


class Sessions(Case):
    def setUp(self):
        super().setUp()
        try:
            self.daemon = session.Daemon(USER)
        except session.Skip as reason:
            self.skipTest(str(reason))
        self.addCleanup(self.daemon.close)
        os.mkdir(self.path("out"))

    def environment(self, **settings):
        values = {key: value for key, value in os.environ.items() if not key.startswith(("SLIPSTREAM_", "LTTNG_", "SIMCUDA_"))}
        values.update(LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=SIMCUDA, SLIPSTREAM_OUT=self.path("out"), SLIPSTREAM_LTTNG=PROVIDER,
                      LTTNG_UST_REGISTER_TIMEOUT="20000")
        values.update(self.daemon.environment)
        values.update(settings)
        return values

    def demo(self, **settings):
        subprocess.run([DEMO], env=self.environment(**settings), check=True, timeout=100, stdout=subprocess.DEVNULL)

    def compare(self, trace):
        of_trace = self.report_json(trace)[0]
        of_records = self.report_json(self.path("out"))[0]
        self.assertEqual((of_trace["trace"]["discarded_events"], of_trace["trace"]["discarded_packets"]), (0, 0))
        self.assertGreater(len(of_records["syncs"]), 3)
        self.assertEqual(pieces(of_trace), pieces(of_records))
        self.assertLess(abs(of_trace["wall_ns"] - of_records["wall_ns"]), 10**9)
        return of_trace

    def test_equals_record_files(self):
        for level in ("waits", "full"):
            with self.subTest(level):
                trace = self.daemon.session(level)
                self.demo(SLIPSTREAM_LEVEL=level)
                trace.stop()
                report = self.compare(trace.folder)
                waits = sum(sync["count"] for sync in report["syncs"])
                for key in ("threads", "streams", "ranks"):
                    self.assertEqual(sum(row["count"] for row in report[key]), waits)
                self.assertEqual(trace.lost(), 0)
                for path in glob.glob(self.path("out/*.slip")):
                    os.unlink(path)

    def test_three_processes(self):
        trace = self.daemon.session()
        for _ in range(3):
            self.demo()
        trace.stop()
        report = self.compare(trace.folder)
        self.assertEqual(len(report["processes"]), 3)

    def test_per_process_buffers(self):
        trace = self.daemon.session(channel=("--buffers-pid", "--subbuf-size=512K", "--num-subbuf=8"))
        self.demo()
        trace.stop()
        self.compare(trace.folder)

    def test_no_context(self):
        """Per-user buffers without contexts: one line says what to do."""
        trace = self.daemon.session(contexts=())
        self.demo()
        trace.stop()
        self.assertIn("--type=vpid", self.report(trace.folder, status=1).stderr)

    def test_rotated(self):
        """A session in two chunks is one trace."""
        trace = self.daemon.session()
        self.demo()
        self.daemon.lttng("rotate", trace.name)
        self.demo()
        trace.stop()
        self.daemon.lttng("rotate", trace.name)
        self.assertGreater(len(glob.glob(trace.folder + "/archives/*")), 1)
        report = self.compare(trace.folder)
        self.assertEqual(len(report["processes"]), 2)

    def program(self, *steps):
        process = subprocess.Popen([PROGRAM, *steps], env=self.environment(), stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def reached(self, name):
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path(name)):
            self.assertLess(time.monotonic(), deadline, name)
            time.sleep(0.01)

    def go(self, name):
        with open(self.path(name), "w"):
            pass

    def test_late_session(self):
        """It has the waits of its own time, says so, and no verdict speaks for those before."""
        process = self.program("copies:50", "touch:" + self.path("ready"), "await:" + self.path("go"), "waits:20")
        self.reached("ready")
        trace = self.daemon.session("late")
        self.go("go")
        self.assertEqual(process.wait(60), 0)
        trace.stop()
        report, result = self.report_json(trace.folder)
        (row,) = report["processes"]
        self.assertEqual(sum(sync["count"] for sync in report["syncs"]), len(trace.events("wait")))
        self.assertRegex(report["coverage"]["reasons"][0], r"\Athe trace began [\d.]+ m?s after the start of process \d+: what came before is not in it\Z")
        self.assertEqual(len(report["coverage"]["reasons"]), 1)
        self.assertTrue(row["recorded"]["is_part"])
        self.assertGreater(row["recorded"]["begin_ns"], row["start_ns"])
        self.assertEqual(report["wall_ns"], row["end_ns"] - row["recorded"]["begin_ns"])
        self.assertIn(" that the trace holds)", result.stdout.splitlines()[0])
        self.assertIn(f"  recorded of process {row['pid']}: ", result.stdout)

    def test_stopped_session(self):
        """Stopped while the program waits, and started again."""
        trace = self.daemon.session("stopped")
        process = self.program("waits:20", "touch:" + self.path("one"), "await:" + self.path("two"), "waits:20", "touch:" + self.path("three"),
                               "await:" + self.path("four"), "waits:20")
        self.reached("one")
        trace.stop()
        self.go("two")
        self.reached("three")
        trace.start()
        self.go("four")
        self.assertEqual(process.wait(60), 0)
        trace.stop()
        report = self.report_json(trace.folder)[0]
        (row,) = report["processes"]
        self.assertRegex(report["coverage"]["reasons"][0], rf"\Athe session was stopped for [\d.]+ m?s while process {row['pid']} ran\Z")
        self.assertEqual(len(report["coverage"]["reasons"]), 1)
        self.assertEqual(report["wall_ns"], row["end_ns"] - row["start_ns"] - row["recorded"]["gap_ns"])

    def wait_until_written(self, folder):
        """The consumer daemon of a busy machine comes to the disk later than the program to its end."""
        deadline = time.monotonic() + 30
        while True:
            sizes = {"metadata": 0, "streams": 0}
            for path, _, names in os.walk(folder):
                for name in names:
                    kind = "metadata" if name == "metadata" else "streams" if not name.endswith(".idx") else None
                    if kind:
                        sizes[kind] += os.path.getsize(os.path.join(path, name))
            if all(sizes.values()):
                return
            self.assertLess(time.monotonic(), deadline, "nothing of the trace on disk")
            time.sleep(0.02)

    def test_unfinished_session(self):
        """Read while the session records: what has been written so far."""
        trace = self.daemon.session(channel=("--subbuf-size=16K", "--num-subbuf=8"))
        self.demo()
        self.wait_until_written(trace.folder)
        report, result = self.report_json(trace.folder)
        self.assertEqual(result.stderr, "")
        self.assertGreater(report["trace"]["events"], 100)
        trace.stop()
        self.compare(trace.folder)

    def test_live(self):
        """Through a relay daemon, while the program runs; the session's end ends the analysis."""
        if not shutil.which("lttng-relayd"):
            self.skipTest("no lttng-relayd here")
        ports = []
        for _ in range(3):
            with socket.socket() as unused:
                unused.bind(("127.0.0.1", 0))
                ports.append(unused.getsockname()[1])
        relay = subprocess.Popen(["lttng-relayd", "-C", f"tcp://127.0.0.1:{ports[0]}", "-D", f"tcp://127.0.0.1:{ports[1]}",
                                  "-L", f"tcp://127.0.0.1:{ports[2]}", "-o", self.path("relayed")], env=self.daemon.own, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(relay.wait)
        self.addCleanup(relay.terminate)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", ports[2]), 1).close()
                break
            except OSError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
        self.daemon.lttng("create", "live", "--live=100000", f"--ctrl-url=tcp://127.0.0.1:{ports[0]}", f"--data-url=tcp://127.0.0.1:{ports[1]}")
        self.daemon.lttng("enable-channel", "-u", "-s", "live", "channel")
        for context in ("vpid", "vtid"):
            self.daemon.lttng("add-context", "-u", "-s", "live", "-c", "channel", "-t", context)
        self.daemon.lttng("enable-event", "-u", "-s", "live", "-c", "channel", "slipstream:*")
        self.daemon.lttng("start", "live")
        analysis = subprocess.Popen([ANALYZE, "--json", self.path("report.json"),
                                     f"net://127.0.0.1:{ports[2]}/host/{socket.gethostname()}/live"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True)
        self.demo()
        self.daemon.lttng("stop", "live")
        self.daemon.lttng("destroy", "live")
        output, errors = analysis.communicate(timeout=60)
        self.assertEqual((analysis.returncode, errors), (0, ""), output)
        self.assertEqual(pieces(self.load(self.path("report.json"))), pieces(self.report_json(self.path("out"))[0]))

    def test_cut_stream(self):
        """The end of a stream is missing, as when the disk was full: the packets before it are reported."""
        trace = self.daemon.session(channel=("--subbuf-size=8K", "--num-subbuf=16"))
        self.demo()
        trace.stop()
        whole = self.report_json(trace.folder)[0]["trace"]["events"]
        path = max(glob.glob(trace.folder + "/**/channel_*", recursive=True), key=os.path.getsize)
        if not os.path.isfile(path) or path.endswith(".idx"):
            path = max((one for one in glob.glob(trace.folder + "/**/channel_*", recursive=True) if not one.endswith(".idx")), key=os.path.getsize)
        os.truncate(path, os.path.getsize(path) - 100)
        report, result = self.report_json(trace.folder, status=1)
        self.assertRegex(result.stderr, r"^slipstream report: .*: the trace is read in part: .* is damaged after \d+ of \d+ bytes\n$")
        self.assertGreater(report["trace"]["events"], 100)
        self.assertLess(report["trace"]["events"], whole)
        self.assertTrue(report["coverage"]["inconclusive"])


if __name__ == "__main__":
    unittest.main()
