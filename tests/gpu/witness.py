#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The witness on a real driver: where its probes lie, its counts against the library's, a running program watched, and what it costs. As root.

    witness.py --build DIR --out DIR [--minutes N] [--part NAME ...] [--driver DIR] [--quick]

Parts, in this order: where, cost, attach (with overhead), counts. Prints lines `ok`, `FAIL` or `skip`; OUT gets witness.md (a section for RESULTS.md),
witness.json, log.txt, reports. --quick: short, and times are told but not judged. Status 77 where bpf() is refused.
"""
import argparse
import concurrent.futures
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from machine import machine  # noqa: E402
from run_all import load, python_has, Suite, tail  # noqa: E402
import witness_places as places  # noqa: E402
import witness_section as section  # noqa: E402
import witness_turns as turning  # noqa: E402

SKIP = 77
PARTS = ("where", "cost", "attach", "counts")
SITES = {1: "nop", 2: "push", 3: "jump", 4: "single-stepped"}
DETACH_MS, OVERHEAD_PERCENT = 100, 0.5  # limits
PAIRS, LEAST_PAIRS = 6, 4
PROGRAMS = (("PyTorch", "torch", "pytorch_mix.py"), ("CuPy", "cupy", "cupy_mix.py"), ("JAX", "jax", "jax_mix.py"), ("Triton", "triton", "triton_mix.py"))
HOLDER = "import ctypes, sys; ctypes.CDLL('libcuda.so.1'); print('ready', flush=True); sys.stdin.read()"


class WitnessSuite(Suite):
    def __init__(self, options):
        super().__init__(options)
        self.tests = os.path.join(self.build, "bpf", "test")
        self.tool = os.path.join(self.tests, "watch-tool")
        self.default = places.default_set(os.path.join(self.build, "bpf", "watch_table_generated.c"))
        # Libraries that the report of a watch needs come with a pack; the programs that are watched do not see them.
        self.tools_environment = dict(self.environment)
        carried = os.path.join(self.build, "lib")
        if os.path.isdir(carried):
            self.tools_environment.update(LD_LIBRARY_PATH=":".join(filter(None, (carried, self.environment.get("LD_LIBRARY_PATH")))),
                                          BABELTRACE_PLUGIN_PATH=os.path.join(carried, "babeltrace2", "plugins"))

    def watch(self, name, *arguments, program=(), while_watching=None):
        """What watch-tool writes; None where it cannot watch. `while_watching` is called once the probes are there, and the watch ends after it."""
        path = os.path.join(self.out, f"{name}.json")
        command = [self.tool, "--output", path, *arguments, *(["--", *program] if program else [])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
        said = []
        try:
            for line in process.stderr:
                said.append(line)
                if line == b"watching\n":
                    if while_watching:
                        while_watching()
                        process.send_signal(signal.SIGTERM)
                    break
            stdout, stderr = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        with open(os.path.join(self.out, "log.txt"), "ab") as log:
            log.write(f"== {name}: status {process.returncode}: {' '.join(command)}\n".encode() + b"".join(said) + stderr)
        return dict(load(path), out=stdout.decode()) if process.returncode == 0 else None


# ---- where ----


def refused(suite, pid, memory, names):
    """Those of the functions that get no probe even when only they are asked for, found by halves."""
    seen = []
    if not names:
        return []
    watched = suite.watch("where-half", "--pid", pid, *(word for name in names for word in ("--function", name)), while_watching=lambda: seen.extend(memory.probed()))
    if watched and set(names) <= set(seen):
        return []
    if len(names) == 1:
        return names
    return refused(suite, pid, memory, names[:len(names) // 2]) + refused(suite, pid, memory, names[len(names) // 2:])


def kind_of(site, code):
    return ("endbr64, " if code.startswith(places.LANDING_PAD) else "") + SITES.get(site, "unknown")


def count_kinds(functions):
    """{kind: {count, first bytes}} of [(name, kind, bytes)], the most frequent first."""
    kinds = {}
    for name, kind, code in functions:
        row = kinds.setdefault(kind, {"functions": [], "begin": {}})
        row["functions"].append(name)
        begin = code[:4].hex(" ")
        row["begin"][begin] = row["begin"].get(begin, 0) + 1
    return dict(sorted(kinds.items(), key=lambda item: -len(item[1]["functions"])))


def part_where(suite):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=suite.environment)
    try:
        if holder.stdout.readline() != b"ready\n":
            return suite.say("skip", "where", "libcuda.so.1 cannot be loaded")
        where_in(suite, str(holder.pid))
    finally:
        holder.kill()
        holder.communicate()
    return None


def where_in(suite, pid):
    path = places.mapped_driver(pid)[0]
    exported = places.exports(path)
    here = [name for name in suite.default if name in exported]
    result = suite.results["where"] = {"library": path, "exported": len(exported), "default": len(suite.default), "default_exported": len(here)}
    aliases = {name for names in places.same_function(exported) if len(names) > 1 for name in names}
    found = {"every": [], "default": []}
    with places.Memory(pid, set(exported)) as memory:
        every = suite.watch("where-every", "--pid", pid, "--every", "--stepped", while_watching=lambda: found["every"].extend(memory.probed()))
        default = suite.watch("where", "--pid", pid, while_watching=lambda: found["default"].extend(memory.probed()))
        sites = {**(default or {}).get("sites", {}), **(every or {}).get("sites", {})}
        probed = set(found["default"])
        missing = [name for name in here if name not in probed]
        library = (default or {}).get("libraries", [])[:1]
        skipped = [name for name in missing if sites.get(name) == 4 and library and library[0]["skipped"]]
        cannot = refused(suite, pid, memory, [name for name in missing if name not in skipped])
        rest = [word for name in here if name not in cannot for word in ("--function", name)]
        if cannot and rest:
            sites.update((suite.watch("where-rest", "--pid", pid, *rest, while_watching=lambda: None) or {}).get("sites", {}))
        left = memory.probed()
    for names in places.same_function(exported):
        site = next((sites[name] for name in names if name in sites), None)
        if site:
            sites.update(dict.fromkeys(names, site))
    extra = sorted(probed - set(suite.default) - aliases)
    result.update(
        kinds=count_kinds([(name, kind_of(sites.get(name), exported[name].code), exported[name].code) for name in here]),
        all_kinds=count_kinds([(name, kind_of(site, exported[name].code), exported[name].code) for name, site in sites.items() if name in exported]),
        probed=len(probed), skipped=skipped, cannot={name: exported[name].code.hex(" ") for name in cannot}, aliases=sorted(aliases), counted=library, said=(default or {}).get("said", []),
        every_probed=len(found["every"]), left=left)
    for kind, row in result["kinds"].items():
        print(f"      {len(row['functions']):4} {kind}: begin with " + ", ".join(f"{begin} ({count})" for begin, count in row["begin"].items()))
    for line in result["said"]:
        print(f"      the watch says: {line}")
    for name, code in result["cannot"].items():
        print(f"      cannot be probed: {name}: {code}")
    for name in skipped:
        print(f"      not watched unless named (single-stepped, frequent): {name}: {exported[name].code.hex(' ')}")
    fault = "; ".join(filter(None, (
        f"{len(cannot)} functions cannot be probed" if cannot else "", f"{len(left)} probes left behind: {', '.join(left[:5])}" if left else "",
        f"probes in functions nobody asked for: {', '.join(extra[:5])}" if extra else "", "" if every else "not all functions can be probed at once",
        "" if default else "the watch did not start", "" if probed else "no probe was seen",
        f"{len(missing) - len(skipped) - len(cannot)} functions get a probe only without the others" if len(missing) > len(skipped) + len(cannot) else "")))
    suite.say("FAIL" if fault else "ok", "where", fault or
              f"{len(probed)} of {len(here)} default functions that {os.path.basename(path)} exports have a probe in memory, "
              f"{len(skipped)} left out, none left behind; of all {len(exported)} exports {result['every_probed']}")


# ---- cost ----


def ns_of(text):
    return {name: (float(ns), what) for ns, name, what in (line.split(maxsplit=2) for line in text.splitlines())}


def part_cost(suite):
    program = [os.path.join(suite.tests, "watch-sites"), "5000" if suite.options.quick else "30000"]
    library = ("--library", os.path.join(suite.tests, "libsites.so"))
    status, out, err, _ = suite.run("cost, bare", program, 30)
    if status:
        return suite.say("FAIL", "cost", f"status {status}: {tail(err)}")
    plain = suite.watch("cost", *library, "--stepped", program=program)
    full = suite.watch("cost-full", *library, "--stepped", "--frames", "16", "--callers", program=program)
    if not plain or not full:
        return suite.say("FAIL", "cost", "the watch did not start")
    bare, probed, stacks = ns_of(out.decode()), ns_of(plain["out"]), ns_of(full["out"])
    rows = suite.results["cost"] = []
    for name, (ns, what) in bare.items():
        rows.append({"site": what, "kind": SITES.get(plain["sites"][name]), "bare_ns": ns, "ns": probed[name][0] - ns, "attach_ns": stacks[name][0] - ns})
        print(f"      {what}: {rows[-1]['ns']:.0f} ns, as slipstream attach watches {rows[-1]['attach_ns']:.0f} ns")
    lost = sum(run[key] for run in (plain, full) for key in ("lost_records", "lost_calls"))
    suite.results["cost_lost"] = lost
    cheap = [row["ns"] for row in rows if row["kind"] != SITES[4]]
    dear = [row["ns"] for row in rows if row["kind"] == SITES[4]]
    fault = f"{lost} calls or records lost" if lost else "no cost was measured" if min(cheap + dear) <= 0 else ""
    return suite.say("FAIL" if fault else "ok", "cost", fault or f"entry and return together {min(cheap):.0f} to {max(cheap):.0f} ns, "
                     f"single-stepped {min(dear):.0f} to {max(dear):.0f} ns")


# ---- attach, overhead ----


def training_command(suite):
    if suite.options.driver:
        return [sys.executable, os.path.join(HERE, "witness_steps.py")]
    return [sys.executable, os.path.join(HERE, "pytorch_train.py")] if python_has(suite, "torch") else None


def part_attach(suite):
    command = training_command(suite)
    if not command:
        return suite.say("skip", "attach", "no Python package torch")
    quick = suite.options.quick
    environment = dict(suite.environment, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    try:
        training = turning.Training(command, suite.out, environment, set(suite.default))
    except turning.Failed as failed:
        return suite.say("FAIL", "attach", str(failed))
    result = suite.results["attach"] = {"program": os.path.basename(command[-1])}
    try:
        time.sleep(1 if quick else 3)
        attached = turning.attach(training, suite.slipstream, suite.tools_environment, 1 if quick else 5, suite.out)
        time.sleep(0.5 if quick else 2)
        after = time.monotonic_ns()
        pid = str(training.process.pid)
        runs = [suite.watch("detach", "--pid", pid, "--detach", "500") for _ in range(1 if quick else 3)]
        result["detach_ms"] = [run["detach_us"] / 1000 for run in runs if run]
        # What counts still has to do takes about 60 s, once it has the machine.
        pairs = 2 if quick else max(LEAST_PAIRS, min(PAIRS, int((suite.left() - 70) / 4)))
        windows, gone = turning.turns(training, suite.witness, suite.tools_environment, suite.out, pairs, 0.5 if quick else 1.5)
        output, steps = training.finish()
        judge_attach(suite, result, attached, after, steps)
        judge_overhead(suite, windows, gone, steps)
    except (turning.Failed, subprocess.TimeoutExpired, OSError) as failed:
        training.kill()
        return suite.say("FAIL", "attach", str(failed))
    # As many steps without anybody; they run beside what comes next, since only their result counts.
    result["steps"] = len(steps.steps)
    suite.later = (training.run_again(len(steps.steps)), output, result)
    return None


def judge_attach(suite, result, attached, after, steps):
    margin = 50_000_000  # ns; probes are looked for every 20 ms
    before = (attached["asked_ns"] - (10 ** 9 if suite.options.quick else 2 * 10 ** 9), attached["asked_ns"])
    times = {"before": before, "while": (attached["in_ns"], attached["first_out_ns"] - margin), "after": (attached["ended_ns"], after)}
    witness = attached["report"]["witness"]
    functions = [function for function in witness["functions"] if function["calls"]]
    result.update(
        step_ms={name: steps.median(window) / 1e6 for name, window in times.items()}, probed=attached["probed"],
        slowest_ms={name: max(steps.within(*window)) / 1e6 for name, window in times.items()},
        detaching_step_ms=max(steps.within(attached["first_out_ns"] - margin, attached["out_ns"] + margin), default=0) / 1e6,
        start_ms=(attached["in_ns"] - attached["asked_ns"]) / 1e6, probes_out_ms=(attached["out_ns"] - attached["first_out_ns"]) / 1e6,
        lost=witness["lost"],
        functions=[{"function": f["function"], "calls": f["calls"], "blocked_ns": f["blocked_ns"], "how": f["how"], "streams": f["streams"],
                    "copies": f["copies"], "switches": f["switches"], "sites": len(f["sites"])} for f in functions])
    print("      median step " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in result["step_ms"].items()) + " (slowest " +
          ", ".join(f"{ms:.1f}" for ms in result["slowest_ms"].values()) + f"; at the detaching {result['detaching_step_ms']:.1f})")
    for function in result["functions"][:6]:
        print(f"      {function['function']}: {function['calls']} calls, blocked {function['blocked_ns'] / 1e6:.1f} ms: {section.how(function['how'])}")
    waits = [function for function in result["functions"] if sum(function["how"].values())]
    limit = None if suite.options.quick else DETACH_MS
    lost = sum(witness["lost"][key] for key in ("records", "calls", "deep", "callers"))
    faults = ["no function with how its threads waited"] * (not waits) + [f"lost: {witness['lost']}"] * bool(lost)
    if not result["detach_ms"]:
        faults.append("no detaching was measured")
    elif limit and max(result["detach_ms"]) > limit:
        faults.append(f"detaching took {max(result['detach_ms']):.1f} ms")
    suite.say("FAIL" if faults else "ok", "attach", "; ".join(faults) or
              f"{attached['probed']} probes, {len(functions)} functions, of {len(waits)} how threads waited; detaching took "
              f"{' '.join(f'{ms:.1f}' for ms in result['detach_ms'])} ms")


def judge_overhead(suite, windows, gone, steps):
    figures, medians = turning.differences(windows, steps)
    low, high, sure = turning.interval(figures)
    median = statistics.median(figures)
    suite.results["overhead"] = {
        "pairs": figures, "median": median, "low": low, "high": high, "sure": sure, "without_ms": statistics.median(medians[::2]) / 1e6,
        "with_ms": statistics.median(medians[1::2]) / 1e6, "gone_ms": gone, "seconds": (windows[0][1] - windows[0][0]) / 1e9}
    faults = [f"only {len(figures)} pairs"] * (len(figures) < (2 if suite.options.quick else LEAST_PAIRS))
    faults += [f"more than {OVERHEAD_PERCENT} %: {median:+.2f} %"] * (median > OVERHEAD_PERCENT and not suite.options.quick)
    suite.say("FAIL" if faults else "ok", "overhead", "; ".join([*faults, (
        f"median of {len(figures)} pairs {median:+.2f} % ({100 * sure:.0f} %: {low:+.2f} to {high:+.2f}; pairs {', '.join(f'{figure:+.2f}' for figure in figures)}), "
        f"step {suite.results['overhead']['without_ms']:.3f} ms; last probe gone {max(gone):.0f} ms after the word")]))


def finish_later(suite):
    """Whether the program that was watched printed what it prints alone."""
    if not suite.later:
        return
    process, expected, result = suite.later
    try:
        output = process.communicate(timeout=max(5, suite.left()))[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        suite.say("skip", "attach: output", "no time left for the program without a watch")
        return
    result["same_output"] = process.returncode == 0 and output == expected and bool(output.strip())
    suite.say("ok" if result["same_output"] else "FAIL", "attach: output",
              f"that of {result['steps']} steps without a watch" if result["same_output"] else f"{expected!r} watched, {output!r} without")


# ---- counts ----


def programs(suite):
    if suite.options.program:
        return [(name, shlex.split(command)) for name, command in (text.split("=", 1) for text in suite.options.program)]
    found = []
    for name, module, script in PROGRAMS:
        if python_has(suite, module):
            found.append((name, [sys.executable, os.path.join(HERE, script)]))
        else:
            suite.say("skip", f"counts: {name}", f"no Python package {module}")
    return found


def compare(report, default, groups):
    """[(functions, what the kernel saw from outside the driver, less the library's own; what the library counted)] of the default set."""
    seen = {function["function"]: function for function in report["witness"]["functions"]}
    counted, wanted, rows = report["calls"]["by_function"], set(default), []
    for names in groups:
        if not wanted & set(names):
            continue
        kernel = sum(seen[name]["wrapper"] + seen[name]["escaped"] + seen[name].get("unknown", 0) for name in names if name in seen)
        shim = sum(counted.get(name, 0) for name in names)
        if kernel or shim:
            rows.append((" = ".join(name for name in names if name in seen or counted.get(name)), kernel, shim))
    return rows


def of_report(report, default, groups, skipped):
    """What counts says of one program, and its faults."""
    witness, coverage = report["witness"], report["witness"]["coverage"]
    rows = [row for row in compare(report, default, groups) if row[0] not in skipped]
    different = [row for row in rows if row[1] != row[2]]
    named = [{"function": item["function"], "calls": item["calls"], "frame": (item["frames"] or [{}])[0]} for item in witness["escaped"]]
    contradicted = [{"function": item["function"], "claim": item["claim"], "calls": item["calls"]} for item in witness["contradicted"]]
    row = {
        "functions": len(rows), "kernel": sum(kernel for _, kernel, _ in rows), "shim": sum(shim for _, _, shim in rows), "different": different,
        "escaped": coverage["escaped"], "unknown": coverage["unknown"], "escapes": named, "claims": witness["claims"], "contradicted": contradicted,
        "proven": coverage["proven"], "lost": witness["lost"], "processes": witness["processes"], "shim_own": coverage["shim_own"],
        "inside": coverage["inside_library"],
    }
    faults = [f"{name}: kernel {kernel}, library {shim}" for name, kernel, shim in different]
    faults += [f"contradicted: {item['function']} ({item['claim']}), {item['calls']} calls" for item in contradicted]
    faults += [f"lost {key}: {count}" for key, count in witness["lost"].items() if count and key != "late"]
    return row, faults + ["no call was seen"] * (not row["kernel"])


def of_fix(report):
    """Calls of mode fix need not reach the driver: here the claims are what counts."""
    row, _ = of_report(report, [], [], ())
    faults = [f"contradicted: {item['function']} ({item['claim']}), {item['calls']} calls" for item in row["contradicted"]]
    faults += [f"escaped: {item['function']}, {item['calls']} calls" for item in row["escapes"]]
    return row, faults + [f"lost {key}: {count}" for key, count in row["lost"].items() if count and key != "late"] + ["no claim"] * (not row["claims"])


def run_counts(suite, name, command, mode, raw, groups):
    title = name + (", mode fix" if mode == "fix" else "")
    path = os.path.join(suite.out, f"counts-{title.lower().replace(',', '').replace(' ', '-')}.json")
    watched = [suite.slipstream, "run", "--witness", "--mode", mode, "--json", path, "--output", os.devnull, "--", *command]
    status, stdout, stderr, seconds = suite.run(f"counts: {title}", watched, 120)
    expected = raw.result()
    if expected[0] not in (0, 3):
        return suite.say("skip", f"counts: {title}", f"does not run by itself: {tail(expected[2])}")
    if status != expected[0] or not os.path.exists(path):
        return suite.say("FAIL", f"counts: {title}", f"status {status}: {tail(stderr)}")
    report = load(path)
    if "witness" not in report:
        return suite.say("FAIL", f"counts: {title}", f"unwatched: {tail(stderr)}")
    skipped = set(suite.results.get("where", {}).get("skipped", ()))
    row, faults = of_fix(report) if mode == "fix" else of_report(report, suite.default, groups, skipped)
    faults += ["other output than without the library"] * (stdout != expected[1])
    row.update(program=title, seconds=seconds, raw_s=expected[3], same_output=stdout == expected[1], faults=faults)
    suite.rows.append(row)
    for item in row["escapes"][:5]:
        print(f"      escaped: {item['function']}, {item['calls']} calls, from {item['frame'].get('function')} in {item['frame'].get('module')}")
    text = (f"{row['kernel']} calls of {row['functions']} functions equal, " if mode == "observe" else f"{row['claims']} claims, ") + (
        f"{row['escaped']} escaped, {row['unknown']} unknown, {len(row['contradicted'])} contradicted, "
        f"{section.percent(row['proven'])} proven, none lost, same output")
    return suite.say("FAIL" if faults else "ok", f"counts: {title}", "; ".join(faults[:8]) or text)


def part_counts(suite):
    found = programs(suite)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        # Beside the watched ones: only what they print is wanted.
        raws = [pool.submit(suite.run, f"{name} raw", command, 120) for name, command in found]
        groups = None
        for number, (name, command) in enumerate(found):
            for mode in ("observe", "fix") if not number else ("observe",):
                if suite.left() < 12 and not suite.options.quick:
                    suite.say("skip", f"counts: {name}", "no time left")
                    continue
                if groups is None:
                    groups = places.same_function(places.exports(library_path(suite)))
                run_counts(suite, name, command, mode, raws[number], groups)


def library_path(suite):
    path = suite.results.get("where", {}).get("library")
    if not path:
        code = HOLDER.replace("print('ready', flush=True); sys.stdin.read()", "print(open('/proc/self/maps').read())")
        out = suite.run("where libcuda is", [sys.executable, "-c", code], 30)[1].decode()
        path = next(line.split(maxsplit=5)[5] for line in out.splitlines() if "/libcuda.so" in line)
    return path


# ---- all of it ----


def write(suite):
    suite.results["counts"] = suite.rows
    suite.results["passed"] = {"passed": suite.passed, "failed": suite.failed, "skipped": suite.skipped}
    with open(os.path.join(suite.out, "witness.json"), "w", encoding="utf-8") as file:
        json.dump(suite.results, file, indent=1)
    with open(os.path.join(suite.out, "witness.md"), "w", encoding="utf-8") as file:
        file.write(section.section(suite.results))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--program", action="append", metavar="NAME=COMMAND", help="counts of this program instead of the suite's own")
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--quick", action="store_true", help="short; times are not judged")
    suite = WitnessSuite(parser.parse_args())
    probe = suite.run("witness --probe", [suite.witness, "--probe"], 20)
    if probe[0]:
        print(f"skip  witness: {tail(probe[2])}")
        return SKIP if probe[0] == SKIP else 1
    suite.later, suite.results["machine"] = None, machine(suite.build)
    for part in PARTS:
        if suite.options.part and part not in suite.options.part:
            continue
        begin = time.monotonic()
        try:
            globals()[f"part_{part}"](suite)
        except (OSError, ValueError, KeyError, TypeError, IndexError, subprocess.SubprocessError) as error:
            suite.say("FAIL", part, f"{type(error).__name__}: {error}")
        suite.results.setdefault("seconds", {})[part] = round(time.monotonic() - begin, 1)
        write(suite)
    finish_later(suite)
    write(suite)
    shutil.rmtree(os.path.join(suite.out, "triton-cache"), ignore_errors=True)
    print("seconds: " + ", ".join(f"{part} {seconds}" for part, seconds in suite.results.get("seconds", {}).items()))
    print(f"{suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
