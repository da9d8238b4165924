# SPDX-License-Identifier: MIT
"""filter.slipstream.sync and `report --waits`: every wait, in order, in words; late definitions are waited for, within bounds; loss is passed on."""
import re
import unittest

import ctf
from support import Case, golden
from test_errors import WAIT, define

WORD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|\d+)')


class Filter(Case):
    def test_all_candidates(self):
        """A call may wait for as many streams as the preload library names."""
        with open(golden("one-wait")) as file:
            head = [line for line in file if " wait wait=" not in line and "reason=3" not in line and not line.startswith("1.03")]
        trace = "".join(head)
        for number in range(64):
            trace += f"1.000025 def_stream stream={number + 2} kind=4 context=1 handle={number + 16:#x}\n"
            trace += f"1.000025 def_candidate id={number + 2} stream_kind=4 context=1 stream={number + 2} operation=1 name=9\n"
            trace += f"1.000025 def_candidate_set set=0x80000001 index={number} count=64 candidate={number + 2}\n"
        self.write("many.trace", trace + "1.01 wait wait=1 candidates=0x80000001 stream=1 blocked_ns=2000000 call_ns=2100000\n")
        line, = self.report(self.path("many.trace"), "--waits").stdout.splitlines()
        self.assertEqual([int(number) for number in re.findall(r"stream (\d+) \(non-blocking\)", line)], list(range(2, 66)))

    def filter(self, path, *options):
        """Fields of each event, and the messages of babeltrace2."""
        source = self.text_source(path) if path.endswith(".trace") else (path,)
        result = self.babeltrace(*source, "--component=filter.slipstream.sync", "--component=sink.text.pretty", *options)
        lines = result.stdout.splitlines()
        for line in lines:
            self.assertIn("slipstream_sync:wait: ", line)
        return [{name: value.strip('"') for name, value in WORD.findall(line)} for line in lines], result.stderr

    def test_words(self):
        events, errors = self.filter(golden("one-wait"))
        self.assertEqual(errors, "")
        self.assertEqual(events[0], {
            "process": "demo (pid 100), host alpha, GPU 0", "rule": "pageable-h2d", "function": "cuMemcpyHtoD_v2", "class": "implicit",
            "cause": "pageable source is staged", "stream": "stream 1 (legacy), context 1, GPU 0",
            "waited_for": "stream 1 (legacy), context 1, GPU 0: spin", "site": "train.py:12 step", "thread": "101", "blocked_ns": "2000000",
            "bytes": "4096"})
        self.assertEqual([event["blocked_ns"] for event in events], ["2000000", "1000000"])

    def test_late_session(self):
        """The waits before the first dump have their names; the one that is never defined does not stop the others."""
        events = self.filter(golden("late-session"))[0]
        self.assertEqual([(event["rule"], event["blocked_ns"]) for event in events],
                         [("pageable-h2d", "2000000"), ("stream-synchronize", "700000"), ("pageable-h2d", "2000000"), ("unknown", "100000")])
        self.assertEqual(events[1]["waited_for"].count(";"), 1)

    def test_every_rank(self):
        events = self.filter(golden("ranks"))[0]
        self.assertEqual(len(events), 14)
        self.assertEqual(sum(re.search("^rank 3: .*host beta", event["process"]) is not None for event in events), 5)

    def test_loss_is_passed_on(self):
        _, errors = self.filter(golden("discarded"))
        self.assertRegex(errors, r"discarded 17 events")
        self.assertRegex(errors, r"discarded 3 events")

    def test_hostile_names(self):
        events = self.filter(golden("hostile-names"))[0]
        self.assertEqual(len(events), 1)
        with open(golden("hostile-names"), encoding="utf-8") as file:
            self.write("worse.trace", file.read().replace('id=9 text="', 'id=9 text="\\xc2\\x9b31m \\xe2\\x80\\xae \\xff '))
        event, = self.filter(self.path("worse.trace"))[0]
        self.assertIn(r"\\xc2\\x9b31m \\xe2\\x80\\xae \\xff evil\\x1b", event["waited_for"])
        self.assertTrue("".join(event.values()).isascii(), event)

    def undefined_first(self, count, gap):
        """`count` waits without definition, `gap` ns apart, then the definitions, then one more wait."""
        trace = ctf.Trace(self.path("trace"))
        stream = trace.stream()
        for number in range(count):
            stream.event(1000 + number * gap, "wait", vpid=100, **WAIT)
        end = 1000 + count * gap
        define(stream, end, start_ns=900)
        stream.event(end + 100000, "wait", vpid=100, **WAIT)
        trace.close()
        return [event["rule"] for event in self.filter(self.path("trace"))[0]]

    def test_holds_until_defined(self):
        self.assertEqual(self.undefined_first(100, 1000), ["free-drains-device"] * 101)

    def test_holds_two_seconds(self):
        """Each wait for itself: after two seconds it goes out as it is."""
        self.assertEqual(self.undefined_first(5, 10**9), ["unknown"] * 4 + ["free-drains-device"] * 2)

    def test_holds_4096(self):
        rules = self.undefined_first(5000, 1000)
        self.assertEqual(len(rules), 5001)
        self.assertEqual((rules.count("unknown"), rules[-4096:]), (905, ["free-drains-device"] * 4096))

    def test_composes(self):
        """Several traces through the muxer, and the result back into CTF."""
        trace = self.path("trace")
        first = ctf.Trace(self.path("trace/a"))
        second = ctf.Trace(self.path("trace/b"), host="beta")
        for number, one in enumerate((first, second)):
            stream = one.stream()
            define(stream)
            for index in range(50):
                stream.event(2000000 + index * 1000 + number * 500, "wait", vpid=100, vtid=100, **WAIT)
            one.close()
        events = self.filter(trace)[0]
        self.assertEqual([("alpha", "beta")["beta" in event["process"]] for event in events], ["alpha", "beta"] * 50)

    def test_no_parameters(self):
        result = self.babeltrace(*self.text_source(golden("one-wait")), "--component=filter.slipstream.sync", "--params=x=1", "--component=sink.text.pretty", status=1)
        self.assertIn("there are no parameters", " ".join(result.stderr.split()))

    def test_broken_input(self):
        """What came before the damage is passed on."""
        with open(golden("one-wait"), encoding="utf-8") as file:
            path = self.write("broken.trace", file.read() + "nonsense\n")
        result = self.babeltrace(*self.text_source(path), "--component=filter.slipstream.sync", "--component=sink.text.pretty", status=1)
        self.assertEqual(result.stdout.count("slipstream_sync:wait"), 2)
        self.assertIn("a time in seconds is expected", " ".join(result.stderr.split()))


class Waits(Case):
    def test_same_as_filter(self):
        lines = self.report(golden("ranks"), "--waits").stdout.splitlines()
        self.assertEqual(len(lines), 14)
        self.assertEqual(lines[0], "0.010000000 rank 0: demo (pid 100), host alpha, GPU 0, thread 100: pageable-h2d in cuMemcpyHtoD_v2 (implicit), "
                         "blocked 2.00 ms, 4.00 KiB, on stream 1 (legacy), context 1, GPU 0, waited for stream 1 (legacy), context 1, GPU 0: spin, "
                         "at train.py:12 step")

    def test_output(self):
        self.report(golden("discarded"), "--waits", "--output", self.path("waits"))
        with open(self.path("waits"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[2], "20 events and 0 packets were lost by the tracer: there may have been more")


if __name__ == "__main__":
    unittest.main()
