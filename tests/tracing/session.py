# SPDX-License-Identifier: MIT
"""Private LTTng session daemons for tests: own LTTNG_HOME, nothing left running.

    with session.Daemon(user_library) as daemon:
        trace = daemon.session("name")          # made and started: slipstream:*, contexts vpid and vtid
        subprocess.run(program, env={**environment, **daemon.environment})
        trace.stop()
        events = trace.events()                 # list of Event, in order of time

`user_library` (tests/tracing/user.c as a library) is needed as root only. Skip: what to print and leave with 77.
"""
import collections
import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

TOOLS = ("lttng", "lttng-sessiond", "babeltrace2")

Event = collections.namedtuple("Event", "time name vpid vtid fields")

HEAD = re.compile(r"\[(\d+)\.(\d{9})\] \(\S+\) (?:\S+ )?(?:slipstream:)(\w+): ")
CONTEXT = re.compile(r"\{ vpid = (\d+), vtid = (\d+) \}")
FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|0x[0-9A-F]+|-?\d+)')
LOST = re.compile(r"[Tt]racer discarded (\d+) event")


PR_SET_PDEATHSIG = 1


def end_with_parent(number=signal.SIGTERM):
    """In a child: a test that is killed must not leave its daemon behind, nor a program that hangs."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))


class Skip(Exception):
    """Cannot be tried here; the text says why."""


def need_tools():
    for tool in TOOLS:
        if not shutil.which(tool):
            raise Skip(f"no {tool} here")


def value(text):
    if not text.startswith('"'):
        return int(text, 0)
    if "\\" not in text:
        return text[1:-1]
    return text[1:-1].encode().decode("unicode_escape").encode("latin-1", "replace").decode(errors="replace")


def parse(text):
    """What babeltrace2 wrote with --clock-seconds."""
    events = []
    for line in text.splitlines():
        head = HEAD.match(line)
        if not head:
            continue
        context = CONTEXT.search(line, head.end())
        fields = dict((name, value(found)) for name, found in FIELD.findall(line[context.end() if context else head.end():]))
        vpid, vtid = (int(context[1]), int(context[2])) if context else (0, 0)
        events.append(Event(int(head[1]) * 10**9 + int(head[2]), head[3], vpid, vtid, fields))
    return events


class Session:
    """A session of a daemon, recording from the moment it is made unless start=False."""

    def __init__(self, daemon, name, events=("slipstream:*",), contexts=("vpid", "vtid"), channel=(), start=True, snapshot=False,
                 output=None):
        self.daemon = daemon
        self.name = name
        self.folder = os.path.join(daemon.folder, "trace-" + name)
        target = ["--snapshot"] if snapshot else ["--output=" + self.folder]
        daemon.lttng("create", name, *(output or target))
        daemon.lttng("enable-channel", "-u", "-s", name, *channel, "channel")
        for context in contexts:
            daemon.lttng("add-context", "-u", "-s", name, "-c", "channel", "-t", context)
        for event in events:
            daemon.lttng("enable-event", "-u", "-s", name, "-c", "channel", event)
        if start:
            self.start()

    def start(self):
        self.daemon.lttng("start", self.name)

    def stop(self):
        self.daemon.lttng("stop", self.name)

    def destroy(self):
        self.daemon.lttng("destroy", self.name)

    def read(self, *arguments):
        """babeltrace2's text and its messages."""
        done = subprocess.run(["babeltrace2", "--clock-seconds", *arguments, self.folder], capture_output=True, text=True, errors="replace",
                              timeout=120, check=False)
        if done.returncode:
            raise AssertionError("babeltrace2: " + done.stderr)
        return done.stdout, done.stderr

    def events(self, only=None):
        """All of them, or those of one name."""
        text = self.read()[0]
        if only:
            text = "\n".join(line for line in text.split("\n") if f" slipstream:{only}: " in line)
        return parse(text)

    def lost(self):
        """Events that the tracer discarded, as the reader of the trace is told."""
        return sum(int(count) for count in LOST.findall(self.read()[1]))


class Daemon:
    """A session daemon and, in `environment`, what a program needs to find it."""

    def __init__(self, user_library=None):
        need_tools()
        self.folder = tempfile.mkdtemp(prefix="slipstream-lttng-")  # short: it holds the paths of sockets
        self.environment = {"LTTNG_HOME": self.folder}
        self.own = {**os.environ, **self.environment}
        for name in ("LD_PRELOAD", "LTTNG_UST_REGISTER_TIMEOUT"):
            self.own.pop(name, None)
        if os.geteuid() == 0:
            if not user_library:
                raise Skip("root has one place for its session daemon: no library for another one given")
            self.own["LD_PRELOAD"] = user_library
        self.process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        with open(os.path.join(self.folder, "daemon.log"), "w") as log:
            self.process = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=self.own, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, preexec_fn=end_with_parent)
        deadline = time.monotonic() + 30
        while subprocess.run(["lttng", "--no-sessiond", "list"], env=self.own, capture_output=True, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(os.path.join(self.folder, "daemon.log")) as log:
                    raise AssertionError("lttng-sessiond does not start: " + log.read()[-2000:])
            time.sleep(0.02)

    def lttng(self, *arguments):
        done = subprocess.run(["lttng", "--no-sessiond", *arguments], env=self.own, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise AssertionError(f"lttng {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def session(self, name="test", **options):
        return Session(self, name, **options)

    def consumers(self):
        """Process ids of this daemon's consumers."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    name, fields = file.read().rsplit(")", 1)
                if "lttng-consumerd" in name.split("(", 1)[1] and int(fields.split()[1]) in self.family():
                    found.append(int(pid))
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def family(self):
        """The daemon and its forked helpers, as parents of consumers."""
        return {self.process.pid} | {int(pid) for pid in self.children(self.process.pid)}

    @staticmethod
    def children(pid):
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def close(self):
        """Ends the daemon and its consumers, whatever state they are in, and removes the folder."""
        consumers = self.consumers()
        for pid in consumers:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        for pid in consumers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)
