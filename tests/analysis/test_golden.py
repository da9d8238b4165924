# SPDX-License-Identifier: MIT
"""Golden traces: the report's text and JSON are what is committed beside them, through the command and through the plugin; rankings, selections,
late definitions, used pids, loss, hosts and ranks."""
import json
import os
import re
import socket
import subprocess
import sys
import time
import unittest

from support import CONTROL, TOOL, Case, golden

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures"))
import traces  # noqa: E402

TRACES = ("one-wait", "ranks", "late-session", "pid-reuse", "discarded", "hostile-names", "rewrites", "witness")


class Golden(Case):
    def test_report(self):
        for name in TRACES:
            with self.subTest(name):
                report, result = self.report_json(golden(name))
                self.check_golden(name + ".txt", result.stdout)
                self.check_golden(name + ".json", json.dumps(report, indent=1, sort_keys=True) + "\n")
                self.assertEqual(result.stderr, "")

    def test_plugin_says_the_same(self):
        for name in TRACES:
            with self.subTest(name):
                report, result = self.report_json(golden(name))
                through = self.babeltrace(*self.text_source(golden(name)), "--component=sink.slipstream.report",
                                          f'--params=json="{self.path("plugin.json")}"')
                self.assertEqual(through.stdout, result.stdout)
                self.assertEqual(self.load(self.path("plugin.json")), report)

    def test_through_ctf(self):
        """Written as CTF by babeltrace2 and read again, a trace gives the same report."""
        for name in ("one-wait", "ranks", "pid-reuse", "hostile-names", "rewrites", "witness"):
            with self.subTest(name):
                self.babeltrace(*self.text_source(golden(name)), "--component=sink.ctf.fs", f'--params=path="{self.path(name)}"')
                self.assertEqual(self.report_json(self.path(name))[0], self.report_json(golden(name))[0])


    def test_lint_doubts_what_the_witness_lost(self):
        """Each loss in which a wait or an escape may hide; the others are no doubt."""
        self.babeltrace(*self.text_source(golden("witness")), "--component=sink.ctf.fs", f'--params=path="{self.path("lost")}"')
        result = subprocess.run([TOOL, "lint", self.path("lost")], capture_output=True, text=True, timeout=60, check=False)
        told = [line.removeprefix("inconclusive: ") for line in result.stdout.splitlines() if line.startswith("inconclusive: ")]
        for count, words in ((9, "the ring was full"), (11, "there was no room"), (12, "too many inside each other"), (13, "left without return"),
                             (15, "nobody knows whose"), (16, "not watched: there was no room"), (17, "news of processes"), (18, "news of mappings"),
                             (1, "driver library not watched"), (20, "refused to probe"), (23, "left out by the kernel")):
            self.assertTrue([line for line in told if line.startswith(f"{count} ") and words in line], (count, words, result.stdout, result.stderr))
        self.assertFalse([line for line in told if line.startswith(("21 ", "22 "))], told)


class Rankings(Case):
    def ranking(self, *arguments):
        """(blocked, calls, place) of the first section."""
        lines = self.report(golden("ranks"), *arguments).stdout.split("IMPLICIT SYNCHRONIZATIONS\n")[1].split("\n\n")[0].splitlines()
        return [(words[1] + " " + words[2], words[7], " ".join(words[8:])) for words in (line.split() for line in lines[1:]) if words[0].isdigit()]

    def test_by_rank(self):
        self.assertEqual(self.ranking("--by=rank"), [
            ("8.00 ms", "4", "rank 3, beta, process 101, GPU 1"), ("6.00 ms", "3", "rank 2, beta, process 100, GPU 0"),
            ("4.00 ms", "2", "rank 1, alpha, process 101, GPU 1"), ("2.00 ms", "1", "rank 0, alpha, process 100, GPU 0")])

    def test_by_host(self):
        self.assertEqual(self.ranking("--by=host"), [("14.0 ms", "7", "beta"), ("6.00 ms", "3", "alpha")])

    def test_by_gpu(self):
        self.assertEqual(self.ranking("--by=gpu"), [
            ("8.00 ms", "4", "beta, GPU 1"), ("6.00 ms", "3", "beta, GPU 0"), ("4.00 ms", "2", "alpha, GPU 1"), ("2.00 ms", "1", "alpha, GPU 0")])

    def test_by_thread_and_stream(self):
        self.assertEqual(self.ranking("--by=thread")[0], ("8.00 ms", "4", "thread 101, rank 3, beta, process 101"))
        self.assertEqual(self.ranking("--by=stream")[0], ("8.00 ms", "4", "stream 1 (legacy) of context 1, rank 3, beta, process 101"))

    def test_json_has_them(self):
        report = self.report_json(golden("ranks"))[0]
        self.assertEqual([(row["host"], row["rank"], row["device"], row["count"], row["implicit_blocked_ns"], row["explicit_blocked_ns"])
                          for row in report["ranks"]],
                         [("beta", 3, 1, 5, 8000000, 500000), ("beta", 2, 0, 4, 6000000, 500000), ("alpha", 1, 1, 3, 4000000, 500000),
                          ("alpha", 0, 0, 2, 2000000, 500000)])
        for key in ("threads", "streams", "ranks"):
            self.assertEqual(sum(row["count"] for row in report[key]), 14, key)
            self.assertEqual(sum(row["blocked_ns"] for row in report[key]), 22000000, key)
        self.assertEqual({(row["pid"], row["host"]) for row in report["processes"]}, {(100, "alpha"), (101, "alpha"), (100, "beta"), (101, "beta")})

    def test_limit(self):
        self.assertIn("(2 more lines)", self.report(golden("ranks"), "--by=rank", "--limit=2").stdout)

    def test_needs_a_trace(self):
        os.mkdir(self.path("empty"))
        result = self.report(self.path("empty"), "--by=rank", status=2)
        self.assertIn("needs a trace", result.stderr)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLIPSTREAM_")}
        self.assertIn("needs a trace", self.run_command(TOOL, "run", "--by=rank", "true", status=125, env=environment).stderr)
        self.assertIn("--gpu needs a trace", self.report(self.path("empty"), "--gpu=1", status=2).stderr)
        self.assertIn("--waits needs a trace: not with --records", self.report(golden("ranks"), "--records", "--waits", status=2).stderr)


class Selections(Case):
    def count(self, *arguments):
        report = self.report_json(golden("ranks"), *arguments)[0]
        self.assertIsNotNone(report["trace"]["selection"])
        return sum(sync["count"] for sync in report["syncs"]), len(report["processes"])

    def test_processes(self):
        self.assertEqual(self.count("--rank=2"), (4, 1))
        self.assertEqual(self.count("--host=beta"), (9, 2))
        self.assertEqual(self.count("--pid=100"), (6, 2))
        self.assertEqual(self.count("--pid=100", "--host=alpha"), (2, 1))
        self.assertEqual(self.count("--gpu=1"), (8, 4))

    def test_time(self):
        """Waits at 10, 11, 12 and 13 ms of 40, of four, three, two and one processes; four at 20 ms."""
        self.assertEqual(self.count("--end=10.5ms"), (4, 4))
        self.assertEqual(self.count("--begin=10.5ms"), (10, 4))
        self.assertEqual(self.count("--begin=10.5ms", "--end=11.5ms"), (3, 4))
        self.assertEqual(self.count("--begin=10500000", "--end=0.0115s"), (3, 4))
        self.assertEqual(self.count("--begin=45%"), (4, 4))
        self.assertEqual(self.count("--end=45%"), (10, 4))
        report = self.report_json(golden("ranks"), "--begin=10ms", "--end=15ms")[0]
        self.assertEqual(report["wall_ns"], 5000000)

    def test_waits_of_a_selection(self):
        lines = self.report(golden("ranks"), "--waits", "--rank=1", "--end=15ms").stdout.splitlines()
        self.assertEqual([line.split(" ")[0] for line in lines], ["0.010001000", "0.011001000"])

    def test_nothing_selected(self):
        self.assertEqual(self.report(golden("ranks"), "--rank=9", status=1).stderr,
                         "slipstream report: the trace has no process that is selected (rank 9)\n")

    def test_bad_values(self):
        for option in ("--begin=soon", "--end=101%", "--rank=x", "--gpu=-1", "--begin=1e400s", "--pid=4294967296"):
            self.assertEqual(self.report(golden("ranks"), option, status=2).stdout, "", option)

    def test_plugin_parameters(self):
        for params, calls in (("rank=2", 4), ('host="beta"', 9), ("pid=100", 6), ("gpu=1", 8), ('end="10.5ms"', 4), ("begin=10500000", 10)):
            self.babeltrace(*self.text_source(golden("ranks")), "--component=sink.slipstream.report", f'--params=json="{self.path("p.json")}",{params}')
            self.assertEqual(sum(sync["count"] for sync in self.load(self.path("p.json"))["syncs"]), calls, params)
        for params, words in (('by="colour"', "by needs"), ("colour=1", "unknown parameter colour"), ('begin="10%"', "slipstream report"),
                              ('limit="x"', "limit needs a number"), ("json=5", "json needs a text")):
            result = self.babeltrace(*self.text_source(golden("ranks")), "--component=sink.slipstream.report", f"--params={params}", status=1)
            self.assertIn(words, " ".join(result.stderr.split()))


class Meaning(Case):
    def test_late_session(self):
        """Waits before their definitions count as if those had come first; one without any is unknown, and a reason."""
        report = self.report_json(golden("late-session"))[0]
        self.assertEqual({sync["rule"]: (sync["count"], sync["class"]) for sync in report["syncs"]},
                         {"pageable-h2d": (2, "implicit"), "stream-synchronize": (1, "explicit"), "unknown": (1, "unknown")})
        self.assertEqual((report["implicit_blocked_ns"], report["unknown_blocked_ns"]), (4000000, 100000))
        self.assertEqual(len(report["syncs"][1]["waited_for"]), 2)
        self.assertEqual(report["coverage"]["reasons"], ["1 call that waited is not defined in the trace (unknown in the report)",
                                                         "the trace began 500 ms after the start of process 100: what came before is not in it"])

    def test_pid_reuse(self):
        report = self.report_json(golden("pid-reuse"))[0]
        self.assertEqual([(row["pid"], row["exe"], row["state"]) for row in report["processes"]],
                         [(100, "/usr/bin/first", "exited"), (100, "/usr/bin/second", "gone"), (100, "/usr/bin/third", "exited")])
        self.assertEqual([row["count"] for row in report["ranks"]], [1, 1, 1])

    def test_loss_is_inconclusive(self):
        report, result = self.report_json(golden("discarded"))
        self.assertTrue(report["coverage"]["inconclusive"])
        self.assertEqual(report["trace"]["discarded_events"], 20)
        self.assertIn("inconclusive: 20 events were lost by the tracer", result.stdout)

    def test_page_doubts_as_the_report(self):
        """The page has the report's reasons, word for word: of the trace, of notes, of calls, and of a process that still runs."""
        with open(golden("discarded"), encoding="utf-8") as file:
            lines = file.read().replace("host=alpha pid=100 ", f"host={socket.gethostname()} pid={os.getpid()} ").splitlines(keepends=True)
        trace = "".join(line for line in lines if "process_end" not in line)
        now = time.monotonic_ns()
        trace = re.sub(r"(def_process .*)start_ns=\d+", rf"\1start_ns={now}", trace)
        trace += """9.0 def_string id=90 text="0102"
9.0 def_note note=1 code=2 text=90 count=1
9.0 def_string id=91 text="cuOfLater"
9.0 def_function number=90 name=91 flags=0 handed_out=1
9.0 def_coverage function=90 calls=2
9.1 wait wait=99
"""

        def shifted(time_of):
            ns = int(time_of[1]) * 10**9 + int(time_of[2].ljust(9, "0")) + now
            return f"{ns // 10**9}.{ns % 10**9:09d} "

        trace = re.sub(r"^(\d+)\.(\d+) ", shifted, trace, flags=re.M)
        report = self.report_json(self.write("own.trace", trace), "--html", self.path("page.html"))[0]
        with open(self.path("page.html"), encoding="utf-8") as file:
            page = json.loads(re.search(r'id="data">(.*?)</script>', file.read(), re.S)[1])
        self.assertEqual(report["coverage"]["reasons"], [
            "20 events were lost by the tracer", "1 call that waited is not defined in the trace (unknown in the report)",
            f"process {os.getpid()} still runs, its later calls are not in this report", "an unknown export table was handed out: 0102",
            "unwrapped function called: cuOfLater (2 calls)"])
        self.assertEqual(page["reasons"], report["coverage"]["reasons"])

    def test_what_if(self):
        """Text, JSON (which the schema knows) and page have the rows in the same order: by the middle, falling."""
        trace = traces.Trace()
        traces.small(trace)
        trace.write(self.path("small.trace"))
        report, result = self.report_json(self.path("small.trace"), "--what-if", "--html", self.path("page.html"))
        with open(self.path("page.html"), encoding="utf-8") as file:
            page = json.loads(re.search(r'id="data">(.*?)</script>', file.read(), re.S)[1])
        savings = [(page["texts"][text], site >= 0, low, high, middle) for _, text, site, low, high, middle in page["savings"]]
        for name, is_site in (("sites", True), ("rules", False)):
            rows = report["what_if"][name]
            self.assertEqual([row["place"] for row in rows], [1, 2])
            self.assertEqual(rows, sorted(rows, key=lambda row: -row["saving_middle_ns"]))
            self.assertEqual([(row["rule"], is_site, row["saving_low_ns"], row["saving_high_ns"], row["saving_middle_ns"]) for row in rows],
                             [saving for saving in savings if saving[1] == is_site])
        self.assertEqual([words[0] for words in map(str.split, result.stdout.split("What each wait costs the run\n")[1].splitlines()[:3])], ["#", "1", "2"])

    def test_hostile_names(self):
        """Nothing that a terminal would obey, in any text; the JSON has the names as they are."""
        for arguments in ((), ("--limit=0",), ("--by=site",), ("--by=thread",), ("--waits",)):
            text = self.report(golden("hostile-names"), *arguments).stdout
            self.assertIsNone(CONTROL.search(text), arguments)
            text.encode("utf-8")  # raises where a byte was no UTF-8
            self.assertIn(r"evil\x1b]0;title\x07", text.replace("pageable", ""), arguments) if "--by=" not in str(arguments) else None
        report = self.report_json(golden("hostile-names"))[0]
        self.assertEqual(report["syncs"][0]["waited_for"][0]["name"], "evil\x1b]0;title\x07\n\t\\</script>\"'&")


if __name__ == "__main__":
    unittest.main()
