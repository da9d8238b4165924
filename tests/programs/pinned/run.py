#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pinned pool of mode fix on the simulated driver: its rules one by one, and random programs that must print what they print without it.

    run.py --shim FILE --simcuda DIR --cases FILE --random FILE --signals FILE --signals-driver FILE --failed-launch FILE [--only cases|random|faults] [SEED...]

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

REWRITE, NOTE_REWRITE = 17, 11
FIELDS = ("hits misses unproven parked waits_avoided waits_made real_frees purges events queries held_bytes peak_bytes live_bytes "
          "limit_bytes").split()
CASES = ("in-flight asked other-context other-legacy destroyed other-thread ended-thread legacy full-queue capturing reset forked threads ends no-context "
         "buffers relaxed many-streams broken unseen unseen-end unseen-record unseen-function detached released released-busy many-contexts foreign-flags kept-elsewhere freed-elsewhere kept-by-the-dead launched-elsewhere twice write-combined "
         "reset-elsewhere used-elsewhere-at-the-end end-waits-for-no-more").split()
# What the rewrite calls of the driver by itself, and answers that must not harm: out of memory, unknown.
FAULTS = ("cuMemHostAlloc", "cuMemFreeHost", "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuStreamQuery",
          "cuThreadExchangeStreamCaptureMode", "cuCtxGetId")
LIMIT_S = 10


class Broken(Exception):
    pass


def counts(folder):
    """Sums of what the processes' rewrites did, and the reasons they gave."""
    total, reasons = collections.Counter(), collections.Counter()
    for process in slip.processes(folder):
        for kind, body in slip.records(process.path):
            if kind == REWRITE:
                total["records"] += 1
                total.update(dict(zip(FIELDS, struct.unpack_from(f"<{len(FIELDS)}Q", body, 16))))
        for (code, text), count in process.notes.items():
            if code in (NOTE_REWRITE, "rewrite"):
                reasons[text] += count
    # Of one magazine `live` may be less than nothing.
    return collections.Counter({field: value % 2**64 for field, value in total.items()}), reasons


def run(options, command, fix="pinned", **variables):
    """stdout, counts, reasons. `fix` None: without the library."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_"))}
        environment.update(LD_LIBRARY_PATH=options.simcuda, SIMCUDA_COSTS="none", **variables)
        if fix:
            environment.update(LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX=fix, SLIPSTREAM_OUT=folder)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Broken("hangs") from None
        if done.returncode:
            raise Broken(f"ended with {done.returncode}: {done.stderr.strip()[:400]}")
        return done.stdout, *counts(folder)


def expect(condition, text):
    if not condition:
        raise Broken(text)


def cases(options):
    for name in CASES:
        def one(name=name):
            _, total, reasons = run(options, [options.cases, name])
            if name == "relaxed":
                expect(total["parked"] >= 200 and total["waits_avoided"] >= 200 and not total["real_frees"], f"counts {dict(total)}")
            elif name in ("unseen-record", "unseen-function"):
                expect(reasons["off: calls may go past the rooms"] and not total["hits"], f"counts {dict(total)}, {dict(reasons)}")
            elif name == "many-contexts":
                expect(total["events"] == 80, f"counts {dict(total)}: events of contexts that have ended take place")
            elif name == "detached":
                expect(reasons["off: work on streams that cannot be followed"] and not total["hits"], f"counts {dict(total)}, {dict(reasons)}")
            elif name == "unseen-end":
                expect(reasons["off: calls may go past the rooms"] and not total["queries"], f"counts {dict(total)}, {dict(reasons)}")
            elif name == "capturing":
                expect(total["hits"] >= 8, f"counts {dict(total)}: nothing is given out behind a capture")
            elif name == "reset":
                expect(not total["held_bytes"], f"counts {dict(total)}: blocks of a context that is gone")
            elif name == "launched-elsewhere":
                expect(total["hits"] >= 9 and total["waits_avoided"] == 1, f"counts {dict(total)}")
            elif name == "freed-elsewhere":
                expect(total["real_frees"] == 1 and reasons["a free in another context"] == 1, f"counts {dict(total)}, {dict(reasons)}")
            elif name == "kept-by-the-dead":
                expect(total["records"] == 2, f"counts {dict(total)}: threads one after the other do not share a magazine")
            elif name == "reset-elsewhere":
                expect(not total["held_bytes"], f"counts {dict(total)}: blocks of a context that is gone")
            elif name == "write-combined":
                expect(not total["parked"] and not total["hits"] and not total["misses"], f"counts {dict(total)}")
            elif name == "twice":
                expect(total["parked"] == 508, f"counts {dict(total)}: not every free was counted once")
        yield name, one

    def long_way():
        """Where no call takes the short way the long one keeps the same rules. A list of denied sites is what sends them there."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("file no-such-library.so pinned\n")
            file.flush()
            for name in ("in-flight", "other-context", "launched-elsewhere", "capturing", "freed-elsewhere"):
                run(options, [options.cases, name], SLIPSTREAM_DENY=file.name)
            _, total, _ = run(options, [options.cases, "zeroed"], SLIPSTREAM_ZERO="full", SLIPSTREAM_DENY=file.name)
            expect(total["hits"] == 5 and total["records"] == 1, f"counts {dict(total)}: a magazine")

    def strict():
        _, total, _ = run(options, [options.cases, "strict"], SLIPSTREAM_RELAX="strict-free")
        expect(total["waits_made"] == 1 and not total["waits_avoided"], f"counts {dict(total)}")

    def limit():
        """More than the limit is freed by the driver, and of what was held above half of it at least what one look at the clock lets go (GIVE_BACK_ONCE)."""
        _, total, _ = run(options, [options.cases, "limit", "1"])
        blocks = total["limit_bytes"] // (64 << 20) + 4
        _, total, reasons = run(options, [options.cases, "limit", str(blocks)])
        expect(total["peak_bytes"] <= total["limit_bytes"], "more was held than the limit")
        expect(total["held_bytes"] <= total["limit_bytes"], "more is held than the limit")
        expect(reasons["a free above the limit"] >= 1 and total["real_frees"] > 4, f"{dict(total)} {dict(reasons)}")

    def zeroed():
        _, total, _ = run(options, [options.cases, "zeroed"], SLIPSTREAM_ZERO="full")
        expect(total["hits"] == 5, f"counts {dict(total)}")

    def old():
        """Blocks that nobody used are freed; the one that the program goes on with is not."""
        _, total, reasons = run(options, [options.cases, "old"], SLIPSTREAM_POOL_AGE="100ms")
        expect(total["real_frees"] == 5 and total["misses"] == 6, f"counts {dict(total)}")
        expect(3 <= reasons["a block was not used for long"] <= 5, f"{dict(reasons)}")
        _, total, _ = run(options, [options.cases, "old"], SLIPSTREAM_POOL_AGE="0")
        expect(not total["real_frees"], f"counts {dict(total)}")

    def old_beside():
        """Nothing goes for its age while anything works, in whatever context."""
        _, total, reasons = run(options, [options.cases, "old-beside-work"], SLIPSTREAM_POOL_AGE="20ms")
        expect(total["real_frees"] == 1 and reasons["a block was not used for long"] == 1, f"counts {dict(total)}, {dict(reasons)}")

    def setting():
        """SLIPSTREAM_POOL_LIMIT."""
        for text, wanted in (("1M", 1 << 20), ("30000", 30000), ("1%", None)):
            _, total, _ = run(options, [options.cases, "mixed"], SLIPSTREAM_POOL_LIMIT=text)
            expect(total["limit_bytes"] == wanted or not wanted and 1 << 20 < total["limit_bytes"] < 1 << 40, f"counts {dict(total)}")
            expect(max(total["held_bytes"], total["peak_bytes"]) <= total["limit_bytes"], f"counts {dict(total)}")
        # With no room for any block each allocation is the driver's, and is counted as that.
        _, total, reasons = run(options, [options.cases, "mixed"], SLIPSTREAM_POOL_LIMIT="0")
        expect(not total["hits"] and total["misses"] == 12000 == reasons["larger than the pool may hold"], f"counts {dict(total)} {dict(reasons)}")

    def mixed():
        """What the driver has for the program is little more than the program asked for."""
        out, total, _ = run(options, [options.cases, "mixed"])
        expect(int(out) <= total["live_bytes"] <= 1.15 * int(out), f"{total['live_bytes']} bytes live for {int(out)}")
        expect(total["hits"] >= 1000 and total["hits"] + total["misses"] == 12000, f"counts {dict(total)}")

    def signals():
        """No call is lost to the counts, whether it went the short way or was made by a handler in the middle of one."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(options.signals_driver, os.path.join(folder, "libcuda.so.1"))
            environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
            environment.update(LD_LIBRARY_PATH=folder, LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX="pinned", SLIPSTREAM_OUT=folder)
            done = subprocess.run([options.signals], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            expect(done.returncode == 0, f"ended with {done.returncode}: {done.stderr.strip()}")
            total, _ = counts(folder)
            calls = sum((collections.Counter(process.counts) for process in slip.processes(folder)), collections.Counter())
            for name in ("cuMemHostAlloc", "cuMemFreeHost"):
                expect(calls[name] == int(done.stdout), f"{calls[name]} calls of {name} for {done.stdout.strip()}")
            expect(total["hits"] >= 1900, f"counts {dict(total)}")

    def failed_launch():
        """A broken context is noticed whichever launch of a row says it first."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(options.signals_driver, os.path.join(folder, "libcuda.so.1"))
            environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
            environment.update(LD_LIBRARY_PATH=folder, LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX="pinned", SLIPSTREAM_OUT=folder)
            for number in (2, 5, 10, 20, 40, 60, 70, 100):
                done = subprocess.run([options.failed_launch, str(number)], env=environment, capture_output=True, text=True,
                                      timeout=LIMIT_S, check=False)
                expect(done.returncode == 0, f"launch {number}: ended with {done.returncode}: {done.stderr.strip()}")

    def blocking():
        _, total, reasons = run(options, [options.cases, "buffers-off"], CUDA_LAUNCH_BLOCKING="1")
        expect(not total["hits"] and reasons["off: CUDA_LAUNCH_BLOCKING is set"] == 1, f"{dict(total)} {dict(reasons)}")

    yield "zeroed", zeroed
    yield "mixed", mixed
    yield "old", old
    yield "old-beside-work", old_beside
    yield "long-way", long_way
    yield "limit-setting", setting
    yield "signals", signals
    yield "failed-launch", failed_launch
    yield "strict", strict
    yield "limit", limit
    yield "launch-blocking", blocking


def faults(options):
    for function in FAULTS:
        for number in ("1", "2", "3", "5", "8", "2+"):
            for status in (2, 999):
                if function == "cuCtxGetId" and number == "1":
                    continue
                yield f"{function} {number} {status}", lambda f=function, n=number, s=status: run(
                    options, [options.cases, "faults"], SIMCUDA_FAIL=f"{f}:{n}:{s}")

    def purge():
        """Out of memory once: held blocks are given back, and the allocation succeeds."""
        _, total, _ = run(options, [options.cases, "purge"], SIMCUDA_FAIL="cuMemHostAlloc:3:2")
        expect(total["purges"] == 1 and total["real_frees"] == 2, f"counts {dict(total)}")
    yield "purge", purge

    yield "refused-once", lambda: run(options, [options.cases, "refused-once"], SIMCUDA_FAIL="cuMemHostAlloc:2+:2")

    def elsewhere():
        _, total, _ = run(options, [options.cases, "purge-elsewhere"], SIMCUDA_FAIL="cuMemHostAlloc:3:2")
        expect(total["purges"] == 1 and total["real_frees"] == 2, f"counts {dict(total)}")
    yield "purge-elsewhere", elsewhere

    def statuses():
        """What a freed block answers is what the driver answers of one that it has freed."""
        for name in ("freed-statuses", "failed-statuses"):
            for fix in (None, "pinned", "pinned,frees"):
                _, total, _ = run(options, [options.cases, name], fix)
                expect(bool(total["parked"]) == bool(fix), f"{name} with {fix}: counts {dict(total)}")
    yield "statuses", statuses

    def doubted():
        for name, freed in (("doubted", 2), ("doubted-later", 1), ("doubted-drained", 1), ("doubted-elsewhere", 0)):
            _, total, _ = run(options, [options.cases, name])
            expect(total["real_frees"] == freed and bool(total["held_bytes"]) == (not freed), f"{name}: counts {dict(total)}")
    yield "doubted", doubted

    def contexts():
        _, total, _ = run(options, [options.cases, "purge-contexts"], SIMCUDA_FAIL="cuMemHostAlloc:3:2")
        expect(total["purges"] == 1 and total["real_frees"] == 2 and not total["held_bytes"], f"counts {dict(total)}")
    yield "purge-contexts", contexts

    def others():
        """Calls for other memory get that of the pool, too: without the library they fail."""
        for function, number, fix in (("cuMemAlloc_v2", 2, "pinned"), ("cuMemAlloc_v2", 2, "pinned,frees"), ("cuMemHostRegister_v2", 1, "pinned")):
            _, total, _ = run(options, [options.cases, "purge-others"], fix, SIMCUDA_FAIL=f"{function}:{number}:2")
            expect(total["purges"] == 1 and total["real_frees"] == 1, f"{function} with {fix}: counts {dict(total)}")
            try:
                run(options, [options.cases, "purge-others"], None, SIMCUDA_FAIL=f"{function}:{number}:2")
            except Broken:
                continue
            raise Broken(f"{function}: another call failed than was meant")
    yield "purge-others", others


def random(options):
    total = collections.Counter()
    for seed in options.seeds:
        for threads, steps in ((1, 800), (4, 300)):
            def one(seed=seed, threads=threads, steps=steps):
                command = [options.random, str(seed), str(steps), str(threads)]
                variables = {"SIMCUDA_SEED": str(seed)}
                if threads == 1:
                    variables["SIMCUDA_TIME"] = "virtual"
                raw, _, _ = run(options, command, None, **variables)
                fixed, found, reasons = run(options, command, "pinned", **variables)
                differ = [pair for pair in zip(raw.splitlines(), fixed.splitlines()) if pair[0] != pair[1]]
                expect(raw == fixed, f"prints differently: {differ[:3]}")
                expect(not [reason for reason in reasons if reason.startswith("off")], f"off: {dict(reasons)}")
                total.update(found)
            yield f"seed {seed}, {threads} threads", one

    def hits():
        print(f"random programs: {total['hits']} blocks used again, {total['misses']} allocations by the driver, "
              f"{total['waits_avoided']} waits avoided, {total['events']} events, {total['queries']} queries")
        expect(total["hits"] >= 5 * len(options.seeds), "hardly any block was used again: nothing was tested")
    yield "hits", hits


def main():
    parser = argparse.ArgumentParser()
    for name in ("shim", "simcuda", "cases", "random", "signals", "signals-driver", "failed-launch"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--only", choices=("cases", "random", "faults"))
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3, 4])
    options = parser.parse_args()
    broken = 0
    for kind, make in (("cases", cases), ("faults", faults), ("random", random)):
        if options.only not in (None, kind):
            continue
        for name, one in make(options):
            try:
                one()
            except Broken as error:
                print(f"{name}: {error}", file=sys.stderr)
                broken += 1
    if broken:
        sys.exit(f"{broken} broken")


if __name__ == "__main__":
    main()
