#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What-if on a real driver: the twins of tests/analysis/whatif/twins.c, naive traced, fixed, compared (twins.py beside it). One line of what ran, and one a twin.

    whatif.py --build DIR [--out DIR] [--rounds N] [--kernel US] [--host US] [--pairs N] [NAME...]

DIR is a finished build or a pack (pack.sh). LTTng's programs are found by PATH. Exit status 0: each measured saving lies in its interval, of at
most 30 %; 1: one does not; 77: cannot be told here. Kernels of 10 ms and 6 ms of host work, 20 rounds: 10 to 20 s for all three where the machine is quiet.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "analysis", "whatif"))
import twins  # noqa: E402
from machine import what_ran  # noqa: E402


def main():
    parser = twins.Parser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--driver", help="folder of another driver, to try this script without a GPU")
    parser.add_argument("--out")
    parser.add_argument("--rounds", default="20")
    parser.add_argument("--kernel", default="10000")
    parser.add_argument("--host", default="6000")
    parser.add_argument("--pairs", default="12")
    parser.add_argument("names", nargs="*", default=["free", "pageable", "context"])
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    arguments = ["--tool", os.path.join(build, "tools", "slipstream"), "--twins", os.path.join(build, "tests", "analysis", "whatif", "whatif-twins")]
    if options.driver:
        arguments += ["--driver", options.driver]
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        arguments += ["--out", os.path.abspath(options.out)]
    arguments += ["--rounds", options.rounds, "--kernel", options.kernel, "--host", options.host, "--pairs", options.pairs, *options.names]
    return twins.main(arguments, what_ran(build))


if __name__ == "__main__":
    sys.exit(main())
