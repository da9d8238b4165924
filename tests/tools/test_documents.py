# SPDX-License-Identifier: MIT
"""Manual pages and completion name every option that the command has, and nothing else; limits are said in README and manual."""

import os
import re
import shutil
import subprocess
import unittest

TOOL = os.environ["TESTED_TOOL"]
FOLDER = os.path.dirname(TOOL)
SOURCE = os.environ["SOURCE_ROOT"]
TRACE = os.path.join(FOLDER, "trace/slipstream-trace")


def options_of(command):
    text = subprocess.run([TOOL, command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ +(?:-\w, +)?(--[a-z-]+)", text, re.M))


class Manual(unittest.TestCase):
    def page(self, name):
        with open(os.path.join(FOLDER, name)) as file:
            return file.read().replace("\\-", "-")

    def test_options(self):
        # trace is not part of every build.
        for command in ("run", "attach", "report", "doctor", "dump", "bisect", "lint", "verify", *(["trace"] if os.path.exists(TRACE) else [])):
            page = self.page("slipstream-%s.1" % command)
            named = set(re.findall(r"^\\fB(--[a-z-]+)", page, re.M))
            self.assertEqual(named, options_of(command), command)

    def test_settings_have_their_variables(self):
        with open(os.path.join(SOURCE, "shim/options.def")) as file:
            variables = re.findall(r"^OPTION\((\w+)", file.read(), re.M)
        page = self.page("slipstream-run.1")
        self.assertGreater(len(variables), 5)
        for variable in variables:
            self.assertIn("variable \\fBSLIPSTREAM_%s\\fR" % variable, page)
            self.assertIn("--" + variable.lower().replace("_", "-"), options_of("run"))

    @unittest.skipUnless(shutil.which("man"), "no man here")
    def test_pages_are_clean(self):
        for name in ("slipstream", "slipstream-run", "slipstream-attach", "slipstream-report", "slipstream-doctor", "slipstream-dump", "slipstream-trace", "slipstream-bisect", "slipstream-lint",
                     "slipstream-verify"):
            shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", os.path.join(FOLDER, name + ".1")],
                                   capture_output=True, text=True,
                                   env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertNotRegex(shown.stdout, "@[A-Z_]+@")  # a place that was not filled in


class Limits(unittest.TestCase):
    """What cannot be seen, or can be noticed, is said where a user looks for it."""

    def chapter(self):
        with open(os.path.join(SOURCE, "README.md")) as file:
            return file.read().split("\n## What it does not catch\n")[1].split("\n## ")[0]

    def test_blind_spots_are_named(self):
        chapter = self.chapter()
        for word in ("dlmopen", "RTLD_DEEPBIND", "chroot", "setuid", "seccomp", "openat", "LD_PRELOAD", "clearenv", "env -i",
                     "still running", "no process left a record"):
            self.assertIn(word, chapter)
        with open(os.path.join(FOLDER, "slipstream-run.1")) as file:
            page = " ".join(file.read().split())
        for words in ("still running when the report is made", "no process left a record"):
            self.assertIn(words, page)

    def test_what_a_program_can_notice_is_named(self):
        with open(os.path.join(SOURCE, "README.md")) as file:
            self.assertNotIn("could notice", file.read().split("\n## ")[0])
        sentence = [line for line in self.chapter().splitlines() if "dladdr" in line]
        self.assertEqual(len(sentence), 1)
        for word in ("/proc/self/maps", "LD_PRELOAD", "libslipstream.so"):
            self.assertIn(word, sentence[0])

    def test_schema_says_when_nothing_was_recorded(self):
        with open(os.path.join(SOURCE, "tools/slipstream.schema.json")) as file:
            self.assertIn("no process left a record", file.read())


class Completion(unittest.TestCase):
    def complete(self, *words):
        script = ("source %s/completion/slipstream\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($#-1))\n_slipstream\n"
                  "printf '%%s\\n' \"${COMPREPLY[@]}\"\n" % FOLDER)
        result = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True, text=True, cwd="/usr")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return set(result.stdout.split())

    def test_commands(self):
        text = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=True).stdout
        commands = set(re.findall(r"^  (\w+) ", text, re.M))
        self.assertEqual(self.complete("slipstream", ""), commands | {"--help", "--version"})
        self.assertEqual(self.complete("slipstream", "do"), {"doctor"})
        self.assertIn(str(os.getpid()), self.complete("slipstream", "dump", str(os.getpid())))
        self.assertIn("bin", self.complete("slipstream", "dump", "b"))
        self.assertIn(str(os.getpid()), self.complete("slipstream", "attach", str(os.getpid())))
        self.assertIn("true", self.complete("slipstream", "attach", "--", "tru"))

    def test_options(self):
        for command in ("run", "attach", "report", "doctor", "dump", "bisect", "lint", "verify", *(["trace"] if os.path.exists(TRACE) else [])):
            self.assertEqual({word.rstrip("=") for word in self.complete("slipstream", command, "--")}, options_of(command))

    def test_values(self):
        self.assertEqual(self.complete("slipstream", "run", "--mode", "=", "o"), {"off", "observe"})
        self.assertEqual(self.complete("slipstream", "run", "--mode", "="), {"off", "observe", "fix"})
        self.assertEqual(self.complete("slipstream", "run", "--python", "=", "of"), {"off"})
        self.assertEqual(self.complete("slipstream", "report", "--by", ""),
                         {"rule", "site", "function", "stream", "thread", "rank", "host", "gpu"})
        self.assertIn("bin", self.complete("slipstream", "run", "--driver", "=", "b"))
        self.assertIn("bin", self.complete("slipstream", "report", "b"))
        self.assertIn("bin", self.complete("slipstream", "trace", "--folder", "=", "b"))
        self.assertEqual(self.complete("slipstream", "trace", "--level", "="), {"waits", "full"})

    def test_program_and_its_arguments(self):
        self.assertIn("true", self.complete("slipstream", "run", "--keep", "tru"))
        self.assertIn("true", self.complete("slipstream", "trace", "--live", "tru"))
        self.assertIn("bin", self.complete("slipstream", "run", "true", "bi"))
        self.assertIn("bin", self.complete("slipstream", "trace", "--live", "true", "bi"))
        self.assertNotIn("--json=", self.complete("slipstream", "run", "true", "--"))
        self.assertNotIn("--json=", self.complete("slipstream", "run", "--", "true", "--"))


if __name__ == "__main__":
    unittest.main()
