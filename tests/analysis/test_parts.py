# SPDX-License-Identifier: MIT
"""Traces that hold a part of a run: programs of one pid told apart, dumps that are not whole, late and stopped sessions, snapshots. What is not
known is not named, and no verdict speaks for what is not there."""
import os
import re
import unittest

import ctf
from support import Case, golden

SNAPSHOT = "snapshot-1-20260131-235959-0"
NO_END = "1 process has no end in the trace: calls are counted up to the last definitions, and later ones may be missing"
NOT_WHOLE = "the last definitions of process 100 are not whole in the trace: calls, names and what was waited for may be missing"
WAIT = {"wait": 1, "candidates": 1, "stream": 1, "blocked_ns": 1000, "call_ns": 2000}
MS = 1000000


def read(name):
    with open(golden(name), encoding="utf-8") as file:
        return file.read()


class Text(Case):
    def of(self, text):
        report, result = self.report_json(self.write("part.trace", text))
        return report, result.stdout

    def reasons(self, text):
        return self.of(text)[0]["coverage"]["reasons"]

    def test_a_whole_run_is_conclusive(self):
        report, text = self.of(read("one-wait"))
        self.assertEqual(report["coverage"]["reasons"], [])
        recorded = report["processes"][0]["recorded"]
        self.assertEqual((recorded["is_part"], recorded["definitions_whole"], recorded["begin_ns"]), (False, True, report["processes"][0]["start_ns"]))
        self.assertNotIn("recorded of", text)

    def second_image(self, names=lambda line: line):
        """The waits of a first program whose definitions were overwritten, then one-wait's program under the same pid."""
        lines = "".join(names(line) + "\n" for line in read("one-wait").splitlines() if not line.startswith("#"))
        first = "".join(f"0.10{number}000000 host=alpha pid=100 tid=100 wait wait=1 candidates=0x1 stream=1 blocked_ns=700 call_ns=800\n"
                        for number in range(5))
        return first, lines

    def test_waits_before_a_program_began_are_not_its_own(self):
        """exec keeps the pid: the first program's waits have no names, least of all the second one's."""
        first, second = self.second_image()
        alone = self.of(second)[0]
        report, text = self.of(first + second)
        self.assertEqual([(process["start_ns"], process["calls"]) for process in report["processes"] if process["calls"]],
                         [(alone["processes"][0]["start_ns"], alone["calls"]["total"])])
        known = [sync for sync in report["syncs"] if sync["class"] != "unknown"]
        self.assertEqual([(sync["rule"], sync["count"], sync["blocked_ns"]) for sync in known],
                         [(sync["rule"], sync["count"], sync["blocked_ns"]) for sync in alone["syncs"]])
        (unknown,) = [sync for sync in report["syncs"] if sync["class"] == "unknown"]
        self.assertEqual((unknown["rule"], unknown["count"], report["unknown_blocked_ns"]), ("unknown", 5, 3500))
        self.assertEqual(report["implicit_blocked_ns"], alone["implicit_blocked_ns"])
        self.assertEqual(report["wall_ns"], alone["wall_ns"])
        self.assertIsNone([process for process in report["processes"] if not process["calls"]][0]["start_ns"])
        self.assertIn("5 calls that waited are not defined in the trace (unknown in the report)", report["coverage"]["reasons"])
        self.assertIn("slipstream: 5 waits without definitions, class unknown, took 3.50 us\n", text)

    def test_definitions_without_a_process_name_nothing(self):
        """The begin of the dump was overwritten: whose definitions the rest are, nobody knows."""
        first, second = self.second_image()
        tail = "".join(line for line in second.splitlines(keepends=True) if "dump_begin dump=1 " not in line and "def_process" not in line
                       and " dump_end dump=2" not in line and "dump_begin dump=2" not in line and "process_end" not in line)
        report, text = self.of(first + tail)
        self.assertEqual({sync["class"] for sync in report["syncs"]}, {"unknown"})
        self.assertIsNone(report["wall_ns"])
        self.assertIsNone(report["processes"][0]["start_ns"])
        self.assertIn("slipstream: 0 implicit synchronizations blocked the program for 0 ns\n", text)
        self.assertNotIn("no call of the CUDA driver was seen", text)
        self.assertNotIn("likely: it uses no CUDA", text)

    def test_a_dump_that_is_not_whole_is_doubted(self):
        """The end is missing; its begin is; one definition is."""
        whole = read("one-wait")
        last = re.search(r"^.* dump_end dump=2.*$", whole, re.M)[0]
        count = int(re.search(r"events=(\d+)", last)[1]) if "events=" in last else 0
        in_dump = whole[whole.index("dump_begin dump=2"):whole.index("dump_end dump=2")].count(" def_")
        more = last.replace(f"events={count}", f"events={in_dump + 1}") if "events=" in last else last + f" events={in_dump + 1}"
        for text in (whole.replace(last + "\n", ""), re.sub(r"^.* dump_begin dump=2.*\n", "", whole, flags=re.M), whole.replace(last, more)):
            report, shown = self.of(text)
            self.assertEqual(report["coverage"]["reasons"], [NOT_WHOLE])
            self.assertFalse(report["processes"][0]["recorded"]["definitions_whole"])
            self.assertIn("  calls: at least ", shown)
        self.assertEqual(self.reasons(whole.replace(last, more.replace(f"events={in_dump + 1}", f"events={in_dump}"))), [])

    def test_unknown_candidates_are_shown(self):
        """A set without its members, one with a member less than it says, a member that nobody defines."""
        trace = read("late-session")
        for text in (re.sub(r"^.* def_candidate_set .*\n", "", trace, flags=re.M), re.sub(r"^.* def_candidate_set .* index=1 .*\n", "", trace, flags=re.M),
                     re.sub(r"^.* def_candidate id=2 .*\n", "", trace, flags=re.M)):
            report, shown = self.of(text)
            (sync,) = [sync for sync in report["syncs"] if sync["class"] == "explicit"]
            unknown = [waited for waited in sync["waited_for"] if waited["operation"] == "unknown"]
            self.assertEqual([(waited["stream_kind"], waited["name"], waited["count"], waited["blocked_ns"]) for waited in unknown],
                             [("unknown", None, 1, 700000)])
            self.assertIn("      waited for: unknown, its definition is missing, 1 call, 700 us\n", shown)

    def test_a_late_session_is_a_part(self):
        """Percentages are of the part, and the report says which."""
        report, text = self.of(read("late-session"))
        recorded = report["processes"][0]["recorded"]
        self.assertEqual((recorded["begin_ns"], recorded["end_ns"], recorded["is_part"], report["wall_ns"]), (1000000000, 1007000000, True, 7000000))
        self.assertIn("(57.1 % of 7.00 ms that the trace holds)", text)
        self.assertIn("  recorded of process 100: 7.00 ms, from 500 ms to 507 ms after its start\n", text)
        self.assertIn("the trace began 500 ms after the start of process 100: what came before is not in it", report["coverage"]["reasons"])

    def test_a_first_call_that_needs_the_dump_was_not_missed(self):
        """A dump that the first wait makes knows of that wait: of one call of its function none was missed."""
        trace = read("late-session").replace("def_coverage function=0 calls=3", "def_coverage function=0 calls=1")
        trace = trace.replace("def_coverage function=1 calls=5", "def_coverage function=1 calls=1")
        self.assertFalse([reason for reason in self.reasons(trace) if "began" in reason])

    def test_a_later_dump_first_is_a_part(self):
        """The first dumps are missing, as for a reader that came late."""
        self.assertIn("the trace began 1.00 ms after the start of process 100: what came before is not in it",
                      self.reasons(read("one-wait").replace("dump=1", "dump=4").replace("dump=2", "dump=5")))

    def test_a_stopped_session_is_a_part(self):
        """Started again, the process began anew with its definitions."""
        trace = read("one-wait")
        end = float(re.search(r"^([\d.]+) .*process_end", trace, re.M)[1])
        last = trace[:trace.index(re.search(r"^.*dump_begin dump=2.*$", trace, re.M)[0])].splitlines()[-1].split()[0]
        begin = re.search(r"^([\d.]+) .*dump_begin dump=2", trace, re.M)[1]
        report, text = self.of(trace.replace("dump_begin dump=2 reason=3", "dump_begin dump=2 reason=1"))
        self.assertGreater(end, float(begin))
        gap = round((float(begin) - float(last)) * 1e9)
        self.assertEqual(report["processes"][0]["recorded"]["gap_ns"], gap)
        self.assertEqual(report["wall_ns"], self.of(trace)[0]["wall_ns"] - gap)
        self.assertRegex(report["coverage"]["reasons"][0], r"\Athe session was stopped for [\d.]+ [mu]?s while process 100 ran\Z")
        self.assertRegex(text, r"recorded of process 100: .*, but for [\d.]+ [mu]?s\n")

    def test_a_killed_process_is_doubted(self):
        """Its definitions were asked for a moment before, but this is no snapshot."""
        text = read("one-wait").replace("dump=2 reason=3", "dump=2 reason=4").replace("1.030003000 process_end", "# process_end")
        report = self.of(text)[0]
        self.assertEqual((report["coverage"]["reasons"], report["processes"][0]["state"]), ([NO_END], "gone"))


class Snapshots(Case):
    def make(self, name, asked=1000, first=0, until=2000, saved=2000, definitions=0, end=False, reason=4):
        """A process that started at 1 s and waits every 100 ms; `first`: number of the first packet. Times in ms from 1 s on."""
        trace = ctf.Trace(self.path(name + "/ust/uid/0/64-bit"))
        stream, start = trace.stream(), 1000 * MS
        events = [(number * 100 + 500, "wait", WAIT) for number in range((until - 500) // 100 + 1)]

        def dump(at, number, why):
            events.append((at, "dump_begin", {"dump": number, "reason": why}))
            events.append((at, "def_process", {"pid": 100, "rank": -1, "start_ns": start}))
            for number_of, text in enumerate(("cuMemFree_v2", "free-drains-device", "free drains the device"), 2):
                events.append((at, "def_string", {"id": number_of, "length": len(text), "text": text}))
            events.append((at, "def_function", {"number": 0, "name": 2, "flags": 3}))
            events.append((at, "def_rule", {"number": 0, "slug": 3, "cause": 4, "class": 2}))
            if number > 1:
                events.append((at, "def_wait", {"id": 1, "destination_kind": 6}))
                events.append((at, "def_candidate", {"id": 1, "stream_kind": 1, "context": 1}))
                events.append((at, "def_coverage", {"function": 0, "calls": 99}))
            events.append((at, "dump_end", {"dump": number, "events": 9 if number > 1 else 6}))

        dump(1, 1, 1)
        dump(asked, 2, reason)
        if end:
            events.append((until + 1, "process_end", {"end_ns": start + (until + 1) * MS}))
        stream.number = first
        for number, (at, event, fields) in enumerate(sorted(events, key=lambda one: one[0])):
            if first and event == "wait" and at < 700:
                continue
            stream.event(start + at * MS + number, event, vpid=100, vtid=100, **fields)
        stream.flush(start + (max(saved, until) + 2) * MS)
        trace.close()
        report, result = self.report_json(self.path(name))
        return report, result.stdout

    def test_running_when_saved(self):
        """The process ran on: it is not gone, and nobody can speak for what it did later."""
        report, text = self.make(SNAPSHOT, asked=2000)
        self.assertEqual(report["processes"][0]["state"], "running when saved")
        self.assertEqual(report["coverage"]["reasons"], ["process 100 still ran when the snapshot was saved: later calls are not in it"])
        self.assertIn("recorded of process 100: 2.00 s, from 0 ns to 2.00 s after its start\n", text)

    def test_slow_saving(self):
        """Saved 1.4 s after the process was asked, which it answered, and went on."""
        report = self.make(SNAPSHOT, asked=2000, until=3400, saved=3400)[0]
        self.assertEqual(report["coverage"]["reasons"], ["process 100 still ran when the snapshot was saved: later calls are not in it"])

    def test_silent_when_saved(self):
        """It said nothing for this snapshot: killed, or idle."""
        for asked, reason in ((1000, 4), (1900, 2)):
            with self.subTest(reason):
                report = self.make(f"{reason}/{SNAPSHOT}", asked=asked, until=1900, saved=4000, reason=reason)[0]
                self.assertEqual((report["processes"][0]["state"], report["coverage"]["reasons"]), ("silent when saved", [NO_END]))

    def test_overwritten(self):
        """The percentage is of what is left."""
        report, text = self.make(SNAPSHOT, first=7, end=True)
        recorded = report["processes"][0]["recorded"]
        self.assertTrue(recorded["is_part"])
        self.assertEqual(recorded["end_ns"], 3001 * MS)
        self.assertEqual(report["wall_ns"], recorded["end_ns"] - recorded["begin_ns"])
        self.assertRegex(report["coverage"]["reasons"][0], r"\Athe trace holds the last 2\.00 s of process 100: what came before was overwritten\Z")
        self.assertEqual(len(report["coverage"]["reasons"]), 1)
        self.assertIn("that the trace holds)", text)

    def test_nothing_overwritten(self):
        """Saved after the end, with everything in it: a whole run."""
        self.assertEqual(self.make(SNAPSHOT, end=True)[0]["coverage"]["reasons"], [])

    def test_chunks_continue_each_other(self):
        """The second chunk of a rotated session alone is a part; with the first one it is none."""
        trace = ctf.Trace(self.path("all/1"))
        other = ctf.Trace(self.path("all/2"), uuid=trace.uuid)
        for one, number in ((trace, 0), (other, 1)):
            stream = one.stream()
            stream.number = number
            if not number:
                stream.event(1000 * MS, "dump_begin", vpid=100, dump=1, reason=1)
                stream.event(1000 * MS, "def_process", vpid=100, pid=100, rank=-1, start_ns=1000 * MS)
                stream.event(1000 * MS, "dump_end", vpid=100, dump=1, events=1)
            else:
                stream.event(2000 * MS, "dump_begin", vpid=100, dump=2, reason=3)
                stream.event(2000 * MS, "def_process", vpid=100, pid=100, rank=-1, start_ns=1000 * MS)
                stream.event(2000 * MS, "dump_end", vpid=100, dump=2, events=1)
                stream.event(2000 * MS, "process_end", vpid=100, end_ns=2000 * MS)
            one.close()
        self.assertEqual(self.report_json(self.path("all"))[0]["coverage"]["reasons"], [])
        self.assertTrue(self.report_json(self.path("all/2"))[0]["coverage"]["reasons"][0].startswith("the trace began 1.00 s after the start of process 100"))


if __name__ == "__main__":
    unittest.main()
