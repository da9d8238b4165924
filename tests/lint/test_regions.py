# SPDX-License-Identifier: MIT
"""Regions, steps and their budgets: counts are exact, for a run and for each entry, from record files, NVTX and marks."""

import importlib.util
import os
import subprocess
import sys
import unittest
import unittest.mock

import lint
import made
import records

MS = made.MS
REGIONS = os.path.join(lint.PROGRAMS, "regions")
NVTX = os.path.join(lint.PROGRAMS, "nvtx")
QUIET = "rules: {implicit-wait: off, L18: off}\n"


class Regions(lint.Lint):
    def config(self, text):
        return "--config", self.file("c.yaml", "version: 1\n" + QUIET + text)

    def budgets(self, command, text, expected, status=1, **variables):
        report = self.run_json(command, *self.config(text), status=status, **variables)
        self.assertEqual(sorted(result["message"] for result in report["results"]), expected, report["reasons"])
        return report

    def regions(self, command, *arguments, **variables):
        """{region: calls} of the implicit waits."""
        report = self.run_json(command, *arguments, **variables)
        found = {}
        for result in report["results"]:
            for region in result["regions"]:
                found[region["name"]] = found.get(region["name"], 0) + region["count"]
            outside = result["count"] - sum(region["count"] for region in result["regions"])
            if outside:
                found[""] = found.get("", 0) + outside
        return found


class Entries(Regions):
    def test_each_entry_is_held_against_its_budget(self):
        report = self.budgets([REGIONS, "entries"], "budgets:\n- {region: step, per: entry, implicit: 0, explicit: 0, required: true}\n",
                              ["region step: 1 explicit wait in entry 5 of 5, the budget of one is 0",
                               "region step: 2 implicit waits in entry 3 of 5, the budget of one is 0"])
        self.assertEqual(sorted(result["entry"] for result in report["results"]), [3, 5])
        self.assertEqual([(budget["line"], budget["per"], budget["entries"]) for budget in report["budgets"]], [(4, "entry", 5)])

    def test_a_budget_that_no_entry_exceeds_is_clean(self):
        self.budgets([REGIONS, "entries"], "budgets:\n- {region: step, per: entry, implicit: 2, explicit: 1, blocked: 60s}\n", [], status=0)

    def test_the_run_has_the_sum_with_regions_inside(self):
        self.budgets([REGIONS, "entries"], "budgets:\n- {region: step, implicit: 1}\n- {region: inner, implicit: 0}\n",
                     ["region inner: 1 implicit wait, its budget is 0", "region step: 2 implicit waits, its budget is 1"])

    def test_time_is_that_of_one_entry(self):
        report = self.budgets([REGIONS, "entries"], "budgets:\n- {region: step, per: entry, blocked: 5ms}\n- {region: inner, per: entry, blocked: 60s}\n",
                              [unittest.mock.ANY])
        # The third waits twice as long as the fifth; a busy machine can turn that round.
        self.assertRegex(report["results"][0]["message"], r"^region step: blocked \S+ m?s in entry [35] of 5, the budget of one is 5.00 ms$")
        self.assertGreater(report["results"][0]["blocked_ns"], 15 * MS)

    def test_record_files_and_a_killed_process_have_them_too(self):
        report = self.budgets([REGIONS, "killed"], "budgets:\n- {region: step, per: entry, implicit: 1}\n",
                              ["region step: 2 implicit waits in entry 1 of 1, the budget of one is 1"], status=4)
        self.assertEqual(report["verdict"], "program failed")

    def test_a_region_that_was_not_entered_is_told(self):
        text = "budgets:\n- {region: stpe, per: entry, implicit: 0}\n"
        done = self.lint("--driver", lint.DRIVER, *self.config(text), "--", REGIONS, "entries")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("the budget of line 4 is of no region of this run: stpe was not entered", done.stderr)
        report = self.budgets([REGIONS, "entries"], text.replace("}", ", required: true}"), [], status=3)
        self.assertEqual(report["reasons"], ["the budget of line 4: region stpe was not entered"])

    def test_an_older_library_counted_no_entries(self):
        process = made.Made()
        process.wait(region="step")
        report = self.json(*self.config("budgets: [{region: step, per: entry, implicit: 5}]\n"), process.write(self.path("r")), status=3)
        self.assertEqual(report["reasons"],
                         ["the budget of line 3 is for each entry of region step, and an older library did not count entries"])

    def test_a_region_that_begins_before_the_first_step_lies_in_it_then(self):
        self.assertEqual(self.regions([REGIONS, "late"]), {"epoch": 1, "step/epoch": 1})

    def test_many_names_lose_nothing(self):
        report = self.run_json([REGIONS, "names"], "--config", self.file("c.yaml", "version: 1\n" + QUIET + "budgets: [{region: 'name*', per: entry, implicit: 0}]\n"),
                               status=1)
        self.assertEqual([result["message"] for result in report["results"]],
                         ["region name*: 1 implicit wait in entry 1 of 2, the budget of one is 0"])
        self.assertEqual(report["reasons"], [])
        # The first 1024 are counted at each entry; of the others the ten that waited, from that entry on.
        self.assertEqual(report["budgets"][0]["entries"], 1024 * 2 + 10 * 2)

    def test_a_forked_child_leaves_its_parents_figures_alone(self):
        report = self.budgets([REGIONS, "fork"], "budgets:\n- {region: step, per: entry, implicit: 0}\n",
                              ["region step: 1 implicit wait in entry 1 of 1, the budget of one is 0"])
        self.assertEqual(report["budgets"][0]["entries"], 1)

    def test_threads_enter_one_region_at_once(self):
        report = self.run_json([REGIONS, "threads"], *self.config("budgets:\n- {region: frame, per: entry, explicit: 1}\n- {region: frame, explicit: 799}\n"
                                                                  "- {per: step, explicit: 800}\n"), status=1)
        messages = sorted(result["message"] for result in report["results"])
        self.assertEqual(len(messages), 2)
        self.assertRegex(messages[0], r"^region frame: 2 explicit waits in entry \d+ of \d+, the budget of one is 1$")
        self.assertEqual(messages[1], "region frame: 800 explicit waits, its budget is 799")
        self.assertEqual([budget["entries"] for budget in report["budgets"]], [800, 800, 800])

    @unittest.skipUnless(os.uname().machine == "x86_64", "single steps are of x86-64")
    def test_a_handler_that_comes_between_any_two_instructions_leaves_regions_alone(self):
        report = self.run_json([REGIONS, "signals"], *self.config("budgets:\n- {region: outer, per: entry, implicit: 0}\n- {region: inner, implicit: 2}\n"
                                                                  "- {region: handler, implicit: 0}\n"), status=1)
        self.assertEqual(sorted(result["message"] for result in report["results"]),
                         ["region inner: 3 implicit waits, its budget is 2",
                          "region outer: 1 implicit wait in entry 1 of 3, the budget of one is 0"])
        self.assertEqual([budget["entries"] for budget in report["budgets"]][:2], [3, 3])

    def test_a_forked_child_begins_with_the_step_that_runs(self):
        report = self.budgets([REGIONS, "before"], "budgets:\n- {per: step, implicit: 1}\n",
                              ["region step: 2 implicit waits in entry 2 of 2, the budget of one is 1"])
        self.assertEqual(report["budgets"][0]["entries"], 5 + 2)

    def test_a_long_name_is_cut_between_characters(self):
        self.assertEqual(self.regions([REGIONS, "cut"]), {("1234567890" * 7)[:62]: 1})

    def test_deeper_than_the_bound_the_region_around_stands_for_it(self):
        report = self.run_json([REGIONS, "deep"])
        names = [region["name"] for result in report["results"] for region in result["regions"]]
        self.assertEqual(names, ["/".join(["deep"] * 32)])
        self.assertEqual(sum(result["count"] for result in report["results"]), 2)


TRACE = """# A region with figures, one inside it, and one of an older library.
1.0 host=a pid=100 tid=100 dump_begin dump=1 reason=1
1.0 def_process pid=100 parent_pid=1 rank=-1 start_ns=1000000000 exe=1 command=1 config=2
1.0 def_string id=1 text="demo"
1.0 def_string id=2 text="MODE=observe\\n"
1.0 def_string id=3 text="step"
1.0 def_string id=4 text="inner"
1.0 def_string id=5 text="old"
1.0 def_string id=6 text="cuMemcpyDtoH_v2"
1.0 def_string id=7 text="d2h"
1.0 def_function number=0 name=6 flags=3
1.0 def_rule number=0 slug=7 cause=7 class=2
1.0 def_region id=1 name=3 entries=9 waiting=2 implicit=2 implicit_entry=7 blocked_ns=3000000 blocked_entry=8
1.0 def_region id=2 name=4 parent=1 entries=1 waiting=1 implicit=1 implicit_entry=1 blocked_ns=1000000 blocked_entry=1
1.0 def_region id=3 name=5
1.0 def_wait id=1 function=0 rule=0 region=2 source_kind=2 destination_kind=6 idle_basis=1
1.1 wait wait=1 blocked_ns=3000000 call_ns=2100000
1.2 dump_begin dump=2 reason=3
1.2 def_coverage function=0 calls=1
1.2 dump_end dump=2 events=1
1.2 process_end end_ns=1200000000
"""


class Traces(Regions):
    def judged(self, budget, status):
        return self.json(*self.config(f"budgets: [{{{budget}}}]\n"), self.file("a.trace", TRACE), status=status)

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(lint.TOOL), "lint/trace/slipstream-lint")), "no babeltrace2 here")
    def test_entries_are_in_traces_too(self):
        for budget, message in (("per: step, implicit: 1", "region step: 2 implicit waits in entry 7 of 9, the budget of one is 1"),
                                ("per: step, blocked: 2ms", "region step: blocked 3.00 ms in entry 8 of 9, the budget of one is 2.00 ms"),
                                ("region: inner, per: entry, implicit: 0", "region inner: 1 implicit wait in entry 1 of 1, the budget of one is 0"),
                                ("region: step, implicit: 0", "region step: 1 implicit wait, its budget is 0")):
            self.assertEqual([result["message"] for result in self.judged(budget, 1)["results"]], [message])
        self.assertEqual(self.judged("per: step, implicit: 2", 0)["reasons"], [])
        self.assertIn("an older library did not count entries", self.judged("region: old, per: entry, implicit: 0", 3)["reasons"][0])


class Hostile(Regions):
    def test_regions_that_go_in_circles(self):
        process = made.Made()
        r = process.records
        process.regions["self"] = r.region_with("self", parent=1, entries=2**64 - 1, implicit=2**64 - 1, implicit_entry=9)
        r.region_with("there", parent=3)
        process.regions["back"] = r.region_with("back" * 1000, parent=2, entries=2**64 - 1)
        r.region_with("nowhere", parent=77)
        process.wait(region="self")
        process.wait(region="back", at=("b.py", 1, "f"))
        report = self.json(*self.config("budgets:\n- {region: self, per: entry, implicit: 5}\n- {region: '*', implicit: 1}\n"
                                        "thresholds: {count: 4294967295, per: entry}\n"), process.write(self.path("r")), status=1)
        self.assertEqual(sorted(result["message"] for result in report["results"]),
                         ["region *: 2 implicit waits, its budget is 1",
                          "region self: 18446744073709551615 implicit waits in entry 9 of 18446744073709551615, the budget of one is 5"])


class Steps(Regions):
    TEXT = "budgets:\n- {per: step, implicit: 1, explicit: 0}\n"
    FOUND = ["region step: 1 explicit wait in entry 5 of 5, the budget of one is 0",
             "region step: 2 implicit waits in entry 3 of 5, the budget of one is 1"]

    def test_the_header_marks_steps_of_all_threads(self):
        self.budgets([REGIONS, "step"], self.TEXT, self.FOUND)
        self.assertEqual(self.regions([REGIONS, "step"]), {"": 1, "step": 2})

    def test_a_driver_function_marks_steps(self):
        self.budgets([REGIONS, "graph"], "regions: {step: {function: cuGraphLaunch}}\n" + self.TEXT, self.FOUND)

    def test_without_the_marker_there_are_none(self):
        report = self.budgets([REGIONS, "graph"], self.TEXT, [], status=0)
        self.assertEqual(report["budgets"][0]["entries"], 0)

    def test_a_function_that_cannot_mark_is_told(self):
        for name in ("cuLaunchKernel", "cuNothing"):
            report = self.run_json([REGIONS, "graph"], *self.config(f"regions: {{step: {{function: {name}}}}}\n" + self.TEXT), status=3)
            self.assertIn("SLIPSTREAM_STEP: no driver function of this name can mark a step", " ".join(report["reasons"]))

    def test_a_variable_of_the_user_wins(self):
        report = self.budgets([REGIONS, "graph"], "regions: {step: {function: cuCtxSynchronize}}\n" + self.TEXT, self.FOUND,
                              SLIPSTREAM_STEP="cuGraphLaunch")
        self.assertEqual(report["budgets"][0]["entries"], 5)


class Thresholds(Regions):
    def process(self):
        process = made.Made()
        process.regions["step"] = process.records.region_with("step", entries=5)
        process.wait(region="step", count=10, blocked=20 * MS)
        process.wait(count=4, blocked=4 * MS, at=("init.py", 3, "load"))
        return process

    def check(self, text, expected):
        report = self.json("--config", self.file("c.yaml", "version: 1\n" + text), self.process().write(self.path("r")))
        self.assertEqual(sorted(result["count"] for result in report["results"]), expected, text)

    def test_counts_are_for_an_entry_on_average(self):
        self.check("thresholds: {count: 2, per: entry}\n", [4, 10])
        self.check("thresholds: {count: 3, per: entry}\n", [4])
        self.check("thresholds: {count: 2, per: step}\n", [4, 10])
        self.check("thresholds: {count: 3, per: step}\n", [4])
        self.check("thresholds: {count: 5}\n", [10])
        self.check("thresholds: {count: 5, per: run}\n", [10])
        self.check("thresholds: {blocked: 4ms, per: entry}\n", [4, 10])
        self.check("thresholds: {blocked: 4001us, per: entry}\n", [])

    def test_a_rule_has_its_own(self):
        self.check("thresholds: {count: 3, per: run}\nrules: {implicit-wait: {per: entry}}\n", [4])


class Nvtx(Regions):
    ALL = {"narrow": 1, "narrow/wide": 1, "narrow/wide/ex": 1, "narrow/wide/registered": 1, "größe 😀": 1, "": 6}

    def setUp(self):
        super().setUp()
        if not os.path.exists(NVTX):
            self.skipTest("no headers of NVTX 3 here")

    def found(self, *arguments, **variables):
        return self.regions(NVTX, *arguments, **variables)

    def with_config(self, text):
        return "--config", self.file("n.yaml", "version: 1\n" + text)

    def test_ranges_of_all_kinds_are_regions(self):
        self.assertEqual(self.found(*self.with_config("regions: {nvtx: true}\n")), self.ALL)
        self.assertEqual(self.found("--nvtx", "*@*"), self.ALL)

    def test_names_and_domains_choose(self):
        self.assertEqual(self.found(*self.with_config("regions: {nvtx: ['n*', 'gr*@wide']}\n")), {"narrow": 4, "größe 😀": 1, "": 6})
        self.assertEqual(self.found(*self.with_config("regions: {nvtx: '*@mine'}\n")), {"registered": 1, "": 10})
        self.assertEqual(self.found(*self.with_config("regions: {nvtx: 'w?de'}\n")), {"wide": 3, "": 8})

    def test_nothing_is_asked_for(self):
        done = subprocess.run([lint.TOOL, "run", "--driver", lint.DRIVER, "--", "sh", "-c", "echo ${NVTX_INJECTION64_PATH-none}"],
                              capture_output=True, text=True, timeout=lint.LIMIT_S, check=False, env=lint.environment())
        self.assertEqual(done.stdout, "none\n")

    def test_marks_begin_steps(self):
        text = "regions: {nvtx: true, step: {mark: begin}}\nbudgets: [{per: step, implicit: 1}]\n"
        report = self.budgets(NVTX, text, ["region step: 2 implicit waits in entry 5 of 5, the budget of one is 1"])
        self.assertEqual(report["budgets"][0]["entries"], 5)
        report = self.budgets(NVTX, text.replace("begin", "begin@*"), ["region step: 2 implicit waits in entry 6 of 6, the budget of one is 1"])

    def test_another_tool_stays(self):
        done = self.lint("--driver", lint.DRIVER, *self.with_config("regions: {nvtx: true}\n"), "--", NVTX, NVTX_INJECTION64_PATH="/opt/tool.so")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "slipstream lint: regions of NVTX are asked for, but NVTX_INJECTION64_PATH has another tool: /opt/tool.so\n"))
        done = subprocess.run([lint.TOOL, "run", "--nvtx", "*@*", "--driver", lint.DRIVER, "--", "sh", "-c", "echo $NVTX_INJECTION64_PATH"],
                              capture_output=True, text=True, timeout=lint.LIMIT_S, check=False,
                              env=lint.environment(NVTX_INJECTION64_PATH="/opt/tool.so"))
        self.assertEqual(done.stdout, "/opt/tool.so\n")
        self.assertIn("note: NVTX_INJECTION64_PATH is set to /opt/tool.so, so NVTX ranges and marks are not seen\n", done.stderr)

    def test_mode_fix_goes_on_beside_it(self):
        done = subprocess.run([lint.TOOL, "run", "--mode", "fix", "--nvtx", "*@*", "--driver", lint.DRIVER, "--", NVTX],
                              capture_output=True, text=True, timeout=lint.LIMIT_S, check=False, env=lint.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("NVTX_INJECTION64_PATH is set", done.stderr)

    def test_the_package_of_python(self):
        if not importlib.util.find_spec("nvtx"):
            self.skipTest("no Python package nvtx here")
        text = """import ctypes
import nvtx
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name
context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
@nvtx.annotate("iteration", domain="train")
def iteration(rounds):
    with nvtx.annotate("forward"):
        for _ in range(rounds):
            call("cuCtxSynchronize")
for rounds in (1, 3, 2):
    nvtx.mark("begin")
    iteration(rounds)
"""
        self.budgets([sys.executable, self.file("p.py", text)],
                     "regions: {nvtx: true, step: {mark: begin}}\nbudgets:\n- {region: iteration, per: entry, explicit: 2}\n"
                     "- {region: forward, explicit: 5}\n- {per: step, explicit: 1}\n",
                     ["region forward: 6 explicit waits, its budget is 5",
                      "region iteration: 3 explicit waits in entry 2 of 3, the budget of one is 2",
                      "region step: 3 explicit waits in entry 2 of 3, the budget of one is 1"])

    def test_the_library_of_older_programs(self):
        package = importlib.util.find_spec("nvidia.nvtx") if importlib.util.find_spec("nvidia") else None
        if not package:
            self.skipTest("no Python package nvidia-nvtx-cu12 here, which has libnvToolsExt.so.1")
        folder = os.path.join(list(package.submodule_search_locations)[0], "lib")
        self.assertEqual(self.regions(os.path.join(lint.PROGRAMS, "nvtx-v1"), "--nvtx", "*", "--step", "nvtx:begin",
                                      LD_LIBRARY_PATH=folder), {"narrow": 1, "step": 1})


if __name__ == "__main__":
    unittest.main()
