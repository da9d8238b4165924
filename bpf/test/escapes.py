# SPDX-License-Identifier: MIT
"""Whose call it was: the shim's wrapper, the shim, the driver itself, or past all of them. Of check_watch.py."""
import os
import shutil
import tempfile

import elf_symbols
from watching import as_nobody, calls, DRIVER, FOLDER, needs_root, PLAIN, PROGRAM, PTSZ, started, Watch, watch


def offset_of(path, name):
    """Of a function in the file, by its symbol; hidden ones too."""
    return elf_symbols.offset(path, name)


def escapes(*options, program=None, wrapper="libwatch-wrapper.so"):
    escape = os.path.join(FOLDER, "watch-escape")
    module = os.path.join(FOLDER, "libwatch-module.so")
    command = ["env", f"LD_PRELOAD={os.path.join(FOLDER, wrapper)}", escape, DRIVER, module]
    # Its path, as run --witness gives it: the program may end before its file could be opened.
    return watch("--stepped", "--records", "--callers", "--shim", wrapper, "--shim-path", os.path.join(FOLDER, wrapper), *options,
                 program=program or command)


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


def wrappers_of_several_builds_are_each_known():
    """Nine copies of two builds, none of which is known beforehand: one table of symbols would not do, nor would one file's names."""
    with tempfile.TemporaryDirectory() as folder:
        command = "exec 3<&0; echo ready; "
        for number in range(9):
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            build = "libwatch-wrapper-other.so" if number % 2 else "libwatch-wrapper.so"
            shutil.copy(os.path.join(FOLDER, build), os.path.join(place, "libwatch-wrapper.so"))
            command += f"LD_PRELOAD={place}/libwatch-wrapper.so '{PROGRAM}' wrapped {number + 1} <&3 & "
        with started("sh", "-c", command + "wait") as parent:
            for _ in range(9):
                parent.stdout.readline()
            run = Watch("--pid", str(parent.pid), "--stepped", "--callers", "--shim", "libwatch-wrapper.so").ready()
            parent.stdin.close()
        seen = run.report()
    found = sorted((caller["function"], caller["by"], caller["calls"]) for caller in seen["callers"])
    assert found == sorted((name, by, count) for count in range(1, 10) for name, by in ((PTSZ, "wrapper"), ("cuMemFree_v2", "shim"))), found


@needs_root
def shim_that_nobody_can_open_leaves_open_whose_the_calls_are():
    """Its file was put away, and the right to open mappings is not there."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as place:
        nobody = as_nobody(folder, "bpf", "perfmon")
        os.chmod(place, 0o755)
        copy = os.path.join(place, "libwatch-wrapper.so")
        shutil.copy(os.path.join(FOLDER, "libwatch-wrapper.so"), copy)
        command = [*nobody, "env", f"LD_PRELOAD={copy}", f"{folder}/watch-program", "wrapped", "6"]
        with started(*command) as child:
            os.unlink(copy)
            run = Watch("--pid", str(child.pid), "--stepped", "--callers", "--shim", "libwatch-wrapper.so", tool=f"{folder}/watch-tool",
                        wrap=nobody).ready()
            child.stdin.close()
        seen = run.report()
    assert [(caller["by"], caller["calls"]) for caller in seen["callers"] if caller["function"] == PTSZ] == [("unknown", 6)], seen["callers"]


TESTS = [
    five_ways_past_the_shim_are_each_told,
    function_without_a_name_is_watched_where_its_offset_is_told,
    wrappers_of_several_builds_are_each_known,
    shim_that_nobody_can_open_leaves_open_whose_the_calls_are,
]
