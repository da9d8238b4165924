# SPDX-License-Identifier: MIT
"""Writes traces as LTTng-UST does (CTF 1.8, large headers), for tests that need what a golden trace cannot say: damage, contexts, clocks,
other types of fields, packets, many millions of events.

    trace = ctf.Trace(folder, host="alpha")
    stream = trace.stream()
    stream.event(1000, "wait", vpid=7, vtid=7, wait=1, blocked_ns=5)
    stream.flush()
    trace.close()
"""
import os
import struct
import uuid as uuids

import yaml

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MAGIC = 0xC1FC1FC1
HEAD_SIZE = 4 + 16 + 4 + 8 + 6 * 8 + 4  # bytes of a packet before its events
PERIOD = 1 << 32  # ns: what the time stamp of an event's header counts

with open(os.path.join(SOURCE, "tracing", "events.yaml"), encoding="utf-8") as schema_file:
    EVENTS = {name: dict(event.get("fields") or {}) for name, event in yaml.safe_load(schema_file)["events"].items()}

FORMATS = {"u32": "I", "i32": "i", "u64": "Q", "x64": "Q"}
SIZES = {"u32": (32, 0, 10), "i32": (32, 1, 10), "u64": (64, 0, 10), "x64": (64, 0, 16)}

START = """/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
trace {{
	major = 1; minor = 8; uuid = "{uuid}"; byte_order = le;
	packet.header := struct {{ uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id; }};
}};
env {{ {env} }};
clock {{ name = "monotonic"; uuid = "{clock}"; freq = 1000000000; offset = {offset}; }};
typealias integer {{ size = 32; align = 8; signed = false; map = clock.monotonic.value; }} := uint32_clock_monotonic_t;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} := uint64_clock_monotonic_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
struct packet_context {{
	uint64_clock_monotonic_t timestamp_begin; uint64_clock_monotonic_t timestamp_end; uint64_t content_size; uint64_t packet_size;
	uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
}};
struct event_header_large {{
	enum : uint16_t {{ compact = 0 ... 65534, extended = 65535 }} id;
	variant <id> {{
		struct {{ uint32_clock_monotonic_t timestamp; }} compact;
		struct {{ uint32_t id; uint64_clock_monotonic_t timestamp; }} extended;
	}} v;
}} align(8);
stream {{
	id = 0; event.header := struct event_header_large; packet.context := struct packet_context; {contexts}
}};
"""


def integer(kind, name):
    size, signed, base = SIZES[kind]
    return f"integer {{ size = {size}; align = 8; signed = {signed}; encoding = none; base = {base}; }} _{name};"


def member(kind, name):
    return f"string {{ encoding = UTF8; }} _{name};" if kind == "string" else integer(kind, name)


class Stream:
    def __init__(self, trace, cpu):
        self.trace, self.cpu = trace, cpu
        self.file = open(os.path.join(trace.folder, f"slipstream_{cpu}"), "wb")
        self.payload = bytearray()
        self.begin = self.end = None
        self.number = self.discarded = 0

    def encode(self, ns, name, vpid, vtid, fields):
        schema = self.trace.events.get(name) or {}
        data = bytearray(struct.pack("<HI", self.trace.numbers[name], ns % PERIOD))
        for context in self.trace.contexts:
            data += struct.pack("<i", {"vpid": vpid, "vtid": vtid}[context])
        for field, kind in schema.items():
            value = fields.pop(field, "" if kind == "string" else 0)
            if kind == "string":
                data += (value if isinstance(value, bytes) else value.encode()) + b"\0"
            else:
                data += struct.pack("<" + FORMATS[kind], value)
        assert not fields, (name, fields)
        return data

    def event(self, ns, name, /, vpid=1, vtid=1, **fields):
        if self.begin is None:
            self.begin = ns
        self.end = ns
        self.payload += self.encode(ns, name, vpid, vtid, fields)
        if len(self.payload) > 500000:
            self.flush()

    def packet(self, begin, end, payload, padding=0):
        content = HEAD_SIZE + len(payload)
        self.file.write(struct.pack("<I16sIQ", MAGIC, self.trace.uuid.bytes, 0, self.cpu))
        self.file.write(struct.pack("<QQQQQQI", begin, end, content * 8, (content + padding) * 8, self.number, self.discarded,
                                    self.cpu))
        self.file.write(payload)
        self.file.write(bytes(padding))
        self.number += 1

    def discard(self, count):
        """Events lost before the end of the packet that is written next."""
        self.discarded += count

    def flush(self, end=None):
        if self.begin is not None:
            self.packet(self.begin, end if end is not None else self.end, bytes(self.payload))
        self.payload.clear()
        self.begin = None


class Trace:
    """`change`: {"wait.bytes": None} leaves a field out, {"wait.bytes": "string"} gives it another type. `foreign`: names of events of
    other providers, without fields."""

    def __init__(self, folder, host="alpha", uuid=None, contexts=("vpid", "vtid"), env=None, offset=0, change=None, foreign=(), clock=None):
        os.makedirs(folder)
        self.folder, self.contexts = folder, contexts
        self.uuid = uuid or uuids.uuid4()
        self.events = {name: dict(fields) for name, fields in EVENTS.items()}
        for name, kind in (change or {}).items():
            event, field = name.split(".")
            if kind is None:
                del self.events[event][field]
            else:
                self.events[event][field] = kind
        names = [f"slipstream:{name}" for name in self.events] + list(foreign)
        self.numbers = {name.split(":", 1)[1] if name.startswith("slipstream:") else name: number for number, name in enumerate(names)}
        environment = {"domain": "ust", "tracer_name": "lttng-ust", "tracer_major": 2, "tracer_minor": 13, "hostname": host, **(env or {})}
        text = START.format(
            uuid=self.uuid, clock=clock or uuids.uuid4(), offset=offset,
            env=" ".join(f"{key} = {value};" if isinstance(value, int) else f'{key} = "{value}";' for key, value in environment.items()),
            contexts=f"event.context := struct {{ {' '.join(integer('i32', name) for name in contexts)} }};" if contexts else "")
        for name in names:
            fields = self.events.get(name.split(":", 1)[1], {}) if name.startswith("slipstream:") else {}
            text += (f"event {{ name = \"{name}\"; id = {self.numbers[name.split(':', 1)[1] if name.startswith('slipstream:') else name]}; stream_id = 0; "
                     f"fields := struct {{ {' '.join(member(kind, field) for field, kind in fields.items())} }}; }};\n")
        with open(os.path.join(folder, "metadata"), "w", encoding="utf-8") as file:
            file.write(text)
        self.streams = []

    def stream(self):
        self.streams.append(Stream(self, len(self.streams)))
        return self.streams[-1]

    def close(self):
        for stream in self.streams:
            stream.flush()
            stream.file.close()
