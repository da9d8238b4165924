#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README.md names only tests that there are, and no test of the watch is defined and not run.

    check_proof.py README FOLDER ATTACH         FOLDER: this one; ATTACH: test_attach.py
"""
import os
import re
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    readme, folder, attach = sys.argv[1:4]
    groups = {}
    for place in (folder, os.path.join(folder, "shim")):
        for name in sorted(os.listdir(place)):
            text = read(os.path.join(place, name)) if name.endswith(".py") else ""
            if "\nTESTS = [\n" in text:
                groups[name.removesuffix(".py")] = text
    assert len(groups) >= 8, groups.keys()
    tests = {}
    for name, text in groups.items():
        listed = re.findall(r"^    (\w+),$", text[text.index("\nTESTS = [\n"):], re.M)
        without_arguments = re.findall(r"^def (\w+)\(\):$", text, re.M)
        helpers = {"bare", "many_functions", "refuse_messages", "copied_driver"}
        assert sorted(set(without_arguments) - helpers) == sorted(listed), (name, set(without_arguments) ^ set(listed))
        tests[name] = set(listed)
    methods = set(re.findall(r"^    def (test_\w+)\(", read(attach), re.M))
    proof = read(readme).split("\n## What proves it\n")[1]
    for row in proof.splitlines():
        for group, names in re.findall(r"\[(\w+)\] ((?:`\w+`(?:, )?)*)", row):
            assert group in tests and set(re.findall(r"`(\w+)`", names)) <= tests[group], (group, names)
        assert set(re.findall(r"`(test_\w+)`", row)) <= methods, row
    print(f"{sum(map(len, tests.values()))} tests of {len(tests)} groups")


main()
