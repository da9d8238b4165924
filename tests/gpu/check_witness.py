#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""witness.py's own judgement: calls that only one side saw, contradicted claims, losses and missing probes are told as that."""
import copy
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import witness  # noqa: E402
import witness_places as places  # noqa: E402
import witness_section as section  # noqa: E402
import witness_turns as turning  # noqa: E402

GROUPS = [["cuMemFree_v2"], ["cuCtxSynchronize", "cuCtxSynchronize_v2"], ["cuLaunchKernel"]]
DEFAULT = ["cuMemFree_v2", "cuCtxSynchronize", "cuCtxSynchronize_v2"]
LOST = {"records": 0, "calls": 0, "deep": 0, "left": 0, "late": 0, "callers": 0}


def function(name, wrapper, escaped=0):
    return {"function": name, "wrapper": wrapper, "escaped": escaped}


def report():
    return {
        "calls": {"by_function": {"cuMemFree_v2": 5, "cuCtxSynchronize_v2": 2, "cuLaunchKernel": 99}},
        "witness": {
            "functions": [function("cuMemFree_v2", 5), function("cuCtxSynchronize", 2)], "escaped": [], "contradicted": [], "claims": 3, "processes": 1,
            "lost": dict(LOST), "coverage": {"escaped": 0, "unknown": 0, "proven": 1.0, "shim_own": 1, "inside_library": 0},
        },
    }


def judged(changed):
    return witness.of_report(changed, DEFAULT, GROUPS, ())


def counts_are_held_against_each_other():
    row, faults = judged(report())
    # Launches are not of the default set; the names of one address are one function.
    assert (row["functions"], row["kernel"], row["shim"], faults) == (2, 7, 7, []), (row, faults)
    other = report()
    other["calls"]["by_function"]["cuMemFree_v2"] = 6
    assert judged(other)[1] == ["cuMemFree_v2: kernel 5, library 6"]
    other = report()
    other["witness"]["functions"][1] = function("cuCtxSynchronize", 2, 3)
    assert judged(other)[1] == ["cuCtxSynchronize = cuCtxSynchronize_v2: kernel 5, library 2"]
    other = report()
    del other["witness"]["functions"][0]
    assert judged(other)[1] == ["cuMemFree_v2: kernel 0, library 5"]
    other["witness"]["functions"], other["calls"]["by_function"] = [], {}
    assert judged(other)[1] == ["no call was seen"]


def losses_and_contradictions_are_faults():
    other = report()
    other["witness"]["lost"]["records"] = 4
    assert judged(other)[1] == ["lost records: 4"] and witness.of_fix(other)[1] == ["lost records: 4"]
    other = report()
    other["witness"]["contradicted"] = [{"function": "cuMemFree_v2", "claim": "held back", "calls": 2}]
    assert judged(other)[1] == witness.of_fix(other)[1] == ["contradicted: cuMemFree_v2 (held back), 2 calls"]
    other = copy.deepcopy(report())
    other["witness"]["escaped"] = [{"function": "cuMemFree_v2", "calls": 1, "frames": []}]
    other["witness"]["claims"] = 0
    assert witness.of_fix(other)[1] == ["escaped: cuMemFree_v2, 1 calls", "no claim"]


def a_median_has_an_interval():
    assert turning.interval([3, 1, 2, 5, 4, 6]) == (1, 6, 0.96875)
    assert turning.interval(list(range(9)))[:2] == (1, 7)
    assert turning.interval([1, 2]) == (1, 2, 0.5)


def a_turn_is_compared_with_its_neighbours():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "marks")
        with open(path, "w", encoding="ascii") as file:
            # Steps of 100, 103 and 104 ns in three times of 10000.
            for window, took in enumerate((100, 103, 104)):
                file.writelines(f"{window * 10000 + i * 200} {window * 10000 + i * 200 + took}\n" for i in range(50))
        steps = turning.Steps(path)
        windows = [(0, 9999, False), (10000, 19999, True), (20000, 29999, False)]
        figures, medians = turning.differences(windows, steps)
        assert medians == [100, 103, 104] and abs(figures[0] - 100 * (103 / 102 - 1)) < 1e-9, (figures, medians)
        assert steps.within(150, 450) == [100], "only whole steps"
        try:
            steps.median((0, 300))
        except turning.Failed:
            pass
        else:
            raise AssertionError("too few steps are no median")


def first_instructions_are_told():
    assert witness.kind_of(2, bytes.fromhex("f30f1efa5548")) == "endbr64, push" and witness.kind_of(4, bytes.fromhex("4883ec08")) == "single-stepped"
    kinds = witness.count_kinds([("a", "nop", b"\x90123"), ("b", "push", b"\x55123"), ("c", "push", b"\x55123")])
    assert list(kinds) == ["push", "nop"] and kinds["push"] == {"functions": ["b", "c"], "begin": {"55 31 32 33": 2}}
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "x.c"), os.path.join(folder, "x.so")
        with open(source, "w", encoding="ascii") as file:
            file.write('__asm__(".globl cuOne, cuTwo\\n.type cuOne, @function\\n.type cuTwo, @function\\ncuOne: cuTwo: push %rbx; pop %rbx; ret; nop\\n'
                       '.fill 16, 1, 0x90");\nint cuThree;\n')
        if not subprocess.run(["cc", "-shared", "-o", library, source], capture_output=True, check=False).returncode:
            found = places.exports(library)
            assert sorted(found) == ["cuOne", "cuTwo"] and found["cuOne"].code == b"\x53\x5b\xc3\x90" + b"\x90" * 4, found
            assert places.same_function(found) == [["cuOne", "cuTwo"]]


def the_section_says_what_was_found():
    row, _ = judged(report())
    row.update(program="PyTorch", same_output=False)
    lines = section.counts([row])
    assert lines[-2] == "| PyTorch | NO | 2 | 7, 7 | none | 0  | 0 | 0 of 3  | 100 % | 0 | 1 |", lines
    assert section.how({"spin_ns": 3, "poll_ns": 1, "futex_ns": 0}) == "spin 75.0 %, poll 25.0 %" and section.how({"spin_ns": 0}) == "not blocked"
    assert section.percent(0.9999999) == "99.999 %" and section.percent(1.0) == "100 %"


def main():
    for test in (counts_are_held_against_each_other, losses_and_contradictions_are_faults, a_median_has_an_interval, a_turn_is_compared_with_its_neighbours,
                 first_instructions_are_told, the_section_says_what_was_found):
        test()
        print(f"ok    {test.__name__}")


if __name__ == "__main__":
    main()
