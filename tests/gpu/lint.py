#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`slipstream lint` on a real driver: each practitioner's case and each rule of order, failing and fixed, and the clean programs.

    lint.py --build DIR --out DIR [--built-from DIR] [--driver DIR] [NAME ...]

The programs are those of tests/check, whose tests say what is expected. --built-from: where the sources lay when they were built, if not here. OUT gets
lint.md (a section for RESULTS.md) and log.txt (what was said where it was not as expected). Cases that need two devices are skipped where there is one;
exit status 1: something was not as expected.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TWO_DEVICES = {"case-14", "S07", "context-made-current", "order-between-contexts", "pool-of-another-device"}
sys.path.insert(0, HERE)
from machine import machine  # noqa: E402


def prepare(options):
    """What tests/check/meson.build sets, of a build or a pack."""
    build = os.path.abspath(options.build)
    os.environ.update(
        TESTED_TOOL=os.path.join(build, "tools", "slipstream"), SLIPSTREAM_LIBRARY=os.path.join(build, "shim", "libslipstream.so"), SIMCUDA_FOLDER="",
        LINT_PROGRAMS=os.path.join(build, "tests", "check"), LINT_SOURCES=os.path.join(ROOT, "tests", "check", "programs"),
        LINT_FIXED=os.path.join(build, "tests", "lint"), FUTURE_PIPELINE=os.path.join(build, "tests", "future", "future-pipeline"),
        LINT_ROOT=os.path.abspath(options.built_from))
    if options.driver:
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (os.path.abspath(options.driver), os.environ.get("LD_LIBRARY_PATH"))))
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(ROOT, "tests", "check"))


def words(found):
    return ", ".join(f"{rule} in line {line}" for rule, line in sorted(found, key=str)) or "nothing"


def run_cases(options, log, skipped):
    """[(name, form, expected, got, as expected)]."""
    import test_programs as programs

    rows, case = [], programs.Cases()
    for name in programs.NAMES:
        if name in programs.NOT_FOUND or name in skipped or (options.names and name not in options.names):
            continue
        for form in ("failing", "fixed"):
            wanted = (programs.marked(name), 1) if form == "failing" else (set(), 0)
            status, found, said = case.check(name, form)
            good = (found, status) == wanted
            rows.append((name, form, words(wanted[0]), f"{words(found)} (status {status})", good))
            if not good:
                log.write(f"---- {name} {form}\n{said}\n")
            print("ok  " if good else "FAIL", name, form, rows[-1][3], flush=True)
    return rows


def run_clean(options, log, skipped):
    import test_clean as clean

    rows, case = [], clean.Clean()
    for name in clean.NAMES:
        if name in skipped or (options.names and name not in options.names):
            continue
        status, found, said = case.found(clean.CLEAN, name)
        good = (status, found) == (0, [])
        rows.append((name, good))
        if not good:
            log.write(f"---- clean {name}: {found}\n{said}\n")
        print("ok  " if good else "FAIL", "clean", name, "" if good else f"status {status} {found}", flush=True)
    return rows


def section(said, cases, clean, skipped):
    lines = [f"### Lint, {said.get('gpu')}, driver {said.get('driver')} (`tests/gpu/lint.py`)", "",
             f"Cases and rules: {sum(row[4] for row in cases)} of {len(cases)} runs as expected; clean programs: {sum(row[1] for row in clean)} of {len(clean)} "
             f"without a finding. {'Skipped, for want of a second device: ' + ', '.join(sorted(skipped)) + '.' if skipped else ''}", "",
             "| program | form | expected | got |", "|---|---|---|---|"]
    lines += [f"| {name} | {form} | {wanted} | {'the same' if good else got} |" for name, form, wanted, got, good in cases]
    lines += [f"| {name} | clean | nothing | see the log |" for name, good in clean if not good]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--built-from", default=ROOT)
    parser.add_argument("--driver", help="folder of libcuda.so.1, if the loader does not find it")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    prepare(options)
    os.makedirs(options.out, exist_ok=True)
    said = machine(options.build)
    skipped = TWO_DEVICES if said["gpus"] < 2 else set()
    with open(os.path.join(options.out, "log.txt"), "w", encoding="utf-8") as log:
        cases, clean = run_cases(options, log, skipped), run_clean(options, log, skipped)
    with open(os.path.join(options.out, "lint.md"), "w", encoding="utf-8") as file:
        file.write(section(said, cases, clean, skipped))
    return 0 if all(row[4] for row in cases) and all(row[1] for row in clean) else 1


if __name__ == "__main__":
    sys.exit(main())
