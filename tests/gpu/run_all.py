#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The GPU suite: everything that only a real driver can show, from a finished build, in about eight minutes.

    run_all.py --build DIR --out DIR [--part NAME ...] [--minutes N]

Parts, in this order: demo, table, calibrate, programs, overhead. Everything written goes to --out: results.md (rows for RESULTS.md),
results.json, and what each part left. Needs python3 alone; programs whose Python package or compiler is missing are skipped by name.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from compare_counts import compare  # noqa: E402

PARTS = ("demo", "table", "calibrate", "programs", "overhead")


class Suite:
    def __init__(self, options):
        self.options = options
        self.build = os.path.abspath(options.build)
        self.out = os.path.abspath(options.out)
        self.end = time.monotonic() + options.minutes * 60
        self.passed = self.failed = self.skipped = 0
        self.rows = []
        self.results = {}
        os.makedirs(self.out, exist_ok=True)
        self.slipstream = os.path.join(self.build, "tools", "slipstream")
        self.shim = os.path.join(self.build, "shim", "libslipstream.so")
        self.witness = os.path.join(self.build, "bpf", "slipstream-witness")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"
        }
        # Triton and JAX compile into caches: a cache of our own, warmed by the first run, is the same for all runs.
        self.environment.setdefault("TRITON_CACHE_DIR", os.path.join(self.out, "triton-cache"))

    def left(self):
        return max(0, self.end - time.monotonic())

    def say(self, what, name, text=""):
        self.passed += what == "ok"
        self.failed += what == "FAIL"
        self.skipped += what == "skip"
        print(f"{what:5} {name}" + (f": {text}" if text else ""), flush=True)

    def run(self, name, command, timeout, **more):
        """(status, stdout, stderr, seconds); the outputs are kept in the folder."""
        begin = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=max(1, min(timeout, self.left())), env=self.environment, check=False, cwd=self.out,
                **more)
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


def part_calibrate(suite):
    table = os.path.join(suite.out, "h200.table")
    command = [os.path.join(suite.build, "tools", "calibrate", "slipstream-calibrate"), "--output", table]
    committed = os.path.join(HERE, "h200.table")
    if os.path.exists(committed):
        command += ["--compare", committed]
    status, stdout, stderr, seconds = suite.run("calibrate", command, 180)
    suite.results["calibrate"] = {"status": status, "seconds": seconds, "differences": stdout.decode(errors="replace").splitlines()}
    for line in stdout.decode(errors="replace").splitlines():
        print("      " + line)
    suite.say("ok" if status == 0 else "FAIL", "calibrate", f"{tail(stderr)} ({seconds:.0f} s)")


def python_has(suite, module):
    return suite.run(f"import {module}", [sys.executable, "-c", f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"],
                     30)[0] == 0


def programs(suite):
    """(name, command) of what can run here."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    binary = os.path.join(suite.out, "static_cudart")
    if os.path.exists(nvcc):
        command = [nvcc, "-O2", "-cudart", "static", "-arch=native", "-o", binary, os.path.join(HERE, "static_cudart.cu")]
        status, _, stderr, _ = suite.run("nvcc", command, 120)
        if status == 0:
            yield "static cudart", [binary]
        else:
            suite.say("FAIL", "static cudart", f"does not compile: {tail(stderr)}")
    else:
        suite.say("skip", "static cudart", "no nvcc")
    for name, module, script in (("PyTorch", "torch", "pytorch_mix.py"), ("CuPy", "cupy", "cupy_mix.py"), ("JAX", "jax", "jax_mix.py"),
                                 ("Triton", "triton", "triton_mix.py")):
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


def run_program(suite, name, command, can_witness):
    slug = name.lower().replace(" ", "-")
    report_path = os.path.join(suite.out, f"{slug}.report.json")
    text_path = os.path.join(suite.out, f"{slug}.report.txt")
    shimmed = [suite.slipstream, "run", "--json", report_path, "--output", text_path, "--"] + command
    # The first run fills caches (files, compiled kernels) and gives the expected output.
    status, expected, stderr, first = suite.run(f"{name} raw", command, 150)
    if status != 0:
        return suite.say("skip", name, f"does not run without the shim: {tail(stderr)}")
    raw, with_shim = [], []
    for round_ in range(2 if first > 15 else 3):
        if suite.left() < 4 * first:
            break
        for kind in ("raw", "shim"):
            status, stdout, stderr, seconds = suite.run(f"{name} {kind} {round_}", command if kind == "raw" else shimmed, 150)
            if status != 0:
                return suite.say("FAIL", name, f"{kind}: status {status}: {tail(stderr)}")
            if stdout != expected:
                if kind == "raw":
                    return suite.say("skip", name, "its output differs from run to run without the shim")
                with open(os.path.join(suite.out, f"{slug}.differs.txt"), "wb") as file:
                    file.write(b"expected\n" + expected + b"\nwith the shim\n" + stdout)
                return suite.say("FAIL", name, "other output with the shim")
            (raw if kind == "raw" else with_shim).append(seconds)
    if not with_shim:
        return suite.say("skip", name, "no time left")
    report = load(report_path)
    implicit = [sync for sync in report["syncs"] if sync["class"] == "implicit"]
    row = {
        "program": name, "same_output": True, "calls": report["calls"]["total"], "unwrapped": report["calls"]["unwrapped"],
        "unwrapped_called": [n for n in report["coverage"]["unwrapped_names"] if report["calls"]["by_function"].get(n)],
        "inconclusive": report["coverage"]["inconclusive"], "reasons": report["coverage"]["reasons"],
        "rules": sorted({sync["rule"] for sync in implicit}), "blocked_ms": sum(sync["blocked_ns"] for sync in implicit) / 1e6,
        "raw_s": statistics.median(raw), "shim_s": statistics.median(with_shim), "raw_runs": raw, "shim_runs": with_shim,
        "witness": "not run",
    }
    fault = ""
    if can_witness:
        seen, counted = os.path.join(suite.out, f"{slug}.witness.json"), os.path.join(suite.out, f"{slug}.counts.json")
        watched = [suite.witness, "--output", seen, "--", suite.slipstream, "run", "--json", counted, "--output", os.devnull, "--"] + command
        status, stdout, stderr, seconds = suite.run(f"{name} witness", watched, 200)
        if status != 0:
            fault = f"under the witness: status {status}: {tail(stderr)}"
        elif stdout != expected:
            fault = "other output under the witness"
        else:
            verdict, lines, figures = compare(load(seen), load(counted))
            row.update(witness=verdict, witness_lines=lines, witness_figures=figures, witness_s=seconds)
            if verdict != "equal":
                fault = f"counts {verdict}: {'; '.join(lines[:5])}"
    suite.rows.append(row)
    suite.results.setdefault("programs", []).append(row)
    overhead = (row["shim_s"] / row["raw_s"] - 1) * 100
    suite.say("FAIL" if fault else "ok", name,
              fault or f"{row['calls']} calls, counts {row['witness']}, {row['raw_s']:.2f} s raw, {overhead:+.1f} %")


def part_overhead(suite):
    path = os.path.join(suite.out, "overhead.json")
    command = [
        sys.executable, os.path.join(ROOT, "tests", "bench", "overhead.py"), "--build", suite.build, "--json", path, "--check"
    ]
    status, stdout, stderr, seconds = suite.run("overhead", command, 240)
    for line in stdout.decode(errors="replace").splitlines():
        print("      " + line)
    if os.path.exists(path):
        suite.results["overhead"] = load(path)
    suite.say("ok" if status == 0 else "FAIL", "overhead", f"{tail(stderr)} ({seconds:.0f} s)")


def write_results(suite):
    lines = [
        "| program | same output | calls | witness | implicit rules seen | blocked ms | raw s | with shim s | unwrapped functions called |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in suite.rows:
        figures = row.get("witness_figures", {})
        lines.append(
            f"| {row['program']} | yes | {row['calls']} | {row['witness']} (kernel {figures.get('kernel', '-')}, own {figures.get('shim_own', '-')}) | "
            f"{', '.join(row['rules']) or 'none'} | {row['blocked_ms']:.1f} | {row['raw_s']:.2f} | {row['shim_s']:.2f} | "
            f"{', '.join(row['unwrapped_called']) or 'none'} |")
    with open(os.path.join(suite.out, "results.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    suite.results["counts"] = {"passed": suite.passed, "failed": suite.failed, "skipped": suite.skipped}
    with open(os.path.join(suite.out, "results.json"), "w", encoding="utf-8") as file:
        json.dump(suite.results, file, indent=1)
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--minutes", type=float, default=8)
    suite = Suite(parser.parse_args())
    for part in PARTS:
        if suite.options.part and part not in suite.options.part:
            continue
        if suite.left() < 10:
            suite.say("skip", part, "no time left")
            continue
        try:
            globals()[f"part_{part}"](suite)
        except (OSError, ValueError, KeyError, TypeError) as error:
            suite.say("FAIL", part, f"{type(error).__name__}: {error}")
    shutil.rmtree(os.path.join(suite.out, "triton-cache"), ignore_errors=True)
    write_results(suite)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
