#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The suite's own judgement: a right report passes, each thing that could be wrong with it is told; the section is written from results; programs
on the simulated driver go through the suite, and one that notices the shim is found.

    check_suite.py BUILD
"""
import copy
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from machine import built_from, what_ran  # noqa: E402
from program_checks import CHECKS, marked_line  # noqa: E402

SCRIPT = os.path.join(HERE, "pytorch_mix.py")


def site(count, *frames):
    return {"count": count, "python": [{"file": file, "line": line, "function": function} for file, line, function in frames] or None}


def right_report():
    item = marked_line(SCRIPT, "item")
    worker = {"calls": 1, "forked": False, "dropped": 0}
    return {
        "syncs": [
            {"function": "cuStreamSynchronize", "sites": [site(300, (SCRIPT, item, "main")), site(9)]},
            {"function": "cuMemHostAlloc", "sites": [site(1, ("/x/torch/utils/data/_utils/pin_memory.py", 57, "pin_memory"))]},
        ],
        "calls": {"by_function": {"cuGraphLaunch": 50}},
        "processes": [worker, worker, dict(worker, forked=True), dict(worker, forked=True), dict(worker, calls=44000)],
    }


def check_pytorch():
    check = CHECKS["PyTorch"]
    assert check(right_report(), SCRIPT) == [], check(right_report(), SCRIPT)

    def broken(change):
        report = copy.deepcopy(right_report())
        change(report)
        faults = check(report, SCRIPT)
        assert len(faults) == 1, faults
        return faults[0]

    assert ".item()" in broken(lambda report: report["syncs"][0]["sites"][0]["python"][0].update(line=1))
    assert ".item()" in broken(lambda report: report["syncs"][0]["sites"][0].update(python=None))
    assert ".item()" in broken(lambda report: report["syncs"][0].update(function="cuCtxSynchronize"))
    assert ".item()" in broken(lambda report: report["syncs"][0]["sites"][0].update(count=299))
    assert "pins memory" in broken(lambda report: report["syncs"].pop(1))
    assert "graph launches" in broken(lambda report: report["calls"]["by_function"].update(cuGraphLaunch=49))
    assert "workers" in broken(lambda report: report["processes"].pop(0))
    assert "workers" in broken(lambda report: report["processes"].__setitem__(3, report["processes"][0]))
    assert "calls of the workers" in broken(lambda report: report["processes"].__setitem__(0, {"calls": 2, "forked": False, "dropped": 0}))
    assert "lost" in broken(lambda report: report["processes"][4].update(dropped=1))


def check_forking():
    processes = [{"forked": False}] * 3 + [{"forked": True}] * 2
    check = CHECKS["forked children"]
    assert check({"processes": processes, "calls": {"total": 9}}, "") == []
    assert check({"processes": processes[1:], "calls": {"total": 9}}, "") and check({"processes": processes, "calls": {"total": 8}}, "")


def check_section():
    row = {
        "program": "some program", "same_output": True, "calls": 7, "witness": "different", "witness_lines": ["cuInit: kernel 2, shim 1"],
        "witness_figures": {"kernel": 8, "shim_own": 3}, "processes": 3, "forked": 1, "rules": ["d2h"], "blocked_ms": 1.25, "raw_s": 2.0,
        "shim_s": 2.1, "report_s": 0.3, "raw_runs": [2.0], "shim_runs": [2.1], "unwrapped_called": ["cuNew"], "unwrapped_names": ["cuNew", "cuOther"],
        "exported": 682, "sites": 4, "python_sites": 2, "python_notes": [], "checks": ["something is missing"],
        "inconclusive": True, "reasons": ["an unknown export table was handed out: 21318c60", "other"],
    }
    results = {
        "machine": {"date": "1970-01-01", "gpu": "a GPU", "driver": "1.2", "versions": {"Python": "3.12.3"}, "slipstream": "slipstream 1",
                    "commit": "0123456789ab and changes", "library": "fedcba9876543210"}, "programs": [row],
        "counts": {"passed": 1, "failed": 2, "skipped": 3}, "table": {"summary": "81 passed, 0 failed"},
        "calibrate": {"seconds": 14.0, "differences": [], "compared": True, "facts": ["null-flags 0"]},
        "overhead": {"paired": {"launch_null": {"raw_ns": 3000.0, "added_ns": 40.0, "low_ns": 35.0, "high_ns": 45.0, "added_percent": 1.33,
                                                "limit": 1, "unit": "%"}}, "over": ["paired launch_null"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.join(HERE, "results_section.py"), folder]
        none = subprocess.run(command, capture_output=True, text=True, check=False)
        assert none.returncode == 1 and none.stderr.count("\n") == 1 and folder in none.stderr, none
        with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
            json.dump(results, file)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    for text in (
        "## 1970-01-01: a GPU, driver 1.2", " slipstream 1, commit 0123456789ab and changes, libslipstream.so sha256 fedcba9876543210.\n", "1 passed, 2 failed, 3 skipped",
        "| some program | yes | 7 | different (8; own 3) | 3 (1) | d2h | 1.2 | 2.00 | 2.10 | +5.0 % | 0.30 | cuNew |", "- some program: something is missing",
        "could not pass): some program (an unknown export table was handed out: 21318c60; other).", "counts: cuInit: kernel 2, shim 1", "counted only (2 of 682): cuNew, cuOther.", "Python 3.12.3, call sites with Python frames: some program 2 of 4.",
        "81 passed, 0 failed", "against the committed table: no difference", "null-flags = 0",
        "| launch_null | 3000.0 | +40.00 | +35.00 to +45.00 | +1.33 | 1 % |", "Over the limit: paired launch_null.",
    ):
        assert text in done.stdout, (text, done.stdout)


def check_commit():
    """Of a pack, which has no git: what pack.sh wrote."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "commit"), "w", encoding="utf-8") as file:
            file.write("0123456789ab and changes\n")
        assert built_from(folder) == "0123456789ab and changes"
        # trace.py tells it before anything else, and whatif.py the same way.
        assert ", commit 0123456789ab and changes, libslipstream.so sha256 unknown; " in what_ran(folder)
        done = subprocess.run([sys.executable, os.path.join(HERE, "trace.py"), "--build", folder, "--out", folder, "--pairs", "1", "--steps", "10"],
                              capture_output=True, text=True, check=False)
        assert done.stdout.startswith("ran   ") and "commit 0123456789ab and changes" in done.stdout.splitlines()[0], done


def check_run(build):
    noticing = "sh -c 'echo \"preloaded: $LD_PRELOAD\"'"
    forking = f"{sys.executable} {os.path.join(HERE, 'forking.py')}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([
            sys.executable, os.path.join(HERE, "run_all.py"), "--build", build, "--out", folder, "--driver", os.path.join(build, "tests", "simcuda"),
            "--part", "off", "--part", "programs", "--program", "demo=" + os.path.join(build, "tests", "programs", "demo", "demo"),
            "--program", f"noticing={noticing}", "--program", "failing=false", "--program", f"forked children={forking}",
        ], capture_output=True, text=True, check=False)
        with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
            results = json.load(file)
        left = os.listdir(folder)
    assert done.returncode == 1, done
    assert "\nFAIL  noticing: with the shim: status 0, other output" in done.stdout, done.stdout
    assert "\nskip  failing: does not run without the shim" in done.stdout, done.stdout
    assert results["off"] == {"same_output": True}, results["off"]
    with open(os.path.join(build, "shim", "libslipstream.so"), "rb") as file:
        assert results["machine"]["library"] == hashlib.sha256(file.read()).hexdigest()[:16], results["machine"]
    assert results["counts"]["failed"] == 1, done.stdout
    rows = {row["program"]: row for row in results["programs"]}
    assert set(rows) == {"demo", "forked children"}, done.stdout
    for row in rows.values():
        assert row["witness"] in ("equal", "not run") and row["raw_s"] > 0 and row["report_s"] > 0 and row["record_bytes"] > 0, row
        assert len(row["raw_runs"]) == len(row["shim_runs"]) == 3, row
    assert rows["demo"]["calls"] > 100 and "free-drains-device" in rows["demo"]["rules"] and rows["demo"]["processes"] == 1, rows["demo"]
    assert rows["forked children"]["checks"] == [], rows["forked children"]
    # Two children before and two after the first use of CUDA, one call each.
    assert (rows["forked children"]["processes"], rows["forked children"]["forked"], rows["forked children"]["calls"]) == (5, 2, 9), rows["forked children"]
    assert {"log.txt", "results.md", "noticing.differs.txt", "demo.report.txt"} <= set(left), left


if __name__ == "__main__":
    check_pytorch()
    check_forking()
    check_section()
    check_commit()
    check_run(os.path.abspath(sys.argv[1]))
