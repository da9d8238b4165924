# SPDX-License-Identifier: MIT
"""slipstream trace and run --trace: what they leave, what the program finds, every way to record, and one line for everything missing."""

import grp
import json
import os
import pwd
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import session
from robust_support import PROGRAM, SIMCUDA, TOOL, USER, Traced, main, read_trace, wait_until, waits

LAST, ASKED = 3, 4  # reasons of a dump
WANTED = 104  # where record_header.dump_wanted lies

LIVE = re.compile(r"slipstream trace: live at (net://127\.0\.0\.1:\d+/host/\S+)")


def own_libc():
    """A library that is no provider."""
    with open("/proc/self/maps") as file:
        return re.search(r"/\S+/libc\.so\.6", file.read())[0]


class Command(Traced):
    def test_trace_and_records(self):
        plain = self.untraced("waits:50", "copies:3")
        result = self.trace(steps=["waits:50", "copies:3"], status=plain[1])
        self.assertEqual(result.stdout, plain[0])
        self.assertEqual(result.stderr, "slipstream trace: the trace is in %s\n" % self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), ["records", "ust"])
        trace = self.assert_complete(result.stderr)
        self.assertEqual({event.vpid for event in trace.events}, {self.report()["processes"][0]["pid"]})

    def test_exit_status_is_the_programs(self):
        for status in (0, 1, 42, 125, 255):
            self.folder = self.path("trace%d" % status)
            self.trace(program="/bin/sh", steps=["-c", "exit %d" % status], status=status)

    def test_run_with_trace(self):
        command = self.command(steps=["waits:20"])
        command[1] = "run"
        command[command.index("--folder")] = "--trace"
        result = subprocess.run([*command[:2], "--keep", *command[2:]], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (0, self.untraced("waits:20")[0]))
        self.assertEqual(result.stderr, "slipstream run: the trace is in %s\n" % self.folder)
        self.assert_complete(result.stderr)
        self.assert_nothing_left()

    def test_level(self):
        for level, more in (("waits", False), ("full", True)):
            self.folder = self.path(level)
            self.trace("--level", level, steps=["waits:5"])
            self.assertEqual(any(event.name == "submit" for event in read_trace(self.folder).events), more, level)

    def test_folder_of_its_own_name(self):
        command = self.command(steps=["waits:5"])
        at = command.index("--folder")
        result = subprocess.run(command[:at] + command[at + 2:], env=self.environment, cwd=self.base, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        (self.folder,) = [self.path(name) for name in os.listdir(self.base) if re.fullmatch(r"slipstream-trace-\d{8}-\d{6}", name)]
        self.assert_complete(result.stderr)

    def test_rank_is_the_innermost_launchers(self):
        """Of torchrun under srun: the workers of one machine share SLURM_PROCID."""
        self.trace(steps=["waits:5"], environment={"RANK": "3", "SLURM_PROCID": "0"})
        self.assertEqual(os.listdir(self.folder), ["rank3"])
        ranks = {event.fields["rank"] for event in read_trace(os.path.join(self.folder, "rank3")).events if event.name == "def_process"}
        self.assertEqual(ranks, {3})

    def test_what_the_program_finds(self):
        """Besides the settings of the library: LTTNG_HOME, by which LTTng 2.13 finds its daemon, how long to wait for it, and nothing else."""
        kept = {"LTTNG_UST_DEBUG", "PATH", "TMPDIR"}
        result = self.trace(program="/usr/bin/env", steps=[])
        found = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
        added = set(found) - set(self.environment) - kept
        self.assertLessEqual(added, {"LTTNG_HOME", "LTTNG_UST_APP_PATH", "LTTNG_UST_REGISTER_TIMEOUT", "SLIPSTREAM_OUT", "SLIPSTREAM_LTTNG",
                                     "LD_PRELOAD", "_", "LD_LIBRARY_PATH"})
        self.assertEqual(found["SLIPSTREAM_OUT"], self.path("trace/records"))
        self.assertEqual(os.path.basename(found["SLIPSTREAM_LTTNG"]), "libslipstream-lttng.so")

    def test_processes_wait_for_the_daemon(self):
        """It takes them one after the other: LTTng's own three seconds are over before the last of many, which would be missing in silence."""
        name = "LTTNG_UST_REGISTER_TIMEOUT"
        self.environment.pop(name, None)
        for number, (options, environment, wanted) in enumerate((((), {}, "30000"), (("--timeout", "7"), {}, "7000"), ((), {name: "123"}, "123"))):
            self.folder = self.path(f"trace-{number}")
            result = self.trace(*options, program="/usr/bin/env", steps=[], environment=environment)
            self.assertIn(f"{name}={wanted}", result.stdout.splitlines())

    def test_an_empty_trace_is_told(self):
        result = self.trace(environment={"SLIPSTREAM_LTTNG": own_libc()})
        self.assertEqual(waits(read_trace(self.folder)), [])
        self.assertGreaterEqual(self.counted(), 20)
        self.assertIn("slipstream trace: the trace is empty, though the program called the driver", result.stderr)

    def test_descriptors_do_not_leak(self):
        result = self.trace(program="/usr/bin/python3", steps=["-c", "import os;print(sorted(map(int,os.listdir('/proc/self/fd'))))"])
        self.assertEqual(result.stdout, "[0, 1, 2, 3]\n")  # 3: the folder itself

    def test_closed_descriptors_stay_closed(self):
        script = "import os,sys\nn=[]\nfor i in range(3):\n try: os.fstat(i)\n except OSError: n.append(i)\nopen(sys.argv[1],'w').write(str(n))"
        out = self.path("closed")
        result = subprocess.run(["sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-", *self.command(
            program="/usr/bin/python3", steps=["-c", script, out])], env=self.environment, timeout=60)
        self.assertEqual(result.returncode, 0)
        with open(out) as file:
            self.assertEqual(file.read(), "[0, 1, 2]")
        self.assert_nothing_left()

    def test_as_an_ordinary_user(self):
        if os.geteuid():
            self.skipTest("is one already")
        account = pwd.getpwnam("nobody")
        os.chown(self.base, account.pw_uid, account.pw_gid)
        # A member of the group `tracing` would be sent to root's daemon.
        groups = [group for group in session_groups()]
        result = self.trace(steps=["waits:20"], user=account.pw_uid, group=account.pw_gid, extra_groups=groups)
        self.assert_complete(result.stderr)

    def test_two_at_a_time(self):
        commands = []
        for name in ("one", "two", "three"):
            self.folder = self.path(name)
            commands.append(self.start(steps=["waits:30"]))
        for name, process in zip(("one", "two", "three"), commands):
            self.finish(process, 0)
            self.assertGreaterEqual(len(waits(read_trace(self.path(name)))), 30)
        self.assert_nothing_left()


def session_groups():
    try:
        return [grp.getgrnam("tracing").gr_gid]
    except KeyError:
        return []


def is_connected(port):
    with open("/proc/net/tcp") as file:
        return any(fields[1].endswith(":%04X" % port) and fields[3] == "01" for fields in map(str.split, file))


class OneLine(Traced):
    """What is missing or wrong: one line, 125, and the program is not started."""

    def refused(self, text, *options, environment=None, status=125, steps=()):
        marker = self.path("started")
        result = self.trace(*options, program="/usr/bin/touch", steps=[*steps, marker], status=status, environment=environment)
        self.assertEqual((result.stdout, result.stderr.count("\n")), ("", 1), result.stderr)
        self.assertTrue(result.stderr.startswith("slipstream trace: "), result.stderr)
        self.assertIn(text, result.stderr)
        self.assertFalse(os.path.exists(marker))

    def tools_without(self, *names):
        """A PATH where all tools are but those."""
        folder = self.path("bin-without-" + "-".join(names))
        os.mkdir(folder)
        for name in {"lttng-sessiond", "lttng-relayd", "lttng"} - set(names):
            os.symlink(shutil.which(name), os.path.join(folder, name))
        return {"PATH": folder}

    def test_no_session_daemon(self):
        self.refused("lttng-sessiond not found (Debian package lttng-tools)", environment=self.tools_without("lttng-sessiond"))
        self.assertFalse(os.path.exists(self.folder))

    def test_no_relay_daemon(self):
        self.refused("lttng-relayd not found (Debian package lttng-tools)", "--live", environment=self.tools_without("lttng-relayd"))
        self.assertFalse(os.path.exists(self.folder))

    def test_no_consumer_daemon(self):
        self.refused("lttng-consumerd not found: /nonexistent: No such file or directory (Debian package lttng-tools)",
                     environment={"LTTNG_CONSUMERD64_BIN": "/nonexistent"})

    def test_no_provider(self):
        self.refused("/nonexistent/provider.so: No such file", environment={"SLIPSTREAM_LTTNG": "/nonexistent/provider.so"})
        with open(own_libc(), "rb") as whole, open(self.path("provider.so"), "wb") as file:
            file.write(whole.read(4096))  # a library, as far as its head tells
        self.refused("%s does not load: " % self.path("provider.so"), environment={"SLIPSTREAM_LTTNG": self.path("provider.so")})
        self.assertFalse(os.path.exists(self.folder))

    def test_session_daemon_that_does_not_start(self):
        environment = self.tools_without("lttng-sessiond")
        path = os.path.join(environment["PATH"], "lttng-sessiond")
        for script, text in (("exit 1", "lttng-sessiond ended at its start"), ("exec /bin/sleep 60", "lttng-sessiond does not answer")):
            with open(path, "w") as file:
                file.write("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n%s\n" % script)
            os.chmod(path, 0o755)
            self.refused(text, "--timeout", "1", environment=environment)

    def test_build_without_it(self):
        """The command alone, as a build without liblttng-ctl installs it."""
        alone = self.path("slipstream")
        shutil.copy(TOOL, alone)
        for arguments, who in ((["trace", "--", "true"], "trace"), (["run", "--trace", self.folder, "--", "true"], "run")):
            result = subprocess.run([alone, *arguments], env=self.environment, capture_output=True, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (125, "", 1), result.stderr)
            self.assertRegex(result.stderr, "^slipstream %s: .*slipstream-trace is not part of this build \\(Debian package liblttng-ctl-dev" % who)

    def test_versions_that_do_not_fit(self):
        """LTTng 2.15 listens where 2.13 does not call: a trace would be empty without a word."""
        environment = self.tools_without("lttng-sessiond")
        path = other_daemon(environment["PATH"])
        self.refused("%s 2.15.0 listens on socket 11, programs with " % path, environment=environment)

    def test_folder(self):
        os.mkdir(self.folder)
        open(os.path.join(self.folder, "something"), "w").close()
        self.refused("folder %s is not empty" % self.folder)
        self.folder = "/proc/none"
        self.refused("cannot make folder /proc/none")

    def test_program(self):
        result = self.trace(program="/no/such/program", steps=[], status=127)
        self.assertEqual(result.stderr, "slipstream trace: /no/such/program: No such file or directory\n")
        self.assertFalse(os.path.exists(self.folder))

    def test_options(self):
        for options, text in ((["--buffers", "512K"], "--buffers needs SIZExCOUNT"), (["--buffers", "1000x4"], "--buffers needs"),
                              (["--buffers", "4Kx3"], "--buffers needs"), (["--buffers", "4Kx1"], "--buffers needs"),
                              (["--buffers", "2Kx4"], "--buffers needs"), (["--buffers", "-4Kx4"], "--buffers needs"),
                              (["--buffers", "99999999999Gx4"], "--buffers needs"), (["--buffers", "1Gx1024"], "in /dev/shm, which has"),
                              (["--snapshot", "0"], "--snapshot needs a size"), (["--snapshot", "5x"], "--snapshot needs a size"),
                              (["--snapshot", "5us"], "--snapshot needs a size as in 64M or a time as in 5s"),
                              (["--snapshot", "0s"], "--snapshot needs a size"), (["--dump", "."], "--dump and a program exclude each other"),
                              (["--blocked-over", "5ms"], "--blocked-over needs --snapshot"),
                              (["--snapshot", "1M", "--blocked-over", "5m"], "--blocked-over needs a time"),
                              (["--snapshot", "1M", "--blocked-over", "0"], "--blocked-over needs a time"),
                              (["--snapshot", "1M", "--live"], "exclude each other"), (["--live", "--stream-to", "x"], "exclude each other"),
                              (["--session", "x", "--live"], "exclude each other"), (["--stream-to", ":1"], "--stream-to needs HOST"),
                              (["--stream-to", "a b"], "--stream-to needs HOST"), (["--timeout", "0"], "--timeout needs seconds"),
                              (["--timeout", "1h"], "--timeout needs seconds"), (["--level", "all"], "--level needs"),
                              (["--nonsense"], "unknown option --nonsense")):
            self.refused(text, *options)
            self.assertFalse(os.path.exists(self.folder), options)

    def test_nobody_to_stream_to(self):
        result = self.trace("--stream-to", "127.0.0.1:1:2", program="/bin/true", steps=[], status=125)
        self.assertIn("cannot make the recording session: ", result.stderr.splitlines()[-1])

    def test_no_such_session(self):
        with session.Daemon(USER) as daemon:
            self.refused("cannot join session nonsense: ", "--session", "nonsense", environment=joining(daemon))


def other_daemon(folder):
    """What looks like the session daemon of a later version."""
    path = os.path.join(folder, "lttng-sessiond")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n# lttng-ust-sock-11\necho 2.15.0 - a name\n")
    os.chmod(path, 0o755)
    return path


class Doctor(Traced):
    def findings(self, **environment):
        done = subprocess.run([TOOL, "doctor", "--json"], env={**self.environment, **environment}, capture_output=True, text=True, timeout=60)
        return {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}

    def check(self, name, status, text, **environment):
        finding = self.findings(**environment)[name]
        self.assertEqual(finding["status"], status, finding)
        self.assertIn(text, finding["text"])

    def test_all_there(self):
        self.check("lttng", "ok", "libslipstream-lttng.so loads, with ")
        self.check("sessiond", "ok", "/lttng-sessiond, 2.")
        self.check("trace", "ok", "slipstream-trace")

    def test_missing(self):
        folder = self.path("bin")
        os.mkdir(folder)
        self.check("sessiond", "note", "(Debian package lttng-tools)", PATH=folder)
        self.check("babeltrace2", "note", "(Debian package babeltrace2)", PATH=folder)
        self.check("lttng", "missing", "/none does not load", SLIPSTREAM_LTTNG="/none")
        other_daemon(folder)
        self.check("sessiond", "warning", "listens on socket 11", PATH=folder)
        self.check("relayd", "note", "no live traces", PATH=folder)

    def test_provider_that_does_not_load(self):
        """What is wrong with the daemons is told as well."""
        self.check("sessiond", "ok", "/lttng-sessiond, 2.", SLIPSTREAM_LTTNG="/none")
        self.check("sessiond", "warning", "lttng-consumerd not found: /nonexistent", SLIPSTREAM_LTTNG="/none", LTTNG_CONSUMERD64_BIN="/nonexistent")
        os.mkdir(self.path("bin"))
        other_daemon(self.path("bin"))
        with open(self.path("provider.so"), "w") as file:
            file.write("no library")
        for provider in ("/none", self.path("provider.so")):
            found = self.findings(SLIPSTREAM_LTTNG=provider, PATH=self.path("bin"))
            self.assertEqual(found["lttng"]["status"], "missing", provider)
            self.assertEqual(found["sessiond"]["status"], "warning", provider)
            self.assertRegex(found["sessiond"]["text"], r"listens on socket 11, programs with /\S+/liblttng-ust\.so\.\d+ call socket \d+: ")

    def test_variables(self):
        self.check("environment", "warning", "LTTNG_UST_REGISTER_TIMEOUT=0", LTTNG_UST_REGISTER_TIMEOUT="0")
        self.check("environment", "note", "LTTNG_HOME=/somewhere", LTTNG_HOME="/somewhere")


def joining(daemon):
    """Root finds its daemon where session.py put it by the same means."""
    return {**daemon.environment, **({"LD_PRELOAD": USER} if os.geteuid() == 0 else {})}


def is_tracer(pid):
    try:
        with open("/proc/%d/status" % pid) as file:
            status = dict(line.split(":", 1) for line in file)
    except FileNotFoundError:
        return True
    return int(status["SigBlk"], 16) >> signal.SIGUSR1 - 1 & 1 == 1


def held(folder):
    """Since when a snapshot has all events, and when it was taken, as the packets of its streams say it; ns as of the events."""
    (channels,) = [path for path, _, names in os.walk(folder) if "metadata" in names]
    with open(os.path.join(channels, "metadata"), "rb") as file:
        offset = int(re.search(rb"offset = (\d+);", file.read())[1])
    since = end = 0
    for name in os.listdir(channels):
        if not re.fullmatch(r"slipstream_\d+", name):
            continue
        with open(os.path.join(channels, name), "rb") as file:
            data = file.read()
        at = 0
        while at < len(data):
            magic, _, _, _, begin, last, _, bits, number = struct.unpack_from("<I16sIQQQQQQ", data, at)
            assert magic == 0xC1FC1FC1, name
            since, end = max(since, begin if not at and number else 0), max(end, last)
            at += bits // 8
    return since + offset, end + offset


class Ways(Traced):
    """Snapshot, live, relay daemon, a session of the user's."""

    def snapshots(self):
        return sorted(os.path.join(self.folder, name) for name in os.listdir(self.folder) if name.startswith("snapshot-"))

    def test_snapshot_at_the_end(self):
        result = self.trace("--snapshot", "8M", steps=["waits:30"])
        self.assertEqual(result.stderr, "slipstream trace: 1 snapshot is in %s; each can be read by itself\n" % self.folder)
        (snapshot,) = self.snapshots()
        trace = read_trace(snapshot)
        self.assertEqual(len(waits(trace)), self.counted())
        self.assert_readable(trace)

    def assert_readable(self, trace):
        """Whatever a wait names is defined in the same trace."""
        defined = {event.fields["id"] for event in trace.events if event.name == "def_wait"}
        self.assertTrue(defined)
        self.assertLessEqual({event.fields["wait"] for event in waits(trace)}, defined)

    def test_snapshot_on_sigusr1(self):
        process = self.start("--snapshot", "8M", steps=["waits:30", "touch:" + self.path("ready"), "await:" + self.path("go"), "waits:7"])
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: self.snapshots(), what="the snapshot")
        first = self.snapshots()[0]
        wait_until(lambda: len(waits(read_trace(first))) >= 30, what="its waits")
        open(self.path("go"), "w").close()
        self.finish(process, 0)
        self.assertEqual(len(self.snapshots()), 2)
        self.assert_readable(read_trace(first))
        self.assertEqual(len(waits(read_trace(self.snapshots()[1]))), self.counted())
        self.assert_nothing_left()

    def test_snapshot_keeps_the_last(self):
        """What is overwritten is the oldest; the dumps of once a second keep the rest readable."""
        result = self.trace("--snapshot", "256K", steps=["waits:4000"] * 3)
        (snapshot,) = self.snapshots()
        trace = read_trace(snapshot)
        self.assertNotIn("lost", result.stderr)
        self.assertTrue(0 < len(waits(trace)) < 12000, len(waits(trace)))
        self.assertEqual(trace.events[-1].name, "process_end")

    def read_report(self, folder):
        """JSON and text of the report on a trace."""
        done = subprocess.run([TOOL, "report", folder, "--json", self.path("read.json")], capture_output=True, text=True, timeout=60)
        if "is not part of this build" in done.stderr:
            self.skipTest("this build has no analysis")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("read.json")) as file:
            return json.load(file), done.stdout

    def assert_only_a_part(self, report, text):
        """No doubt but that it is a part of the run: what was overwritten, and what came later."""
        for reason in report["coverage"]["reasons"]:
            self.assertRegex(reason, r"\A(?:the trace holds the last [\d.]+ [mun]?s of process \d+(?: and \d+ others?)?: what came before was overwritten|"
                             r"process \d+(?: and \d+ others?)? still ran when the snapshot was saved: later calls are not in it)\Z", text)

    def assert_whole(self, folder, fewer_than):
        """A part of the run, which the report knows all about."""
        trace = read_trace(folder)
        self.assertTrue(0 < len(waits(trace)) < fewer_than, len(waits(trace)))
        self.assert_readable(trace)
        report, text = self.read_report(folder)
        self.assert_only_a_part(report, text)
        self.assertTrue(report["coverage"]["inconclusive"])  # what was overwritten is not in it
        self.assertEqual(sum(sync["count"] for sync in report["syncs"]), len(waits(trace)))
        self.assertIn("program.c", text)

    def reasons(self, folder):
        return [event.fields["reason"] for event in read_trace(folder).events if event.name == "dump_begin"]

    def test_snapshot_at_level_full(self):
        """What is overwritten within milliseconds: the definitions are there, as of now, and the report knows all about what is left."""
        for attempt in range(5):
            self.folder = self.path("trace-%d" % attempt)
            ready = self.path("ready-%d" % attempt)
            process = self.start("--snapshot", "64K", "--level", "full", steps=["several:6000", "touch:" + ready, "several:10000"])
            wait_until(lambda path=ready: os.path.exists(path), what="the program")
            process.send_signal(signal.SIGUSR1)
            _, errors = self.finish(process, 0)
            if "did not repeat" not in errors:  # for want of a processor
                break
        self.assertEqual(errors, "slipstream trace: 2 snapshots are in %s; each can be read by itself\n" % self.folder)
        self.assertEqual([self.reasons(folder)[-1] for folder in self.snapshots()], [ASKED, LAST])
        for folder in self.snapshots():
            self.assert_whole(folder, 6000)

    def test_snapshot_of_an_idle_process(self):
        """Nobody waits for it longer than a moment; a line names it."""
        process = self.start("--snapshot", "8M", steps=["waits:30", "touch:" + self.path("ready"), "await:" + self.path("go"), "waits:7"])
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        began = time.monotonic()
        process.send_signal(signal.SIGUSR1)
        wait_until(self.snapshots, what="the snapshot")
        took = time.monotonic() - began
        open(self.path("go"), "w").close()
        _, errors = self.finish(process, 0)
        (pid,) = [name.split("-")[0] for name in os.listdir(os.path.join(self.folder, "records"))]
        self.assertEqual(errors.splitlines()[:-1], [
            "slipstream trace: process %s did not repeat its definitions within 200 ms (idle, in a long call, or just at it): the snapshot has what was said "
            "before" % pid])
        self.assertTrue(0.2 <= took < 5, took)
        self.assertGreaterEqual(len(waits(read_trace(self.snapshots()[0]))), 30)

    def test_snapshot_asked_for_at_any_time(self):
        """SIGUSR1 before the program runs, when it has ended, and between: nothing ends by it, the program neither."""
        process = self.start("--snapshot", "256K", steps=["waits:20", "signals"])
        while not is_tracer(process.pid):  # before, it is the interpreter of this test, or just begins
            time.sleep(0.001)
        count = 0
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            count += 1
            time.sleep(0.002)
        output, errors = self.finish(process, 0)
        self.assertGreater(count, 50)
        self.assertEqual(output, "0" * 31 + "\ndone\n")  # the program has no signal blocked
        self.assertTrue(self.snapshots())
        self.assertRegex(errors, r"snapshots? (?:is|are) in \S+; each can be read by itself\n.*had ended: none was saved then\n$")

    def test_snapshot_asked_for_before_the_program_calls_the_driver(self):
        """It is kept until there is something to save; where nothing ever is, a line says so."""
        process = self.start("--snapshot", "1M", "--blocked-over", "10s", steps=[
            "await:" + self.path("go"), "waits:30", "await:" + self.path("end"), "waits:7"])
        wait_until(lambda: os.path.isdir(self.folder), what="the tracer")
        for _ in range(20):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
        self.assertEqual(self.snapshots(), [])
        open(self.path("go"), "w").close()
        wait_until(self.snapshots, what="the snapshot")
        wait_until(lambda: len(waits(read_trace(self.snapshots()[0]))) >= 30, what="its waits")
        open(self.path("end"), "w").close()
        self.finish(process, 0)
        self.assertEqual(len(self.snapshots()), 1)
        self.folder = self.path("none")
        process = self.start("--snapshot", "1M", "--blocked-over", "10s", steps=["sleep:500"])
        wait_until(lambda: is_tracer(process.pid), what="the tracer")
        process.send_signal(signal.SIGUSR1)
        _, errors = self.finish(process, 0)
        self.assertEqual(errors, "slipstream trace: a snapshot was asked for, and not saved: no process was in the trace\n"
                                 "slipstream trace: no snapshot was saved: no call blocked longer than asked for\n")

    def test_snapshot_signal_is_the_programs_without_snapshots(self):
        script = "import os, signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))\nopen(sys.argv[1], 'w').close()\nsignal.pause()"
        process = subprocess.Popen(self.command(program="/usr/bin/python3", steps=["-c", script, self.path("ready")]), env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        process.send_signal(signal.SIGUSR1)
        self.finish(process, 7)

    def one_that_is_whole_or_named(self, size, *options, program, steps):
        """The last snapshot of a run: either the report doubts nothing of what is left, or a line names who is not whole. Which of both."""
        result = self.trace("--snapshot", size, *options, program=program, steps=steps)
        last = self.snapshots()[-1]
        report, text = self.read_report(last)
        told = re.search(r"slipstream trace: (snapshot-\S+) may lack definitions of process(?:es)? [\d, ]+(?: and \d+ more)?: they were overwritten "
                         r"before it was saved \(--definitions=(\d+M) would have held them\)\n", result.stderr)
        if told:
            self.assertEqual(told[1], os.path.basename(last))
            self.assertTrue(result.stderr.endswith("slipstream trace: 1 snapshot is in %s; it is not whole\n" % self.folder), result.stderr)
            return told[2], report, text
        self.assertEqual(result.stderr, "slipstream trace: 1 snapshot is in %s; each can be read by itself\n" % self.folder)
        self.assert_only_a_part(report, text)
        return None, report, text

    def check_that_a_size_helps(self, size, *options, program, steps):
        wanted, report, _ = self.one_that_is_whole_or_named(size, "--definitions", "32K", *options, program=program, steps=steps)
        self.assertIsNotNone(wanted)
        shutil.rmtree(self.folder)
        wanted, _, _ = self.one_that_is_whole_or_named(size, "--definitions", wanted, *options, program=program, steps=steps)
        self.assertIsNone(wanted)
        return report

    def test_snapshot_of_many_processes(self):
        """More definitions than the buffers hold: who lacks them is named, and the size that is told holds them."""
        script = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "$0" waits:200 & done; wait'
        report = self.check_that_a_size_helps("1M", program="/bin/sh", steps=["-c", script, PROGRAM])
        self.assertTrue(report["coverage"]["inconclusive"])

    def test_snapshot_of_one_large_process(self):
        """Its definitions alone are more than the buffers hold."""
        report = self.check_that_a_size_helps("64K", "--level", "full", program=PROGRAM, steps=["threads:64", "several:50"])
        self.assertIn("unknown", {sync["function"] for sync in report["syncs"]})

    def test_snapshot_that_is_not_saved(self):
        """The consumer daemon is gone: the folder that the session daemon made is no snapshot."""
        process = self.start("--snapshot", "1M", steps=["waits:30", "touch:" + self.path("ready"), "await:" + self.path("go"), "waits:7"])
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        for pid in self.daemons("lttng-consumerd"):
            os.kill(pid, signal.SIGKILL)
        open(self.path("go"), "w").close()
        _, errors = self.finish(process, 0)
        self.assertEqual(errors.splitlines()[-1], "slipstream trace: no snapshot was saved")
        self.assertIn("slipstream trace: cannot save a snapshot: ", errors)
        self.assertNotIn("read by itself", errors)

    def test_snapshot_of_nothing(self):
        for options in ((), ("--blocked-over", "5ms")):
            result = self.trace("--snapshot", "1M", *options, program="/bin/true", steps=[])
            self.assertRegex(result.stderr, r"^(slipstream trace: snapshot-1-\S+ was not saved: no process was in the trace\n)?"
                                            r"slipstream trace: no snapshot was saved(: no call blocked longer than asked for)?\n$")
            shutil.rmtree(self.folder, ignore_errors=True)  # an empty one goes by itself

    def test_snapshot_has_what_an_idle_process_said(self):
        """However long another is busy beside it: nobody repeats unasked what would overwrite it."""
        script = '"$0" waits:5 await:"$2" & "$0" await:"$1" waits:5 sleep:1200 waits:5 sleep:1200 waits:5 sleep:1200 waits:5 touch:"$3" await:"$2" & wait'
        process = subprocess.Popen(self.command("--snapshot", "64M", "--definitions", "1M", program="/bin/sh", steps=[
            "-c", script, PROGRAM, self.path("go"), self.path("end"), self.path("ready")]), env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        time.sleep(0.5)
        open(self.path("go"), "w").close()
        wait_until(lambda: os.path.exists(self.path("ready")), what="the busy process")
        process.send_signal(signal.SIGUSR1)
        wait_until(self.snapshots, what="the snapshot")
        first = self.snapshots()[0]
        wait_until(lambda: waits(read_trace(first)), what="its waits")
        open(self.path("end"), "w").close()
        self.finish(process, 0)
        trace = read_trace(first)
        dumps = [event.fields["reason"] for event in trace.events if event.name == "dump_begin"]
        self.assertEqual(dumps, [1, 1], "each process has dumped once")
        self.assertEqual(len({event.vpid for event in waits(trace)}), 2)
        self.assert_readable(trace)

    def test_snapshot_by_somebody_who_asks_all_the_time(self):
        """The word that asks can be written by others: they get ten dumps a second at most."""
        began = time.monotonic()
        process = self.start("--snapshot", "8M", steps=["touch:" + self.path("ready"), "waits:20000"])
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        wait_until(lambda: os.listdir(os.path.join(self.folder, "records")), what="the record file")
        (name,) = os.listdir(os.path.join(self.folder, "records"))
        with open(os.path.join(self.folder, "records", name), "r+b", buffering=0) as file:
            number = 0
            while process.poll() is None:
                number += 1
                os.pwrite(file.fileno(), struct.pack("<Q", number), WANTED)
                time.sleep(0.0002)
        took = time.monotonic() - began
        self.finish(process, 0)
        (last,) = [event.fields["dump"] for event in read_trace(self.snapshots()[-1]).events if event.name == "dump_begin"][-1:]
        self.assertGreater(number, 100)
        self.assertGreater(last, 3)  # they are made
        self.assertLess(last, took / 0.1 + 4)

    def test_snapshot_when_a_call_blocks_long(self):
        result = self.trace("--snapshot", "8M", "--blocked-over", "10s", steps=["waits:30"])
        self.assertEqual(result.stderr, "slipstream trace: no snapshot was saved: no call blocked longer than asked for\n")
        shutil.rmtree(self.folder)
        self.trace("--snapshot", "8M", "--blocked-over", "1us", steps=["waits:30", "sleep:500"])
        self.assertTrue(1 <= len(self.snapshots()) <= 2, self.snapshots())
        self.assertGreater(len(waits(read_trace(self.snapshots()[0]))), 0)

    def test_snapshots_of_a_call_that_blocks_long_every_second(self):
        """Each is judged by what the process had said when it was saved, not by what it said since."""
        result = self.trace("--snapshot", "64K", "--definitions", "256K", "--blocked-over", "50ms", steps=["long:60", "sleep:1100"] * 4)
        self.assertGreaterEqual(len(self.snapshots()), 2)
        self.assertEqual(result.stderr, "slipstream trace: %d snapshots are in %s; each can be read by itself\n" % (
            len(self.snapshots()), self.folder))

    def test_snapshot_of_a_long_wait_at_level_full(self):
        """The daemon saves it at once; the process has repeated its definitions before it told of the wait."""
        self.trace("--snapshot", "64K", "--level", "full", "--blocked-over", "80ms", steps=["several:6000", "long:100", "sleep:500"])
        self.assertTrue(self.snapshots())
        for folder in self.snapshots():
            self.assertEqual(self.reasons(folder)[-1], ASKED)
            self.assert_whole(folder, 6000)

    def test_snapshot_of_a_time(self):
        """Buffers of bytes hold a time that nobody knows before: where it is less than asked for, that is told."""
        result = self.trace("--snapshot", "10s", steps=["waits:30"])
        self.assertEqual(result.stderr, "slipstream trace: 1 snapshot is in %s; each can be read by itself\n" % self.folder)
        self.assertEqual(len(waits(read_trace(self.snapshots()[0]))), self.counted())
        shutil.rmtree(self.folder)
        # Its buffers are made for level waits.
        result = self.trace("--snapshot", "200ms", program="/usr/bin/env", steps=["SLIPSTREAM_LEVEL=full", PROGRAM, "row:20000"])
        trace = read_trace(self.snapshots()[0])
        submits = [event for event in trace.events if event.name == "submit"]
        self.assertLess(len(submits), 60000)  # overwritten
        line = result.stderr.splitlines()[0]
        told = re.fullmatch(r"slipstream trace: (snapshot-1-\S+-0) holds the last (\S+) (ms|us) of the 200 ms asked for: .*", line)
        since, end = held(self.snapshots()[0])
        if told is None:  # a slow machine
            self.assertGreater(end - since, 199_000_000, line)
            return
        self.assertEqual(told[1], os.path.basename(self.snapshots()[0]))
        self.assertAlmostEqual(float(told[2]) * {"ms": 1e6, "us": 1e3}[told[3]] / (end - since), 1, delta=0.01)  # three digits
        numbers = {}
        for event in submits:
            if event.time >= since:
                numbers.setdefault(event.fields["stream"], []).append(event.fields["number"])
        self.assertTrue(numbers)
        for stream, found in numbers.items():
            self.assertEqual(found, list(range(found[0], found[0] + len(found))), stream)

    def dump(self, folder, *more):
        done = subprocess.run([TOOL, "trace", "--dump", folder, *more], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_session_of_the_user_and_files_that_are_none(self):
        """They do not answer, and nobody waits for them; of two files of one process the later is its own."""
        now = time.monotonic_ns()
        for start, make in ((now - 2, lambda path: open(path, "wb").close()), (now - 1, os.mkfifo), (now, lambda path: os.symlink("/dev/zero", path))):
            make(self.path("%d-%d.slip" % (os.getpid(), start)))
        open(self.path("%d-%d.slip" % (os.getpid(), now + 10**12)), "w").close()  # of another boot
        began = time.monotonic()
        self.assertEqual(self.dump(self.base), (1, "slipstream trace: process %d did not repeat its definitions within 200 ms (idle, in a long "
                                                   "call, or just at it)\n" % os.getpid()))
        self.assertLess(time.monotonic() - began, 5)

    def test_session_of_the_user_is_asked_for_a_dump(self):
        """`slipstream trace --dump` before `lttng snapshot record`."""
        with session.Daemon(USER) as daemon:
            own = daemon.session("flight", events=["other:*"], start=False, snapshot=True)
            own.start()
            process = self.start("--session", "flight", environment=joining(daemon), steps=[
                "waits:30", "touch:" + self.path("ready"), "await:" + self.path("go"), "waits:20000", "touch:" + self.path("idle"),
                "await:" + self.path("end")])
            wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
            code, line = self.dump(self.folder)
            self.assertEqual(code, 1, line)
            self.assertRegex(line, r"^slipstream trace: process \d+ did not repeat its definitions within 200 ms "
                             r"\(idle, in a long call, or just at it\)\n$")
            open(self.path("go"), "w").close()
            wait_until(lambda: self.dump(os.path.join(self.folder, "records")) == (0, ""), what="the dump")
            daemon.lttng("snapshot", "record", "--session=flight", "file://" + self.path("saved"))
            process.send_signal(signal.SIGTERM)
            self.finish(process, -signal.SIGTERM)
            self.assertIn(ASKED, self.reasons(self.path("saved")))
            self.assertEqual(self.dump(self.folder), (1, "slipstream trace: no process with a record file in %s/records runs\n" % self.folder))
            self.assertEqual(self.dump(self.path("none")), (125, "slipstream trace: %s: No such file or directory\n" % self.path("none")))

    def read_live(self):
        with open(self.path("read")) as file:
            return file.read().count("slipstream:wait:")

    def read_meanwhile(self, act):
        """A live reader, and act(reader) between the first waits and the last; what the tracer said."""
        process = self.start("--live", steps=["await:" + self.path("first"), "waits:30", "await:" + self.path("go"), "waits:5",
                                              "touch:" + self.path("done")])
        address = LIVE.match(process.stderr.readline())
        with open(self.path("read"), "w") as out:
            reader = subprocess.Popen(["babeltrace2", "--component=live:source.ctf.lttng-live", '--params=inputs=["%s"]' % address[1],
                                       '--params=session-not-found-action="end"', "--component=text:sink.text.pretty"],
                                      stdout=out, stderr=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r":(\d+)/", address[1])[1])
            wait_until(lambda: is_connected(port), what="the live reader's connection")
            open(self.path("first"), "w").close()
            wait_until(lambda: self.read_live() >= 30, what="the live reader")
            self.assertIsNone(process.poll())
            act(reader)
            _, errors = self.finish(process, 0)
            _, complaints = reader.communicate(timeout=30)
            self.assertEqual(reader.returncode, 0, complaints)
        finally:
            reader.kill()
            reader.wait()
            reader.stderr.close()
        self.assertEqual(self.read_live(), self.counted())
        self.assert_complete(errors)
        self.assert_nothing_left()

    def go_on(self):
        open(self.path("go"), "w").close()
        wait_until(lambda: os.path.exists(self.path("done")), what="the program")

    def test_live(self):
        """A reader that is there from the start has every wait before the program has ended, and ends with it."""
        self.read_meanwhile(lambda reader: self.go_on())

    def test_live_reader_that_is_behind(self):
        """The relay daemon does not end before the reader has had the rest."""
        def act(reader):
            reader.send_signal(signal.SIGSTOP)
            self.go_on()
            time.sleep(2)
            reader.send_signal(signal.SIGCONT)
        self.read_meanwhile(act)

    def test_live_reader_that_stays(self):
        """One that would wait for another session does not keep the tracer, and is no error of the trace."""
        process = self.start("--live", steps=["await:" + self.path("go"), "waits:5"])
        address = LIVE.match(process.stderr.readline())[1]
        reader = subprocess.Popen(["babeltrace2", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: is_connected(int(re.search(r":(\d+)/", address)[1])), what="the live reader's connection")
            open(self.path("go"), "w").close()
            _, errors = self.finish(process, 0, 40)
        finally:
            reader.kill()
            reader.wait()
        self.assertEqual(errors, "slipstream trace: the trace is in %s\n" % self.folder)
        self.assert_complete(errors)

    def test_live_report(self):
        """slipstream report at the address counts what the processes counted."""
        process = self.start("--live", steps=["await:" + self.path("first"), "waits:30", "sleep:1500"])
        address = LIVE.match(process.stderr.readline())[1]
        reader = subprocess.Popen([TOOL, "report", address, "--json", self.path("live.json"), "--output", "/dev/null"], stderr=subprocess.PIPE,
                                  text=True)
        try:
            wait_until(lambda: is_connected(int(re.search(r":(\d+)/", address)[1])) or reader.poll() is not None, what="the report's connection")
            open(self.path("first"), "w").close()
            self.finish(process, 0)
            _, complaints = reader.communicate(timeout=30)
        finally:
            reader.kill()
            reader.wait()
        if "is not part of this build" in complaints:
            self.skipTest("this build has no analysis")
        self.assertEqual(reader.returncode, 0, complaints)
        with open(self.path("live.json")) as file:
            self.assertEqual(sum(sync["count"] for sync in json.load(file)["syncs"]), self.counted())

    def test_ranks_through_a_relay_daemon(self):
        """Four processes as a launcher starts them, each with a tracer of its own, into one folder."""
        script = 'for rank in 0 1 2 3; do RANK=$rank "$@" --folder "$0" --json "$0-$rank.json" -- %s waits:1$rank & done; wait' % PROGRAM
        result = self.trace("--relayd", program="/bin/sh", steps=["-c", script, self.path("each"), TOOL, "trace", "--driver", SIMCUDA, "--output",
                                                                  "/dev/null"])
        self.assertEqual(result.stderr.count("the trace is with net://127.0.0.1:"), 4, result.stderr)
        self.assertTrue(all(line.startswith("slipstream trace: the trace is ") for line in result.stderr.splitlines()), result.stderr)
        trace = read_trace(self.folder)
        ranks = {event.vpid: event.fields["rank"] for event in trace.events if event.name == "def_process"}
        self.assertEqual(sorted(ranks.values()), [0, 1, 2, 3])
        for pid, rank in ranks.items():
            with open(self.path("each-%d.json" % rank)) as file:
                report = json.load(file)
            counted = sum(sync["count"] for sync in report["syncs"])
            self.assertGreaterEqual(counted, 10 + rank)
            self.assertEqual(sum(event.vpid == pid for event in waits(trace)), counted, rank)
            self.assertEqual(len(os.listdir(self.path("each/rank%d/records" % rank))), 1)

    def test_session_of_the_user(self):
        for started in (False, True):
            with self.subTest(started=started), session.Daemon(USER) as daemon:
                self.folder = self.path("trace-%s" % started)
                own = daemon.session("mine", events=["other:*"], start=started)
                environment = joining(daemon)
                result = subprocess.run(self.command("--session", "mine", steps=["waits:20"]), env={**self.environment, **environment},
                                        capture_output=True, text=True, timeout=60)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("the trace is in your session mine", result.stderr)
                listing = daemon.lttng("list", "mine")
                self.assertIn("[active]" if started else "[inactive]", listing)  # nothing of the user's was stopped or destroyed
                self.assertIn("other:*", listing)
                own.stop() if started else None
                found = waits(own.daemon and read_trace(own.folder)) if started else []
                self.assertEqual(len(found), self.counted() if started else 0)
                own.destroy()

    def test_session_of_the_user_that_keeps_snapshots(self):
        with session.Daemon(USER) as daemon:
            own = daemon.session("flight", events=["other:*"], start=False, snapshot=True, output=["--snapshot"])
            own.start()
            result = subprocess.run(self.command("--session", "flight", steps=["waits:20"]), env={**self.environment, **joining(daemon)},
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            daemon.lttng("snapshot", "record", "--session=flight", "file://" + self.path("saved"))
            self.assertEqual(len(waits(read_trace(self.path("saved")))), self.counted())


if __name__ == "__main__":
    main()
