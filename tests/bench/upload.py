#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors in ordinary memory moved to the device and back as PyTorch does it, without PyTorch (upload.c): raw and mode fix by turns in one process.

    upload.py --build BUILD [--driver FOLDER] [--mebibytes 16,256] [--cold MIB] [--pairs N] [--seed N] [--json FILE] [--check] [--quick]

Prints of each size and cell both medians and how many times as fast mode fix is, with the 95 % interval. `--check` fails if `.cuda()` of the largest size,
device's memory kept and the source cold, is not at least 3 times as fast (the median). Fails if nothing was staged.
"""
import argparse
import sys

import by_turns

LIMIT = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    by_turns.add_options(parser)
    parser.add_argument("--mebibytes", default="16,256")
    parser.add_argument("--cold", type=int, metavar="MIB")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.mebibytes, options.cold, options.pairs = "4", 16, 3
    every, ratio = [], None
    print("what                        bytes  pairs      raw us      fix us   times as fast, and the interval   raw GB/s  fix GB/s")
    for mebibytes in sorted(int(word) for word in options.mebibytes.split(",")):
        arguments = [f"--bytes={mebibytes << 20}", f"--pairs={options.pairs}", f"--seed={options.seed}"]
        if options.cold:
            arguments.append(f"--cold={options.cold}")
        lines, rewrites = by_turns.run(options, "upload", arguments, "fix")
        for words in lines:
            if words[0] == "cold_mib":
                print(f"cold: not touched for {words[1]} MiB")
            if words[0] != "cell":
                continue
            name, (size, pairs), numbers = " ".join(words[1:4]), (int(word) for word in words[4:6]), [float(word) for word in words[6:]]
            every.append({"what": name, "bytes": size, "pairs": pairs, "raw_us": numbers[0], "fix_us": numbers[1], "times_as_fast": numbers[2:]})
            print(f"{name:20} {size:12} {pairs:6} {numbers[0]:11.1f} {numbers[1]:11.1f}   {numbers[2]:6.2f} [{numbers[3]:6.2f}, {numbers[4]:6.2f}]"
                  f"{size / numbers[0] / 1e3:20.2f}{size / numbers[1] / 1e3:10.2f}", flush=True)
            if name == "cuda kept cold":
                ratio = numbers[2:]
        if not rewrites["staging"]["to_device"] or not rewrites["staging"]["from_device"]:
            sys.exit(f"upload: nothing was staged: {rewrites['staging']}")
    by_turns.write_json(options, {"seed": options.seed, "cells": every})
    if options.check and ratio[0] < LIMIT:
        sys.exit(f"upload: .cuda() is {ratio[0]:.2f} times as fast, not {LIMIT}")


if __name__ == "__main__":
    main()
