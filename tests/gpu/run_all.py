#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The GPU suite: everything that only a real driver can show, from a finished build, in about eight minutes.

    run_all.py --build DIR --out DIR [--part NAME ...] [--minutes N]

Parts, in this order: demo, table, attribute, calibrate, off, programs, overhead. Everything written goes to --out: results.md (a section for
RESULTS.md), results.json, and what each part left. Needs python3 alone; programs whose Python package or compiler is missing are skipped by name.
"""
import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "bench")]
from compare_counts import compare  # noqa: E402
from machine import machine  # noqa: E402
from place import record_place  # noqa: E402
from program_checks import CHECKS  # noqa: E402
from results_section import section  # noqa: E402

PARTS = ("demo", "table", "attribute", "calibrate", "off", "programs", "overhead")
# The runtime-API programs, with what nvcc needs besides.
RUNTIME_PROGRAMS = (
    ("static cudart", "static_cudart.cu", []), ("stream-ordered allocation", "stream_ordered.cu", []),
    ("pageable async copies", "pageable_async.cu", []), ("threads, streams, events", "threads_streams.cu", ["--default-stream", "per-thread"]),
)


def rounds(first):
    """How many rounds for a program whose first run took `first` seconds: three for a short one, two, one for a long one."""
    return 3 if first < 4 else 2 if first < 15 else 1


class Suite:
    def __init__(self, options):
        self.options = options
        self.build = os.path.abspath(options.build)
        self.out = os.path.abspath(options.out)
        self.end = time.monotonic() + options.minutes * 60
        self.passed = self.failed = self.skipped = 0
        self.rows = []
        self.compiled = {}  # source: binary, None if it cannot be
        self.results = {}
        os.makedirs(self.out, exist_ok=True)
        self.slipstream = os.path.join(self.build, "tools", "slipstream")
        self.shim = os.path.join(self.build, "shim", "libslipstream.so")
        self.witness = os.path.join(self.build, "bpf", "slipstream-witness")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"
        }
        # Triton and JAX compile into caches: a cache of our own, warmed by the first run, is the same for all runs.
        if options.driver:
            self.environment["LD_LIBRARY_PATH"] = os.path.abspath(options.driver)
        self.environment.setdefault("TRITON_CACHE_DIR", os.path.join(self.out, "triton-cache"))

    def left(self):
        return max(0, self.end - time.monotonic())

    def say(self, what, name, text=""):
        self.passed += what == "ok"
        self.failed += what == "FAIL"
        self.skipped += what == "skip"
        print(f"{what:5} {name}" + (f": {text}" if text else ""), flush=True)

    def run(self, name, command, timeout, **variables):
        """(status, stdout, stderr, seconds); the outputs are kept in the folder."""
        begin = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=max(1, min(timeout, self.left())), env={**self.environment, **variables}, check=False,
                cwd=self.out)
            status, stdout, stderr = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            status, stdout, stderr = "timeout", error.stdout or b"", error.stderr or b""
        except OSError as error:
            status, stdout, stderr = "cannot start", b"", str(error).encode()
        seconds = time.monotonic() - begin
        with open(os.path.join(self.out, "log.txt"), "a", encoding="utf-8") as log:
            log.write(f"== {name}: status {status}, {seconds:.2f} s: {' '.join(map(str, command))}\n")
            log.write(stdout.decode(errors="replace")[-4000:] + "\n-- stderr\n" + stderr.decode(errors="replace")[-8000:] + "\n")
        return status, stdout, stderr, seconds


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def tail(data):
    lines = data.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def part_demo(suite):
    path = os.path.join(suite.out, "demo.json")
    command = [os.path.join(ROOT, "tools", "demo"), "--prebuilt", "--build", suite.build, "--json", path]
    status, _, stderr, seconds = suite.run("demo", command, 60)
    if status != 0 or not os.path.exists(path):
        return suite.say("FAIL", "demo", f"status {status}: {tail(stderr)}")
    rules = sorted({sync["rule"] for sync in load(path)["syncs"]})
    suite.results["demo"] = {"rules": rules, "seconds": seconds}
    suite.say("ok" if len(rules) >= 6 else "FAIL", "demo", f"{len(rules)} rules: {', '.join(rules)}")


def part_table(suite):
    command = [
        sys.executable, os.path.join(ROOT, "tests", "programs", "table", "table_test.py"), "--slipstream", suite.slipstream, "--program",
        os.path.join(suite.build, "tests", "programs", "table", "table"), "--keep", os.path.join(suite.out, "table")
    ]
    status, stdout, stderr, seconds = suite.run("table", command, 240)
    with open(os.path.join(suite.out, "table.txt"), "wb") as file:
        file.write(stdout + stderr)
    for line in stdout.decode(errors="replace").splitlines():
        if line.startswith("FAIL") or line.startswith("     "):
            print("      " + line)
    suite.results["table"] = {"summary": tail(stdout), "seconds": seconds}
    # Two hundred small files are not wanted back; the failing ones are told above.
    shutil.rmtree(os.path.join(suite.out, "table"), ignore_errors=True)
    suite.say("ok" if status == 0 else "FAIL", "table", f"{tail(stdout)} ({seconds:.0f} s)")


def part_attribute(suite):
    command = [
        sys.executable, os.path.join(HERE, "attribute_test.py"), "--slipstream", suite.slipstream, "--program",
        os.path.join(suite.build, "tests", "programs", "table", "table")
    ]
    status, stdout, stderr, seconds = suite.run("attribute", command, 120)
    for line in stdout.decode(errors="replace").splitlines():
        if line.startswith("FAIL") or line.startswith("     "):
            print("      " + line)
    suite.results["attribute"] = {"summary": tail(stdout), "seconds": seconds}
    suite.say("ok" if status == 0 else "FAIL", "attribute", f"{tail(stdout) or tail(stderr)} ({seconds:.0f} s)")


def part_off(suite):
    """Switched off, the shim leaves the program's output alone and no record."""
    program = next(programs(suite), (None, None))[1]
    if not program:
        return suite.say("skip", "off", "no program")
    status, expected, stderr, _ = suite.run("off: raw", program, 60)
    if status != 0:
        return suite.say("skip", "off", f"does not run without the shim: {tail(stderr)}")
    with tempfile.TemporaryDirectory() as folder:
        status, stdout, stderr, _ = suite.run("off", program, 60, LD_PRELOAD=suite.shim, SLIPSTREAM_OUT=folder, SLIPSTREAM_MODE="off")
        left = os.listdir(folder)
    fault = ""
    if status != 0 or stdout != expected or stderr:
        fault = f"status {status}, {'other' if stdout != expected else 'same'} output, {tail(stderr) or 'nothing on stderr'}"
    elif left:
        fault = f"left {', '.join(left)}"
    suite.results["off"] = {"same_output": not fault}
    return suite.say("FAIL" if fault else "ok", "off", fault or "same output, no record")


def part_calibrate(suite):
    table = os.path.join(suite.out, "h200.table")
    command = [os.path.join(suite.build, "tools", "calibrate", "slipstream-calibrate"), "--output", table]
    committed = os.path.join(HERE, "h200.table")
    if os.path.exists(committed):
        command += ["--compare", committed]
    status, stdout, stderr, seconds = suite.run("calibrate", command, 180)
    suite.results["calibrate"] = {"status": status, "seconds": seconds, "differences": stdout.decode(errors="replace").splitlines(),
                                  "compared": os.path.exists(committed)}
    if os.path.exists(table):
        with open(table, encoding="utf-8") as file:
            suite.results["calibrate"]["facts"] = [line.split(maxsplit=1)[1] for line in file.read().splitlines() if line.startswith("fact ")]
    for line in stdout.decode(errors="replace").splitlines():
        print("      " + line)
    suite.say("ok" if status == 0 else "FAIL", "calibrate", f"{tail(stderr)} ({seconds:.0f} s)")


def python_has(suite, module):
    return suite.run(f"import {module}", [sys.executable, "-c", f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"],
                     30)[0] == 0


def compile_program(suite, name, source, arguments):
    """Path of the compiled program, or None after saying why not."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    binary = os.path.join(suite.out, source.rsplit(".", 1)[0])
    if source in suite.compiled:
        return suite.compiled[source]
    suite.compiled[source] = None
    if not os.path.exists(nvcc):
        suite.say("skip", name, "no nvcc")
        return None
    command = [nvcc, "-O2", "-cudart", "static", "-arch=native", *arguments, "-o", binary, os.path.join(HERE, source)]
    status, _, stderr, _ = suite.run(f"nvcc {source}", command, 120)
    if status == 0:
        suite.compiled[source] = binary
        return binary
    suite.say("FAIL", name, f"does not compile: {tail(stderr)}")
    return None


def programs(suite):
    """(name, command) of what can run here."""
    if suite.options.program:
        for text in suite.options.program:
            name, command = text.split("=", 1)
            yield name, shlex.split(command)
        return
    for name, source, arguments in RUNTIME_PROGRAMS:
        binary = compile_program(suite, name, source, arguments)
        if binary:
            yield name, [binary]
    for name, module, script in (("forked children", "ctypes", "forking.py"), ("PyTorch", "torch", "pytorch_mix.py"),
                                 ("CuPy", "cupy", "cupy_mix.py"), ("JAX", "jax", "jax_mix.py"), ("Triton", "triton", "triton_mix.py")):
        if python_has(suite, module):
            yield name, [sys.executable, os.path.join(HERE, script)]
        else:
            suite.say("skip", name, f"no Python package {module}")


def part_programs(suite):
    probe = suite.run("witness --probe", [suite.witness, "--probe"], 20)
    can_witness = probe[0] == 0
    if not can_witness:
        suite.say("skip", "witness", tail(probe[2]) or f"status {probe[0]}")
    for name, command in programs(suite):
        try:
            run_program(suite, name, command, can_witness)
        except (OSError, ValueError, KeyError) as error:
            suite.say("FAIL", name, f"{type(error).__name__}: {error}")


class Fault(Exception):
    """What is wrong with a program's run, in one line."""


def run_rounds(suite, name, command, slug, expected, first):
    """Rounds without and with the shim by turns: their times, and the last one's record files in a folder that the caller removes.

    The library is preloaded by hand and the report is made afterwards, so that the program's time is its own.
    """
    raw, with_shim, records = [], [], None
    for round_ in range(rounds(first)):
        if records and suite.left() < 4 * first:
            break
        status, stdout, stderr, seconds = suite.run(f"{name} raw {round_}", command, 150)
        if status != 0 or stdout != expected:
            raise Fault(f"without the shim, not the same from run to run: status {status}: {tail(stderr)}")
        raw.append(seconds)
        if records:
            shutil.rmtree(records)
        records = tempfile.mkdtemp(prefix="slipstream-gpu-", dir=record_place())
        status, stdout, stderr, seconds = suite.run(f"{name} shim {round_}", command, 150, LD_PRELOAD=suite.shim, SLIPSTREAM_OUT=records)
        if status != 0 or stdout != expected:
            with open(os.path.join(suite.out, f"{slug}.differs.txt"), "wb") as file:
                file.write(b"expected\n" + expected + b"\nwith the shim\n" + stdout)
            shutil.rmtree(records)
            raise Fault(f"with the shim: status {status}, {'same' if stdout == expected else 'other'} output: {tail(stderr)}")
        with_shim.append(seconds)
    return raw, with_shim, records


def run_witness(suite, name, command, slug, expected, row):
    """Once more by `slipstream run` under the witness: fills the row; the fault if there is one."""
    seen, counted = os.path.join(suite.out, f"{slug}.witness.json"), os.path.join(suite.out, f"{slug}.counts.json")
    watched = [suite.witness, "--output", seen, "--", suite.slipstream, "run", "--json", counted, "--output", os.devnull, "--"] + command
    status, stdout, stderr, seconds = suite.run(f"{name} witness", watched, 200)
    if status != 0:
        return f"under the witness: status {status}: {tail(stderr)}"
    if stdout != expected:
        return "other output under the witness"
    verdict, lines, figures = compare(load(seen), load(counted))
    row.update(witness=verdict, witness_lines=lines, witness_figures=figures, witness_s=seconds)
    return "" if verdict == "equal" else f"counts {verdict}: {'; '.join(lines[:5])}"


def run_program(suite, name, command, can_witness):
    slug = name.lower().replace(",", "").replace(" ", "-")
    report_path = os.path.join(suite.out, f"{slug}.report.json")
    # The first run fills caches (files, compiled kernels) and gives the expected output.
    status, expected, stderr, first = suite.run(f"{name} raw", command, 150)
    if status != 0:
        return suite.say("skip", name, f"does not run without the shim: {tail(stderr)}")
    try:
        raw, with_shim, records = run_rounds(suite, name, command, slug, expected, first)
    except Fault as fault:
        return suite.say("FAIL", name, str(fault))
    report_command = [suite.slipstream, "report", "--json", report_path, "--output", os.path.join(suite.out, f"{slug}.report.txt"), records]
    status, _, stderr, report_s = suite.run(f"{name} report", report_command, 150)
    record_bytes = sum(os.stat(os.path.join(records, file)).st_blocks * 512 for file in os.listdir(records))
    shutil.rmtree(records)
    if status != 0:
        return suite.say("FAIL", name, f"slipstream report: status {status}: {tail(stderr)}")
    report = load(report_path)
    implicit = [sync for sync in report["syncs"] if sync["class"] == "implicit"]
    row = {
        "program": name, "same_output": True, "calls": report["calls"]["total"], "unwrapped": report["calls"]["unwrapped"],
        "unwrapped_called": [n for n in report["coverage"]["unwrapped_names"] if report["calls"]["by_function"].get(n)],
        "unwrapped_names": report["coverage"]["unwrapped_names"], "exported": report["coverage"]["exported"],
        "inconclusive": report["coverage"]["inconclusive"], "reasons": report["coverage"]["reasons"],
        "rules": sorted({sync["rule"] for sync in implicit}), "blocked_ms": sum(sync["blocked_ns"] for sync in implicit) / 1e6,
        "raw_s": statistics.median(raw), "shim_s": statistics.median(with_shim), "raw_runs": raw, "shim_runs": with_shim, "report_s": report_s,
        "record_bytes": record_bytes, "processes": len(report["processes"]),
        "forked": sum(process["forked"] for process in report["processes"]), "witness": "not run",
        "sites": sum(len(sync["sites"]) for sync in report["syncs"]),
        "python_sites": sum(bool(site["python"]) for sync in report["syncs"] for site in sync["sites"]),
        "python_notes": [note["text"] for note in report["coverage"]["notes"] if note["code"] == "python"],
    }
    faults = CHECKS[name](report, command[-1]) if name in CHECKS else []
    row["checks"] = faults
    if can_witness:
        fault = run_witness(suite, name, command, slug, expected, row)
        faults += [fault] if fault else []
    suite.rows.append(row)
    suite.results.setdefault("programs", []).append(row)
    overhead = (row["shim_s"] / row["raw_s"] - 1) * 100
    return suite.say("FAIL" if faults else "ok", name, "; ".join(faults) or
                     f"{row['calls']} calls, counts {row['witness']}, {row['raw_s']:.2f} s raw, {overhead:+.1f} %, report {report_s:.2f} s")


def part_overhead(suite):
    path = os.path.join(suite.out, "overhead.json")
    command = [
        sys.executable, os.path.join(ROOT, "tests", "bench", "overhead.py"), "--build", suite.build, "--json", path, "--check", *suite.options.bench
    ]
    status, stdout, stderr, seconds = suite.run("overhead", command, 240)
    for line in stdout.decode(errors="replace").splitlines():
        print("      " + line)
    if os.path.exists(path):
        suite.results["overhead"] = load(path)
    suite.say("ok" if status == 0 else "FAIL", "overhead", f"{tail(stderr)} ({seconds:.0f} s)")


def write_results(suite):
    """After each part, so that a run that is cut off leaves what it had; returns the section."""
    suite.results["counts"] = {"passed": suite.passed, "failed": suite.failed, "skipped": suite.skipped}
    with open(os.path.join(suite.out, "results.json"), "w", encoding="utf-8") as file:
        json.dump(suite.results, file, indent=1)
    text = section(suite.results)
    with open(os.path.join(suite.out, "results.md"), "w", encoding="utf-8") as file:
        file.write(text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--program", action="append", metavar="NAME=COMMAND", help="this program instead of the suite's own")
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--bench", default=[], action="append", help="one more argument for overhead.py (--bench=--quick)")
    options = parser.parse_args()
    for text in options.program or ():
        if "=" not in text:
            parser.error(f"--program {text}: not NAME=COMMAND")
    suite = Suite(options)
    suite.results["machine"] = machine(suite.build)
    for part in PARTS:
        if suite.options.part and part not in suite.options.part:
            continue
        if suite.left() < 10:
            suite.say("skip", part, "no time left")
            continue
        try:
            globals()[f"part_{part}"](suite)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            suite.say("FAIL", part, f"{type(error).__name__}: {error}")
        write_results(suite)
    shutil.rmtree(os.path.join(suite.out, "triton-cache"), ignore_errors=True)
    print(write_results(suite))
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
