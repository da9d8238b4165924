#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the catalogue as a page for people: Markdown, one table a kind of function, then the rules.

Owns: the look of that page. Called by: Meson (build/shim/catalogue/catalogue.md), the tests. Relies on: catalogue.py.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalogue as catalogue_module  # noqa: E402
import prototypes as prototypes_module  # noqa: E402

TITLES = {
    "wait": "Waiting", "copy": "Copies", "memset": "Memsets", "alloc": "Allocation", "free": "Freeing", "register": "Registering host memory",
    "launch": "Launches", "hostfunc": "Host functions", "module": "Modules and functions", "limit": "Limits and attributes",
    "context": "Contexts", "stream": "Streams", "event": "Events", "capture": "Stream capture", "graph": "Graphs", "memop": "Stream memory operations",
    "pool": "Memory pools", "vmm": "Virtual memory", "prefetch": "Managed memory", "peer": "Peer access", "ipc": "Sharing between processes",
    "external": "External memory and semaphores", "graphics": "Graphics", "texture": "Textures and surfaces", "init": "Start and look-up",
    "misc": "Others", "query": "Queries",
}
SCOPES = {
    "host": "the host's own work", "stream": "its stream", "legacy": "legacy and blocking streams", "join": "streams joined by legacy order",
    "context": "all streams of the context", "device": "all streams of all contexts", "event": "the recorded work",
}
BARRIERS = {"none": "-", "stream": "its stream", "join": "legacy join", "join-peers": "legacy join, all devices involved", "context": "whole context"}
DOCS = {"documented-sync": "waits", "documented-async": "does not wait", "may": "may wait", "unspecified": "-"}
HEAD = ("Function", "Class", "Rules", "Condition", "Waits for", "Blocks host", "Device barrier", "Documented", "Confidence", "Replacement")


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ") or "-"


def line(cells):
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def blocks_host(rules):
    """yes: a wait for the device is to be expected; may: seen or suspected; own work: the call itself takes long; no."""
    waits = [rule for rule in rules if rule.wait_class != "device"]
    if any(rule.scope != "host" and rule.confidence in ("measured", "documented") for rule in waits):
        return "yes" if all(rule.when == "true" for rule in waits if rule.scope != "host") else "on condition"
    if any(rule.scope != "host" for rule in waits):
        return "may"
    return "own work" if waits else "no"


def unique(texts):
    return list(dict.fromkeys(texts))


def function_line(catalogue, name, row):
    rules = [catalogue.rule(slug) for slug in row.rules]
    conditions = unique(f"{rule.slug}: {rule.condition}" for rule in rules if rule.condition)
    return line([
        f"`{name}`", ", ".join(unique(rule.wait_class for rule in rules)), ", ".join(row.rules), "; ".join(conditions),
        ", ".join(unique(SCOPES[rule.scope] for rule in rules)), blocks_host(rules), BARRIERS[row.barrier], DOCS[row.doc], row.confidence,
        row.replacement.replace("none", "-"),
    ])


def page(catalogue, prototypes=None):
    """The whole page."""
    forms = {}
    for name, prototype in (prototypes or {}).items():
        forms.setdefault(prototype.base, []).append(name)
    lines = ["# What each driver function waits for", "",
             "Written by tools/gen/catalogue_doc.py from functions.yaml and rules.yaml. A function's rules are tried in order. \"Blocks host\": "
             "yes and on condition are measured or documented; may is reported or suspected; own work means that the call itself takes long.", ""]
    for kind, title in TITLES.items():
        rows = sorted((name, row) for name, row in catalogue.functions.items() if row.kind == kind)
        if not rows:
            continue
        lines += [f"## {title}", "", line(HEAD), "|" + "---|" * len(HEAD)]
        notes = []
        for name, row in rows:
            lines.append(function_line(catalogue, name, row))
            for suffix, version in row.versions.items():
                if (version.rules, version.barrier) != (row.rules, row.barrier):
                    lines.append(function_line(catalogue, f"{name} ({suffix})", version))
            if row.note or row.source_note:
                notes.append(f"- `{name}`: {'. '.join(text for text in (row.note, row.source_note and 'Source: ' + row.source_note) if text)}")
        lines += [""] + notes + ([""] if notes else [])
    lines += ["## Rules", ""]
    for rule in catalogue.rules:
        if rule.wait_class == "order":
            lines += [f"### {rule.slug}", "", f"Order: {rule.cause}. No wait: found by SLIPSTREAM_CHECK=order in what several calls did.", "",
                      f"- What happens: {rule.text}", f"- Instead: {rule.fix}", f"- Known from: {rule.sources} ({rule.confidence})", ""]
            continue
        lines += [f"### {rule.slug}", "", f"{rule.wait_class.capitalize()}: {rule.cause}. Waits for {SCOPES[rule.scope]}.", "",
                  f"- What happens: {rule.text}", f"- When: {rule.condition + ': ' if rule.condition else ''}`{rule.when}`", f"- Instead: {rule.fix}",
                  f"- Known from: {rule.sources} ({rule.confidence})"]
        if rule.own_cost:
            lines.append("- The call's own duration is the finding.")
        if rule.room:
            lines.append("- The call hands its operation over when there is room.")
        if rule.minimum_ns:
            lines.append(f"- Reported above {rule.minimum_ns / 1000:g} us.")
        lines.append("")
    if forms:
        lines += ["## Exported names", "", "Every version and per-thread form of a function shares its row.", ""]
        lines += [f"- `{base}`: {', '.join(sorted(names))}" for base, names in sorted(forms.items()) if len(names) > 1] + [""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="write the catalogue as Markdown")
    parser.add_argument("--catalogue", required=True, help="folder with functions.yaml and rules.yaml")
    parser.add_argument("--include", help="folder with cuda.h: adds the list of exported names")
    parser.add_argument("--cpp", default=os.environ.get("CC", "cc"), help="compiler used as preprocessor")
    parser.add_argument("--output", help="write here instead of to stdout")
    arguments = parser.parse_args()
    try:
        catalogue = catalogue_module.load(arguments.catalogue)
        prototypes = prototypes_module.parse(arguments.include, arguments.cpp) if arguments.include else None
        text = page(catalogue, prototypes)
        if arguments.output:
            catalogue_module.write(arguments.output, text)
        else:
            print(text)
    except (catalogue_module.CatalogueError, prototypes_module.HeaderError) as error:
        sys.exit(f"catalogue_doc: {error}")
    except OSError as error:
        sys.exit(f"catalogue_doc: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
