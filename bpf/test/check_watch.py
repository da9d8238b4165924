#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The watch on a fake driver: exact counts, how threads waited, whose call it was, what survives what.

    check_watch.py GROUP FOLDER [NAME...]       GROUP: a module beside this one; FOLDER: where the tool, the programs and libcuda.so.1 were built

Skipped (77) where BPF is refused. Every check is a function named after its result; NAMEs run some of them.
"""
import importlib
import os
import subprocess
import sys
import time


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    watching = importlib.import_module("watching")
    sys.path.insert(1, os.path.join(sys.path[0], "shim"))
    group = importlib.import_module(sys.argv[1])
    tried = subprocess.run([watching.TOOL, "true"], capture_output=True, text=True, env=watching.environment(), check=False)
    if tried.returncode == watching.SKIP:
        print(tried.stderr.strip())
        return watching.SKIP
    chosen = [test for test in group.TESTS if len(sys.argv) < 4 or test.__name__ in sys.argv[3:]]
    for test in chosen:
        begin = time.monotonic()
        test()
        print(f"{time.monotonic() - begin:6.2f} s {test.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
