# SPDX-License-Identifier: MIT
"""Writes record files (shim/emit/record.h) for the tests of the tools: whole ones, and damaged ones on purpose."""

import struct

MAGIC = 0x31504D5254534C53
SEGMENT = 1 << 20
GONE_PID = 4194400  # above the kernel's largest process number

(HEADER, PAD, STRING, FUNCTION, RULE, COUNTERS, THUNKS, MODULE, SITE, CANDIDATE, WAIT, WAITED_FOR, NOTE,
 REGION) = range(1, 15)
LIVE, EXITED = 1, 2
EXPLICIT, IMPLICIT, DEVICE = 1, 2, 3
OWN_COST = 1


class Records:
    """One file. Methods return the id that later records name."""

    def __init__(self, pid=GONE_PID, start=1000000000, end=1100000000, parent=1, state=EXITED, forked=0, exe="/usr/bin/demo",
                 command="demo --fast", config="MODE=observe\nTHRESHOLD=5000ns\n",
                 driver="/usr/lib/libcuda.so.1", driver_version=13000, dropped=0, version=1, magic=MAGIC):
        self.data = bytearray()
        self.strings = {}
        self.ids = {}
        self.header = dict(pid=pid, start=start, end=end, parent=parent, state=state, forked=forked, dropped=dropped,
                           version=version, magic=magic, driver_version=driver_version)
        self.data += bytes(96)  # the header's place
        self.header["texts"] = [self.string(text) for text in (exe, command, "0.1.0", config, driver)]

    def new_id(self, kind):
        self.ids[kind] = self.ids.get(kind, 0) + 1
        return self.ids[kind]

    def record(self, kind, payload, size=None, publish=True):
        payload += bytes(-len(payload) % 8)
        whole = 8 + len(payload)
        room = SEGMENT - len(self.data) % SEGMENT
        if whole > room:
            self.data += struct.pack("<II", PAD, room) + bytes(room - 8)
        self.data += struct.pack("<II", kind if publish else 0, whole if size is None else size) + payload

    def string(self, text):
        if text is None:
            return 0
        raw = text if isinstance(text, bytes) else text.encode()
        if raw not in self.strings:
            self.strings[raw] = self.new_id(STRING)
            self.record(STRING, struct.pack("<II", self.strings[raw], len(raw)) + raw + b"\0")
        return self.strings[raw]

    def function(self, name, wrapped=True, in_driver=True, handed_out=0):
        number = self.ids.get(FUNCTION, 0)
        self.ids[FUNCTION] = number + 1
        self.record(FUNCTION, struct.pack("<IIII", number, self.string(name), wrapped | in_driver << 1, handed_out))
        return number

    def rule(self, slug, cause, kind, flags=0):
        """flags None: as early writers did, without that field."""
        number = self.ids.get(RULE, 0)
        self.ids[RULE] = number + 1
        texts = self.string(slug), self.string(cause)
        self.record(RULE, struct.pack("<IIII", number, *texts, kind) + (b"" if flags is None else struct.pack("<II", flags, 0)))
        return number

    def counters(self, counts, thunks=False, thread=77):
        self.record(THUNKS if thunks else COUNTERS,
                    struct.pack("<II%dQ" % len(counts), 0 if thunks else thread, len(counts), *counts))

    def module(self, path, build_id=b"", base=0x7F0000000000):
        number = self.new_id(MODULE)
        self.record(MODULE, struct.pack("<IIQI64sI", number, self.string(path), base, len(build_id), build_id, 0))
        return number

    def site(self, frames=(), python=()):
        number = self.new_id(SITE)
        python = [(self.string(file), self.string(function), line) for file, line, function in python]
        payload = struct.pack("<IHH", number, len(frames), len(python))
        for module, offset in frames:
            payload += struct.pack("<QII", offset, module, 0)
        for file, function, line in python:
            payload += struct.pack("<IIiI", file, function, line, 0)
        self.record(SITE, payload)
        return number

    def candidate(self, kind, context, stream, operation, name=None, certain=0):
        number = self.new_id(CANDIDATE)
        self.record(CANDIDATE, struct.pack("<IIQQIIII", number, kind, context, stream, operation, self.string(name),
                                           certain, 0))
        return number

    def region(self, name):
        number = self.new_id(REGION)
        self.record(REGION, struct.pack("<II", number, self.string(name)))
        return number

    def region_with(self, name, parent=0, **figures):
        """A region as newer libraries write it, with the figures of its entries."""
        number = self.new_id(REGION)
        names = ("entries", "waiting", "implicit", "implicit_entry", "explicit", "explicit_entry", "blocked_ns", "blocked_entry")
        self.record(REGION, struct.pack("<IIII8Q", number, self.string(name), parent, 0, *(figures.get(key, 0) for key in names)))
        return number

    def wait(self, function, rule, site=0, source=0, destination=0, basis=1, allowed=0, region=0, count=1, blocked=0,
             longest=None, call=None, amount=0, first=1000000000, last=1050000000):
        number = self.new_id(WAIT)
        self.record(WAIT, struct.pack("<IIIIBBBBIQQQQQQQ", number, function, rule, site, source, destination, basis, allowed,
                                      region, count, blocked, blocked if longest is None else longest,
                                      blocked if call is None else call, amount, first, last))
        return number

    def waited_for(self, wait, candidate, count, blocked):
        self.record(WAITED_FOR, struct.pack("<IIQQ", wait, candidate, count, blocked))

    def note(self, code, text, count=1):
        self.record(NOTE, struct.pack("<IIQ", code, self.string(text), count))

    def bytes(self):
        h = self.header
        head = struct.pack("<IIQIIQQQIIIIIIIIIiQ", HEADER, 96, h["magic"], h["version"], 96, 0x1234, h["start"], h["end"],
                           h["pid"], h["parent"], h["state"], h["forked"], *h["texts"], h["driver_version"], h["dropped"])
        assert len(head) == 96, len(head)
        return bytes(head) + bytes(self.data[96:])

    def write(self, path):
        with open(path, "wb") as file:
            file.write(self.bytes())


def sample(pid=GONE_PID, start=1000000000, base=0x7F0000000000, **header):
    """A run with one of everything; the same call sites whatever the load address."""
    r = Records(pid=pid, start=start, end=start + 100000000, **header)
    copy, free, sync, memset, query = (r.function(name) for name in
                                       ("cuMemcpyHtoD_v2", "cuMemFree_v2", "cuStreamSynchronize", "cuMemsetD8_v2",
                                        "cuStreamQuery"))
    r.function("cuNewThing", wrapped=False)
    r.function("cuOldThing", in_driver=False)
    pageable = r.rule("pageable-h2d", "pageable source is staged", IMPLICIT)
    drains = r.rule("free-drains-device", "free drains the device", IMPLICIT)
    explicit = r.rule("stream-synchronize", "the program waits for a stream", EXPLICIT)
    joins = r.rule("legacy-join", "the legacy stream joins blocking streams", DEVICE)
    r.counters([15, 2, 4, 3, 0, 0, 0])
    r.counters([5, 0, 0, 0, 6, 0, 0], thread=78)
    r.counters([0, 0, 0, 0, 0, 0, 0], thunks=True, thread=0)
    program = r.module("/usr/bin/demo", b"\x12\x34\x56\x78", base)
    library = r.module("/opt/libmaths.so.1", b"", base + 0x10000000)
    first = r.site([(program, 0x1234), (program, 0x2000)])
    second = r.site([(library, 0x500), (0, 0xDEAD)], [("train.py", 12, "step"), ("train.py", 40, "main")])
    spin = r.candidate(1, 1, 0, 1, "spin", 1)
    upload = r.candidate(4, 1, 3, 2, "HtoD")
    wait = r.wait(copy, pageable, first, 2, 6, 1, count=10, blocked=20000000, longest=2100000, call=20100000, amount=40960)
    r.waited_for(wait, spin, 10, 20000000)
    wait = r.wait(copy, pageable, second, 2, 6, 2, count=5, blocked=10000000, longest=2500000, call=10050000, amount=20480)
    r.waited_for(wait, spin, 4, 8000000)
    r.waited_for(wait, upload, 1, 2000000)
    r.wait(free, drains, second, 0, 6, 3, region=r.region("epoch"), count=2, blocked=4000000, longest=2000000)
    r.wait(free, drains, second, 0, 6, 3, allowed=1, count=1, blocked=1000000)
    r.wait(sync, explicit, first, basis=1, count=4, blocked=8000000, longest=3000000)
    r.wait(memset, joins, first, 0, 6, basis=0, count=3, amount=3145728)
    r.note(2, "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9", 3)
    r.note(6, "Python 3.99 is unknown", 1)
    return r
