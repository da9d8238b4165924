#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What every rule of every `mutate` script switches off stands in the sources exactly once, and what is to notice it is there, so that none goes stale unseen.
Builds and runs nothing.

    test_mutate.py [--shim FOLDER]       exit status 1 and the rules that are not found

Of lint, check, guard and futures only that each rule stands there once, in the way in which its script looks for it.
"""
import argparse
import importlib.machinery
import importlib.util
import os
import re
import sys

import mutants

TESTS = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SCRIPTS = {
    "pinned": "programs/pinned/mutate", "frees": "programs/frees/mutate", "staging": "programs/staging/mutate",
    "streams": "programs/streams/mutate", "property": "property/mutate",
}
SAFETY = "programs/safety/mutate"
ROOT = os.path.abspath(os.path.join(TESTS, ".."))
# Of scripts with a way of their own: where a rule's file lies below the root, by the word before its name ("": none, or a folder of shim/), and
# whether blanks are as they come.
OTHERS = {
    "lint/mutate": ({"": "tools/lint", "shim/": ""}, True),
    "check/mutate": ({"": "shim", "lint:": "tools/lint"}, True),
    "guard/mutate": ({"": "shim/guard"}, False),
    "future/mutate": ({"": "include/slipstream"}, False),
}
# A script whose rules were not found here would pass.
RULES_AT_LEAST = 20


def load(path):
    """A script as a module. What it imports lies beside it."""
    path = os.path.join(TESTS, path)
    name = path.replace(os.sep, "_")
    sys.path.insert(0, os.path.dirname(path))
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    sys.path.remove(os.path.dirname(path))
    return module


def wrong_in(shim, file, old, new):
    """What is wrong with a rule; "" if nothing is."""
    path = os.path.join(shim, file)
    if not os.path.exists(path):
        return f"no file {file}"
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    try:
        changed = mutants.changed(text, old, new)
    except (mutants.NotOnce, ValueError) as error:
        return f"{error} in {file}"
    return "" if changed != text else f"changes nothing in {file}"


def wrong_elsewhere(folders, any_blanks, file, old):
    """The same of a rule of OTHERS."""
    word = next((word for word in sorted(folders, reverse=True) if file.startswith(word)), "")
    path = os.path.join(ROOT, folders[word], file if word == "shim/" else file[len(word):])
    if not os.path.exists(path):
        return f"no file {file}"
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    places = len(re.findall(r"\s+".join(map(re.escape, old.split())), text)) if any_blanks else text.count(old)
    return "" if places == 1 else f"{places} places in {file}"


def nobody_notices(script, part):
    """The first word of a rule's last column that names no part, case or unit test; "" if each does."""
    if part.startswith(mutants.UNIT):
        folder, program = part[len(mutants.UNIT):].split("/")
        # test_state_proof is made of state/test_proof.c.
        sources = [os.path.join(TESTS, "unit", folder, f"{name}.c") for name in (program, program.replace(f"_{folder}_", "_"))]
        return "" if any(map(os.path.exists, sources)) else part
    folder = os.path.join(TESTS, os.path.dirname(SCRIPTS[script]))
    text = ""
    for name in os.listdir(folder):
        if name.endswith((".c", ".py")):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                text += stream.read()
    # A case that is made of two words in the text is no reason to say so.
    return next((word for word in part.split() if f'"{word}"' not in text and f'"{word.split("-")[0]}-' not in text), "")


def main():
    sys.dont_write_bytecode = True
    parser = argparse.ArgumentParser()
    parser.add_argument("--shim", default=mutants.SHIM)
    shim = parser.parse_args().shim
    wrong, names, count = [], {}, 0
    for script, path in SCRIPTS.items():
        rules = load(path).RULES
        names[script] = [rule[0] for rule in rules]
        count += len(rules)
        if len(rules) < RULES_AT_LEAST:
            wrong.append(f"{path}: only {len(rules)} rules")
        wrong += [f"{path}: {name}: stands there twice" for name in sorted(set(names[script])) if names[script].count(name) > 1]
        wrong += [f"{path}: {rule[0]}: {what}" for rule in rules if (what := wrong_in(shim, *rule[1:4]))]
        wrong += [f"{path}: {rule[0]}: nobody notices: no {what}" for rule in rules if len(rule) > 4 and (what := nobody_notices(script, rule[4]))]
    for path, (folders, any_blanks) in OTHERS.items():
        rules = load(path).RULES
        own = [rule[0] for rule in rules]
        count += len(rules)
        if len(rules) < RULES_AT_LEAST:
            wrong.append(f"{path}: only {len(rules)} rules")
        wrong += [f"{path}: {name}: stands there twice" for name in sorted(set(own)) if own.count(name) > 1]
        wrong += [f"{path}: {rule[0]}: {what}" for rule in rules if (what := wrong_elsewhere(folders, any_blanks, *rule[1:3]))]
    for script, name, _ in load(SAFETY).RULES:
        count += 1
        if name not in names.get(script, ()):
            wrong.append(f"{SAFETY}: {script} {name}: no such rule")
    print("\n".join(wrong) if wrong else f"{count} rules, each found once", file=sys.stderr if wrong else sys.stdout)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
