# SPDX-License-Identifier: MIT
"""For tests of `slipstream trace`: runs it on the simulated driver, reads what it left, and knows what it has running.

Everything of a test lies in one folder, which is also its TMPDIR: the private daemons are the processes that have it in LTTNG_HOME.
"""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import session

TOOL = os.environ["TESTED_TOOL"]
SIMCUDA = os.environ["SIMCUDA_FOLDER"]
PROGRAM = os.environ["TRACING_PROGRAM"]
USER = os.environ["TRACING_USER"]
LOST = re.compile(r"slipstream trace: (?:at least )?(\d+) events lost: the buffers were full")
DISCARDED = re.compile(r"Tracer (?:may have )?discarded (\d+) event")

# The bulk of a trace, of which no test here asks.
BULK = re.compile(r"slipstream:def_(?:string|function|rule|frame|module|coverage):")

Trace = collections.namedtuple("Trace", "events discarded text")


def read_trace(folder):
    """Events (session.Event) but for BULK, and what babeltrace2 says was discarded; of a trace cut short, as far as it goes."""
    done = subprocess.run(["babeltrace2", "--clock-seconds", folder], capture_output=True, text=True, errors="replace", timeout=60)
    text = "\n".join(line for line in done.stdout.splitlines() if not BULK.search(line, 0, 120))
    return Trace(session.parse(text), sum(map(int, DISCARDED.findall(done.stderr))), done.stderr)


def waits(trace):
    return [event for event in trace.events if event.name == "wait"]


def processes_with(variable, text):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                variables = file.read().split(b"\0")
            with open("/proc/%s/stat" % pid) as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if state != "Z" and any(entry.startswith(variable.encode() + b"=" + text.encode()) for entry in variables):
            found.append(int(pid))
    return found


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def blocks(pid, number):
    """Whether the main thread of pid holds back the signal."""
    with open("/proc/%d/status" % pid) as file:
        mask = next(int(line.split()[1], 16) for line in file if line.startswith("SigBlk:"))
    return bool(mask >> (number - 1) & 1)


def children(pid, name):
    """Children of that name, dead ones that nobody has waited for included."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [child for child in file.read().split() if name_of(int(child)) == name]


def wait_until(condition, seconds=30, what="it"):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("%s did not come within %d s" % (what, seconds))
        time.sleep(0.02)


class Traced(unittest.TestCase):
    def setUp(self):
        try:
            session.need_tools()
        except session.Skip as reason:
            self.skipTest(str(reason))
        self.base = tempfile.mkdtemp(prefix="slip-")
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        self.folder = self.path("trace")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "LTTNG_")) and name not in ("LD_PRELOAD", "ASAN_OPTIONS", "RANK")}
        self.environment.update(TMPDIR=self.base)

    def path(self, name):
        return os.path.join(self.base, name)

    def command(self, *options, program=PROGRAM, steps=()):
        return [TOOL, "trace", "--driver", SIMCUDA, "--json", self.path("report.json"), "--output", self.path("report.txt"), "--folder",
                self.folder, *options, "--", program, *steps]

    def trace(self, *options, steps=("waits:20",), status=0, environment=None, program=PROGRAM, **more):
        result = subprocess.run(self.command(*options, program=program, steps=steps), env={**self.environment, **(environment or {})},
                                capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **more)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assert_nothing_left()
        return result

    def untraced(self, *steps):
        """Output and status without any of us."""
        result = subprocess.run([PROGRAM, *steps], env={**self.environment, "LD_LIBRARY_PATH": SIMCUDA}, capture_output=True, text=True,
                                timeout=60)
        return result.stdout, result.returncode

    def start(self, *options, steps, environment=None, **more):
        process = subprocess.Popen(self.command(*options, steps=steps), env={**self.environment, **(environment or {})},
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        for pid in processes_with("TMPDIR", self.base):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def finish(self, process, status, seconds=60):
        output, errors = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, status, errors)
        return output, errors

    def daemons(self, name=""):
        """Private daemons that run, consumers included."""
        return [pid for pid in processes_with("LTTNG_HOME", self.base) if name_of(pid).startswith(name or "lttng-")]

    def assert_nothing_left(self, seconds=15):
        """No process of ours, and no private folder."""
        wait_until(lambda: not processes_with("TMPDIR", self.base), seconds, "the end of %s" % [
            (pid, name_of(pid)) for pid in processes_with("TMPDIR", self.base)])
        self.assertEqual([name for name in os.listdir(self.base) if name.startswith("slip-")], [])

    def report(self):
        with open(self.path("report.json")) as file:
            return json.load(file)

    def counted(self):
        """Calls that waited, as the processes themselves counted them."""
        return sum(sync["count"] for sync in self.report()["syncs"])

    def lost(self, errors):
        found = LOST.findall(errors)
        self.assertLessEqual(len(found), 1, errors)
        return int(found[0]) if found else 0

    def assert_complete(self, errors):
        """Every wait that the processes counted is in the trace."""
        trace = read_trace(self.folder)
        self.assertEqual(self.lost(errors), 0, errors)
        self.assertNotIn("not known", errors)
        self.assertNotIn("is empty", errors)
        self.assertEqual(trace.discarded, 0, trace.text)
        self.assertEqual(len(waits(trace)), self.counted())
        return trace


def main():
    """unittest.main(), with Meson's status for tests of which all were skipped."""
    result = unittest.main(module="__main__", exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    if not result.testsRun and not result.skipped:
        sys.exit("no test of that name")
    sys.exit(77 if result.testsRun == len(result.skipped) else 0)
