#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a launch costs in each mode, and the rewrite of the legacy default stream (streams.c): raw and with the shim by turns in one process.

    streams.py --build BUILD [--driver FOLDER] [--parts only,idle,dirty] [--streams 1,4,16,64] [--settings observe,control,default,eager]
               [--pairs N]
               [--processes N] [--seed N] [--json FILE] [--check] [--quick]
    streams.py --build BUILD --driver FOLDER --instructions [--json FILE] [--quick]

    observe     mode observe
    control     mode fix without the rewrite: what wrappers add by themselves
    default     with it
    eager       with it, and LEGACY_AFTER=0: each operation that can goes to the substitute, so that every barrier is there

only    launches on the legacy stream alone, 500 deep: at most 1 % more than raw.
idle    ns a launch where the rewrite has nothing to do, and what of it is over control.
dirty   us of one launch on the legacy stream and the next launch of each of N blocking streams. Raw is the driver's native join.
        chain   all of it. The difference has the wrappers' own cost of N + 1 launches in it
        join    less a second launch of each blocking stream, which needs no barrier: what is left is the legacy launch and what legacy order adds to
                the others, post barriers and all. The wrappers' cost of N launches falls out within one process. At most 1 us more than raw,
                with default, where the context stays native, and with eager, which has the barriers
        launch  the legacy launch alone
        rows    64 launches on the legacy stream, and the next of each
        "over control": the difference less that of control, which is of other processes; where it is small beside the difference, it says little.

What the rewrite did in a process stands beside each figure: operations that went to the substitute, barriers, turns; and whether the setting has barriers in this cell
at all. `--check` holds default against both limits, and eager against that of join.
--instructions: by callgrind, on the simulated driver, instructions in the shim of what a cell counts: a first look without a GPU.
"""
import argparse
import collections
import os
import statistics
import sys
import tempfile

import by_turns
import calls

ONLY_LIMIT_PERCENT = 1
DIRTY_LIMIT_US = 1
OTHERS = "pinned,frees,staging"
# Mode, rewrites, SLIPSTREAM_LEGACY_AFTER.
SETTINGS = {"observe": ("observe", OTHERS, "16"), "control": ("fix", OTHERS, "16"), "default": ("fix", OTHERS + ",streams", "16"),
            "eager": ("fix", OTHERS + ",streams", "0")}
COUNTED = (("null_only", 1), ("blocking_alone", 1), ("non_blocking_alone", 1), ("blocking_mixed", 1), ("non_blocking_mixed", 1), ("null_mixed", 1),
           ("chain", 1), ("chain", 4), ("chain", 16), ("chain", 64), ("join", 64), ("rows", 16))


def cells(options, part, count, setting):
    """{cell: medians over the processes}, and what the rewrite did in the last."""
    found, counts = {}, {}
    mode, rewrites, after = SETTINGS[setting]
    for process in range(options.processes):
        arguments = [part, str(count), str(options.pairs), str(options.seed + process)]
        lines, told = by_turns.run(options, "streams", arguments, mode, rewrites=rewrites, more={"SLIPSTREAM_LEGACY_AFTER": after})
        counts = {key: value for key, value in told.get("streams", {}).items() if isinstance(value, int)}
        for words in lines:
            found.setdefault(words[1], []).append({words[i]: float(words[i + 1]) for i in range(3, len(words), 2)})
    if part == "dirty" and setting == "eager" and not (counts.get("redirected") and counts.get("barriers")):
        sys.exit(f"streams: nothing was rewritten with {count} streams: {counts}")
    return {name: {
        "raw": statistics.median(run["raw"] for run in runs), "wrapped": statistics.median(run["wrapped"] for run in runs),
        "difference": statistics.median(run["difference"] for run in runs), "low": min(run["low"] for run in runs),
        "high": max(run["high"] for run in runs), "runs": runs,
    } for name, runs in found.items()}, counts


def over_control(results, part, count, setting, name):
    control = results[part].get(f"{count}", {}).get("control")
    return results[part][f"{count}"][setting]["cells"][name]["difference"] - control["cells"][name]["difference"] if control else None


def told(setting, counts):
    """What was compared with raw."""
    if setting in ("observe", "control"):
        return "no rewrite"
    did = ", ".join(f"{counts.get(name, 0)} {name}" for name in ("redirected", "barriers", "turns"))
    return f"{'barriers of ours' if counts.get('barriers') else 'native'}: {did}"


def measure(options):
    results, over = {"seed": options.seed, "pairs": options.pairs, "processes": options.processes}, []
    settings = options.settings.split(",")
    for part in options.parts.split(","):
        results[part] = {}
        for count in [int(word) for word in options.streams.split(",")] if part == "dirty" else [1]:
            results[part][f"{count}"] = {}
            for setting in [one for one in SETTINGS if one in settings and (part == "dirty" or one != "eager")]:
                found, counts = cells(options, part, count, setting)
                results[part][f"{count}"][setting] = {"cells": found, "counts": counts}
                for name, cell in found.items():
                    more = over_control(results, part, count, setting, name)
                    cell["over_control"] = more
                    unit, size = ("us", 1e3) if part == "dirty" else ("ns", 1)
                    text = f"{part:5} {count:3} {setting:8} {name:19} raw {cell['raw'] / size:9.2f} {unit}  added {cell['difference'] / size:+8.2f} " \
                           f"[{cell['low'] / size:+.2f}, {cell['high'] / size:+.2f}]"
                    if part == "dirty":
                        text += f"  over control {more / size:+.2f}" if more is not None else ""
                        if name == "join" and setting not in ("observe", "control"):
                            text += f" (limit {DIRTY_LIMIT_US})"
                            if cell["difference"] / size > DIRTY_LIMIT_US:
                                over.append(f"{count} streams, {setting}: {cell['difference'] / size:.2f} us over the native join ({told(setting, counts)})")
                    else:
                        percent = 100 * cell["difference"] / cell["raw"]
                        text += f"  {percent:+.2f} %" + (f"  over control {more:+.2f}" if more is not None else "")
                        if name == "null_only" and setting == "default":
                            text += f" (limit {ONLY_LIMIT_PERCENT} %)"
                            if percent > ONLY_LIMIT_PERCENT:
                                over.append(f"the legacy stream alone: {percent:.2f} % more")
                    print(f"{text}  [{told(setting, counts)}]", flush=True)
    results["over"] = over
    return results, over


def counted(options, name, count, setting):
    """Instructions of the shim by function, of what the cell counts, and the cache lines of its code."""
    functions, program = collections.Counter(), [os.path.join(options.build, "tests/bench/streams"), "count", name, str(count)]
    with tempfile.TemporaryDirectory() as folder:
        mode, rewrites, after = SETTINGS[setting]
        environment, out = calls.environment_of(options, mode, folder), os.path.join(folder, "callgrind.out")
        environment.update(SLIPSTREAM_FIX=rewrites, SLIPSTREAM_LEGACY_AFTER=after)
        # So slow a launch is taken for one that waits.
        environment["SLIPSTREAM_THRESHOLD"] = "100s"
        units = int(calls.run(["valgrind", "--tool=callgrind", "--toggle-collect=calls_measured", "--dump-instr=yes", "--callgrind-out-file=" + out,
                               *program], environment))
        for line in calls.run(["callgrind_annotate", "--auto=no", "--threshold=100", out], os.environ).splitlines():
            found = calls.LINE.match(line)
            if found and os.path.basename(found[3] or "") == "libslipstream.so":
                functions[": ".join(part.rsplit("/", 1)[-1] for part in found[2].rsplit(":", 1))] += int(found[1].replace(",", "")) / units
        return functions, calls.code_lines(out, units)


def instructions(options):
    every = []
    print("cell                  streams  setting   instructions of the shim   cache lines of its code")
    for name, count in COUNTED[3:4] if options.quick else COUNTED:
        for setting in SETTINGS:
            functions, lines = counted(options, name, count, setting)
            total = sum(functions.values())
            every.append({"cell": name, "streams": count, "setting": setting, "instructions": total, "functions": functions, "code_lines": lines})
            print(f"{name:20} {count:8}  {setting:8} {total:26.1f} {lines:25}", flush=True)
            for function, each in functions.most_common(options.most):
                print(f"            {each:9.1f}  {function}")
            if not total:
                sys.exit(f"streams: {name}: nothing of the shim was counted")
    return {"instructions": every}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    by_turns.add_options(parser)
    parser.add_argument("--parts", default="only,idle,dirty")
    parser.add_argument("--streams", default="1,4,16,64")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--pairs", type=int, default=100, help="of bursts a process")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--most", type=int, default=0, help="functions to print with --instructions")
    parser.add_argument("--check", action="store_true", help="status 1 if a limit is passed")
    parser.add_argument("--quick", action="store_true", help="few bursts: tries the benchmark, not the shim")
    options = parser.parse_args()
    if options.quick:
        options.pairs, options.processes, options.streams = 5, 1, "1,4"
    if options.instructions:
        if not calls.shutil.which("valgrind") or not options.driver:
            print("needs valgrind, and --driver with the simulated one")
            sys.exit(by_turns.NOTHING_HERE)
        by_turns.write_json(options, instructions(options))
        return 0
    results, over = measure(options)
    by_turns.write_json(options, results)
    if over:
        print(f"over the limit: {'; '.join(over)}", file=sys.stderr)
    return 1 if options.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
