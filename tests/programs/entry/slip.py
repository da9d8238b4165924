# SPDX-License-Identifier: MIT
"""Reads record files (shim/emit/record.h) for the entry tests: counts, notes, hand-outs, waits. A strict reader of its own, so that the
tests do not rest on the tool they are to prove right."""
import glob
import os
import struct

SEGMENT = 1 << 20
HEADER, PAD, STRING, FUNCTION, RULE, COUNTERS, THUNKS, CANDIDATE, WAIT, WAITED_FOR, NOTE = 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13
NOTES = {1: "unwrapped", 2: "table", 3: "second", 4: "pass", 5: "lost", 6: "python", 7: "error", 8: "config", 9: "missing", 10: "untimed", 11: "rewrite"}


def records(path):
    """Kind and bytes of each record of a file."""
    with open(path, "rb") as stream:
        data = stream.read()
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 0:
            at = (at // SEGMENT + 1) * SEGMENT
            continue
        assert size >= 8 and size % 8 == 0 and at % SEGMENT + size <= SEGMENT, f"{path}: bad record at {at}"
        yield kind, data[at:at + size]
        at += size


class Process:
    """One file."""

    def __init__(self, path):
        self.path = path
        self.strings, functions, counters, notes = {0: ""}, {}, [], []
        rules, candidates, waits, waited_for = {}, {}, {}, []
        self.header = None
        for kind, body in records(path):
            if kind == HEADER:
                names = ("magic version header_size catalogue start_ns end_ns pid parent_pid state forked exe command shim_version config "
                         "driver driver_version dropped").split()
                self.header = dict(zip(names, struct.unpack_from("<QIIQQQIIIIIIIIIiQ", body, 8)))
            elif kind == STRING:
                number, length = struct.unpack_from("<II", body, 8)
                self.strings[number] = body[16:16 + length].decode(errors="replace")
            elif kind == FUNCTION:
                number, name, flags, handed_out = struct.unpack_from("<IIII", body, 8)
                functions[number] = (name, flags, handed_out)
            elif kind in (COUNTERS, THUNKS):
                _, count = struct.unpack_from("<II", body, 8)
                counters.append(struct.unpack_from(f"<{count}Q", body, 16))
            elif kind == RULE:
                number, slug = struct.unpack_from("<II", body, 8)
                rules[number] = slug
            elif kind == CANDIDATE:
                number, *_, name = struct.unpack_from("<IIQQII", body, 8)
                candidates[number] = name
            elif kind == WAIT:
                number, _, rule = struct.unpack_from("<III", body, 8)
                waits[number] = (rule, struct.unpack_from("<Q", body, 32)[0])
            elif kind == WAITED_FOR:
                waited_for.append(struct.unpack_from("<IIQ", body, 8))
            elif kind == NOTE:
                code, text, count = struct.unpack_from("<IIQ", body, 8)
                notes.append((code, text, count))
        assert self.header, f"{path}: no header"
        self.functions = {self.strings[name]: (number, flags, handed) for number, (name, flags, handed) in functions.items()}
        self.counts = {}
        for name, (number, _, _) in self.functions.items():
            total = sum(block[number] for block in counters if number < len(block))
            if total:
                self.counts[name] = total
        self.blocks = len(counters)
        self.waits = {}  # by rule: findings
        for rule, count in waits.values():
            slug = self.strings[rules[rule]]
            self.waits[slug] = self.waits.get(slug, 0) + count
        self.waited_for = {}  # by rule and the candidate's name: findings that have it
        for wait, candidate, count in waited_for:
            key = (self.strings[rules[waits[wait][0]]], self.strings[candidates[candidate]])
            self.waited_for[key] = self.waited_for.get(key, 0) + count
        self.notes = {(NOTES.get(code, code), self.strings.get(text)): count for code, text, count in notes}
        self.handed_out = {name: handed for name, (_, _, handed) in self.functions.items() if handed}
        self.in_driver = {name for name, (_, flags, _) in self.functions.items() if flags & 2}
        self.wrapped = {name for name, (_, flags, _) in self.functions.items() if flags & 1}
        self.driver = self.strings.get(self.header["driver"], "")

    def note(self, code):
        return sorted(text for kind, text in self.notes if kind == code)


def processes(folder):
    """All files of a folder, in the order in which they were started."""
    found = [Process(path) for path in glob.glob(os.path.join(folder, "*.slip"))]
    return sorted(found, key=lambda process: process.header["start_ns"])
