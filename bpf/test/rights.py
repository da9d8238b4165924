# SPDX-License-Identifier: MIT
"""Rights, and what other processes may do to the watcher. Of check_watch.py."""
import ctypes
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time

from watching import as_nobody, calls, DRIVER, environment, FOLDER, FORMS, LATE, needs_root, PLAIN, PROGRAM, PTSZ, SKIP, started, TOOL, Watch, watch


@needs_root
def two_capabilities_are_enough():
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


@needs_root
def missing_capability_is_named():
    with tempfile.TemporaryDirectory() as folder:
        for capabilities, missing, what in (((), "CAP_BPF", "to load BPF programs"),
                                            (("perfmon",), "CAP_BPF", "to load BPF programs"),
                                            (("bpf",), "CAP_PERFMON", "to probe functions and follow the scheduler")):
            nobody = as_nobody(folder, *capabilities)
            done = subprocess.run([*nobody, f"{folder}/watch-tool", f"{folder}/watch-program", "calls", "1"], capture_output=True,
                                  text=True, check=False)
            assert done.returncode == SKIP and f"{missing} is missing, {what} [{missing}]" in done.stderr, done


@needs_root
def process_of_another_user_is_watched_as_far_as_that_goes():
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


@needs_root
def file_at_the_name_of_a_mapped_one_is_not_taken_for_it():
    """Without the right to open mappings, only the name is left: then another file there is refused."""
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


def without_messages_all_finds_new_processes():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        env = dict(environment(), LD_LIBRARY_PATH="")
        run = Watch("--all", "--callers", "--seconds", "30", env=env, before=refuse_messages).ready()
        with started(LATE, copy, "wait", "32", env=env) as child:
            time.sleep(1.5)  # looked for twice a second
            child.stdin.close()
        seen = run.end()
    mine = [(caller["calls"], caller["by"]) for caller in seen["callers"] if caller["process"] == child.pid]
    assert mine == [(32, "program")], (seen["callers"], seen["said"])


@needs_root
def library_that_may_not_be_opened_is_told_with_the_capability():
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as place:
        nobody = as_nobody(folder, "bpf", "perfmon")
        copy = os.path.join(place, "libcuda.so.1")
        shutil.copy(DRIVER, copy)
        for target in ("--pid", "--all"):
            with started(LATE, copy, "wait", "5") as child, started(LATE, copy, "wait", "5") as other:
                options = ["--pid", str(child.pid), "--pid", str(other.pid)] if target == "--pid" else ["--all", "--seconds", "1"]
                run = Watch(*options, tool=f"{folder}/watch-tool", wrap=nobody).ready()
                child.stdin.close()
                other.stdin.close()
            seen = run.report()
            told = [line for line in seen["said"] if "CAP_SYS_PTRACE is missing" in line]
            assert told and (target == "--pid" or len(told) == 1), seen["said"]


def function_that_cannot_be_probed_does_not_keep_the_others_from_it():
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "libcuda.so.1")
        shutil.copy(os.path.join(FOLDER, "librefused.so"), copy)
        env = dict(environment(), LD_LIBRARY_PATH="")
        with started(LATE, copy, "wait", "12", env=env) as child:
            run = Watch("--pid", str(child.pid), env=env).ready()
            child.stdin.close()
        seen = run.report()
    assert calls(seen) == {PTSZ: 12} and set(seen["sites"]) == {PTSZ}, (seen["functions"], seen["sites"], seen["said"])
    assert any("refuses to probe, and which are not watched: 1" in line for line in seen["said"]), seen["said"]


def elf_file(path, names=14, segments=1, sections=3, first=(0, 0), symbols=10, address=1 << 12, size=0, notes=0):
    """One that exports cuMemFree_v2 so many times. `names`: size of the table of names that is told; `first`: size and info of section 0, which stand for
    the numbers of sections and segments where those are 0 and 0xffff; `size` of the file, of which most is a hole."""
    text, table = b"\0cuMemFree_v2\0", struct.pack("<IBBHQQ", 1, 0x12, 0, 1, address, 16) * symbols
    told, segments = segments, segments if segments < 0xffff else 1
    at = 64 + segments * 56
    begin = at + len(text) + len(table)
    with open(path, "wb") as file:
        file.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, begin, 0, 64, 56, told, 64, sections, 2))
        file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 13, 1 << 13, 4096) * segments + text + table)
        file.write(struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, first[0], 0, first[1], 0, 0))
        file.write(struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, at + len(text), len(table), 2, 1, 8, 24))
        file.write(struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at, names, 0, 0, 1, 0))
        file.truncate(max(size, file.tell()))


def refused_at_once(path, *options):
    """Within seconds, and without room for what the file says."""
    begin = time.monotonic()
    tool = subprocess.Popen([TOOL, *options, path, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env=environment())
    error = tool.stderr.read()
    _, status, usage = os.wait4(tool.pid, 0)
    tool.returncode = os.waitstatus_to_exitcode(status)
    assert usage.ru_maxrss < 300000 and time.monotonic() - begin < 10, (usage.ru_maxrss, time.monotonic() - begin)
    return tool.returncode, error


def files_that_say_they_are_large_are_refused_at_once():
    """Files of another process, with holes of gigabytes in them: of names, of sections, of segments; and one that is as it should be."""
    hole = 3 << 30
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "libcuda.so.1")
        elf_file(path, size=1 << 13)
        taken = refused_at_once(path, "--library")
        assert taken == (0, "watching\n"), taken
        for odd in ({"names": hole - 65536}, {"sections": 0, "first": (30000000, 0)}, {"segments": 0xffff, "first": (0, 40000000)}):
            elf_file(path, size=hole, **odd)
            status, error = refused_at_once(path, "--library")
            assert status == 1 and "no driver library" in error, (odd, status, error)


def probes_of_a_shim_that_says_it_is_large_are_refused_at_once():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "libslipstream.so")
        for odd in ({"names": (3 << 30) - 65536}, {"sections": 0, "first": (30000000, 0)}):
            elf_file(path, size=3 << 30, **odd)
            status, error = refused_at_once(path, "--claims", "--library", DRIVER, "--shim-path")
            assert (status, error) == (0, "watching\n"), (odd, status, error)


def many_segments_and_symbols_are_refused_at_once():
    """Each of its symbols lies in none of its segments, and all would have to be looked for."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "libcuda.so.1")
        elf_file(path, segments=60000, symbols=600000, address=1 << 60)
        status, error = refused_at_once(path, "--library")
        assert status == 1 and "no driver library" in error, (status, error)

TESTS = [
    two_capabilities_are_enough,
    without_messages_mappings_are_read,
    without_messages_all_finds_new_processes,
    missing_capability_is_named,
    library_that_may_not_be_opened_is_told_with_the_capability,
    process_of_another_user_is_watched_as_far_as_that_goes,
    names_of_others_are_text_only,
    file_at_the_name_of_a_mapped_one_is_not_taken_for_it,
    pipes_and_folders_are_no_libraries,
    function_that_cannot_be_probed_does_not_keep_the_others_from_it,
    many_segments_and_symbols_are_refused_at_once,
    files_that_say_they_are_large_are_refused_at_once,
    probes_of_a_shim_that_says_it_is_large_are_refused_at_once,
]
