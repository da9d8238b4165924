#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A library that exports every function of the witness's table: make_forms.py TABLE.c LIBRARY.c LIST."""
import re
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as table:
        names = re.findall(r'^\t\{ (?:\.name = )?"(\w+)"', table.read(), re.MULTILINE)
    with open(sys.argv[2], "w", encoding="utf-8") as library:
        library.write("/* Written by make_forms.py. */\n")
        library.writelines(f"int {name}(void);\nint {name}(void)\n{{\n\treturn {number};\n}}\n" for number, name in enumerate(names))
    with open(sys.argv[3], "w", encoding="utf-8") as listing:
        listing.writelines(name + "\n" for name in names)


if __name__ == "__main__":
    main()
