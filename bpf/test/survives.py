# SPDX-License-Identifier: MIT
"""What goes wrong is counted and hangs nobody: full rings, deaths, jumps, many threads, a killed watcher. Of check_watch.py."""
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import elf_symbols
from links import has_sessions, links_of
from watching import calls, DRIVER, environment, FORMS, LATE, nothing_lost, PLAIN, PROGRAM, PTSZ, started, TOOL, Watch, watch


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


def ended_process_that_nobody_waited_for_is_refused():
    gone = subprocess.Popen(["true"])
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    done = subprocess.run([TOOL, "--pid", str(gone.pid)], capture_output=True, text=True, env=environment(), timeout=20, check=False)
    assert done.returncode == 1 and f"process {gone.pid}: No such process" in done.stderr, done
    gone.wait()


def processes_that_end_while_they_are_added_do_not_keep_the_watch():
    """At any moment between: the kernel tells of their end, or the watch sees it. Their parent has not waited for them."""
    for delay in range(12):
        with started("sh", "-c", f"echo ready; for i in 1 2 3 4 5 6 7 8; do sleep 0.{delay:02} & done; exec cat") as parent:
            time.sleep(0.01)
            with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="ascii") as file:
                children = [word for pid in file.read().split() for word in ("--pid", pid)]
            run = Watch("--pid", str(parent.pid), *children).ready()
            parent.stdin.close()
        seen = run.report()
        assert seen["alive"] == 0, (delay, seen["processes"])


def one_that_has_ended_does_not_keep_the_others_from_being_watched():
    gone = subprocess.Popen(["true"])
    gone.wait()
    with started(PROGRAM, "waiting", "14") as child:
        run = Watch("--pid", str(gone.pid), "--pid", str(child.pid)).ready()
        child.stdin.close()
    seen = run.report()
    assert calls(seen) == {PLAIN: 14} and f"process {gone.pid} has ended: it is not watched" in seen["said"], (seen["functions"], seen["said"])
    done = subprocess.run([TOOL, "--pid", str(gone.pid), "--pid", str(gone.pid)], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1 and f"process {gone.pid}: No such process" in done.stderr, done


def more_libraries_than_there_is_room_for_are_told():
    env = dict(environment(), LD_LIBRARY_PATH="")
    with tempfile.TemporaryDirectory() as folder:
        script = "".join(f"'{LATE}' {folder}/{i}/libcuda.so.1 wait 1 <&3 & " for i in range(70))
        for i in range(70):
            os.mkdir(os.path.join(folder, str(i)))
            shutil.copy(DRIVER, os.path.join(folder, str(i), "libcuda.so.1"))
        with started("sh", "-c", f"exec 3<&0; echo ready; {script} wait", env=env) as parent:
            for _ in range(70):
                parent.stdout.readline()
            run = Watch("--pid", str(parent.pid), env=env).ready()
            parent.stdin.close()
        seen = run.report()
    assert calls(seen) == {PTSZ: 64}, seen["functions"]
    assert len(seen["libraries"]) == 64, len(seen["libraries"])
    assert len([line for line in seen["said"] if "more than 64 driver libraries" in line]) == 1, seen["said"][-3:]


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


def many_functions():
    """A process that has a hundred functions of the default set mapped."""
    return started("env", f"LD_PRELOAD={FORMS}", "sh", "-c", "echo ready; read line")


def probes_of_a_library_are_one_link():
    """Each link that is taken away costs the kernel's grace periods anew."""
    if not has_sessions():
        print("not here: Linux before 6.13")
        return
    for options, links in (((), 1), (("--pairs",), 2), (("--single", "--function", PLAIN), 0)):
        with many_functions() as child:
            run = Watch("--pid", str(child.pid), "--library", FORMS, *options).ready()
            found = links_of(run.process.pid)
            run.end()
            child.stdin.close()
        assert found == links, (options, found)


def detaching_takes_less_than_a_tenth_of_a_second():
    """The median of five; on a machine that others use, of the best of three such rounds."""
    medians = []
    while len(medians) < 3 and (not medians or medians[-1] >= 100):
        took = []
        for _ in range(5):
            with many_functions() as child:
                seen = Watch("--pid", str(child.pid), "--library", FORMS, "--detach", "100").report()
                child.stdin.close()
            assert len(seen["sites"]) > 100, len(seen["sites"])
            took.append(seen["detach_us"] / 1000)
        medians.append(statistics.median(took))
        print(f"detach, {len(seen['sites'])} functions: median {medians[-1]:.0f} ms of " + " ".join(f"{ms:.0f}" for ms in sorted(took)) +
              f" ms, load {os.getloadavg()[0]:.1f}")
    assert min(medians) < 100, medians


def detaching_leaves_no_probe_in_a_program_that_goes_on():
    with started(PROGRAM, "endless") as child:
        seen = Watch("--pid", str(child.pid), "--detach", "100").report()
        # Others may watch everything on this machine for a moment.
        assert any(probes_in(child.pid) == 0 or time.sleep(0.1) for _ in range(50)), probes_in(child.pid)
        assert child.poll() is None
        assert seen["functions"][PLAIN]["calls"] > 0, seen
        child.kill()


def single_probes_say_first_how_long_they_take():
    seen = watch("--single", "--function", PLAIN, program=[PROGRAM, "calls", "10"])
    assert calls(seen) == {PLAIN: 10} and "taking 2 single probes away: about 0.2 s" in seen["said"], seen["said"]


TESTS = [
    full_ring_is_counted_and_counts_stay_exact,
    short_calls_are_counted_without_records,
    thread_that_dies_inside_a_call_is_told,
    call_left_by_longjmp_is_told,
    calls_deeper_than_there_is_room_are_counted,
    ten_thousand_threads_lose_nothing,
    dead_process_is_refused_and_one_that_dies_ends_the_watch,
    ended_process_that_nobody_waited_for_is_refused,
    processes_that_end_while_they_are_added_do_not_keep_the_watch,
    one_that_has_ended_does_not_keep_the_others_from_being_watched,
    more_libraries_than_there_is_room_for_are_told,
    killed_watcher_leaves_nothing_behind,
    probes_of_a_library_are_one_link,
    detaching_takes_less_than_a_tenth_of_a_second,
    detaching_leaves_no_probe_in_a_program_that_goes_on,
    single_probes_say_first_how_long_they_take,
]
