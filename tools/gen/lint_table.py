#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check shim/catalogue/lint.yaml against rules.yaml, and write the rules of `slipstream lint` as a C table or as a page for people.

Owns: the meaning of lint.yaml's keys, and the rules that implicit waits without a row get. Called by: Meson, the tests. Relies on: catalogue.py for
reading rows with their lines.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalogue as catalogue_module  # noqa: E402

LEVELS = ("error", "warning", "note", "off")
SURE = {"documented": "proven", "measured": "measured", "reported": "likely", "inferred": "likely"}
NEEDS = ("managed",)
CHECKS = ("order", "guard")
# By id: the word of SLIPSTREAM_CHECK that makes the remarks of a row, where it is not the first one.
CHECK_OF = {}
NEEDS_WORDS = {
    "managed": "needs to know who touches managed memory, which nothing here looks at yet",
}
CONDITIONS = ("least_bytes", "most_bytes", "least_count", "hot")
GENERIC = "implicit-wait"
OWN_COST_HOT = 3
NO_LIMIT = 2**64 - 1
# Of no row: what tools/lint/ finds by itself.
FIXED = (
    ("budget", "over-budget", "error", "proven", "A region waits more often, or longer, than its budget in the configuration allows.",
     "The team has set the limit.", "Move the wait out of the region, or remove it; the findings of the region say which there are."),
    (GENERIC, "unknown-rule", "warning", "likely", "A wait for a reason that this version does not know: the record is of a newer one.",
     "What it costs is known, why is not.", "Use the version of slipstream that recorded it."),
)
HEAD = "// SPDX-License-Identifier: MIT\n/* Written by tools/gen/lint_table.py from lint.yaml and rules.yaml. Do not edit. */\n"


class LintRule:
    """One row, or one made for a rule of the catalogue. `matches`: [(slugs, {condition: number})]; `by_remarks`: all of remarks."""

    def __init__(self, identity, slug, level, sure, what, why, fix, matches, needs=None, by_remarks=False):
        self.id, self.slug, self.level, self.sure = identity, slug, level, sure
        self.what, self.why, self.fix, self.matches, self.needs, self.by_remarks = what, why, fix, matches, needs, by_remarks
        self.check = CHECK_OF.get(identity, CHECKS[0])


def _match(place, name, values, slugs):
    reader = catalogue_module._Reader(place, name, values)
    rules = reader.take("rules", "any", None)
    if not isinstance(rules, list) or not rules:
        raise reader.error("from", "rules must be a list of slugs of rules.yaml")
    for slug in rules:
        if slug not in slugs:
            raise reader.error("from", f"rules.yaml has no rule {catalogue_module._shown(slug)}")
        if slugs[slug].wait_class == "order":
            raise reader.error("from", f"{slug} is of class order: `remarks` takes it")
        if slugs[slug].wait_class == "explicit":
            raise reader.error("from", f"{slug} is explicit: asked-for waits are judged by budgets only")
    conditions = {key: reader.take(key, "count", None) for key in CONDITIONS if key in values}
    if "waited" in values:
        conditions["waited"] = reader.take("waited", "flag", False)
    if "level" in values:
        conditions["level"] = reader.choice("level", LEVELS[:3], None)
    if conditions.get("least_bytes", 0) > conditions.get("most_bytes", NO_LIMIT):
        raise reader.error("from", "least_bytes is above most_bytes")
    reader.finish()
    return rules, conditions


def _remarks(reader, slugs):
    """[(slugs, {})] of rules of class order."""
    given = reader.take("remarks", "any", None)
    if not isinstance(given, list) or not given:
        raise reader.error("remarks", "must be a list of slugs of rules.yaml")
    for slug in given:
        if slug not in slugs or slugs[slug].wait_class != "order":
            raise reader.error("remarks", f"rules.yaml has no rule {catalogue_module._shown(slug)} of class order")
    return [(given, {})]


def _only_remark(values, slugs):
    """The rule of class order that a row is about alone, whose fix is then the row's too; None: of several, or of others."""
    given = values.get("remarks")
    if "from" in values or not isinstance(given, list) or len(given) != 1 or not isinstance(given[0], str):
        return None
    rule = slugs.get(given[0])
    return rule if rule and rule.wait_class == "order" else None


def _row(place, values, slugs):
    name = values.get("id")
    if not isinstance(name, str) or not name:
        raise place.error(None, "id", "missing")
    reader = catalogue_module._Reader(place, name, values)
    alone = _only_remark(values, slugs)
    for key in ("slug", "level", "sure", "what", "why") + (() if alone else ("fix",)):
        if not values.get(key):
            raise reader.error(key, "missing")
    if alone and values.get("fix") == alone.fix:
        raise reader.error("fix", f"is what rules.yaml says of {alone.slug}: leave it out")
    reader.take("id", "text", None)
    slug = reader.take("slug", "text", None)
    if not catalogue_module.SLUG.match(slug):
        raise reader.error("slug", "must be words in lower case joined by '-'")
    level = reader.choice("level", LEVELS, None)
    sure = reader.choice("sure", tuple(dict.fromkeys(SURE.values())), None)
    texts = [reader.take(key, "text", None) for key in ("what", "why", "fix")]
    texts[2] = texts[2] or alone.fix
    needs = reader.choice("needs", NEEDS, None) if "needs" in values else None
    remarks = _remarks(reader, slugs) if "remarks" in values else []
    if remarks and "check" in values:
        CHECK_OF[name] = reader.choice("check", CHECKS, None)
    given = reader.take("from", "any", [])
    if bool(needs) == bool(given or remarks):
        raise reader.error("from", "give `needs`, or one of `from` and `remarks`, or both of these")
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise reader.error("from", "must be a list of mappings")
    reader.finish()
    matches = [_match(place, name, item, slugs) for item in given] + remarks
    return LintRule(name, slug, level, sure, *texts, matches, needs, bool(remarks) and not given)


def _generic(rule):
    """For what no row takes. What depends on a time alone, or is not sure, must not fail a build on a busy machine."""
    firm = rule.confidence in ("documented", "measured") and not rule.minimum_ns and not rule.own_cost
    return LintRule(f"{GENERIC}/{rule.slug}", rule.slug, "warning" if firm else "note", SURE[rule.confidence],
                    rule.cause[0].upper() + rule.cause[1:] + ".", rule.text, rule.fix,
                    [([rule.slug], {"hot": OWN_COST_HOT} if rule.own_cost else {})])


def read(path, catalogue):
    """The rows of the file, then those made for the rest. CatalogueError names file, line, row and key."""
    slugs = {rule.slug: rule for rule in catalogue.rules}
    rules, names, whole, taken = [], {name for row in FIXED for name in row[:2]}, set(), set()
    for place, values in catalogue_module._rows(path):
        rule = _row(place, values, slugs)
        for name in (rule.id, rule.slug):
            if name in names:
                raise place.error(rule.id, None, f"there is another rule of the name {name}")
            names.add(name)
        rules.append(rule)
        for match, conditions in rule.matches:
            taken.update(match)
            # What is done once, at start, stays no finding: a row with `hot` takes all of its rules.
            if not set(conditions) - {"hot", "level"}:
                whole.update(match)
    for rule in catalogue.rules:
        if rule.wait_class not in ("explicit", "order") and rule.slug not in whole:
            if f"{GENERIC}/{rule.slug}" in names or rule.slug in names and rule.slug not in taken:
                raise rule.place.error(rule.slug, None, "a row of lint.yaml has its name, but does not take it")
            rules.append(_generic(rule))
    return rules + [LintRule(*row, []) for row in FIXED]


def load(directory):
    """The rules of a folder with lint.yaml, rules.yaml and functions.yaml, and its catalogue."""
    catalogue = catalogue_module.load(directory)
    rules = read(os.path.join(directory, "lint.yaml"), catalogue)
    remarked = {slug for rule in rules for slugs, _ in rule.matches for slug in slugs}
    for rule in catalogue.rules:
        if rule.wait_class == "order" and rule.slug not in remarked:
            raise rule.place.error(rule.slug, None, "no row of lint.yaml takes its remarks")
    return rules, catalogue


def c_source(rules):
    string = catalogue_module.c_string
    lines = [HEAD, '#include "lint/rules.h"', ""]
    for number, rule in enumerate(rules):
        for k, (slugs, conditions) in enumerate(rule.matches):
            lines.append(f"static const char *const slugs_{number}_{k}[] = {{{', '.join(map(string, slugs))}, NULL}};")
        if rule.matches:
            lines.append(f"static const struct lint_match matches_{number}[] = {{")
            for k, (_, conditions) in enumerate(rule.matches):
                lines.append(f"\t{{slugs_{number}_{k}, UINT64_C({conditions.get('least_bytes', 0)}), "
                             f"UINT64_C({conditions.get('most_bytes', NO_LIMIT)}), "
                             f"UINT64_C({conditions.get('least_count', 0)}), UINT64_C({conditions.get('hot', 0)}), "
                             f"{int(conditions.get('waited', False))}, LINT_{conditions.get('level', 'off').upper()}}},")
            lines.append("};")
    lines += ["", "const struct lint_rule lint_rules[] = {"]
    for number, rule in enumerate(rules):
        needs = string(NEEDS_WORDS[rule.needs]) if rule.needs else "NULL"
        matches = f"{str(rule.by_remarks).lower()}, {string(rule.check)}, " + (f"matches_{number}, {len(rule.matches)}" if rule.matches else "NULL, 0")
        lines.append(f"\t{{{string(rule.id)}, {string(rule.slug)}, LINT_{rule.level.upper()}, {string(rule.sure)},\n"
                     f"\t {string(rule.what)},\n\t {string(rule.why)},\n\t {string(rule.fix)},\n\t {needs}, {matches}}},")
    lines += ["};", "const size_t lint_rule_count = sizeof(lint_rules) / sizeof(lint_rules[0]);", ""]
    return "\n".join(lines)


def _condition_words(conditions):
    words = []
    if "hot" in conditions:
        words.append(f"{conditions['hot']} calls or more at one place, over a tenth of the run or more")
    if "least_count" in conditions:
        words.append(f"{conditions['least_count']} calls or more at one place")
    if "least_bytes" in conditions:
        words.append(f"{conditions['least_bytes']} bytes or more")
    if "most_bytes" in conditions:
        words.append(f"{conditions['most_bytes']} bytes or fewer")
    if conditions.get("waited"):
        words.append("pending work is known that it waited for")
    if "level" in conditions:
        words.append(f"level {conditions['level']}")
    return ", ".join(words)


def _program(rule, directory, cases):
    """The failing and the fixed program: of the rule's name, or the first case that says that the rule is found in it."""
    path = os.path.join(directory, f"{rule.id}.c") if directory else ""
    if os.path.exists(path):
        head = "A program that fails, and with -DFIXED the fixed one:"
    else:
        head = "A program that fails, where the line is marked, and is the fixed one with the argument `fixed`:"
        path = next((case for case in sorted(cases) if f"/* FOUND: {rule.id} */" in catalogue_module._read(case)), None)
    return [head, "", "```c", catalogue_module._read(path).rstrip("\n"), "```", ""] if path else []


def page(rules, programs=None, cases=()):
    """The rules for people."""
    lines = ["# Rules of slipstream lint", "",
             "Written by tools/gen/lint_table.py from lint.yaml and rules.yaml. How sure: proven follows from the calls that were seen and a "
             "documented rule; measured: the driver was measured to do so; likely: seen in practice, or inferred.", "",
             "| Rule | Name | Level | Sure | Checked |", "|---|---|---|---|---|"]
    lines += [f"| {rule.id} | {rule.slug} | {rule.level} | {rule.sure} | {'no: ' + NEEDS_WORDS[rule.needs] if rule.needs else 'yes'} |"
              for rule in rules]
    for rule in rules:
        lines += ["", f"## {rule.id} {rule.slug if rule.slug not in rule.id else ''}".rstrip(), "", f"- What: {rule.what}", f"- Why: {rule.why}",
                  f"- Instead: {rule.fix}", f"- How sure: {rule.sure}. Level: {rule.level}."]
        if rule.needs:
            lines.append(f"- Not checked in this version: it {NEEDS_WORDS[rule.needs]}.")
        if rule.check == "guard":
            lines.append("- Checked with `slipstream lint --guard -- PROGRAM` only.")
        for slugs, conditions in rule.matches:
            words = _condition_words(conditions)
            lines.append(f"- Taken from: {'remarks of ' if rule.by_remarks else ''}{', '.join(slugs)}{' (' + words + ')' if words else ''}.")
        program = _program(rule, programs, cases)
        lines += [""] + program if program else []
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description="check lint.yaml; write its C table and its page")
    parser.add_argument("--catalogue", required=True, help="folder with lint.yaml, rules.yaml and functions.yaml")
    parser.add_argument("--programs", help="folder with a program for each rule, for the page")
    parser.add_argument("--cases", nargs="+", default=[], help="programs that say by comments which rule is found in them, for the page")
    parser.add_argument("--source", help="write the C table here")
    parser.add_argument("--page", help="write the page here")
    arguments = parser.parse_args()
    try:
        rules, _ = load(arguments.catalogue)
        if arguments.source:
            catalogue_module.write(arguments.source, c_source(rules))
        if arguments.page:
            catalogue_module.write(arguments.page, page(rules, arguments.programs, arguments.cases))
    except catalogue_module.CatalogueError as error:
        sys.exit(f"lint_table: {error}")
    except OSError as error:
        sys.exit(f"lint_table: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
