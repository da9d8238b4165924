# SPDX-License-Identifier: MIT
"""Every fault of the command line, a configuration or a baseline is one line with its place, and exit status 2; nothing is run then."""

import json
import os
import re
import unittest

import lint
import made

GOOD = "version: 1\n"
BAD = (  # text of the configuration, line, column, words
    ("", 1, 1, "it is empty"),
    ("[1, 2]\n", 1, 1, "a configuration needs keys and values"),
    ("rules: {}\n", 1, 1, "version: 1 is missing"),
    ("version: 2\n", 1, 10, "version needs 1, not '2'"),
    (GOOD + "colour: red\n", 2, 1, "unknown key colour (known: version, rules, thresholds, allow, budgets, regions)"),
    (GOOD + "rules: {}\nrules: {}\n", 3, 1, "rules is given twice"),
    (GOOD + "rules: [L12]\n", 2, 8, "rules needs keys and values"),
    (GOOD + "rules:\n  L99: off\n", 3, 3, "unknown rule L99 (slipstream lint --rules lists them)"),
    (GOOD + "rules: {S04: error}\n", 2, 9, "rule S04 is not checked in this version: it needs "),
    (GOOD + "rules: {L12: off, free-drains-device: error}\n", 2, 19, "rule free-drains-device is given twice, by its id L12 and its name free-drains-device"),
    (GOOD + "rules: {L12: loud}\n", 2, 14, "unknown level 'loud' (known: error, warning, note, off)"),
    (GOOD + "rules: {L12: {levels: off}}\n", 2, 15, "unknown key levels (known: level, blocked, count, per)"),
    (GOOD + "rules: {L12: [off]}\n", 2, 14, "L12 needs keys and values"),
    (GOOD + "rules: {L12: {count: -1}}\n", 2, 22, "count needs a number from 0 to 4294967295, not '-1'"),
    (GOOD + "thresholds: {count: 4294967296}\n", 2, 21, "count needs a number from 0 to 4294967295, not '4294967296'"),
    (GOOD + "thresholds: {count: 1e3}\n", 2, 21, "count needs a number"),
    (GOOD + "thresholds: {count: 99999999999999999999999}\n", 2, 21, "count needs a number"),
    (GOOD + "thresholds: {blocked: 5}\n", 2, 23, "blocked needs a time with ns, us, ms or s, up to an hour, as 1.5ms, not '5'"),
    (GOOD + "thresholds: {blocked: 1h}\n", 2, 23, "blocked needs a time"),
    (GOOD + "thresholds: {blocked: -1ms}\n", 2, 23, "blocked needs a time"),
    (GOOD + "thresholds: {blocked: 10%}\n", 2, 23, "blocked needs a time"),
    (GOOD + "thresholds: {blocked: 3601s}\n", 2, 23, "blocked needs a time"),
    (GOOD + "thresholds: {blocked: nan}\n", 2, 23, "blocked needs a time"),
    (GOOD + "allow: {}\n", 2, 8, "allow needs a list"),
    (GOOD + "allow:\n- {function: f}\n", 3, 3, "an allowance needs a reason"),
    (GOOD + "allow:\n- {reason: r}\n", 3, 3, "an allowance needs a function, file or region"),
    (GOOD + "allow:\n- {function: f, reason: ''}\n", 3, 25, "reason is empty"),
    (GOOD + "allow:\n- {function: [f], reason: r}\n", 3, 14, "function needs one word or text"),
    (GOOD + "allow:\n- {rule: nothing, function: f, reason: r}\n", 3, 10, "unknown rule nothing"),
    (GOOD + "allow:\n- function: f\n  reason: r\n  until: 2020-02-29\n", 5, 10, "this allowance expired on 2020-02-29"),
    (GOOD + "allow:\n- {function: f, reason: r, until: 2999-02-29}\n", 3, 35, "until needs a day as 2026-12-31, not '2999-02-29'"),
    (GOOD + "allow:\n- {function: f, reason: r, until: tomorrow}\n", 3, 35, "until needs a day"),
    (GOOD + "allow:\n- {function: f, reason: r, line: 3}\n", 3, 28, "unknown key line"),
    (GOOD + "budgets:\n- {implicit: 0}\n", 3, 3, "a budget needs a region, or per: step"),
    (GOOD + "budgets:\n- {region: step}\n", 3, 3, "a budget needs implicit, explicit or blocked"),
    (GOOD + "budgets:\n- {region: step, implicit: none}\n", 3, 28, "implicit needs a number"),
    (GOOD + "budgets:\n- {region: step, implicit: 0, per: frame}\n", 3, 36, "per needs run, entry or step, not 'frame'"),
    (GOOD + "budgets:\n- {region: step, implicit: 0, per: [run]}\n", 3, 36, "per needs one word or text"),
    (GOOD + "budgets:\n- {region: frame, implicit: 0, per: step}\n", 3, 3, "per: step is of the region step: leave region out, or say per: entry"),
    (GOOD + "budgets:\n- {region: step, implicit: 0, required: maybe}\n", 3, 41, "required needs true or false, not 'maybe'"),
    (GOOD + "budgets:\n- {region: step, entry: 1}\n", 3, 18, "unknown key entry (known: region, implicit, explicit, blocked, per, required)"),
    (GOOD + "thresholds: {count: 3, per: second}\n", 2, 29, "per needs run, entry or step, not 'second'"),
    (GOOD + "rules: {L12: {per: thread}}\n", 2, 20, "per needs run, entry or step, not 'thread'"),
    (GOOD + "regions: nvtx\n", 2, 10, "regions needs keys and values"),
    (GOOD + "regions: {mark: x}\n", 2, 11, "unknown key mark (known: nvtx, step)"),
    (GOOD + "regions: {nvtx: {}}\n", 2, 17, "nvtx needs true, false, NAME@DOMAIN, or a list of these"),
    (GOOD + "regions: {nvtx: ''}\n", 2, 17, "nvtx is empty"),
    (GOOD + "regions: {nvtx: ['a', 'b,c']}\n", 2, 23, "nvtx cannot have a comma: 'b,c'"),
    (GOOD + "regions: {nvtx: [[a]]}\n", 2, 18, "nvtx needs one word or text"),
    (GOOD + "regions: {step: true}\n", 2, 17, "step needs keys and values"),
    (GOOD + "regions: {step: {}}\n", 2, 17, "step needs function or mark"),
    (GOOD + "regions: {step: {function: train_step}}\n", 2, 28, "function needs a driver function (cu...), not 'train_step'"),
    (GOOD + "regions: {step: {function: cudaGraphLaunch}}\n", 2, 28,
     "cudaGraphLaunch is of the CUDA runtime: name the driver's function that it calls (cuGraphLaunch)"),
    (GOOD + "regions: {step: {function: 'cuGraph Launch'}}\n", 2, 28, "function needs a driver function"),
    (GOOD + "regions: {step: {function: cuGraphLaunch, mark: x}}\n", 2, 43, "a step has one marker: function or mark"),
    (GOOD + "regions: {step: {mark: ''}}\n", 2, 24, "mark is empty"),
    (GOOD + "regions: {step: {mark: 'a,b'}}\n", 2, 24, "mark cannot have a comma: 'a,b'"),
    (GOOD + "regions: {step: {range: x}}\n", 2, 18, "unknown key range (known: function, mark)"),
    (GOOD + "rules: {L12: off\n", 3, 1, "no YAML: "),
    (GOOD + "\tx: 1\n", 2, 1, "no YAML: "),
    (GOOD + "rules: *nowhere\n", 2, 8, "no YAML: "),
    (GOOD + "---\nrules: {L12: loud}\n", 3, 1, "a configuration is one document, this is another"),
    (GOOD + "...\n%%% garbage\n", 3, 2, "no YAML: "),
    (GOOD + "rules: {}\nallow: [\x01]\n", 3, 9, "no YAML: control characters are not allowed"),
    (GOOD + "thresholds: {blocked: 1e6}\n", 2, 23, "blocked needs a time"),
    (GOOD + "thresholds: {blocked: 1e3us}\n", 2, 23, "blocked needs a time"),
    (GOOD + "thresholds: {blocked: 0x10ms}\n", 2, 23, "blocked needs a time"),
    (GOOD + "regions: {nvtx: True}\n", 2, 17, "nvtx needs true, false, NAME@DOMAIN, or a list of names, not True (a name that reads so goes in quotes)"),
    (GOOD + "regions: {nvtx: yes}\n", 2, 17, "nvtx needs true, false, NAME@DOMAIN, or a list of names, not yes"),
    (GOOD + "regions: {nvtx: [a, true]}\n", 2, 21, "nvtx needs true, false, NAME@DOMAIN, or a list of names, not true"),
    (GOOD + "regions: {nvtx: ~}\n", 2, 17, "nvtx is empty"),
    (GOOD + "regions: {nvtx: \"false\\0x\"}\n", 2, 17, "nvtx needs one word or text"),
    (GOOD + "regions: {step: {mark: null}}\n", 2, 24, "mark is empty"),
    (GOOD + "allow:\n- {region: ~, reason: r}\n", 3, 12, "region is empty"),
)


class Faults(lint.Lint):
    def refuse(self, words, *arguments, **variables):
        """One line, status 2, and the program was not started."""
        trace = self.path("started")
        done = self.lint("--driver", lint.DRIVER, *arguments, "--", "touch", trace, **variables)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("slipstream lint: "), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertFalse(os.path.exists(trace))
        return done.stderr

    def test_bad_configurations(self):
        for text, line, column, words in BAD:
            with self.subTest(text=text):
                path = self.file("config.yaml", text)
                self.refuse(f"{path}:{line}:{column}: {words}", "--config", path)

    def test_a_configuration_that_cannot_be_read(self):
        self.refuse("No such file or directory", "--config", self.path("nothing.yaml"))
        self.refuse("Is a directory", "--config", self.folder)
        self.refuse("larger than 1 MiB", "--config", self.file("large.yaml", "#" * (1 << 20) + "\n"))

    def test_binary_configurations_do_not_harm(self):
        for number, text in enumerate((b"\0" * 9, b"version: \"1\\0\"\n", b"\xff\xfe", b"version: \xff\n", b"a: &a [*a]\n",
                                       b"[" * 5000, b"{" * 5000, b"version: 1\nallow: &a\n- *a\n")):
            path = self.path(f"binary-{number}.yaml")
            with open(path, "wb") as file:
                file.write(text)
            self.refuse(f"{path}:", "--config", path)

    def test_bad_baselines(self):
        entry = {"rule": "L12", "fingerprint": "0" * 16, "occurrence": 1}
        for text, words in (
                ("", ":1:0: "), ("{", ":1:1: "), ("[]", "no baseline of version 1"), ('{"version": 2, "results": []}', "no baseline of version 1"),
                ('{"version": 1}', "no list of results"), ('{"version": 1, "version": 1}', "duplicate"),
                (json.dumps({"version": 1, "results": [entry, {}]}), "result 2: needs rule, fingerprint and occurrence"),
                (json.dumps({"version": 1, "results": [{**entry, "fingerprint": "xyz"}]}), "result 1: its fingerprint needs 16"),
                (json.dumps({"version": 1, "results": [{**entry, "occurrence": 0}]}), "result 1: its occurrence is out of range")):
            with self.subTest(text=text):
                path = self.file("baseline.json", text)
                self.assertIn(path, self.refuse(words, "--baseline", path))
        self.refuse("nothing.json", "--baseline", self.path("nothing.json"))

    def test_bad_command_lines(self):
        self.refuse("unknown format (known: text, json, sarif, junit, github)", "--format", "xml")
        self.refuse("no file named", "--format", "json=")
        self.refuse("two formats on stdout", "--format", "json", "--format", "sarif")
        self.refuse("two formats in one file", "--format", f"json={self.path('x')}", "--format", f"sarif={self.path('x')}")
        self.refuse("No such file or directory", "--format", f"json={self.path('no/where')}")
        self.refuse("No such file or directory", "--root", self.path("nowhere"))
        self.refuse("give either a folder or trace, or a program", self.folder)
        self.refuse("unknown variable SLIPSTREAM_COLOUR", SLIPSTREAM_COLOUR="red")
        for arguments in ((), ("--nonsense",), (self.path("nowhere"),), ("--", self.path("nowhere"))):
            done = self.lint(*arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_the_example_of_the_readme_is_accepted(self):
        with open(os.path.join(lint.ROOT, "README.md")) as file:
            examples = re.findall(r"```yaml\n(version: 1\n.*?)```", file.read(), re.S)
        self.assertEqual(len(examples), 1)
        path = self.file("slipstream-lint.yaml", examples[0])
        self.assertEqual(self.lint("--config", path, made.Made().write(self.path("records"))).returncode, 0)


if __name__ == "__main__":
    unittest.main()
