#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slipstream calibrate: where the table goes, and that nothing that goes wrong stays untold: one line, and a status that is not 0.

    check_output.py CALIBRATE DRIVER-FOLDER
"""
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM, DRIVER = (os.path.abspath(path) for path in sys.argv[1:3])
ONE = ("--driver", DRIVER, "--only", "row mem-free-1m")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_it(self, *arguments, status=0, **options):
        options = {"stdout": subprocess.PIPE, **options}
        done = subprocess.run([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, timeout=120, check=False, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def refused(self, words, *arguments, status=2, **options):
        """One line, which says what is wrong."""
        done = self.run_it(*arguments, status=status, **options)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("slipstream calibrate: "), done.stderr)
        return done

    def check_table(self, path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], "slipstream-calibration 1")
        self.assertTrue(lines[-1].startswith("checksum "), lines[-1])


class Place(Case):
    """What is not a regular file stays what it is."""

    def kept(self, name, is_kind):
        self.refused("not a regular file", *ONE, "--output", self.path(name))
        self.assertTrue(is_kind(os.lstat(self.path(name)).st_mode))
        self.assertEqual(os.listdir(self.folder), [name])

    def test_fifo(self):
        os.mkfifo(self.path("fifo"))
        self.kept("fifo", stat.S_ISFIFO)

    def test_folder(self):
        os.mkdir(self.path("folder"))
        self.kept("folder", stat.S_ISDIR)

    def test_device(self):
        try:
            os.mknod(self.path("full"), stat.S_IFCHR | 0o666, os.makedev(1, 7))
        except PermissionError:
            self.skipTest("makes a device: root only")
        self.kept("full", stat.S_ISCHR)

    def test_link(self):
        """The link stays, and what it leads to is replaced."""
        with open(self.path("table"), "w", encoding="utf-8") as file:
            file.write("old\n")
        os.symlink("table", self.path("link"))
        self.run_it(*ONE, "--output", self.path("link"))
        self.assertEqual(os.readlink(self.path("link")), "table")
        self.assertEqual(sorted(os.listdir(self.folder)), ["link", "table"])
        self.check_table(self.path("table"))

    def test_link_to_fifo(self):
        os.mkfifo(self.path("fifo"))
        os.symlink("fifo", self.path("link"))
        self.refused("not a regular file", *ONE, "--output", self.path("link"))
        self.assertEqual(os.readlink(self.path("link")), "fifo")
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("fifo")).st_mode))

    def test_link_to_nothing(self):
        os.symlink("nowhere", self.path("link"))
        self.refused("No such file", *ONE, "--output", self.path("link"))
        self.assertEqual(os.listdir(self.folder), ["link"])

    def test_beside(self):
        """Nor is anything else replaced, or written through, at the names of the files beside it."""
        os.mkfifo(self.path("table.partial"))
        self.refused("table.partial", *ONE, "--output", self.path("table"))
        os.unlink(self.path("table.partial"))
        with open(self.path("mine"), "w", encoding="utf-8") as file:
            file.write("mine\n")
        os.symlink("mine", self.path("table.new"))
        self.refused(self.path("table"), *ONE, "--output", self.path("table"), status=3)
        with open(self.path("mine"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine\n")


class Written(Case):
    """What could not be written is told."""

    def test_full(self):
        for arguments in ((), ("--json",), ("--list",)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.refused("standard output: No space left", *ONE, *arguments, status=3, stdout=full)

    def test_closed(self):
        for arguments in ((), ("--json",), ("--list",)):
            self.refused("standard output is closed", *ONE, *arguments, preexec_fn=lambda: os.close(1), stdout=None)

    def test_closed_and_not_used(self):
        self.run_it(*ONE, "--output", self.path("table"), preexec_fn=lambda: os.close(1), stdout=None)
        self.check_table(self.path("table"))


class Staged(Case):
    """Sizes of staged copies need the library in the measuring process."""
    UNIT = ("--driver", DRIVER, "--only", "staging unwaited")

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "CUDA_", "SIMCUDA_"))}
        return {**kept, "TMPDIR": self.folder, **variables}

    def test_json(self):
        """Whatever the user's settings are; nothing is left behind."""
        settings = {"SLIPSTREAM_MODE": "off", "SLIPSTREAM_STAGE_FROM": "1G", "SLIPSTREAM_OUT": "/nonexistent"}
        done = self.run_it(*self.UNIT, "--json", env=self.environment(**settings))
        (found,) = json.loads(done.stdout)["stage"]
        self.assertEqual({name: found[name] for name in ("direction", "form", "state")},
                         {"direction": "to-device", "form": "sync", "state": "unwaited"})
        self.assertIn(found["from"], [None, 1] + [4096 << i for i in range(10)])
        self.assertEqual((done.stderr, os.listdir(self.folder)), ("", []))

    def test_no_library(self):
        missing = self.path("libslipstream.so")
        done = self.run_it(*self.UNIT, status=3, env=self.environment(SLIPSTREAM_LIBRARY=missing))
        first, last = done.stderr.splitlines()
        self.assertEqual(first, f"slipstream calibrate: staged copies: libslipstream.so not found, tried {missing}")
        self.assertRegex(last, r"^slipstream calibrate: 1 of \d+ units could not be measured$")
        self.assertNotIn("stage ", done.stdout)

    def test_nothing_is_staged_here(self):
        """No failure, and no sizes."""
        for variables, why in (({"CUDA_LAUNCH_BLOCKING": "1"}, "off: CUDA_LAUNCH_BLOCKING is set"),
                               ({"SIMCUDA_PAGEABLE": "ats"}, "off: the device uses the host's page tables")):
            done = self.run_it("--driver", DRIVER, "--only", "staging", env=self.environment(**variables))
            self.assertEqual(done.stderr, f"slipstream calibrate: staged copies: not measured, there are none here: {why}\n")
            self.assertNotIn("stage ", done.stdout)

    def test_waits_that_stay(self):
        """A device that can write pageable memory: no wait is left out, so there is nothing to measure."""
        done = self.run_it(*self.UNIT, env=self.environment(SIMCUDA_PAGEABLE="hmm"))
        self.assertIn("to-device sync unwaited: nothing to measure here: ", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertNotIn("stage ", done.stdout)


class Usage(Case):
    def test_nothing_chosen(self):
        self.refused("no unit has 'zzz' in its name", "--driver", DRIVER, "--only", "zzz")

    def test_one_line(self):
        for words, *arguments in (("unknown option --nope", "--nope"), ("unknown option -Z", "-Z"), ("not '-1'", "--timeout", "-1"),
                                  ("not '0'", "--timeout", "0"), ("not 'soon'", "--timeout", "soon"), ("needs a value", "--timeout"),
                                  ("unexpected argument word", "word"), ("--resume needs --output", "--resume")):
            self.assertEqual(self.refused(words, *arguments).stdout, "")

    def test_no_driver(self):
        done = self.refused(f"no driver: {self.folder}/libcuda.so.1", "--driver", self.folder, status=3)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
