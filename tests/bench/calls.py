#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions of a call, without the shim and in each mode, and the functions that they are in: what a machine without a GPU can tell of the cost.

    calls.py --build BUILD --driver FOLDER [--kinds KIND,...] [--bytes N] [--relax RELAX] [--count N] [--most N] [--json FILE]

By valgrind's callgrind, on the simulated driver: instructions a call by library, of the shim the most expensive functions by themselves, and the cache lines of
its code that a call goes through: where a launch has thrown them out, they are most of what a call costs. ns a call are of a run without callgrind. The driver's part is the simulated one's, and says nothing of a real one; the shim's is what it is anywhere, but for what
its caches cost. Kinds: calls.c.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

MODES = ("raw", "observe", "fix")
KINDS = "h2d_sync,d2h_sync,h2d_async,d2h_async,h2d_order,launch,pair,free_idle,free_busy,free_device_busy"
# So many copies can be staged behind one kernel; for more there is no memory.
ORDER_MOST = 32
# Bytes of a line of the caches.
CACHE_LINE = 64
LINE = re.compile(r"^\s*([\d,]+) \(\s*[\d.]+%\)\s+(.*?)(?: \[([^\]]*)\])?$")


def environment_of(options, mode, folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_") and name != "LD_PRELOAD"}
    environment.update(LD_LIBRARY_PATH=options.driver, SIMCUDA_COSTS="none", SIMCUDA_DEVICES="1", SIMCUDA_SPACE=str(4 << 30), SIMCUDA_MEMORY=str(1 << 30))
    if mode != "raw":
        environment.update(LD_PRELOAD=os.path.join(options.build, "shim/libslipstream.so"), SLIPSTREAM_MODE=mode, SLIPSTREAM_OUT=folder,
                           SLIPSTREAM_RELAX="free,order")
    return environment


def run(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(f"{command}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def code_lines(path, calls):
    """Cache lines of the shim's code that most of the calls go through: what a call costs more where they are not in the caches."""
    objects, counts, current, address, inclusive = {}, collections.Counter(), None, 0, False
    with open(path, encoding="utf-8") as file:
        for line in file:
            # "ob=(NUMBER) NAME", the name the first time only; of what is called ("cob=") the costs are told elsewhere.
            named = re.match(r"c?ob=\((\d+)\)(?: (.*))?$", line)
            if named:
                objects.setdefault(named[1], named[2])
                current = current if line.startswith("c") else objects[named[1]]
            elif line.startswith("calls="):
                inclusive = True
            else:
                cost = re.match(r"(0x[0-9a-f]+|[+-]\d+|\*) \S+ (\d+)$", line)
                if not cost:
                    continue
                if cost[1].startswith("0x"):
                    address = int(cost[1], 16)
                elif cost[1] != "*":
                    address += int(cost[1])
                if not inclusive and current and current.endswith("/libslipstream.so"):
                    counts[address] += int(cost[2])
                inclusive = False
    return len({address // CACHE_LINE for address, times in counts.items() if times >= calls / 2})


def count(options, kind, mode):
    """ns a call; instructions a call by library; and by function of the shim; and the cache lines of its code."""
    calls = min(options.count, ORDER_MOST) if kind == "h2d_order" else options.count
    program = [os.path.join(options.build, "tests/bench/calls"), kind, str(calls), str(options.bytes)]
    libraries, functions = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        environment, out = environment_of(options, mode, folder), os.path.join(folder, "callgrind.out")
        if mode != "raw":
            environment["SLIPSTREAM_RELAX"] = options.relax
            # So slow a call is taken for one that waits.
            environment["SLIPSTREAM_THRESHOLD"] = "100s"
        ns = float(run(program, environment))
        run(["valgrind", "--tool=callgrind", "--toggle-collect=calls_measured", "--dump-instr=yes", "--callgrind-out-file=" + out, *program], environment)
        for line in run(["callgrind_annotate", "--auto=no", "--threshold=100", out], os.environ).splitlines():
            found = LINE.match(line)
            if not found or found[2].startswith("PROGRAM TOTALS"):
                continue
            instructions, library = int(found[1].replace(",", "")) / calls, os.path.basename(found[3] or "")
            library = "the shim" if library == "libslipstream.so" else "driver" if library.startswith("libcuda") else "others"
            libraries[library] += instructions
            if library == "the shim":
                functions[": ".join(part.rsplit("/", 1)[-1] for part in found[2].rsplit(":", 1))] += instructions
        lines = code_lines(out, calls)
    return ns, libraries, functions, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--driver", required=True, type=os.path.abspath, help="folder of the driver to use (the simulated one)")
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--bytes", type=int, default=4096, help="of the copies")
    parser.add_argument("--relax", default="free,order")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--most", type=int, default=12, help="functions to print")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("no valgrind here")
        sys.exit(77)
    every = []
    for kind in options.kinds.split(","):
        print(f"{kind}: a call\nmode        ns   instructions: the shim   others   driver   cache lines of the shim's code")
        for mode in MODES:
            ns, libraries, functions, lines = count(options, kind, mode)
            print(f"{mode:8} {ns:7.0f} {libraries['the shim']:23.0f} {libraries['others']:8.0f} {libraries['driver']:8.0f} {lines:8}", flush=True)
            every.append({"kind": kind, "mode": mode, "ns": ns, "instructions": libraries, "functions": functions, "code_lines": lines})
            for name, instructions in functions.most_common(options.most):
                print(f"            {instructions:7.1f}  {name}")
            if mode != "raw" and not libraries["the shim"]:
                sys.exit(f"calls: {kind}: nothing of the shim was counted")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump(every, stream, indent=1)


if __name__ == "__main__":
    main()
