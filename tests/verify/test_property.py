# SPDX-License-Identifier: MIT
"""Random histories, judged by an oracle that knows nothing of clocks: all orderings that follow, by a walk of the graph, and all that are
demanded, pair by pair. `slipstream verify` says the same of each, and what it names is what the oracle misses.

VERIFY_SEED, VERIFY_HISTORIES: where to begin, and how many of each kind.
"""
import json
import os
import random
import tempfile
import unittest

from journal import BACK, BLOCKING, EXPLICIT, HOST, JOIN, LEGACY, NATIVE, PER_THREAD, POST, SUBSTITUTE, Journal, verify

SEED = int(os.environ.get("VERIFY_SEED") or random.randrange(1 << 32))
HISTORIES = int(os.environ.get("VERIFY_HISTORIES") or 500)


# ---- the oracle ----

class Node:
    """Something on a lane, between two moments. `rule`: the driver's rule holds for what is before and behind it."""

    def __init__(self, lane, start, end=None, operation=None, before=False, behind=False):
        self.lane, self.start, self.end = lane, start, start if end is None else end
        self.operation, self.before, self.behind = operation, before, behind


def nodes_of(journal):
    """Nodes by start, and edges of events. Lanes: (stream, place, how many streams had the number before)."""
    nodes, events, ages = [], [], {}
    refused = {id(record.of) for record in journal.records if record.event == "order_return" and record.fields.get("failed")}
    returns = {id(record.of): number for number, record in enumerate(journal.records, 1) if record.event == "order_return"}

    def lane(stream, place):
        return stream, place, ages.get(stream, 0)

    for number, record in enumerate(journal.records, 1):
        fields = record.fields
        if record.event == "order_stream":
            ages[fields["stream"]] = ages.get(fields["stream"], 0) + 1
        elif record.event == "order_submit":
            if record.fields.get("failed") or id(record) in refused:
                continue
            native = fields["place"] == NATIVE
            nodes.append(Node(lane(fields["stream"], fields["place"]), number, returns.get(id(record), number), record, native, native))
        elif record.event == "order_barrier":
            source, target = lane(fields["from_stream"], fields["from_place"]), lane(fields["to_stream"], fields["to_place"])
            recorded = number if record.recorded is None else journal.number(record.recorded)
            kind = fields["kind"]
            on_legacy = source[:2] == (journal.legacy, NATIVE)
            event = Node(source, recorded + 0.3, before=on_legacy, behind=kind == JOIN)
            # Behind a host that waits comes what it submits.
            to_legacy = target[:2] == (journal.legacy, NATIVE)
            wait = Node(target, number + 0.6, before=kind == BACK, behind=kind == BACK or kind == HOST and to_legacy)
            nodes += [event, wait]
            events.append((event, wait))
    return nodes, events


def violations(journal):
    """Pairs of records (before, after) that are demanded and do not follow."""
    nodes, events = nodes_of(journal)
    nodes.sort(key=lambda node: node.start)
    index = {id(node): number for number, node in enumerate(nodes)}
    into = {id(node): [] for node in nodes}
    for event, wait in events:
        into[id(wait)].append(event)
    behind = []
    for number, node in enumerate(nodes):
        mask = 0
        legacy = node.lane[:2] == (journal.legacy, NATIVE)
        for other in nodes[:number]:
            if other.end >= node.start:
                continue
            is_other_legacy = other.lane[:2] == (journal.legacy, NATIVE)
            by_rule = other.behind and node.before and legacy != is_other_legacy
            if other.lane == node.lane or by_rule:
                mask |= 1 << index[id(other)] | behind[index[id(other)]]
        for event in into[id(node)]:
            mask |= 1 << index[id(event)] | behind[index[id(event)]]
        behind.append(mask)
    found = set()
    operations = [node for node in nodes if node.operation]
    for number, after in enumerate(operations):
        for before in operations[:number]:
            if journal.legacy not in (before.lane[0], after.lane[0]):
                continue
            native = before.lane[1] == NATIVE and after.lane[1] == NATIVE
            overlap = before.end >= after.start
            if before.lane == after.lane or overlap and native:
                continue
            if overlap or not behind[index[id(after)]] >> index[id(before)] & 1:
                found.add((journal.number(before.operation), journal.number(after.operation)))
    return found


# ---- histories ----

def streams_of(chance):
    return {1: LEGACY, **{number: chance.choice((BLOCKING, BLOCKING, PER_THREAD)) for number in range(2, 2 + chance.randrange(1, 5))}}


class Sound:
    """A history that keeps the rules, in many ways: the least barriers, more than that, events used again, calls that stay open."""

    def __init__(self, chance):
        self.chance, self.journal = chance, Journal(streams_of(chance))
        self.place, self.open = NATIVE, []
        self.dirty, self.gone_dirty, self.native_dirty = set(), False, False
        self.legacy = 0          # operations of the substitute so far
        self.behind = {number: 0 for number in self.journal.streams}  # how many of these a stream is behind
        self.event = None        # the post that has the newest event of the substitute
        self.event_of = 0

    def blocking(self):
        return [number for number in self.journal.streams if number != 1]

    def turn(self, place):
        chance, journal = self.chance, self.journal
        while self.open:
            journal.returned(self.open.pop(chance.randrange(len(self.open))))
        journal.turn(place)
        self.place = place
        if place == SUBSTITUTE:
            journal.join()
            self.clean()
        else:
            journal.back()
            self.behind = dict.fromkeys(self.behind, self.legacy)

    def clean(self):
        self.dirty, self.gone_dirty, self.native_dirty = set(), False, False

    def legacy_operation(self):
        chance, journal = self.chance, self.journal
        if self.place == NATIVE:
            self.native_operation(1)
            return
        if self.gone_dirty or self.native_dirty or len(self.dirty) > 1 and chance.random() < 0.7 or chance.random() < 0.05:
            journal.join()
        else:
            for stream in self.dirty:
                if chance.random() < 0.1:
                    journal.barrier(HOST, (stream, NATIVE), (1, SUBSTITUTE))
                else:
                    journal.explicit(stream)
        self.clean()
        journal.submit(1, SUBSTITUTE)
        self.legacy += 1

    def native_operation(self, stream):
        journal, chance = self.journal, self.chance
        if chance.random() < 0.05:
            self.refused(stream)
            return
        if self.place == NATIVE and chance.random() < 0.2:
            self.open.append(journal.submit(stream, open=1))
        else:
            journal.submit(stream)
        if stream == 1:
            self.native_dirty = True
        else:
            self.dirty.add(stream)

    def refused(self, stream):
        """The driver does not take it, so nothing has to be before or behind it."""
        if self.chance.random() < 0.5:
            self.journal.returned(self.journal.submit(stream, open=1), failed=1)
        else:
            self.journal.submit(stream, failed=1)

    def blocking_operation(self, stream):
        chance, journal = self.chance, self.journal
        if self.place == SUBSTITUTE and self.behind[stream] < self.legacy or chance.random() < 0.03 and self.place == SUBSTITUTE:
            if self.event and self.event_of == self.legacy and self.legacy and chance.random() < 0.5:
                journal.post(stream, recorded=self.event)
            else:
                self.event, self.event_of = journal.post(stream), self.legacy
            self.behind[stream] = self.legacy
        self.native_operation(stream)

    def new_stream(self, stream):
        if any(record.fields["stream"] == stream for record in self.open):
            return
        self.gone_dirty |= stream in self.dirty
        self.dirty.discard(stream)
        self.behind[stream] = self.legacy if self.place == NATIVE else 0
        self.journal.stream(stream, self.journal.streams[stream])

    def make(self, length):
        chance = self.chance
        while len(self.journal.records) < length:
            what = chance.random()
            if what < 0.12:
                self.turn(1 - self.place)
            elif what < 0.5:
                self.legacy_operation()
            elif what < 0.95:
                self.blocking_operation(chance.choice(self.blocking()))
            else:
                self.new_stream(chance.choice(self.blocking()))
        while self.open:
            self.journal.returned(self.open.pop())
        return self.journal


def arbitrary(chance):
    """A history in which anything may follow anything."""
    journal = Journal(streams_of(chance))
    journal.turn(SUBSTITUTE)
    blocking, calls = [number for number in journal.streams if number != 1], []
    while len(journal.records) < chance.randrange(5, 40):
        what, stream = chance.random(), chance.choice(blocking)
        recorded = {"recorded": chance.choice(journal.records)} if chance.random() < 0.15 else {}
        if what < 0.25:
            journal.submit(1, SUBSTITUTE, failed=int(chance.random() < 0.1))
        elif what < 0.35:
            calls.append(journal.submit(1, open=int(chance.random() < 0.3)))
        elif what < 0.6:
            calls.append(journal.submit(stream, open=int(chance.random() < 0.2)))
            if not calls[-1].fields["open"] and chance.random() < 0.1:
                calls[-1].fields["failed"] = 1
        elif what < 0.68:
            journal.explicit(stream)
        elif what < 0.78:
            journal.join(**recorded)
        elif what < 0.88:
            journal.post(stream, **recorded)
        elif what < 0.93:
            journal.back(**recorded)
        elif what < 0.95:
            lanes = [(1, SUBSTITUTE), chance.choice([(1, NATIVE), (stream, NATIVE)])]
            journal.barrier(HOST, *chance.sample(lanes, 2))
        elif what < 0.97:
            journal.stream(stream, journal.streams[stream])
        waiting = [call for call in calls if call.fields.get("open")]
        if waiting and chance.random() < 0.4:
            call = chance.choice(waiting)
            calls.remove(call)
            journal.returned(call, failed=int(chance.random() < 0.2))
    for call in calls:
        if call.fields.get("open"):
            journal.returned(call)
    return journal


def is_exact(journal):
    """An event of the legacy stream that is used late is more than verify takes it for."""
    return not any(record.recorded is not None and record.fields.get("kind") == JOIN for record in journal.records)


class Property(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.chance = random.Random(SEED)

    def verdicts(self, journals):
        for number, journal in enumerate(journals):
            journal.write(os.path.join(self.folder, f"{number:06}.trace"))
        result = verify("--quiet", "--limit=1", "--json", os.path.join(self.folder, "a.json"), self.folder)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        with open(os.path.join(self.folder, "a.json"), encoding="utf-8") as file:
            traces = json.load(file)["traces"]
        self.assertEqual(len(traces), len(journals))
        return traces

    def tell(self, journal):
        return f"VERIFY_SEED={SEED}\n" + "\n".join(journal.body())

    @staticmethod
    def first(trace):
        """What is found of an open call is told when it has returned."""
        return min(trace["findings"], key=lambda finding: finding["after"]["record"])

    def check_names(self, journal, trace, missed):
        """What is named is missed; nothing else is found."""
        self.assertTrue(trace["findings"], self.tell(journal))
        for finding in trace["findings"]:
            self.assertIn(finding["kind"], ("edge", "in flight"), finding["text"] + self.tell(journal))
        first = self.first(trace)
        self.assertIn((first["before"]["record"], first["after"]["record"]), missed, first["text"] + self.tell(journal))
        # And none was missed before it.
        self.assertEqual(first["after"]["record"], min(after for _, after in missed), self.tell(journal))

    def test_sound_histories(self):
        journals = [Sound(self.chance).make(self.chance.randrange(5, 50)) for _ in range(HISTORIES)]
        for journal, trace in zip(journals, self.verdicts(journals)):
            self.assertEqual(violations(journal), set(), self.tell(journal))
            self.assertTrue(trace["proved"], str(trace["findings"]) + self.tell(journal))

    def test_without_one_barrier(self):
        """Taken out, or moved behind the operation that needs it."""
        journals, moved = [], 0
        while len(journals) < HISTORIES:
            journal = Sound(self.chance).make(self.chance.randrange(10, 50))
            barriers = [record for record in journal.records if record.event == "order_barrier"]
            if not barriers:
                continue
            gone = self.chance.choice(barriers)
            less = journal.without(gone)
            if any(record.recorded is gone for record in less.records):
                continue
            if self.chance.random() < 0.4:
                operations = [number for number, record in enumerate(less.records)
                              if record.event == "order_submit" and number >= journal.records.index(gone)]
                if not operations:
                    continue
                less.records.insert(operations[0] + 1, gone)
                moved += 1
            less.gone = gone
            journals.append(less)
        needed = kinds = 0
        seen = set()
        for journal, trace in zip(journals, self.verdicts(journals)):
            missed = violations(journal)
            self.assertEqual(trace["proved"], not missed, str(trace["findings"]) + self.tell(journal))
            if not missed:
                continue
            needed += 1
            self.check_names(journal, trace, missed)
            fields, first = journal.gone.fields, self.first(trace)
            if first["kind"] != "edge":
                continue
            kinds += 1
            seen.add(fields["kind"])
            if fields["kind"] in (EXPLICIT, HOST):
                self.assertEqual(first["before"]["stream"], fields["from_stream"], self.tell(journal))
                self.assertEqual(first["needed"], "explicit")
            elif fields["kind"] == POST:
                self.assertEqual(first["after"]["stream"], fields["to_stream"], self.tell(journal))
                self.assertEqual(first["needed"], "post")
            elif fields["kind"] == BACK:
                self.assertIn(first["needed"], ("back", "post"))
        print(f"VERIFY_SEED={SEED}: of {len(journals)} histories without a barrier ({moved} moved) {needed} needed it")
        self.assertGreater(needed, HISTORIES // 4)
        self.assertEqual(seen, {EXPLICIT, JOIN, POST, BACK, HOST})

    def test_any_history(self):
        journals = [arbitrary(self.chance) for _ in range(HISTORIES)]
        proved = 0
        for journal, trace in zip(journals, self.verdicts(journals)):
            missed = violations(journal)
            if trace["proved"]:
                self.assertEqual(missed, set(), self.tell(journal))
            elif is_exact(journal):
                self.check_names(journal, trace, missed)
            proved += trace["proved"]
        print(f"VERIFY_SEED={SEED}: of {len(journals)} histories {proved} hold")
        self.assertGreater(proved, HISTORIES // 50)


if __name__ == "__main__":
    unittest.main()
