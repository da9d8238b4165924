#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The watch on a fake driver: exact counts, how threads waited, whose call it was, what survives what.

    check_watch.py GROUP FOLDER         FOLDER: where the tool, the programs and libcuda.so.1 were built

Skipped (77) where BPF is refused. Every check is a function named after its result; `-v NAME` runs one of them.
"""
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

SKIP = 77
FOLDER = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
TOOL = os.path.join(FOLDER, "watch-tool")
PROGRAM = os.path.join(FOLDER, "watch-program")
LATE = os.path.join(FOLDER, "watch-late")
DRIVER = os.path.join(FOLDER, "libcuda.so.1")
FORMS = os.path.join(FOLDER, "libforms.so")
PTSZ = "cuStreamSynchronize_ptsz"
PLAIN = "cuStreamSynchronize"


def environment(**more):
    result = dict(os.environ, LD_LIBRARY_PATH=FOLDER, **more)
    result.pop("LD_PRELOAD", None)
    return result


class Watch:
    """One run of the tool; `with` gives the report once it has ended."""

    def __init__(self, *options, program=(), tool=TOOL, env=None, wrap=(), before=None):
        self.folder = tempfile.mkdtemp(prefix="watch.")
        os.chmod(self.folder, 0o777)
        self.output = os.path.join(self.folder, "seen.json")
        command = [*wrap, tool, "--output", self.output, *options]
        command += ["--", *program] if program else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env or environment(),
                                        preexec_fn=before)

    def ready(self):
        """Waits until the probes are there."""
        lines = []
        for line in self.process.stderr:
            if line == "watching\n":
                return self
            lines.append(line)
        raise AssertionError(lines)

    def end(self, number=signal.SIGTERM):
        if number:
            self.process.send_signal(number)
        return self.report()

    def report(self):
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, (self.process.returncode, err)
        with open(self.output, encoding="utf-8") as file:
            seen = json.load(file)
        shutil.rmtree(self.folder)
        seen["out"] = out
        return seen


def watch(*options, program=(), **more):
    return Watch(*options, program=program, **more).report()


def calls(seen):
    return {name: count["calls"] for name, count in seen["functions"].items()}


def nothing_lost(seen):
    for key in ("lost_records", "lost_calls", "lost_callers", "lost_processes"):
        assert seen[key] == 0, (key, seen[key])


class Program(subprocess.Popen):
    """Ended where a test fails inside `with`, which would wait for it."""

    def __exit__(self, kind, value, trace):
        if kind:
            self.kill()
        super().__exit__(kind, value, trace)


def started(*command, env=None, **more):
    """A program that says "ready" and goes on when its input ends."""
    process = Program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env or environment(), **more)
    assert process.stdout.readline() == "ready\n"
    return process


def offset_of(path, name):
    """Of a function in the file, by its symbol; hidden ones too."""
    import elf_symbols
    return elf_symbols.offset(path, name)


# Exact counts.


def million_calls_are_counted_one_by_one():
    seen = watch("--least", "1000000000", program=[PROGRAM, "calls", "1000000"])
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
    for options in (("--least", "0"), ("--single",)):
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


def layered_file_system_and_another_process_namespace_are_looked_through():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(os.path.join(folder, name))
        shutil.copy(DRIVER, os.path.join(folder, "lower", "libcuda.so.1"))
        script = (f"mount -t overlay overlay -o lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work {folder}/merged "
                  f"&& LD_LIBRARY_PATH= exec {LATE} {folder}/merged/libcuda.so.1 wait 321")
        try:
            child = started("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script)
        except AssertionError:
            print("not here: mounting an overlay in a namespace of one's own")
            return
        with child:
            with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as file:
                inner = int(file.read().split()[0])
            run = Watch("--pid", str(inner), "--records", env=dict(environment(), LD_LIBRARY_PATH="")).ready()
            child.stdin.close()
        seen = run.report()
    assert calls(seen) == {PTSZ: 321}, (seen["functions"], seen["said"])
    # Ids as the watcher knows them, not as the container does.
    assert {call["process"] for call in seen["calls"]} == {inner} == {call["thread"] for call in seen["calls"]}
    assert seen["sums"][PTSZ]["program"] == 321, seen["sums"]


def watcher_in_a_process_namespace_of_its_own_uses_its_own_ids():
    try:
        run = Watch("--records", program=[PROGRAM, "forks"], wrap=["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
        seen = run.report()
    except AssertionError as refused:
        assert "unshare" in str(refused), refused
        print("not here: a process namespace of one's own")
        return
    assert calls(seen) == {PLAIN: 63} and len(seen["processes"]) == 9, (seen["functions"], seen["processes"])
    assert all(1 < process["id"] < 64 for process in seen["processes"]), seen["processes"]
    assert {call["process"] for call in seen["calls"]} == {process["id"] for process in seen["processes"]}
    assert seen["sums"][PLAIN]["program"] == 63, seen["sums"]


# How threads wait.


def classes_of(seen):
    ways = {0x1000: [], 0x2000: [], 0x3000: [], 0x4000: [], 0x5000: [], 0x6000: []}
    for call in seen["calls"]:
        ways[call["stream"]].append(call)
    return list(ways.values())


def five_ways_to_wait_are_told_apart():
    for options in ((), ("--system-calls",)):
        seen = watch("--records", *options, program=[PROGRAM, "waits"])
        spin, yielding, poll, futex, ioctl, sleep = classes_of(seen)
        assert [len(way) for way in classes_of(seen)] == [20] * 6
        for way, how, number in ((poll, "poll", 7), (futex, "futex", 202), (sleep, "other", 230)):
            for call in way:
                assert call["off"][how] > 1500000 and call["switches"] >= 1, call
                if not options:
                    assert call["top"] == number and call["tops"] >= 1, call
                assert all(call["off"][other] == 0 for other in ("poll", "futex", "ioctl", "yield", "other") if other != how), call
        for call in spin + ioctl:
            assert call["off_cpu"] == call["off"]["preempted"] and call["switches"] == 0, call
        for call in yielding:
            assert call["off"]["poll"] == call["off"]["futex"] == 0 and call["switches"] == 0, call
        if options:
            assert all(call["top"] == 16 and call["tops"] > 50 for call in ioctl if not call["preemptions"]), ioctl
            assert all(call["tops"] == 0 for call in spin), spin
            assert all(call["top"] == 24 for call in yielding), yielding
        assert all(call["ns"] >= call["off_cpu"] and call["ns"] >= 2000000 for way in classes_of(seen) for call in way)


def yields_show_where_somebody_else_wants_the_processor():
    seen = watch("--records", program=["taskset", "-c", "0", "sh", "-c", f"{PROGRAM} waits & {PROGRAM} waits; wait"])
    yielding = [call for call in seen["calls"] if call["stream"] == 0x2000]
    assert sum(call["yields"] for call in yielding) > 0 and sum(call["off"]["yield"] for call in yielding) > 0


def lost_processor_is_told_as_preemption():
    seen = watch("--records", program=[PROGRAM, "preempted"])
    assert len(seen["calls"]) == 100
    lost = sum(call["off"]["preempted"] for call in seen["calls"])
    assert lost > 20000000 and sum(call["preemptions"] for call in seen["calls"]) >= 10, lost
    assert all(call["off_cpu"] == call["off"]["preempted"] for call in seen["calls"])


def check_arguments(seen, stepped=True):
    found = [(call["function"], call["stream_class"], call["stream"], call["direction"], call["bytes"], call["source"], call["destination"])
             for call in seen["calls"] if not call["nested"] and call["function"] != "cuMemcpyHtoD"]
    expected = [
        (PLAIN, 1, 0, 0, 0, 0, 0),
        (PLAIN, 1, 1, 0, 0, 0, 0),
        (PLAIN, 2, 2, 0, 0, 0, 0),
        (PLAIN, 3, 0x8000, 0, 0, 0, 0),
        (PTSZ, 2, 0, 0, 0, 0, 0),
        ("cuMemcpyHtoD_v2", 1, 0, 1, 4096, 0x8000, 0x7000),
        ("cuMemcpyDtoHAsync_v2", 3, 0x8000, 2, 8192, 0xa000, 0x9000),
        ("cuMemsetD2D32_v2", 1, 0, 0, 1200, 0, 0xc000),
        ("cuMemcpyBatchAsync_ptsz", 2, 0, 5, 0, 0, 0),
        ("cuMemcpyBatchAsync_ptsz", 3, 0x123450, 5, 0, 0, 0),
        ("cuMemcpy2D_v2", 1, 0, 1, 1000, 0x100000 + 2 * 256 + 8, 0x200000 + 128),
        ("cuMemcpy3D_v2_ptds", 2, 0, 2, 100, 0x300000 + 8 * 64 + 4, 0x400000),
        ("cuMemcpy2D_v2", 1, 0, 5, 0, 0, 0),
    ]
    if not stepped:
        sites = seen["sites"]
        expected = [row for row in expected if row[0] in sites]
    assert found == expected, [row for row in zip(found, expected) if row[0] != row[1]]
    narrow = [call for call in seen["calls"] if call["function"] == "cuMemcpyHtoD"]
    assert [(call["destination"], call["bytes"]) for call in narrow] == [(0xb000, 100)], narrow
    nested = [call for call in seen["calls"] if call["nested"]]
    assert [(call["function"], call["by"]) for call in nested] == [(PLAIN, "library")], nested
    outer = next(call for call in seen["calls"] if call["function"] == "cuMemcpyHtoD_v2")
    assert outer["off"]["other"] >= nested[0]["off"]["other"] > 1500000 and outer["ns"] > nested[0]["ns"]


def arguments_are_read_by_the_catalogue():
    check_arguments(watch("--records", "--stepped", program=[PROGRAM, "arguments"]))


def stacks_begin_with_the_return_address():
    seen = watch("--records", "--frames", "8", program=[PROGRAM, "stack"])
    inner, outer = (int(text, 16) for text in seen["out"].split())
    (call,) = seen["calls"]
    assert 0 < call["frames"][0] - inner < 64 and 0 < call["frames"][1] - outer < 64, (call, inner, outer)
    assert len(call["frames"]) >= 4 and call["path"] == PROGRAM, call
    seen = watch("--records", program=[PROGRAM, "stack"])
    assert len(seen["calls"][0]["frames"]) == 1


# Whose call.


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


# What survives what.


def full_ring_is_counted_and_counts_stay_exact():
    seen = watch("--ring", "4096", "--stall", "300", program=[PROGRAM, "calls", "5000"])
    count = seen["functions"][PLAIN]
    assert count["calls"] == count["returned"] == 5000, seen
    assert seen["lost_records"] > 0 and seen["records"] + seen["lost_records"] == 5000, seen
    assert seen["alive"] == 0, seen  # the end of the process is known though its record was lost


def short_calls_are_counted_without_records():
    seen = watch("--least", "1900000", "--records", program=[PROGRAM, "arguments"])
    assert seen["functions"][PLAIN]["calls"] == 5 and seen["sums"][PLAIN]["records"] >= 1, seen
    assert all(call["ns"] >= 1900000 for call in seen["calls"])


def thread_that_dies_inside_a_call_is_told():
    for way in (["dies"], ["dies", "kill"]):
        seen = watch("--records", program=[PROGRAM, *way])
        count = seen["functions"][PLAIN]
        assert (count["calls"], count["returned"]) == (3, 2), count
        (call,) = [call for call in seen["calls"] if not call["returned"]]
        assert call["ns"] > 30000000 and call["stream"] == 0x7000 and call["off_cpu"] > 0, call


def call_left_by_longjmp_is_told():
    seen = watch("--records", "--stepped", program=[PROGRAM, "jumps"])
    assert seen["functions"]["cuCtxSynchronize"] == {**seen["functions"]["cuCtxSynchronize"], "calls": 11, "returned": 1, "nested": 0}, seen
    assert seen["left_calls"] == 10 and not any(call["nested"] for call in seen["calls"]), seen


def calls_deeper_than_there_is_room_are_counted():
    seen = watch("--stepped", program=[PROGRAM, "deep"])
    count = seen["functions"]["cuMemFree_v2"]
    assert count["calls"] == 23 and seen["deep_calls"] == 14 and count["returned"] == 9, seen
    assert seen["late_returns"] == 0 == seen["left_calls"], seen


def ten_thousand_threads_lose_nothing():
    seen = watch(program=[PROGRAM, "threads", "10000"])
    made = int(seen["out"])
    print(f"threads: {made}")
    assert made >= 1000 and calls(seen) == {PLAIN: 3 * made} and seen["sums"][PLAIN]["records"] == 3 * made, seen
    nothing_lost(seen)


def dead_process_is_refused_and_one_that_dies_ends_the_watch():
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = subprocess.run([TOOL, "--pid", str(gone.pid)], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1 and f"process {gone.pid}: No such process" in done.stderr, done
    with started(PROGRAM, "endless") as child:
        run = Watch("--pid", str(child.pid)).ready()
        child.kill()
        begin = time.monotonic()
        seen = run.report()
        assert time.monotonic() - begin < 10 and seen["alive"] == 0, seen


def probes_in(pid):
    """Breakpoints at the driver's functions in a process, by its memory."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith("/libcuda.so.1"))
    count = 0
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for name in (PLAIN, PTSZ, "cuMemcpyHtoD_v2", "cuCtxSynchronize"):
            memory.seek(base + address_of(name))
            count += memory.read(1) == b"\xcc"
    return count


def address_of(name):
    import elf_symbols
    return elf_symbols.address(DRIVER, name)


def killed_watcher_leaves_nothing_behind():
    with started(PROGRAM, "endless") as child:
        run = Watch("--pid", str(child.pid)).ready()
        assert probes_in(child.pid) >= 2
        run.process.kill()
        begin = time.monotonic()
        run.process.wait(timeout=30)
        while probes_in(child.pid):
            assert time.monotonic() - begin < 30
            time.sleep(0.01)
        assert child.poll() is None
        child.kill()
    shutil.rmtree(run.folder)


def detaching_takes_less_than_a_tenth_of_a_second():
    took = []
    for _ in range(3):
        with started(PROGRAM, "endless") as child:
            run = Watch("--pid", str(child.pid), "--detach", "100").ready()
            seen = run.report()
            # Others may watch everything on this machine for a moment.
            assert any(probes_in(child.pid) == 0 or time.sleep(0.1) for _ in range(50)), probes_in(child.pid)
            assert child.poll() is None
            assert seen["functions"][PLAIN]["calls"] > 0, seen
            took.append(seen["detach_us"] / 1000)
            child.kill()
    print(f"detach: {min(took):.0f} ms")
    assert min(took) < 100, took


def single_probes_say_first_how_long_they_take():
    seen = watch("--single", "--function", PLAIN, program=[PROGRAM, "calls", "10"])
    assert calls(seen) == {PLAIN: 10} and "taking 2 single probes away: about 0.2 s" in seen["said"], seen["said"]


# Rights, and what other processes may do to us.


def as_nobody(folder, *capabilities):
    """What runs a command as another user with these capabilities only."""
    names = ",".join("+" + name for name in capabilities)
    keep = ["--inh-caps", "-all," + names, "--ambient-caps", "-all," + names] if names else ["--inh-caps", "-all"]
    for name in ("watch-tool", "watch-program", "watch-late", "libcuda.so.1"):
        shutil.copy(os.path.join(FOLDER, name), folder)
    os.chmod(folder, 0o755)
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *keep, "env", f"LD_LIBRARY_PATH={folder}"]


def two_capabilities_are_enough():
    if os.geteuid():
        print("not here: not root, so no rights to take away")
        return
    with tempfile.TemporaryDirectory() as folder:
        nobody = as_nobody(folder, "bpf", "perfmon")
        seen = watch("--callers", program=[f"{folder}/watch-program", "forks"], tool=f"{folder}/watch-tool", wrap=nobody)
        assert calls(seen) == {PLAIN: 63} and seen["sums"][PLAIN]["program"] == 63, (seen["functions"], seen["said"])
        done = subprocess.run([*nobody, f"{folder}/watch-tool", "--single", "--missing"], capture_output=True, text=True, check=True)
        assert done.stdout == "CAP_SYS_ADMIN for single probes, where the kernel has no common ones\n", done


def refuse_messages():
    """In a child: perf_event_open answers EPERM from now on."""
    call = ctypes.CDLL(None, use_errno=True)
    steps = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 298, 0x06, 0, 0, 0x00050001, 0x06, 0, 0, 0x7fff0000)
    memory = ctypes.create_string_buffer(steps)
    program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(memory))
    if call.prctl(38, 1, 0, 0, 0) or call.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0):
        os._exit(99)


def without_messages_mappings_are_read():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        with started(LATE, copy, "wait", "31", env=dict(environment(), LD_LIBRARY_PATH="")) as child:
            run = Watch("--pid", str(child.pid), env=dict(environment(), LD_LIBRARY_PATH=""), before=refuse_messages).ready()
            child.stdin.close()
        seen = run.report()
    assert any("new mappings are not told here" in line for line in seen["said"]), seen["said"]
    assert calls(seen) == {PTSZ: 31} and seen["sums"][PTSZ]["program"] == 31, seen
    seen = watch("--records", program=[PROGRAM, "forks"], before=refuse_messages)
    assert calls(seen) == {PLAIN: 63} and seen["sums"][PLAIN]["records"] == 63, seen["sums"]
    with started(PROGRAM, "waiting", "8") as child:
        run = Watch("--pid", str(child.pid), before=refuse_messages).ready()
        child.stdin.close()
    assert run.report()["sums"][PLAIN]["program"] == 8


def missing_capability_is_named():
    if os.geteuid():
        print("not here: not root, so no rights to take away")
        return
    with tempfile.TemporaryDirectory() as folder:
        for capabilities, missing, what in (((), "CAP_BPF", "to load BPF programs"),
                                            (("perfmon",), "CAP_BPF", "to load BPF programs"),
                                            (("bpf",), "CAP_PERFMON", "to probe functions and follow the scheduler")):
            nobody = as_nobody(folder, *capabilities)
            done = subprocess.run([*nobody, f"{folder}/watch-tool", f"{folder}/watch-program", "calls", "1"], capture_output=True,
                                  text=True, check=False)
            assert done.returncode == SKIP and f"{missing} is missing, {what} [{missing}]" in done.stderr, done


def process_of_another_user_is_watched_as_far_as_that_goes():
    if os.geteuid():
        print("not here: not root, so no rights to take away")
        return
    with tempfile.TemporaryDirectory() as folder:
        nobody = as_nobody(folder, "bpf", "perfmon")
        with started(f"{folder}/watch-program", "waiting", "12", env=dict(environment(), LD_LIBRARY_PATH=folder)) as child:
            run = Watch("--pid", str(child.pid), tool=f"{folder}/watch-tool", wrap=nobody).ready()
            child.stdin.close()
        seen = run.report()
    # The library is known because the watcher would load the same file.
    assert calls(seen) == {PLAIN: 12}, (seen["functions"], seen["said"])
    # Newer kernels let CAP_PERFMON read mappings.
    refused = any("CAP_SYS_PTRACE is missing" in line for line in seen["said"])
    assert seen["sums"][PLAIN]["unknown" if refused else "program"] == 12, (seen["sums"], seen["said"])


def names_of_others_are_text_only():
    """Blanks, newlines and escapes in a path; a file that is gone; another file at its name."""
    with tempfile.TemporaryDirectory() as folder:
        hostile = os.path.join(folder, "a b\n7f00-7fff r-xp 00000000 08:01 1 \x1b[31m%s%n")
        os.mkdir(hostile)
        copy = os.path.join(hostile, "libcuda.so.1")
        env = dict(environment(), LD_LIBRARY_PATH="")
        for change in (None, "delete", "replace"):
            shutil.copy(DRIVER, copy)
            with started(LATE, copy, "wait", "21", env=env) as child:
                if change:
                    os.unlink(copy)
                if change == "replace":
                    shutil.copy(FORMS, copy)
                run = Watch("--pid", str(child.pid), env=env).ready()
                child.stdin.close()
            seen = run.report()
            assert calls(seen) == {PTSZ: 21}, (change, seen["functions"], seen["said"])
            assert not re.search("[\x00-\x1f]", "".join(seen["said"]) + seen["libraries"][0]["path"]), seen["said"]
            os.unlink(copy) if os.path.exists(copy) else None


def file_at_the_name_of_a_mapped_one_is_not_taken_for_it():
    """Without the right to open mappings, only the name is left: then another file there is refused."""
    if os.geteuid():
        print("not here: not root, so no rights to take away")
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as place:
        nobody = as_nobody(folder, "bpf", "perfmon")
        os.chmod(place, 0o777)
        copy = os.path.join(place, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        command = [*nobody[:-1], "LD_LIBRARY_PATH=", f"{folder}/watch-late", copy, "wait", "5"]
        # In a namespace of its own, so that another file can be put over the name while the mapping keeps it.
        with started("unshare", "--mount", *command) as child:
            covered = subprocess.run(["nsenter", "--mount", "--target", str(child.pid), "mount", "--bind", FORMS, copy], check=False)
            if covered.returncode:
                os.unlink(copy)
                shutil.copy(FORMS, copy)
            run = Watch("--pid", str(child.pid), tool=f"{folder}/watch-tool", wrap=[*nobody[:-1], "LD_LIBRARY_PATH="]).ready()
            child.stdin.close()
        seen = run.report()
    assert calls(seen) == {} and not seen["libraries"], seen["libraries"]
    told = "is another" if not covered.returncode else "cannot be opened"
    assert any(told in line for line in seen["said"]), seen["said"]


def pipes_and_folders_are_no_libraries():
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "libcuda.so.1")
        os.mkfifo(pipe)
        for path in (pipe, folder, "/dev/zero", __file__, "/nonexistent/libcuda.so.1"):
            done = subprocess.run([TOOL, "--library", path, "true"], capture_output=True, text=True, env=environment(), timeout=20, check=False)
            assert done.returncode == 1 and done.stderr, (path, done)


GROUPS = {
    "counts": [million_calls_are_counted_one_by_one, every_record_arrives_when_the_ring_is_looked_at, all_forms_of_all_functions_are_counted,
               default_set_has_what_waits_and_nothing_that_is_called_all_the_time, library_loaded_late_is_counted_from_its_first_call,
               library_that_only_the_program_knows_is_found_when_mapped, all_watches_processes_that_nobody_named,
               stripped_library_is_counted, every_kind_of_first_instruction_is_counted_and_named, landing_pads_are_skipped_and_everything_stays_right, fork_trees_are_followed,
               only_the_named_tree_is_counted, children_that_are_there_already_are_watched, program_that_starts_another_is_followed,
               layered_file_system_and_another_process_namespace_are_looked_through,
               watcher_in_a_process_namespace_of_its_own_uses_its_own_ids],
    "waits": [five_ways_to_wait_are_told_apart, yields_show_where_somebody_else_wants_the_processor, lost_processor_is_told_as_preemption,
              arguments_are_read_by_the_catalogue, stacks_begin_with_the_return_address],
    "escapes": [five_ways_past_the_shim_are_each_told, function_without_a_name_is_watched_where_its_offset_is_told],
    "survives": [full_ring_is_counted_and_counts_stay_exact, short_calls_are_counted_without_records, thread_that_dies_inside_a_call_is_told,
                 call_left_by_longjmp_is_told, calls_deeper_than_there_is_room_are_counted, ten_thousand_threads_lose_nothing,
                 dead_process_is_refused_and_one_that_dies_ends_the_watch, killed_watcher_leaves_nothing_behind,
                 detaching_takes_less_than_a_tenth_of_a_second, single_probes_say_first_how_long_they_take],
    "rights": [two_capabilities_are_enough, without_messages_mappings_are_read, missing_capability_is_named,
               process_of_another_user_is_watched_as_far_as_that_goes, names_of_others_are_text_only, file_at_the_name_of_a_mapped_one_is_not_taken_for_it, pipes_and_folders_are_no_libraries],
}


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    tried = subprocess.run([TOOL, "true"], capture_output=True, text=True, env=environment(), check=False)
    if tried.returncode == SKIP:
        print(tried.stderr.strip())
        return SKIP
    chosen = [test for test in GROUPS[sys.argv[1]] if len(sys.argv) < 4 or test.__name__ in sys.argv[3:]]
    for test in chosen:
        begin = time.monotonic()
        test()
        print(f"{time.monotonic() - begin:6.2f} s {test.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
