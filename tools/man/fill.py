#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fills a manual page or the shell completion: @VERSION@, and from shim/options.def @SETTINGS@ (troff entries of options and
variables), @SETTING_OPTIONS@ (option names) and @SETTING_VALUES@ (shell cases). Usage: fill.py TEMPLATE OPTIONS_DEF VERSION OUTPUT"""

import re
import sys

ROW = re.compile(r'^OPTION\(\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*,\s*(NULL|"[^"]*")\s*,\s*"([^"]*)"\s*,\s*"([^"]*)"\s*\)\s*$')
KINDS = {"MODE", "STRING", "BOOL", "UINT", "NS", "LEVEL", "LIST", "SIZE"}


def read_settings(path):
    rows = []
    with open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.startswith("OPTION("):
                continue
            match = ROW.match(line)
            if not match or match[3] not in KINDS:
                sys.exit("%s:%d: not a row of the options table: %s" % (path, number, line.strip()))
            variable, _, kind, default, unit, text = match.groups()
            rows.append((variable, "--" + variable.lower().replace("_", "-"), kind,
                         None if default == "NULL" else default.strip('"'), unit, text))
    if not rows:
        sys.exit("%s: no OPTION rows" % path)
    return rows


def troff(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def entry(row):
    variable, option, kind, default, unit, text = row
    value = {"STRING": {"folder": "DIR", "file": "FILE"}.get(unit, "NAME"), "UINT": "N", "NS": "TIME", "SIZE": "SIZE"}.get(kind)
    if value:
        shown = "\\fB%s=\\fI%s\\fR" % (troff(option), value)
    elif kind == "BOOL":
        shown = "\\fB%s\\fR[\\fB=%s\\fR]" % (troff(option), unit)
    else:
        shown = "\\fB%s=\\fR%s" % (troff(option), unit)
    lines = [".TP", "%s, variable \\fBSLIPSTREAM_%s\\fR" % (shown, variable), troff(text[0].upper() + text[1:]) + "."]
    if kind == "NS":
        lines.append("A number with ns (as without unit), us, ms or s.")
    if kind == "SIZE":
        lines.append("A number of bytes, with K, M or G of their multiples, or with % of a share.")
    if kind == "LIST":
        lines.append("Several are joined by commas.")
    if default is not None:
        lines.append("Default: %s." % troff(default))
    return "\n".join(lines)


def case(row):
    _, option, kind, _, unit, _ = row
    if kind in ("MODE", "LEVEL", "LIST", "BOOL"):
        return "\t%s)\n\t\tCOMPREPLY=($(compgen -W '%s' -- \"$current\"))\n\t\treturn\n\t\t;;" % (option, unit.replace("|", " "))
    if kind == "STRING":
        return "\t%s)\n\t\tCOMPREPLY=($(compgen %s -- \"$current\"))\n\t\treturn\n\t\t;;" % (
            option, "-d" if unit == "folder" else "-f")
    return "\t%s)\n\t\treturn\n\t\t;;" % option


def main():
    template, options, version, output = sys.argv[1:]
    rows = read_settings(options)
    with open(template) as file:
        text = file.read()
    text = text.replace("@VERSION@", version)
    text = text.replace("@SETTINGS@", "\n".join(map(entry, rows)))
    text = text.replace("@SETTING_OPTIONS@", " ".join(row[1] + ("" if row[2] == "BOOL" else "=") for row in rows))
    text = text.replace("@SETTING_VALUES@", "\n".join(map(case, rows)))
    with open(output, "w") as file:
        file.write(text)


main()
