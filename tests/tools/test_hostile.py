# SPDX-License-Identifier: MIT
"""Hostile record files: damaged in every way that can be thought of, and at random from a printed seed. The reader, the report and both
writers run on them under the address and undefined sanitizers (replay.c), and the real command gives one line for each problem."""

import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import records

TOOL = os.environ["TESTED_TOOL"]
REPLAY = os.environ["REPLAY"]
SEED = int(os.environ.get("SEED", "1"))
HEADER_SIZE = 96


def by_hand():
    """name -> bytes; whole files."""
    good = records.sample().bytes()
    yield "empty", b""
    yield "seven", good[:7]
    yield "head-only", good[:8]
    yield "half-header", good[:50]
    yield "header-only", good[:HEADER_SIZE]
    for cut in (1, 4, 7, 8, 12, 100):
        yield "cut-%d" % cut, good[:-cut]
    yield "zeros", bytes(4096)
    yield "ones", b"\xff" * 4096
    yield "two-headers", good + good
    for offset in range(0, HEADER_SIZE, 4):
        for value in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF):
            yield "header-%d-%x" % (offset, value), good[:offset] + struct.pack("<I", value) + good[offset + 4:]

    for size in (0, 1, 7, 9, 12, 16, records.SEGMENT, records.SEGMENT + 8, 0xFFFFFFF8, 0xFFFFFFFF):
        r = records.sample()
        r.record(records.STRING, struct.pack("<II", 999, 4) + b"abcd\0", size=size)
        r.string("behind it")
        yield "size-%x" % size, r.bytes()
    for kind in range(0, 20):
        for length in (0, 4, 8, 16):
            r = records.sample()
            r.record(kind, b"\xff" * length)
            yield "type-%d-%d" % (kind, length), r.bytes()
    r = records.sample()
    r.record(records.STRING, struct.pack("<II", 999, 0xFFFFFFFF) + b"x")
    r.record(records.STRING, struct.pack("<II", 998, 3) + b"abcde")  # no NUL where it should be
    r.record(records.COUNTERS, struct.pack("<IIQ", 1, 0xFFFFFFFF, 1))
    r.record(records.SITE, struct.pack("<IHH", 99, 0xFFFF, 0xFFFF))
    r.record(records.MODULE, struct.pack("<IIQI64sI", 99, 1, 0, 65, b"", 0))
    yield "lengths", r.bytes()

    r = records.Records()
    rule = r.rule("r", "c", 77)
    function = r.function("cuX")
    for site, region in ((0xFFFFFFFF, 0xFFFFFFFF), (5, 6)):
        r.wait(function, rule, site, 255, 255, 255, 255, region, count=2 ** 64 - 1, blocked=2 ** 64 - 1, amount=2 ** 64 - 1,
               last=2 ** 64 - 1)
    r.wait(77, 88)
    r.waited_for(1, 99, 1, 1)
    r.waited_for(99, 1, 1, 1)
    r.waited_for(1, r.candidate(77, 2 ** 64 - 1, 2 ** 64 - 1, 77), 2 ** 64 - 1, 2 ** 64 - 1)
    r.note(0, "zero", 2 ** 64 - 1)
    r.note(2 ** 32 - 1, "many", 2 ** 64 - 1)
    r.note(2, "")
    r.counters([2 ** 64 - 1] * 9)
    r.counters([2 ** 64 - 1] * 9)
    r.site([(0, 0)])
    r.site([(77, 2 ** 64 - 1)], [("f", -2 ** 31, "g")])
    yield "ids", r.bytes()

    r = records.sample()
    for _ in range(3):
        r.record(records.SITE, struct.pack("<IHHQII", 1, 1, 0, 5, 1, 0))
        r.record(records.FUNCTION, struct.pack("<IIII", 0, 1, 3, 0))
    yield "twice", r.bytes()

    r = records.Records(start=2 ** 64 - 1, end=1, command=b"\xff\xfe\x1b[31m\r\n\xc0\xaf\xed\xa0\x80\xe2\x80\xae" + b"x" * 5000,
                        config="=\n\nA\n=B\nC=" + "y" * 9000)
    module = r.module(b"/tmp/\xff\x1b]0;title\x07/\xc3\xa9.so", b"\0" * 64)
    site = r.site([(module, 0), (module, 1)], [(b"\x1b[2J", 1, b"\xff")])
    r.wait(r.function(b"cu\x1b[1m"), r.rule(b"slug\nline", b"\x9b31m", 2), site, blocked=1)
    yield "controls", r.bytes()

    r = records.sample()
    r.record(records.STRING, struct.pack("<II", 5000, 4) + b"abcd\0", publish=False)
    r.string("behind the reserved one")
    yield "reserved", r.bytes()
    yield "sparse", good.ljust(records.SEGMENT, b"\0") + b"\0" * records.SEGMENT + struct.pack("<II", 3, 4)


def at_random(count):
    rng = random.Random(SEED)
    good = records.sample().bytes()
    for number in range(count):
        data = bytearray(good)
        for _ in range(rng.randint(1, 12)):
            choice = rng.random()
            at = rng.randrange(0, len(data) - 8) if rng.random() < 0.8 else rng.randrange(0, HEADER_SIZE)
            if choice < 0.4:
                data[at] = rng.randrange(256)
            elif choice < 0.7:
                struct.pack_into("<I", data, at & ~3, rng.choice((0, 1, 8, 255, 4096, 2 ** 31, 2 ** 32 - 1, rng.getrandbits(32))))
            elif choice < 0.8:
                struct.pack_into("<Q", data, at & ~7, rng.getrandbits(64))
            elif choice < 0.9:
                del data[at:at + rng.choice((1, 4, 8, 16))]
            else:
                other = rng.randrange(0, len(data) - 8)
                data[at:at] = data[other:other + rng.choice((8, 16, 64))]
            if len(data) < HEADER_SIZE + 16:
                break
        yield "random-%d" % number, bytes(data)


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_corpus_under_sanitizers(self):
        print("seed %d" % SEED, file=sys.stderr)
        paths = []
        for name, data in [*by_hand(), *at_random(3000)]:
            paths.append(os.path.join(self.folder.name, name))
            with open(paths[-1], "wb") as file:
                file.write(b"\0" + data)  # 0: the file is whole, put no header before it
        result = subprocess.run([REPLAY, *paths], capture_output=True, text=True, timeout=200,
                                env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1"})
        self.assertEqual(result.returncode, 0, result.stderr[-4000:])
        self.assertEqual(result.stdout, "%d files\n" % len(paths))

    def report(self, data, *arguments):
        path = os.path.join(self.folder.name, "file.slip")
        with open(path, "wb") as file:
            file.write(data)
        return subprocess.run([TOOL, "report", path, *arguments], capture_output=True, timeout=60)

    def test_command_never_crashes_and_writes_no_control_character(self):
        for name, data in by_hand():
            result = self.report(data)
            self.assertIn(result.returncode, (0, 1), name)
            for stream in (result.stdout, result.stderr):
                self.assertFalse([c for c in stream if c < 0x20 and c != 10 or c in (0x7F, 0xFF)], name)
            if result.returncode:
                self.assertEqual(result.stderr.count(b"\n"), 1, name)
                self.assertEqual(result.stdout, b"", name)
            else:
                self.assertEqual(result.stderr, b"", name)

    def test_messages(self):
        good = records.sample().bytes()
        for data, text in ((b"", "empty: its process could not write, or ended before it did"),
                           (bytes(4096), "empty: its process could not write, or ended before it did"),
                           (b"text, not records" * 99, "not a record file: its head is another"),
                           (good[:50], "not a record file: its header is cut off"),
                           (good[:20], "not a record file: only 20 bytes"),
                           (records.Records(version=9).bytes(), "has version 9, this slipstream reads 1"),
                           (records.Records(magic=7).bytes(), "not a record file: its head is another")):
            result = self.report(data)
            self.assertEqual((result.returncode, result.stderr.decode()),
                             (1, "slipstream report: %s: %s\n" % (os.path.join(self.folder.name, "file.slip"), text)))

    def test_damage_is_told_and_the_rest_is_reported(self):
        r = records.sample()
        at = len(r.data)
        r.record(records.STRING, struct.pack("<II", 999, 4) + b"abcd\0", size=12)
        for data, text in ((r.bytes(), "record at byte %d has an impossible size of 12, skipping to the next segment" % at),
                           (records.sample().bytes()[:-4], "cut off inside the record at byte %d" % (at - 24)),
                           (records.sample().bytes() + b"\1\0\0", "cut off at byte %d" % at)):
            result = self.report(data)
            text = "  inconclusive: damaged record file file.slip: " + text
            self.assertEqual(result.returncode, 0)
            self.assertIn("17 implicit synchronizations blocked the program for 34.0 ms", result.stdout.decode())
            self.assertEqual([line for line in result.stdout.decode().splitlines() if "damaged" in line], [text])
            self.assertIn("inconclusive, there may be more (1 reason below)", result.stdout.decode())

    def test_each_check_of_a_record(self):
        """One bad record each; all but the check in question hold."""
        for kind, payload, what in (
                (records.STRING, struct.pack("<II", 998, 3) + b"abcde", "no NUL"),
                (records.STRING, struct.pack("<II", 998, 9) + b"abcd\0", "longer than its record"),
                (records.COUNTERS, struct.pack("<IIQ", 1, 2, 1), "one counter missing"),
                (records.THUNKS, struct.pack("<IIQ", 0, 2, 1), "one counter missing"),
                (records.MODULE, struct.pack("<IIQI64sI", 99, 1, 0, 65, b"", 0), "build id too long"),
                (records.SITE, struct.pack("<IHHQII", 99, 2, 0, 5, 1, 0), "one frame missing"),
                (records.SITE, struct.pack("<IHHQII", 99, 1, 1, 5, 1, 0), "one Python frame missing"),
                (records.SITE, struct.pack("<IHH", 99, 257, 0) + bytes(257 * 16), "too many frames"),
                (records.SITE, struct.pack("<IHH", 99, 0, 257) + bytes(257 * 16), "too many Python frames"),
                (records.WAIT, bytes(72), "short"), (records.CANDIDATE, bytes(32), "short"), (records.NOTE, bytes(8), "short"),
                (records.WAITED_FOR, bytes(16), "short"), (records.FUNCTION, bytes(8), "short"), (records.RULE, bytes(8), "short"),
                (records.REGION, bytes(0), "short"), (records.HEADER, bytes(88), "second header")):
            r = records.sample()
            at = len(r.data)
            r.record(kind, payload)
            r.function("cuBehind")
            text = self.report(r.bytes(), "--json", os.path.join(self.folder.name, "j")).stdout.decode()
            self.assertEqual([line for line in text.splitlines() if "damaged" in line],
                             ["  inconclusive: damaged record file file.slip: record of type %d at byte %d is damaged, ignoring it"
                              % (kind, at)], what)
            with open(os.path.join(self.folder.name, "j")) as file:
                self.assertIn('"exported": 7', file.read(), what)

    def test_types_not_known(self):
        """Of a newer library, or nothing of the report (contexts, streams, what the dump shows): passed over without a word."""
        for kind in (15, 16, *range(20, 25), 99):
            for payload in (bytes(0), bytes(8), bytes(1000)):
                r = records.sample()
                r.record(kind, payload)
                r.function("cuBehind")
                text = self.report(r.bytes(), "--json", os.path.join(self.folder.name, "j")).stdout.decode()
                self.assertNotIn("damaged", text, kind)
                with open(os.path.join(self.folder.name, "j")) as file:
                    self.assertIn('"exported": 7', file.read(), kind)

    def test_header_of_a_newer_library(self):
        """It is longer; what it says more is not read. One without the last fields is of an older library."""
        for more in (0, 8, 16, 800):
            data = bytearray(records.sample().bytes())
            size = struct.unpack_from("<I", data, 4)[0]
            self.assertEqual(size, 96)
            data[4:8] = struct.pack("<I", size + more)
            data[size:size] = bytes(more)
            text = self.report(data).stdout.decode()
            self.assertNotIn("damaged", text, more)
            self.assertIn("17 implicit synchronizations", text, more)

    def test_ids_used_twice(self):
        for kind, payload, what in ((records.RULE, struct.pack("<IIII", 0, 1, 1, 1), "rule 0"),
                                    (records.SITE, struct.pack("<IHH", 1, 0, 0), "call site 1"),
                                    (records.STRING, struct.pack("<II", 1, 1) + b"x\0", "string 1")):
            r = records.sample()
            r.record(kind, payload)
            text = self.report(r.bytes()).stdout.decode()
            self.assertIn("file.slip: %s is there twice, using the first\n" % what, text)
            self.assertIn("pageable-h2d in cuMemcpyHtoD_v2", text)

    def test_damage_costs_only_its_segment(self):
        r = records.Records()
        r.record(records.STRING, struct.pack("<II", 999, 4) + b"abcd\0", size=12)
        r.data = r.data.ljust(records.SEGMENT, b"\0")
        r.function("cuBehind")
        r.counters([3])
        result = self.report(r.bytes(), "--json", os.path.join(self.folder.name, "j"))
        self.assertEqual(result.returncode, 0)
        with open(os.path.join(self.folder.name, "j")) as file:
            self.assertIn('"cuBehind": 3', file.read())

    def test_reserved_record_hides_nothing_behind_it(self):
        r = records.Records()
        r.record(records.STRING, struct.pack("<II", 999, 4) + b"abcd\0", publish=False)
        r.function("cuBehind")
        r.counters([3])
        self.assertIn("calls: 3,", self.report(r.bytes()).stdout.decode())

    def test_fifo_and_folder_and_device_do_not_hang(self):
        fifo = os.path.join(self.folder.name, "fifo.slip")
        os.mkfifo(fifo)
        for path in (fifo, "/dev/zero"):
            result = subprocess.run([TOOL, "report", path], capture_output=True, text=True, timeout=20)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "slipstream report: %s: not a regular file\n" % path))


if __name__ == "__main__":
    unittest.main()
