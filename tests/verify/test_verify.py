# SPDX-License-Identifier: MIT
"""Journals written by hand: what is proved, the missing edge by name, each record that is taken out, what contradicts itself, CTF, usage."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import journal
from journal import BACK, BLOCKING, EXPLICIT, HOST, JOIN, LEGACY, NATIVE, NON_BLOCKING, PER_THREAD, POST, SUBSTITUTE, Journal, operation, verify

sys.path.insert(0, os.path.join(os.environ["SOURCE_ROOT"], "tests", "analysis"))

LAUNCH, COPY = 3, 4
NAMES = {LAUNCH: "cuLaunchKernel", COPY: "cuMemcpyHtoDAsync_v2"}


def start(*kinds):
    """Streams 2, 3, ... of these kinds; the substitute is in use."""
    streams = {1: LEGACY, **{number: kind for number, kind in enumerate(kinds, 2)}}
    made = Journal(streams)
    made.turn(SUBSTITUTE)
    return made


def explicit():
    made = start(BLOCKING)
    before = made.submit(2, function=COPY)
    barrier = made.explicit(2)
    return made, barrier, before, made.submit(1, SUBSTITUTE)


def join():
    made = start(BLOCKING, PER_THREAD)
    made.submit(2)
    before = made.submit(3, function=COPY)
    made.explicit(2)
    barrier = made.join()
    return made, barrier, before, made.submit(1, SUBSTITUTE)


def join_behind_native():
    made = Journal({1: LEGACY})
    before = made.submit(1, function=COPY, reason=1)
    made.turn(SUBSTITUTE)
    barrier = made.join()
    return made, barrier, before, made.submit(1, SUBSTITUTE)


def post():
    made = start(BLOCKING)
    before = made.submit(1, SUBSTITUTE, function=COPY, elided=1)
    barrier = made.post(2)
    after = made.submit(2)
    made.submit(2)
    return made, barrier, before, after


def back():
    made = start()
    before = made.submit(1, SUBSTITUTE, function=COPY)
    made.turn(NATIVE)
    barrier = made.back()
    return made, barrier, before, made.submit(1, reason=2)


def host():
    made = start(BLOCKING)
    before = made.submit(2, function=COPY)
    barrier = made.barrier(HOST, (2, NATIVE), (1, SUBSTITUTE))
    return made, barrier, before, made.submit(1, SUBSTITUTE)


ALL = {EXPLICIT: explicit, JOIN: join, POST: post, BACK: back, HOST: host}


def long():
    """Some of all there is."""
    made = Journal({1: LEGACY, 2: BLOCKING, 3: PER_THREAD, 4: BLOCKING})
    made.stream(2, BLOCKING)
    made.submit(1, reason=1)
    made.submit(2)
    waiting = made.submit(3, open=1)
    made.submit(2)
    made.returned(waiting)
    made.turn(SUBSTITUTE)
    made.join()
    made.submit(1, SUBSTITUTE, elided=1)
    made.submit(1, SUBSTITUTE, elided=2)
    first = made.post(2)
    made.submit(2)
    made.post(4, recorded=first)
    made.submit(4)
    made.stream(2, BLOCKING)
    made.post(2)
    made.submit(2)
    made.join()
    made.submit(1, SUBSTITUTE)
    made.turn(NATIVE)
    made.back()
    made.submit(1, reason=2)
    made.submit(4)
    return made


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, lines, status=0, *arguments):
        path = journal.write(self.path("a.trace"), lines.lines() if isinstance(lines, Journal) else lines)
        result = verify(*arguments, path)
        self.assertEqual((result.returncode, result.stderr), (status, ""), result.stdout)
        return result.stdout.replace(path, "a.trace").splitlines()

    def findings(self, made):
        """All but the counts, of a trace that is not proved."""
        lines = self.check(made, 1)
        self.assertIn("a.trace: not proved: ", lines[-1])
        return lines[:-1]


class Proved(Case):
    def test_every_kind_of_barrier(self):
        for kind, make in ALL.items():
            lines = self.check(make()[0])
            self.assertEqual(len(lines), 1)
            self.assertRegex(lines[0], rf"^a.trace: proved: 1 context, .* \({'1 explicit, ' if kind == JOIN else ''}1 {journal.KINDS[kind]}\)")

    def test_counts(self):
        self.assertEqual(self.check(long()), [
            "a.trace: proved: 1 context, 23 records, 12 operations, 16 orderings demanded, 6 barriers (2 join, 3 post, 1 back), "
            "2 elisions (1 clean, 1 ordered)"])

    def test_only_the_legacy_stream_needs_no_barrier(self):
        made = start()
        for _ in range(100):
            made.submit(1, SUBSTITUTE, elided=1)
        self.assertRegex(self.check(made)[0], r"proved: .* 99 orderings demanded, 0 barriers, 100 elisions \(100 clean\)$")

    def test_native_operations_are_ordered_by_the_driver(self):
        made = Journal({1: LEGACY, 2: BLOCKING, 3: PER_THREAD})
        for _ in range(10):
            for stream in (1, 2, 3, 1):
                made.submit(stream)
        self.assertRegex(self.check(made)[0], r"proved: .* 40 operations, .* 0 barriers, 0 elisions$")

    def test_the_substitute_reaches_others_through_the_legacy_stream(self):
        made = start(BLOCKING, BLOCKING)
        made.submit(1, SUBSTITUTE)
        made.turn(NATIVE)
        made.back()
        made.submit(2)
        made.submit(3)
        self.check(made)

    def test_a_legacy_operation_is_behind_what_a_blocking_stream_waited_for(self):
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        made.post(2)
        made.submit(2)
        made.turn(NATIVE)
        made.submit(1)
        self.check(made)

    def test_what_a_stream_was_behind_comes_with_its_barrier(self):
        made = Journal({1: LEGACY, 2: BLOCKING})
        made.submit(1)
        made.submit(2)
        made.turn(SUBSTITUTE)
        made.explicit(2)
        made.submit(1, SUBSTITUTE)
        self.check(made)

    def test_order_of_lines_does_not_matter(self):
        made = long()
        definitions, body = made.head(), made.body()
        for lines in (definitions + body[::-1], body + definitions, body[7:] + definitions + body[:7]):
            self.assertRegex(self.check([line if line.startswith("pid=") else "pid=100 tid=1 " + line for line in lines])[0], "proved: 1 context, 23 records")

    def test_several_contexts_and_processes(self):
        lines = []
        for pid, context in ((100, 1), (100, 2), (200, 1)):
            made = long()
            made.pid, made.context = pid, context
            made.streams = {number + 100 * context: kind for number, kind in made.streams.items()}
            for record in made.records:
                for name in ("stream", "from_stream", "to_stream"):
                    if name in record.fields:
                        record.fields[name] += 100 * context
            lines += made.head() + [f"pid={pid} tid=1 {line}" for line in made.body()]
        self.assertRegex(self.check(lines)[0], "proved: 3 contexts, 69 records")
        lines.pop()
        self.assertEqual(self.findings(lines), ["process 200: incomplete: the end of context 1 is missing"])

    def test_nothing_is_proved_by_nothing(self):
        self.assertEqual(self.findings(["pid=1 tid=1 dump_begin dump=1", "dump_end dump=1"]),
                         ["no record of legacy order: recorded at level full, with a rewrite of the legacy stream?"])
        self.check(["pid=1 tid=1 dump_begin dump=1", "dump_end dump=1"], 0, "--empty")


class Missing(Case):
    def expect(self, made, before, after, words):
        """One line, with both operations."""
        def lane(record):
            return f"stream {record.fields['stream']}" + (" (substitute)" if record.fields["place"] else "")
        self.assertEqual(self.findings(made), [
            f"context 1: {NAMES[after.fields['function']]} on {lane(after)}, record {made.number(after)}, is not behind "
            f"{NAMES[before.fields['function']]} on {lane(before)}, record {made.number(before)}: {words}"])

    def test_without_its_barrier(self):
        words = {
            EXPLICIT: "an explicit barrier from stream 2 to stream 1 (substitute), or a join barrier, is missing",
            JOIN: "an explicit barrier from stream 3 to stream 1 (substitute), or a join barrier, is missing",
            POST: "a post barrier from stream 1 (substitute) to stream 2 is missing",
            BACK: "a back barrier from stream 1 (substitute) to stream 1 is missing",
        }
        words[HOST] = words[EXPLICIT]
        for kind, make in ALL.items():
            made, barrier, before, after = make()
            self.expect(made.without(barrier), before, after, words[kind])

    def test_without_a_join_behind_native_operations(self):
        made, barrier, before, after = join_behind_native()
        self.check(made)
        self.expect(made.without(barrier), before, after, "a join barrier is missing")

    def test_a_barrier_before_its_operation(self):
        for make in ALL.values():
            made, barrier, before, after = make()
            made.records.remove(barrier)
            made.records.insert(made.records.index(before), barrier)
            self.assertEqual(len(self.findings(made)), 1)

    def test_a_barrier_behind_the_operation_that_needs_it(self):
        for make in ALL.values():
            made, barrier, _, after = make()
            made.records.remove(barrier)
            made.records.insert(made.records.index(after) + 1, barrier)
            self.assertEqual(len(self.findings(made)), 1)

    def test_a_barrier_of_another_stream(self):
        made = start(BLOCKING, BLOCKING)
        before = made.submit(2)
        made.explicit(3)
        self.expect(made, before, made.submit(1, SUBSTITUTE),
                    "an explicit barrier from stream 2 to stream 1 (substitute), or a join barrier, is missing")

    def test_a_stale_event(self):
        for kind, make in ALL.items():
            made, barrier, before, after = make()
            barrier.recorded = made.records[made.records.index(before) - 1]
            stale, number = made.number(barrier), made.number(before) - 1
            (line,) = self.findings(made)
            self.assertIn(f"; that of record {stale} stands for records up to {number} only", line, kind)

    def test_a_stale_event_says_nothing_of_what_its_stream_waited_for_later(self):
        made = Journal({1: LEGACY, 2: BLOCKING})
        first = made.submit(2)
        native = made.submit(1)
        last = made.submit(2)
        made.turn(SUBSTITUTE)
        barrier = made.explicit(2, recorded=first)
        made.submit(1, SUBSTITUTE)
        self.assertEqual({re.search(r"stream \d, record (\d+): ", line)[1] for line in self.findings(made)},
                         {str(made.number(native)), str(made.number(last))})
        barrier.recorded = last
        self.check(made)

    def test_a_wait_of_the_host_orders_its_own_stream_only(self):
        made = start(BLOCKING, BLOCKING)
        before = made.submit(1, SUBSTITUTE)
        made.barrier(HOST, (1, SUBSTITUTE), (2, NATIVE))
        made.submit(2)
        self.expect(made, before, made.submit(3), "a post barrier from stream 1 (substitute) to stream 3 is missing")

    def test_a_wait_of_the_host_for_the_legacy_stream_orders_all(self):
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        barrier = made.barrier(HOST, (1, SUBSTITUTE), (1, NATIVE))
        made.submit(2)
        self.check(made)
        self.assertEqual(len(self.findings(made.without(barrier))), 1)

    def test_an_event_as_old_as_the_operation_is_new_enough(self):
        for make in ALL.values():
            made, barrier, before, _ = make()
            barrier.recorded = before
            self.check(made)

    def test_one_missing_barrier_is_told_once(self):
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        for _ in range(5):
            made.submit(2)
        self.assertEqual(len(self.findings(made)), 1)

    def test_every_stream_that_is_missed(self):
        made = start(*[BLOCKING] * 30)
        for stream in range(2, 32):
            made.submit(stream)
        made.submit(1, SUBSTITUTE)
        lines = self.findings(made)
        self.assertEqual((len(lines), lines[-1]), (21, "and 10 more"))
        self.assertEqual(len(self.check(made, 1, "--limit=0")), 31)

    def test_a_stream_that_took_a_number_over(self):
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        made.post(2)
        before = made.submit(2)
        made.stream(2, BLOCKING)
        after = made.submit(2)
        self.expect(made, made.records[1], after, "a post barrier from stream 1 (substitute) to stream 2 is missing")
        # A barrier of the new one says nothing of the old one.
        made = start(BLOCKING)
        before = made.submit(2)
        made.stream(2, BLOCKING)
        made.explicit(2)
        after = made.submit(1, SUBSTITUTE)
        self.assertEqual(self.findings(made), [
            f"context 1: cuLaunchKernel on stream 1 (substitute), record {made.number(after)}, is not behind cuLaunchKernel on stream 2 (gone), "
            f"record {made.number(before)}: a join barrier is missing"])

    def test_a_definition_that_changes_is_another_stream(self):
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        made.post(2)
        made.submit(2)
        lines = made.head() + made.body()[:-1]
        again = ["def_stream stream=2 kind=3 context=11 handle=77", "order_submit context=1 sequence=5 stream=2 function=3",
                 "order_end context=1 sequence=6"]
        self.assertEqual(len(self.findings(lines + again)), 1)
        self.check(lines + [again[0].replace("77", "2"), *again[1:]])


class Open(Case):
    def test_a_legacy_operation_while_a_call_is_open(self):
        made = start(BLOCKING)
        waiting = made.submit(2, function=COPY, open=1)
        made.join()
        made.submit(1, SUBSTITUTE)
        made.returned(waiting)
        self.assertEqual(self.findings(made), [
            "context 1: cuLaunchKernel on stream 1 (substitute), record 4, began while the call of cuMemcpyHtoDAsync_v2 on stream 2, record 2, "
            "had not returned: no barrier orders them"])

    def test_a_barrier_while_a_call_is_open(self):
        made = start(BLOCKING)
        waiting = made.submit(2, open=1)
        made.join()
        made.returned(waiting)
        made.submit(1, SUBSTITUTE)
        self.assertEqual(len(self.findings(made)), 1)
        made = start(BLOCKING)
        waiting = made.submit(2, open=1)
        made.returned(waiting)
        made.join()
        made.submit(1, SUBSTITUTE)
        self.check(made)

    def test_native_calls_that_overlap(self):
        made = Journal({1: LEGACY, 2: BLOCKING})
        one, other = made.submit(1, open=1), made.submit(2, open=1)
        made.submit(2)
        made.returned(other)
        made.returned(one)
        made.turn(SUBSTITUTE)
        made.join()
        made.submit(1, SUBSTITUTE)
        self.check(made)

    def test_a_call_that_the_driver_refused(self):
        """Nothing is demanded of it, and it orders nothing."""
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        refused = made.submit(1, reason=3, open=1)
        made.submit(1, SUBSTITUTE)
        last = made.returned(refused)
        self.assertEqual(len(self.findings(made)), 2)
        last.fields["failed"] = 1
        self.check(made)
        made = start(BLOCKING, BLOCKING)
        made.submit(1, SUBSTITUTE)
        made.post(2)
        made.submit(2)
        last = made.submit(1, reason=2)
        made.submit(3)
        self.check(made)
        last.fields["failed"] = 1
        self.assertEqual(len(self.findings(made)), 1)
        made = start(BLOCKING)
        made.submit(1, SUBSTITUTE)
        made.submit(2, failed=1)
        made.submit(1, SUBSTITUTE, failed=1)
        self.assertRegex(self.check(made)[0], "proved: 1 context, 4 records, 1 operation, 0 orderings demanded")

    def test_a_call_that_never_returned(self):
        made = Journal({1: LEGACY})
        made.submit(1, open=1)
        self.assertEqual(self.findings(made), ["incomplete: the call of record 1 of context 1 never returned"])


class Incomplete(Case):
    def test_any_single_line_taken_out(self):
        for made in (*(make()[0] for make in ALL.values()), join_behind_native()[0], long()):
            lines = made.lines()
            self.check(lines)
            for index in range(len(lines)):
                less = lines[:index] + lines[index + 1:]
                self.assertGreater(len(self.findings(less)), 0, lines[index])

    def test_any_single_record_taken_out_is_named(self):
        """Also without the count of lines of a dump around them."""
        made = long()
        definitions, body = made.head(), made.body()
        for index in range(len(body) - 1):
            self.assertIn(f"incomplete: record {index + 1} of context 1 is missing", self.findings(definitions + body[:index] + body[index + 1:]))
        self.assertIn("incomplete: the end of context 1 is missing", self.findings(definitions + body[:-1]))

    def test_several_in_a_row(self):
        made = long()
        self.assertEqual(self.findings(made.head() + made.body()[:4] + made.body()[7:]),
                         ["incomplete: records 5 to 7 of context 1 are missing"])
        self.assertEqual(self.findings(made.head() + made.body()[2:]), ["incomplete: records 1 to 2 of context 1 are missing"])
        self.assertEqual(self.findings(made.head() + made.body()[:-3] + made.body()[-1:]),
                         ["incomplete: records 22 to 23 of context 1 are missing"])

    def test_definitions(self):
        made = start(BLOCKING)
        made.submit(2)
        lines = made.head() + made.body()
        self.assertEqual(self.findings([line for line in lines if "def_stream stream=2" not in line]),
                         ["incomplete: record 2 of context 1 names stream 2, which is not defined"])
        self.assertEqual(self.findings(["pid=1 tid=1 dump_begin"] + [line for line in lines if "def_context" not in line] + ["dump_end"]),
                         ["incomplete: context 1 is not defined"])

    def test_lost_events(self):
        self.assertEqual(self.findings(long().lines() + ["discarded 3"]), ["incomplete: the tracer lost 3 events"])


class Contradiction(Case):
    def expect(self, made, *wanted):
        self.assertEqual(self.findings(made), list(wanted))

    def test_records_and_ends(self):
        made = long()
        lines = made.head() + made.body()
        self.expect(lines + [made.body()[3]], "record 4 of context 1 is there twice")
        self.expect(lines + [lines[-1]], "context 1 ends twice: records 24 and 24")
        self.expect(lines + ["order_end context=1 sequence=25"], "context 1 ends twice: records 24 and 25")
        self.expect(lines + ["order_submit context=1 sequence=24 stream=2"], "record 24 of context 1 is behind its end")
        self.expect(lines[:-1] + ["order_end context=1 sequence=0"], "the end of context 1 has number 0", "incomplete: the end of context 1 is missing")

    def test_what_does_not_exist(self):
        for words, change in (
                ("is a barrier that does not exist", lambda made: made.barrier(EXPLICIT, (1, NATIVE), (1, SUBSTITUTE))),
                ("is a barrier that does not exist", lambda made: made.barrier(JOIN, (2, NATIVE), (1, SUBSTITUTE))),
                ("is a barrier that does not exist", lambda made: made.barrier(POST, (1, NATIVE), (2, NATIVE))),
                ("is a barrier that does not exist", lambda made: made.barrier(BACK, (1, SUBSTITUTE), (2, NATIVE))),
                ("is a barrier that does not exist", lambda made: made.barrier(HOST, (1, NATIVE), (2, NATIVE))),
                ("is a barrier that does not exist", lambda made: made.barrier(6, (1, SUBSTITUTE), (2, NATIVE))),
                ("is a barrier that does not exist", lambda made: made.post(2, recorded=9)),
                ("is of a place, a reason or a state that does not exist", lambda made: made.submit(2, SUBSTITUTE)),
                ("is of a place, a reason or a state that does not exist", lambda made: made.submit(1, reason=8)),
                ("is of a place, a reason or a state that does not exist", lambda made: made.submit(1, elided=3)),
                ("turns to a place that does not exist", lambda made: made.turn(2)),
                ("names a second legacy stream", lambda made: made.stream(2, LEGACY)),
                ("names a stream that is none of legacy, blocking, per-thread", lambda made: made.stream(2, NON_BLOCKING)),
                ("tells of the return of a call that was not open", lambda made: made.returned(made.records[0]))):
            made = start(BLOCKING)
            made.submit(1, SUBSTITUTE)
            made.post(2)
            made.submit(2)
            change(made)
            self.expect(made, f"record 5 of context 1 {words}")

    def test_substitute_before_the_turn(self):
        made = Journal({1: LEGACY})
        made.submit(1, SUBSTITUTE)
        self.expect(made, "record 1 of context 1 is on the substitute before a turn to it")


class Operations(Case):
    """The trace's own record of each call that the driver took, against the rewrite's."""

    def with_more(self, *more, made=None):
        made = made or post()[0]
        return made.head() + list(more) + made.body()

    def test_an_operation_without_a_record(self):
        for stream, kind in ((2, BLOCKING), (1, LEGACY), (3, PER_THREAD), (4, 0)):
            self.assertEqual(self.findings(self.with_more(operation(stream, COPY, 7, kind, bytes=1))), [
                f"context 1: operation 7 of stream {stream} in cuMemcpyHtoDAsync_v2 has no order record: nothing proves its place"])

    def test_of_a_context_without_any_record(self):
        self.assertEqual(self.findings(self.with_more(operation(5, LAUNCH, 1, BLOCKING, context=2))), [
            "context 2: operation 1 of stream 5 in cuLaunchKernel has no order record: nothing proves its place"])

    def test_the_record_of_an_event(self):
        line = f"record stream=2 number=2 event=4096 kind={BLOCKING} context=1"
        self.assertEqual(self.findings(self.with_more(line)), [
            "context 1: the record of an event on stream 2 behind its operation 2 has no order record: nothing proves its place"])
        made = post()[0]
        record = made.add("order_submit", stream=2, place=NATIVE, operation=0, function=5)
        self.check(self.with_more(f"{line} order={made.number(record)}", made=made))

    def test_what_is_in_no_order(self):
        lines = self.with_more(operation(5, LAUNCH, 1, NON_BLOCKING), operation(2, COPY, 3, BLOCKING, nothing=1))
        self.check(lines, 0, "--json", self.path("a.json"))
        with open(self.path("a.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["traces"][0]["submissions"], {"ordered": 3, "elsewhere": 1, "without_effect": 1})
        self.assertEqual(len(self.findings(self.with_more(operation(2, COPY, 3, BLOCKING)))), 1)

    def test_one_line_for_many_without_a_record(self):
        lines = self.check(self.with_more(*(operation(2, LAUNCH, number, BLOCKING) for number in range(1500))), 1, "--limit=1")
        self.assertEqual(lines[1], "and 1499 more")

    def test_a_record_that_is_not_there(self):
        self.assertEqual(self.findings(self.with_more(operation(2, LAUNCH, 3, BLOCKING, order=77))), [
            "context 1: operation 3 of stream 2 in cuLaunchKernel has no order record, though it names 77: nothing proves its place"])

    def test_another_ones_record(self):
        made, _, before, after = post()
        for order, stream, function in ((made.number(before), 1, COPY), (made.number(after), 2, LAUNCH)):
            found = self.findings(self.with_more(operation(2, LAUNCH, 9, BLOCKING, order=order)))
            self.assertEqual(found, [f"context 1: operation 9 of stream 2 in cuLaunchKernel names record {order}, which is another one's: "
                                     f"{NAMES[function]} on stream {stream}"])

    def test_a_record_without_an_operation(self):
        made, _, _, after = post()
        lines = [line for line in made.head() if f"order={made.number(after)}" not in line] + made.body()
        self.assertEqual(self.findings(lines), [
            f"incomplete: record {made.number(after)} of context 1, cuLaunchKernel on stream 2, is of no operation in the trace"])

    def test_refused_calls_are_no_operations(self):
        made = post()[0]
        made.submit(2, failed=1)
        made.returned(made.submit(2, open=1), failed=1)
        self.check(made)

    def test_where_nothing_is_rewritten_nothing_is_asked(self):
        lines = [line for line in post()[0].definitions()] + [operation(2, LAUNCH, 1, BLOCKING)]
        self.check(lines, 0, "--empty")

    def between_contexts(self, **fields):
        """A copy of stream 1 in context 1, which is one of stream 5 in context 2, too: of each the lines, and the other's record."""
        made = Journal({1: LEGACY})
        main = made.submit(1, function=COPY, reason=2)
        other = Journal({5: LEGACY}, context=2)
        other.add("order_submit", **{"stream": 5, "place": NATIVE, "operation": 2, "function": COPY, "reason": 2, "peer_of_context": 1,
                                     "peer_of": made.number(main), **fields})
        peer = f"submit_peer stream=1 number=1 function={COPY} context=2 of_context=1 order={made.number(main)}"
        return made.head() + made.body(), other.definitions(), other.body(), peer

    def test_copies_between_contexts(self):
        one, names, other, peer = self.between_contexts()
        self.check(one + names + other + [peer])
        self.check(one + [peer] + names + other)
        self.assertEqual(self.findings(one + [peer]), [
            "context 2: operation 1 of stream 1 in cuMemcpyHtoDAsync_v2, a copy between contexts, has no order record, though it names 1 of context 1: "
            "nothing proves its place"])
        self.assertEqual(self.findings(one + [peer.replace("order=1", "order=0")]), [
            "context 2: operation 1 of stream 1 in cuMemcpyHtoDAsync_v2, a copy between contexts, has no order record: nothing proves its place"])
        self.assertEqual(self.findings(one + names + other), [
            "incomplete: a record that names record 1 of context 1, cuMemcpyHtoDAsync_v2 on stream 5, is of no operation in the trace"])
        one, names, other, peer = self.between_contexts(function=LAUNCH)
        self.assertEqual(self.findings(one + names + other + [peer]), [
            "context 2: operation 1 of stream 1 in cuMemcpyHtoDAsync_v2, a copy between contexts, names record 1 of context 1, which is another one's: "
            "cuLaunchKernel on stream 5"])

    def test_many(self):
        """Pairs that are complete are forgotten, and a name that comes again is found all the same."""
        made = start(BLOCKING)
        for _ in range(5000):
            made.submit(2)
        self.check(made)
        self.assertEqual(len(self.findings(made.head() + made.body() + [operation(2, LAUNCH, 6000, BLOCKING, order=2)])), 1)


class Command(Case):
    def test_usage(self):
        for arguments, words in (((), "no trace given (try --help)"), (("--limit=x", "a"), "--limit needs a number up to 1000, not 'x'"),
                                 (("--bogus", "a"), "unknown option --bogus (try --help)")):
            result = verify(*arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"slipstream verify: {words}\n"))

    def test_what_cannot_be_read(self):
        for path, words in ((self.path("none"), "there is no trace"), (self.folder, "there is no trace"),
                            ("net://h/host/h/s", "a live trace has no end that could be proved")):
            result = verify(path)
            self.assertEqual((result.returncode, result.stderr), (2, f"slipstream verify: {path}: {words}\n"))
        lines = long().lines()
        path = journal.write(self.path("cut.trace"), lines)
        with open(path, "r+", encoding="utf-8") as file:
            file.truncate(os.path.getsize(path) - 5)
        result = verify(path)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, rf"^slipstream verify: {re.escape(path)}:{len(lines)}:\d+: ")
        self.assertIn("not proved", result.stdout)

    def test_the_worst_of_several_counts(self):
        good = journal.write(self.path("good.trace"), long().lines())
        made, barrier, _, _ = post()
        bad = journal.write(self.path("bad.trace"), made.without(barrier).lines())
        cut = journal.write(self.path("cut.trace"), ["nonsense"])
        for paths, status in (((good,), 0), ((good, bad), 1), ((bad, good), 1), ((cut, bad, good), 2), ((self.folder,), 2)):
            self.assertEqual(verify(*paths).returncode, status)
        self.assertEqual(verify("--quiet", good).stdout, "")
        os.remove(cut)
        result = verify("--quiet", self.folder)
        self.assertEqual((result.returncode, len(result.stdout.splitlines())), (1, 2))

    def test_json(self):
        made, barrier, before, after = post()
        made = made.without(barrier)
        self.check(made, 1, "--json", self.path("a.json"))
        with open(self.path("a.json"), encoding="utf-8") as file:
            result = json.load(file)
        (trace,) = result["traces"]
        (finding,) = trace.pop("findings")
        self.assertEqual(result["status"], 1)
        self.assertEqual(finding.pop("text"), "context 1: cuLaunchKernel on stream 2, record 3, is not behind cuMemcpyHtoDAsync_v2 on "
                         "stream 1 (substitute), record 2: a post barrier from stream 1 (substitute) to stream 2 is missing")
        self.assertEqual(finding, {
            "kind": "edge", "process": "", "context": 1, "needed": "post",
            "before": {"record": made.number(before), "stream": 1, "substitute": True, "function": COPY},
            "after": {"record": made.number(after), "stream": 2, "substitute": False, "function": LAUNCH}})
        self.assertEqual(trace, {
            "trace": self.path("a.trace"), "proved": False, "error": None, "contexts": 1, "records": 4, "operations": 3,
            "submissions": {"ordered": 3, "elsewhere": 0, "without_effect": 0}, "legacy_operations": 1, "refused_calls": 0, "orderings": 2, "turns": 1, "barriers": {"explicit": 0, "join": 0, "post": 0, "back": 0, "host": 0},
            "elisions": {"clean": 1, "ordered": 0},
            "native_reasons": {"unmixed": 0, "slow": 0, "capture": 0, "doubt": 0, "queue": 0, "preferred": 0, "denied": 0},
            "found": {"edge": 1, "in flight": 0, "incomplete": 0, "contradiction": 0, "operation": 0}})

    def test_foreign_names_do_not_reach_the_terminal(self):
        made, barrier, _, _ = post()
        lines = [line.replace('"cuLaunchKernel"', '"\\x1b[2J\\x07"') for line in made.without(barrier).lines()]
        self.assertNotRegex("\n".join(self.findings(lines)), r"[\x00-\x09\x0b-\x1f]")

    def test_it_has_no_code_of_the_preload_library(self):
        """By what the symbol table of the program holds; the tools have one file of the library, for another command."""
        names = subprocess.run(["nm", "--defined-only", os.environ["TESTED_VERIFY"]], capture_output=True, text=True, check=True).stdout
        found = {line.split()[-1] for line in names.splitlines()}
        self.assertIn("verify_take", found)
        for prefix in ("legacy_", "rewrite_", "state_", "deny_list_", "emit_", "stage_", "pool_"):
            self.assertEqual([name for name in found if name.startswith(prefix)], [], prefix)


class Source(unittest.TestCase):
    def test_barriers_and_their_records_are_made_in_one_place(self):
        """Else a record could be made of a call that was not."""
        folder = os.path.join(os.environ["SOURCE_ROOT"], "shim", "legacy")
        for words, files in (("cuStreamWaitEvent(", ["barrier.c"]), ("cuEventRecord(", ["barrier.c", "observe.c"]), ("noted++", ["barrier.c"]),
                             ("pass->barrier[", ["barrier.c", "tell.c"])):
            found = []
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    found += [name] * file.read().count(words)
            self.assertEqual(found, files, words)


@unittest.skipUnless(os.environ["HAVE_BABELTRACE"], "this build reads no CTF")
class Ctf(Case):
    def write(self, made, lose=0):
        import ctf

        trace = ctf.Trace(self.path("ctf"))
        stream = trace.stream()
        for time, line in enumerate(made if isinstance(made, list) else made.lines(), 1000):
            words = [word for word in line.split() if not word.startswith(("pid=", "tid="))]
            fields = dict(word.split("=") for word in words[1:])
            stream.event(time, words[0], vpid=100, vtid=100,
                         **{name: value.strip('"') if value.startswith('"') else int(value) for name, value in fields.items()})
            if lose and time == 1010:
                stream.flush()
                stream.discard(lose)
        stream.flush()
        trace.close()
        return self.path("ctf")

    def test_a_trace(self):
        result = verify(self.write(long()))
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertRegex(result.stdout, "proved: 1 context, 23 records, 12 operations")

    def test_a_missing_barrier(self):
        made, barrier, _, _ = post()
        result = verify(self.write(made.without(barrier)))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, "^context 1: cuLaunchKernel on stream 2, record 3, is not behind cuMemcpyHtoDAsync_v2 on stream 1")

    def test_a_missing_record(self):
        lines = [line for line in long().lines() if "sequence=9 " not in line]
        result = verify(self.write(lines))
        self.assertEqual(result.returncode, 1)
        self.assertIn("incomplete: record 9 of context 1 is missing\n", result.stdout)

    def test_lost_events(self):
        result = verify(self.write(long(), lose=5))
        self.assertEqual(result.returncode, 1)
        self.assertIn("incomplete: the tracer lost 5 events\n", result.stdout)

    def test_a_damaged_trace(self):
        folder = self.write(long())
        for name in os.listdir(folder):
            if name != "metadata":
                os.truncate(os.path.join(folder, name), 300)
        result = verify(folder)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("not proved", result.stdout)


if __name__ == "__main__":
    unittest.main()
