# SPDX-License-Identifier: MIT
"""Each way to lose something, brought about: its own counter goes up, and what can be looked up later is. Of check_watch.py."""
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time

import elf_symbols
from watching import as_nobody, calls, DRIVER, environment, FOLDER, FORMS, LATE, needs_root, PLAIN, PROGRAM, PTSZ, started, Watch, watch

# Maps code again and again, then a driver; calls it once its input ends.
MAPS = """
import ctypes, mmap, sys
sys.stdin.readline()
kept = []
for i in range({count}):
    kept.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE))
    if {again}:
        kept.pop().close()
driver = ctypes.CDLL("{library}")
print("ready", flush=True)
sys.stdin.read()
for _ in range(9):
    driver.{function}(None)
"""


def bare():
    return dict(environment(), LD_LIBRARY_PATH="")


@contextlib.contextmanager
def copied_driver():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        yield copy


def while_nobody_looks(run, child):
    """The child goes on and says that it is there, while the watch stands still."""
    run.process.send_signal(signal.SIGSTOP)
    say(child)
    run.process.send_signal(signal.SIGCONT)


def say(child):
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "ready\n"


def seen_once_looked_up(run, child):
    time.sleep(0.5)  # 20 times a second
    child.stdin.close()
    return run.report()


def lost_news_of_mappings_is_counted_and_the_library_found_all_the_same():
    """More news than the kernel's rings hold, while nobody looks; the last of it is the driver's."""
    with copied_driver() as copy:
        script = MAPS.format(count=50000, again=True, library=copy, function=PTSZ)
        with started("sh", "-c", 'echo ready; exec "$0" -c "$1"', sys.executable, script, env=bare()) as child:
            run = Watch("--pid", str(child.pid), env=bare()).ready()
            while_nobody_looks(run, child)
            seen = seen_once_looked_up(run, child)
    assert seen["lost_mappings"] > 0, seen["lost_mappings"]
    assert calls(seen) == {PTSZ: 9}, (seen["functions"], seen["libraries"], seen["said"])


def mappings_without_room_are_counted_and_the_library_found_all_the_same():
    """Of one process that maps code at ever new places, while the watch looks."""
    with copied_driver() as copy:
        script = MAPS.format(count=20000, again=False, library=copy, function=PTSZ).replace("kept.append", "i % 100 or time.sleep(0.005)\n    kept.append")
        with started("sh", "-c", 'echo ready; exec "$0" -c "$1"', sys.executable, "import time\n" + script, env=bare()) as child:
            run = Watch("--pid", str(child.pid), env=bare()).ready()
            say(child)
            seen = seen_once_looked_up(run, child)
    assert seen["lost_mappings"] > 0, seen["lost_mappings"]
    assert calls(seen) == {PTSZ: 9}, (seen["functions"], seen["libraries"], seen["said"])


def lost_news_of_processes_is_counted_and_they_are_looked_up():
    """A full ring: of the child, its program and its library nothing is told."""
    with copied_driver() as copy:
        script = f"exec 3<&0; echo ready; read line; '{PROGRAM}' calls 5000; {'(true) & ' * 99} LD_LIBRARY_PATH= '{LATE}' '{copy}' wait 17 <&3 & wait"
        with started("sh", "-c", script) as child:
            run = Watch("--pid", str(child.pid), "--ring", "4096").ready()
            while_nobody_looks(run, child)
            seen = seen_once_looked_up(run, child)
    assert seen["lost_process_records"] > 0 and seen["lost_records"] > 0, (seen["lost_process_records"], seen["lost_records"])
    assert calls(seen) == {PLAIN: 5000, PTSZ: 17}, (seen["functions"], seen["said"])
    programs = [process["program"] for process in seen["processes"] if process["program"] == LATE]
    assert programs == [LATE] and seen["alive"] == 0, seen["processes"]


def children_without_room_are_counted_and_told():
    seen = watch("--process-room", "2", program=["sh", "-c", f"for i in 1 2 3 4; do '{PROGRAM}' calls 3 & done; wait"])
    assert seen["lost_processes"] >= 2, seen["lost_processes"]
    assert [line for line in seen["said"] if "more than 2 processes at a time" in line], seen["said"]
    assert calls(seen).get(PLAIN, 0) == 3 * (4 - seen["lost_processes"]), (seen["functions"], seen["lost_processes"])


def callers_without_room_are_counted():
    seen = watch("--stepped", "--callers", "--caller-room", "3", program=[PROGRAM, "arguments"])
    kept = sum(caller["calls"] for caller in seen["callers"])
    assert len(seen["callers"]) == 3 and seen["lost_callers"] > 0, seen["callers"]
    assert kept + seen["lost_callers"] == sum(calls(seen).values()), (kept, seen["lost_callers"], seen["functions"])


def libraries_that_are_not_watched_are_counted():
    with tempfile.TemporaryDirectory() as folder:
        for i in range(66):
            os.mkdir(os.path.join(folder, str(i)))
            shutil.copy(DRIVER, os.path.join(folder, str(i), "libcuda.so.1"))
        script = "".join(f"'{LATE}' {folder}/{i}/libcuda.so.1 wait 1 <&3 & " for i in range(66))
        with started("sh", "-c", f"exec 3<&0; echo ready; {script} wait", env=bare()) as parent:
            for _ in range(66):
                parent.stdout.readline()
            run = Watch("--pid", str(parent.pid), env=bare()).ready()
            parent.stdin.close()
        seen = run.report()
    assert (seen["unwatched_libraries"], calls(seen)) == (2, {PTSZ: 64}), (seen["unwatched_libraries"], seen["functions"])


def library_of_a_process_that_ended_before_it_could_be_opened_is_counted():
    with copied_driver() as copy:
        with started("sh", "-c", f"echo ready; read line; '{LATE}' '{copy}' 5; rm '{copy}'; echo ready; read line", env=bare()) as child:
            run = Watch("--pid", str(child.pid), env=bare()).ready()
            while_nobody_looks(run, child)
            seen = seen_once_looked_up(run, child)
    assert (seen["unwatched_libraries"], calls(seen)) == (1, {}), (seen["unwatched_libraries"], seen["functions"])


@needs_root
def library_that_may_not_be_opened_is_counted():
    with tempfile.TemporaryDirectory() as folder, copied_driver() as copy:
        nobody = as_nobody(folder, "bpf", "perfmon")
        with started(LATE, copy, "wait", "5") as child:
            run = Watch("--pid", str(child.pid), tool=f"{folder}/watch-tool", wrap=nobody).ready()
            child.stdin.close()
        seen = run.report()
    assert seen["unwatched_libraries"] == 1, (seen["unwatched_libraries"], seen["said"])


def functions_that_cannot_be_probed_are_counted():
    with copied_driver() as copy:
        shutil.copy(os.path.join(FOLDER, "librefused.so"), copy)
        with started(LATE, copy, "wait", "12", env=bare()) as child:
            run = Watch("--pid", str(child.pid), env=bare()).ready()
            child.stdin.close()
        seen = run.report()
    assert (seen["unwatched_functions"], calls(seen)) == (1, {PTSZ: 12}), (seen["unwatched_functions"], seen["functions"])


def library_of_breakpoints_does_not_hold_the_watch_up():
    """Every function but one is refused: each is tried, but not one after the other."""
    with copied_driver() as copy:
        shutil.copy(FORMS, copy)
        seen = watch("--library", FORMS, program=["true"])
        with open(copy, "r+b") as file:
            for name in seen["sites"]:
                if name != PTSZ:
                    file.seek(elf_symbols.offset(copy, name))
                    file.write(b"\xcc")
        with started(LATE, copy, "wait", "12", env=bare()) as child:
            begin = time.monotonic()
            run = Watch("--pid", str(child.pid), env=bare()).ready()
            took = time.monotonic() - begin
            child.stdin.close()
        seen = run.report()
    print(f"{seen['unwatched_functions']} functions refused: {took:.1f} s")
    assert calls(seen) == {PTSZ: 12} and seen["unwatched_functions"] > 100, (seen["functions"], seen["unwatched_functions"])
    assert took < 4, took


def shims_without_probes_are_counted_where_claims_are_wanted():
    wrapper = os.path.join(FOLDER, "libwatch-wrapper.so")
    for options, count in ((("--claims",), 1), ((), 0)):
        seen = watch("--shim", "libwatch-wrapper.so", "--shim-path", wrapper, *options, program=[PROGRAM, "calls", "1"])
        assert seen["unheard_shims"] == count, (options, seen["unheard_shims"], seen["said"])


def nothing_is_counted_as_lost_where_nothing_is():
    """Runs that the kernel leaves out and switches that it does not tell cannot be brought about; they are numbers at least."""
    seen = watch("--callers", "--system-calls", program=[PROGRAM, "forks"])
    # News of mappings are those of the whole machine, where others may be busy.
    for key in ("lost_records", "lost_calls", "lost_callers", "lost_processes", "lost_process_records", "unwatched_libraries", "unwatched_functions",
                "unheard_shims"):
        assert seen[key] == 0, (key, seen[key])
    assert seen["missed_runs"] >= 0 and seen["unseen_switches"] >= 0, seen


TESTS = [
    lost_news_of_mappings_is_counted_and_the_library_found_all_the_same,
    mappings_without_room_are_counted_and_the_library_found_all_the_same,
    lost_news_of_processes_is_counted_and_they_are_looked_up,
    children_without_room_are_counted_and_told,
    callers_without_room_are_counted,
    libraries_that_are_not_watched_are_counted,
    library_of_a_process_that_ended_before_it_could_be_opened_is_counted,
    library_that_may_not_be_opened_is_counted,
    functions_that_cannot_be_probed_are_counted,
    library_of_breakpoints_does_not_hold_the_watch_up,
    shims_without_probes_are_counted_where_claims_are_wanted,
    nothing_is_counted_as_lost_where_nothing_is,
]
