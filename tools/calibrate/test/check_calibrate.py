#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slipstream calibrate on the simulated driver: the measured table comes out, interrupted runs go on, damaged tables are refused.

    check_calibrate.py CALIBRATE DRIVER-FOLDER TABLE-TEST-FOLDER
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

program, driver = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, sys.argv[3])
from table_test import CELLS, STREAMS  # noqa: E402

# The facts of the H200 page that hold on a driver of the same version, whatever the machine.
FACTS = {
    "null-query-behind-blocking": "600", "null-synchronize-waits-for-blocking": "yes", "null-synchronize-waits-for-non-blocking": "no",
    "null-graph-launch-blocks": "no", "null-graph-launch-ordered": "yes", "null-free-async-blocks": "no",
    "null-free-async-reused-early": "no", "alloc-after-null-free-usable-at-once": "yes", "stream-created-after-null-ordered": "yes",
    "null-record-covers-blocking": "yes", "null-record-covers-non-blocking": "no", "null-wait-holds-blocking": "yes",
    "capture-relaxed-null-is-capturing": "906", "capture-relaxed-null-launch": "906", "capture-relaxed-null-launch-end": "901",
    "capture-relaxed-empty-copy": "906", "capture-relaxed-empty-copy-end": "901", "capture-thread-null-launch": "906",
    "capture-thread-empty-copy": "906", "capture-global-null-launch": "0", "capture-global-event-query": "900",
    "capture-global-event-query-end": "901", "capture-global-host-alloc": "900", "capture-global-host-alloc-end": "901",
    "capture-global-mem-alloc": "900", "capture-global-mem-alloc-end": "901", "capture-global-event-query-other-thread": "900",
    "capture-global-event-query-other-thread-end": "901", "capture-global-relaxed-event-query": "0",
    "capture-global-relaxed-event-record": "0", "capture-global-relaxed-end": "0", "look-up-v1-unknown": "500",
    "look-up-v1-unknown-untouched": "yes", "look-up-v2-unknown": "0", "look-up-v2-unknown-null": "yes", "look-up-v2-unknown-found": "1",
    "look-up-v2-too-old": "0", "look-up-v2-too-old-null": "yes", "look-up-v2-too-old-found": "2", "look-up-v2-too-new": "1",
    "look-up-v2-too-new-untouched": "yes", "null-flags": "0", "null-priority": "0", "null-id-equals-legacy": "yes",
    "null-id-equals-per-thread": "no", "null-destroy": "400", "host-free-interior": "1", "host-free-of-malloc": "1", "mem-free-interior": "1",
    "host-unregister-of-host-alloc": "1", "host-alloc-flags": "2", "host-free": "0", "host-free-twice": "1", "mem-free-twice": "1",
    "host-free-null": "0", "mem-free-zero": "0", "host-alloc-zero-bytes": "0", "address-range-of-1000": "1000", "fork-child-init": "3",
    "fork-child-synchronize": "3", "fork-child-host-alloc": "3",
}


def run(*arguments, status=0, timeout=280):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def right(line):
    """Whether a cell or gate line says what the measured table says."""
    kind, cell, stream, result = line.split()[:4]
    waits = stream in CELLS[cell][2]
    return result == ({"cell": "blocked", "gate": "blocks"} if waits else {"cell": "free", "gate": "returns"})[kind]


def check_stage(lines):
    """Each kind of copy once, with a size that was measured. Which one means little here."""
    found = [line.split()[1:] for line in lines if line.startswith("stage ")]
    kinds = [" ".join(line[:3]) for line in found]
    assert kinds == [f"{direction} {form} {state}" for direction in ("to-device", "from-device") for form in ("sync", "async")
                     for state in ("idle", "busy")] + ["to-device sync unwaited"], kinds
    for line in found:
        sizes = ([1] if line[2] == "unwaited" else []) + [4096 << i for i in range(10 if line[2] == "unwaited" else 15)]
        assert line[3] == "never" or int(line[3]) in sizes, line


def check_table(path):
    with open(path, "rb") as file:
        data = file.read()
    body, last = data[:data.rindex(b"checksum ")], data[data.rindex(b"checksum "):]
    assert last == b"checksum %016x\n" % fnv(body), last
    lines = body.decode().splitlines()
    assert lines[0] == "slipstream-calibration 1" and lines[1].startswith("driver 1") and lines[2].startswith("gpu "), lines[:3]
    # A machine busy with other things can spoil a row: such rows are measured again before they count.
    faults, seen = [], set()
    rows = [line for line in lines if line.startswith(("cell ", "gate "))]
    for name in sorted({line.split()[1] for line in rows if not right(line)}):
        again = []
        for _ in range(5):
            output = run("--driver", driver, "--only", f"row {name}").stdout.splitlines()
            again = [line for line in output if line.startswith(("cell ", "gate ")) and line.split()[1] == name]
            if all(map(right, again)):
                break
        faults += [line for line in again if not right(line)]
    for line in rows:
        seen.add(tuple(line.split()[:3]))
    missing = [(kind, cell, stream) for kind in ("cell", "gate") for cell in CELLS for stream in STREAMS if (kind, cell, stream) not in seen]
    for _ in range(5):
        facts = dict(line.split()[1:] for line in lines if line.startswith("fact "))
        wrong = [f"fact {name}: {facts.get(name)}, {value} expected" for name, value in FACTS.items() if facts.get(name) != value]
        if not wrong:
            break
        lines = [line for line in lines if not line.startswith("fact ")] + run("--driver", driver, "--only", "facts").stdout.splitlines()
    faults += wrong
    check_stage(lines)
    idle = [line.rsplit(" ", 1)[0] for line in lines if line.startswith("idle ")]
    assert len(idle) == len(set(idle)) and len(idle) >= 40, len(idle)
    assert not missing, missing
    assert not faults, "\n".join(faults)


def check_hung():
    """Stops the measuring process in the middle: to its parent that is a call that never returns."""
    for _ in range(10):
        parent = subprocess.Popen([program, "--driver", driver, "--only", "row mem-free-1m", "--timeout", "1000"], stdout=subprocess.PIPE, text=True)
        for _ in range(2000):
            time.sleep(0.001)
            with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="utf-8") as file:
                children = file.read().split()
            try:
                with open(f"/proc/{children[0] if children else 0}/cmdline", "rb") as file:
                    inside = b"row mem-free-1m" in file.read()
            except OSError:
                continue
            if inside:
                time.sleep(0.05)  # into its steps
                try:
                    os.kill(int(children[0]), signal.SIGSTOP)
                except ProcessLookupError:
                    pass
                break
        output = parent.communicate(timeout=60)[0]
        lines = [line.split() for line in output.splitlines() if line.startswith(("cell", "gate"))]
        hung = [line for line in lines if line[3] == "hung"]
        if parent.returncode or not hung:
            continue  # stopped too early or too late
        assert len(hung) == 1 and len(lines) == 6, output
        assert [line[0] for line in lines] == ["cell"] * 3 + ["gate"] * 3, output
        assert all(line[3] in ("blocked", "blocks") for line in lines if line not in hung), output
        return
    raise AssertionError("never caught the process inside a step")


def main():
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "sim.table")
        run("--driver", driver, "--output", table)
        check_table(table)
        assert not os.path.exists(table + ".partial")
        print("the measured table and the facts come out")

        # Interrupted in the middle, then gone on: nothing is measured twice, and the same classes come out.
        other = os.path.join(folder, "other.table")
        child = subprocess.Popen([program, "--driver", driver, "--output", other, "--verbose"], stderr=subprocess.PIPE, text=True)
        for line in child.stderr:
            if line.startswith("[12/"):
                break
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stderr.close()
        time.sleep(0.5)
        assert not os.path.exists(other) and os.path.exists(other + ".partial")
        done = run("--driver", driver, "--output", other, "--resume", "--verbose")
        assert done.stderr.count("(from the earlier run)") >= 10, done.stderr
        check_table(other)
        print("an interrupted run goes on")

        check_hung()
        print("a step that never ends costs that step only")

        report = json.loads(run("--driver", driver, "--json", "--only", "row mem-free-1m").stdout)
        assert {one["result"] for one in report["cells"]} == {"blocked"} and len(report["cells"]) == 3, report
        assert report["gates"][0]["result"] == "blocks", report

        with open(table, "rb") as file:
            good = file.read()
        damaged = os.path.join(folder, "damaged.table")
        for change, words in ((good.replace(b"free", b"fred", 1), "checksum"), (good[:-30], "damaged"), (good[:100], "cut short"),
                              (b"", "damaged"), (b"what\n" + good, "version"), (good + b"x\n", "after the checksum"),
                              (good[:40] + b"\0" + good[40:], "text")):
            with open(damaged, "wb") as file:
                file.write(change)
            done = run("--driver", driver, "--compare", damaged, "--only", "none", status=2)
            assert words in done.stderr and done.stderr.count("\n") == 1 and damaged in done.stderr, (words, done.stderr)
        # One cell that differs is told, with status 1.
        lines = [line for line in good.decode().splitlines() if not line.startswith("checksum")]
        at = next(i for i, line in enumerate(lines) if line.startswith("cell mem-free-1m null "))
        lines[at] = "cell mem-free-1m null free 10"
        lines = [line for line in lines if not line.startswith(("cell", "gate", "fact")) or " mem-free-1m " in line]
        body = ("\n".join(lines) + "\n").encode()
        with open(damaged, "wb") as file:
            file.write(body + b"checksum %016x\n" % fnv(body))
        done = run("--driver", driver, "--compare", damaged, "--only", "row mem-free-1m", status=1)
        assert done.stdout == "cell mem-free-1m null: blocked here, free there\n", done.stdout
        print("damaged and different tables are told")

        for arguments, words in ((("--resume",), "--output"), (("--nonsense",), "nonsense"), (("--timeout", "soon"), "soon"),
                                 (("argument",), "argument"), (("--output", "/nonexistent/table"), "/nonexistent/table"),
                                 (("--compare", "/nonexistent"), "/nonexistent")):
            assert words in run(*arguments, status=2).stderr, arguments
        assert "no driver" in run("--driver", folder, status=3).stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
