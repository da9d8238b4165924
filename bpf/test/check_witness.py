#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The witness counts exactly, in threads, forked, executed and killed processes, and tells the callers apart.

    check_witness.py WITNESS PROGRAM DRIVER WRAPPER
"""
import json
import os
import subprocess
import sys
import tempfile

SKIP = 77


def main():
    witness, program, driver, wrapper = (os.path.abspath(path) for path in sys.argv[1:5])
    probe = subprocess.run([witness, "--probe"], capture_output=True, text=True, check=False)
    if probe.returncode == SKIP:
        print(probe.stderr.strip())
        return SKIP
    assert probe.returncode == 0, probe

    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(driver))
    environment.pop("LD_PRELOAD", None)

    def run(*options, arguments=(), preload=True):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "seen.json")
            command = [witness, "--library", driver, "--shim", os.path.basename(wrapper), "--output", output, *options, "--"]
            command += (["env", f"LD_PRELOAD={wrapper}"] if preload else []) + [program, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
            try:
                with open(output, encoding="utf-8") as file:
                    return done, json.load(file)
            except OSError:
                return done, None

    total = 1000 + 100 + 30 + 3 + 11
    wrapped = {
        "cuInit": {"total": total + 13, "wrapper": total, "elsewhere": {program: 13}},
        "cuOuter": {"total": 20, "elsewhere": {program: 20}},
        "cuInner": {"total": 20, "inside_library": 20},
        "cuFromShim": {"total": total, "shim_own": {"ask_driver": total}},
        "cuJumped": {"total": 7, "elsewhere": {program: 7}},
    }
    bare = {
        "cuInit": {"total": total + 13, "elsewhere": {program: total + 13}},
        "cuOuter": {"total": 20, "elsewhere": {program: 20}},
        "cuInner": {"total": 20, "inside_library": 20},
        "cuJumped": {"total": 7, "elsewhere": {program: 7}},
    }
    for options, preload, expected in (((), True, wrapped), (("--single",), True, wrapped), ((), False, bare)):
        done, seen = run(*options, preload=preload)
        if options and "BPF is refused here" in done.stderr:
            print(f"not here: {' '.join(options)}: {done.stderr.strip()}")  # single probes want /sys of the machine
            continue
        assert done.returncode == 5, (options, done)
        # An alias of the same address stands under the first of its names.
        functions = {name.replace("cuAlias", "cuInit"): counts for name, counts in seen["functions"].items()}
        assert functions == expected, (options, preload, functions)
        assert seen["lost"] == 0 and seen["probed"] == 6, seen

    done, seen = run(arguments=["signal"])
    assert done.returncode == 128 + 15, done
    assert seen["functions"]["cuOuter"]["total"] == 20, seen

    done, _ = run(arguments=[], preload=False)
    assert done.stdout == "", done.stdout
    missing = subprocess.run([witness, "--library", driver, "--", "/nonexistent/program"], capture_output=True, text=True, check=False)
    assert missing.returncode == 127 and "/nonexistent/program" in missing.stderr, missing
    bad = subprocess.run([witness, "--library", "/nonexistent", "--", "true"], capture_output=True, text=True, check=False)
    assert bad.returncode == 125 and "/nonexistent" in bad.stderr, bad
    none = subprocess.run([witness], capture_output=True, text=True, check=False)
    assert none.returncode == 125 and "no program given" in none.stderr, none
    print("witness: exact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
