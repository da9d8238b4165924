# SPDX-License-Identifier: MIT
"""What the ELF file of the library says of its probes: a strict reader of its own. Of run.py."""
import collections
import re
import struct
import subprocess

PROBES = ("scope_enter", "scope_exit", "wait", "rewrite", "pool")

Note = collections.namedtuple("Note", "name location semaphore arguments")


class Broken(Exception):
    pass


def equal(found, wanted, what):
    if found != wanted:
        raise Broken(f"{what}: {found}, not {wanted}")


def expect(condition, text):
    if not condition:
        raise Broken(text)


class Library:
    """What the ELF file says of its probes: a strict reader of its own."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as stream:
            self.data = stream.read()
        (program_headers, section_headers), (size_p, count_p, size_s, count_s, names) = (struct.unpack_from("<QQ", self.data, 32),
                                                                                         struct.unpack_from("<HHHHH", self.data, 54))
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.data, program_headers + i * size_p) for i in range(count_p)]
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.data, section_headers + i * size_s) for i in range(count_s)]
        self.sections = {self.text(headers[names][4] + header[0]): header for header in headers}
        self.notes = list(self.read_notes()) if ".note.stapsdt" in self.sections else []

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def read_notes(self):
        _, _, _, _, at, size, *_ = self.sections[".note.stapsdt"]
        end, base_now = at + size, self.sections[".stapsdt.base"][3]
        while at < end:
            owner, length, kind = struct.unpack_from("<III", self.data, at)
            equal((self.text(at + 12), kind), ("stapsdt", 3), "owner and kind of a note")
            at += 12 + (owner + 3 & ~3)
            location, base, semaphore = struct.unpack_from("<QQQ", self.data, at)
            provider, name, arguments = (part.decode() for part in self.data[at + 24:at + length].split(b"\0")[:3])
            equal(provider, "slipstream", "provider")
            yield Note(name, location + base_now - base, semaphore + base_now - base, arguments.split())
            at += length + 3 & ~3

    def segment_of(self, address):
        found = [segment for segment in self.segments if segment[0] == 1 and segment[3] <= address < segment[3] + segment[5]]
        expect(len(found) == 1, f"{self.path}: {address:#x} lies in no part of the file that is loaded")
        return found[0]

    def offset(self, address):
        segment = self.segment_of(address)
        return address - segment[3] + segment[2]

    def address_of(self, symbol):
        done = subprocess.run(["nm", self.path], capture_output=True, text=True, check=False)
        found = re.search(rf"^([0-9a-f]+) \w {symbol}$", done.stdout, re.MULTILINE)
        return int(found[1], 16) if found else None

    def places(self):
        """Of a link of all probes."""
        by_name = {note.name: note for note in self.notes}
        return [f"{self.offset(by_name[name].location)}:{self.offset(by_name[name].semaphore)}" for name in PROBES]
