# SPDX-License-Identifier: MIT
"""Journals for the tests of `slipstream verify`: records by name, numbered when they are written, so that one can be taken out.

    journal = Journal(streams={1: LEGACY, 2: BLOCKING})
    journal.turn(1)
    journal.post(2)
    journal.submit(2)
    journal.write(path)
"""
import copy
import os
import subprocess

LEGACY, PER_THREAD, BLOCKING, NON_BLOCKING = 1, 2, 3, 4
EXPLICIT, JOIN, POST, BACK, HOST = 1, 2, 3, 4, 5
NATIVE, SUBSTITUTE = 0, 1
KINDS = {EXPLICIT: "explicit", JOIN: "join", POST: "post", BACK: "back", HOST: "host"}
TOOL = os.environ["TESTED_TOOL"]
FUNCTIONS = {3: "cuLaunchKernel", 4: "cuMemcpyHtoDAsync_v2"}


class Record:
    """`of` and `recorded` are records, so that they keep their meaning when numbers change."""

    def __init__(self, event, **fields):
        self.event, self.fields = event, fields
        self.of = fields.pop("of", None)
        self.recorded = fields.pop("recorded", None)


class Journal:
    def __init__(self, streams, context=1, pid=100):
        self.streams, self.context, self.pid = dict(streams), context, pid
        self.legacy = next((number for number, kind in streams.items() if kind == LEGACY), 1)
        self.records = []

    # ---- records ----

    def add(self, event, **fields):
        self.records.append(Record(event, **fields))
        return self.records[-1]

    def turn(self, place):
        return self.add("order_turn", place=place)

    def submit(self, stream, place=NATIVE, function=3, **fields):
        return self.add("order_submit", stream=stream, place=place, operation=1, function=function, **fields)

    def returned(self, record, **fields):
        return self.add("order_return", of=record, **fields)

    def stream(self, number, kind):
        return self.add("order_stream", stream=number, kind=kind)

    def barrier(self, kind, source, target, **fields):
        return self.add("order_barrier", kind=kind, from_stream=source[0], from_place=source[1], to_stream=target[0], to_place=target[1],
                        **fields)

    def explicit(self, stream, **fields):
        return self.barrier(EXPLICIT, (stream, NATIVE), (self.legacy, SUBSTITUTE), **fields)

    def join(self, **fields):
        return self.barrier(JOIN, (self.legacy, NATIVE), (self.legacy, SUBSTITUTE), **fields)

    def post(self, stream, **fields):
        return self.barrier(POST, (self.legacy, SUBSTITUTE), (stream, NATIVE), **fields)

    def back(self, **fields):
        return self.barrier(BACK, (self.legacy, SUBSTITUTE), (self.legacy, NATIVE), **fields)

    # ---- text ----

    def number(self, record):
        return self.records.index(record) + 1

    def without(self, record):
        """As if the record had never been made: those behind it have other numbers."""
        other = copy.copy(self)
        other.records = [one for one in self.records if one is not record]
        return other

    def operations(self):
        """What the wrappers tell of each call that the driver took: its record is `order`."""
        numbers, lines = {}, []
        refused = {id(record.of) for record in self.records if record.event == "order_return" and record.fields.get("failed")}
        for sequence, record in enumerate(self.records, 1):
            if record.event != "order_submit" or not record.fields["operation"] or record.fields.get("failed") or id(record) in refused:
                continue
            stream = record.fields["stream"]
            numbers[stream] = numbers.get(stream, 0) + 1
            lines.append(operation(stream, record.fields["function"], numbers[stream], self.streams[stream], self.context, sequence))
        return lines

    def definitions(self):
        lines = [f"pid={self.pid} tid={self.pid} def_context context={self.context} device=0 id={self.context + 10}"]
        for number, name in FUNCTIONS.items():
            lines += [f'def_string id={number} text="{name}"', f"def_function number={number} name={number}"]
        for number, kind in self.streams.items():
            lines.append(f"def_stream stream={number} kind={kind} context={self.context + 10} handle={0 if kind < BLOCKING else number}")
        return lines

    def head(self):
        return self.definitions() + self.operations()

    def body(self):
        numbers = {id(record): number for number, record in enumerate(self.records, 1)}
        lines = []
        for sequence, record in enumerate(self.records, 1):
            fields = {"context": self.context, "sequence": sequence, **record.fields}
            if record.of is not None:
                fields["of"] = numbers[id(record.of)]
            if record.recorded is not None:
                fields["recorded"] = record.recorded if isinstance(record.recorded, int) else numbers.get(id(record.recorded), 0)
            lines.append(record.event + "".join(f" {name}={value}" for name, value in fields.items()))
        return lines + [f"order_end context={self.context} sequence={len(self.records) + 1}"]

    def lines(self):
        """With a dump around all, as the provider writes it: every line is missed."""
        inner = self.head() + self.body()
        return [f"pid={self.pid} tid={self.pid} dump_begin dump=1 reason=3", *inner, f"dump_end dump=1 events={len(inner)}"]

    def write(self, path):
        return write(path, self.lines())


def operation(stream, function, number, kind, context=1, order=0, **more):
    fields = {"stream": stream, "operation": 1, "function": function, "number": number, "kind": kind, "context": context, "order": order, **more}
    return "submit" + "".join(f" {name}={value}" for name, value in fields.items())


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"1 {line}\n" for line in lines)
    return path


def verify(*arguments, **options):
    return subprocess.run([TOOL, "verify", *arguments], capture_output=True, text=True, timeout=120, check=False, **options)
