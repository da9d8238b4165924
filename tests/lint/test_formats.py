# SPDX-License-Identifier: MIT
"""The formats: JSON, SARIF and JUnit against their schemas and by their structure, GitHub annotations against a golden text."""

import json
import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

try:
    import jsonschema
except ImportError:
    sys.exit(77)

import lint
import made
import records

HOSTILE = 'x,:%\r\n::error::"<&>\x1b[2J\uffff'
GITHUB = r"""::error file=src/a%3A b%2C.py,line=7,title=L12 free-drains-device::cuMemFree_v2: frees 100%25 of it (2 calls, blocked 2.00 ms). Instead: FIX_L12
::warning file=train.py,line=12,title=implicit-wait/d2h d2h::cuMemcpyDtoH_v2: d2h (1 call, blocked 1.00 ms, in region step). Instead: FIX_D2H
::warning title=implicit-wait/h2h h2h::? in solver+0x140: cuMemcpy: copies (1 call, blocked 1.00 ms). Instead: FIX_H2H
::notice file=train.py,line=12,title=implicit-wait/observed-unknown observed-unknown::cuFoo: observed unknown (1 call, blocked 1.00 ms). Instead: FIX_NOTE
::error title=budget over-budget::region step: 1 implicit wait, its budget is 0. Instead: FIX_BUDGET
::warning title=slipstream lint::inconclusive: 1 record could not be written
"""


def process():
    made_one = made.Made(dropped=1)
    made_one.wait(slug="free-drains-device", function="cuMemFree_v2", at=("src/a: b,.py", 7, "free"), count=2, blocked=2 * made.MS,
                  cause="frees 100% of it")
    made_one.wait(region="step")
    made_one.wait(slug="observed-unknown", function="cuFoo")
    r = made_one.records
    module = r.module("/opt/app/solver")
    made_one.functions["cuMemcpy"] = r.function("cuMemcpy")
    r.wait(made_one.functions["cuMemcpy"], r.rule("h2h", "copies", records.IMPLICIT), r.site([(module, 0x140)]), count=1, blocked=made.MS)
    return made_one


CONFIG = "version: 1\nrules: {L12: error}\nbudgets: [{region: step, implicit: 0}]\n"


class Formats(lint.Lint):
    def output(self, form, *arguments, of=None, status=1):
        done = self.lint("--config", self.file("c.yaml", CONFIG), "--format", form, *arguments, (of or process()).write(self.path("records")))
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def schema(self):
        with open(os.path.join(lint.ROOT, "tools/slipstream-lint.schema.json")) as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        return jsonschema.Draft202012Validator(schema)

    def test_json_keeps_its_schema(self):
        validator = self.schema()
        for arguments in ((), ("--baseline", self.baseline())):
            validator.validate(json.loads(self.output("json", *arguments)))
        for command, status in ((lint.program("L12"), 1), (lint.program("L12", "fixed"), 0), ("false", 4)):
            validator.validate(self.run_json(command, status=status))
        self.assertRaises(jsonschema.ValidationError, validator.validate, {"version": "0"})

    def baseline(self):
        known = made.Made()
        known.wait(at=("gone.py", 1, "gone"))
        path = self.path("baseline.json")
        self.assertEqual(self.lint("--write-baseline", path, known.write(self.path("known"))).returncode, 0)
        return path

    def test_github_annotations(self):
        fixes = {result["rule"]: result["fix"] for result in json.loads(self.output("json"))["results"]}
        expected = GITHUB
        for mark, rule in (("FIX_L12", "L12"), ("FIX_D2H", "implicit-wait/d2h"), ("FIX_H2H", "implicit-wait/h2h"),
                           ("FIX_NOTE", "implicit-wait/observed-unknown"), ("FIX_BUDGET", "budget")):
            expected = expected.replace(mark, fixes[rule])
        self.assertEqual(sorted(self.output("github").splitlines()), sorted(expected.splitlines()))

    def test_known_findings_are_not_annotated(self):
        path = self.path("baseline.json")
        clean = made.Made()
        clean.wait()
        folder = clean.write(self.path("records"))
        self.assertEqual(self.lint("--write-baseline", path, folder).returncode, 0)
        done = self.lint("--format", "github", "--baseline", path, folder)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_junit(self):
        root = xml.fromstring(self.output("junit"))
        suite = root.find("testsuite")
        cases = suite.findall("testcase")
        failures = [case for case in cases if case.find("failure") is not None]
        errors = [case for case in cases if case.find("error") is not None]
        self.assertEqual((root.tag, suite.get("tests"), suite.get("failures"), suite.get("errors")),
                         ("testsuites", str(len(cases)), str(len(failures)), str(len(errors))))
        self.assertEqual(sorted(case.get("classname") for case in failures),
                         ["slipstream.lint.L12", "slipstream.lint.budget", "slipstream.lint.implicit-wait/d2h", "slipstream.lint.implicit-wait/h2h"])
        self.assertEqual([case.find("error").get("message") for case in errors], ["1 record could not be written"])
        self.assertIn("src/a: b,.py:7", failures[0].find("failure").text)
        self.assertEqual(len({(case.get("classname"), case.get("name")) for case in cases}), len(cases))

    def test_junit_has_a_name_for_each_of_several_at_one_place(self):
        several = made.Made()
        for caller in ("first", "second", "third"):
            several.wait(at=(("copy.py", 3, "copy"), ("train.py", 9, caller)))
        cases = xml.fromstring(self.output("junit", of=several)).find("testsuite").findall("testcase")
        self.assertEqual(sorted(case.get("name") for case in cases if case.find("failure") is not None), ["d2h copy.py:3", "d2h copy.py:3 #2", "d2h copy.py:3 #3"])

    def test_junit_of_a_clean_run_has_no_failure(self):
        suite = xml.fromstring(self.output("junit", of=made.Made(), status=0)).find("testsuite")
        self.assertEqual((suite.get("failures"), suite.get("errors")), ("0", "0"))
        self.assertEqual(suite.findall(".//failure") + suite.findall(".//error"), [])
        self.assertGreater(int(suite.get("tests")), 30)

    def test_sarif(self):
        log = json.loads(self.output("sarif", "--baseline", self.baseline()))
        run, = log["runs"]
        rules = run["tool"]["driver"]["rules"]
        self.assertEqual((log["version"], len({rule["id"] for rule in rules})), ("2.1.0", len(rules)))
        self.assertNotIn("S04", {rule["id"] for rule in rules})
        for result in run["results"]:
            self.assertEqual(rules[result["ruleIndex"]]["id"], result["ruleId"])
            self.assertEqual(result["baselineState"], "new")
            self.assertRegex(result["partialFingerprints"]["slipstream/v1"], "^[0-9a-f]{16}/1$")
        by_rule = {result["ruleId"]: result for result in run["results"]}
        self.assertEqual(by_rule["L12"]["locations"][0]["physicalLocation"],
                         {"artifactLocation": {"uri": "src/a%3A%20b%2C.py", "uriBaseId": "ROOT"}, "region": {"startLine": 7}})
        self.assertEqual(by_rule["implicit-wait/h2h"]["locations"],
                         [{"logicalLocations": [{"kind": "function", "fullyQualifiedName": "solver::?"}]}])
        self.assertNotIn("locations", by_rule["budget"])
        invocation, = run["invocations"]
        self.assertFalse(invocation["executionSuccessful"])
        texts = [notification["message"]["text"] for notification in invocation["toolExecutionNotifications"]]
        self.assertIn("inconclusive: 1 record could not be written", texts)
        self.assertEqual(sum(text.startswith("rule S04 is not checked") for text in texts), 1)
        self.assertEqual(run["originalUriBaseIds"]["ROOT"]["uri"], f"file://{lint.ROOT}/")

    def foreign_schema(self, name):
        """One that `prepare` has fetched; without it the reason why there is none."""
        path = os.path.join(lint.ROOT, "build/schemas", name)
        if not os.path.exists(path):
            reason = os.path.join(lint.ROOT, "build/schemas.reason")
            if not os.path.exists(reason):
                self.skipTest("tests/lint/prepare was not run")
            with open(reason) as file:
                text = file.read().strip()
            (self.skipTest if text.startswith("skipped:") else self.fail)(text)
        return path

    def test_sarif_keeps_the_schema_of_oasis(self):
        with open(self.foreign_schema("sarif-2.1.0.json")) as file:
            schema = json.load(file)
        validator = jsonschema.validators.validator_for(schema)(schema)
        for log in (self.output("sarif"), self.output("sarif", "--baseline", self.baseline()), self.output("sarif", of=made.Made(), status=0)):
            validator.validate(json.loads(log))
        validator.validate(json.loads(self.lint("--driver", lint.DRIVER, "--format", "sarif", "--", lint.program("L12")).stdout))
        self.assertRaises(jsonschema.ValidationError, validator.validate, {"version": "2.1.0"})

    def test_junit_keeps_the_schema_of_jenkins(self):
        schema = self.foreign_schema("junit-10.xsd")
        for number, text in enumerate((self.output("junit"), self.output("junit", of=made.Made(), status=0))):
            path = self.file(f"{number}.xml", text)
            done = subprocess.run(["xmllint", "--noout", "--schema", schema, path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_hostile_names_break_no_format(self):
        hostile = made.Made()
        hostile.wait(slug="h2h", function=f"cu{HOSTILE}", at=(f"{HOSTILE}.py", 3, HOSTILE), region=HOSTILE, cause=HOSTILE)
        for form in ("text", "github"):
            text = self.output(form, of=hostile)
            self.assertFalse(set(text) & set("\x1b\r\0"))
            self.assertEqual(sum(line.startswith("::") for line in text.splitlines()), form == "github")
        failure = xml.fromstring(self.output("junit", of=hostile)).find(".//failure")
        self.assertIn('"<&>', failure.get("message"))
        for form in ("json", "sarif"):
            self.assertIn('"<&>', json.dumps(json.loads(self.output(form, of=hostile)), ensure_ascii=False).replace("\\", ""))

    def test_several_formats_at_once(self):
        names = {form: self.path(form) for form in ("text", "json", "sarif", "junit", "github")}
        arguments = [word for form, path in names.items() for word in ("--format", f"{form}={path}")]
        self.assertEqual(self.output("text", *arguments), open(names["text"]).read())
        json.load(open(names["json"]))
        json.load(open(names["sarif"]))
        xml.parse(names["junit"])
        self.assertTrue(open(names["github"]).read().startswith("::"))

    def test_an_output_that_cannot_be_written_is_2(self):
        done = subprocess.run([lint.TOOL, "lint", made.Made().write(self.path("records"))], stdout=open("/dev/full", "w"),
                              stderr=subprocess.PIPE, text=True, check=False, env=lint.environment())
        self.assertEqual((done.returncode, done.stderr), (2, "slipstream lint: stdout cannot be written: No space left on device\n"))


if __name__ == "__main__":
    unittest.main()
