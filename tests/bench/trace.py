#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cost of one traced wait: a hot loop of a call that waits, on a driver that does nothing, in one process that goes through the states of a
trace by turns. Prints `cell NAME NS` lines: medians of what the bursts of all rounds took per call.

    trace.py --build FOLDER [--user FILE] [--rounds N] [--limit NS] [--check]

unloaded        before cuInit: no provider
loaded          provider loaded, no session
recorded        a session records, no context fields
stopped         the session is stopped
traced          recorded less stopped, round by round: the cost of the event. --limit: above it the exit status is 1
...-sparse      the same, calls 20 us apart
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


class Bench:
    """The process under test."""

    def __init__(self, build, daemon, folder):
        os.symlink(os.path.join(build, "tests/bench/libtrace-driver.so"), os.path.join(folder, "libcuda.so.1"))
        environment = {key: text for key, text in os.environ.items() if not key.startswith("SLIPSTREAM_")}
        environment.update(daemon.environment)
        environment["LD_PRELOAD"] = os.path.join(build, "shim/libslipstream.so")
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (folder, environment.get("LD_LIBRARY_PATH"))))
        environment["SLIPSTREAM_LTTNG"] = os.path.join(build, "tracing/provider/libslipstream-lttng.so")
        environment["SLIPSTREAM_OUT"] = folder
        self.process = subprocess.Popen([os.path.join(build, "tests/bench/trace")], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise AssertionError("the program ended with " + str(self.process.wait()))
        return float(answer[2]) if answer[0] == "cell" else None

    def end(self):
        self.process.stdin.close()
        if self.process.wait(60):
            raise AssertionError("the program ended with " + str(self.process.returncode))


def measure(arguments, folder):
    cells = {}

    def add(name, figure):
        cells.setdefault(name, []).append(figure)

    with session.Daemon(arguments.user) as daemon:
        bench = Bench(arguments.build, daemon, folder)
        for _ in range(arguments.rounds):
            add("unloaded", bench.ask("hot unloaded"))
            add("unloaded-sparse", bench.ask("sparse unloaded-sparse"))
        bench.ask("init")
        for _ in range(arguments.rounds):
            add("loaded", bench.ask("hot loaded"))
            add("loaded-sparse", bench.ask("sparse loaded-sparse"))
        recorded = daemon.session(contexts=(), channel=("--subbuf-size=4M", "--num-subbuf=8"), start=False)
        for _ in range(arguments.rounds + 1):
            recorded.start()
            on, on_sparse = bench.ask("hot recorded"), bench.ask("sparse recorded-sparse")
            recorded.stop()
            off, off_sparse = bench.ask("hot stopped"), bench.ask("sparse stopped-sparse")
            for name, figure in (("recorded", on), ("stopped", off), ("traced", on - off), ("recorded-sparse", on_sparse),
                                 ("stopped-sparse", off_sparse), ("traced-sparse", on_sparse - off_sparse)):
                add(name, figure)
        bench.end()
        for name in ("recorded", "stopped", "traced", "recorded-sparse", "stopped-sparse", "traced-sparse"):
            del cells[name][0]  # the first round touches new memory
        if recorded.lost():
            raise AssertionError("events were lost: what is timed is not what was recorded")
        events = recorded.read()[0].count("slipstream:wait: ")
    return cells, events


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--user", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        arguments.rounds = 1
    with tempfile.TemporaryDirectory(prefix="slipstream-bench-") as folder:
        try:
            cells, events = measure(arguments, folder)
        except session.Skip as reason:
            print(f"skipped: {reason}")
            return 77
    for name, figures in cells.items():
        print(f"cell {name} {statistics.median(figures):.1f} least {min(figures):.1f} most {max(figures):.1f}")
    print(f"events {events}")
    wanted = (arguments.rounds + 1) * (205 * 1000 + 4000)
    if events != wanted:
        print(f"trace.py: {events} events, not {wanted}", file=sys.stderr)
        return 1
    if arguments.limit and statistics.median(cells["traced"]) > arguments.limit:
        print(f"trace.py: an event costs more than {arguments.limit} ns", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
