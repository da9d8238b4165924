#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What --check of copies.py, frees.py, upload.py and pinned.py fails for, on programs that print what they are told: each limit of issue 4 is held.

    check_limits.py
"""
import json
import os
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Stand in for the programs and for `slipstream report`; FIGURES is a JSON file of what to print.
PROGRAM = r'''#!{python}
import json, os, sys
with open({figures!r}, encoding="utf-8") as file:
    figures = json.load(file)
if os.environ.get("SLIPSTREAM_FIX") not in (None, figures["rewrites_wanted"]):
    sys.exit("other rewrites: " + os.environ["SLIPSTREAM_FIX"])
side = "fix" if os.environ.get("SLIPSTREAM_MODE") else "raw"
print("\n".join(figures[side]))
'''
REPORT = r'''#!{python}
import json, sys
with open({figures!r}, encoding="utf-8") as file:
    rewrites = json.load(file)["rewrites"]
path = next(word for word in sys.argv if word.startswith("--json=")).partition("=")[2]
with open(path, "w", encoding="utf-8") as file:
    json.dump({{"coverage": {{"notes": []}}, "rewrites": rewrites}}, file)
'''
ALL = "pinned,frees,staging"
REWRITE = dict.fromkeys(("hits", "misses", "unproven", "parked", "real_frees", "queries", "events", "peak_bytes", "live_bytes", "limit_bytes"), 0)


def run(program, figures, words):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"rewrites_wanted": ALL, "rewrites": [], **figures}, file)
        for place, text in ((f"tests/bench/{program}", PROGRAM), ("tools/slipstream", REPORT)):
            place = os.path.join(folder, place)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text.format(python=sys.executable, figures=path))
            os.chmod(place, os.stat(place).st_mode | stat.S_IXUSR)
        # No library stands where the shim is: the loader says so, and goes on.
        done = subprocess.run([sys.executable, os.path.join(HERE, program + ".py"), "--build", folder, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def expect(what, found, status, text=""):
    if found[0] != status or text not in found[1]:
        sys.exit(f"{what}: status {found[0]}, not {status}, or not said: {text}\n{found[1]}")


# ---- copies.py ----

def copies_cell(direction="to", form="sync", state="idle", size=256 << 20, figure="whole", us=5000.0, ratio=(0.5, 0.4, 0.6), difference=(-9.0, -10.0, -8.0)):
    return f"cell {direction} {form} {state} {size} {figure} 20 10000.0 {us} " + " ".join(f"{number:.4f}" for number in (*ratio, *difference))


def copies(cells, *words):
    staging = [{"name": "staging", "to_device": 9, "from_device": 9}]
    return run("copies", {"fix": ["cold_mib 0", "idle_copies_of_4m 3", *cells], "raw": [], "rewrites": staging}, ["--sources", "warm", *words])


def check_copies():
    # 256 MiB in 5966 us are 45 GB/s, in 6711 us 40.
    fast = [copies_cell(us=5900.0), copies_cell("from", us=6600.0)]
    slower = copies_cell(size=1, ratio=(1.2, 1.1, 1.3), difference=(0.5, 0.4, 0.6))
    undecided = copies_cell("from", "sync-2d", size=4096, ratio=(1.0, 0.9, 1.2), difference=(0.1, -0.4, 0.6))
    expect("fast copies", copies(fast, "--check"), 0, "0 speeds missed")
    expect("fast copies, their speed", copies(fast, "--check"), 0, "45.5 GB/s, at least 45 wanted")
    expect("within 5 %", copies([*fast, copies_cell(size=1, ratio=(1.04, 1.03, 1.05), difference=(9, 9, 9))], "--check"), 0)
    expect("within 0.3 us", copies([*fast, copies_cell(size=1, ratio=(2, 2, 2), difference=(0.2, 0.1, 0.3))], "--check"), 0)
    expect("a slower one", copies([*fast, slower], "--check"), 1, "1 figures slower")
    expect("an undecided one", copies([*fast, undecided], "--check"), 2, "0 figures slower, 1 undecided")
    expect("a slower and an undecided one", copies([*fast, slower, undecided], "--check"), 1)
    expect("44 GB/s to the device", copies([copies_cell(us=6100.0), fast[1]], "--check"), 1, "1 speeds missed")
    expect("39 GB/s from the device", copies([fast[0], copies_cell("from", us=6850.0)], "--check"), 1, "1 speeds missed")
    expect("no copy of 256 MiB", copies([copies_cell(size=1)], "--check"), 1, "2 speeds missed")
    expect("no copy of 256 MiB, not asked for", copies([copies_cell(size=1)]), 0)


# ---- frees.py ----

def frees(fix=(900, 1500, 2000000, 3000, 2500), held=1 << 20):
    single, single_worst, loop, alloc, free = fix
    raw = ["single 2500000 5000000", "burst 2000000 5000000", "loop 30000000 90000 5200000 25000000"]
    fixed = [f"single {single} {single_worst}", "burst 400 900", f"loop {loop} {alloc} {free} 900000"]
    rewrites = [{**REWRITE, "name": "frees", "peak_bytes": held, "limit_bytes": 1 << 29}]
    return run("frees", {"raw": raw, "fix": fixed, "rewrites": rewrites, "rewrites_wanted": "pinned,frees"}, ["--kinds", "device", "--check"])


def check_frees():
    expect("good frees", frees(), 0, "total 0.0667 of raw, worst call 3.0 us (0.0006 of raw's), worst single free 1.5 us, held 1.0 MiB of 512.0")
    expect("a free of 1.1 us", frees((1100, 1500, 2000000, 3000, 2500)), 1, "a single free takes 1100 ns")
    expect("one of them of 3 ms", frees((900, 3000000, 2000000, 3000, 2500)), 1, "the worst single free takes 3000.0 us")
    expect("a slower loop", frees((900, 1500, 40000000, 3000, 2500)), 1, "the loop is slower")
    expect("a stall in an allocation", frees((900, 1500, 2000000, 6000000, 2500)), 1, "the worst call")
    expect("a stall in a free", frees((900, 1500, 2000000, 3000, 6000000)), 1, "the worst call")
    expect("much is held", frees(held=1 << 30), 1, "1024.0 MiB held")


# ---- upload.py ----

def upload(times):
    lines = ["cold_mib 640", "cell cuda kept cold 268435456 15 30000.0 10000.0 " + " ".join(map(str, times))]
    staging = [{"name": "staging", "to_device": 9, "from_device": 9}]
    return run("upload", {"fix": lines, "raw": [], "rewrites": staging}, ["--mebibytes", "256", "--check"])


def check_upload():
    expect("3.2 times as fast", upload((3.2, 2.9, 3.4)), 0)
    expect("2.9 times as fast, perhaps 3.1", upload((2.9, 2.7, 3.1)), 1, "2.90 times as fast, not 3")


# ---- pinned.py ----

def pinned(pair_ns, per_second, words=()):
    rewrites = [{**REWRITE, "name": "pinned"}]
    return run("pinned", {"raw": ["900000 800000 990000 1000 0"], "fix": [f"{pair_ns} 50 120 {per_second} 0"], "rewrites": rewrites,
                          "rewrites_wanted": "pinned,frees,staging" if not words else words[1]}, ["--check", "--rounds", "1", *words])


def check_pinned():
    expect("good pairs, all rewrites", pinned(80, 2e7), 0)
    expect("good pairs, one rewrite", pinned(80, 2e7, ["--rewrites", "pinned"]), 0)
    expect("a pair of 110 ns", pinned(110, 2e7), 1, "110.0 ns")
    expect("9 M pairs a second", pinned(80, 9e6), 1, "pairs a second")


if __name__ == "__main__":
    check_copies()
    check_frees()
    check_upload()
    check_pinned()
    print("each limit is held")
