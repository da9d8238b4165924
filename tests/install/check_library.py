#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the preload library needs: nothing newer than glibc 2.34, no driver, no tracing or BPF library, no undefined driver name."""
import re
import subprocess
import sys

NEWEST_GLIBC = (2, 34)
# What may be needed: the C library's parts, and liburcu, which DESIGN names and which travels beside it.
ALLOWED = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64|libgcc_s|liburcu-bp|liburcu-cds|liburcu-common)\.so\.\d+$")


def objdump(*arguments):
    return subprocess.run(["objdump", *arguments], check=True, capture_output=True, text=True).stdout


def problems_of(library):
    found = []
    dynamic = objdump("-p", library)
    for name in re.findall(r"^\s*NEEDED\s+(\S+)", dynamic, re.M):
        if not ALLOWED.match(name):
            found.append("needs the library " + name)
    symbols = objdump("-T", library)
    for version in sorted(set(re.findall(r"GLIBC_(\d+(?:\.\d+)+)", symbols))):
        if tuple(int(part) for part in version.split(".")) > NEWEST_GLIBC:
            names = re.findall(r"\(?GLIBC_%s\)?\s+(\S+)$" % re.escape(version), symbols, re.M)
            found.append("needs glibc %s for %s" % (version, ", ".join(names)))
    if re.search(r"GLIBC_PRIVATE", symbols):
        found.append("needs a private symbol of glibc")
    for line in symbols.splitlines():
        name = line.split()[-1] if line.split() else ""
        if "*UND*" in line and re.match(r"cu[A-Z]", name):
            found.append("has the undefined driver symbol " + name)
    return found


def main():
    library = sys.argv[1]
    found = problems_of(library)
    if found:
        sys.exit("%s %s" % (library, "; ".join(found)))


main()
