#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The watch beside the shim on the simulated driver: its counts are the shim's, and its claims are heard.

    check_shim.py TOOL SHIM SIMCUDA PROGRAM READER      READER: folder with slip.py
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
TOOL, SHIM, SIMCUDA, PROGRAM, READER = (os.path.abspath(path) for path in sys.argv[1:6])
sys.path.insert(0, READER)
import slip  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import elf_symbols  # noqa: E402
from links import has_sessions, links_of  # noqa: E402

CALLS = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemcpyHtoD_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuMemFreeHost", "cuMemFree_v2",
         "cuCtxSynchronize"}
EXPECTED = 2 * 2 * 25  # two processes, two threads, 25 rounds
HIT, PARKED = 1, 2


def environment(**more):
    left = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "LD_"))}
    return {**left, "LD_LIBRARY_PATH": SIMCUDA, "SIMCUDA_COSTS": "none", **more}


def run(mode, *options, preload=SHIM):
    """(what the watch saw, {function: the shim's count})"""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "seen.json")
        out = os.path.join(folder, "out")
        os.mkdir(out)
        command = [TOOL, "--output", output, "--callers", "--shim-path", SHIM, *options, "--", "env"]
        command += [f"LD_PRELOAD={preload}"] if preload else []
        done = subprocess.run([*command, PROGRAM], env=environment(SLIPSTREAM_MODE=mode, SLIPSTREAM_OUT=out), capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode == SKIP:
            print(done.stderr.strip())
            sys.exit(SKIP)
        assert done.returncode == 0, done
        with open(output, encoding="utf-8") as file:
            seen = json.load(file)
        counts = collections.Counter()
        for name in sorted(os.listdir(out)):
            if name.endswith(".slip"):
                counts.update(slip.Process(os.path.join(out, name)).counts)
    assert seen["status"] == 0 and not any(seen[key] for key in seen if key.startswith("lost") and key != "lost_mappings"), seen  # those are of the whole machine
    return seen, counts


def by_of(seen):
    by = collections.defaultdict(collections.Counter)
    for caller in seen["callers"]:
        by[caller["function"]][caller["by"]] += caller["calls"]
    return by


def every_call_that_the_shim_counts_is_seen_behind_its_wrapper_and_in_its_scope():
    seen, counts = run("observe", "--claims")
    by = by_of(seen)
    for name in CALLS:
        assert counts[name] == EXPECTED, (name, counts[name])
        assert by[name] == {"wrapper": EXPECTED}, (name, by[name])
        assert seen["functions"][name]["scoped"] == seen["functions"][name]["returned"] == EXPECTED, seen["functions"][name]
    assert all(process["shim"] for process in seen["processes"]), seen["processes"]
    assert not seen["claims"], seen["claims"]


def what_the_shim_claims_is_what_the_driver_did_not_get():
    seen, counts = run("fix", "--claims", "--records")
    by = by_of(seen)
    claims = collections.Counter((claim["function"], claim["how"]) for claim in seen["claims"])
    for name, how in (("cuMemHostAlloc", HIT), ("cuMemAlloc_v2", HIT)):
        behind = by[name]["wrapper"] + by[name]["shim"]
        assert claims[name, how] > 0 and claims[name, how] + behind >= EXPECTED == counts[name], (name, claims, by[name], counts[name])
    for name in ("cuMemFreeHost", "cuMemFree_v2"):
        assert claims[name, PARKED] > 0, claims
        assert by[name]["wrapper"] + claims[name, PARKED] == EXPECTED, (name, claims, by[name])
    for claim in seen["claims"]:
        assert claim["scope"] > 0 and claim["call_ns"] > 0 and claim["call_ns"] >= claim["off_cpu_ns"], claim
    assert all(not names["program"] for names in by.values()), by


def extent_of(function):
    """Of a function of the program, in its file."""
    listed = subprocess.run(["nm", "-S", PROGRAM], capture_output=True, text=True, check=True).stdout
    size = next(int(line.split()[1], 16) for line in listed.splitlines() if line.endswith(f" {function}") and len(line.split()) == 4)
    begin = elf_symbols.offset(PROGRAM, function)
    return range(begin, begin + size)


def claim_has_the_place_in_the_program_that_called():
    """And not where the library is inside itself by then; no more frames than are wanted."""
    extent = extent_of("rounds")
    for options, most in (("--frames", "8"), 8), ((), 1):
        seen, _ = run("fix", "--claims", *options)
        assert len({claim["function"] for claim in seen["claims"]}) == 4, seen["claims"]
        for claim in seen["claims"]:
            assert claim.get("path") == PROGRAM and claim["offset"] in extent, claim
            assert 1 <= len(claim["frames"]) <= most, claim
        assert max(len(claim["frames"]) for claim in seen["claims"]) > 1 or most == 1


def single_probes_hear_the_same():
    seen, _ = run("observe", "--claims", "--single", "--function", "cuCtxSynchronize")
    assert seen["functions"]["cuCtxSynchronize"]["scoped"] == EXPECTED, seen["functions"]


def without_claims_wanted_nothing_of_the_shim_is_probed():
    seen, _ = run("observe")
    assert seen["functions"]["cuCtxSynchronize"]["calls"] == EXPECTED and seen["functions"]["cuCtxSynchronize"]["scoped"] == 0


def shim_in_a_layer_that_two_file_systems_share_is_heard_once():
    """Two containers of one image: one file, three names, and probes by each of them."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "lower"))
        for library in os.listdir(os.path.dirname(SHIM)):  # what it needs travels beside it
            if library == "libslipstream.so" or library.startswith("liburcu"):
                shutil.copy(os.path.join(os.path.dirname(SHIM), library), os.path.join(folder, "lower"))
        script = "set -e; "
        for name in ("a", "b"):
            for part in ("upper", "work", "merged"):
                os.makedirs(os.path.join(folder, name, part))
            script += f"mount -t overlay overlay -o lowerdir=lower,upperdir={name}/upper,workdir={name}/work {name}/merged; "
        script += f"LD_PRELOAD=$PWD/a/merged/libslipstream.so '{PROGRAM}'; LD_PRELOAD=$PWD/b/merged/libslipstream.so '{PROGRAM}'"
        output = os.path.join(folder, "seen.json")
        shim = os.path.join(folder, "lower", "libslipstream.so")
        done = subprocess.run([TOOL, "--output", output, "--callers", "--claims", "--shim-path", shim, "--", "unshare", "--mount", "sh", "-c", script], cwd=folder,
                              env=environment(SLIPSTREAM_MODE="fix"), capture_output=True, text=True, timeout=60, check=False)
        with open(output, encoding="utf-8") as file:
            seen = json.load(file)
        if seen["status"]:
            print(f"not here: overlays in a namespace of one's own: {done.stderr.strip()}")
            return
    count = seen["functions"]["cuCtxSynchronize"]
    assert count["calls"] == count["scoped"] == count["returned"] == 2 * EXPECTED, count
    claims = collections.Counter((claim["process"], claim["thread"], claim["scope"], claim["function"]) for claim in seen["claims"])
    assert claims and set(claims.values()) == {1}, claims.most_common(3)


def process_without_the_shim_is_seen_as_such():
    seen, counts = run("observe", preload=None)
    assert not counts and by_of(seen)["cuCtxSynchronize"] == {"program": EXPECTED}, seen["callers"]
    assert not any(process["shim"] for process in seen["processes"])


def probes_of_the_shim_are_one_link_beside_that_of_the_driver():
    for options, links in ((("--claims",), 2 if has_sessions() else 3), ((), 1 if has_sessions() else 2)):
        with subprocess.Popen([TOOL, "--shim-path", SHIM, *options, "--", "cat"], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as tool:
            line = tool.stderr.readline()
            found = links_of(tool.pid)
            tool.stdin.close()
        assert (line, found) == ("watching\n", links), (options, line, found)


def main():
    for test in (every_call_that_the_shim_counts_is_seen_behind_its_wrapper_and_in_its_scope, what_the_shim_claims_is_what_the_driver_did_not_get,
                 claim_has_the_place_in_the_program_that_called,
                 single_probes_hear_the_same, without_claims_wanted_nothing_of_the_shim_is_probed,
                 shim_in_a_layer_that_two_file_systems_share_is_heard_once, process_without_the_shim_is_seen_as_such,
                 probes_of_the_shim_are_one_link_beside_that_of_the_driver):
        test()
        print(test.__name__, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
