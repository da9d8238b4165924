#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's table of settings is the one in shim/options.def; files that README and CONTRIBUTING name exist.

With --write the table is put into the README.
"""
import os
import re
import sys

BEGIN, END = "<!-- settings: from shim/options.def -->\n", "<!-- end of settings -->\n"


def table(root):
    with open(os.path.join(root, "shim", "options.def")) as file:
        rows = re.findall(r'^OPTION\((\w+), \w+, \w+, ("[^"]*"|NULL), "([^"]*)", "([^"]*)"\)', file.read(), re.M)
    if not rows:
        sys.exit("no OPTION rows in shim/options.def")
    lines = ["| variable | option of `run` | values | default | what it does |", "|---|---|---|---|---|"]
    for name, default, unit, text in rows:
        default = "none" if default == "NULL" else "`%s`" % default.strip('"')
        lines.append("| `SLIPSTREAM_%s` | `--%s` | %s | %s | %s |" % (
            name, name.lower().replace("_", "-"), unit.replace("|", "\\|"), default, text.replace("|", "\\|")))
    return "\n".join(lines) + "\n"


def main():
    root = sys.argv[1]
    path = os.path.join(root, "README.md")
    with open(path) as file:
        text = file.read()
    if BEGIN not in text or END not in text:
        sys.exit("README.md lacks the markers of the settings table")
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    wanted = table(root)
    if "--write" in sys.argv:
        with open(path, "w") as file:
            file.write(head + BEGIN + wanted + END + tail)
        return
    if old != wanted:
        sys.exit("README.md: the settings table differs from shim/options.def; run %s %s --write" % (sys.argv[0], root))

    missing = []
    for name in ("README.md", "CONTRIBUTING.md"):
        with open(os.path.join(root, name)) as file:
            text = file.read()
        for word in re.findall(r"`((?:shim|tools|tests|include|bpf|tracing|\.ci)/[\w./-]*)`", text):
            if not word.startswith("build/") and not os.path.exists(os.path.join(root, word)):
                missing.append("%s names %s, which is not there" % (name, word))
        # In a program a bracket is none of a link.
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", re.sub(r"^    .*", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)):
            if not os.path.exists(os.path.join(root, link)):
                missing.append("%s links to %s, which is not there" % (name, link))
    if missing:
        sys.exit("\n".join(missing))


main()
