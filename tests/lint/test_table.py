# SPDX-License-Identifier: MIT
"""The rules' file: each implicit and device rule of the catalogue has its lint rule; every bad row ends with one line that names it."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import lint

CATALOGUE = os.path.join(lint.ROOT, "shim/catalogue")
GENERATOR = os.path.join(lint.ROOT, "tools/gen/lint_table.py")
sys.path.insert(0, os.path.dirname(GENERATOR))
import lint_table  # noqa: E402

ROW = """- id: X01
  slug: some-name
  level: warning
  sure: proven
  what: "What."
  why: "Why."
  fix: "Fix."
  from:
    - rules: [d2h]
"""
BAD = (  # replaced, by, words
    ("level: warning", "level: loud", "level: unknown value 'loud'"),
    ("level: warning\n  ", "", "level: missing"),
    ("sure: proven", "sure: hopefully", "sure: unknown value"),
    ("id: X01", "id: budget", "there is another rule of the name budget"),
    ("some-name", "Some Name", "slug: must be words in lower case"),
    ("some-name", "over-budget", "there is another rule of the name over-budget"),
    ("[d2h]", "[d2h, nothing]", "rules.yaml has no rule 'nothing'"),
    ("[d2h]", "[stream-synchronize]", "stream-synchronize is explicit"),
    ("[d2h]", "d2h", "rules must be a list"),
    ("[d2h]", "[d2h]\n      least: 3", "least: unknown key"),
    ("[d2h]", "[d2h]\n      hot: many", "hot: must be a number"),
    ("[d2h]", "[d2h]\n      least_bytes: 9\n      most_bytes: 8", "least_bytes is above most_bytes"),
    ("from:\n    - rules: [d2h]\n", "", "give `needs`, or one of `from` and `remarks`, or both of these"),
    ("  from:", "  needs: managed\n  from:", "give `needs`, or one of `from` and `remarks`, or both of these"),
    ("  from:\n    - rules: [d2h]\n", "  needs: luck\n", "needs: unknown value 'luck'"),
    ("  from:\n    - rules: [d2h]\n", "  remarks: [d2h]\n", "rules.yaml has no rule 'd2h' of class order"),
    ("  from:\n    - rules: [d2h]\n", "  remarks: legacy-outside-capture\n", "remarks: must be a list"),
    ("[d2h]", "[legacy-outside-capture]", "legacy-outside-capture is of class order: `remarks` takes it"),
    ("  why:", "  colour: red\n  why:", "colour: unknown key"),
    ('  fix: "Fix."\n', "", "fix: missing"),
)


class Table(lint.Lint):
    @classmethod
    def setUpClass(cls):
        cls.rules, cls.catalogue = lint_table.load(CATALOGUE)

    def load(self, text):
        """The fault of a file with this text, without its folder; None: there is none."""
        try:
            lint_table.read(self.file("lint.yaml", text), self.catalogue)
        except lint_table.catalogue_module.CatalogueError as error:
            return str(error)
        return None

    def test_a_good_row(self):
        self.assertIsNone(self.load(ROW))

    def test_the_fix_of_one_order_rule_is_said_once(self):
        order = next(rule for rule in self.catalogue.rules if rule.slug == "legacy-outside-capture")
        row = ROW.replace("  from:\n    - rules: [d2h]\n", "  remarks: [legacy-outside-capture]\n")
        without = row.replace('  fix: "Fix."\n', "")
        for text, fix in ((row, "Fix."), (without, order.fix)):
            self.assertEqual(lint_table.read(self.file("lint.yaml", text), self.catalogue)[0].fix, fix)
        self.assertIn("is what rules.yaml says of legacy-outside-capture", self.load(row.replace("Fix.", order.fix)))
        two = without.replace("[legacy-outside-capture]", "[legacy-outside-capture, legacy-in-capture]")
        self.assertIn("fix: missing", self.load(two))

    def test_bad_rows(self):
        for old, new, words in BAD:
            with self.subTest(new=new):
                self.assertIn(old, ROW)
                told = self.load("# first\n" + ROW.replace(old, new))
                self.assertIn(words, told)
                self.assertNotIn("\n", told)
                self.assertIn("lint.yaml:2: ", told)

    def test_the_generator_ends_with_one_line(self):
        for name in ("rules.yaml", "functions.yaml"):
            shutil.copy(os.path.join(CATALOGUE, name), self.folder)
        self.file("lint.yaml", ROW.replace("d2h", "nothing"))
        done = subprocess.run([sys.executable, GENERATOR, "--catalogue", self.folder, "--source", self.path("table.c")], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n"), os.path.exists(self.path("table.c"))), (1, 1, False), done.stderr)
        self.assertIn("rules.yaml has no rule 'nothing'", done.stderr)

    def test_two_rows_of_one_name(self):
        self.assertIn("another rule of the name X01", self.load(ROW + ROW))

    def test_every_rule_of_the_catalogue_is_taken(self):
        rules, catalogue = self.rules, self.catalogue
        taken = {slug for rule in rules for slugs, _ in rule.matches for slug in slugs}
        self.assertEqual(taken, {rule.slug for rule in catalogue.rules if rule.wait_class != "explicit"})

    def test_rules_of_the_design_are_there(self):
        rules = self.rules
        self.assertEqual([rule.id for rule in rules if re.match(r"L\d\d$", rule.id)], [f"L{number:02}" for number in range(1, 19)])

    def test_the_command_has_the_same_rules(self):
        rules = self.rules
        told = [line.split()[0] for line in self.lint("--rules").stdout.splitlines() if line and not line.startswith((" ", "Not checked"))]
        self.assertEqual(sorted(told), sorted(rule.id for rule in rules))

    def test_the_page_names_each_rule_and_shows_its_programs(self):
        rules = self.rules
        page = lint_table.page(rules, lint.SOURCES)
        for rule in rules:
            self.assertIn(f"## {rule.id}", page)
        self.assertEqual(page.count("```c\n"), sum(os.path.exists(os.path.join(lint.SOURCES, f"{rule.id}.c")) for rule in rules))
        self.assertGreaterEqual(page.count("```c\n"), 8)
        self.assertEqual(page.count("Not checked in this version"), sum(rule.needs is not None for rule in rules))


if __name__ == "__main__":
    unittest.main()
