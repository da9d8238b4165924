#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Safety of mode fix: the same bytes and statuses raw and in mode fix where a rewrite could harm, from a finished build or a pack.

    safety.py --build DIR --out DIR [--minutes N] [--quick] [--only CHECK ...] [--seed N] [--driver DIR] [--shim FILE]

Each check is a program of tests/programs/safety, run raw and with SLIPSTREAM_FIX=pinned,frees,staging: both must expect and print the same, in
20 seconds, and mode fix must have rewritten what the check is about. Then random programs of pinned, frees and staging, for as many seeds as
fit the time. Prints one line a check and 'N passed, N failed, N skipped' at last; --out gets safety.md (a section for RESULTS.md),
safety.json, and differing outputs. The most valuable checks come first. A check that fails raw, too, says nothing of the shim: skipped.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "bench")]
from machine import machine  # noqa: E402
from place import record_place  # noqa: E402

FIX = "pinned,frees,staging"
# Lower than pays: what is tried is whether staging is right.
STAGE_FROM = "64K"
LIMIT_S = 20
# Of what was rewritten, in lines and in the section.
COUNTS = ("hits", "parked", "waits_avoided", "real_frees", "purges", "to_device", "from_device")
REUSED = {"pinned": ("hits", "waits_avoided"), "frees": ("hits", "waits_avoided")}
STAGED = {"staging": ("to_device", "from_device")}


class Check:
    """Name, arguments of the program on a real driver and with --quick, and what must have been rewritten at least once."""

    def __init__(self, name, arguments, quick=None, needs=None, alone=False):
        self.name, self.arguments, self.quick, self.needs, self.alone = name, arguments, quick or arguments, needs or {}, alone


# "SEED" is replaced. The most valuable first; `alone` ones need the whole device.
CHECKS = (
    Check("poison, one thread", "poison SEED 400 1 1 1", "poison SEED 150 1 1 1", REUSED),
    Check("poison, threads that end", "poison SEED 60 6 3 1", "poison SEED 60 4 2 1", REUSED),
    Check("poison, large blocks", "poison SEED 60 2 1 32", "poison SEED 20 2 1 8", REUSED),
    Check("torn reads", "torn 67108864 20", "torn 20000000 8", STAGED),
    Check("sources overwritten at once", "sources 300000 60", "sources 300000 40", {"staging": ("to_device",)}),
    Check("sources overwritten at once, large", "sources 20000000 6", "sources 20000000 3", {"staging": ("to_device",)}),
    Check("persistent kernel", "persistent 2000", "persistent 1200", {**REUSED, **STAGED}),
    Check("host functions write sources", "host-function 8000000 12", "host-function 1000000 6", {"staging": ("to_device",), "pinned": ("parked",)}),
    Check("registered and unmapped", "registered 12", "registered 6", {"staging": ("to_device",)}),
    Check("SYNC_MEMOPS", "sync-memops", None, {"frees": ("hits", "real_frees")}),
    Check("wrong frees", "wrong-frees", None, {"pinned": ("parked",), "frees": ("parked",)}),
    Check("captures", "capturing", None, {"pinned": ("hits",), "frees": ("hits",)}),
    Check("context reset", "reset 6", "reset 2", {"pinned": ("parked",), "frees": ("parked",)}),
    Check("contexts made and destroyed", "contexts 10", "contexts 3", {"pinned": ("parked",), "frees": ("parked",)}),
    Check("fork", "forked", None, {"pinned": ("hits",), "frees": ("parked",)}),
    Check("IPC export after reuse", "exported 4 4194304", "exported 2 4194304", {"frees": ("hits", "real_frees")}),
    Check("IPC export after reuse, small", "exported 2 65536", None, {"frees": ("hits", "real_frees")}),
    Check("exit in the middle", "ends exit"),
    Check("_exit in the middle", "ends _exit"),
    Check("quick_exit in the middle", "ends quick"),
    Check("return in the middle", "ends return"),
    Check("device filled", "full", None, {"frees": ("real_frees", "purges")}, alone=True),
)
RANDOM = {  # program: steps by threads
    "pinned": ((1, 800), (4, 300)),
    "frees": ((1, 800), (4, 300)),
    "staging": ((1, 250), (4, 100)),
}


class Suite:
    def __init__(self, options):
        self.options = options
        self.build, self.out = os.path.abspath(options.build), os.path.abspath(options.out)
        self.programs = os.path.join(self.build, "tests", "programs", "safety")
        self.shim = os.path.abspath(options.shim or os.path.join(self.build, "shim", "libslipstream.so"))
        self.slipstream = os.path.join(self.build, "tools", "slipstream")
        self.end = time.monotonic() + options.minutes * 60
        self.passed = self.failed = self.skipped = 0
        self.rows, self.random = [], {name: {"seeds": [], "calls": 0, "different": [], "unstable": []} for name in RANDOM}
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_LAUNCH")) and name != "LD_PRELOAD"}
        if options.driver:
            self.environment.update(LD_LIBRARY_PATH=os.path.abspath(options.driver), SIMCUDA_COSTS="none", SIMCUDA_SEED=str(options.seed))
        os.makedirs(self.out, exist_ok=True)

    def left(self):
        return max(0, self.end - time.monotonic())

    def say(self, what, name, text=""):
        self.passed += what == "ok"
        self.failed += what == "FAIL"
        self.skipped += what == "skip"
        print(f"{what:5} {name}" + (f": {text}" if text else ""), flush=True)

    def fix(self, folder):
        return {"LD_PRELOAD": self.shim, "SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": FIX, "SLIPSTREAM_STAGE_FROM": STAGE_FROM, "SLIPSTREAM_OUT": folder}


class Run:
    """One run of a program, ended by force when its time is up."""

    def __init__(self, suite, command, variables, before=None):
        begin = time.monotonic()
        command = [os.path.join(suite.programs, command[0])] + [str(word) for word in command[1:]]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            # Files, not pipes: a child that outlives a killed program would keep those open.
            process = subprocess.Popen(command, stdout=out, stderr=error, env={**suite.environment, **variables}, cwd=suite.out,
                                       start_new_session=True, preexec_fn=before)
            try:
                self.status = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.status = f"hangs, killed after {LIMIT_S} s"
                end_group(process)
            out.seek(0)
            error.seek(0)
            self.output, self.error = out.read().decode(errors="replace"), error.read().decode(errors="replace")
        self.seconds = time.monotonic() - begin

    def lines(self):
        return [line for line in self.output.splitlines() if not line.startswith("# ")]

    def figures(self):
        return [line[2:] for line in self.output.splitlines() if line.startswith("# ")]

    def fault(self):
        return "" if self.status == 0 else f"{self.status if isinstance(self.status, str) else f'status {self.status}'}: {first(self.error)}"


def first(text):
    lines = text.strip().splitlines()
    return " | ".join(lines[:2])[:300]


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass  # stuck in the kernel: nothing ends it


def rewritten(suite, folder):
    """{rewrite: {what: count}} of the record files in a folder, which goes."""
    report = os.path.join(folder, "report.json")
    done = subprocess.run([suite.slipstream, "report", "--json", report, "--output", os.devnull, folder], capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode != 0:
        return {}
    with open(report, encoding="utf-8") as file:
        found = json.load(file)["rewrites"]
    return {one["name"]: {key: one[key] for key in COUNTS if one.get(key)} for one in found}


def in_fix(suite, command, before=None, **variables):
    """(Run, what was rewritten)"""
    folder = tempfile.mkdtemp(prefix="slipstream-safety-", dir=record_place())
    try:
        run = Run(suite, command, {**suite.fix(folder), **variables}, before)
        return run, rewritten(suite, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def difference(raw, fixed):
    for one, other in zip(raw + ["the end"], fixed + ["the end"]):
        if one != other:
            return f"raw '{one}', in mode fix '{other}'"
    return ""


def keep(suite, name, raw, fixed):
    with open(os.path.join(suite.out, "differs-" + name.replace(" ", "-").replace(",", "") + ".txt"), "w", encoding="utf-8") as file:
        file.write(f"== raw, {raw.status}\n{raw.output}-- stderr\n{raw.error}\n== fix, {fixed.status}\n{fixed.output}-- stderr\n{fixed.error}\n")


def text_of(counts):
    return "; ".join(f"{name}: " + ", ".join(f"{key} {value}" for key, value in one.items()) for name, one in counts.items() if one)


def judge(suite, name, raw, fixed, counts, needs):
    """(verdict, text)"""
    if raw.fault():
        keep(suite, name, raw, fixed)
        return "skip", f"raw {raw.fault()}" + ("" if fixed.fault() else " (not so in mode fix)")
    fault = fixed.fault()
    if not fault and raw.lines() != fixed.lines():
        fault = difference(raw.lines(), fixed.lines())
    missing = [f"{rewrite} {what}" for rewrite, all_of in needs.items() for what in all_of if not counts.get(rewrite, {}).get(what)]
    if not fault and missing:
        fault = "nothing was tried: no " + ", ".join(missing)
    if fault:
        keep(suite, name, raw, fixed)
        return "FAIL", fault
    figures = f" ({fixed.figures()[-1]})" if fixed.figures() else ""
    return "ok", f"raw {raw.seconds:.1f} s, fix {fixed.seconds:.1f} s; {text_of(counts)}{figures}"


def one_check(suite, check):
    arguments = (check.quick if suite.options.quick else check.arguments).replace("SEED", str(suite.options.seed)).split()
    variables = {"SIMCUDA_MEMORY": str(2 << 30)} if check.alone else {}
    if suite.left() < 3:
        return check, "skip", "no time left", {}, 0, 0
    raw = Run(suite, ["safety"] + arguments, variables)
    fixed, counts = in_fix(suite, ["safety"] + arguments, **variables)
    verdict, text = judge(suite, check.name, raw, fixed, counts, check.needs)
    if verdict == "ok" and check.name == "persistent kernel":
        verdict, text = polled(fixed, verdict, text)
    return check, verdict, text, counts, raw.seconds, fixed.seconds


def polled(fixed, verdict, text):
    """The frees of mode fix did not wait for the kernel: the first that does, and all behind it, come when it polls no more."""
    meanwhile = int(fixed.figures()[-1].split()[6])
    return ("FAIL", f"waited for the kernel: {fixed.figures()[-1]}") if meanwhile < 10 else (verdict, text)


def wanted(suite, name):
    return not suite.options.only or any(word in name for word in suite.options.only)


def part_checks(suite, workers):
    """Several at a time, since they mostly wait; those that need the whole device by themselves, before the time is spent."""
    chosen = [check for check in CHECKS if wanted(suite, check.name)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(one_check, suite, check) for check in chosen if not check.alone]
        results = [future.result() for future in tell_in_order(suite, futures)]
    for check in chosen:
        if check.alone:
            results.append(one_check(suite, check))
            tell(suite, results[-1])


def tell(suite, result):
    check, verdict, text, counts, raw_s, fix_s = result
    suite.rows.append({"check": check.name, "verdict": verdict, "text": text, "counts": counts, "raw_s": raw_s, "fix_s": fix_s})
    suite.say(verdict, check.name, text)


def tell_in_order(suite, futures):
    for future in futures:
        tell(suite, future.result())
        yield future


def row(suite, name, verdict, text, counts=None, raw_s=0, fix_s=0):
    tell(suite, (Check(name, ""), verdict, text, counts or {}, raw_s, fix_s))


def part_killed(suite):
    """SIGKILL with work queued and copies under way: it ends, and the next process works."""
    if not wanted(suite, "SIGKILL"):
        return
    random_ = random.Random(suite.options.seed)
    times = 3 if suite.options.quick else 5
    for number in range(times):
        folder = tempfile.mkdtemp(prefix="slipstream-safety-", dir=record_place())
        try:
            # The first one without mode fix.
            fault = killed(suite, suite.fix(folder) if number else {}, random_.uniform(0.05, 0.4))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if fault:
            return row(suite, "SIGKILL in the middle", "FAIL", f"{number + 1}. of {times}: {fault}")
    after, counts = in_fix(suite, ["safety", "poison", suite.options.seed, 60, 2, 1, 1])
    return row(suite, "SIGKILL in the middle", "FAIL" if after.fault() else "ok", after.fault() or f"{times} times, the first raw; the next process works", counts, 0,
               after.seconds)


def killed(suite, variables, seconds):
    process = subprocess.Popen([os.path.join(suite.programs, "safety"), "busy"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env={**suite.environment, **variables}, start_new_session=True)
    try:
        guard = Guard(process)
        ready = process.stdout.readline()
        guard.off()
        if ready != b"ready\n":
            return f"said {ready!r} instead of ready"
        time.sleep(seconds)
        if process.poll() is not None:
            return f"ended by itself with {process.returncode}"
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            return "does not end when killed"
        return ""
    finally:
        end_group(process)
        process.stdout.close()


class Guard:
    """Kills a process that says nothing."""

    def __init__(self, process):
        self.timer = threading.Timer(LIMIT_S, lambda: end_group(process))
        self.timer.start()

    def off(self):
        self.timer.cancel()


def make_group(limit):
    """(file to write a process into, folder) of a control group with so much memory; OSError where none can be made."""
    name = f"slipstream-safety-{os.getpid()}"
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        folder, file = os.path.join("/sys/fs/cgroup", name), "memory.max"
        os.mkdir(folder)
    else:
        folder, file = os.path.join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
        os.mkdir(folder)
    try:
        with open(os.path.join(folder, file), "w", encoding="ascii") as out:
            out.write(str(limit))
    except OSError:
        os.rmdir(folder)
        raise
    return os.path.join(folder, "cgroup.procs"), folder


def part_group(suite):
    if not wanted(suite, "control group"):
        return
    name, times, limit = "control group with little memory", 28, 2048 << 20
    if suite.options.quick:
        times, limit = 20, 768 << 20
    try:
        tasks, folder = make_group(limit)
    except OSError as error:
        return row(suite, name, "skip", f"this machine makes no group with a limit: {error.strerror}: {error.filename}")

    def enter():
        with open(tasks, "w", encoding="ascii") as out:
            out.write("0")
    try:
        raw = Run(suite, ["safety", "churn", times], {}, enter)
        fixed, counts = in_fix(suite, ["safety", "churn", times], enter)
        row(suite, name, *judge(suite, name, raw, fixed, counts, {"pinned": ("parked",)}), counts, raw.seconds, fixed.seconds)
    finally:
        for _ in range(20):
            try:
                os.rmdir(folder)
                break
            except OSError:
                time.sleep(0.1)


# ---- random programs ----

def comparable(run):
    """Without what no two runs of a real driver have in common: how much memory other programs and the driver itself leave; and whether a small block is
    portable, since it answers for the larger piece that it cut the block from, which another request made."""
    return [" ".join(line.split()[:2]) if line.startswith("info ") else re.sub(r"^flags 0 [23]$", "flags 0 mapped", line) for line in run.lines()]


def one_random(suite, name, seed):
    """[(threads, verdict, text)], what was rewritten"""
    results, total = [], {}
    for threads, steps in RANDOM[name]:
        command = ["random-" + name, seed, steps // 2 if suite.options.quick else steps, threads]
        variables = {"SIMCUDA_SEED": str(seed)}
        raw = Run(suite, command, variables)
        fixed, counts = in_fix(suite, command, **variables)
        for rewrite, one in counts.items():
            for key, value in one.items():
                total.setdefault(rewrite, {})[key] = total.get(rewrite, {}).get(key, 0) + value
        fault = fixed.fault() or difference(comparable(raw), comparable(fixed))
        if not fault and not raw.fault():
            results.append((threads, "ok", ""))
            continue
        # Whose fault: is it the same without the shim from run to run?
        again = Run(suite, command, variables)
        unstable = raw.fault() or again.fault() or difference(comparable(raw), comparable(again))
        keep(suite, f"random {name} {seed} {threads}", raw, fixed)
        results.append((threads, "skip", f"raw: {unstable}") if unstable else (threads, "FAIL", fault))
    return name, seed, results, total


def part_random(suite, workers):
    """Seeds by turns of the three, until the time is over or --seeds are done."""
    if not wanted(suite, "random"):
        return
    jobs = ((name, suite.options.seed + number) for number in range(suite.options.seeds or 1 << 20) for name in RANDOM)
    total = {name: {} for name in RANDOM}
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running, longest = set(), 1.0
        begun = {}
        while True:
            while len(running) < workers and suite.left() > longest + 1:
                job = next(jobs, None)
                if not job:
                    break
                future = pool.submit(one_random, suite, *job)
                begun[future] = time.monotonic()
                running.add(future)
            if not running:
                break
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                longest = max(longest, time.monotonic() - begun[future])
                note_random(suite, *future.result(), total)
    for name, found in suite.random.items():
        kinds = f"{len(found['seeds'])} seeds, {found['calls']} programs of 1 and 4 threads"
        label = f"random programs, {name}"
        if found["different"]:
            row(suite, label, "FAIL", f"{kinds}; {len(found['different'])} differ, the first: {found['different'][0]}", total[name])
        elif not found["seeds"]:
            row(suite, label, "skip", "no time left")
        elif len(found["unstable"]) == found["calls"]:
            row(suite, label, "skip", f"{kinds}; not the same raw, the first: {found['unstable'][0]}")
        elif not any(total[name].get(name, {}).get(key) for key in ("hits", "to_device")):
            row(suite, label, "FAIL", f"{kinds}; nothing was rewritten", total[name])
        else:
            not_same = f"; {len(found['unstable'])} not the same raw from run to run" if found["unstable"] else ""
            row(suite, label, "ok", f"{kinds} the same{not_same}; {text_of(total[name])}", total[name])


def note_random(suite, name, seed, results, counts, total):
    found = suite.random[name]
    found["seeds"].append(seed)
    for threads, verdict, text in results:
        found["calls"] += 1
        if verdict == "FAIL":
            found["different"].append(f"seed {seed}, {threads} threads: {text}")
        elif verdict == "skip":
            found["unstable"].append(f"seed {seed}, {threads} threads: {text}")
    for rewrite, one in counts.items():
        for key, value in one.items():
            total[name].setdefault(rewrite, {})[key] = total[name].get(rewrite, {}).get(key, 0) + value


# ---- results ----

def section(suite, what):
    lines = [
        f"## {what['date']}: safety of mode fix, {what['gpu'] or 'the simulated driver'}, driver {what['driver'] or 'unknown'}", "",
        f"{what['cpu']} ({what['cores']} cores in use), Linux {what['kernel']}, {what['system']}. {what['slipstream']}, commit "
        f"{what['commit'] or 'unknown'}, libslipstream.so sha256 {what['library'] or 'unknown'}. `tests/gpu/safety.py`, seed {suite.options.seed}; each "
        f"check raw and with `SLIPSTREAM_FIX={FIX}` and `SLIPSTREAM_STAGE_FROM={STAGE_FROM}`: the same bytes, statuses and host reads.", "",
        f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped.", "",
        "| check | verdict | raw s | fix s | in mode fix |", "|---|---|---|---|---|",
    ]
    for one in suite.rows:
        seconds = [f"{one[key]:.1f}" if one[key] else "" for key in ("raw_s", "fix_s")]
        text = text_of(one["counts"]) if one["verdict"] == "ok" else one["text"]
        lines.append(f"| {one['check']} | {one['verdict']} | {seconds[0]} | {seconds[1]} | {text.replace('|', '/')} |")
    lines.append("")
    for name, found in suite.random.items():
        if found["seeds"]:
            lines.append(f"- random programs of {name}: seeds {min(found['seeds'])} to {max(found['seeds'])}, {found['calls']} programs raw and in mode fix, "
                         f"{len(found['different'])} different, {len(found['unstable'])} not the same raw from run to run")
    return "\n".join(lines) + "\n"


def write_results(suite, what):
    with open(os.path.join(suite.out, "safety.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": what, "seed": suite.options.seed, "checks": suite.rows, "random": suite.random,
                   "counts": {"passed": suite.passed, "failed": suite.failed, "skipped": suite.skipped}}, file, indent=1)
    with open(os.path.join(suite.out, "safety.md"), "w", encoding="utf-8") as file:
        file.write(section(suite, what))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--quick", action="store_true", help="small sizes, as on the simulated driver")
    parser.add_argument("--only", action="append", metavar="TEXT", help="checks with this in their name; 'random', too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, help="random programs of so many seeds, instead of as many as fit")
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--shim", help="this library instead of the build's")
    parser.add_argument("--workers", type=int, help="checks at a time")
    options = parser.parse_args()
    suite = Suite(options)
    if not os.path.exists(os.path.join(suite.programs, "safety")):
        sys.exit(f"safety: {suite.programs}/safety is missing: the build is not finished")
    what = machine(suite.build)
    workers = options.workers or max(1, min(4, len(os.sched_getaffinity(0)) // 2))
    print(f"safety: seed {options.seed}, {what['gpu'] or 'no GPU'}, driver {what['driver'] or 'unknown'}, {workers} at a time", flush=True)
    for part in (part_checks, lambda all_, _: part_killed(all_), lambda all_, _: part_group(all_), part_random):
        part(suite, workers)
        write_results(suite, what)
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
