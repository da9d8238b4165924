#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Staged copies of mode fix on the simulated driver: their rules one by one, and random programs that must print what they print without them.

    run.py --shim FILE --simcuda DIR --cases FILE --random FILE [--only cases|settings|faults|random] [--case NAME] [SEED...]

Exit status 1 and what differs, where a rule is broken; `mutate` beside it switches each one off and runs this.
"""
import argparse
import collections
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "entry"))
import slip  # noqa: E402

REWRITE = 17
FIELDS = ("hits misses unproven parked waits_avoided waits_made real_frees purges events queries held_bytes peak_bytes live_bytes "
          "limit_bytes to_device to_device_bytes from_device from_device_bytes to_driver").split()
# What staging calls of the driver by itself.
FAULTS = ("cuMemHostRegister_v2", "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuStreamSynchronize", "cuStreamCreate",
          "cuStreamWaitEvent", "cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
          "cuMemcpy2DAsync_v2", "cuMemcpy3DAsync_v2", "cuThreadExchangeStreamCaptureMode", "cuPointerGetAttribute", "cuPointerGetAttributes",
          "cuCtxGetFlags", "cuMemHostGetDevicePointer_v2", "cuStreamWaitValue64_v2")
LIMIT_S = 30


class Broken(Exception):
    pass


class Done:
    """What a run left: its output, the figures of `staging`, the reasons for which calls went to the driver, the waits found."""

    def __init__(self, stdout, folder, journal):
        self.stdout, self.total, self.reasons = stdout, collections.Counter(), collections.Counter()
        self.waits, self.waited_for = collections.Counter(), collections.Counter()
        for process in slip.processes(folder):
            for kind, body in slip.records(process.path):
                if kind == REWRITE and process.strings.get(struct.unpack_from("<I", body, 8)[0]) == "staging":
                    self.total.update(dict(zip(FIELDS, struct.unpack_from(f"<{len(FIELDS)}Q", body, 16))))
            for (code, text), count in process.notes.items():
                if code == "rewrite":
                    self.reasons[text] += count
            self.waits.update(process.waits)
            self.waited_for.update(process.waited_for)
        self.journal = []
        if os.path.exists(journal):
            with open(journal, encoding="utf-8") as stream:
                self.journal = stream.read().splitlines()

    def staged(self, warm=1):
        """Copies to the device, but for the one by which cases begin, and from it."""
        return self.total["to_device"] - warm, self.total["from_device"]


# What the engine says of a device that did nothing for long: here, of a simulated one that the machine gave no time.
STUCK = "off: a staged copy was stuck behind its own place"
ATTEMPTS = 5


def run(options, command, fix="staging", **variables):
    """As run_once(). Where the device had no time all bytes are right, too, but the counts say nothing: once more."""
    for _ in range(ATTEMPTS):
        done = run_once(options, command, fix, **variables)
        if not done.reasons[STUCK]:
            break
    # Each copy that is left to the driver has one reason.
    told = sum(count for text, count in done.reasons.items() if not text.startswith("order: "))
    expect(fix != "staging" or done.total["to_driver"] == told or not done.total["to_driver"], f"{done.total['to_driver']} copies, {dict(done.reasons)}")
    return done


def run_once(options, command, fix, **variables):
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_"))}
        journal = os.path.join(folder, "journal.txt")
        environment.update({"LD_LIBRARY_PATH": options.simcuda, "SIMCUDA_COSTS": "none", "SLIPSTREAM_STAGE_FROM": "128K", **variables})
        if fix:
            environment.update(LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX=fix, SLIPSTREAM_OUT=folder)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Broken("hangs") from None
        if done.returncode:
            raise Broken(f"ended with {done.returncode}: {done.stderr.strip()[:400]}")
        return Done(done.stdout, folder, journal)


def expect(condition, text):
    if not condition:
        raise Broken(text)


NOT_PAGEABLE = "driver: not all of the host's side is pageable"
NOT_PLAIN = "driver: the device's side is not plain memory of the current device"
MEMOPS = "driver: SYNC_MEMOPS"
FOREIGN = "driver: the stream is not known, or of another context than the current one"
ORDER = {
    "host-function": "order: a host function, a graph or a batch may not have run yet",
    "stream": "order: a non-blocking stream is there",
    "pinned": "order: there is host memory that the device can write",
    "registered": "order: there is host memory that the device can write",
    "managed": "order: there is host memory that the device can write",
    "pool": "order: there is host memory that the device can write",
    "own-thread": "order: other streams do not wait for the thread's own",
    "context": "order: there is another context",
    "exported": "order: there is memory that other processes see",
    "node": "order: host code in a graph or behind an object of it",
    "captured": "order: a graph has a host node",
    "object": "order: host code in a graph or behind an object of it",
    "hmm": "order: the device can write pageable memory",
}
# Copies staged to the device and from it (None: any number), and the reason that must be among those for the driver's copies.
CASES = {
    "host-function-writes-source": ((3, 0), None),
    "waits-for-no-more": ((2, 2), None),
    "wait-is-recorded": ((1, 1), None),
    "source-is-read-first": ((None, 0), None),
    "source-is-written-behind-a-wait": ((1, 0), None),
    "source-is-written-beside": ((1, 0), None),
    "source-is-written-by-a-graph": ((None, 0), None),
    "source-is-written-by-what-comes": ((None, 0), None),
    "async-to-device": ((None, 0), None),
    "async-behind-gate": ((None, 0), "driver: it would wait for its stream, where the driver may not"),
    "async-behind-done": ((2, 0), None),
    "to-host": ((0, 7), None),
    "torn": ((78, None), None),
    "torn-to-host": ((0, 40), None),
    "large": ((8, 8), None),
    "plain": ((2, 2), None),
    "small": ((0, 0), None),
    "pinned": ((0, 0), None),
    "managed": ((0, 0), None),
    "registered": ((0, 0), NOT_PAGEABLE),
    "registered-later": ((6, 2), None),
    "pool": ((2, 2), None),
    "mapped": ((0, 0), NOT_PLAIN),
    "memops-block": ((0, 0), MEMOPS),
    "memops-context": ((0, 0), MEMOPS),
    "primary-memops": ((0, 0), MEMOPS),
    "memops-set": ((1, 0), MEMOPS),
    "wrong": ((0, 0), NOT_PLAIN),
    "elsewhere": ((0, 0), NOT_PLAIN),
    "two-contexts": ((None, None), None),
    "capturing": ((2, 2), "driver: a capture is going on"),
    "captured": ((0, 0), "driver: a capture is going on"),
    "shapes": ((56, 56), None),
    "large-shapes": ((4, 4), None),
    "wrong-shapes": ((0, 0), None),
    "threads": ((None, None), None),
    "ends-at-once": ((None, None), None),
    "ends-by-exit": ((None, None), None),
    "forked": ((1, 1), None),
    "reset": ((None, 4), None),
    "broken": ((0, 0), None),
    "broken-to-host": ((0, 0), None),
    "others-go-on": ((None, None), None),
    "host-function-calls": ((1, 1), None),
    "leaves-nothing": ((1, 60), None),
    "cancelled": ((2, 2), None),
    "known-forgets": ((39, 0), NOT_PAGEABLE),
    "known-ends": ((0, 0), NOT_PAGEABLE),
    "known-remembers": ((3, 0), None),
    "known-between": ((6, 0), None),
    "known-mapped-anew": ((3, 0), None),
    "known-unwrapped": ((2, 0), "off: calls may go past the rooms"),
    "known-block": ((4, 0), MEMOPS),
    "known-elsewhere": ((3, 0), NOT_PLAIN),
}


# Its other thread makes copies of the driver's own, which keep out of the way of large staged ones, or these of theirs.
MET = "a staged copy met a call that drains the device"


def one_case(options, name, staged, reason):
    done = run(options, [options.cases, name])
    if name.startswith("torn"):
        staged = [wanted and wanted - done.reasons[MET] for wanted in staged]
        expect(done.reasons[MET] <= 20, f"{done.reasons[MET]} staged copies met others")
    for way, wanted, found in zip(("to", "from"), staged, done.staged(name != "primary-memops")):
        expect(wanted in (None, found), f"{found} copies {way} the device were staged, not {wanted}: {dict(done.reasons)}")
    expect(not reason or done.reasons[reason], f"not among the reasons: {reason}: {dict(done.reasons)}")
    if name == "elsewhere":
        expect(done.reasons[FOREIGN], f"not among the reasons: {FOREIGN}: {dict(done.reasons)}")
    if name == "reset":
        expect(done.total["held_bytes"] < 30 << 20, f"counts {dict(done.total)}: chunks of contexts that are gone")
    if name == "wait-is-recorded":
        for rule in ("pageable-h2d", "d2h"):
            expect(done.waits[rule] == 1 and done.waited_for[rule, "spin"] == 1, f"waits {dict(done.waits)}, for {dict(done.waited_for)}")
        expect(done.total["waits_made"] == 2, f"counts {dict(done.total)}")
    if name not in ("threads", "ends-at-once", "ends-by-exit"):
        expect(not done.total["waits_avoided"], f"counts {dict(done.total)}")


def cases(options):
    for name, (staged, reason) in CASES.items():
        yield name, lambda name=name, staged=staged, reason=reason: one_case(options, name, staged, reason)


def settings(options):
    def relaxed():
        done = run(options, [options.cases, "relaxed"], SLIPSTREAM_RELAX="order")
        expect(done.total["waits_avoided"] == 2 and not done.total["waits_made"], f"counts {dict(done.total)}")
        # The copies have proven nothing: the kernel is what the next wait was for.
        expect(done.waited_for["d2h", "spin"] == 2, f"waits for {dict(done.waited_for)}")
    yield "relaxed", relaxed

    def read_first():
        done = run(options, [options.cases, "read-first-by-default"], SLIPSTREAM_STAGE_FROM="")
        expect(done.staged() == (2, 0) and done.total["waits_made"] == 2, f"counts {dict(done.total)}: {dict(done.reasons)}")
    yield "read-first-by-default", read_first

    def relaxed_large():
        done = run(options, [options.cases, "relaxed-large"], SLIPSTREAM_RELAX="order")
        expect(done.total["waits_made"] == 2 and not done.total["waits_avoided"], f"counts {dict(done.total)}")
    yield "relaxed-large", relaxed_large

    def relaxed_many():
        done = run(options, [options.cases, "relaxed-many"], SLIPSTREAM_RELAX="order")
        # 64 until there is no chunk; the driver's own copy then waits for the kernel, and so there are chunks again.
        expect(done.total["waits_avoided"] == 79 and done.total["to_driver"] == 1, f"counts {dict(done.total)}")
        # What did not wait is no finding.
        expect(done.waits["pageable-h2d"] == 1, f"waits {dict(done.waits)}")
    yield "relaxed-many", relaxed_many

    for kind, reason in ORDER.items():
        def refused(kind=kind, reason=reason):
            pageable = {"SIMCUDA_PAGEABLE": "hmm"} if kind == "hmm" else {}
            done = run(options, [options.cases, f"refused-{kind}"], SLIPSTREAM_RELAX="order", **pageable)
            expect(done.reasons[reason], f"not among the reasons: {reason}: {dict(done.reasons)}")
        yield f"refused-{kind}", refused

    def strict():
        """Without the word nothing is left out."""
        try:
            run(options, [options.cases, "relaxed"])
        except Broken as error:
            expect("goes_at_once" in str(error), str(error))
        else:
            raise Broken("a copy did not wait")
    yield "strict", strict

    def all_fixes():
        for name in ("plain", "refused-pinned", "large", "reset", "torn"):
            relax = {"SLIPSTREAM_RELAX": "order"} if name.startswith("refused") else {}
            run(options, [options.cases, name], fix="pinned,frees,staging", **relax)
    yield "all-fixes", all_fixes

    def host_page_tables():
        done = run(options, [options.cases, "plain"], SIMCUDA_PAGEABLE="ats")
        expect(done.staged(0) == (0, 0) and done.reasons["off: the device uses the host's page tables"] == 1, f"{dict(done.reasons)}")
    yield "host-page-tables", host_page_tables

    def drained():
        """Frees and unregistrations hold what submissions need: neither waits for the other for ever."""
        done = run(options, [options.cases, "drained"], SIMCUDA_DRAIN_LOCK="on")
        expect(done.total["to_device"] and done.total["from_device"], f"counts {dict(done.total)}")
    yield "drained", drained

    def lingering():
        """The device is late with all that it may be late with: what is told of the stream is right all the same."""
        done = run(options, [options.cases, "leaves-nothing"], SIMCUDA_SEED="1")
        expect(done.staged() == (1, 60), f"staged {done.staged()}: {dict(done.reasons)}")
    yield "lingering", lingering

    def blocking():
        done = run(options, [options.cases, "plain"], CUDA_LAUNCH_BLOCKING="1")
        expect(done.staged(0) == (0, 0) and done.reasons["off: CUDA_LAUNCH_BLOCKING is set"] == 1, f"{dict(done.reasons)}")
    yield "launch-blocking", blocking

    def few_connections():
        """Streams may share a queue of the hardware, then: no gates, and so no copies of more than a chunk."""
        for connections, wanted in (("4", (0, 0)), ("8", (8, 8))):
            done = run(options, [options.cases, "large"], CUDA_DEVICE_MAX_CONNECTIONS=connections)
            expect(done.staged(int(connections) >= 8) == wanted, f"{connections} connections: staged {done.staged(0)}")
    yield "few-connections", few_connections

    def not_asked_for():
        done = run(options, [options.cases, "plain"], fix="pinned")
        expect(done.staged(0) == (0, 0), f"counts {dict(done.total)}")
    yield "not-asked-for", not_asked_for

    def declined():
        """No memory for chunks: the driver copies, and the wait that was made before is in the record."""
        done = run(options, [options.cases, "wait-is-recorded"], SIMCUDA_FAIL="cuMemHostRegister_v2:*:2")
        expect(done.staged(0) == (0, 0) and done.waits["pageable-h2d"] == 1 and done.waits["d2h"] == 1,
               f"staged {done.staged(0)}, waits {dict(done.waits)}")
    yield "declined", declined

    def denied():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"file {os.path.basename(options.cases)} staging\n")
            file.flush()
            done = run(options, [options.cases, "plain"], SLIPSTREAM_DENY=file.name)
        expect(done.staged(0) == (0, 0) and done.reasons["driver: the call site is denied"] == 5, f"{dict(done.reasons)}")
    yield "denied", denied


def faults(options):
    for function in FAULTS:
        for number, status in (("1", 2), ("2", 999), ("5", 2), ("12", 999), ("30", 2), ("2+", 999), ("15+", 2)):
            if function != "cuStreamCreate" or number != "1":  # the program's own
                yield f"{function} {number} {status}", lambda f=function, n=number, s=status: run(
                    options, [options.cases, "faults"], SIMCUDA_FAIL=f"{f}:{n}:{s}")


def random(options):
    total = collections.Counter()
    for seed in options.seeds:
        for threads, steps in ((1, 250), (4, 100)):
            def one(seed=seed, threads=threads, steps=steps):
                command = [options.random, str(seed), str(steps), str(threads)]
                variables = {"SIMCUDA_SEED": str(seed)}
                if threads == 1:
                    variables["SIMCUDA_TIME"] = "virtual"
                raw = run(options, command, None, **variables)
                for fix in ("staging", "pinned,frees,staging"):
                    fixed = run(options, command, fix, **variables)
                    differ = [pair for pair in zip(raw.stdout.splitlines(), fixed.stdout.splitlines()) if pair[0] != pair[1]]
                    expect(raw.stdout == fixed.stdout, f"prints differently ({fix}): {differ[:3]}")
                    expect(not [reason for reason in fixed.reasons if reason.startswith("off")], f"off: {dict(fixed.reasons)}")
                    total.update(fixed.total)
            yield f"seed {seed}, {threads} threads", one

    def staged():
        print(f"random programs: {total['to_device']} copies staged to the device, {total['from_device']} from it, "
              f"{total['to_driver']} left to the driver, {total['waits_made']} waits made first")
        expect(total["to_device"] >= 20 * len(options.seeds) and total["from_device"] >= 20 * len(options.seeds),
               "hardly any copy was staged: nothing was tested")
    yield "staged", staged


def main():
    parser = argparse.ArgumentParser()
    for name in ("shim", "simcuda", "cases", "random"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--only", choices=("cases", "settings", "faults", "random"))
    parser.add_argument("--case", action="append", help="of all, these only")
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3, 4])
    options = parser.parse_args()
    broken = 0
    for kind, make in (("cases", cases), ("settings", settings), ("faults", faults), ("random", random)):
        if options.only not in (None, kind):
            continue
        for name, one in make(options):
            if options.case and name not in options.case:
                continue
            try:
                one()
            except Broken as error:
                print(f"{name}: {error}", file=sys.stderr)
                broken += 1
    if broken:
        sys.exit(f"{broken} broken")


if __name__ == "__main__":
    main()
