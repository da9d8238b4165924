# SPDX-License-Identifier: MIT
"""--timeout ends a program with all that it started, and blames no call that only takes long."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
import lint  # noqa: E402

TIMEOUT_S = 3


class Timeout(lint.Lint):
    def endless(self, name):
        return [os.path.join(lint.PROGRAMS, "check-endless"), name]

    def expect_no_blame(self, name):
        report = self.run_json(self.endless(name), "--timeout", str(TIMEOUT_S), status=4)
        # Short waits that returned may be findings of other rules.
        self.assertFalse({result["rule"] for result in report["results"]} & {"L06", "L10", "L11", "L15"}, report["results"])
        self.assertEqual(report["program_failed"], f"not ended after {TIMEOUT_S} s (--timeout)")

    def test_a_program_that_works_is_not_blamed(self):
        self.expect_no_blame("many-short-waits")

    def test_a_program_that_sleeps_is_not_blamed(self):
        self.expect_no_blame("sleeps")

    def test_a_wait_for_a_kernel_that_runs_is_not_blamed(self):
        self.expect_no_blame("long-kernel")

    def test_a_wait_behind_a_gate_that_was_passed_is_not_blamed(self):
        self.expect_no_blame("kernel-behind-open-gate")

    def test_waits_that_returned_are_not_blamed(self):
        self.expect_no_blame("waited-once-and-sleeps")

    def test_the_wait_that_goes_on_when_the_program_is_ended_is_not_blamed_if_it_is_short(self):
        # Every moment of it is inside one of them, but a few.
        self.expect_no_blame("many-short-copies")

    def expect_blame(self, name, function):
        report = self.run_json(self.endless(name), "--timeout", str(TIMEOUT_S), status=1)
        self.assertEqual([(result["rule"], result["function"], result["count"]) for result in lint.failing(report)], [("L10", function, 1)])

    def test_a_wait_that_was_asked_for_behind_an_own_gate_is_blamed(self):
        self.expect_blame("own-gate", "cuStreamSynchronize")

    def test_who_waits_for_a_thread_that_stands_still_is_not_blamed(self):
        self.expect_blame("free-and-waiting-thread", "cuMemFree_v2")

    def test_who_ends_beside_a_wait_has_not_stood_still(self):
        for arguments in ([], ["--timeout", "60"]):
            report = self.run_json(self.endless("ends-beside-a-wait"), *arguments)
            self.assertFalse({result["rule"] for result in report["results"]} & {"L06", "L10", "L11", "L15"}, report["results"])

    def test_what_the_program_started_is_ended_with_it(self):
        done = self.lint("--driver", lint.DRIVER, "--timeout", "1", "--", *self.endless("children"))
        self.assertEqual(done.returncode, 4, done.stderr)
        child = int(done.stdout.split()[0])
        for _ in range(50):
            if not self.runs(child):
                return
            time.sleep(0.1)
        self.fail("the program's child still runs")

    def runs(self, process):
        try:
            with open(f"/proc/{process}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def test_a_program_that_ends_in_time_is_as_without(self):
        program = os.path.join(lint.PROGRAMS, "check-case-10")
        self.assertEqual(self.lint("--driver", lint.DRIVER, "--timeout", "60", "--", program, "fixed").returncode, 0)
        self.assertEqual(self.lint("--driver", lint.DRIVER, "--timeout", "60", "--", program, "failing").returncode, 1)

    def test_calls_that_returned_and_records_of_other_runs_say_nothing_of_standing_still(self):
        folder = self.record([os.path.join(lint.PROGRAMS, "check-case-15"), "fixed"], SLIPSTREAM_CHECK="order")
        report = self.json(folder, status=0)
        self.assertEqual([result["rule"] for result in report["results"] if result["rule"] in ("L06", "L10", "L15")], [])

    def test_bad_times_are_refused(self):
        for word in ("0", "-1", "", "1.5", "5s", "99999999999999999999", "1000001"):
            with self.subTest(word):
                done = self.lint("--timeout", word, "--", "true")
                self.assertEqual(done.returncode, 2)
                self.assertIn("not a number of seconds", done.stderr)


if __name__ == "__main__":
    unittest.main()
