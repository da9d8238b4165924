#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes a library with as many symbols as machine-learning libraries have, in no order, and behind them the cases that decide which
of several symbols is meant. Nothing in it can run. For test_symbolize.c and the report's tests, which know its layout:

    function_N at TEXT + 16 * N, 16 bytes each
    CASES: the symbols listed below

many_symbols.py FILE COUNT SEED
"""

import random
import struct
import sys

TEXT = 0x1000
CASES = 0x1000000
OTHER = CASES + 0x4000  # start of a second section of code
END = OTHER + 0x1000

LOCAL, GLOBAL, WEAK = 0, 1, 2
NOTYPE, OBJECT, FUNCTION, SECTION, FILE, COMMON, TLS = range(7)
IN_TEXT, IN_OTHER = 1, 2

SPECIAL = [  # name, start behind CASES, size, binding, type, section
    # The same start: the name for others, not the local one.
    ("outer", 0x0, 0x100, GLOBAL, FUNCTION, IN_TEXT),
    ("outer_local", 0x0, 0x100, LOCAL, FUNCTION, IN_TEXT),
    # Inside another one: the inner; of two the weak one, which is for others.
    ("inner", 0x40, 0x20, LOCAL, FUNCTION, IN_TEXT),
    ("inner_weak", 0x40, 0x20, WEAK, FUNCTION, IN_TEXT),
    # The same start and binding: the smallest that reaches.
    ("large", 0x200, 0x100, GLOBAL, FUNCTION, IN_TEXT),
    ("small", 0x200, 0x10, GLOBAL, FUNCTION, IN_TEXT),
    # Labels without a size: near ones count, unless a function that ended since lies over them.
    ("label", 0x400, 0, GLOBAL, NOTYPE, IN_TEXT),
    ("nearer", 0x480, 0, LOCAL, NOTYPE, IN_TEXT),
    ("after", 0x3000, 0x100, GLOBAL, FUNCTION, IN_TEXT),
    ("label_inside", 0x3010, 0, GLOBAL, NOTYPE, IN_TEXT),
    # The last of its section says nothing about the next section.
    ("label_last", 0x3FF0, 0, GLOBAL, NOTYPE, IN_TEXT),
    # No code, although they lie around everything.
    ("thread_local", 0x0, 0x4000, GLOBAL, TLS, IN_TEXT),
    ("file.c", 0x0, 0x4000, LOCAL, FILE, IN_TEXT),
    ("undefined", 0x0, 0x4000, GLOBAL, FUNCTION, 0),
    ("", 0x0, 0x4000, GLOBAL, FUNCTION, IN_TEXT),
]


def library(count, seed):
    assert TEXT + 16 * count <= CASES
    symbols = [("function_%d" % i, TEXT + 16 * i, 16, GLOBAL if i % 3 else LOCAL, FUNCTION, IN_TEXT) for i in range(count)]
    symbols += [(name, CASES + start, size, binding, kind, section) for name, start, size, binding, kind, section in SPECIAL]
    random.Random(seed).shuffle(symbols)
    symbols.sort(key=lambda symbol: symbol[3] != LOCAL)  # as the format demands; otherwise in no order

    names = bytearray(b"\0")
    table = bytearray(24)
    for name, start, size, binding, kind, section in symbols:
        table += struct.pack("<IBBHQQ", len(names) if name else 0, binding << 4 | kind, 0, section, start, size)
        if name:
            names += name.encode() + b"\0"
    locals_count = 1 + sum(symbol[3] == LOCAL for symbol in symbols)

    section_names = b"\0.text\0.other\0.symtab\0.strtab\0.shstrtab\0"
    table_at = 0x1000
    names_at = table_at + len(table)
    section_names_at = names_at + len(names)
    headers_at = (section_names_at + len(section_names) + 7) // 8 * 8

    def section(name, kind, flags, address, offset, size, link=0, info=0, alignment=16, entry=0):
        return struct.pack("<IIQQQQIIQQ", section_names.index(name), kind, flags, address, offset, size, link, info, alignment,
                           entry)

    # The code has addresses but no bytes (NOBITS): nobody reads them.
    headers = bytes(64)
    headers += section(b".text\0", 8, 6, TEXT, table_at, OTHER - TEXT)
    headers += section(b".other\0", 8, 6, OTHER, table_at, END - OTHER)
    headers += section(b".symtab\0", 2, 0, 0, table_at, len(table), 4, locals_count, 8, 24)
    headers += section(b".strtab\0", 3, 0, 0, names_at, len(names), alignment=1)
    headers += section(b".shstrtab\0", 3, 0, 0, section_names_at, len(section_names), alignment=1)

    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, headers_at, 0, 64, 56, 1, 64, 6, 5)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, table_at, END, 0x1000)  # one segment over all of it
    body = head + bytes(table_at - len(head)) + table + names + section_names
    return bytes(body + bytes(headers_at - len(body)) + headers)


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as output:
        output.write(library(int(sys.argv[2]), int(sys.argv[3])))
