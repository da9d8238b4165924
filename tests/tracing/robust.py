# SPDX-License-Identifier: MIT
"""slipstream trace when things go wrong, or are large: the program's output and status stay as they are without it, losses are told with
their number where it can be known, nothing is left running, nothing hangs."""

import collections
import os
import pty
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
from robust_support import (TOOL, Traced, blocks, children, main, name_of, processes_with, read_trace, wait_until, waits)


class Wrong(Traced):
    """Something happens to the daemons in the middle of the run."""

    STEPS = ("waits:10", "touch:{ready}", "await:{go}", "waits:2000", "copies:5")

    def interrupted(self, harm, *options):
        """Runs STEPS, with harm(process) between the two `waits`; what the tracer said."""
        steps = [step.format(ready=self.path("ready"), go=self.path("go")) for step in self.STEPS]
        plain = self.untraced("waits:10", "waits:2000", "copies:5")
        process = self.start("--timeout", "3", *options, steps=steps)
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        harm(process)
        open(self.path("go"), "w").close()
        output, errors = self.finish(process, plain[1])
        self.assertEqual(output, plain[0])
        self.assertGreaterEqual(self.counted(), 2010)  # the program itself lost nothing
        self.assert_nothing_left()
        return errors

    def harm(self, name, number):
        def act(process):
            found = self.daemons(name)
            self.assertTrue(found, "no %s" % name)
            for pid in found:
                os.kill(pid, number)
        return act

    def test_consumer_stopped(self):
        errors = self.interrupted(self.harm("lttng-consumerd", signal.SIGSTOP), "--buffers", "4Kx2")
        self.assertEqual(errors.count("the trace is cut short, its loss is not known: cannot stop the recording session: the LTTng "
                                      "daemons did not answer within 3 s\n"), 1, errors)

    def test_consumer_killed(self):
        errors = self.interrupted(self.harm("lttng-consumerd", signal.SIGKILL))
        self.assertTrue("its loss is not known" in errors or "how much is not known" in errors, errors)

    def test_daemon_killed(self):
        errors = self.interrupted(self.harm("lttng-sessiond", signal.SIGKILL))
        self.assertEqual(errors.count("the trace is cut short, its loss is not known: "), 1, errors)

    def test_daemon_stopped(self):
        errors = self.interrupted(self.harm("lttng-sessiond", signal.SIGSTOP))
        self.assertIn("did not answer within 3 s", errors)
        # Nothing of LTTng's libraries, which print what they also return.
        self.assertEqual([line for line in errors.splitlines() if not line.startswith("slipstream trace: ")], [], errors)

    def test_keeper_killed(self):
        def act(process):
            found = [pid for pid in processes_with("TMPDIR", self.base) if name_of(pid) == "slip-keeper"]
            self.assertEqual(len(found), 1)
            os.kill(found[0], signal.SIGKILL)
            wait_until(lambda: not self.daemons(), what="the end of the daemons")
        self.assertIn("its loss is not known", self.without_folder(act))

    def without_folder(self, act):
        """A killed keeper cannot remove the private folder."""
        check, self.assert_nothing_left = self.assert_nothing_left, lambda: None
        try:
            return self.interrupted(act)
        finally:
            self.assert_nothing_left = check
            wait_until(lambda: not processes_with("TMPDIR", self.base), what="the end of everything")


class DiskFull(Traced):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("disk"))
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.path("disk")], capture_output=True, text=True)
        if done.returncode:
            self.skipTest("no small file system can be mounted here: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", self.path("disk")])

    def test_disk_full(self):
        self.folder = self.path("disk/trace")
        plain = self.untraced("waits:20000")
        result = self.trace("--out", self.path("records"), steps=["waits:20000"], status=plain[1])
        self.assertEqual(result.stdout, plain[0])
        self.assertEqual(self.report()["calls"]["by_function"]["cuStreamSynchronize"], 20000)
        self.assertIn("how much is not known", result.stderr)
        self.assertIn("No space left on device", result.stderr)


    def test_disk_full_for_record_files_too(self):
        """Neither trace nor record files have room: the program does not notice, and the report does not say that all is well."""
        plain = self.untraced("waits:2000")
        for room in (0, 124 << 10):  # none at all; for the beginning of either
            with self.subTest(room=room):
                self.folder = self.path(f"disk/trace-{room}")
                with open(self.path("disk/ballast"), "wb") as file:
                    file.write(bytes((1 << 20) - room))
                result = self.trace(steps=["waits:2000"], status=plain[1])
                self.assertEqual(result.stdout, plain[0])
                self.assertTrue(self.report()["coverage"]["inconclusive"])
                self.assertIn("No space left on device", result.stderr)
                self.assertNotIn("the trace is empty", result.stderr)  # which would blame the registration
                shutil.rmtree(self.folder)
                os.remove(self.path("disk/ballast"))


class Small(Traced):
    def test_buffers_of_4_kib(self):
        plain = self.untraced("waits:5000")
        result = self.trace("--buffers", "4Kx2", steps=["waits:5000"], status=plain[1])
        self.assertEqual(result.stdout, plain[0])
        lost, trace = self.lost(result.stderr), read_trace(self.folder)
        self.assertGreater(lost, 0)  # the definitions alone are more than that
        self.assertEqual(trace.discarded, lost)
        self.assertLessEqual(self.counted() - len(waits(trace)), lost)

    def test_lost_and_recorded_are_all(self):
        """A program that emits a known number of events from several threads: not one is unaccounted for."""
        for threads, count in ((1, 100000), (8, 20000)):
            self.folder = self.path("trace-%d" % threads)
            result = self.trace("--buffers", "4Kx2", program=os.environ["ROBUST_EMITTER"], steps=[str(threads), str(count)], status=5)
            self.assertEqual(result.stdout, "%d\n" % (threads * count))
            lost, trace = self.lost(result.stderr), read_trace(self.folder)
            self.assertGreater(lost, 0)
            self.assertEqual(len(trace.events) + lost, threads * count)


class Many(Traced):
    def test_200_forked_children(self):
        plain = self.untraced("fork:200", "waits:3")
        result = self.trace(steps=["fork:200", "waits:3"], status=plain[1])
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(plain[0].splitlines()))
        trace = self.assert_complete(result.stderr)
        processes = collections.Counter(event.vpid for event in waits(trace))
        self.assertEqual(set(processes), {process["pid"] for process in self.report()["processes"]})
        self.assertEqual(len(processes), 201)
        self.assertGreaterEqual(min(processes.values()), 3)

    def test_64_threads(self):
        plain = self.untraced("threads:64")
        result = self.trace(steps=["threads:64"], status=plain[1])
        self.assertEqual(result.stdout, plain[0])
        trace = self.assert_complete(result.stderr)
        threads = {event.vtid for event in waits(trace)}
        self.assertGreaterEqual(len(threads), 64)


class Ends(Traced):
    """The tracer is interrupted or killed."""

    def started(self, *options, then=("sleep:30000",)):
        process = self.start(*options, steps=("waits:25", "touch:" + self.path("ready"), *then), start_new_session=True)
        wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
        return process

    def test_interrupt_in_a_terminal(self):
        """Ctrl-C reaches the whole job: the program ends by it, its trace is whole."""
        pid, terminal = pty.fork()
        if not pid:
            os.execve(TOOL, self.command(steps=("waits:25", "touch:" + self.path("ready"), "sleep:30000")), self.environment)
        try:
            wait_until(lambda: os.path.exists(self.path("ready")), what="the program")
            os.write(terminal, b"\x03")
            text = b""
            try:
                while chunk := os.read(terminal, 4096):
                    text += chunk
            except OSError:
                pass  # the other side is closed
            _, status = os.waitpid(pid, 0)
        finally:
            os.close(terminal)
        self.assertTrue(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT, (status, text))
        self.assert_nothing_left()
        trace = self.assert_complete(text.decode())
        self.assertGreaterEqual(len(waits(trace)), 25)

    def test_term_of_the_tracer_alone(self):
        process = self.started()
        process.terminate()
        _, errors = self.finish(process, -signal.SIGTERM)
        self.assert_nothing_left()
        self.assertGreaterEqual(len(waits(self.assert_complete(errors))), 25)

    def test_kill_of_the_tracer(self):
        """No daemon stays; the program, which nobody asked to end, goes on to its end."""
        process = self.started(then=("await:" + self.path("go"), "waits:10", "touch:" + self.path("done")))
        self.assertTrue(self.daemons())
        process.kill()
        wait_until(lambda: not self.daemons(), what="the end of the daemons")
        wait_until(lambda: [name_of(pid) for pid in processes_with("TMPDIR", self.base)] == ["tracing-program"], what="the keeper's end")
        self.assertEqual([name for name in os.listdir(self.base) if name.startswith("slip-")], [])
        open(self.path("go"), "w").close()
        wait_until(lambda: os.path.exists(self.path("done")), what="the program's end")
        self.assert_nothing_left()
        self.assertGreaterEqual(len(waits(read_trace(self.folder))), 25)

    def test_kill_with_a_stopped_consumer(self):
        process = self.started("--timeout", "2", then=("await:" + self.path("go"),))
        for pid in self.daemons("lttng-consumerd"):
            os.kill(pid, signal.SIGSTOP)
        process.kill()
        wait_until(lambda: not self.daemons(), what="the end of the daemons")
        open(self.path("go"), "w").close()
        self.assert_nothing_left()

    def test_kill_while_it_finishes(self):
        """The second Ctrl-C: who will not wait for the daemons need not."""
        process = self.started("--timeout", "20", "--buffers", "4Kx2", then=("await:" + self.path("go"), "waits:500", "touch:" + self.path("done")))
        for pid in self.daemons("lttng-consumerd"):
            os.kill(pid, signal.SIGSTOP)
        open(self.path("go"), "w").close()
        wait_until(lambda: os.path.exists(self.path("done")), what="the program's end")
        # Until the tracer has seen that end, signals are the program's, and one that comes too late for it is dropped.
        # (While it waits for a signal the kernel shows that one as not held back: the mask alone does not tell.)
        wait_until(lambda: not children(process.pid, "tracing-program") and not blocks(process.pid, signal.SIGTERM),
                   what="the tracer to see the program's end")
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.terminate()  # the first was dropped: that end was just being seen
        self.finish(process, -signal.SIGTERM, 10)
        self.assert_nothing_left()

    def test_a_program_killed_by_a_signal(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            self.folder = self.path("trace-%d" % number)
            process = self.start(steps=("waits:25", "touch:" + self.path("ready%d" % number), "sleep:30000"))
            wait_until(lambda: os.path.exists(self.path("ready%d" % number)), what="the program")
            (pid,) = [pid for pid in processes_with("LTTNG_HOME", self.base) if name_of(pid) == "tracing-program"]
            os.kill(pid, number)
            _, errors = self.finish(process, -number)
            self.assert_nothing_left()
            self.assertGreaterEqual(len(waits(self.assert_complete(errors))), 25)


if __name__ == "__main__":
    main()
