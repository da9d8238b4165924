#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A section for RESULTS.md from what a run of the suite left.

    results_section.py OUT

Reads OUT/results.json; writes Markdown to standard output. run_all.py writes the same to
OUT/results.md.
"""
import json
import os
import sys


def head(results):
    machine = results.get("machine", {})
    versions = ", ".join(f"{name} {version}" for name, version in machine.get("versions", {}).items())
    counts = results.get("counts", {})
    return [
        f"## {machine.get('date', 'no date')}: {machine.get('gpu') or 'no GPU'}, driver {machine.get('driver') or 'unknown'}", "",
        f"{machine.get('cpu', '')} ({machine.get('cores', '?')} cores in use), Linux {machine.get('kernel', '?')}, {machine.get('system', '?')}. "
        f"{machine.get('slipstream', '')}, commit {machine.get('commit') or 'unknown'}, libslipstream.so sha256 "
        f"{machine.get('library') or 'unknown'}.", "", f"Versions: {versions}.", "",
        f"Parts: {counts.get('passed', 0)} passed, {counts.get('failed', 0)} failed, {counts.get('skipped', 0)} skipped.", "",
    ]


def programs(results):
    rows = results.get("programs", [])
    if not rows:
        return []
    lines = [
        "### Unmodified programs", "",
        "| program | same output | calls | kernel's counts | processes (forked) | implicit rules seen | blocked ms | raw s | observe s | overhead | "
        "report s | unwrapped functions called |", "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        figures = row.get("witness_figures", {})
        overhead = (row["shim_s"] / row["raw_s"] - 1) * 100
        lines.append(
            f"| {row['program']} | {'yes' if row['same_output'] else 'no'} | {row['calls']} | {row['witness']} ({figures.get('kernel', '-')}; own "
            f"{figures.get('shim_own', '-')}) | {row['processes']} ({row['forked']}) | {', '.join(row['rules']) or 'none'} | {row['blocked_ms']:.1f} | "
            f"{row['raw_s']:.2f} | {row['shim_s']:.2f} | {overhead:+.1f} % | {row['report_s']:.2f} | {', '.join(row['unwrapped_called']) or 'none'} |")
    lines.append("")
    rounds = ", ".join(f"{row['program']} {len(row['raw_runs'])}" for row in rows)
    lines += [
        f"raw and observe: median wall time by turns (rounds: {rounds}); overhead is the program's own, the report is made afterwards. The counts are of "
        "another run, by `slipstream run` under the witness, so the number of calls may differ a little where a program's own does.", "",
    ]
    for row in rows:
        if row.get("checks"):
            lines += [f"- {row['program']}: {fault}" for fault in row["checks"]] + [""]
        if row["witness"] not in ("equal", "not run"):
            lines += [f"- {row['program']}, counts: {line}" for line in row.get("witness_lines", [])[:10]] + [""]
    doubts = [(row["program"], "; ".join(row.get("reasons", []))) for row in rows if row.get("inconclusive")]
    if doubts:
        lines += [
            "Inconclusive (what was found is listed, but a check for \"no implicit wait\" could not pass): " + ", ".join(
                f"{name} ({reasons})" for name, reasons in doubts) + ".", "",
        ]
    lines += [
        f"Python {results.get('machine', {}).get('versions', {}).get('Python', '?')}, call sites with Python frames: " + ", ".join(
            f"{row['program']} {row['python_sites']} of {row['sites']}" + "".join(f" ({note})" for note in row["python_notes"])
            for row in rows if row["python_sites"] or row["python_notes"]) + ".", "",
    ]
    names = sorted({name for row in rows for name in row["unwrapped_names"]})
    exported = max(row["exported"] for row in rows)
    lines += [f"Exported functions without wrapper, counted only ({len(names)} of {exported}): {', '.join(names) or 'none'}.", ""]
    return lines


def single_parts(results):
    lines = []
    if "demo" in results:
        lines.append(f"- demo: {len(results['demo']['rules'])} rules: {', '.join(results['demo']['rules'])}")
    if "table" in results:
        lines.append(f"- measured table, call by stream kind: {results['table']['summary']}")
    if "attribute" in results:
        lines.append(f"- candidates made certain (`--attribute`): {results['attribute']['summary']}")
    if "off" in results:
        lines.append(f"- `SLIPSTREAM_MODE=off`: {'same output, no record' if results['off']['same_output'] else 'FAILED'}")
    if "calibrate" in results:
        calibrate = results["calibrate"]
        differences = [line for line in calibrate["differences"] if line.strip()]
        against = f"; against the committed table: {'; '.join(differences) or 'no difference'}" if calibrate["compared"] else ""
        lines.append(f"- calibrate: {calibrate['seconds']:.0f} s{against}")
        if calibrate.get("facts"):
            lines.append(f"  - facts: {', '.join(fact.replace(' ', ' = ') for fact in calibrate['facts'])}")
    return ["### Single parts", ""] + lines + [""] if lines else []


def benchmark(results):
    figures = results.get("overhead")
    if not figures:
        return []
    lines = ["### Cost", ""]
    if "paired" in figures:
        facts = figures.get("paired_facts", {})
        lines += [
            "Wrapper against the driver's own address in one process, bursts by turns; medians of the paired differences, 95 % interval over the "
            f"processes (seed {facts.get('seed')}; reading the clock costs {facts.get('clock_ns', '?')} ns, the tick counter {facts.get('tick_ns', '?')} ns):",
            "", "| call | raw ns | added ns | interval | added % | limit |", "|---|---|---|---|---|---|",
        ]
        for name, cell in figures["paired"].items():
            limit = f"{cell['limit']} {cell['unit']}" if cell["limit"] is not None else ""
            lines.append(f"| {name} | {cell['raw_ns']:.1f} | {cell['added_ns']:+.2f} | {cell['low_ns']:+.2f} to {cell['high_ns']:+.2f} | "
                         f"{cell['added_percent']:+.2f} | {limit} |")
        lines.append("")
    if "process" in figures:
        lines += ["Between processes (range over the rounds), as further information:", "", "| figure | raw | with the shim |", "|---|---|---|"]
        for name, both in figures["process"].items():
            lines.append(f"| {name} | {both['raw']:.1f} ({min(both['raw_samples']):.1f} to {max(both['raw_samples']):.1f}) | {both['shim']:.1f} "
                         f"({min(both['shim_samples']):.1f} to {max(both['shim_samples']):.1f}) |")
        lines.append("")
    if "start" in figures:
        start = figures["start"]
        lines += ["| process start | raw ms | added ms | interval | of the minima |", "|---|---|---|---|---|"]
        for name in ("wall", "without_cuda", "open_and_set_up", "set_up", "rest"):
            one = start[name]
            lines.append(f"| {name} | {one['raw_ms']:.2f} | {one['added_ms']:+.3f} | {one['low_ms']:+.3f} to {one['high_ms']:+.3f} | "
                         f"{one['added_minima_ms']:+.3f} |")
        lines += ["", f"The shim's own work at start (without_cuda + open_and_set_up): {start['own_ms']:.3f} ms, limit {start['limit_ms']} ms.", ""]
    if "flat" in figures:
        flat = figures["flat"]
        lines += [
            f"Growth over {flat['calls']} calls and {flat['launches']} launches: resident {flat['resident_growth_kib']['shim']:.0f} KiB (raw "
            f"{flat['resident_growth_kib']['raw']:.0f}), records {flat['recorded_growth_kib']['shim']:.0f} KiB.", "",
        ]
    lines += [f"Over the limit: {', '.join(figures['over'])}." if figures.get("over") else "Every figure is within its limit.", ""]
    return lines


def section(results):
    return "\n".join(head(results) + programs(results) + single_parts(results) + benchmark(results))


def main():
    if len(sys.argv) != 2:
        print("usage: results_section.py OUT", file=sys.stderr)
        return 2
    path = os.path.join(sys.argv[1], "results.json")
    try:
        with open(path, encoding="utf-8") as file:
            print(section(json.load(file)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"results_section: {path}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
