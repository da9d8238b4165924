#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cost of one traced wait: a hot loop of a call that waits, on a driver that does nothing, in one process that goes through the states of a
trace by turns; beside it one that has no provider. Prints `cell NAME NS` lines, ns a call, medians of all rounds.

    trace.py --build FOLDER [--user FILE] [--rounds N] [--limit NS] [--check]
    trace.py --build FOLDER [--user FILE] --idle-pairs N

without         another process, without a provider
loaded          provider loaded, no session
idle            loaded less without, round by round: the cost of a trace that nobody records
recorded        a session records, no context fields
stopped         the session is stopped
...-sparse      the same, calls 20 us apart
traced          recorded less stopped, round by round: the cost of the event
...-quiet       the same of each round's fastest eighth: what the noise of a shared machine leaves alone. --limit: of
                traced-quiet; above it the exit status is 1

Two processes differ by where their memory lies, so `idle` of one pair tells little. --idle-pairs: N pairs of fresh processes instead, each
measured before its cuInit and after it (N = 40: half a minute). `cell NAME NS low NS high NS`: the median and its 95 % interval.

idle            with a provider less without one, after cuInit
nothing         the control: both without one
idle-net        idle less nothing, round by round. Measurable is what has an interval without 0: a last line for each such cell tells
idle-same       after less before within one process, where memory lies alike; of a process with a provider less that of one without
nothing-same    the control of that
...-quiet       the same of each process's fastest fiftieth

FOLDER is a build, or a copy by tests/gpu/pack.sh; LTTng's programs are found by PATH. As root --user gives the library of
tests/tracing/user.c for a private daemon. --check: one short round, no limits: does it run? Exit status 77: no LTTng here.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tracing"))
import session  # noqa: E402
from overhead import interval  # noqa: E402


class Bench:
    """The process under test."""

    def __init__(self, build, daemon, folder, is_traced, is_initialised=True):
        environment = {key: text for key, text in os.environ.items() if not key.startswith("SLIPSTREAM_")}
        environment.update(daemon.environment)
        environment["LD_PRELOAD"] = os.path.join(build, "shim/libslipstream.so")
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (folder, environment.get("LD_LIBRARY_PATH"))))
        if is_traced:
            environment["SLIPSTREAM_LTTNG"] = os.path.join(build, "tracing/provider/libslipstream-lttng.so")
        environment["SLIPSTREAM_OUT"] = folder
        self.process = subprocess.Popen([os.path.join(build, "tests/bench/trace")], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if is_initialised:
            self.ask("init")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise AssertionError("the program ended with " + str(self.process.wait()))
        return [float(figure) for figure in answer[2:]]

    def end(self):
        self.process.stdin.close()
        if self.process.wait(60):
            raise AssertionError("the program ended with " + str(self.process.returncode))


def measure(arguments, folder):
    cells = {}

    def add(name, figure):
        cells.setdefault(name, []).append(figure)

    def difference(name, end, left, right):
        add(name + end, left[0] - right[0])
        add(name + "-quiet" + end, left[1] - right[1])

    def idle_pair(kind, end):
        loaded, without = bench.ask(kind + " loaded"), other.ask(kind + " without")
        add("without" + end, without[0])
        add("loaded" + end, loaded[0])
        difference("idle", end, loaded, without)

    def pair(kind, end):
        recorded.start()
        on = bench.ask(kind + " recorded")
        recorded.stop()
        off = bench.ask(kind + " stopped")
        add("recorded" + end, on[0])
        add("stopped" + end, off[0])
        difference("traced", end, on, off)

    with session.Daemon(arguments.user) as daemon:
        link_driver(arguments.build, folder)
        other, bench = Bench(arguments.build, daemon, folder, False), Bench(arguments.build, daemon, folder, True)
        for _ in range(arguments.rounds):
            idle_pair("hot", "")
        for _ in range(min(arguments.rounds, 7)):
            idle_pair("sparse", "-sparse")
        other.end()
        recorded = daemon.session(contexts=(), channel=("--subbuf-size=4M", "--num-subbuf=8"), start=False)
        recorded.start()
        bench.ask("hot first")  # touches new memory
        recorded.stop()
        for _ in range(arguments.rounds):
            pair("hot", "")
        for _ in range(min(arguments.rounds, 7)):
            pair("sparse", "-sparse")
        bench.end()
        if recorded.lost():
            raise AssertionError("events were lost: what is timed is not what was recorded")
        events = recorded.read()[0].count("slipstream:wait: ")
    return cells, events


def link_driver(build, folder):
    os.symlink(os.path.join(build, "tests/bench/libtrace-driver.so"), os.path.join(folder, "libcuda.so.1"))


def measure_pairs(arguments, folder):
    """{cell: [figure of each pair]}"""
    cells = {}

    def process(is_traced):
        bench = Bench(arguments.build, daemon, folder, is_traced, is_initialised=False)
        before = bench.ask("short before")
        bench.ask("init")
        after = bench.ask("short after")
        bench.end()
        return before, after

    def pair(name, is_traced, is_reversed):
        if is_reversed:
            right, left = process(False), process(is_traced)
        else:
            left, right = process(is_traced), process(False)
        for end, figure in ("", 0), ("-quiet", 1):
            change = [after[figure] - before[figure] for before, after in (left, right)]
            cells.setdefault(name + end, []).append(left[1][figure] - right[1][figure])
            cells.setdefault(name + "-same" + end, []).append(change[0] - change[1])
        return left[1][0], right[1][0]

    with session.Daemon(arguments.user) as daemon:
        link_driver(arguments.build, folder)
        for number in range(arguments.idle_pairs):
            kinds = (("idle", True), ("nothing", False))
            for name, is_traced in reversed(kinds) if number & 2 else kinds:
                figures = pair(name, is_traced, number & 1)
                if is_traced:
                    cells.setdefault("loaded", []).append(figures[0])
                    cells.setdefault("without", []).append(figures[1])
    for end in "", "-quiet":
        cells["idle-net" + end] = [idle - nothing for idle, nothing in zip(cells["idle" + end], cells["nothing" + end])]
    return cells


def is_measurable(figures):
    low, high = interval(figures)
    return low > 0 or high < 0


def tell_pairs(cells):
    for name, figures in sorted(cells.items()):
        low, high = interval(figures)
        print(f"cell {name} {statistics.median(figures):.2f} low {low:.2f} high {high:.2f}")
    for name in "idle-net", "idle-net-quiet", "idle-same", "idle-same-quiet":
        print(f"{name}: {'measurable' if is_measurable(cells[name]) else 'not measurable'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--user", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--idle-pairs", type=int, metavar="N")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.idle_pairs is not None and arguments.idle_pairs < 1:
        parser.error("--idle-pairs: at least 1")
    if arguments.check:
        arguments.rounds = 1
    with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as folder:
        try:
            if arguments.idle_pairs:
                tell_pairs(measure_pairs(arguments, folder))
                return 0
            cells, events = measure(arguments, folder)
        except session.Skip as reason:
            print(f"skipped: {reason}")
            return 77
    for name, figures in cells.items():
        print(f"cell {name} {statistics.median(figures):.1f} least {min(figures):.1f} most {max(figures):.1f}")
    print(f"events {events}")
    wanted = (arguments.rounds + 1) * 65 * 1000 + min(arguments.rounds, 7) * 2000  # trace.c
    if events != wanted:
        print(f"trace.py: {events} events, not {wanted}", file=sys.stderr)
        return 1
    if arguments.limit and statistics.median(cells["traced-quiet"]) > arguments.limit:
        print(f"trace.py: an event costs more than {arguments.limit} ns", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
