#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slipstream calibrate: where the table goes, and that nothing that goes wrong stays untold: one line, and a status that is not 0.

    check_output.py CALIBRATE DRIVER-FOLDER
"""
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
