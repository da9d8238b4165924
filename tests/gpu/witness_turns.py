# SPDX-License-Identifier: MIT
"""A training loop that runs while watches come and go: what its steps take meanwhile, and how fast a watch is gone. Of witness.py."""
import bisect
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import time

from witness_places import Memory

ENDLESS = 100000000


class Failed(Exception):
    """What is wrong, in one line."""


def interval(figures, sure=0.95):
    """(low, high, probability): between these two the median lies with at least that probability, by ranks alone. All figures and less where they are too few."""
    ordered, n = sorted(figures), len(figures)
    for rank in range((n - 1) // 2, -1, -1):
        inside = 1 - 2 * sum(math.comb(n, k) for k in range(rank + 1)) / 2 ** n
        if inside >= sure or not rank:
            return ordered[rank], ordered[n - 1 - rank], inside
    raise ValueError("no figures")


class Steps:
    """Steps of a program that has ended, by time."""

    def __init__(self, marks):
        with open(marks, encoding="ascii") as file:
            self.steps = [tuple(map(int, line.split())) for line in file]
        self.begins = [begin for begin, _ in self.steps]

    def within(self, begin, end):
        """ns of the steps that lie in the time as a whole."""
        return [last - first for first, last in self.steps[bisect.bisect_left(self.begins, begin):] if last <= end]

    def median(self, window):
        took = self.within(*window)
        if len(took) < 5:
            raise Failed(f"only {len(took)} steps in {(window[1] - window[0]) / 1e9:.1f} s")
        return statistics.median(took)


class Training:
    """The program, not under the shim. Its steps begin before this is made and end at finish()."""

    def __init__(self, command, folder, environment, names):
        self.times, self.marks = os.path.join(folder, "steps.times"), os.path.join(folder, "steps.marks")
        self.command, self.environment, self.folder = command, environment, folder
        for path in (self.marks, self.marks + ".stop"):
            if os.path.exists(path):
                os.unlink(path)
        with open(os.path.join(folder, "steps.stderr"), "wb") as stderr:
            self.process = subprocess.Popen([*command, str(ENDLESS), self.times, self.marks], stdout=subprocess.PIPE, stderr=stderr, env=environment)
        end = time.monotonic() + 90
        while not os.path.exists(self.marks):
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise Failed(f"{' '.join(command)} does not come to its steps: see steps.stderr")
            time.sleep(0.02)
        self.memory = Memory(self.process.pid, names)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def finish(self):
        """(what it printed, its steps)."""
        with open(self.marks + ".stop", "w", encoding="ascii"):
            pass
        self.memory.close()
        output = self.process.communicate(timeout=60)[0]
        if self.process.returncode:
            raise Failed(f"the program ended with status {self.process.returncode}: see steps.stderr")
        return output, Steps(self.marks)

    def run_again(self, steps):
        """The same number of steps with nobody there; started here."""
        with open(os.path.join(self.folder, "steps-raw.stderr"), "wb") as stderr:
            return subprocess.Popen([*self.command, str(steps), self.times + ".raw"], stdout=subprocess.PIPE, stderr=stderr, env=self.environment)


def wait_for(condition, seconds, nap):
    """CLOCK_MONOTONIC ns when it first held; None: it did not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return time.monotonic_ns()
        time.sleep(nap)
    return None


def all_out(memory, seconds):
    """(when the first probe was seen gone, when the last)."""
    everything = memory.probed()
    if not everything:
        raise Failed("no probe is in the process")
    first = wait_for(lambda: not all(map(memory.is_probed, everything)), seconds, 0.001)
    last = first and wait_for(lambda: not memory.probed(), 30, 0.001)
    if not last:
        raise Failed(f"{len(memory.probed())} probes are left in the process")
    return first, last


def attach(training, slipstream, environment, seconds, folder):
    """`slipstream attach --for` on the running program: times, and the report as JSON."""
    path = os.path.join(folder, "attach.json")
    command = [slipstream, "attach", "--no-live", "--for", str(seconds), "--json", path, str(training.process.pid)]
    result = {"asked_ns": time.monotonic_ns()}
    memory = training.memory
    with open(os.path.join(folder, "attach.txt"), "wb") as out, open(os.path.join(folder, "attach.stderr"), "wb") as err:
        tool = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        try:
            result["in_ns"] = wait_for(lambda: tool.poll() is not None or memory.probed(), 30, 0.02)
            if tool.poll() is not None or not result["in_ns"]:
                raise Failed(f"slipstream attach: status {tool.poll()}: see attach.stderr")
            time.sleep(seconds / 2)
            result["probed"] = len(memory.probed())
            time.sleep(seconds / 2 - min(0.5, seconds / 4))
            result["first_out_ns"], result["out_ns"] = all_out(memory, 30)
            result["status"] = tool.wait(timeout=60)
        finally:
            if tool.poll() is None:
                tool.kill()
                tool.wait()
    result["ended_ns"] = time.monotonic_ns()
    if result["status"]:
        raise Failed(f"slipstream attach: status {result['status']}: see attach.stderr")
    with open(path, encoding="utf-8") as file:
        result["report"] = json.load(file)
    return result


class Witness:
    """The program that `slipstream attach` starts to watch, with the same arguments, started and stopped as it does."""

    def __init__(self, program, process, folder, environment):
        self.control, theirs = socket.socketpair()
        self.trace = os.path.join(folder, "turn.trace")
        if os.path.exists(self.trace):
            os.unlink(self.trace)
        self.process = subprocess.Popen(
            [program, "watch", f"--control={theirs.fileno()}", "--name=witness.py", f"--trace={self.trace}", str(process)], pass_fds=[theirs.fileno()],
            env=environment, stderr=subprocess.PIPE)
        theirs.close()
        self.control.settimeout(60)
        said = self.control.recv(64)
        if said != b"ready\n":
            self.end()
            raise Failed(f"slipstream-witness is not ready: {said.decode(errors='replace').strip()} {self.errors}")

    def stop(self):
        self.control.shutdown(socket.SHUT_WR)

    def end(self):
        self.control.close()
        self.errors = self.process.communicate(timeout=60)[1].decode(errors="replace").strip()
        if os.path.exists(self.trace):
            os.unlink(self.trace)
        return self.process.returncode


def turns(training, program, environment, folder, pairs, seconds):
    """[(begin, end, whether a watch was there)], one more without than with, by turns; and ms from the word until the last probe was gone."""
    windows, gone = [], []

    def window(watched):
        begin = time.monotonic_ns()
        time.sleep(seconds)
        windows.append((begin, time.monotonic_ns(), watched))

    window(False)
    for _ in range(pairs):
        witness = Witness(program, training.process.pid, folder, environment)
        try:
            window(True)
            begin = time.monotonic_ns()
            witness.stop()
            gone.append((all_out(training.memory, 30)[1] - begin) / 1e6)
        finally:
            status = witness.end()
        if status:
            raise Failed(f"slipstream-witness: status {status}: {witness.errors}")
        window(False)
    return windows, gone


def differences(windows, steps):
    """In percent, of each time with a watch from the two beside it without."""
    medians = [steps.median(window[:2]) for window in windows]
    return [100 * (2 * medians[i] / (medians[i - 1] + medians[i + 1]) - 1) for i in range(1, len(medians) - 1, 2)], medians


if __name__ == "__main__":
    sys.exit("part of witness.py")
