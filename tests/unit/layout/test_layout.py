#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rooms of the library use each other one way, every header compiles alone, and the documents name files that exist.

Rooms are looked at twice: what their files include, and what the objects of the built library take from each other (a
forward declaration hides a use from the first, a macro or a type from the second).

usage: test_layout.py SOURCE-FOLDER BUILD-FOLDER COMPILER
"""
import concurrent.futures
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import unittest

# What a room may use. A room that is not written yet stands here too, in its place (shim/README.md, "A call's way").
MAY_USE = {
    "catalogue": set(),
    "driver": {"catalogue"},
    "emit": {"catalogue"},
    "pool": {"catalogue", "driver", "emit"},
    "state": {"catalogue", "driver", "emit"},
    "stage": {"catalogue", "driver", "emit", "pool", "state"},
    "legacy": {"catalogue", "driver", "emit", "state"},
    "rewrite": {"catalogue", "driver", "emit", "legacy", "pool", "stage", "state", "sync"},
    "sync": {"catalogue", "emit", "state"},
    "check": {"catalogue", "driver", "emit", "state", "sync"},
    "guard": {"catalogue", "check", "driver", "emit", "state", "sync"},
    "entry": {"catalogue", "check", "guard", "driver", "emit", "legacy", "pool", "rewrite", "stage", "state", "sync"},
}
# Words that all rooms share: below every room, so these may use no room, only each other.
SHARED = {"calibration_copies.h", "call.h", "cgroup.h", "clock.h", "config.h", "counter.h", "deny_list.h", "libc.h", "options.def", "ranks.def", "tables.def", "uncancelled.h", "emit/record.h", "emit/usdt_how.h", "rewrite/policy.def", "step_mark.h", "sync/site_key.h",
           "tracing/event.h", "tracing/provider/provider.h"}
# Sources beside the rooms; they use no room either.
BESIDE = {"cgroup.c", "clock.c", "config.c", "deny_list.c", "libc.c"}
# Hooked names of the C library: a call of dlopen() by any room is a call of dlopen().
HOOKED = {"dlopen", "dlmopen", "dlsym"}

SOURCE, BUILD, COMPILER = [os.path.abspath(path) for path in sys.argv[1:3]] + [shlex.split(sys.argv[3])]
SHIM = os.path.join(SOURCE, "shim")


def room_of(path):
    """The room of a path below shim/; None for what all share."""
    if path in SHARED or path in BESIDE:
        return None
    room, slash, _ = path.partition("/")
    if not slash or room not in MAY_USE:
        raise AssertionError("shim/%s lies in no room that this test knows" % path)
    return room


def includes(path):
    """Own headers that a file below shim/ includes, as paths below shim/; generated ones too."""
    with open(os.path.join(SHIM, path), encoding="utf-8") as file:
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.M):
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            yield beside if os.path.exists(os.path.join(SHIM, beside)) else name


def cycle(edges):
    """A list of rooms in which each uses the next and the last the first; None if there is none."""
    def walk(room, way):
        if room in way:
            return way[way.index(room):]
        for used in sorted(edges.get(room, ())):
            found = walk(used, way + [room])
            if found:
                return found
        return None

    for room in sorted(edges):
        found = walk(room, [])
        if found:
            return found
    return None


class Rooms(unittest.TestCase):
    def test_order_has_no_cycle(self):
        self.assertEqual(cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c"])
        self.assertIsNone(cycle(MAY_USE))

    def test_includes(self):
        files = [os.path.relpath(path, SHIM) for kind in ("c", "h", "S")
                 for path in glob.glob(os.path.join(SHIM, "**", "*." + kind), recursive=True)]
        self.assertGreater(len(files), 50)
        problems = []
        for path in sorted(files):
            room = room_of(path)
            for name in includes(path):
                used = room_of(name)
                if used is None or used == room:
                    continue
                if room is None:
                    problems.append("shim/%s includes %s: what all rooms share may use none" % (path, name))
                elif used not in MAY_USE[room]:
                    problems.append("shim/%s includes %s: %s may not use %s" % (path, name, room, used))
        self.assertEqual(problems, [])

    def test_objects(self):
        """What the library's objects take from each other."""
        where, wanted = {}, []
        folder = os.path.join(BUILD, "shim", "libslipstream.so.p")
        objects = glob.glob(os.path.join(folder, "*.o"))
        self.assertGreater(len(objects), 30, "objects in " + folder)
        for path in objects:
            # Meson's names: state_order.c.o, meson-generated_.._entry_wrappers_0.c.o
            name = re.sub(r"^meson-generated_\.\._", "", os.path.basename(path))
            room = name.split("_")[0]
            if name[:-len(".o")] in BESIDE:
                room = None
            elif room not in MAY_USE:
                self.fail("%s is of no room that this test knows" % path)
            listed = subprocess.run(["nm", "-g", path], capture_output=True, text=True, check=True).stdout
            for kind, symbol in re.findall(r"^[0-9a-f ]* ([A-Za-z]) (\S+)$", listed, re.M):
                if kind in "Uw":
                    wanted.append((room, symbol, name))
                else:
                    where[symbol] = room
        problems = set()
        for room, symbol, name in wanted:
            used = where.get(symbol)
            if used is None or used == room or symbol in HOOKED:
                continue
            if room is None or used not in MAY_USE[room]:
                problems.add("%s takes %s from %s: %s may not use it" % (name, symbol, used, room or "what all rooms share"))
        self.assertEqual(sorted(problems), [])

    def test_tools_share_the_record_format_only(self):
        """Tools read what the library leaves behind; they are not built from it."""
        problems = []
        for path in glob.glob(os.path.join(SOURCE, "tools", "**", "*.[ch]"), recursive=True):
            with open(path, encoding="utf-8") as file:
                for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.M):
                    if name.split("/")[0] in MAY_USE and name not in SHARED:
                        problems.append("%s includes %s" % (os.path.relpath(path, SOURCE), name))
        self.assertEqual(problems, [])


class Headers(unittest.TestCase):
    def folders(self):
        """The include folders of the build itself."""
        seen = []
        with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
            for entry in json.load(file):
                words = shlex.split(entry["command"])
                for i, word in enumerate(words):
                    match = re.fullmatch(r"(-I|-isystem)(.*)", word)
                    if not match:
                        continue
                    option = match[1] + os.path.join(entry["directory"], match[2] or words[i + 1])
                    if option not in seen:
                        seen.append(option)
        return seen

    def test_each_compiles_alone(self):
        folders = self.folders()
        headers = [path for top in ("include", "shim", "tracing", "tools", "tests")
                   for path in glob.glob(os.path.join(SOURCE, top, "**", "*.h"), recursive=True)]
        self.assertGreater(len(headers), 60)

        def problem(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            # C and GNU extensions as in the build; -x c, since a header by itself would be precompiled. What is C++ and nothing else is compiled as that.
            plus = re.search(r"^namespace ", text, re.M) and "__cplusplus" not in text
            done = subprocess.run(COMPILER + ["-std=gnu++11" if plus else "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-fsyntax-only", *folders, "-x",
                                              "c++" if plus else "c", path],
                                  capture_output=True, text=True, check=False)
            return None if done.returncode == 0 else done.stderr.splitlines()[0]

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            self.assertEqual([text for text in threads.map(problem, sorted(headers)) if text], [])


class Documents(unittest.TestCase):
    # Where a document's short names are looked for.
    PLACES = {
        "README.md": [""],
        "CONTRIBUTING.md": [""],
        "shim/README.md": ["shim", ""],
        "tests/simcuda/README.md": ["tests/simcuda", ""],
        "tracing/README.md": ["tracing", ""],
    }

    def test_files_to_edit_exist(self):
        """Every file named in a "To change X, edit Y" table."""
        problems, named = [], 0
        for document, places in self.PLACES.items():
            with open(os.path.join(SOURCE, document), encoding="utf-8") as file:
                text = file.read()
            table = re.search(r"^## To change X, edit Y\n+((?:\|.*\n)+)", text, re.M)
            if not table:
                continue
            for word in re.findall(r"`([\w./-]+(?:/|\.(?:c|h|S|py|md|def|yaml|json|txt|css|js))|tools/[\w-]+)`", table[1]):
                named += 1
                if not any(os.path.exists(os.path.join(SOURCE, place, word)) for place in places):
                    problems.append("%s names %s, which is not there" % (document, word))
        self.assertGreater(named, 30)
        self.assertEqual(problems, [])

    def test_files_of_the_trace_exist(self):
        """Every file named in a table "file, job" of tracing/README.md."""
        places = ("tracing", "tracing/analysis", "tools/trace", "")
        with open(os.path.join(SOURCE, "tracing/README.md"), encoding="utf-8") as file:
            tables = re.findall(r"^\| file \| job \|\n((?:\|.*\n)+)", file.read(), re.M)
        self.assertGreater(len(tables), 2)
        names = [word for table in tables for word in re.findall(r"`(\w[\w./-]*(?:/|\.(?:c|h|py|yaml)))`", table)]
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name in names if not any(os.path.exists(os.path.join(SOURCE, place, name)) for place in places)], [])


unittest.main(argv=sys.argv[:1])
