# SPDX-License-Identifier: MIT
"""Whose call it was: the shim's wrapper, the shim, the driver itself, or past all of them. Of check_watch.py."""
import os

import elf_symbols
from watching import calls, DRIVER, FOLDER, PLAIN, PTSZ, watch


def offset_of(path, name):
    """Of a function in the file, by its symbol; hidden ones too."""
    return elf_symbols.offset(path, name)


def escapes(*options, program=None, wrapper="libwatch-wrapper.so"):
    escape = os.path.join(FOLDER, "watch-escape")
    module = os.path.join(FOLDER, "libwatch-module.so")
    command = ["env", f"LD_PRELOAD={os.path.join(FOLDER, wrapper)}", escape, DRIVER, module]
    return watch("--stepped", "--records", "--callers", "--shim", wrapper, *options, program=program or command)


def five_ways_past_the_shim_are_each_told():
    seen = escapes()
    assert seen["status"] == 0, seen
    by = {}
    for caller in seen["callers"]:
        key = (caller["function"], caller["by"], caller["shim"])
        by.setdefault(key, []).append(caller["calls"])
    by = {key: sorted(counts) for key, counts in by.items()}
    # The second driver of a dlmopen namespace is the same file. Every way past the wrapper is a place of its own: saved pointer 11,
    # deep binding 12, another namespace 13, a child without the wrapper 15. What the export table hands out has no name: its 14 calls
    # are seen where it calls on, from inside the library.
    assert by[(PTSZ, "wrapper", True)] == [100], by
    assert by[("cuMemFree_v2", "shim", True)] == [100], by
    assert by[(PTSZ, "program", True)] == [11, 12, 13] or by[(PTSZ, "program", True)] == [12, 24], by
    assert by[(PTSZ, "program", False)] == [15], by
    assert by[(PLAIN, "library", True)] == [14], by
    records = seen["sums"][PTSZ]
    assert (records["wrapper"], records["program"], records["with_shim"]) == (100, 51, 136), records


def function_without_a_name_is_watched_where_its_offset_is_told():
    seen = escapes("--library", DRIVER, "--offset", f"{offset_of(DRIVER, 'hidden')}:cuGetExportTable")
    assert seen["sums"]["cuGetExportTable"] == {**seen["sums"]["cuGetExportTable"], "records": 14, "program": 14, "with_shim": 14}
    inner = [call for call in seen["calls"] if call["function"] == PLAIN]
    assert len(inner) == 14 and all(call["nested"] for call in inner)


TESTS = [
    five_ways_past_the_shim_are_each_told,
    function_without_a_name_is_watched_where_its_offset_is_told,
]
