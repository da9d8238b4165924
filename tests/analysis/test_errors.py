# SPDX-License-Identifier: MIT
"""What goes wrong with traces: golden ones with mistakes (line and column), foreign, truncated and corrupted ones, missing contexts, older and other
schemas, lost packets, traces that do not end, Ctrl-C. One clear line, exit status 1, and the report of what was good."""
import os
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import ctf
from support import ANALYZE, DUMP, PLUGIN, PLUGIN_ENVIRONMENT, SANITIZED, SOURCE, Case, golden

sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import records  # noqa: E402

WAIT = {"wait": 1, "candidates": 1, "stream": 1, "blocked_ns": 1000, "call_ns": 2000}


def define(stream, ns=1000000, pid=100, **process):
    """A process with one rule, function, wait and candidate; nothing had waited before its first dump."""
    def event(name, /, **fields):
        nonlocal ns
        stream.event(ns, name, vpid=pid, vtid=pid, **fields)
        ns += 100

    event("dump_begin", dump=1, reason=1)
    event("def_process", **{"pid": pid, "rank": -1, "start_ns": 900000, "exe": 1, "command": 1, **process})
    for number, text in enumerate(("/usr/bin/demo", "cuMemFree_v2", "free-drains-device", "free drains the device"), 1):
        event("def_string", id=number, length=len(text), text=text)
    event("def_function", number=0, name=2, flags=3)
    event("def_rule", number=0, slug=3, cause=4, **{"class": 2})
    event("dump_end", dump=1)
    event("def_wait", id=1, destination_kind=6)
    event("def_candidate", id=1, stream_kind=1, context=1)
    event("def_coverage", function=0, calls=7)


# What a trace without process_end is told: its process was killed, left by _exit, or lost its tracer.
NO_END = "1 process has no end in the trace: calls are counted up to the last definitions, and later ones may be missing"


class Text(Case):
    """Every mistake in a golden trace names its line and column."""

    def check(self, line, where, words):
        path = self.write("bad.trace", "# one\n0.1 host=a pid=1 tid=1 dump_begin\n" + line + "\n")
        result = self.report(path, status=1)
        self.assertEqual(result.stderr, f"slipstream report: {path}:{where}: {words}\n")

    def test_mistakes(self):
        for line, where, words in (
                ("x dump_end", "3:1", "a time in seconds is expected"),
                ("0.2", "3:4", "the name of an event is expected"),
                ("0.05 dump_end", "3:1", "the time is before that of the line before"),
                ("0.1234567891 dump_end", "3:12", "no fraction of a second"),
                ("0. dump_end", "3:1", "a time in seconds is expected"),
                ("0x1 dump_end", "3:1", "a time in seconds is expected"),
                ("0.2 nothing", "3:5", "there is no event 'nothing'"),
                ("0.2 pid=x dump_end", "3:9", "a number below 2^32 is expected"),
                ("0.2 dump_end dump", "3:14", "FIELD=VALUE is expected"),
                ("0.2 dump_end colour=1", "3:14", "event dump_end has no field 'colour'"),
                ("0.2 dump_end dump=1 dump=2", "3:21", "field dump is there twice"),
                ("0.2 dump_end dump=4294967296", "3:19", "field dump needs a number below 2^32"),
                ("0.2 dump_end dump=-1", "3:19", "field dump needs a number below 2^32"),
                ("0.2 wait bytes=18446744073709551616", "3:16", "field bytes needs a number below 2^64"),
                ("0.2 def_context device=2147483648", "3:24", "field device needs a signed number of 32 bits"),
                ("0.2 def_string text=x", "3:21", "a text in quotes is expected"),
                ("0.2 def_string text=\"x", "3:21", "the closing quote is missing"),
                ("0.2 def_string text=\"\\q\"", "3:22", "no such escape (\\n \\r \\t \\a \\b \\\\ \\\" \\xNN)"),
                ("0.2 def_string text=\"\\x00\"", "3:22", "no such escape (\\n \\r \\t \\a \\b \\\\ \\\" \\xNN)"),
                ("0.2 def_string text=\"x\"y", "3:24", "a blank is expected behind the quote"),
                ("0.2 discarded", "3:14", "a number of lost events is expected"),
                ("0.2 discarded 0", "3:15", "a number of lost events is expected"),
                ("0.2 discarded 1 2", "3:17", "nothing more is expected here"),
                ("0.2 other:event x=1", "3:17", "nothing more is expected here")):
            with self.subTest(line):
                self.check(line, where, words)

    def test_control_characters_in_messages_are_shown(self):
        path = self.write("bad.trace", "0.1 host=a pid=1 tid=1 dump_begin\n0.2 \x1b[31m\n")
        self.assertEqual(self.report(path, status=1).stderr, f"slipstream report: {path}:2:5: there is no event '\\x1b[31m'\n")

    def test_what_is_good_is_read(self):
        with open(golden("one-wait"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        last = max(number for number, line in enumerate(lines) if " wait " in line)
        path = self.write("half.trace", "\n".join(lines[:last]) + "\n1.02 nonsense\n")
        report, result = self.report_json(path, status=1)
        self.assertEqual(sum(sync["count"] for sync in report["syncs"]), 1)
        self.assertEqual(result.stderr, f"slipstream report: {path}:{last + 1}:6: there is no event 'nonsense'\n")
        self.assertEqual(report["trace"]["broken"], f"{path}:{last + 1}:6: there is no event 'nonsense'")
        self.assertTrue(report["coverage"]["inconclusive"])

    def test_no_text(self):
        with open(self.path("binary.trace"), "wb") as file:
            file.write(b"0.1 \x00\n")
        self.assertIn(":1:5: a NUL byte: this is no text", self.report(self.path("binary.trace"), status=1).stderr)
        self.assertIn("no event of slipstream's", self.report(self.write("empty.trace", ""), status=1).stderr)

    def test_defaults(self):
        """host, pid and tid are as on the line before; fields that are not named are 0; a string has its own length."""
        path = self.write("short.trace", '0.1 host=a pid=1 tid=2 dump_begin\n  0.2\tdef_string id=1 text="x # y\\x41" # comment\n\n1 tid=3 wait bytes=0x10\n')
        lines = self.run_command(DUMP, path).stdout.splitlines()
        self.assertEqual(lines[1:3], ['200000000 process=0 host=a pid=1 tid=2 def_string id=1 length=6 offset=0 text="x # yA"',
                                      "1000000000 process=0 host=a pid=1 tid=3 wait wait=0 candidates=0 stream=0 bytes=16 blocked_ns=0 call_ns=0"
                                      " [rule ?, 0 frames]"])


class Traces(Case):
    def trace(self, name="trace", **options):
        return ctf.Trace(self.path(name), **options)

    def good(self, name="trace", waits=3, packets=1, **options):
        """A trace of `packets` packets of waits."""
        trace = self.trace(name, **options)
        stream = trace.stream()
        define(stream)
        stream.flush()
        for packet in range(packets):
            for number in range(waits):
                stream.event(2000000 + packet * 1000000 + number * 1000, "wait", vpid=100, vtid=100, **WAIT)
            stream.flush()
        trace.close()
        return trace

    def counts(self, report):
        return sum(sync["count"] for sync in report["syncs"])

    def test_good(self):
        self.good()
        report, result = self.report_json(self.path("trace"))
        self.assertEqual((self.counts(report), report["calls"]["total"], result.stderr), (3, 7, ""))

    def test_trace_below_the_folder(self):
        os.makedirs(self.path("a/ust/uid/0"))
        self.good("a/ust/uid/0/64-bit")
        self.good("a/second")
        self.assertEqual(self.counts(self.report_json(self.path("a"))[0]), 6)

    def test_truncated(self):
        """The last packet is cut: everything before it is reported."""
        self.good(packets=4, waits=50)
        path = self.path("trace/slipstream_0")
        os.truncate(path, os.path.getsize(path) - 100)
        report, result = self.report_json(self.path("trace"), status=1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(self.path("trace"), result.stderr)
        self.assertGreaterEqual(self.counts(report), 150)
        self.assertTrue(report["coverage"]["inconclusive"])

    def test_corrupted_event(self):
        """An event of an unknown number in the last packet."""
        self.good(packets=4, waits=50)
        path = self.path("trace/slipstream_0")
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) - 50 * 50 + 25 * 50)
            file.write(b"\xff\xff" * 60)
        report, result = self.report_json(self.path("trace"), status=1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertGreaterEqual(self.counts(report), 150)
        self.assertEqual(result.stderr, f"slipstream report: {report['trace']['broken']}\n")
        self.assertTrue(report["trace"]["broken"].startswith(self.path("trace") + ": "), result.stderr)

    def test_corrupted_metadata(self):
        self.good()
        self.write("trace/metadata", "/* CTF 1.8 */ nonsense {")
        result = self.report(self.path("trace"), status=1)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, rf"\Aslipstream report: {re.escape(self.path('trace'))}: the trace cannot be read: [^\n]+\n\Z")

    def test_cut_metadata_packets(self):
        """babeltrace2 2.0 never comes back from metadata whose last packet says more than there is."""
        self.good()
        path = self.path("trace/metadata")
        with open(path, "rb") as file:
            text = file.read()

        def packet(order, part, content=0, padding=50):
            content = content or 37 + len(part)
            return struct.pack(order + "I16sIII5B", 0x75D11D57, bytes(16), 0, content * 8, (content + padding) * 8, 0, 0, 0, 1, 8) + part + bytes(padding)

        def write(data):
            with open(path, "wb") as file:
                file.write(data)

        first, second = packet("<", text[:1000]), packet("<", text[1000:])
        for whole in (first + second, packet("<", text, padding=0)):
            write(whole)
            self.assertEqual(self.counts(self.report_json(self.path("trace"))[0]), 3)
        damages = [(first + second[:size], len(first)) for size in (5, 36, 37, 38, 1000, len(second) - 51)]
        damages += [(packet("<", text)[:63], 0), (packet(">", text)[:63], 0), (first + packet("<", b"", content=20), len(first))]
        for data, place in damages:
            with self.subTest((len(data), place)):
                write(data)
                result = self.report(self.path("trace"), status=1)
                self.assertEqual(result.stderr, f"slipstream report: {self.path('trace')}: the trace cannot be read: its metadata is damaged after "
                                 f"{place} of {len(data)} bytes\n")

    def test_impossible_packet_size(self):
        """babeltrace2 2.0 aborts at a packet of 2^63 bits, and stays for ever at one of none."""
        for content, size in ((0, 0), (0, 504), (1 << 63, 1 << 63), (600, 1 << 63), (1 << 63, 600), ((1 << 64) - 1, 600)):
            with self.subTest((content, size)):
                trace = self.good(f"trace-{content}-{size}", packets=4, waits=50)
                path = os.path.join(trace.folder, "slipstream_0")
                with open(path, "r+b") as file:
                    data = file.read()
                    last = data.rindex(struct.pack("<I", ctf.MAGIC))
                    file.seek(last + 48)
                    file.write(struct.pack("<QQ", content, size))
                report, result = self.report_json(trace.folder, status=1)
                self.assertEqual(result.stderr, f"slipstream report: {trace.folder}: the trace is read in part: {path} is damaged after {last} of "
                                 f"{len(data)} bytes\n")
                self.assertEqual(self.counts(report), 150)

    def test_one_of_two_is_bad(self):
        self.good("all/good")
        self.good("all/bad")
        self.write("all/bad/metadata", "/* CTF 1.8 */ nonsense {")
        report, result = self.report_json(self.path("all"), status=1)
        self.assertEqual(self.counts(report), 3)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("all/bad: the trace cannot be read", result.stderr)
        self.assertTrue(report["coverage"]["inconclusive"])

    def test_foreign(self):
        trace = self.trace(foreign=("other:thing",))
        stream = trace.stream()
        stream.event(1000, "other:thing")
        trace.close()
        result = self.report(self.path("trace"), status=1)
        self.assertEqual((result.stdout, result.stderr), ("", "slipstream report: the trace has no event of slipstream's\n"))

    def test_foreign_events_between(self):
        trace = self.trace(foreign=("other:thing",))
        stream = trace.stream()
        define(stream)
        stream.event(2000000, "other:thing")
        stream.event(2000001, "wait", vpid=100, vtid=100, **WAIT)
        stream.event(2000002, "other:thing")
        trace.close()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual((self.counts(report), report["coverage"]["reasons"]), (1, [NO_END]))

    def test_no_metadata(self):
        """The daemons died before they wrote any: the record files of the run are beside it."""
        os.makedirs(self.path("run/records"))
        os.makedirs(self.path("run/ust/uid/0/64-bit"))
        self.write("run/ust/uid/0/64-bit/metadata", "")
        with open(self.path("run/records/1-1.slip"), "wb") as file:
            file.write(records.sample().bytes())
        wanted = self.report(self.path("run/records")).stdout
        self.assertIn("IMPLICIT SYNCHRONIZATIONS", wanted)
        result = self.report(self.path("run"))
        self.assertEqual((result.stdout, result.stderr), (wanted, f"slipstream report: the trace in {self.path('run')} was cut before anything of it could be "
                                                          f"read: this is the report of the record files in {self.path('run/records')}\n"))
        self.assertEqual(self.report(self.path("run"), "--records").stderr, "")
        self.good("run/second")
        self.assertEqual(self.report(self.path("run"), "--records").stdout, wanted)

    def test_no_snapshot_was_saved(self):
        os.makedirs(self.path("run/records"))
        with open(self.path("run/records/1-1.slip"), "wb") as file:
            file.write(records.sample().bytes())
        result = self.report(self.path("run"))
        self.assertEqual((result.stdout, result.stderr), (
            self.report(self.path("run/records")).stdout, f"slipstream report: there is no trace in {self.path('run')} (no snapshot was saved, or it went "
            f"elsewhere): this is the report of the record files in {self.path('run/records')}\n"))

    def test_records_beside_a_trace_that_cannot_be_read(self):
        self.good("run/ust")
        self.write("run/ust/metadata", "/* CTF 1.8 */ nonsense {")
        os.makedirs(self.path("run/records"))
        sample = records.sample().bytes()
        hint = (f"slipstream report: the record files in {self.path('run/records')} are whole: `slipstream report --records {self.path('run')}` "
                "shows them\n")
        for data, end in ((sample, hint), (sample[:len(sample) // 2], "")):
            with open(self.path("run/records/1-1.slip"), "wb") as file:
                file.write(data)
            lines = self.report(self.path("run"), status=1).stderr.splitlines(keepends=True)
            self.assertIn("the trace cannot be read", lines[0])
            self.assertEqual("".join(lines[1:]), end)

    def test_records_beside_a_trace_that_is_read_in_part(self):
        self.good("run/ust", packets=4, waits=50)
        path = self.path("run/ust/slipstream_0")
        os.truncate(path, os.path.getsize(path) - 100)
        os.makedirs(self.path("run/records"))
        with open(self.path("run/records/1-1.slip"), "wb") as file:
            file.write(records.sample().bytes())
        lines = self.report(self.path("run"), status=1).stderr.splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("is read in part", lines[0])
        self.assertIn("--records", lines[1])

    def test_no_trace(self):
        os.mkdir(self.path("empty"))
        self.assertIn("no record file in", self.report(self.path("empty"), status=1).stderr)
        self.assertIn("there is no trace", self.run_command(ANALYZE, self.path("empty"), status=1).stderr)

    def test_no_vpid(self):
        trace = self.trace(contexts=("vtid",))
        stream = trace.stream()
        define(stream)
        trace.close()
        result = self.report(self.path("trace"), status=1)
        self.assertEqual(result.stderr, "slipstream report: the events do not tell their process: record the session with "
                         "`lttng add-context --userspace --type=vpid --type=vtid`\n")

    def test_pid_of_the_environment(self):
        """Per-process buffers: the trace says which process; no vtid is no error."""
        trace = self.trace(contexts=(), env={"vpid": 100, "procname": "demo"})
        stream = trace.stream()
        define(stream)
        stream.event(2000000, "wait", **WAIT)
        trace.close()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual((self.counts(report), report["processes"][0]["pid"], report["threads"][0]["thread"]), (1, 100, 0))

    def test_older_schema(self):
        """A field that is missing reads 0."""
        trace = self.trace(change={"wait.bytes": None, "def_rule.flags": None})
        stream = trace.stream()
        define(stream)
        stream.event(2000000, "wait", vpid=100, vtid=100, **WAIT)
        trace.close()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual((report["syncs"][0]["count"], report["syncs"][0]["bytes"], report["syncs"][0]["blocked_ns"]), (1, 0, 1000))

    def test_other_type(self):
        trace = self.trace(change={"wait.bytes": "string"})
        stream = trace.stream()
        define(stream)
        for number in range(3):
            stream.event(2000000 + number, "wait", vpid=100, vtid=100, bytes="many", **WAIT)
        trace.close()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual(report["syncs"], [])
        self.assertEqual(report["coverage"]["reasons"], ["events wait are left out: their field bytes has another type", NO_END])

    def test_loss(self):
        trace = self.trace()
        stream = trace.stream()
        define(stream)
        stream.flush()
        stream.discard(5)
        stream.event(2000000, "wait", vpid=100, vtid=100, **WAIT)
        stream.flush()
        stream.number += 2  # two packets are missing
        stream.event(3000000, "wait", vpid=100, vtid=100, **WAIT)
        trace.close()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual((report["trace"]["discarded_events"], report["trace"]["discarded_packets"], self.counts(report)), (5, 2, 2))
        self.assertEqual(report["coverage"]["reasons"],
                         ["5 events were lost by the tracer", "2 packets of events were lost by the tracer", NO_END])

    def test_clock_offset(self):
        """Times in definitions are the host's; those of events are moved by the clock's offset."""
        trace = self.trace(offset=1700000000 * 10**9)
        stream = trace.stream()
        define(stream)
        stream.event(5000000, "wait", vpid=100, vtid=100, **WAIT)
        trace.close()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual((report["processes"][0]["start_ns"], report["wall_ns"]), (900000, 4100000))

    def test_hosts_are_merged_by_time(self):
        for host, offset in (("alpha", 0), ("beta", 5000)):
            trace = self.trace("all/" + host, host=host, offset=offset)
            stream = trace.stream()
            define(stream)
            stream.event(2000000, "wait", vpid=100, vtid=100, **WAIT)
            trace.close()
        lines = self.report(self.path("all"), "--waits").stdout.splitlines()
        self.assertEqual([re.match(r"(\S+) .*host (\w+)", line).groups() for line in lines], [("0.001000000", "alpha"), ("0.001005000", "beta")])

    def test_missing_pieces(self):
        """A string whose beginning was lost is unknown until a dump brings it; a stack with a hole ends at the hole."""
        trace = self.trace()
        stream = trace.stream()
        stream.event(1000, "def_process", vpid=100, pid=100, rank=-1, start_ns=900, exe=1)
        stream.event(1001, "def_string", vpid=100, id=1, length=8, offset=4, text="demo")
        stream.event(1002, "def_site", vpid=100, id=1, frames=3)
        stream.event(1003, "def_frame", vpid=100, site=1, index=0, offset=0x10)
        stream.event(1004, "def_frame", vpid=100, site=1, index=2, offset=0x30)
        stream.event(1005, "def_wait", vpid=100, id=1, site=1)
        stream.event(2000, "wait", vpid=100, **WAIT)
        stream.flush()
        first = self.report_json(self.path("trace"))[0] if stream.file.flush() is None else None
        self.assertIsNone(first["processes"][0]["exe"])
        self.assertEqual([frame["offset"] for frame in first["syncs"][0]["sites"][0]["frames"]], [0x10])
        stream.event(3000, "def_string", vpid=100, id=1, length=8, offset=0, text="/bin")
        stream.event(3001, "def_string", vpid=100, id=1, length=8, offset=4, text="demo")
        stream.event(3002, "def_frame", vpid=100, site=1, index=1, offset=0x20)
        trace.close()
        second = self.report_json(self.path("trace"))[0]
        self.assertEqual(second["processes"][0]["exe"], "/bindemo")
        self.assertEqual([frame["offset"] for frame in second["syncs"][0]["sites"][0]["frames"]], [0x10, 0x20, 0x30])

    def test_hostile_numbers(self):
        """Impossible lengths, indices and counts neither crash nor take memory."""
        trace = self.trace()
        stream = trace.stream()
        define(stream)
        for number in range(100):
            stream.event(1100000 + number * 10, "def_string", vpid=100, id=2**32 - 1 - number, length=2**32 - 1, offset=2**32 - 10, text="x")
            stream.event(1100001 + number * 10, "def_frame", vpid=100, site=number, index=2**32 - 1, offset=1)
            stream.event(1100002 + number * 10, "def_candidate_set", vpid=100, set=2**31 + 1, index=2**31 + number, count=2**32 - 1, candidate=1)
            stream.event(1100003 + number * 10, "def_site", vpid=100, id=number, frames=2**32 - 1, python_frames=2**32 - 1)
            stream.event(1100004 + number * 10, "def_coverage", vpid=100, function=2**32 - 1 - number, calls=2**64 - 1)
            stream.event(1100005 + number * 10, "wait", vpid=100, wait=2**32 - 1, candidates=2**32 - 1, stream=2**32 - 1, bytes=2**64 - 1,
                         blocked_ns=2**64 - 1, call_ns=2**64 - 1)
        trace.close()
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))) if not SANITIZED else None
        self.run_command(ANALYZE, "--json", self.path("report.json"), self.path("trace"), preexec_fn=limit)
        report = self.load(self.path("report.json"))
        self.assertEqual((self.counts(report), report["syncs"][0]["blocked_ns"]), (100, 2**63 - 1))
        self.assertIn("unknown", self.report(self.path("trace"), "--waits").stdout)

    def test_mixed_folder(self):
        """Where there are record files too, the trace is analysed, unless --records."""
        self.good("mixed/trace")
        with open(self.path("mixed/1-1.slip"), "w"):
            pass
        self.assertEqual(self.counts(self.report_json(self.path("mixed"))[0]), 3)
        self.assertIn("empty: its process could not write", self.report(self.path("mixed"), "--records", status=1).stderr)

    def test_unwritable_output(self):
        self.good()
        result = self.report(self.path("trace"), "--json", self.path("no/such/file"), status=1)
        self.assertEqual((result.stdout, result.stderr), ("", f"slipstream report: cannot write {self.path('no/such/file')}: No such file or directory\n"))
        self.assertIn("/no/such/page", self.report(self.path("trace"), "--html", "/no/such/page", status=1).stderr)
        self.assertIn("/no/such/line", self.report(self.path("trace"), "--timeline", "/no/such/line", status=1).stderr)


class Stopping(Case):
    """A golden trace in a FIFO that stays open is a trace that does not end."""

    def endless(self, name="endless.trace"):
        """The analysis, and the write end of what it reads; the events of one-wait are on their way."""
        path = self.path(name)
        with open(golden("one-wait"), encoding="utf-8") as file:
            text = file.read()
        os.mkfifo(path)
        return path, text

    def start(self, *arguments, **options):
        return subprocess.Popen([ANALYZE, *arguments], stdout=subprocess.PIPE, text=True, **{"stderr": subprocess.PIPE, **options})

    def test_interrupt(self):
        trace = ctf.Trace(self.path("trace"))
        stream = trace.stream()
        define(stream)
        stream.flush()
        payload = b"".join(bytes(stream.encode(2000000, "wait", 100, 100, dict(WAIT))) for _ in range(10000))
        for period in range(300):
            stream.packet(period * ctf.PERIOD + 2000000, period * ctf.PERIOD + 2000000, payload)
        trace.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("--json", self.path("report.json"), self.path("trace"))
            time.sleep(0.5)
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, errors)
            report = self.load(self.path("report.json"))
            events = report["trace"]["events"]
            self.assertGreater(events, 0)
            self.assertLess(events, 3000000)
            self.assertEqual(errors, f"slipstream report: stopped after {events} events; what was read is in the report\n")
            self.assertTrue(report["trace"]["interrupted"])
            self.assertEqual(report["coverage"]["reasons"][0],
                             f"the analysis was stopped after {events} events: what follows is not in this report")
            self.assertIn("inconclusive", output)

    def test_interrupt_of_babeltrace(self):
        """Through babeltrace2 itself the report of what was read is written as well."""
        trace = ctf.Trace(self.path("trace"))
        stream = trace.stream()
        define(stream)
        stream.flush()
        payload = b"".join(bytes(stream.encode(2000000, "wait", 100, 100, dict(WAIT))) for _ in range(10000))
        for period in range(300):
            stream.packet(period * ctf.PERIOD + 2000000, period * ctf.PERIOD + 2000000, payload)
        trace.close()
        process = subprocess.Popen(["babeltrace2", "--plugin-path", PLUGIN, self.path("trace"), "--component=sink.slipstream.report",
                                    f'--params=json="{self.path("report.json")}"'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=PLUGIN_ENVIRONMENT)
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        report = self.load(self.path("report.json"))
        self.assertTrue(report["trace"]["interrupted"])
        self.assertLess(report["trace"]["events"], 3000000)

    def test_progress_on_a_terminal_only(self):
        trace = ctf.Trace(self.path("trace"))
        stream = trace.stream()
        define(stream)
        stream.flush()
        payload = b"".join(bytes(stream.encode(2000000, "wait", 100, 100, dict(WAIT))) for _ in range(10000))
        for period in range(150):
            stream.packet(period * ctf.PERIOD + 2000000, period * ctf.PERIOD + 2000000, payload)
        trace.close()
        controller, terminal = pty.openpty()
        process = self.start(self.path("trace"), stderr=terminal)
        os.close(terminal)
        shown = b""
        while True:
            try:
                more = os.read(controller, 4096)
            except OSError:
                break
            if not more:
                break
            shown += more
        os.close(controller)
        self.assertEqual(process.wait(60), 0)
        process.stdout.close()
        lines = shown.decode().split("\r\x1b[K")
        self.assertGreater(len(lines), 2)
        self.assertEqual((lines[0], lines[-1]), ("", ""))  # nothing stays on the terminal
        for line in lines[1:-1]:
            self.assertRegex(line, r"^slipstream: \d+ events read, \d+ % of the trace$")
        self.assertEqual(self.report(self.path("trace")).stderr, "")

    def test_unfinished(self):
        """A trace that is still being written: what is there so far; later more of it."""
        trace = ctf.Trace(self.path("trace"))
        stream = trace.stream()
        define(stream)
        stream.flush()
        stream.file.flush()
        self.assertEqual(self.report_json(self.path("trace"))[0]["syncs"], [])
        for number in range(5):
            stream.event(2000000 + number, "wait", vpid=100, vtid=100, **WAIT)
        stream.flush()
        stream.file.flush()
        report = self.report_json(self.path("trace"))[0]
        self.assertEqual((report["syncs"][0]["count"], report["processes"][0]["state"]), (5, "gone"))
        trace.close()

    def test_live_without_relayd(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        result = self.report(f"net://127.0.0.1:{port}/host/nowhere/session", status=1)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
