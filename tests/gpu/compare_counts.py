#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hold the shim's counts against the witness's, function by function.

    compare_counts.py WITNESS.json SLIPSTREAM.json [--json FILE]

For each function, the calls that the kernel saw coming from outside the driver, less the shim's own, must equal the shim's count. A
wrapper either calls the driver, and then the return address lies in the wrapper of that very name, or counts and jumps to it, and
then it lies in the program. The shim's own calls are told apart by the function that made them. A call that came past the shim is one the
kernel saw and the shim did not count. The driver's calls of its own exports are not compared. Status: 0 equal, 1 different, 3 not to be known (the witness lost calls or could not place some).
"""
import argparse
import json
import sys


def compare(witness, report):
    """(verdict, lines, figures): verdict "equal", "different" or "inconclusive"."""
    counted = report["calls"]["by_function"]
    unwrapped = set(report["coverage"]["unwrapped_names"])
    seen = witness["functions"]
    lines, unknown, outside, own = [], 0, 0, 0
    for name in sorted(set(counted) | set(seen)):
        call = seen.get(name, {})
        shim = counted.get(name, 0)
        wrapper = call.get("wrapper", 0)
        elsewhere = call.get("elsewhere", {})
        unknown += call.get("unknown", 0)
        own += sum(call.get("shim_own", {}).values())
        outside += wrapper + sum(elsewhere.values())
        kernel = wrapper + sum(elsewhere.values())
        if kernel != shim:
            callers = ", ".join(f"{count} from {module}" for module, count in sorted(elsewhere.items()))
            lines.append(f"{name}: kernel {kernel}, shim {shim}" + (f" ({callers})" if callers else ""))
        if wrapper and name in unwrapped:
            lines.append(f"{name}: called by a wrapper, yet said to be unwrapped")
    figures = {
        "shim": sum(counted.values()), "kernel": outside, "shim_own": own, "functions": len([n for n in counted if counted[n]]),
        "unwrapped_called": sorted(name for name in unwrapped if counted.get(name)), "unknown": unknown, "lost": witness["lost"],
    }
    if witness["lost"] or unknown:
        lines.insert(0, f"the witness lost {witness['lost']} calls and could not place {unknown}")
        return "inconclusive", lines, figures
    if not figures["shim"] and not outside:
        return "inconclusive", ["no call was seen by either"], figures
    return "different" if lines else "equal", lines, figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("witness")
    parser.add_argument("report")
    parser.add_argument("--json", help="write verdict, lines and figures there")
    options = parser.parse_args()
    try:
        with open(options.witness, encoding="utf-8") as file:
            witness = json.load(file)
        with open(options.report, encoding="utf-8") as file:
            report = json.load(file)
        verdict, lines, figures = compare(witness, report)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"compare_counts: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    print(f"{verdict}: kernel {figures['kernel']}, shim {figures['shim']} calls of {figures['functions']} functions; "
          f"the shim's own: {figures['shim_own']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"verdict": verdict, "lines": lines, "figures": figures}, file, indent=1)
    return {"equal": 0, "different": 1, "inconclusive": 3}[verdict]


if __name__ == "__main__":
    sys.exit(main())
