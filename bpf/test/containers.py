# SPDX-License-Identifier: MIT
"""Processes with namespaces, roots and layered file systems of their own. Of check_watch.py."""
import os
import re
import shutil
import subprocess
import tempfile
import time

from watching import calls, DRIVER, environment, LATE, PLAIN, PROGRAM, PTSZ, started, Watch


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


def inner_of(pid):
    """The process that has no children, at the end of a chain."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = file.read().split()
    return inner_of(int(children[0])) if children else pid


def layer_that_two_file_systems_share_is_counted_once():
    """Two containers of one image: one file, two names, two probes."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "lower"))
        shutil.copy(DRIVER, os.path.join(folder, "lower", "libcuda.so.1"))
        children, run = [], None
        for name, count in (("a", 100), ("b", 200)):
            for part in ("upper", "work", "merged"):
                os.mkdir(os.path.join(folder, part + name))
            script = (f"mount -t overlay overlay -o lowerdir={folder}/lower,upperdir={folder}/upper{name},workdir={folder}/work{name} "
                      f"{folder}/merged{name} && LD_LIBRARY_PATH= exec {LATE} {folder}/merged{name}/libcuda.so.1 wait {count}")
            try:
                children.append(started("unshare", "--mount", "sh", "-c", script))
            except AssertionError:
                print("not here: mounting an overlay in a namespace of one's own")
                return
        with children[0], children[1]:
            pids = [word for child in children for word in ("--pid", str(inner_of(child.pid)))]
            run = Watch(*pids, "--records", "--callers", env=dict(environment(), LD_LIBRARY_PATH="")).ready()
            for child in children:
                child.stdin.close()
        seen = run.report()
    count = seen["functions"][PTSZ]
    assert (count["calls"], count["returned"], seen["records"]) == (300, 300, 300), (seen["functions"], seen["libraries"])
    assert sorted(caller["calls"] for caller in seen["callers"]) == [100, 200], seen["callers"]
    assert seen["late_returns"] == seen["left_calls"] == 0 and seen["sums"][PTSZ]["program"] == 300, seen


def image_of(folder, *programs):
    """A root of its own with these programs, and what they need."""
    for path in programs:
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, env=environment(), check=True).stdout
        for needed in [path, *re.findall(r"(/\S+) \(0x", listed)]:
            os.makedirs(folder + os.path.dirname(needed), exist_ok=True)
            shutil.copy(needed, folder + needed)
    os.mkdir(os.path.join(folder, "proc"))
    os.mkdir(os.path.join(folder, "opt"))
    shutil.copy(DRIVER, os.path.join(folder, "opt", "libcuda.so.1"))


def container_with_a_root_of_its_own_is_looked_into():
    """Its library has a name there that means nothing here."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside.py")
    for namespaces, change in ((("--mount", "--pid", "--fork"), ["python3", inside]),
                               (("--mount", "--pid", "--fork", "--user", "--map-root-user"), ["chroot"])):
        with tempfile.TemporaryDirectory() as folder:
            image_of(folder, LATE)
            try:
                child = started("unshare", *namespaces, *change, folder, LATE, "/opt/libcuda.so.1", "wait", "123",
                                env=dict(environment(), LD_LIBRARY_PATH=""))
            except AssertionError:
                print("not here: a container by unshare " + " ".join(namespaces))
                continue
            with child:
                inner = inner_of(child.pid)
                run = Watch("--pid", str(child.pid), "--records", env=dict(environment(), LD_LIBRARY_PATH="")).ready()
                child.stdin.close()
            seen = run.report()
        assert calls(seen) == {PTSZ: 123} and seen["sums"][PTSZ]["program"] == 123, (seen["functions"], seen["sums"], seen["said"])
        assert {call["process"] for call in seen["calls"]} == {inner}, (inner, seen["calls"][:1])
        assert all(process["ended"] for process in seen["processes"]) and seen["alive"] == 0, seen["processes"]


def container_that_starts_while_all_are_watched_is_found():
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside.py")
    with tempfile.TemporaryDirectory() as folder:
        image_of(folder, LATE)
        run = Watch("--all", "--callers", "--seconds", "30", env=dict(environment(), LD_LIBRARY_PATH="")).ready()
        try:
            child = started("unshare", "--mount", "--pid", "--fork", "python3", inside, folder, LATE, "/opt/libcuda.so.1", "wait", "45",
                            env=dict(environment(), LD_LIBRARY_PATH=""))
        except AssertionError:
            print("not here: a container by unshare")
            run.end()
            return
        with child:
            inner = inner_of(child.pid)
            time.sleep(0.3)
            child.stdin.close()
        time.sleep(0.1)
        seen = run.end()
    assert [(caller["calls"], caller["by"]) for caller in seen["callers"] if caller["process"] == inner] == [(45, "program")], (seen["callers"], seen["said"])


TESTS = [
    layered_file_system_and_another_process_namespace_are_looked_through,
    watcher_in_a_process_namespace_of_its_own_uses_its_own_ids,
    layer_that_two_file_systems_share_is_counted_once,
    container_with_a_root_of_its_own_is_looked_into,
    container_that_starts_while_all_are_watched_is_found,
]
