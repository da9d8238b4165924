# SPDX-License-Identifier: MIT
"""Addresses and file offsets of symbols of a 64-bit ELF file, by its own tables."""
import struct


def _symbols(data):
    table, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for section in sections:
        if section[1] not in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM
            continue
        names = sections[section[6]]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            start = names[4] + name
            yield data[start:data.index(b"\0", start)].decode(), value


def address(path, name):
    with open(path, "rb") as file:
        data = file.read()
    return next(value for symbol, value in _symbols(data) if symbol == name)


def offset(path, name):
    wanted = address(path, name)
    with open(path, "rb") as file:
        data = file.read()
    table, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, start, virtual, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", data, table + i * size)
        if kind == 1 and virtual <= wanted < virtual + length:
            return wanted - virtual + start
    raise KeyError(name)
