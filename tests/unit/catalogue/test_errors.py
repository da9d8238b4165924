# SPDX-License-Identifier: MIT
"""Broken catalogues: each mistake gives one line that says what and where, and nothing breaks the loader."""
import os
import random
import tempfile
import unittest

import support
import catalogue as catalogue_module
import prototypes as prototypes_module

F = "functions.yaml"
R = "rules.yaml"

# (file, text to replace, replacement, the message after the folder)
BROKEN = [
    (F, "kind: copy", "kind: cpoy", "functions.yaml:1: cuMemcpyHtoD: kind: unknown value 'cpoy' (one of:"),
    (F, "kind: copy, ", "", "functions.yaml:1: cuMemcpyHtoD: kind: missing"),
    (F, "kind: copy", "kind: [copy]", "functions.yaml:1: cuMemcpyHtoD: kind: must be text, is '['copy']'"),
    (F, "barrier: join", "barier: join", "functions.yaml:1: cuMemcpyHtoD: barier: unknown key"),
    (F, "barrier: join", "barrier: join, barrier: none", "functions.yaml:2: barrier: given twice"),
    (F, "rules: [waits]", "rules: [wiats]", "functions.yaml:1: cuMemcpyHtoD: rules: unknown rule 'wiats'"),
    (F, "rules: [waits]", "rules: waits", "functions.yaml:1: cuMemcpyHtoD: rules: must be a list, is 'waits'"),
    (F, "rules: [waits]", "rules: [{a: b}]", "functions.yaml:1: cuMemcpyHtoD: rules: unknown rule '{'a': 'b'}'"),
    (F, "rules: [waits]", "rules: [waits, waits]", "functions.yaml:1: cuMemcpyHtoD: rules: 'waits' given twice"),
    (F, "rules: [waits], ", "", "rules.yaml:1: waits: no row of functions.yaml uses this rule"),
    (F, "stream: implicit", "stream: default", "functions.yaml:1: cuMemcpyHtoD: stream: unknown value 'default'"),
    (F, "{argument: hStream}", "{name: hStream}", "functions.yaml:4: cuStreamSynchronize: stream: must be none, implicit, context or {argument: NAME}"),
    (F, "{argument: hStream}", "{argument: 3}", "functions.yaml:4: cuStreamSynchronize: stream: must be none, implicit, context or {argument: NAME}"),
    (F, "stream: implicit, ", "", "functions.yaml:1: cuMemcpyHtoD: submits: but stream is none"),
    (F, "source: srcHost", 'source: "srcHost @"', "functions.yaml:1: cuMemcpyHtoD: source: '@' is not understood"),
    (F, "source: srcHost", 'source: ""', "functions.yaml:1: cuMemcpyHtoD: source: is empty"),
    (F, "fixed_ns: 10", "fixed_ns: -1", "functions.yaml:1: cuMemcpyHtoD: fixed_ns: must be a number from 0, is '-1'"),
    (F, "ns_per_kib: 1.5", "ns_per_kib: much", "functions.yaml:1: cuMemcpyHtoD: idle: ns_per_kib must be a number from 0, is 'much'"),
    (F, "ns_per_kib: 1.5", "ns_per_kb: 1.5", "functions.yaml:1: cuMemcpyHtoD: idle: unknown key 'ns_per_kb'"),
    (F, "idle: {fixed_ns: 10, ns_per_kib: 1.5}", "idle: 10", "functions.yaml:1: cuMemcpyHtoD: idle: must be a mapping, is '10'"),
    (F, "stream_created(*phStream, Flags)", "stream_made(*phStream, Flags)",
     "functions.yaml:3: cuStreamCreate: after: unknown hook 'stream_made' (state.h declares no state_stream_made)"),
    (F, "stream_created(*phStream, Flags)", "stream_created(*phStream)",
     "functions.yaml:3: cuStreamCreate: after: hook 'stream_created' takes 2 arguments after the call, 1 given"),
    (F, "stream_created(*phStream, Flags)", "stream_created(*phStream, )", "functions.yaml:3: cuStreamCreate: after: an argument is empty"),
    (F, "stream_created(*phStream, Flags)", "stream_created", "functions.yaml:3: cuStreamCreate: after: must be name(arguments), is 'stream_created'"),
    (F, '"stream_created(*phStream, Flags)"', "{a: b}", "functions.yaml:3: cuStreamCreate: after: must be a hook or a list of hooks"),
    (F, "result: stream_observed", 'result: "stream_observed(x)"', "functions.yaml:4: cuStreamSynchronize: result: must be the bare name of a hook"),
    (F, "kind: query", "kind: query, level: never", "functions.yaml:5: cuCtxGetCurrent: level: unknown value 'never'"),
    (F, "kind: wait", "kind: wait, level: count", "functions.yaml:4: cuStreamSynchronize: level: count: but the row has rules, hooks or submits"),
    (F, "kind: query", "kind: query, host: maybe", "functions.yaml:5: cuCtxGetCurrent: host: unknown value 'maybe'"),
    (F, "kind: query", "kind: query, versions: {v2: {}}", "functions.yaml:5: cuCtxGetCurrent: versions: 'v2' is no version"),
    (F, "kind: query", "kind: query, versions: {_v2: x}", "functions.yaml:5: cuCtxGetCurrent: versions: _v2: must be a mapping"),
    (F, "kind: query", "kind: query, versions: {_v2: {kind: none}}", "functions.yaml:5: cuCtxGetCurrent: kind: unknown value 'none'"),
    (F, "name: cuCtxGetCurrent", "name: cuStreamCreate", "functions.yaml:5: cuStreamCreate: there is a row for it at line 3"),
    (F, "name: cuCtxGetCurrent", "name: cuCtxGetCurrent_v2", "functions.yaml:5: cuCtxGetCurrent_v2: name: is no base name of a driver function"),
    (F, "name: cuCtxGetCurrent, ", "", "functions.yaml:5: name: missing"),
    (F, "name: cuCtxGetCurrent", "name: [x]", "functions.yaml:5: name: must be text"),
    (F, "- {name: cuCtxGetCurrent, kind: query}", "- cuCtxGetCurrent", "functions.yaml:5: a row must be a mapping"),
    (F, "kind: query}", "kind: query", "functions.yaml:6: "),
    (F, "kind: query}", "[kind]: query}", "functions.yaml:5: a key must be a word"),
    (F, "{name: cuCtxGetCurrent, kind: query}", "&a {name: cuCtxGetCurrent, kind: query, note: *a}", "functions.yaml:5: aliases are not allowed"),
    (F, "kind: query", "kind: *nowhere", "functions.yaml:5: "),
    (F, support.FUNCTIONS, "", "functions.yaml: must be a list of rows"),
    (F, support.FUNCTIONS, "name: cuInit", "functions.yaml: must be a list of rows"),
    (R, "slug: waits", "slug: Waits", "rules.yaml:1: Waits: slug: must be words in lower case joined by '-'"),
    (R, "- slug: waits\n  class", "- class", "rules.yaml:1: slug: missing"),
    (R, "class: implicit", "class: hidden", "rules.yaml:1: waits: class: unknown value 'hidden' (one of: explicit implicit device order)"),
    (R, "class: implicit", "class: order", "rules.yaml:1: waits: scope: is not for class order, which explains no wait"),
    (R, "scope: stream", "scope: world", "rules.yaml:1: waits: scope: unknown value 'world'"),
    (R, "SOURCE == PAGEABLE", "SUORCE == PAGEABLE", "rules.yaml:1: waits: when: unknown name 'SUORCE'"),
    (R, "SOURCE == PAGEABLE", "SOURCE == (PAGEABLE", "rules.yaml:1: waits: when: ')' missing"),
    (R, '  when: "SOURCE == PAGEABLE"\n', "", "rules.yaml:1: waits: when: missing"),
    (R, '  condition: "source pageable"\n', "", "rules.yaml:1: waits: condition: missing: say `when` in words"),
    (R, '"SOURCE == PAGEABLE"', "true", "rules.yaml:1: waits: condition: given, but `when` is true"),
    (R, "confidence: measured", "confidence: sure", "rules.yaml:1: waits: confidence: unknown value 'sure'"),
    (R, "confidence: measured", "confidence: measured\n  own_cost: true", "rules.yaml:1: waits: own_cost: needs scope host, is stream"),
    (R, "confidence: measured", "confidence: measured\n  own_cost: 1", "rules.yaml:1: waits: own_cost: must be true or false, is '1'"),
    (R, "scope: stream", "scope: host\n  room: true", "rules.yaml:1: waits: room: needs scope stream, is host"),
    (R, "confidence: measured", "confidence: measured\n  unexplained: true", "rules.yaml:1: waits: unexplained: a row of functions.yaml uses this rule"),
    (R, "confidence: measured", "confidence: measured\n  minimum_ns: 5us", "rules.yaml:1: waits: minimum_ns: must be a number from 0, is '5us'"),
    (R, "confidence: measured", "confidence: measured\n  minimum: 5", "rules.yaml:1: waits: minimum: unknown key"),
    (R, support.RULES, support.RULES + support.RULES, "rules.yaml:11: waits: there is a rule of this name above"),
    (R, '  text: "It waits."\n', "", "rules.yaml:1: waits: text: missing"),
]


class Broken(unittest.TestCase):
    def load(self, functions=support.FUNCTIONS, rules=support.RULES):
        with tempfile.TemporaryDirectory() as folder:
            support.write_catalogue(folder, functions, rules)
            try:
                catalogue_module.load(folder, support.STATE_HEADER)
            except catalogue_module.CatalogueError as error:
                return str(error).replace(folder + os.sep, "")
        return None

    def test_unbroken(self):
        self.assertIsNone(self.load())

    def test_each_mistake(self):
        for file, old, new, expected in BROKEN:
            text = support.FUNCTIONS if file == F else support.RULES
            self.assertIn(old, text)
            broken = text.replace(old, new)
            message = self.load(broken) if file == F else self.load(rules=broken)
            with self.subTest(new=new):
                self.assertIsNotNone(message, f"accepted: {new}")
                self.assertTrue(message.startswith(expected), f"{message}\nwanted: {expected}")
                self.assertNotIn("\n", message)

    def test_rule_never_reached(self):
        always = support.RULES.replace("scope: stream", "scope: host").replace('"SOURCE == PAGEABLE"\n  condition: "source pageable"', "true")
        rules = always + support.RULES.replace("slug: waits", "slug: late") + support.RULES.replace("slug: waits", "slug: joins").replace(
            "class: implicit", "class: device")
        for order, expected in (("waits, late, joins", "functions.yaml:1: cuMemcpyHtoD: rules: 'late' is never reached: a rule before it always holds"),
                                ("late, waits, joins", None), ("joins, late, waits", None)):
            self.assertEqual(self.load(support.FUNCTIONS.replace("[waits]", f"[{order}]"), rules), expected)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(catalogue_module.CatalogueError) as caught:
                catalogue_module.load(folder, support.STATE_HEADER)
            self.assertEqual(str(caught.exception), f"{os.path.join(folder, R)}: No such file or directory")
        self.assertEqual(self.load(b"- {name: cu\xff}"), "functions.yaml: not UTF-8 at byte 11")
        self.assertEqual(self.load("- {name: " + "[" * 100000 + "]" * 100000 + "}"), "functions.yaml: nested too deeply")

    def test_parameter(self):
        """A name that one export lacks: the message tells which."""
        text = """typedef int CUresult; typedef int *CUstream; CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);
            CUresult cuStreamSynchronize(CUstream hStream); CUresult cuStreamSynchronize_ptsz(CUstream stream);
            CUresult cuMemcpyHtoD_v2(void *dstDevice, const void *srcHost, unsigned int ByteCount); CUresult cuCtxGetCurrent(void *context);"""
        for old, new, expected in (
                ("", "", "functions.yaml:4: cuStreamSynchronize: stream: export cuStreamSynchronize_ptsz has no parameter 'hStream' (it has: stream)"),
                ("{argument: hStream}", "none", None),
                ("{argument: hStream}, result", "none, subject: hStream->x, result",
                 "functions.yaml:4: cuStreamSynchronize: subject: export cuStreamSynchronize_ptsz has no parameter 'hStream' (it has: stream)"),
                ("stream: {argument: hStream}", "stream: none, versions: {_ptsz: {subject: stream}}", None),
                ("stream: {argument: hStream}", "stream: none, versions: {_ptsz: {subject: s}}",
                 "functions.yaml:4: cuStreamSynchronize: subject: export cuStreamSynchronize_ptsz has no parameter 's' (it has: stream)"),
                ("kind: query", "kind: query, stream: {argument: context}",
                 "functions.yaml:5: cuCtxGetCurrent: stream: export cuCtxGetCurrent: 'context' is a void *, no CUstream")):
            with tempfile.TemporaryDirectory() as folder:
                functions = support.FUNCTIONS.replace(old, new) if old else support.FUNCTIONS
                if "context" in new:
                    functions = functions.replace("{argument: hStream}", "none")
                support.write_catalogue(folder, functions)
                loaded = catalogue_module.load(folder, support.STATE_HEADER)
                try:
                    loaded.exports(prototypes_module.parse_text(text))
                    message = None
                except catalogue_module.CatalogueError as error:
                    message = str(error).replace(folder + os.sep, "")
                self.assertEqual(message, expected)

    def test_exported_names(self):
        for text, expected in (("cuInit\ncu-Init\n", "exports.txt:2: 'cu-Init' is no name"), ("cuInit\n\ncuInit\n", "exports.txt:3: 'cuInit' is there twice")):
            with tempfile.TemporaryDirectory() as folder:
                support.write_catalogue(folder, exports=text)
                loaded = catalogue_module.load(folder, support.STATE_HEADER)
                with self.assertRaises(catalogue_module.CatalogueError) as caught:
                    loaded.exported_names()
                self.assertEqual(str(caught.exception).replace(folder + os.sep, ""), expected)

    def test_command(self):
        """As a command: one line, exit status 1, no file written."""
        with tempfile.TemporaryDirectory() as folder:
            support.write_catalogue(folder, support.FUNCTIONS.replace("kind: copy", "kind: cpoy"))
            header = os.path.join(folder, "out.h")
            for tool in ("catalogue.py", "catalogue_doc.py"):
                arguments = ["--header", header] if tool == "catalogue.py" else ["--output", header]
                done = support.run(tool, "--catalogue", folder, "--include", support.INCLUDE, *arguments)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertIn(f"{tool[:-3]}: {folder}/functions.yaml:1: cuMemcpyHtoD: kind: unknown value 'cpoy'", done.stderr)
                self.assertFalse(os.path.exists(header))
            support.write_catalogue(folder)
            done = support.run("catalogue_doc.py", "--catalogue", folder, "--output", "/no/such/folder/page.md")
            self.assertEqual((done.returncode, done.stderr), (1, "catalogue_doc: /no/such/folder/page.md: No such file or directory\n"))


class Fuzz(unittest.TestCase):
    """Random damage: the loader takes the file or says one line; nothing else comes out of it."""

    ROUNDS = 400

    def damage(self, generator, text):
        data = bytearray(text.encode())
        for _ in range(generator.randint(1, 6)):
            at = generator.randrange(len(data))
            kind = generator.randrange(6)
            if kind == 0:
                data[at] = generator.randrange(256)
            elif kind == 1:
                del data[at:at + generator.randint(1, 20)]
            elif kind == 2:
                data[at:at] = generator.choice([b"[", b"]", b"{", b"}", b":", b",", b"\n", b'"', b"*a", b"&a", b"- ", b"!!int x", b"true", b"0x", b"(", b")",
                                                b"null", b"1e999", b".nan", b"? ", b"---\n", b"\t", b"\0", b"9" * 30])
            elif kind == 3:
                data[at:at] = data[at:at + generator.randint(1, 60)]
            elif kind == 4:
                other = generator.randrange(len(data))
                data[at], data[other] = data[other], data[at]
            else:
                lines = bytes(data).split(b"\n")
                generator.shuffle(lines)
                data = bytearray(b"\n".join(lines))
            if not data:
                data = bytearray(b"-")
        return bytes(data)

    def test_random_damage(self):
        seed = int(os.environ.get("TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
        print(f"seed {seed} (TEST_SEED)", flush=True)
        generator = random.Random(seed)
        refused = 0
        with tempfile.TemporaryDirectory() as folder:
            for number in range(self.ROUNDS):
                functions, rules = support.FUNCTIONS, support.RULES
                if generator.random() < 0.6:
                    functions = self.damage(generator, functions)
                else:
                    rules = self.damage(generator, rules)
                support.write_catalogue(folder, functions, rules)
                try:
                    catalogue_module.load(folder, support.STATE_HEADER)
                except catalogue_module.CatalogueError as error:
                    refused += 1
                    self.assertNotIn("\n", str(error))
                    self.assertTrue(str(error).startswith(folder), str(error))
                except Exception as error:  # whatever it is, it must not come out
                    self.fail(f"seed {seed}, round {number}: {type(error).__name__}: {error}")
        self.assertGreater(refused, self.ROUNDS // 4)


if __name__ == "__main__":
    unittest.main()
