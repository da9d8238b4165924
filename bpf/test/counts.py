# SPDX-License-Identifier: MIT
"""Exact counts: every form, whoever loads the library and whenever, whole trees of processes. Of check_watch.py."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from waits import check_arguments
from watching import calls, DRIVER, environment, FOLDER, FORMS, LATE, nothing_lost, PLAIN, PROGRAM, PTSZ, started, Watch, watch


def million_calls_are_counted_one_by_one():
    """By each of the two forms of common probes."""
    for form in ((), ("--pairs",)):
        seen = watch("--least", "1000000000", *form, program=[PROGRAM, "calls", "1000000"])
        count = seen["functions"][PLAIN]
        assert count["calls"] == count["returned"] == 1000000, count
        assert seen["records"] == 0 and seen["status"] == 0, seen
        nothing_lost(seen)


def every_record_arrives_when_the_ring_is_looked_at():
    seen = watch("--callers", program=[PROGRAM, "calls", "100000"])
    assert calls(seen) == {PLAIN: 100000}
    assert seen["sums"][PLAIN]["records"] == 100000, seen["sums"]
    assert sum(caller["calls"] for caller in seen["callers"]) == 100000, seen["callers"]
    nothing_lost(seen)


def all_forms_of_all_functions_are_counted():
    names = os.path.join(FOLDER, "forms.txt")
    with open(names, encoding="utf-8") as file:
        expected = {name.strip(): i % 5 + 1 for i, name in enumerate(file)}
    assert len(expected) > 600 and {PLAIN, PTSZ, "cuMemFree_v2", "cuMemcpyHtoD_v2_ptds"} <= set(expected)
    seen = watch("--every", "--library", FORMS, program=[LATE, FORMS, "all", names])
    assert seen["status"] == 0 and calls(seen) == expected, set(expected.items()) ^ set(calls(seen).items())
    nothing_lost(seen)


def default_set_has_what_waits_and_nothing_that_is_called_all_the_time():
    seen = watch("--library", FORMS, program=["true"])
    sites = set(seen["sites"])
    assert {"cuCtxSynchronize", PLAIN, PTSZ, "cuMemFree_v2", "cuMemcpyDtoH_v2", "cuMemHostAlloc", "cuMemHostUnregister", "cuEventSynchronize",
            "cuModuleLoadData", "cuModuleUnload", "cuMemsetD8_v2"} <= sites, sites
    assert not [name for name in sites if re.match("cuLaunch|cuGraphLaunch|cuEventRecord|cuEventQuery|cuStreamQuery|cuCtxGetCurrent", name)]


def library_loaded_late_is_counted_from_its_first_call():
    seen = watch("--stepped", program=[LATE, DRIVER, "777"])
    assert calls(seen) == {PTSZ: 777}, seen


def library_that_only_the_program_knows_is_found_when_mapped():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        child = started(LATE, copy, "wait", "55", env=dict(environment(), LD_LIBRARY_PATH=""))
        with child:
            run = Watch("--pid", str(child.pid), env=dict(environment(), LD_LIBRARY_PATH="")).ready()
            child.stdin.close()
        seen = run.report()
    assert calls(seen) == {PTSZ: 55}, seen
    assert any(library["path"].endswith(copy) for library in seen["libraries"]), seen["libraries"]


def all_watches_processes_that_nobody_named():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        run = Watch("--all", "--callers", "--seconds", "30", env=dict(environment(), LD_LIBRARY_PATH="")).ready()
        with started(LATE, copy, "wait", "33") as child:
            time.sleep(0.2)  # found by the next look after the mapping
            child.stdin.close()
        time.sleep(0.1)
        seen = run.end()
    # Others may use a driver on this machine meanwhile.
    assert [(caller["function"], caller["calls"], caller["by"]) for caller in seen["callers"] if caller["process"] == child.pid] == [
        (PTSZ, 33, "program")], (seen["callers"], seen["said"])
    mine = [process for process in seen["processes"] if process["id"] == child.pid]
    assert len(mine) == 1 and mine[0]["ended"] and mine[0]["program"] == LATE, seen["processes"]


def all_watches_processes_that_are_there_already():
    """They have made no call yet; their library is known to nobody else, by its name or because it was given."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libcuda.so.1", "driver.so"):
            copy = os.path.join(folder, name)
            shutil.copy(DRIVER, copy)
            given = ["--library", copy] if name == "driver.so" else []
            env = dict(environment(), LD_LIBRARY_PATH="")
            with started(LATE, copy, "wait", "34", env=env) as child:
                run = Watch("--all", *given, "--callers", "--seconds", "30", env=env).ready()
                child.stdin.close()
                child.wait()
            time.sleep(0.1)
            seen = run.end()
            mine = [(caller["function"], caller["calls"], caller["by"]) for caller in seen["callers"] if caller["process"] == child.pid]
            assert mine == [(PTSZ, 34, "program")], (name, seen["callers"], seen["said"])
            assert [process["ended"] for process in seen["processes"] if process["id"] == child.pid] == [True], seen["processes"]


def stripped_library_is_counted():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        subprocess.run(["strip", "--strip-all", "-o", copy, DRIVER], check=True)
        seen = watch("--stepped", program=[PROGRAM, "calls", "100"], env=dict(environment(), LD_LIBRARY_PATH=folder))
    assert calls(seen) == {PLAIN: 100}, seen


def landing_pads_are_skipped_and_everything_stays_right():
    seen = watch("--records", "--library", os.path.join(FOLDER, "libcudapads.so"), program=[PROGRAM, "calls", "1000"],
                 env=environment(LD_PRELOAD_FOR_TEST="1"), wrap=())
    assert calls(seen) == {}, seen  # nobody uses it yet
    seen = watch("--records", "--frames", "4", "--library", os.path.join(FOLDER, "libcudapads.so"),
                 program=["env", "LD_PRELOAD=" + os.path.join(FOLDER, "libcudapads.so"), PROGRAM, "arguments"])
    assert seen["sites"][PLAIN] == 2, seen["sites"]
    check_arguments(seen, stepped=False)


def every_kind_of_first_instruction_is_counted_and_named():
    """Prints what a probe costs there."""
    seen = watch("--library", os.path.join(FOLDER, "libsites.so"), program=[os.path.join(FOLDER, "watch-sites"), "20000"])
    plain = subprocess.run([os.path.join(FOLDER, "watch-sites"), "20000"], capture_output=True, text=True, env=environment(), check=True)
    expected = {"cuCtxSynchronize": 2, "cuMemFree_v2": 2, "cuMemFreeHost": 2, "cuEventSynchronize": 1, "cuStreamSynchronize": 1,
                "cuMemAlloc_v2": 3, "cuMemHostAlloc": 4, "cuModuleUnload": 4, "cuArrayDestroy": 4}
    assert seen["sites"] == expected, seen["sites"]
    assert calls(seen) == {name: 20000 for name in expected} and seen["libraries"][0]["stepped"] == 3, seen["functions"]
    for probed, bare in zip(seen["out"].splitlines(), plain.stdout.splitlines()):
        print(f"{probed} ({bare.split()[0]} without)")


def fork_trees_are_followed():
    for options in (("--least", "0"), ("--pairs",), ("--single",)):
        seen = watch(*options, program=[PROGRAM, "forks"])
        assert calls(seen) == {PLAIN: 63}, seen
        assert seen["sums"][PLAIN] == {**seen["sums"][PLAIN], "records": 63, "program": 63}
        assert len(seen["processes"]) == 9 and seen["alive"] == 0
        assert all(process["ended"] and process["program"] == PROGRAM for process in seen["processes"]), seen["processes"]


def only_the_named_tree_is_counted():
    with started(PROGRAM, "waiting", "40") as other, started(PROGRAM, "waiting", "60") as named:
        run = Watch("--pid", str(named.pid)).ready()
        other.stdin.close()
        named.stdin.close()
    assert calls(run.report()) == {PLAIN: 60}


def children_that_are_there_already_are_watched():
    with started("sh", "-c", f"sh -c '{PROGRAM} waiting 17; exit 0'; exit 0") as shell:
        run = Watch("--pid", str(shell.pid), "--callers").ready()
        shell.stdin.close()
    seen = run.report()
    assert calls(seen) == {PLAIN: 17} and [process["ended"] for process in seen["processes"]] == [True] * 3, seen["processes"]


def program_that_starts_another_is_followed():
    seen = watch("--stepped", program=[PROGRAM, "executes", LATE, DRIVER, "9"])
    assert calls(seen) == {PLAIN: 5, PTSZ: 9}, seen
    assert len(seen["processes"]) == 1 and seen["processes"][0]["program"] == LATE, seen["processes"]


def program_that_a_thread_starts_is_followed():
    """Its other threads end inside their calls."""
    seen = watch("--records", program=[PROGRAM, "executes-by-thread", PROGRAM, "calls", "30"])
    count = seen["functions"][PLAIN]
    assert (count["calls"], count["returned"], seen["records"], seen["status"]) == (38, 36, 38, 0), seen
    assert [call["returned"] for call in seen["calls"]].count(False) == 2 and seen["alive"] == 0 and len(seen["processes"]) == 1, seen["processes"]


def process_whose_first_thread_has_ended_is_watched():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        with started(PROGRAM, "leaderless", "19", env=dict(environment(), LD_LIBRARY_PATH=folder)) as child:
            run = Watch("--pid", str(child.pid), env=dict(environment(), LD_LIBRARY_PATH="")).ready()
            child.stdin.close()
        seen = run.report()
    assert calls(seen) == {PLAIN: 19} and seen["sums"][PLAIN]["program"] == 19, (seen["sums"], seen["said"])
    assert [(process["program"], process["ended"]) for process in seen["processes"]] == [(PROGRAM, True)], seen["processes"]


TESTS = [
    million_calls_are_counted_one_by_one,
    every_record_arrives_when_the_ring_is_looked_at,
    all_forms_of_all_functions_are_counted,
    default_set_has_what_waits_and_nothing_that_is_called_all_the_time,
    library_loaded_late_is_counted_from_its_first_call,
    library_that_only_the_program_knows_is_found_when_mapped,
    all_watches_processes_that_nobody_named,
    all_watches_processes_that_are_there_already,
    stripped_library_is_counted,
    every_kind_of_first_instruction_is_counted_and_named,
    landing_pads_are_skipped_and_everything_stays_right,
    fork_trees_are_followed,
    only_the_named_tree_is_counted,
    children_that_are_there_already_are_watched,
    program_that_starts_another_is_followed,
    program_that_a_thread_starts_is_followed,
    process_whose_first_thread_has_ended_is_watched,
]
