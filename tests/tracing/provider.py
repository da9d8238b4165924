#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the provider in real sessions: what arrives in the trace against what stands in the record file and in simcuda's journal.

    provider.py --shim FILE --provider FILE --program FILE --user FILE --simcuda DIR TEST

Exit status 77: skipped, with the reason.
"""
import argparse
import collections
import glob
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import session  # noqa: E402
from traces import SET, Records, Trace, compare, equal  # noqa: E402

TESTS = {}
COPIES = "copies:3"
HELPERS = {"cuCtxGetId", "cuCtxGetDevice", "cuCtxGetFlags", "cuDriverGetVersion"}  # the library calls these, too


def test(name):
    def add(function):
        assert name not in TESTS, name
        TESTS[name] = function
        return function
    return add


class Place:
    """One test's folder, and how to run the program."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.out = os.path.join(folder, "out")
        self.journal = os.path.join(folder, "journal")
        os.mkdir(self.out)
        self.runtimes = []
        text = subprocess.run(["objdump", "-p", arguments.shim], capture_output=True, text=True, check=True).stdout
        if "libasan" in text:
            path = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
            self.runtimes = [os.path.realpath(path)]

    def daemon(self):
        return session.Daemon(self.arguments.user)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, daemon=None, provider=True, preload=(), **settings):
        values = {key: value for key, value in os.environ.items() if not key.startswith(("SLIPSTREAM_", "LTTNG_"))}
        values["LD_PRELOAD"] = " ".join([*self.runtimes, self.arguments.shim, *preload])
        values["LD_LIBRARY_PATH"] = self.arguments.simcuda
        values["SLIPSTREAM_OUT"] = self.out
        values["SIMCUDA_JOURNAL"] = self.journal
        if provider:
            values["SLIPSTREAM_LTTNG"] = provider if isinstance(provider, str) else self.arguments.provider
        values["LTTNG_UST_REGISTER_TIMEOUT"] = "20000"  # a busy machine
        values["LTTNG_HOME"] = self.folder
        values.update(daemon.environment if daemon else {})
        values.update({key: str(value) for key, value in settings.items()})
        return values

    def start(self, *steps, **options):
        return subprocess.Popen([self.arguments.program, *steps], env=self.environment(**options), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, preexec_fn=lambda: session.end_with_parent(signal.SIGKILL))

    def finish(self, process, status=0, told=""):
        try:
            stdout, stderr = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError("the program hangs: " + repr(process.communicate())) from None
        equal((process.returncode, stderr), (status, told), "status and stderr")
        return stdout

    def run(self, *steps, status=0, told="", **options):
        return self.finish(self.start(*steps, **options), status, told)

    def expected(self, *steps):
        """What the program prints without us."""
        values = self.environment(provider=False)
        for name in ("LD_PRELOAD", "SIMCUDA_JOURNAL", "SLIPSTREAM_OUT"):
            del values[name]
        return subprocess.run([self.arguments.program, *steps], env=values, capture_output=True, text=True, check=True, timeout=100).stdout

    def await_file(self, name, process):
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path(name)):
            assert process.poll() is None and time.monotonic() < deadline, f"{name} does not come"
            time.sleep(0.005)

    def touch(self, name):
        with open(self.path(name), "w"):
            pass

    def records(self):
        """By process id."""
        return {int(os.path.basename(path).split("-")[0]): Records(path) for path in glob.glob(os.path.join(self.out, "*.slip"))}

    def record(self):
        found = list(self.records().values())
        equal(len(found), 1, "record files")
        return found[0]

    def calls(self):
        """The journal's calls by function."""
        with open(self.journal) as file:
            return collections.Counter(re.findall(r"^call \S+ (\w+)", file.read(), re.M))


# What arrives --------------------------------------------------------------------------------------------------------------------


@test("events-arrive")
def _(place):
    """A provider that is there and records nothing would look like a program that never waits."""
    with place.daemon() as daemon:
        recorded = daemon.session()
        place.run("waits:3", daemon=daemon)
        recorded.stop()
        trace = Trace(recorded.events(), next(iter(place.records())))
    equal(len(trace.waits_in("cuStreamSynchronize")), 3, "waits")
    trace.check_references()
    equal(len(trace.named("process_end")), 1, "ends")
    equal(trace.events[-1].name, "process_end", "last event")


def counts_equal(place, level):
    steps = ("waits:20", "several:10", COPIES, "ordered:5", "row:1000", "threads:4", "streams:20", "row:100")
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--subbuf-size=1M", "--num-subbuf=8"))
        equal(place.run(*steps, daemon=daemon, SLIPSTREAM_LEVEL=level), place.expected(*steps), "output")
        recorded.stop()
        equal(recorded.lost(), 0, "lost")
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    trace.check_references()
    equal(trace.check_dumps()[0], 1, "first dump")
    equal(trace.check_dumps()[-1], 3, "last dump")
    compare(trace, record)
    calls = place.calls()
    coverage = {trace.function(fields["function"]): fields["calls"]
                for fields in trace.definitions["def_coverage"].values()}
    for name in set(calls) - HELPERS:
        equal(coverage.get(name, 0), calls[name], f"calls of {name} in the journal")
    for name in ("cuStreamSynchronize", "cuCtxSynchronize"):
        equal(len(trace.waits_in(name)), calls[name], f"waits of {name}")
    assert any(number & SET for number in (event.fields["candidates"] for event in trace.named("wait"))), "no set"
    return trace, calls


@test("counts-equal")
def _(place):
    trace, _ = counts_equal(place, "waits")
    for name in ("submit", "record", "stream_wait", "join", "completed"):
        equal(trace.named(name), [], name)


@test("counts-equal-full")
def _(place):
    trace, calls = counts_equal(place, "full")
    by_function = collections.Counter(trace.function(event.fields["function"]) for event in trace.named("submit"))
    for name in ("cuLaunchKernel", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuStreamWaitEvent"):
        equal(by_function[name], calls[name], f"submissions of {name}")
    # Threads that submit to one stream at once may be recorded the other way round; no number is missing or given twice.
    numbers, last = collections.defaultdict(list), collections.Counter()
    for event in trace.named("submit"):
        stream, number = event.fields["stream"], event.fields["number"]
        numbers[stream].append(number)
        assert number > last[stream, event.vtid], f"numbers of thread {event.vtid} on stream {stream}: {number} after {last[stream, event.vtid]}"
        last[stream, event.vtid] = number
    for stream, given in numbers.items():
        equal(sorted(given), list(range(1, len(given) + 1)), f"numbers on stream {stream}")
    equal(len(trace.named("record")), calls["cuEventRecord"], "records")


@test("level-full")
def _(place):
    """One pass of `ordered`: every edge of it, in order."""
    with place.daemon() as daemon:
        recorded = daemon.session()
        place.run("init", "ordered:2", daemon=daemon, SLIPSTREAM_LEVEL="full")
        recorded.stop()
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    kinds = {number: fields["kind"] for number, fields in trace.definitions["def_stream"].items()}
    legacy, = (number for number, kind in kinds.items() if kind == 1)
    blocking, = (number for number, kind in kinds.items() if kind == 3)
    other, = (number for number, kind in kinds.items() if kind == 4)
    story = [(event.name, event.fields) for event in trace.events if not event.name.startswith(("def_", "dump_", "process_"))]
    wanted = []
    for turn in (0, 1):
        first, second = turn + 1, 2 * turn + 1  # the wait of the other stream is an operation of it
        wanted += [("submit", blocking, first), *([("join", blocking, first, legacy, turn)] if turn else []),
                   ("record", blocking, first), ("stream_wait", other, second - 1, blocking, first),
                   ("submit", other, second), ("submit", other, second + 1), ("submit", legacy, first),
                   ("join", legacy, first, blocking, first), ("wait", legacy), ("completed", legacy, first), ("completed", blocking, first),
                   ("wait", other), ("completed", other, second + 1)]
    told = []
    for name, fields in story:
        entry = (name, fields["stream"])
        if name in ("submit", "record", "completed"):
            entry += (fields["number"],)
        elif name in ("stream_wait", "join"):
            entry += (fields["number"], fields["of_stream"], fields["of_number"])
        elif trace.function(trace.definitions["def_wait"][fields["wait"]]["function"]) != "cuStreamSynchronize":
            continue  # the first launch, and a join that the host does not wait for
        if name != "completed" or entry not in told:  # told again where it is no news
            told.append(entry)
    equal(told, wanted, "the story")
    assert all(fields["call_ns"] > 0 for name, fields in story if name == "submit"), "call_ns"


# Sessions ------------------------------------------------------------------------------------------------------------------------


@test("late-session")
def _(place):
    """Started when the program has run for a while: all definitions are there, and all that happens from then on."""
    with place.daemon() as daemon:
        process = place.start("waits:5", COPIES, "touch:" + place.path("a"), "await:" + place.path("b"), "waits:7", daemon=daemon)
        place.await_file("a", process)
        recorded = daemon.session()
        place.touch("b")
        place.finish(process)
        recorded.stop()
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    equal(len(trace.waits_in("cuStreamSynchronize")), 7, "waits")
    trace.check_references()
    equal(trace.check_dumps()[0], 1, "first dump")
    equal(trace.strings, record.strings, "strings")
    assert sum(fields["memory"] == 6 and fields["bytes"] == 4096 for fields in trace.definitions["def_allocation"].values()) == 1, \
        trace.definitions["def_allocation"]


@test("second-session")
def _(place):
    """One is stopped, another started; the program does nothing in between, or waits once."""
    for between in ((), ("waits:1",)):
        place.out = place.path(f"out{len(between)}")
        os.mkdir(place.out)
        mark = str(len(between))
        with place.daemon() as daemon:
            first = daemon.session("first")
            process = place.start("waits:2", "touch:" + place.path("a" + mark), "await:" + place.path("b" + mark), *between,
                                  "touch:" + place.path("c" + mark), "await:" + place.path("d" + mark), "waits:3", daemon=daemon)
            place.await_file("a" + mark, process)
            first.stop()
            place.touch("b" + mark)
            place.await_file("c" + mark, process)
            second = daemon.session("second")
            place.touch("d" + mark)
            place.finish(process)
            second.stop()
            pid = place.record().header["pid"]
            before, after = Trace(first.events(), pid), Trace(second.events(), pid)
        equal(len(before.waits_in("cuStreamSynchronize")), 2, "waits of the first")
        equal(len(after.waits_in("cuStreamSynchronize")), 3, "waits of the second")
        before.check_references()
        after.check_references()


@test("joining-session")
def _(place):
    """A second session while the first goes on: definitions come with the dump of the next second, though the program is killed then."""
    with place.daemon() as daemon:
        daemon.session("first")
        process = place.start("waits:2", "touch:" + place.path("a"), "await:" + place.path("b"), "waits:3", "sleep:2500", "waits:1",
                              "touch:" + place.path("c"), "sleep:60000", daemon=daemon)
        place.await_file("a", process)
        second = daemon.session("second")
        place.touch("b")
        place.await_file("c", process)
        process.kill()
        process.communicate()
        second.stop()
        trace = Trace(second.events(), process.pid)
    equal(len(trace.named("wait")), 4, "waits")
    equal(trace.named("process_end"), [], "ends")
    trace.check_references()
    assert trace.check_dumps() and set(trace.check_dumps()) == {2}, trace.check_dumps()


@test("snapshot")
def _(place):
    """Buffers that are overwritten: a snapshot of the last seconds has the definitions of what is in it."""
    with place.daemon() as daemon:
        recorded = daemon.session(snapshot=True, channel=("--overwrite", "--subbuf-size=256k", "--num-subbuf=4"))
        # More than the buffers hold, then a pause, then what the snapshot must show.
        process = place.start("waits:2", "several:15000", "sleep:1500", "waits:5", "touch:" + place.path("a"), "sleep:60000", daemon=daemon,
                              SLIPSTREAM_LEVEL="full")
        place.await_file("a", process)
        daemon.lttng("snapshot", "record", "--session=test", "file://" + recorded.folder)
        process.kill()
        process.communicate()
        trace = Trace(recorded.events(), process.pid)
    trace.check_references()
    assert len(trace.named("wait")) < 15002, "nothing was overwritten"
    assert trace.named("def_process"), "no definitions"
    assert len(trace.named("wait")) >= 5, "no waits"


# Processes and threads -----------------------------------------------------------------------------------------------------------


@test("fork-children")
def _(place):
    """Children that use CUDA themselves: own ids, own definitions, own counts."""
    with place.daemon() as daemon:
        recorded = daemon.session()
        place.run("fork:3", "waits:4", daemon=daemon)
        recorded.stop()
        records, events = place.records(), recorded.events()
    equal(len(records), 4, "record files")  # the parent goes on behind its children
    for pid, record in records.items():
        trace = Trace(events, pid)
        equal({event.vtid for event in trace.events}, {pid}, "threads")
        trace.check_references()
        compare(trace, record)
    equal({event.vpid for event in events}, set(records), "processes")


@test("fork-after-init")
def _(place):
    """Children of a process that is traced already: the driver refuses them; they say who they are, and what they called."""
    with place.daemon() as daemon:
        recorded = daemon.session()
        place.run("waits:2", "child:3", "waits:2", daemon=daemon)
        recorded.stop()
        records, events = place.records(), recorded.events()
    equal(len(records), 4, "record files")
    for pid, record in records.items():
        trace = Trace(events, pid)
        compare(trace, record)
        equal(len(trace.named("process_end")), 1, "ends")
    children = [record for record in records.values() if record.header["forked"]]
    equal(len(children), 3, "children")
    for record in children:
        equal((record.counts, len(record.wait), record.note("pass")), ({"cuCtxSynchronize": 1}, 0, ["forked after cuInit"]), "child")


@test("fork-signal-mask")
def _(place):
    with place.daemon() as daemon:
        recorded = daemon.session()
        out = place.run("signals", "waits:1", "signals", "child:1", "signals", "fork:1", "signals", daemon=daemon)
        recorded.stop()
    equal(out, place.expected("signals", "waits:1", "signals", "child:1", "signals", "fork:1", "signals"), "masks")


@test("fork-hooks-of-lttng")
def _(place):
    """With LTTng's own library for forks preloaded: its hooks are called once, by it."""
    helper = "liblttng-ust-fork.so.1"
    if subprocess.run(["/bin/true"], env={**os.environ, "LD_PRELOAD": helper}, capture_output=True, check=False).stderr:
        raise session.Skip(f"no {helper} here")
    with place.daemon() as daemon:
        recorded = daemon.session()
        steps = ("signals", "waits:2", "child:3", "signals", "waits:2", "fork:2", "signals")
        equal(place.run(*steps, daemon=daemon, preload=[helper]), place.expected(*steps), "output")
        recorded.stop()
        records, events = place.records(), recorded.events()
    equal(len(records), 4, "record files")  # the two behind child:3 call nothing
    for pid, record in records.items():
        compare(Trace(events, pid), record)


@test("fork-200-children")
def _(place):
    """Each has its own waits, though the buffers are those of the whole user: what is missing was counted."""
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--subbuf-size=4M", "--num-subbuf=8"))
        steps = ("fork:200", "waits:1")
        equal(place.run(*steps, daemon=daemon), place.expected(*steps), "output")
        recorded.stop()
        equal(recorded.lost(), 0, "lost")
        records, events, ends = place.records(), recorded.events("wait"), recorded.events("process_end")
    equal(len(records), 201, "record files")
    equal(sorted(event.vpid for event in ends), sorted(records), "ends")
    for pid, record in records.items():
        assert record.wait, "no waits"
        equal(Trace(events, pid).wait_sums(), {number: wait["sums"] for number, wait in record.wait.items()}, "sums of waits")


@test("clone-unseen")
def _(place):
    """A child that the tracer was not told of would write under its parent's name: it does not write."""
    with place.daemon() as daemon:
        recorded = daemon.session()
        place.run("waits:1", "clone", "waits:1", daemon=daemon)
        recorded.stop()
        records, events = place.records(), recorded.events()
    equal(len(records), 2, "record files")
    child, = (record for record in records.values() if record.header["forked"])
    parent, = (record for record in records.values() if not record.header["forked"])
    assert "no trace: forked where the tracer did not see it" in child.note("pass"), child.notes
    equal({event.vpid for event in events}, {parent.header["pid"]}, "processes")
    compare(Trace(events, parent.header["pid"]), parent)
    equal(len([event for event in events if event.name == "process_end"]), 1, "ends")


@test("thread-exit")
def _(place):
    """What threads traced that are gone long since is there."""
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--subbuf-size=1M", "--num-subbuf=4"))
        place.run("threads:64", "threads:64", daemon=daemon)
        recorded.stop()
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    by_thread = collections.Counter(event.vtid for event in trace.waits_in("cuStreamSynchronize"))
    equal((len(by_thread), sum(by_thread.values())), (128, 1280), "threads and waits")
    compare(trace, record)


@test("streams-come-and-go")
def _(place):
    """An entry that a new stream takes over is defined anew before its first wait."""
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--subbuf-size=1M", "--num-subbuf=4"))
        place.run("init", "streams:300", daemon=daemon)
        recorded.stop()
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    compare(trace, record)
    assert len(record.streams) < 20, len(record.streams)
    now, seen = {}, collections.Counter()
    waits = set(map(id, trace.waits_in("cuStreamSynchronize")))
    for event in trace.events:
        if event.name == "def_stream":
            now[event.fields["stream"]] = event.fields["kind"]
        elif event.name == "wait" and id(event) in waits and event.fields["candidates"]:
            kind = trace.definitions["def_candidate"][event.fields["candidates"]]["stream_kind"]
            equal(now[event.fields["stream"]], kind, "kind of the stream")
            seen[kind] += 1
    equal(seen, {3: 150, 4: 150}, "waits by kind")


@test("ended-by-_exit")
def _(place):
    """No exit handlers: all waits, and the definitions of each."""
    with place.daemon() as daemon:
        recorded = daemon.session()
        place.run("waits:5", "several:5", "quit", daemon=daemon)
        recorded.stop()
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    equal(trace.wait_sums(), {number: wait["sums"] for number, wait in record.wait.items()}, "sums of waits")
    equal(trace.waited_for(), dict(record.waited), "waited for")
    trace.check_references()
    equal(trace.named("process_end"), [], "ends")


# Trouble -------------------------------------------------------------------------------------------------------------------------


@test("without-setting")
def _(place):
    """Nothing is loaded, no thread is started."""
    equal(place.run("waits:1", "maps", provider=False), place.expected("waits:1", "maps"), "output")
    assert "mappings 0 " not in place.run("waits:1", "maps"), "the test sees nothing"
    equal(place.run("maps"), place.expected("maps"), "output before cuInit")


@test("without-daemon")
def _(place):
    steps = ("waits:5", COPIES, "threads:4", "fork:2", "child:2", "clone")
    began = time.monotonic()
    equal(place.run(*steps), place.expected(*steps), "output")
    assert time.monotonic() - began < 30, "took long"
    equal([record.note("config") for record in place.records().values() if record.note("config")], [], "notes")


@test("hung-daemon")
def _(place):
    """A socket that takes connections and never answers: the program waits as long as LTTng was told to, and no longer."""
    os.mkdir(place.path(".lttng"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place.path(".lttng/lttng-ust-sock-8"))
    listener.listen(64)
    taken = []
    threading.Thread(target=lambda: [taken.append(listener.accept()) for _ in range(1000)], daemon=True).start()
    began = time.monotonic()
    out = place.run("waits:5", COPIES, "child:1", LTTNG_UST_REGISTER_TIMEOUT=500)
    took = time.monotonic() - began
    equal(out, place.expected("waits:5", COPIES, "child:1"), "output")
    assert taken, "nobody connected"
    assert 0.5 <= took < 20, f"took {took} s"


@test("killed-daemon")
def _(place):
    with place.daemon() as daemon:
        daemon.session()
        steps = ("waits:5", "touch:" + place.path("a"), "await:" + place.path("b"), "several:500", COPIES, "threads:8", "child:1")
        process = place.start(*steps, daemon=daemon)
        place.await_file("a", process)
        consumers = daemon.consumers()
        os.killpg(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        for pid in consumers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        place.touch("b")
        equal(place.finish(process), place.expected(*steps), "output")


@test("stopped-consumer")
def _(place):
    """Nobody empties the buffers: events are discarded and counted, the program goes on."""
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--discard", "--subbuf-size=16k", "--num-subbuf=2"))
        steps = ("init", "touch:" + place.path("a"), "await:" + place.path("b"), "several:3000", COPIES)
        process = place.start(*steps, daemon=daemon)
        place.await_file("a", process)
        consumers = daemon.consumers()
        assert consumers, "no consumer"
        for pid in consumers:
            os.kill(pid, signal.SIGSTOP)
        place.touch("b")
        out = place.finish(process)
        for pid in consumers:
            os.kill(pid, signal.SIGCONT)
        recorded.stop()
        equal(out, place.expected(*steps), "output")
        record = place.record()
        trace = waits_of(recorded.events(), record.header["pid"])
        lost = recorded.lost()
    calls = sum(wait["sums"][0] for wait in record.wait.values())
    assert lost > 0 and len(trace) < calls, (lost, len(trace), calls)
    assert len(trace) + lost >= calls, (lost, len(trace), calls)


def waits_of(events, pid):
    """The waits of a process whose definitions may be lost."""
    return [event for event in events if event.vpid == pid and event.name == "wait"]


@test("small-buffers")
def _(place):
    """Buffers of one page each: the tracer counts what it discards."""
    steps = ("waits:5", "several:2000", COPIES, "threads:8")
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--discard", "--subbuf-size=4k", "--num-subbuf=2"))
        equal(place.run(*steps, daemon=daemon), place.expected(*steps), "output")
        recorded.stop()
        record = place.record()
        waits = waits_of(recorded.events(), record.header["pid"])
        lost = recorded.lost()
    calls = sum(wait["sums"][0] for wait in record.wait.values())
    assert lost > 0 and len(waits) <= calls <= len(waits) + lost, (lost, len(waits), calls)


@test("small-buffers-long-strings")
def _(place):
    """A string of 4 KiB fits buffers of 4 KiB, in pieces."""
    long = "sleep:0" + "x" * 3000
    with place.daemon() as daemon:
        recorded = daemon.session(channel=("--discard", "--subbuf-size=4k", "--num-subbuf=512"))
        place.run("waits:2", long, daemon=daemon)
        recorded.stop()
        equal(recorded.lost(), 0, "lost")
        record = place.record()
        trace = Trace(recorded.events(), record.header["pid"])
    compare(trace, record)
    assert long in trace.strings[record.header["command"]], "command"


@test("provider-missing")
def _(place):
    """No such file, no library, a library that is no provider, a FIFO: one line, one note, and everything else as always."""
    text, fifo = place.path("text"), place.path("fifo")
    driver = os.path.join(place.arguments.simcuda, "libcuda.so.1")
    os.mkfifo(fifo)
    with open(text, "w") as file:
        file.write("no library")
    cases = ((place.path("none"), "No such file or directory"), (text, f"{text}: file too short"), (place.folder, "not a regular file"),
             (fifo, "not a regular file"), (driver, "no provider of slipstream"))
    for number, (provider, why) in enumerate(cases):
        place.out = place.path(f"out-{number}")
        os.mkdir(place.out)
        told = f"slipstream: SLIPSTREAM_LTTNG: bad value '{provider}': {why}\n"
        for level in ("waits", "full"):
            equal(place.run("waits:3", COPIES, provider=provider, told=told, SLIPSTREAM_LEVEL=level), place.expected("waits:3", COPIES),
                  "output")
        equal(len(place.records()), 2, "records")
        for record in place.records().values():
            equal(record.note("config"), [f"no trace: {why}"], f"notes with {provider}")
            equal(record.counts["cuStreamSynchronize"], 3, "calls")


@test("other-lttng")
def _(place):
    """Two LTTng-UST of different interfaces in one process end it: not by us."""
    steps = ("waits:3", COPIES)
    equal(place.run(*steps, preload=[place.arguments.old]), place.expected(*steps), "output")
    equal(place.record().note("config"), ["no trace: the program has an LTTng-UST before 2.13 (liblttng-ust.so.0)"], "notes")


@test("rank")
def _(place):
    """The first variable of a launcher that has a number."""
    cases = (({}, -1), ({"RANK": 3}, 3), ({"RANK": 3, "PMI_RANK": 5}, 3), ({"OMPI_COMM_WORLD_RANK": 0, "SLURM_PROCID": 3}, 0),
             ({"RANK": "x", "SLURM_PROCID": 7}, 7), ({"PMIX_RANK": "-1"}, -1), ({"RANK": "99999999999"}, -1))
    for number, (variables, rank) in enumerate(cases):
        place.out = place.path(f"out-{number}")
        os.mkdir(place.out)
        place.run("waits:1", provider=False, **variables)
        equal(place.record().rank, rank, f"rank with {variables}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("shim", "provider", "program", "user", "simcuda", "old"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("test", choices=sorted(TESTS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slipstream-tracing-") as folder:
        try:
            TESTS[arguments.test](Place(arguments, folder))
        except session.Skip as reason:
            print(f"skipped: {reason}")
            return 77
    return 0


sys.exit(main())
