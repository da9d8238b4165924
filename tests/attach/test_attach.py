#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slipstream attach and slipstream run --witness on the simulated driver: what they see, what they say, how they end.

    test_attach.py GROUP        a class below, in small letters; status 77 where bpf() is refused
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

sys.path.insert(0, os.path.join(os.environ["SOURCE_ROOT"], "bpf", "test"))
import elf_symbols  # noqa: E402

TOOL = os.environ["TESTED_TOOL"]
WITNESS = os.environ["WITNESS"]
DRIVER = os.environ["SIMCUDA_FOLDER"]
BUSY = os.environ["BUSY"]
ESCAPE = os.environ["ESCAPE"]
LYING = os.environ["LYING"]
ROUTES = os.environ["ROUTES"]
LIBRARY = os.environ["REAL_LIBRARY"]
BYTES = 1 << 16
NOBODY = 65534

with open(os.path.join(os.environ["SOURCE_ROOT"], "tools", "slipstream.schema.json"), encoding="utf-8") as file:
    SCHEMA = json.load(file)


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLIPSTREAM_", "SIMCUDA_")) and key != "LD_PRELOAD"}
    return {**kept, "SLIPSTREAM_LIBRARY": LIBRARY, "LC_ALL": "C", **more}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attach-test-")
        os.chmod(self.folder, 0o777)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, *arguments, prefix=(), library=LIBRARY, **options):
        return subprocess.run([*prefix, TOOL, *arguments], capture_output=True, text=True, timeout=60,
                              env=environment(TMPDIR=self.folder, SLIPSTREAM_LIBRARY=library), **options)

    def report(self):
        with open(self.path("report.json"), encoding="utf-8") as stream:
            report = json.load(stream)
        jsonschema.Draft202012Validator(SCHEMA).validate(report)
        return report

    def busy(self, *words):
        """One that runs; it is in its rounds when this returns."""
        process = subprocess.Popen([BUSY, *words], stdout=subprocess.PIPE, text=True, env=environment(LD_LIBRARY_PATH=DRIVER))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if "forever" in words:
            self.assertEqual(process.stdout.readline(), "round\n")
        return process

    def one_line(self, result, status, pattern):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, pattern)
        self.assertEqual(result.stdout, "")

    def nothing_left(self):
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("slipstream-attach-")], [])


def functions(report):
    return {function["function"]: function for function in report["witness"]["functions"]}


def split(function):
    return sum(function["how"].values())


class Attach(Case):
    def test_a_running_program_is_seen_and_goes_on(self):
        process = self.busy("20", "forever")
        result = self.tool("attach", "--for", "1", "--json", self.path("report.json"), str(process.pid))
        self.assertEqual(result.returncode, 0, result.stderr)
        report = self.report()
        seen = functions(report)
        copy, wait = seen["cuMemcpyHtoD_v2"], seen["cuStreamSynchronize"]
        self.assertGreater(copy["calls"], 0)
        self.assertEqual(copy["calls"], copy["returned"])
        self.assertEqual(copy["bytes"], copy["calls"] * BYTES)
        self.assertEqual(copy["copies"], [{"direction": "h2d", "calls": copy["calls"], "bytes": copy["calls"] * BYTES}])
        self.assertEqual(seen["cuMemcpyDtoH_v2"]["copies"][0]["direction"], "d2h")
        self.assertEqual(copy["streams"], {"legacy": copy["calls"], "none": 0, "other": 0, "per_thread": 0})
        self.assertEqual(wait["streams"]["other"], wait["calls"])
        for function in seen.values():
            self.assertLessEqual(abs(split(function) - function["blocked_ns"]), 7 * function["calls"], function["function"])
            self.assertLessEqual(function["blocked_ns"], function["call_ns"])
        self.assertEqual(copy["sites"][0]["frames"][0]["function"], "copy_and_wait")
        self.assertTrue(copy["sites"][0]["frames"][0]["file"].endswith("busy.c"))
        self.assertIn("stream-synchronize", {sync["rule"] for sync in report["syncs"]})
        self.assertEqual([item["pid"] for item in report["processes"]], [process.pid])
        self.assertIn("HOW THE THREADS WAITED", result.stdout)
        self.assertIn("copy_and_wait", result.stdout)
        self.assertEqual(process.stdout.readline(), "round\n")
        self.assertIsNone(process.poll())
        self.nothing_left()

    def test_one_that_has_ended_does_not_keep_the_others_from_being_watched(self):
        dead = subprocess.Popen(["true"])
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        process = self.busy("20", "forever")
        result = self.tool("attach", "--for", "1", "--json", self.path("report.json"), str(dead.pid), str(process.pid))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"there is no process {dead.pid}", result.stderr)
        self.assertEqual([item["pid"] for item in self.report()["processes"]], [process.pid])
        self.one_line(self.tool("attach", str(dead.pid)), 2, f"there is no process {dead.pid}")
        self.assertIn("none of these processes is there", self.tool("attach", str(dead.pid), str(dead.pid)).stderr)
        dead.wait()

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "only root has containers here")
    def test_program_in_a_container_is_named_with_its_lines(self):
        """Its files have names there that lead to other files here, or to none."""
        root = self.path("root")
        listed = subprocess.run(["ldd", BUSY], capture_output=True, text=True, env=environment(LD_LIBRARY_PATH=DRIVER), check=True).stdout
        for path, name in [(BUSY, "/bin/busy"), *((path, path) for path in re.findall(r"(/\S+) \(0x", listed))]:
            name = "/opt/libcuda.so.1" if "libcuda" in path else name
            os.makedirs(root + os.path.dirname(name), exist_ok=True)
            shutil.copy(path, root + name)
        inside = os.path.join(os.environ["SOURCE_ROOT"], "bpf", "test", "inside.py")
        process = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "python3", inside, root, "/bin/busy", "20", "forever"],
                                   stdout=subprocess.PIPE, text=True, env=environment(LD_LIBRARY_PATH="/opt"), start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
        if process.stdout.readline() != "round\n":
            self.skipTest("no namespaces here")
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            inner = int(file.read())
        result = self.tool("attach", "--for", "1", "--json", self.path("report.json"), str(process.pid))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("found /opt/libcuda.so.1", result.stderr)
        report = self.report()
        self.assertEqual([item["pid"] for item in report["processes"]], [inner])
        copy = functions(report)["cuMemcpyHtoD_v2"]
        self.assertGreater(copy["calls"], 0)
        self.assertEqual(copy["bytes"], copy["calls"] * BYTES)
        self.assertEqual((copy["sites"][0]["frames"][0]["function"], os.path.basename(copy["sites"][0]["frames"][0]["file"])),
                         ("copy_and_wait", "busy.c"))

    def test_ctrl_c_ends_it_with_a_report(self):
        process = self.busy("20", "forever")
        tracer = subprocess.Popen([TOOL, "attach", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment(TMPDIR=self.folder), start_new_session=True)
        time.sleep(2)
        os.killpg(tracer.pid, signal.SIGINT)
        out, err = tracer.communicate(timeout=30)
        self.assertEqual(tracer.returncode, 0, err)
        self.assertIn("cuStreamSynchronize", out)
        self.nothing_left()
        self.assertIsNone(process.poll())

    def test_sigterm_to_the_command_alone_ends_it_too(self):
        process = self.busy("20", "forever")
        tracer = subprocess.Popen([TOOL, "attach", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment(TMPDIR=self.folder), start_new_session=True)
        time.sleep(2)
        os.kill(tracer.pid, signal.SIGTERM)
        out, err = tracer.communicate(timeout=30)
        self.assertEqual(tracer.returncode, 0, err)
        self.assertIn("cuStreamSynchronize", out)

    def test_a_killed_witness_is_told_and_the_program_goes_on(self):
        process = self.busy("20", "forever")
        tracer = subprocess.Popen([TOOL, "attach", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment(TMPDIR=self.folder))
        time.sleep(1.5)
        with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        out, err = tracer.communicate(timeout=30)
        self.assertEqual((tracer.returncode, out), (1, ""), err)
        self.assertIn("slipstream attach: slipstream-witness was killed: what it saw is lost\n", err)
        self.assertEqual(process.stdout.readline(), "round\n")
        self.nothing_left()

    def test_a_killed_command_ends_the_witness_and_the_program_goes_on(self):
        process = self.busy("20", "forever")
        tracer = subprocess.Popen([TOOL, "attach", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=environment(TMPDIR=self.folder))
        time.sleep(1.5)
        with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children", encoding="ascii") as file:
            witness = os.pidfd_open(int(file.read()))
        self.addCleanup(os.close, witness)
        tracer.kill()
        tracer.wait()
        self.assertTrue(select.select([witness], [], [], 20)[0])
        self.assertEqual(process.stdout.readline(), "round\n")
        self.assertIsNone(process.poll())

    def test_it_ends_with_the_last_process(self):
        process = self.busy("20", "forever")
        tracer = subprocess.Popen([TOOL, "attach", str(process.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment(TMPDIR=self.folder))
        time.sleep(1.5)
        process.kill()
        process.wait()
        out, err = tracer.communicate(timeout=30)
        self.assertEqual(tracer.returncode, 0, err)
        self.assertIn("cuStreamSynchronize", out)

    def test_the_table_is_drawn_on_a_terminal_and_taken_away(self):
        process = self.busy("20", "forever")
        ours, theirs = pty.openpty()
        tracer = subprocess.Popen([TOOL, "attach", "--for", "4", str(process.pid)], stdout=subprocess.DEVNULL, stderr=theirs,
                                  env=environment(TMPDIR=self.folder))
        os.close(theirs)
        drawn = b""
        while True:
            try:
                if not select.select([ours], [], [], 30)[0]:
                    break
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            drawn += piece
        os.close(ours)
        self.assertEqual(tracer.wait(timeout=30), 0)
        text = drawn.decode()
        self.assertGreaterEqual(len(re.findall(r"1 of 1 processes run", text)), 2)
        self.assertIn("cuMemcpyHtoD_v2", text)
        self.assertEqual(len(re.findall(r"\x1b\[\d+A\x1b\[J", text)), len(re.findall(r"processes run", text)))

    def test_output_keeps_a_trace_that_every_reader_reads(self):
        process = self.busy("20", "forever")
        result = self.tool("attach", "--for", "1", "--output", self.path("kept"), str(process.pid))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(os.listdir(self.path("kept"))), ["witness"])
        process.kill()
        process.wait()
        again = self.tool("report", self.path("kept"))
        self.assertEqual(again.returncode, 0, again.stderr)
        section = re.compile(r"HOW THE THREADS WAITED.*?\n\n", re.S)
        self.assertEqual(section.search(again.stdout).group(), section.search(result.stdout).group())
        if shutil.which("babeltrace2"):
            events = subprocess.run(["babeltrace2", self.path("kept")], capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertIn("slipstream:witnessed", events)
            self.assertIn("slipstream:wait:", events)
        taken = self.tool("attach", "--for", "1", "--output", self.path("kept"), str(os.getpid()))
        self.one_line(taken, 2, "is there already")


class Program(Case):
    def test_every_call_is_counted_from_the_first_on(self):
        result = self.tool("attach", "--json", self.path("report.json"), "--driver", DRIVER, "--", BUSY, "30")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertIn("HOW THE THREADS WAITED", result.stderr)
        seen = functions(self.report())
        entries = {name: function["entries"] for name, function in seen.items()}
        for name, count in {"cuMemcpyHtoD_v2": 30, "cuMemcpyDtoH_v2": 30, "cuStreamSynchronize": 30, "cuCtxSynchronize": 1,
                            "cuMemFree_v2": 1, "cuMemAlloc_v2": 1}.items():
            self.assertEqual(entries[name], count, name)
            self.assertEqual(seen[name]["calls"], count, name)
        self.assertNotIn("cuMemsetD8Async", entries)
        self.assertEqual(self.report()["witness"]["lost"], dict.fromkeys(self.report()["witness"]["lost"], 0))
        self.nothing_left()

    def test_sets_choose_what_is_watched(self):
        result = self.tool("attach", "--json", self.path("report.json"), "--driver", DRIVER, "--set", "cuMemsetD8Async,cuCtx*", "--", BUSY, "7")
        self.assertEqual(result.returncode, 3, result.stderr)
        seen = functions(self.report())
        self.assertEqual(seen["cuMemsetD8Async"]["entries"], 7)
        self.assertEqual(seen["cuCtxSynchronize"]["entries"], 1)
        self.assertNotIn("cuMemcpyHtoD_v2", seen)

    def test_short_calls_are_only_counted(self):
        result = self.tool("attach", "--json", self.path("report.json"), "--driver", DRIVER, "--least", "9s", "--", BUSY, "7")
        self.assertEqual(result.returncode, 3, result.stderr)
        seen = functions(self.report())
        self.assertEqual((seen["cuMemcpyHtoD_v2"]["entries"], seen["cuMemcpyHtoD_v2"]["calls"]), (7, 0))
        self.assertEqual(self.report()["witness"]["least_ns"], 9 * 10 ** 9)

    def test_children_are_watched_and_a_signal_is_raised_again(self):
        result = self.tool("attach", "--json", self.path("report.json"), "--driver", DRIVER, "--", "sh", "-c",
                           f"'{BUSY}' 3; '{BUSY}' 4; kill -USR1 $$")
        self.assertEqual(result.returncode, -signal.SIGUSR1, result.stderr)
        report = self.report()
        self.assertEqual(functions(report)["cuMemcpyHtoD_v2"]["entries"], 7)
        self.assertEqual(len(report["processes"]), 2)

    def test_all_finds_whoever_uses_the_driver(self):
        processes = [self.busy("20", "forever") for _ in range(2)]
        result = self.tool("attach", "--all", "--for", "1", "--json", self.path("report.json"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLessEqual({process.pid for process in processes}, {item["pid"] for item in self.report()["processes"]})
        self.assertGreater(functions(self.report())["cuMemcpyHtoD_v2"]["calls"], 1)

    def test_a_program_that_cannot_start_is_told_as_by_run(self):
        result = self.tool("attach", "--", "/no/such/program")
        self.one_line(result, 127, "no/such/program")


class Witness(Case):
    def run_witness(self, *words, options=()):
        return self.tool("run", "--witness", *options, "--json", self.path("report.json"), "--driver", DRIVER, "--", *words)

    def test_figures_equal_the_librarys_own(self):
        result = self.run_witness(BUSY, "40")
        self.assertEqual(result.returncode, 3, result.stderr)
        report = self.report()
        counted = report["calls"]["by_function"]
        seen = functions(report)
        self.assertGreaterEqual(len(seen), 5)
        for name, function in seen.items():
            self.assertEqual((function["wrapper"], function["entries"], function["recorded"], function["escaped"]),
                             (counted[name], counted[name], counted[name], 0), name)
        coverage = report["witness"]["coverage"]
        self.assertEqual((coverage["proven"], coverage["escaped"], coverage["unknown"]), (1.0, 0, 0))
        self.assertEqual(report["witness"]["escaped"], [])
        self.assertEqual(report["witness"]["contradicted"], [])
        self.assertIn("coverage: 100 % proven", result.stderr)
        self.assertNotIn("contradicted", result.stderr)

    def test_calls_past_the_preload_are_named_with_their_stack(self):
        result = self.run_witness(BUSY, "5", "escape", ESCAPE)
        self.assertEqual(result.returncode, 3, result.stderr)
        report = self.report()
        escaped = {item["function"]: item for item in report["witness"]["escaped"]}
        self.assertEqual({name: item["calls"] for name, item in escaped.items()}, {"cuMemsetD8_v2": 5, "cuCtxSynchronize": 1})
        for item in escaped.values():
            self.assertEqual(item["frames"][0]["function"], "escape_rounds")
            self.assertTrue(item["frames"][0]["module"].endswith("libescape.so"))
        coverage = report["witness"]["coverage"]
        self.assertEqual(coverage["escaped"], 6)
        self.assertEqual(coverage["proven"], coverage["wrapper"] / (coverage["wrapper"] + 6))
        self.assertIn("escaped: cuMemsetD8_v2, 5 calls", result.stderr)
        self.assertRegex(result.stderr, r"escaped: cuMemsetD8_v2.*\n +\S*escape\.c:\d+  escape_rounds\n")

    def test_mode_fix_claims_hold(self):
        result = self.run_witness(BUSY, "20", options=("--mode", "fix"))
        self.assertEqual(result.returncode, 3, result.stderr)
        witness = self.report()["witness"]
        self.assertGreaterEqual(witness["claims"], 1)  # the free at the end
        self.assertEqual(witness["contradicted"], [])
        self.assertEqual(witness["coverage"]["escaped"], 0)

    def test_five_ways_past_the_preload_are_each_told(self):
        driver = os.path.join(DRIVER, "libcuda.so.1")
        result = self.run_witness(ROUTES, driver, ESCAPE, hex(elf_symbols.address(driver, "cuCtxSynchronize")))
        self.assertEqual(result.returncode, 0, result.stderr)
        report = self.report()
        witness = report["witness"]
        found = sorted((item["function"], item["calls"], item["frames"][0]["function"]) for item in witness["escaped"])
        self.assertEqual(found, [("cuCtxSynchronize", 1, "escape_rounds"), ("cuCtxSynchronize", 11, "saved_address"),
                                 ("cuMemsetD8_v2", 12, "escape_rounds"), ("cuStreamSynchronize", 13, "other_namespace")])
        found = [(item["function"], item["calls"], item["frames"][0]["function"]) for item in witness["unpreloaded"]]
        self.assertEqual(found, [("cuCtxSynchronize", 15, "through_the_library")])
        coverage = witness["coverage"]
        self.assertEqual((coverage["wrapper"], coverage["escaped"], coverage["without_shim"]), (11, 37, 15))
        self.assertEqual(len(report["coverage"]["export_tables"]), 1)
        self.assertTrue(report["coverage"]["inconclusive"])
        self.assertIn("15 calls of processes without the library, as the kernel saw (WITNESS)", report["coverage"]["reasons"])
        self.assertIn("not covered: 15 calls of processes without the library\n", result.stderr)
        self.assertRegex(result.stderr, r"without the library: cuCtxSynchronize, 15 calls.*\n +\S*routes\.c:\d+  through_the_library")

    @unittest.skipUnless(LYING, "no <sys/sdt.h>")
    def test_a_claim_that_the_kernel_contradicts_is_told_with_the_place_that_called(self):
        """By a library that sleeps before it says that it did not wait; live, and from a trace."""
        ways = (self.tool("attach", "--json", self.path("report.json"), "--driver", DRIVER, "--", "env", f"LD_PRELOAD={LYING}", BUSY, "20", "free"),
                lambda: self.tool("run", "--witness", "--json", self.path("report.json"), "--driver", DRIVER, "--", BUSY, "20", "free", library=LYING))
        for result in ways:
            result = result() if callable(result) else result
            self.assertEqual(result.returncode, 3, result.stderr)
            claims = {claim["frames"][0]["function"]: claim for claim in self.report()["witness"]["contradicted"]}
            self.assertEqual(sorted(claims), ["free_beside_work", "main"], result.stderr)
            for claim in claims.values():
                self.assertEqual((claim["function"], claim["claim"], claim["calls"]), ("cuMemFree_v2", "held back", 1))
                self.assertGreater(claim["blocked_max_ns"], 200000)
                self.assertGreaterEqual(claim["call_ns"], claim["blocked_max_ns"])
                self.assertTrue(claim["frames"][0]["file"].endswith("busy.c"), claim)
            self.assertRegex(result.stderr, r"contradicted: cuMemFree_v2.*\n +\S*busy\.c:\d+  free_beside_work")

    def test_mode_fix_that_waits_as_it_was_asked_to_is_not_contradicted(self):
        """With strict-free the library holds a block back and waits all the same; it says so."""
        for options, waits in ((("--mode", "fix", "--relax", "strict-free"), True), (("--mode", "fix"), False)):
            result = self.run_witness(BUSY, "20", "free", options=options)
            self.assertEqual(result.returncode, 3, result.stderr)
            witness = self.report()["witness"]
            self.assertEqual(witness["contradicted"], [])
            self.assertGreaterEqual(witness["claims"], 2)
            self.assertNotIn("contradicted", result.stderr)
            frees = sum(rewrite["waits_made"] for rewrite in self.report()["rewrites"])
            self.assertEqual(frees > 0, waits)

    def test_the_kept_folder_has_records_only(self):
        result = self.tool("run", "--witness", "--out", self.path("records"), "--driver", DRIVER, "--", BUSY, "2")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual([name for name in os.listdir(self.path("records")) if not name.endswith(".slip")], [])

    @unittest.skipUnless(shutil.which("lttng-sessiond") and os.path.exists(os.path.join(os.path.dirname(TOOL), "trace", "slipstream-trace")), "no LTTng")
    def test_beside_a_trace_it_is_one_process(self):
        result = self.tool("trace", "--witness", "--folder", self.path("trace"), "--driver", DRIVER, "--", BUSY, "20")
        self.assertEqual(result.returncode, 3, result.stderr)
        merged = self.tool("report", "--json", self.path("report.json"), self.path("trace"))
        self.assertEqual(merged.returncode, 0, merged.stderr)
        report = self.report()
        self.assertEqual(len(report["processes"]), 1)
        seen = functions(report)["cuMemcpyHtoD_v2"]
        self.assertEqual((seen["entries"], seen["wrapper"], seen["calls"]), (20, 20, 20))
        self.assertEqual(report["calls"]["by_function"]["cuMemcpyHtoD_v2"], 20)
        sync = [sync for sync in report["syncs"] if sync["rule"] == "stream-synchronize"]
        self.assertEqual([item["count"] for item in sync], [20])


class Options(Case):
    def test_each_mistake_is_one_line_and_status_2(self):
        dead = subprocess.Popen(["true"])
        dead.wait()
        for arguments, pattern in (
                ((), "no process id given"),
                (("abc",), "'abc' is no process id"),
                (("-5",), "unknown option"),
                (("0",), "'0' is no process id"),
                (("99999999999",), "is no process id"),
                ((str(dead.pid),), f"there is no process {dead.pid}"),
                (("--",), "no program behind --"),
                (("--all", "--", "true"), "do not go with a program"),
                (("1", "--", "true"), "do not go with a program"),
                (("--for", "soon", "1"), "--for needs a number"),
                (("--frames", "17", "1"), "--frames needs a number from 1 to 16"),
                (("--least", "long", "1"), "--least needs a time"),
                (("--set", "cuNothing", str(os.getpid())), "no function of the driver is called 'cuNothing'"),
                (("--by", "colour", "1"), "--by needs"),
                (("--output", "/dev/null", str(os.getpid())), "/dev/null"),
                (("--driver", DRIVER, "1"), "--driver goes with a program"),
                (("--no-such",), "unknown option --no-such")):
            with self.subTest(arguments=arguments):
                self.one_line(self.tool("attach", *arguments), 2, re.escape(pattern))
        self.nothing_left()

    def test_help_names_every_option(self):
        text = self.tool("attach", "--help").stdout
        for option in ("--all", "--for", "--set", "--system-calls", "--frames", "--least", "--output", "--no-live", "--json"):
            self.assertIn(option, text)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root can give rights up")
class Rights(Case):
    nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")

    def with_rights(self, names):
        rights = ",".join("+" + name for name in names)
        return (*self.nobody, "--inh-caps=" + rights, "--ambient-caps=" + rights)

    def test_another_users_process_is_refused_in_one_line(self):
        self.one_line(self.tool("attach", str(os.getpid()), prefix=self.nobody), 2,
                      f"process {os.getpid()} is another user's: watching it needs CAP_SYS_PTRACE")

    def test_the_missing_capability_is_named(self):
        process = subprocess.Popen(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        time.sleep(0.3)
        self.one_line(self.tool("attach", str(process.pid), prefix=self.nobody), 1, "CAP_BPF")
        self.one_line(self.tool("attach", str(process.pid), prefix=self.with_rights(["bpf"])), 1, "CAP_PERFMON")

    def test_run_goes_on_without(self):
        result = self.tool("run", "--witness", "--json", self.path("report.json"), "--driver", DRIVER, "--", BUSY, "2", prefix=self.nobody)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^slipstream run: .*CAP_BPF")
        self.assertNotIn("witness", self.report())
        self.assertEqual(self.report()["calls"]["by_function"]["cuMemcpyHtoD_v2"], 2)

    def test_two_capabilities_are_enough(self):
        result = self.tool("attach", "--json", self.path("report.json"), "--driver", DRIVER, "--", BUSY, "9",
                           prefix=self.with_rights(["bpf", "perfmon"]))
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(functions(self.report())["cuMemcpyHtoD_v2"]["entries"], 9, result.stderr)


def main():
    probe = subprocess.run([WITNESS, "--probe"], capture_output=True, text=True, timeout=60, env=environment())
    if probe.returncode:
        print(f"skipped: {probe.stderr.strip()}")
        return 77
    groups = {case.__name__.lower(): case for case in (Attach, Program, Witness, Options, Rights)}
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(groups[name]) for name in sys.argv[1:] or groups)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
