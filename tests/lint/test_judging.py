# SPDX-License-Identifier: MIT
"""Rules, thresholds, allowances and budgets on record files made for the purpose; and every doubt ends with a status that is not 0."""

import glob
import os
import shutil
import unittest

import lint
import made
import records

MS = made.MS


class Judging(lint.Lint):
    def judge(self, process, *arguments, status=None):
        folder = self.path("records")
        shutil.rmtree(folder, ignore_errors=True)
        return self.json(*arguments, process.write(folder), status=status)

    def config(self, text):
        return "--config", self.file("config.yaml", "version: 1\n" + text)

    def rules(self, report):
        return [result["rule"] for result in report["results"]]


class Rules(Judging):
    def one(self, expected, status=1, **wait):
        process = made.Made()
        process.wait(**wait)
        report = self.judge(process, status=status)
        self.assertEqual(self.rules(report), expected, wait)
        return report

    def test_tiny_read_back_needs_few_bytes_and_many_calls(self):
        self.one(["L18"], count=4, amount=64)
        self.one(["implicit-wait/d2h"], count=4, amount=65)
        self.one(["implicit-wait/d2h"], count=3, amount=64)

    def test_hot_path_is_three_calls(self):
        for slug, rule, status in (("module-load", "L11", 1), ("function-load", "L11", 0), ("lazy-load", "L11", 1), ("pinning", "L14", 1),
                                   ("registering", "L14", 1), ("pool-growth", "L17", 0)):
            report = self.one([rule], slug=slug, count=3, status=status)
            self.assertEqual(report["results"][0]["level"], "warning" if status else "note")
            report = self.one([], slug=slug, count=2, status=0)
            self.assertEqual(report["left_out"]["not_hot"], 2)

    def test_a_loop_at_start_is_no_hot_path(self):
        start, life = 1000000000, 100000000  # of every process here
        for length, expected in ((life // 10 - 1, []), (life // 10, ["L11"])):
            self.one(expected, slug="module-load", count=40, first=start, last=start + length, status=len(expected))

    def test_a_drain_needs_known_work_to_fail(self):
        report = self.one(["L12"], slug="free-drains-device", waited=False, status=0)
        self.assertEqual(report["results"][0]["level"], "note")
        report = self.one(["L12"], slug="free-drains-device", status=1)
        self.assertEqual(report["results"][0]["waited_for"], [{"name": "kernel spin on blocking stream 2", "count": 1, "blocked_ns": MS}])

    def test_64_mib_pinned_at_once_are_found_at_start_too(self):
        self.one(["L14"], slug="pinning", count=1, amount=64 << 20)
        self.one([], slug="pinning", count=1, amount=(64 << 20) - 1, status=0)

    def test_each_catalogue_rule_has_its_lint_rule(self):
        for slug in ("free-drains-device", "host-free-drains-device", "unregister-drains-device", "array-free"):
            self.one(["L12"], slug=slug)
        for slug in ("pageable-h2d-async", "pageable-d2h-async", "staging-full"):
            self.one(["L13"], slug=slug)
        for slug in ("legacy-join", "peer-join"):
            report = self.one(["L04"], slug=slug, kind=records.DEVICE, blocked=0)
            self.assertIsNone(report["results"][0]["blocked_ns"])

    def test_what_depends_on_time_alone_does_not_fail(self):
        for slug, rule in (("observed-unknown", None), ("driver-lock", None), ("queue-full", "L15")):
            report = self.one([rule or f"implicit-wait/{slug}"], slug=slug, status=0)
            self.assertEqual(report["results"][0]["level"], "note")

    def test_a_rule_of_a_newer_version_is_a_finding(self):
        self.one(["implicit-wait"], slug="of-the-future")

    def test_explicit_waits_are_no_findings(self):
        self.one([], slug="stream-synchronize", kind=records.EXPLICIT, status=0, count=1000)

    def test_allowed_scopes_of_the_program_are_counted_only(self):
        report = self.one([], allowed=1, count=7, status=0)
        self.assertEqual(report["left_out"]["allowed_scopes"], 7)

    def test_processes_are_merged(self):
        folder = self.path("records")
        for pid in (records.GONE_PID, records.GONE_PID + 1):
            process = made.Made(pid=pid)
            process.wait(slug="module-load", count=2)
            process.write(folder)
        report = self.json(folder, status=1)
        self.assertEqual([(result["rule"], result["count"], result["blocked_ns"]) for result in report["results"]],
                         [("L11", 4, 2 * MS)])

    def test_results_are_in_order(self):
        process = made.Made()
        process.wait(slug="pageable-d2h-async", at=("b.py", 2, "f"))
        process.wait(slug="observed-unknown", at=("a.py", 1, "f"))
        process.wait(slug="free-drains-device", at=("b.py", 9, "f"), function="cuMemFree_v2")
        process.wait(slug="free-drains-device", at=("b.py", 10, "f"), function="cuMemFree_v2")
        process.wait(slug="free-drains-device", at=("a.py", 30, "f"), function="cuMemFree_v2")
        report = self.judge(process, *self.config("rules: {L13: error}\n"), status=1)
        self.assertEqual([(result["level"], result["rule"], result["place"]["file"], result["place"]["line"]) for result in report["results"]],
                         [("error", "L13", "b.py", 2), ("warning", "L12", "a.py", 30), ("warning", "L12", "b.py", 9),
                          ("warning", "L12", "b.py", 10), ("note", "implicit-wait/observed-unknown", "a.py", 1)])


class Places(Judging):
    def place(self, *stack):
        process = made.Made()
        process.wait(at=stack)
        result = self.judge(process, status=1)["results"][0]
        return result["place"]["file"], result["place"]["line"], [frame["function"] for frame in result["frames"]]

    def test_frames_of_installed_packages_are_skipped(self):
        self.assertEqual(self.place(("/usr/lib/python3/dist-packages/numpy/core.py", 1, "get"),
                                    ("/venv/lib/python3.11/site-packages/torch/x.py", 2, "item"),
                                    ("/home/me/train.py", 3, "step")), ("/home/me/train.py", 3, ["step"]))

    def test_without_a_frame_of_the_program_the_innermost_is_shown(self):
        self.assertEqual(self.place(("/venv/site-packages/torch/x.py", 2, "item"), ("/venv/site-packages/torch/y.py", 3, "run")),
                         ("/venv/site-packages/torch/x.py", 2, ["item", "run"]))

    def test_files_are_relative_to_the_root(self):
        process = made.Made()
        process.wait(at=(os.path.join(self.folder, "src/../lib/train.py"), 3, "step"))
        self.assertEqual(self.judge(process, "--root", self.folder)["results"][0]["place"]["file"], "lib/train.py")

    def test_no_call_site_is_a_finding_without_a_place(self):
        process = made.Made()
        process.wait(at=None)
        self.assertIsNone(self.judge(process, status=1)["results"][0]["place"])


class Configured(Judging):
    def process(self):
        process = made.Made()
        process.wait(slug="free-drains-device", function="cuMemFree_v2", at=(("src/pool.py", 5, "free"), ("src/main.py", 9, "teardown")),
                     count=2, blocked=2 * MS)
        process.wait(slug="d2h", at=("src/step.py", 7, "loss"), region="step", count=3, blocked=3 * MS)
        process.wait(slug="d2h", at=("src/step.py", 7, "loss"), region="log", count=5, blocked=5 * MS)
        return process

    def check(self, text, expected, status=1):
        report = self.judge(self.process(), *self.config(text), status=status)
        self.assertEqual([(result["rule"], result["count"]) for result in report["results"]], expected, text)
        return report

    def test_without_a_configuration_both_are_found(self):
        self.check("", [("L12", 2), ("implicit-wait/d2h", 8)])

    def test_levels(self):
        report = self.check("rules: {L12: off}\n", [("implicit-wait/d2h", 8)])
        self.assertEqual(report["left_out"]["off"], 2)
        self.check("rules: {free-drains-device: note, implicit-wait: note}\n", [("L12", 2), ("implicit-wait/d2h", 8)], status=0)
        self.check("rules: {implicit-wait: off}\n", [("L12", 2)])
        report = self.check("rules: {d2h: {level: error}}\n", [("implicit-wait/d2h", 8), ("L12", 2)])
        self.assertEqual(report["results"][0]["level"], "error")

    def test_the_own_name_wins_over_the_group(self):
        for text in ("rules: {implicit-wait: off, implicit-wait/d2h: error}\n", "rules: {implicit-wait/d2h: error, implicit-wait: off}\n"):
            self.check(text, [("implicit-wait/d2h", 8), ("L12", 2)])

    def test_thresholds(self):
        report = self.check("thresholds: {blocked: 3ms}\n", [("implicit-wait/d2h", 8)])
        self.assertEqual(report["left_out"]["below_threshold"], 2)
        self.check("thresholds: {count: 8}\n", [("implicit-wait/d2h", 8)])
        self.check("thresholds: {count: 9}\n", [], status=0)
        self.check("thresholds: {blocked: 1s}\nrules: {L12: {blocked: 2ms}}\n", [("L12", 2)])
        self.check("rules: {L12: {blocked: 2001us}}\n", [("implicit-wait/d2h", 8)])

    def test_a_threshold_of_time_does_not_hide_what_blocks_no_host(self):
        process = made.Made()
        process.wait(slug="legacy-join", kind=records.DEVICE, blocked=0)
        self.assertEqual(self.rules(self.judge(process, *self.config("thresholds: {blocked: 1s}\n"), status=1)), ["L04"])

    def test_allowances(self):
        both = [("L12", 2), ("implicit-wait/d2h", 8)]
        for text, expected in (
                ("{function: free, reason: r}", both[1:]), ("{function: teardown, reason: r}", both[1:]),
                ("{function: 'tear*', file: main.py, reason: r}", both[1:]), ("{function: teardown, file: pool.py, reason: r}", both),
                ("{file: 'src/*', reason: r}", []), ("{file: step.py, rule: L12, reason: r}", both),
                ("{file: step.py, rule: d2h, reason: r, until: 2999-12-31}", both[:1]),
                ("{region: log, reason: r}", [("L12", 2), ("implicit-wait/d2h", 3)]),
                ("{region: '?*', reason: r}", both[:1])):
            report = self.judge(self.process(), *self.config(f"allow: [{text}]\n"))
            got = [(result["rule"], result["count"]) for result in report["results"]]
            self.assertEqual(got, expected, text)
            self.assertEqual(report["left_out"]["allowed"], 10 - sum(count for _, count in got), text)
            self.assertEqual(report["allowances"][0]["count"], report["left_out"]["allowed"])

    def test_an_allowance_that_fits_nothing_is_told(self):
        done = self.lint("--config", self.file("c.yaml", "version: 1\nallow:\n- {function: nobody, reason: r}\n"),
                         self.process().write(self.path("r")))
        self.assertIn("the allowance of line 3 fits no call: remove it", done.stdout)


class Budgets(Judging):
    def check(self, budget, messages, status, **wait):
        process = made.Made()
        process.wait(slug="stream-synchronize", function="cuStreamSynchronize", kind=records.EXPLICIT, region="step", count=5,
                     blocked=10 * MS)
        process.wait(slug="d2h", region="step", count=3, blocked=2 * MS)
        process.wait(slug="observed-unknown", region="step", count=40, blocked=40 * MS)
        process.wait(slug="d2h", count=90, blocked=90 * MS, at=("other.py", 1, "f"))
        process.wait(slug="d2h", region="step", count=50, blocked=50 * MS, allowed=1)
        report = self.judge(process, *self.config(f"rules: {{implicit-wait: off}}\nbudgets: [{budget}]\n"), status=status)
        self.assertEqual([result["message"] for result in report["results"]], messages, budget)

    def test_limits(self):
        self.check("{region: step, implicit: 3, explicit: 5, blocked: 12ms}", [], 0)
        self.check("{region: step, implicit: 2}", ["region step: 3 implicit waits, its budget is 2"], 1)
        self.check("{region: 'st*', explicit: 4}", ["region st*: 5 explicit waits, its budget is 4"], 1)
        self.check("{region: step, blocked: 11ms, per: run}", ["region step: blocked 12.0 ms, its budget is 11.0 ms"], 1)
        self.check("{region: elsewhere, implicit: 0}", [], 0)

    def test_own_work_is_time_but_no_wait(self):
        process = made.Made()
        number = process.records.rule("module-load", "loads a module", records.IMPLICIT, records.OWN_COST)
        process.rules["module-load"] = number
        process.wait(slug="module-load", region="step", blocked=3 * MS)
        for budget, status in (("implicit: 0", 0), ("blocked: 3ms", 0), ("blocked: 2ms", 1)):
            self.judge(process, *self.config(f"budgets: [{{region: step, {budget}}}]\n"), status=status)


class Doubts(Judging):
    def doubt(self, process, words, status=3):
        report = self.judge(process, status=status)
        self.assertIn(words, " ".join(report["reasons"]))
        self.assertEqual(report["verdict"], "inconclusive" if status == 3 else "findings")

    def test_clean_is_0(self):
        self.assertEqual(self.judge(made.Made(), status=0)["verdict"], "clean")

    def test_lost_records(self):
        self.doubt(made.Made(dropped=3), "3 records could not be written")

    def test_a_function_without_wrapper(self):
        process = made.Made()
        process.records.note(1, "cuNewThing")
        self.doubt(process, "a function without wrapper was handed out: cuNewThing")

    def test_an_unknown_export_table(self):
        process = made.Made()
        process.records.note(2, "00112233-4455-6677-8899-aabbccddeeff")
        self.doubt(process, "an unknown export table was handed out")

    def test_a_rewrite_mode(self):
        for mode in ("fix", "off"):
            self.doubt(made.Made(config=f"MODE={mode}\n"), f"ran in mode {mode}")

    def test_no_driver_call(self):
        self.doubt(made.Made(calls=0), "no driver call was seen")

    def test_findings_and_doubt_are_1_and_both_are_told(self):
        process = made.Made(dropped=1)
        process.wait()
        self.doubt(process, "could not be written", status=1)
        done = self.lint(self.path("records"))
        self.assertIn("1 warning; inconclusive", done.stdout)
        self.assertIn("inconclusive: 1 record could not be written", done.stdout)

    def test_a_damaged_record_file(self):
        self.file("1-1.slip", "nothing")
        self.assertEqual(self.lint(self.folder).returncode, 3)

    def test_nothing_there(self):
        self.assertEqual(self.lint(self.folder).returncode, 3)

    def test_a_program_without_cuda(self):
        self.run_json("true", status=3)

    def test_a_program_that_fails_or_is_killed(self):
        clean = lint.program("L12", "fixed")
        for script, words in (("exit 7", "exit status 7"), ("kill -9 $$", "signal 9 (Killed)")):
            report = self.run_json(["sh", "-c", f"{clean}; {script}"], status=4)
            self.assertEqual((report["program_failed"], report["verdict"]), (words, "program failed"))
        report = self.run_json(["sh", "-c", f"{lint.program('L12')}; exit 1"], status=4)
        self.assertEqual({result["rule"] for result in lint.failing(report)}, {"L12"})

    def test_mode_fix_on_a_program(self):
        report = self.run_json(lint.program("L12", "fixed"), "--mode", "fix", status=3)
        self.assertIn("ran in mode fix", report["reasons"][0])

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(lint.TOOL), "lint/trace/slipstream-lint")), "no babeltrace2 here")
    def test_traces(self):
        golden = os.path.join(lint.ROOT, "tests/analysis/golden")
        for name, status, rules in (("one-wait", 1, ["implicit-wait/pageable-h2d"]), ("rewrites", 3, []), ("discarded", 1, None)):
            report = self.json(os.path.join(golden, f"{name}.trace"), status=status)
            if rules is not None:
                self.assertEqual(self.rules(report), rules)
            self.assertEqual(report["inconclusive"], name != "one-wait", report["reasons"])
        for name, text in (("empty", ""), ("foreign", "some other text\n")):
            done = self.lint(self.file(f"{name}.trace", text))
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        os.mkdir(self.path("ctf"))
        self.file("ctf/metadata", "/* CTF 1.8 */\n")
        self.assertEqual(self.lint(self.path("ctf")).returncode, 3)

    def test_no_folder_is_left(self):
        self.run_json(lint.program("L12", "fixed"), TMPDIR=self.folder)
        self.assertEqual(glob.glob(self.path("slipstream-*")), [])


if __name__ == "__main__":
    unittest.main()
