# SPDX-License-Identifier: MIT
"""Where the watch's probes lie: functions of the driver library by its own tables, and their first bytes in a running process. Of witness.py."""
import collections
import mmap
import os
import re
import struct

SHOWN = 8  # bytes of a function
LANDING_PAD = bytes.fromhex("f30f1efa")
BREAKPOINT = 0xCC

Function = collections.namedtuple("Function", "address code")  # in the library's own numbering; its first bytes
ROW = re.compile(r'^\t\{ "(\w+)", (true|false), ')


def default_set(path):
    """Names of the functions that are watched unless others are asked for, from the table that is built into the watch."""
    with open(path, encoding="ascii") as file:
        rows = [found for found in map(ROW.match, file) if found]
    if not rows:
        raise ValueError(f"{path}: no table")
    return [row.group(1) for row in rows if row.group(2) == "true"]


def exports(path):
    """{name: Function} of the cu* functions that a 64-bit ELF library exports."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        programs, table = struct.unpack_from("<QQ", data, 32)
        size, count, width, sections = struct.unpack_from("<HHHH", data, 54)
        loads = [struct.unpack_from("<IIQQQQQQ", data, programs + i * size) for i in range(count)]
        loads = [(load[3], load[3] + load[5], load[2]) for load in loads if load[0] == 1]
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * width) for i in range(sections)]
        found = {}
        for section in headers:
            if section[1] != 11:  # SHT_DYNSYM
                continue
            names = headers[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, info, _, owner, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                text = data[names + name:data.find(b"\0", names + name)].decode("ascii", "replace")
                if not owner or info & 15 != 2 or not re.fullmatch(r"cu[A-Z]\w*", text):
                    continue
                offset = next((value - start + begin for start, end, begin in loads if start <= value < end), None)
                if offset is not None:
                    found[text] = Function(value, bytes(data[offset:offset + SHOWN]))
        return found


def same_function(functions):
    """Lists of names that share one address: one probe counts them all, under one of the names."""
    groups = collections.defaultdict(list)
    for name, function in functions.items():
        groups[function.address].append(name)
    return [sorted(names) for names in groups.values()]


def mapped_driver(process):
    """(path, base) of the driver library in a process; None: it has none."""
    with open(f"/proc/{process}/maps", encoding="utf-8") as maps:
        for line in maps:
            words = line.rstrip("\n").split(maxsplit=5)
            if len(words) == 6 and re.fullmatch(r"libcuda\.so(\.[\d.]+)?", os.path.basename(words[5])) and int(words[2], 16) == 0:
                return words[5], int(words[0].split("-")[0], 16)
    return None


class Memory:
    """The first bytes of functions of the driver in a running process, and whether they are as they were. Needs the rights of a debugger; stops nothing."""

    def __init__(self, process, names):
        path, base = mapped_driver(process)
        code = {name: function for name, function in exports(path).items() if name in names}
        self.places = {name: base + function.address for name, function in code.items()}
        self.file = os.open(f"/proc/{process}/mem", os.O_RDONLY)
        self.before = {name: self.now(name) for name in self.places}
        for name, was in self.before.items():
            if any(was[at] == BREAKPOINT != code[name].code[at] for at in (0, len(LANDING_PAD))):
                self.close()
                raise ValueError(f"{name} has a probe already")

    def close(self):
        os.close(self.file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def now(self, name):
        return os.pread(self.file, SHOWN, self.places[name])

    def is_probed(self, name):
        """A breakpoint is there, or what the kernel made of it."""
        return self.now(name) != self.before[name]

    def probed(self):
        return [name for name in self.places if self.is_probed(name)]
