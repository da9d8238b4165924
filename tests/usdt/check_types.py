#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The compiler looks at the arguments of the probes with and without them: check_types.py FOLDER-OF-THE-LIBRARY COMPILER..."""
import subprocess
import sys

GOOD = "USDT_SCOPE(1, false); USDT_WAIT(1, 2, 3, 4); USDT_REWRITE(1, 2, 3, 4); USDT_POOL(1, 2, 3, 4);"
BAD = ("USDT_SCOPE(1);", "USDT_SCOPE(text, false);", "USDT_WAIT(1, 2, 3, text);", "USDT_WAIT(1, 2, 3);", "USDT_REWRITE(1, nothing, 3, 4);",
       "USDT_REWRITE(1, 2, structure, 4);", "USDT_POOL(1, 2, text, 4);", "USDT_POOL(1, 2, 3, 4, 5);")


def compiles(shim, compiler, body, form):
    text = '#include "emit/usdt.h"\nstruct s { int one; };\nvoid f(const char *text, struct s structure)\n{\n' + body + "\n}\n"
    return subprocess.run([*compiler, "-std=gnu11", "-Wno-unused", "-Werror=int-conversion", *form, "-I", shim, "-fsyntax-only", "-x", "c", "-"], input=text,
                          capture_output=True, text=True, check=False).returncode == 0


def main():
    shim, *compiler = sys.argv[1:]
    wrong = []
    for form in ([], ["-DSLIPSTREAM_USDT"]):
        if not compiles(shim, compiler, GOOD, form):
            wrong.append(f"{form}: refused: {GOOD}")
        wrong += [f"{form}: taken: {body}" for body in BAD if compiles(shim, compiler, body, form)]
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
