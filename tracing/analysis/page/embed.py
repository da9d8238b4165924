#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the page's HTML, style and scripts a C file: page_before_data and page_after_data, the data goes between.

The Content-Security-Policy of the page allows exactly this style and this script, by their hashes, and no network.
"""
import argparse
import base64
import hashlib
import re
import sys


class EmbedError(Exception):
    pass


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not text.isascii():
        raise EmbedError(f"{path}: not ASCII; write other characters as escapes")
    return text


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def without_head(text):
    """Licence lines are for readers of the sources."""
    return re.sub(r"\A(// SPDX[^\n]*\n|/\* SPDX.*?\*/\n|<!-- SPDX.*?-->\n)", "", text, flags=re.S)


def page(html, style, scripts):
    script = '"use strict";\n(() => {\n' + "".join(without_head(text) for text in scripts) + "})();\n"
    style = without_head(style)
    if re.search(r"</(script|style)", script + style, re.I):
        raise EmbedError("a style or script would end its own element")
    policy = f"default-src 'none'; script-src {hash_of(script)}; style-src {hash_of(style)}; base-uri 'none'; form-action 'none'"
    for marker, text in (("POLICY", policy), ("STYLE", style), ("SCRIPT", script)):
        if html.count(f"@{marker}@") != 1:
            raise EmbedError(f"the HTML must have @{marker}@ once")
        html = html.replace(f"@{marker}@", text)
    before, data, after = html.partition("@DATA@")
    if not data:
        raise EmbedError("the HTML must have @DATA@")
    return before, after


def c_string(text):
    lines = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("?", "\\?") for line in text.split("\n")]
    return "\n".join(f'\t"{line}\\n"' for line in lines[:-1]) + f'\n\t"{lines[-1]}"'


def main():
    parser = argparse.ArgumentParser(description="make the parts of the page a C file")
    parser.add_argument("output")
    parser.add_argument("html")
    parser.add_argument("style")
    parser.add_argument("scripts", nargs="+", help="in the order in which they run")
    arguments = parser.parse_args()
    try:
        before, after = page(without_head(read(arguments.html)), read(arguments.style), [read(path) for path in arguments.scripts])
    except (OSError, EmbedError) as error:
        sys.exit(f"embed.py: {error}")
    with open(arguments.output, "w", encoding="ascii") as file:
        file.write("// SPDX-License-Identifier: MIT\n/* Written by tracing/analysis/page/embed.py; do not edit. */\n"
                   '#include "tracing/analysis/page_parts.h"\n\n'
                   f"const char page_before_data[] =\n{c_string(before)};\n\nconst char page_after_data[] =\n{c_string(after)};\n")


if __name__ == "__main__":
    main()
