# SPDX-License-Identifier: MIT
"""slipstream run: the program's status, signals, streams and environment pass through unchanged; blind spots and bad input are told in
one line. A stand-in for the library (fake_library.c) leaves a known record file, so neither shim nor driver is needed."""

import json
import os
import pty
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

sys.dont_write_bytecode = True
import records

TOOL = os.environ["TESTED_TOOL"]
FAKE = os.path.realpath(os.environ["FAKE_LIBRARY"])
CC = os.environ.get("CC_FOR_TESTS", "cc")


def calibration_table(*lines):
    text = "".join(line + "\n" for line in ("slipstream-calibration 1", *lines))
    checksum = 0xCBF29CE484222325
    for byte in text.encode():
        checksum = (checksum ^ byte) * 0x100000001B3 % 2 ** 64
    return text + "checksum %016x\n" % checksum


def default_signals():
    """In a child: as from a terminal, also where the tests were started by nohup or in the background of a script."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.sample = self.path("sample.record")
        records.sample().write(self.sample)
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith("SLIPSTREAM_") and k not in ("LD_PRELOAD", "ASAN_OPTIONS")}
        self.environment.update(SLIPSTREAM_LIBRARY=FAKE, FAKE_RECORD=self.sample, TMPDIR=self.folder.name)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def command(self, *arguments):
        return [TOOL, "run", *arguments]

    def run_tool(self, *arguments, environment=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("preexec_fn", default_signals)
        return subprocess.run(self.command(*arguments), env={**self.environment, **(environment or {})}, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def start(self, *arguments, **more):
        more.setdefault("preexec_fn", default_signals)
        process = subprocess.Popen(self.command(*arguments), env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def assert_one_line(self, result, status, text):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("slipstream run: "), result.stderr)
        self.assertIn(text, result.stderr)

    def compile(self, name, source, *flags):
        path = self.path(name)
        subprocess.run([CC, "-x", "c", "-", "-x", "none", "-o", path, *flags], input=source, text=True, check=True)
        return path


class Status(Run):
    def test_exit_status_is_the_programs(self):
        for status in (0, 1, 2, 42, 125, 126, 127, 255):
            self.assertEqual(self.run_tool("sh", "-c", "exit %d" % status).returncode, status)

    def test_death_by_signal_is_repeated(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGSEGV, signal.SIGABRT, signal.SIGHUP,
                       signal.SIGPIPE, signal.SIGUSR1, signal.SIGALRM):
            result = self.run_tool("sh", "-c", "kill -%d $$" % number)
            self.assertEqual(result.returncode, -number)
            self.assertIn("17 implicit synchronizations", result.stderr.splitlines()[0])

    def test_no_core_of_ours(self):
        def unlimited():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        result = subprocess.Popen(self.command("sh", "-c", "kill -SEGV $$"), env=self.environment, preexec_fn=unlimited,
                                  stderr=subprocess.DEVNULL, cwd=self.folder.name)
        _, status = os.waitpid(result.pid, 0)
        result.returncode = 0
        self.assertEqual(os.WTERMSIG(status), signal.SIGSEGV)
        self.assertFalse(os.WCOREDUMP(status))

    def test_not_found(self):
        self.assert_one_line(self.run_tool("no-such-program"), 127, "no-such-program: No such file or directory")
        self.assert_one_line(self.run_tool("/no/such/program"), 127, "/no/such/program: No such file")

    def test_not_executable(self):
        self.assert_one_line(self.run_tool(self.sample), 126, "Permission denied")
        self.assert_one_line(self.run_tool(self.folder.name), 126, "Permission denied")
        broken = self.path("broken")
        with open(broken, "wb") as file:
            file.write(b"\x7fELF" + bytes(200))
        os.chmod(broken, 0o755)
        result = self.run_tool(broken)
        self.assertEqual(result.returncode, 126)
        self.assertEqual(result.stderr.splitlines()[-1], "slipstream run: %s: Exec format error" % broken)

    def test_script_without_interpreter_line_runs(self):
        script = self.path("plain")
        with open(script, "w") as file:
            file.write("echo ran $1; exit 9\n")
        os.chmod(script, 0o755)
        result = self.run_tool(script, "it")
        self.assertEqual((result.returncode, result.stdout), (9, "ran it\n"))


class Streams(Run):
    def test_stdout_holds_only_the_programs_output(self):
        result = self.run_tool("printf", "a\\0b\n")
        self.assertEqual(result.stdout, "a\0b\n")
        self.assertTrue(result.stderr.startswith("slipstream: 17 implicit synchronizations blocked the program for 34.0 ms "
                                                 "(34.0 % of 100 ms)\n"), result.stderr)

    def test_stdin_passes(self):
        read, write = os.pipe()
        os.write(write, b"one\ntwo\n")
        os.close(write)
        self.assertEqual(self.run_tool("cat", stdin=read).stdout, "one\ntwo\n")
        os.close(read)

    def test_closed_descriptors_stay_closed(self):
        script = "import os,sys\nn=[]\nfor i in range(3):\n try: os.fstat(i)\n except OSError: n.append(i)\n" \
                 "open(sys.argv[1],'w').write(str(n))"
        out = self.path("closed")
        text = self.path("text")
        result = subprocess.run(["sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-", *self.command(
            "--output", text, "/usr/bin/python3", "-c", script, out)], env=self.environment, timeout=60)
        self.assertEqual(result.returncode, 0)
        with open(out) as file:
            self.assertEqual(file.read(), "[0, 1, 2]")
        with open(text) as file:
            self.assertIn("17 implicit", file.read())

    def test_descriptors_do_not_leak(self):
        result = self.run_tool("/usr/bin/python3", "-c", "import os;print(sorted(map(int,os.listdir('/proc/self/fd'))))")
        self.assertEqual(result.stdout, "[0, 1, 2, 3]\n")  # 3: the folder itself

    def test_output_and_json_files(self):
        text, data = self.path("report.txt"), self.path("report.json")
        result = self.run_tool("--output", text, "--json", data, "true")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        with open(text) as file:
            self.assertIn("pageable-h2d in cuMemcpyHtoD_v2", file.read())
        with open(data) as file:
            report = json.load(file)
        self.assertEqual(report["calls"]["total"], 35)
        self.assertEqual(len(report["processes"]), 1)

    def test_unwritable_outputs_fail_before_the_start(self):
        marker = self.path("started")
        for option in ("--json", "--output"):
            result = self.run_tool(option, "/nonexistent/file", "touch", marker)
            self.assert_one_line(result, 125, "cannot write /nonexistent/file: No such file or directory")
        self.assertFalse(os.path.exists(marker))

    def test_full_disk_gives_125_unless_the_program_failed(self):
        result = self.run_tool("--json", "/dev/full", "true")
        self.assertEqual(result.returncode, 125)
        self.assertIn("slipstream run: cannot write /dev/full: No space left on device\n", result.stderr)
        self.assertEqual(self.run_tool("--json", "/dev/full", "sh", "-c", "exit 3").returncode, 3)


class Records(Run):
    def test_private_folder_is_removed(self):
        before = set(os.listdir(self.folder.name))
        result = self.run_tool("sh", "-c", 'stat -c "%a" "$SLIPSTREAM_OUT"')
        self.assertEqual(result.stdout, "700\n")
        self.assertEqual(set(os.listdir(self.folder.name)), before)

    def test_keep(self):
        result = self.run_tool("--keep", "sh", "-c", 'printf %s "$SLIPSTREAM_OUT"')
        self.assertTrue(os.path.isdir(result.stdout))
        self.assertEqual(len(os.listdir(result.stdout)), 1)
        self.assertTrue(result.stderr.endswith("slipstream run: record files are kept in %s\n" % result.stdout))

    def test_out_is_made_kept_and_absolute(self):
        result = self.run_tool("--out", "kept", "sh", "-c", 'cd /; printf %s "$SLIPSTREAM_OUT"', cwd=self.folder.name)
        self.assertEqual(result.stdout, os.path.realpath(self.path("kept")))
        self.assertEqual(len(os.listdir(self.path("kept"))), 1)

    def test_out_from_the_environment(self):
        result = self.run_tool("true", environment={"SLIPSTREAM_OUT": self.path("named")})
        self.assertEqual(len(os.listdir(self.path("named"))), 1)
        self.assertIn("kept in", result.stderr)

    def test_older_files_of_the_folder_are_left_out(self):
        os.mkdir(self.path("old"))
        records.sample(start=5).write(self.path("old/1-5.slip"))
        data = self.path("report.json")
        self.run_tool("--out", self.path("old"), "--json", data, "true")
        with open(data) as file:
            self.assertEqual(json.load(file)["calls"]["total"], 35)
        self.assertEqual(len(os.listdir(self.path("old"))), 2)

    def test_unwritable_out(self):
        self.assert_one_line(self.run_tool("--out", "/proc/none", "true"), 125, "cannot make folder /proc/none")

    def test_children_are_covered(self):
        data = self.path("report.json")
        self.run_tool("--json", data, "sh", "-c", "/bin/true; /bin/true; exit 0")
        with open(data) as file:
            report = json.load(file)
        self.assertEqual(len(report["processes"]), 3)
        self.assertEqual(report["calls"]["total"], 3 * 35)
        sync = report["syncs"][0]
        self.assertEqual((sync["rule"], sync["count"], sync["blocked_ns"], len(sync["sites"])),
                         ("pageable-h2d", 45, 90000000, 2))

    def test_program_that_never_reached_cuda(self):
        result = self.run_tool("true", environment={"FAKE_RECORD": "/nonexistent"})
        self.assertEqual(result.returncode, 0)
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0], "slipstream: no call of the CUDA driver was seen")
        self.assertEqual(sum("likely:" in line for line in lines), 1, lines)

    def test_no_record_at_all_is_inconclusive(self):
        reason = "no process left a record (no driver call seen)"
        result = self.run_tool("--json", self.path("r.json"), "true", environment={"FAKE_RECORD": "/nonexistent"})
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.splitlines()[1], "slipstream: inconclusive, there may be more (1 reason below)")
        self.assertIn("  inconclusive: " + reason, result.stderr.splitlines())
        with open(self.path("r.json")) as file:
            report = json.load(file)
        self.assertEqual((report["processes"], report["calls"]["total"]), ([], 0))
        self.assertEqual((report["coverage"]["inconclusive"], report["coverage"]["reasons"]), (True, [reason]))
        with open(os.path.join(os.environ["SOURCE_ROOT"], "tools/slipstream.schema.json")) as file:
            jsonschema.Draft202012Validator(json.load(file)).validate(report)


class Signals(Run):
    SCRIPT = ("import signal,sys,os,time\n"
              "got=[]\n"
              "def on(n,f):\n  got.append(n)\n  print(n,flush=True)\n"
              "for n in (signal.SIGTERM,signal.SIGINT,signal.SIGHUP,signal.SIGUSR1,signal.SIGUSR2,signal.SIGQUIT,"
              "signal.SIGWINCH,signal.SIGCONT,signal.SIGRTMIN+1): signal.signal(n,on)\n"
              "print('ready',flush=True)\n"
              # Not pause(): a signal may come just before it.
              "end=time.monotonic()+60\n"
              "while len(got)<int(sys.argv[1]) and time.monotonic()<end: time.sleep(0.01)\n")

    def test_signals_sent_to_us_alone_reach_the_program_once(self):
        self.send_signals(signal.SIG_DFL)

    def test_ignored_signals_reach_a_program_that_took_them_up(self):
        self.send_signals(signal.SIG_IGN)

    def send_signals(self, inherited):
        numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT,
                   signal.SIGWINCH, signal.SIGCONT, signal.SIGRTMIN + 1]

        def prepare():
            for number in numbers:
                signal.signal(number, inherited)

        process = self.start("/usr/bin/python3", "-c", self.SCRIPT, str(len(numbers)), preexec_fn=prepare)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for number in numbers:
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), "%d\n" % number)
        self.assertEqual(process.stdout.read(), "")
        self.assertEqual(process.wait(30), 0)

    def test_term_of_us_ends_the_program_and_still_reports(self):
        process = self.start("/usr/bin/python3", "-c", "import time;print('ready',flush=True);time.sleep(60)")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.terminate()
        self.assertIn("17 implicit", process.stderr.read())
        self.assertEqual(process.wait(30), -signal.SIGTERM)

    def test_own_group_signals_are_not_sent_back(self):
        script = ("import os,signal,time\n"
                  "got=[]\n"
                  "signal.signal(signal.SIGUSR1,lambda n,f: got.append(n))\n"
                  "os.kill(0,signal.SIGUSR1)\n"
                  "time.sleep(0.5)\n"
                  "print(len(got))\n")
        process = self.start("/usr/bin/python3", "-c", script, start_new_session=True)
        self.assertEqual(process.stdout.read(), "1\n")
        self.assertEqual(process.wait(30), 0)

    def test_same_process_group(self):
        result = self.run_tool("/usr/bin/python3", "-c", "import os;print(os.getpgrp()==os.getpgid(os.getppid()))")
        self.assertEqual(result.stdout, "True\n")

    def test_ignored_and_blocked_signals_are_inherited(self):
        script = self.path("status")
        with open(script, "w") as file:
            file.write("grep -E 'Sig(Ign|Blk)' /proc/self/status\n")

        def prepare():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})

        arguments = ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"]
        bare = subprocess.run(arguments, preexec_fn=prepare, capture_output=True, text=True)
        under = self.run_tool(*arguments, preexec_fn=prepare)
        self.assertEqual(under.stdout, bare.stdout)
        self.assertEqual(under.returncode, 0)

    def test_nohup(self):
        process = self.start("sh", "-c", "echo ready; exec sleep 1",
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(30), 0)

    def wait_for_state(self, pid, state):
        for _ in range(300):
            with open("/proc/%d/stat" % pid) as file:
                if file.read().rpartition(")")[2].split()[0] == state:
                    return
            time.sleep(0.01)
        self.fail("process %d is not in state %s" % (pid, state))

    def test_stops_and_continues_with_the_program(self):
        process = self.start("/usr/bin/python3", "-c", "import os,signal\nprint(os.getpid(),flush=True)\n"
                                                       "os.kill(os.getpid(),signal.SIGSTOP)\nprint('on',flush=True)")
        child = int(process.stdout.readline())
        self.wait_for_state(child, "T")
        self.wait_for_state(process.pid, "T")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.stdout.readline(), "on\n")
        self.assertEqual(process.wait(30), 0)

    def test_stops_by_the_same_signal(self):
        for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGSTOP):
            # A group of its own, but not an orphaned one: those do not stop.
            process = self.start("/usr/bin/python3", "-c", "import os,sys\nos.kill(os.getpid(),int(sys.argv[1]))\nprint('on')",
                                 str(int(number)), preexec_fn=lambda: os.setpgid(0, 0))
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            self.assertTrue(os.WIFSTOPPED(status))
            self.assertEqual(os.WSTOPSIG(status), number)
            os.killpg(process.pid, signal.SIGCONT)
            self.assertEqual(process.stdout.read(), "on\n")
            self.assertEqual(process.wait(30), 0)

    def test_program_that_ignores_the_stop_key_goes_on(self):
        script = ("import os,signal,sys\nsignal.signal(signal.SIGTSTP,signal.SIG_IGN)\nprint('ready',flush=True)\n"
                  "sys.stdin.read()\nprint('done')")
        read, write = os.pipe()
        process = subprocess.Popen(self.command("/usr/bin/python3", "-c", script), env=self.environment, stdin=read,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   preexec_fn=lambda: os.setpgid(0, 0))
        os.close(read)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        os.killpg(process.pid, signal.SIGTSTP)
        time.sleep(0.2)
        self.assertEqual(os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG), (0, 0))
        os.close(write)
        self.assertEqual(process.stdout.read(), "done\n")
        self.assertEqual(process.wait(30), 0)

    def test_terminal_keys_reach_the_program_once(self):
        master, slave = pty.openpty()
        script = ("import signal,time\nn=[0]\n"
                  "def on(*a): n[0]+=1\n"
                  "signal.signal(signal.SIGINT,on)\nprint('ready',flush=True)\n"
                  "while not n[0]: time.sleep(0.01)\n"
                  "time.sleep(0.5)\nprint('got',n[0],flush=True)\n")

        def session():
            os.setsid()
            import fcntl
            import termios
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(self.command("--output", self.path("text"), "/usr/bin/python3", "-c", script),
                                   env=self.environment, stdin=slave, stdout=slave, stderr=slave, preexec_fn=session)
        os.close(slave)
        text = b""
        while b"ready" not in text:
            text += os.read(master, 1000)
        os.write(master, b"\x03")
        while b"got" not in text or not text.endswith(b"\n"):
            text += os.read(master, 1000)
        self.assertIn(b"got 1", text)
        self.assertEqual(process.wait(30), 0)
        os.close(master)


class Preload(Run):
    def preload_of(self, existing, *arguments):
        result = self.run_tool(*arguments, "printenv", "LD_PRELOAD",
                               environment={"LD_PRELOAD": existing} if existing is not None else {})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.strip()

    def test_alone(self):
        self.assertEqual(self.preload_of(None), FAKE)
        self.assertEqual(self.preload_of(""), FAKE)

    def test_existing_is_kept(self):
        other = self.compile("libother.so", "int other;", "-shared", "-fPIC")
        self.assertEqual(self.preload_of(other), FAKE + ":" + other)
        self.assertEqual(self.preload_of(other + " " + FAKE), other + " " + FAKE)

    def test_sanitizer_runtime_stays_first(self):
        runtime = self.compile("libasan.so.99", "int other;", "-shared", "-fPIC")
        other = self.compile("libother.so", "int other;", "-shared", "-fPIC")
        self.assertEqual(self.preload_of(runtime), runtime + ":" + FAKE)
        self.assertEqual(self.preload_of(runtime + ":" + other), runtime + ":" + FAKE + ":" + other)

    def test_asan_program_runs(self):
        program = self.compile("asan", "#include <stdlib.h>\nint main(void) { free(malloc(3)); return 7; }",
                               "-fsanitize=address")
        result = self.run_tool(program)
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertNotIn("ASan runtime", result.stderr)
        kept = self.run_tool(program, environment={"ASAN_OPTIONS": "verify_asan_link_order=1"})
        self.assertIn("ASan runtime does not come first", kept.stderr)

    def test_library_that_cannot_load_stops_before_the_start(self):
        missing = self.compile("libmissing.so", "int missing_function(void) { return 1; }", "-shared", "-fPIC")
        library = self.compile("libbroken.so", "int missing_function(void); int f(void) { return missing_function(); }",
                               "-shared", "-fPIC", missing, "-Wl,-soname,libbroken.so")
        os.unlink(missing)
        result = self.run_tool("touch", self.path("started"), environment={"SLIPSTREAM_LIBRARY": library})
        self.assert_one_line(result, 125, "libmissing.so")
        self.assertFalse(os.path.exists(self.path("started")))

    def test_library_that_is_no_library(self):
        result = self.run_tool("true", environment={"SLIPSTREAM_LIBRARY": self.sample})
        self.assert_one_line(result, 125, "cannot be preloaded")

    def test_program_that_misses_a_library_of_its_own_is_its_own_matter(self):
        missing = self.compile("libmissing.so", "int missing_function(void) { return 1; }", "-shared", "-fPIC")
        program = self.compile("needs", "int missing_function(void); int main(void) { return missing_function(); }", missing)
        os.unlink(missing)
        result = self.run_tool(program)
        self.assertEqual(result.returncode, 127)
        self.assertIn("error while loading shared libraries", result.stderr)

    def test_missing_library(self):
        result = self.run_tool("true", environment={"SLIPSTREAM_LIBRARY": "/nonexistent/lib.so"})
        self.assert_one_line(result, 125, "libslipstream.so not found, tried /nonexistent/lib.so")

    def test_own_variable_is_not_passed_on(self):
        result = self.run_tool("printenv", "SLIPSTREAM_LIBRARY")
        self.assertEqual((result.returncode, result.stdout), (1, ""))

    def test_options_become_variables(self):
        table = self.path("table")
        with open(table, "w") as file:
            file.write(calibration_table("idle cuMemFree_v2 device none 12 47000"))
        result = self.run_tool("--mode=off", "--attribute", "--python=off", "--stack=7", "--threshold=3ms",
                               "--calibration=table", "sh", "-c", "env | grep ^SLIPSTREAM_ | grep -v OUT= | sort",
                               cwd=self.folder.name)
        self.assertEqual(result.stdout, "SLIPSTREAM_ATTRIBUTE=on\nSLIPSTREAM_CALIBRATION=%s\nSLIPSTREAM_MODE=off\n"
                                        "SLIPSTREAM_PYTHON=off\nSLIPSTREAM_STACK=7\nSLIPSTREAM_THRESHOLD=3ms\n"
                         % os.path.realpath(table))

    def test_driver_folder_comes_first(self):
        os.mkdir(self.path("driver"))
        result = self.run_tool("--driver", self.path("driver"), "true")
        self.assert_one_line(result, 125, "no libcuda.so.1 in it")
        open(self.path("driver/libcuda.so.1"), "w").close()
        result = self.run_tool("--driver", self.path("driver"), "printenv", "LD_LIBRARY_PATH",
                               environment={"LD_LIBRARY_PATH": "/a:/b"})
        self.assertEqual(result.stdout, os.path.realpath(self.path("driver")) + ":/a:/b\n")

    def test_arguments_pass_unchanged(self):
        result = self.run_tool("--", "printf", "%s|", "--json", "", "a b", "--")
        self.assertEqual(result.stdout, "--json||a b|--|")


class BlindSpots(Run):
    def warning(self, *arguments, text):
        result = self.run_tool("--json", self.path("r.json"), *arguments, environment={"FAKE_RECORD": "/nonexistent"})
        lines = [line for line in result.stderr.splitlines() if line.startswith("slipstream run: warning: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertIn(text, lines[0])
        with open(self.path("r.json")) as file:
            coverage = json.load(file)["coverage"]
        self.assertTrue(coverage["inconclusive"])
        self.assertIn(text, coverage["blind_spots"][0])
        return result

    def test_none_for_an_ordinary_program(self):
        self.assertNotIn("warning", self.run_tool("true").stderr)

    def test_static(self):
        for flag in ("-static", "-static-pie"):
            program = self.compile("static", "int main(void) { return 4; }", flag)
            self.assertEqual(self.warning(program, text="is statically linked").returncode, 4)

    def test_script_with_static_interpreter(self):
        self.compile("interpreter", "int main(void) { return 5; }", "-static")
        script = self.path("script")
        for line in ("#!%s\n" % self.path("interpreter"), "#!/usr/bin/env interpreter\n", "#! /usr/bin/env -S interpreter -x\n"):
            with open(script, "w") as file:
                file.write(line)
            os.chmod(script, 0o755)
            self.environment["PATH"] = self.folder.name + ":" + os.environ["PATH"]
            self.assertEqual(self.warning(script, text="the interpreter of %s, is statically linked" % script).returncode, 5)

    @unittest.skipIf(os.getuid(), "needs root to make a setuid file")
    def test_setuid(self):
        os.chmod(self.folder.name, 0o755)
        for bits, text in ((stat.S_ISUID, "is setuid"), (stat.S_ISGID, "is setgid")):
            program = self.compile("setid", "int main(void) { return 6; }")
            os.chown(program, 65534, 65534)
            os.chmod(program, 0o755 | bits)
            self.assertEqual(self.warning(program, text=text).returncode, 6)

    def test_wrong_class_and_machine(self):
        with open("/bin/true", "rb") as file:
            image = bytearray(file.read())
        for offset, value, text in ((18, 183, "another processor"), (4, 1, "32-bit")):
            changed = bytearray(image)
            changed[offset] = value
            program = self.path("foreign")
            with open(program, "wb") as file:
                file.write(changed)
            os.chmod(program, 0o755)
            result = self.run_tool(program)
            if offset == 18:  # the kernel looks at the machine only
                self.assertEqual(result.returncode, 126)
            self.assertIn(text, result.stderr)
            os.unlink(program)

    def test_musl_is_not_preloaded(self):
        loader = self.path("ld-musl-x86_64.so.1")
        os.symlink("/lib64/ld-linux-x86-64.so.2", loader)
        program = self.compile("musl", "#include <stdlib.h>\nint main(void) { return getenv(\"LD_PRELOAD\") ? 1 : 8; }",
                               "-Wl,--dynamic-linker=" + loader)
        self.assertEqual(self.warning(program, text="is linked to musl").returncode, 8)


class BadInput(Run):
    def test_one_line_and_125(self):
        for arguments, text in ((["--nonsense", "true"], "unknown option --nonsense"), (["-x", "true"], "unknown option -x"),
                                (["--json"], "option --json needs a value"), ([], "no program given"),
                                (["--keep=1", "true"], "option --keep takes no value"),
                                (["--o", "x", "true"], "option --o is ambiguous"),
                                (["--stack=0", "true"], "--stack needs"), (["--stack=65", "true"], "not '65'"),
                                (["--threshold=5x", "true"], "not '5x'"), (["--mode=loud", "true"], "not 'loud'"),
                                (["--python=maybe", "true"], "not 'maybe'"), (["--by=time", "true"], "not time"),
                                (["--limit=-1", "true"], "--limit needs a number"), (["--limit=", "true"], "needs a number"),
                                (["--calibration=/none", "true"], "/none: No such file"),
                                (["--driver=/none", "true"], "--driver /none: No such file"),
                                (["", "true"], "No such file or directory")):
            status = 127 if arguments and not arguments[0] else 125
            self.assert_one_line(self.run_tool(*arguments), status, text)

    def test_bad_calibration_table(self):
        good = calibration_table("idle cuMemFree_v2 device none 12 47000")
        for text in ("", "nonsense\n", good[:-5], good.replace("47000", "47001"), good.replace("calibration 1", "calibration 9")):
            with open(self.path("table"), "w") as file:
                file.write(text)
            self.assert_one_line(self.run_tool("--calibration", self.path("table"), "true"), 125, self.path("table") + ": ")
            self.assert_one_line(self.run_tool("true", environment={"SLIPSTREAM_CALIBRATION": self.path("table")}), 125,
                                 self.path("table") + ": ")

    def test_calibration_that_is_no_regular_file(self):
        os.mkfifo(self.path("fifo"))
        for path in (self.path("fifo"), self.folder.name, "/dev/null"):
            text = path + ": not a regular file"
            self.assert_one_line(self.run_tool("--calibration", path, "true"), 125, text)
            self.assert_one_line(self.run_tool("true", environment={"SLIPSTREAM_CALIBRATION": path}), 125, text)

    def test_provider_that_is_no_library(self):
        os.mkfifo(self.path("fifo"))
        with open(self.path("text"), "w") as file:
            file.write("no library\n" * 20)
        for path, text in ((self.path("fifo"), "not a regular file"), (self.folder.name, "not a regular file"), ("/dev/null", "not a regular file"),
                           (self.path("none"), "No such file or directory"), (self.path("text"), "not a library")):
            self.assert_one_line(self.run_tool("--lttng", path, "echo", "started"), 125, "--lttng: %s: %s" % (path, text))
            self.assert_one_line(self.run_tool("echo", "started", environment={"SLIPSTREAM_LTTNG": path}), 125, "%s: %s" % (path, text))

    def test_output_to_a_fifo_that_nobody_reads(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        for option in ("--json", "--output"):
            self.assert_one_line(self.run_tool(option, fifo, "echo", "started"), 125, "cannot write %s: nobody reads this FIFO" % fifo)
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "1-1.slip"), "wb") as file, open(self.sample, "rb") as sample:
                    file.write(sample.read())
                result = subprocess.run([TOOL, "report", folder, option, fifo], capture_output=True, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (1, "", "slipstream report: cannot write %s: nobody reads this FIFO\n" % fifo))

    def test_output_to_a_fifo_reaches_its_reader(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        os.mkfifo(self.path("go"))
        with open(self.path("got"), "w") as got:
            reader = subprocess.Popen(["cat", fifo], stdout=got)
        writer = os.open(fifo, os.O_WRONLY)  # waits for cat
        process = self.start("--json", fifo, "sh", "-c", "echo up; read go < %s; exit 0" % self.path("go"))
        self.assertEqual(process.stdout.readline(), "up\n")
        os.close(writer)
        time.sleep(0.1)
        self.assertIsNone(reader.poll())  # looking whether it can be written is no end of file
        open(self.path("go"), "w").close()
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(reader.wait(60), 0)
        with open(self.path("got")) as file:
            self.assertEqual(json.load(file)["calls"]["total"], 35)

    def test_output_to_a_fifo_whose_reader_leaves(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        os.mkfifo(self.path("go"))
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        process = self.start("--json", fifo, "sh", "-c", "echo up; read go < %s; exit 0" % self.path("go"))
        self.assertEqual(process.stdout.readline(), "up\n")
        os.close(reader)
        open(self.path("go"), "w").close()
        self.assertEqual(process.wait(60), 125)
        self.assertIn("slipstream run: cannot write %s: Broken pipe\n" % fifo, process.stderr.read())

    def test_control_characters_do_not_reach_the_terminal(self):
        self.assert_one_line(self.run_tool("\x1b[31mred\n"), 127, "\\x1b[31mred\\x0a: No such file")

    def test_variables(self):
        self.assert_one_line(self.run_tool("true", environment={"SLIPSTREAM_TRESHOLD": "1us"}), 125,
                             "unknown variable SLIPSTREAM_TRESHOLD")
        self.assert_one_line(self.run_tool("true", environment={"SLIPSTREAM_STACK": "many"}), 125, "SLIPSTREAM_STACK needs")
        self.assertEqual(self.run_tool("--stack=3", "true", environment={"SLIPSTREAM_STACK": "many"}).returncode, 0)

    def test_variables_that_other_commands_do_not_know(self):
        """They go on without them, and say so in one line."""
        unknown = {**self.environment, "SLIPSTREAM_TRESHOLD": "1us"}
        known = {**self.environment, "SLIPSTREAM_THRESHOLD": "1us", "SLIPSTREAM_FIX": "on"}
        for arguments in (["report", self.sample], ["doctor"], ["calibrate", "--list"]):
            plain = subprocess.run([TOOL, *arguments], env=known, capture_output=True, text=True, timeout=60)
            told = subprocess.run([TOOL, *arguments], env=unknown, capture_output=True, text=True, timeout=60)
            self.assertNotIn("unknown variable", plain.stderr)
            self.assertEqual(told.returncode, plain.returncode, arguments)
            self.assertEqual(told.stderr, "slipstream %s: unknown variable SLIPSTREAM_TRESHOLD in the environment, ignored\n" % arguments[0]
                             + plain.stderr)
        traced = subprocess.run([TOOL, "trace", "true"], env=unknown, capture_output=True, text=True, timeout=60)
        self.assertEqual(traced.returncode, 125)
        self.assertEqual(traced.stderr.count("\n"), 1, traced.stderr)

    def test_help_takes_no_word(self):
        for words in (["help", "nonsense"], ["--help", "run"]):
            result = subprocess.run([TOOL, *words], env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (2, "", "slipstream: unexpected argument %s (try COMMAND --help)\n" % words[1]))

    def test_help_goes_to_stdout(self):
        result = self.run_tool("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for option in ("--json=FILE", "--output=FILE", "--driver=DIR", "--keep", "--mode=", "--threshold=TIME", "--stack=N"):
            self.assertIn(option, result.stdout)


if __name__ == "__main__":
    unittest.main()
