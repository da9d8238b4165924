# SPDX-License-Identifier: MIT
"""One process in a trace, and its record file: do they tell the same?"""
import collections
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "entry"))
import slip  # noqa: E402

SET = 1 << 31  # in the number of a set of candidates
CONTEXT, STREAM = 15, 16  # types of records, beside slip's


def equal(got, wanted, what):
    assert got == wanted, f"{what}: {got!r}, not {wanted!r}"


class Records(slip.Process):
    """A record file with the fields that a trace is compared with."""

    def __init__(self, path):
        super().__init__(path)
        with open(path, "rb") as file:
            data = file.read()
        self.wait, self.waited, self.all_notes, self.rank = {}, collections.Counter(), {}, None
        self.streams, self.contexts = {}, {}
        at = 0
        while at + 8 <= len(data):
            kind, size = struct.unpack_from("<II", data, at)
            if not size:
                at = (at // slip.SEGMENT + 1) * slip.SEGMENT
                continue
            if kind == slip.HEADER:
                self.rank = struct.unpack_from("<i", data, at + 96)[0]
            elif kind == slip.WAIT:
                (number, function, rule, site, source, destination, basis, allowed, region, count, blocked, longest, call, moved,
                 _, _) = struct.unpack_from("<IIIIBBBBIQQQQQQQ", data, at + 8)
                self.wait[number] = {"key": (function, rule, site, region, source, destination, basis, allowed),
                                     "sums": (count, blocked, longest, call, moved)}
            elif kind == slip.WAITED_FOR:
                wait, candidate, count, blocked = struct.unpack_from("<IIQQ", data, at + 8)
                if count:
                    self.waited[wait, candidate] = (count, blocked)
            elif kind == slip.NOTE:
                code, text, count, number = struct.unpack_from("<IIQI", data, at + 8)
                self.all_notes[number] = (code, text, count)
            elif kind == CONTEXT:
                number, device, ident = struct.unpack_from("<IiQ", data, at + 8)
                self.contexts[number] = (device, ident)
            elif kind == STREAM:
                number, stream_kind, context, handle = struct.unpack_from("<IIQQ", data, at + 8)
                self.streams[number] = (stream_kind, context, handle)
            at += size


class Trace:
    """The events of one process."""

    def __init__(self, events, pid):
        self.events = [event for event in events if event.vpid == pid]
        self.definitions = collections.defaultdict(dict)
        self.strings, pieces = {0: ""}, collections.defaultdict(dict)
        self.sets = collections.defaultdict(dict)
        for event in self.events:
            fields = event.fields
            if event.name == "def_string":
                pieces[fields["id"]][fields["offset"]] = (fields["text"], fields["length"])
            elif event.name == "def_candidate_set":
                self.sets[fields["set"]][fields["index"]] = (fields["candidate"], fields["count"])
            elif event.name.startswith("def_"):
                key = next(iter(fields.values()))
                if event.name in ("def_frame", "def_python_frame"):
                    key = (fields["site"], fields["index"])
                self.definitions[event.name][key] = fields
        for number, parts in pieces.items():
            self.strings[number] = "".join(parts[offset][0] for offset in sorted(parts))
            equal(len(self.strings[number].encode()), parts[0][1], f"length of string {number}")
        for number, members in self.sets.items():
            assert number & SET, hex(number)
            equal(sorted(members), list(range(members[0][1])), f"members of set {number:x}")

    def named(self, name):
        return [event for event in self.events if event.name == name]

    def function(self, number):
        return self.strings[self.definitions["def_function"][number]["name"]]

    def waits_in(self, *functions):
        """Waits in calls of these functions."""
        return [event for event in self.named("wait")
                if self.function(self.definitions["def_wait"][event.fields["wait"]]["function"]) in functions]

    def candidates(self, number):
        if not number:
            return []
        return [member for _, (member, _) in sorted(self.sets[number].items())] if number & SET else [number]

    def wait_sums(self):
        sums = {}
        for event in self.named("wait"):
            fields = event.fields
            count, blocked, longest, call, moved = sums.get(fields["wait"], (0, 0, 0, 0, 0))
            sums[fields["wait"]] = (count + 1, blocked + fields["blocked_ns"], max(longest, fields["blocked_ns"]), call + fields["call_ns"],
                                    moved + fields["bytes"])
        return sums

    def waited_for(self):
        sums = {}
        for event in self.named("wait"):
            for candidate in self.candidates(event.fields["candidates"]):
                key = (event.fields["wait"], candidate)
                count, blocked = sums.get(key, (0, 0))
                sums[key] = (count + 1, blocked + event.fields["blocked_ns"])
        return sums

    def check_references(self):
        """Every id that an event names is defined somewhere in the trace."""
        waits, names = self.definitions["def_wait"], self.strings
        for event in self.named("wait"):
            assert event.fields["wait"] in waits, event
            for candidate in self.candidates(event.fields["candidates"]):
                assert candidate in self.definitions["def_candidate"], event
            assert not event.fields["stream"] or event.fields["stream"] in self.definitions["def_stream"], event
        for fields in waits.values():
            assert names[self.definitions["def_function"][fields["function"]]["name"]].startswith("cu"), fields
            assert names[self.definitions["def_rule"][fields["rule"]]["slug"]], fields
            if fields["site"]:
                site = self.definitions["def_site"][fields["site"]]
                for index in range(site["frames"]):
                    frame = self.definitions["def_frame"][fields["site"], index]
                    assert not frame["module"] or names[self.definitions["def_module"][frame["module"]]["path"]], frame
        for fields in self.definitions["def_candidate"].values():
            assert fields["name"] in names, fields
        equal(len(self.definitions["def_process"]), 1, "processes")

    def check_dumps(self):
        """Each dump is whole, and says how many events it has."""
        begins, ends = self.named("dump_begin"), self.named("dump_end")
        equal([event.fields["dump"] for event in begins], [event.fields["dump"] for event in ends], "dumps")
        return [event.fields["reason"] for event in begins]


def compare(trace, record):
    """The trace tells what the record file tells."""
    equal(trace.wait_sums(), {number: wait["sums"] for number, wait in record.wait.items()}, "sums of waits")
    names = ("function", "rule", "site", "region", "source_kind", "destination_kind", "idle_basis", "allowed")
    equal({number: tuple(fields[name] for name in names) for number, fields in trace.definitions["def_wait"].items()},
          {number: wait["key"] for number, wait in record.wait.items()}, "waits")
    equal(trace.waited_for(), dict(record.waited), "waited for")
    equal(trace.strings, record.strings, "strings")
    functions = {name: number for name, (number, _, _) in record.functions.items()}
    equal({fields["function"]: fields["calls"] for fields in trace.definitions["def_coverage"].values() if fields["calls"]},
          {functions[name]: calls for name, calls in record.counts.items()}, "calls")
    assert set(functions[name] for name in record.handed_out) <= set(trace.definitions["def_coverage"]), "handed out"
    equal({number: (fields["code"], fields["text"], fields["count"]) for number, fields in trace.definitions["def_note"].items()},
          record.all_notes, "notes")
    equal({number: (fields["kind"], fields["context"], fields["handle"]) for number, fields in trace.definitions["def_stream"].items()},
          record.streams, "streams")
    equal({number: (fields["device"], fields["id"]) for number, fields in trace.definitions["def_context"].items()}, record.contexts,
          "contexts")
    process = next(iter(trace.definitions["def_process"].values()))
    for name in ("pid", "parent_pid", "forked", "start_ns", "catalogue", "exe", "command", "shim_version", "config", "driver",
                 "driver_version", "dropped"):
        equal(process[name], record.header[name], name)
    equal(process["rank"], record.rank, "rank")
