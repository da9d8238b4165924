# SPDX-License-Identifier: MIT
"""Exact counts on the simulated driver: a million calls, every export, whatever way the library comes. Of check_watch.py; SIMCUDA: the driver's folder."""
import os
import shutil
import subprocess
import sys
import tempfile

import elf_symbols
from watching import calls, environment, nothing_lost, Watch

SIMCUDA = os.path.join(os.environ["SIMCUDA"], "libcuda.so.1")
SYNC = "cuStreamSynchronize"

# argv: the library, what to do, more of that. Without cuInit() every export answers at once, whatever it is given.
PROGRAM = """
import ctypes, os, sys
def calls(name, count):
    function = getattr(ctypes.CDLL(sys.argv[1]), name)
    nothing = [ctypes.c_uint64(0)] * 12
    for _ in range(count):
        function(*nothing)
def tree(depth):
    calls("cuStreamSynchronize", 7)
    for _ in range(2 if depth else 0):
        if not os.fork():
            tree(depth - 1)
            os._exit(0)
    while depth:
        try:
            os.wait()
        except ChildProcessError:
            break
if sys.argv[2] == "wait":
    ctypes.CDLL(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.read()
if sys.argv[2] == "tree":
    tree(3)
elif sys.argv[2] == "all":
    for number, line in enumerate(open(sys.argv[3])):
        calls(line.strip(), number % 5 + 1)
else:
    function = ctypes.CDLL(sys.argv[1]).cuStreamSynchronize
    for _ in range(int(sys.argv[3])):
        function(None)
"""


def bare():
    return dict(environment(SIMCUDA_COSTS="none"), LD_LIBRARY_PATH="")


def python(library, *words):
    return [sys.executable, "-c", PROGRAM, library, *words]


def seen_of(*options, program, **more):
    seen = Watch(*options, "--callers", program=program, env=bare(), **more).report()
    assert seen["status"] == 0, seen["status"]
    nothing_lost(seen)
    return seen


def by_program(seen):
    """Without what the driver calls of itself."""
    counts = {}
    for caller in seen["callers"]:
        if caller["by"] == "program":
            counts[caller["function"]] = counts.get(caller["function"], 0) + caller["calls"]
    return counts


def million_calls_of_the_simulated_driver_are_counted_one_by_one():
    seen = seen_of("--library", SIMCUDA, "--least", "1000000000", program=python(SIMCUDA, "calls", "1000000"))
    count = seen["functions"][SYNC]
    assert count["calls"] == count["returned"] == 1000000 and by_program(seen) == {SYNC: 1000000}, count


def every_export_of_the_simulated_driver_is_counted():
    """Those of one address share one probe, and count as the first of them."""
    exported = subprocess.run(["nm", "-D", "--defined-only", SIMCUDA], capture_output=True, text=True, check=True).stdout
    names = sorted(words[2] for words in (line.split() for line in exported.splitlines()) if words[1] in "TW" and words[2].startswith("cu"))
    addresses, expected = {}, {}
    for name in names:
        addresses.setdefault(elf_symbols.address(SIMCUDA, name), []).append(name)
    of = {name: aliases for aliases in addresses.values() for name in aliases}
    for number, name in enumerate(names):
        key = tuple(of[name])
        expected[key] = expected.get(key, 0) + number % 5 + 1
    assert len(expected) > 600, len(expected)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(names))
        file.flush()
        seen = seen_of("--every", "--library", SIMCUDA, program=python(SIMCUDA, "all", file.name))
    found = {tuple(of[name]): count for name, count in by_program(seen).items()}
    assert found == expected, set(found.items()) ^ set(expected.items())
    print(f"{len(found)} functions of {len(names)} names")


def late_library_stripped_library_and_one_that_nobody_named():
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "libcuda.so.1")
        subprocess.run(["strip", "--strip-all", "-o", stripped, SIMCUDA], check=True)
        # Known before it is loaded: from its first call.
        assert by_program(seen_of("--library", stripped, program=python(stripped, "calls", "777"))) == {SYNC: 777}
        # Found in the mappings of one that runs.
        command = python(stripped, "wait", "55")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=bare()) as child:
            assert child.stdout.readline() == "ready\n"
            run = Watch("--pid", str(child.pid), "--callers", env=bare()).ready()
            child.stdin.close()
            child.wait()
        assert by_program(run.report()) == {SYNC: 55}


def trees_of_processes_on_the_simulated_driver_are_counted():
    seen = seen_of("--library", SIMCUDA, program=python(SIMCUDA, "tree"))
    assert calls(seen) == {SYNC: 7 * 15} and len(seen["processes"]) == 15 and seen["alive"] == 0, (seen["functions"], len(seen["processes"]))


def simulated_driver_on_an_overlay_is_counted():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(os.path.join(folder, name))
        shutil.copy(SIMCUDA, os.path.join(folder, "lower", "libcuda.so.1"))
        script = (f"mount -t overlay overlay -o lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work {folder}/merged "
                  '&& exec "$@"')
        command = ["unshare", "--mount", "sh", "-c", script, "sh", *python(f"{folder}/merged/libcuda.so.1", "wait", "321")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=bare()) as child:
            if child.stdout.readline() != "ready\n":
                print("not here: mounting an overlay in a namespace of one's own")
                return
            run = Watch("--pid", str(child.pid), "--callers", env=bare()).ready()
            child.stdin.close()
            child.wait()
        assert by_program(run.report()) == {SYNC: 321}


TESTS = [
    million_calls_of_the_simulated_driver_are_counted_one_by_one,
    every_export_of_the_simulated_driver_is_counted,
    late_library_stripped_library_and_one_that_nobody_named,
    trees_of_processes_on_the_simulated_driver_are_counted,
    simulated_driver_on_an_overlay_is_counted,
]
