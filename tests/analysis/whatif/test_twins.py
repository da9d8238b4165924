#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Numbers that twins.py cannot use: one line each, that names the option, and exit status 2; through tests/gpu/whatif.py as well."""
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TWINS = [os.path.join(HERE, "twins.py"), "--tool", "none", "--twins", "none", "free"]
WHATIF = [os.path.join(HERE, "..", "..", "gpu", "whatif.py"), "--build", "none", "free"]


class Numbers(unittest.TestCase):
    def test_bad(self):
        for program in (TWINS, WHATIF):
            for option, text in (("--pairs", "1"), ("--pairs", "0"), ("--pairs", "-3"), ("--pairs", "many"), ("--rounds", "0"),
                                 ("--rounds", "1001"), ("--kernel", "1.5"), ("--kernel", ""), ("--host", "0"), ("--host", "20000")):
                with self.subTest(program=program[0], option=option, text=text):
                    done = subprocess.run([sys.executable, *program, "--kernel", "20000", f"{option}={text}"], capture_output=True, text=True,
                                          check=False, timeout=60)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stdout, "")
                    self.assertRegex(done.stderr, rf"\A[a-z]+\.py: .*{option}.*\n\Z")


if __name__ == "__main__":
    unittest.main()
