#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Three programs that pay for implicit waits, as people write them and as they could be written (twins.h), raw and in mode fix by turns in one go.

    twins.py --build BUILD [--driver FOLDER] [--programs NAME,...] [--rounds N] [--frames N] [--seed N] [--rewrites WORDS] [--json FILE] [--check] [--quick]

In each round every form runs once, in random order: naive raw, in mode observe, and in mode fix with all rewrites and each relaxation; ordered, unwaited
and free without the shim. A figure is the median of the rounds, a ratio the median of the rounds' ratios, with the least and the greatest.
Fails if a form leaves other bytes.

    strict       strict-free: a free waits as the driver's does
    fix          relax=free, the default: what the limit is for
    order        strict-free,order
    relaxed      free,order

Against `ordered` is judged what keeps every documented wait (strict, fix); against `unwaited` what leaves out the wait of copies (order, relaxed).
"recovered" is the part of what lies between naive raw and free. Below stand the calls that the fixed program waited in, by rule, us a frame (of its report; the first frames included): what is left.
`--check`: fix takes more than 1.05 times as long as ordered (the least of the rounds, too).
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

import by_turns
from place import record_place

LIMIT = 1.05
# Program of twins.c, and its words. Small frames: copies that relax=order is for.
PROGRAMS = {
    "upload": ("upload", ["--kernel-us=300"]), "upload-small": ("upload", ["--kernel-us=100", "--kib=1024"]),
    "churn": ("churn", ["--kernel-us=100"]), "download": ("download", ["--kernel-us=1000", "--cpu-us=1000"]),
}
# What the rewrites must have done in each: a benchmark without them would say nothing.
DONE = {"upload": ("staging", "to_device"), "upload-small": ("frees", "hits"), "churn": ("pinned", "hits"), "download": ("staging", "from_device")}
BY_HAND = ("ordered", "unwaited", "free")
RELAX = {"strict": "strict-free", "fix": "free", "order": "strict-free,order", "relaxed": "free,order"}
TWIN_OF = {"strict": "ordered", "fix": "ordered", "order": "unwaited", "relaxed": "unwaited"}
FORMS = ("raw", "observe", *RELAX, *BY_HAND)


def report_of(options, environment, folder):
    path = os.path.join(folder, "report.json")
    # Its status tells of waits, too.
    subprocess.run([os.path.join(options.build, "tools/slipstream"), "report", "--json=" + path, folder], env=environment, capture_output=True, check=False)
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def run(options, program, form):
    """(us a frame of the first, and of those that count; digest; the report)"""
    name, own = PROGRAMS[program]
    words = [f"--frames={options.frames}", f"--first={options.first}", f"--kib={options.kib}", *own]
    if options.quick:
        words += ["--kernel-us=100", "--cpu-us=100"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"}
    if options.driver:
        clean.update(LD_LIBRARY_PATH=options.driver, SIMCUDA_COSTS="measured")
    environment = dict(clean)
    with tempfile.TemporaryDirectory(dir=record_place()) as folder:
        if form not in ("raw", *BY_HAND):
            environment.update(LD_PRELOAD=os.path.join(options.build, "shim/libslipstream.so"), SLIPSTREAM_OUT=folder,
                               SLIPSTREAM_MODE="observe" if form == "observe" else "fix", SLIPSTREAM_FIX=options.rewrites)
            if form in RELAX:
                environment["SLIPSTREAM_RELAX"] = RELAX[form]
            if options.stage_from:
                environment["SLIPSTREAM_STAGE_FROM"] = options.stage_from
        command = [os.path.join(options.build, "tests/bench/twins"), name, form if form in BY_HAND else "naive", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
        if done.returncode == by_turns.NOTHING_HERE:
            print(done.stderr.strip())
            sys.exit(by_turns.NOTHING_HERE)
        if done.returncode:
            sys.exit(f"twins {program} {form}: status {done.returncode}: {done.stderr.strip()}")
        told = dict(line.split() for line in done.stdout.splitlines())
        report = report_of(options, clean, folder) if "LD_PRELOAD" in environment else None
    if report:
        bad = [note["text"] for note in report["coverage"]["notes"] if note["code"] == "config"]
        if bad:
            sys.exit(f"twins {program}: {bad[0]}")
    if form in RELAX:
        objections = [note for note in json.dumps(report).split('"') if note.startswith("off: ")]
        if objections:
            sys.exit(f"twins {program}: rewrites were off: {objections[0]}")
    return {"first_us": int(told["first"]) / 1e3, "us": int(told["frame"]) / 1e3, "digest": told["digest"], "report": report}


def left(report, frames):
    """What the program still waited in: [(us a frame, calls a frame, rule, function)], the longest first."""
    rules = {}
    for sync in report["syncs"]:
        if sync["class"] == "device":
            continue
        one = rules.setdefault((sync["class"], sync["rule"], sync["function"]), [0, 0])
        one[0] += sync["blocked_ns"] / 1e3 / frames
        one[1] += sync["count"] / frames
    return sorted(((us, calls, *which) for which, (us, calls) in rules.items() if us >= 0.05), reverse=True)


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "greatest": max(values)}


def show(name, value, unit=""):
    return f"{name} {value['median']:.3f}{unit} [{value['least']:.3f}, {value['greatest']:.3f}]"


def judge(options, program, rounds):
    """Figures of one program; prints them."""
    figures, frames = {"forms": {}, "settings": {}}, options.frames + options.first
    print(f"{program}: us a frame, median [least, greatest] of {len(rounds)} rounds; the first {options.first} frames, each")
    for form in FORMS:
        us, first = spread([one[form]["us"] for one in rounds]), spread([one[form]["first_us"] for one in rounds])
        figures["forms"][form] = {"us": us, "first_us": first}
        print(f"    {form:9} {us['median']:9.1f} [{us['least']:.1f}, {us['greatest']:.1f}]   {first['median']:9.1f}")
    for setting, relax in RELAX.items():
        twin = TWIN_OF[setting]
        ratio = spread([one[setting]["us"] / one[twin]["us"] for one in rounds])
        other = spread([one[setting]["us"] / one["unwaited" if twin == "ordered" else "ordered"]["us"] for one in rounds])
        gap = figures["forms"]["raw"]["us"]["median"] - figures["forms"]["free"]["us"]["median"]
        recovered = (figures["forms"]["raw"]["us"]["median"] - figures["forms"][setting]["us"]["median"]) / gap if gap > 0 else None
        report = rounds[-1][setting]["report"]
        rest = left(report, frames)
        figures["settings"][setting] = {
            "relax": relax, "twin": twin, "ratio": ratio, "other_ratio": other, "recovered": recovered,
            "left": [dict(zip(("us", "calls", "class", "rule", "function"), one)) for one in rest],
            "rewrites": {one["name"]: {key: value for key, value in one.items() if isinstance(value, int) and value} for one in report["rewrites"]},
            "notes": {note["text"]: note["count"] for note in report["coverage"]["notes"] if note["code"] == "rewrite"},
        }
        share = f"{100 * recovered:.0f} %" if recovered is not None else "none: raw is not slower than free"
        print(f"  {setting} ({relax}): {show('times ' + twin, ratio)}; recovered {share}")
        name, what = DONE[program]
        if setting == "fix" and not figures["settings"][setting]["rewrites"].get(name, {}).get(what):
            sys.exit(f"twins {program}: {name}: {what} is 0")
        for us, calls, kind, rule, function in rest[:4]:
            print(f"      {us:9.1f} us, {calls:.2f} calls: {kind} {rule} in {function}")
        for text, count in sorted(figures["settings"][setting]["notes"].items(), key=lambda item: -item[1])[:3]:
            print(f"      left to the driver {count} times: {text}")
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    by_turns.add_options(parser)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--first", type=int, default=32, help="frames before those that count, two batches of churn: what is made once is made then")
    parser.add_argument("--kib", type=int, default=16 << 10, help="of a frame")
    parser.add_argument("--rewrites", default="pinned,frees,staging,streams")
    parser.add_argument("--stage-from", metavar="SIZE", help="copies are staged from here on, instead of the default")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few and small frames: tries the benchmark, not the shim")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.frames, options.first, options.kib = 1, 8, 3, 5 << 10
        options.programs = options.programs.replace(",upload-small", "")
    unknown = set(options.programs.split(",")) - set(PROGRAMS)
    if unknown or options.rounds < 1:
        parser.error(f"no such program: {', '.join(unknown)}" if unknown else "--rounds: at least 1")
    turns, over, results = random.Random(options.seed), [], {"seed": options.seed, "frames": options.frames, "kib": options.kib, "programs": {}}
    for program in options.programs.split(","):
        rounds = []
        for _ in range(options.rounds):
            order = list(FORMS)
            turns.shuffle(order)
            rounds.append({form: run(options, program, form) for form in order})
        digests = {form: one[form]["digest"] for one in rounds for form in FORMS}
        if len(set(digests.values())) != 1 or any(one[form]["digest"] != digests[form] for one in rounds for form in FORMS):
            sys.exit(f"twins {program}: not the same bytes: {digests}")
        figures = judge(options, program, rounds)
        results["programs"][program] = figures
        if figures["settings"]["fix"]["ratio"]["least"] > LIMIT:
            over.append(f"{program}: mode fix takes {figures['settings']['fix']['ratio']['median']:.3f} times as long as the ordered twin")
    by_turns.write_json(options, results)
    if options.check and over:
        sys.exit("; ".join(over))


if __name__ == "__main__":
    main()
