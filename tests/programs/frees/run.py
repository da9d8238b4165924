#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reuse of device memory in mode fix on the simulated driver: its rules one by one, under faults, and random programs that must print what
they print without it.

    run.py --shim FILE --simcuda DIR --cases FILE --random FILE [--only cases|faults|random] [SEED...]

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
CASES = ("in-flight kernel asked other-context destroyed graph capturing reset released released-pinned freed-statuses forked threads ends no-context foreign wrong-frees free-async "
         "buffers attributes info many-contexts exported exported-again exported-range tokens sync-memops sync-memops-context others relaxed broken arrays arrays-drained array-format asked-unseen doubted doubted-later doubted-drained doubted-beside").split()
# What the rewrite calls of the driver by itself, and answers that must not harm: out of memory, unknown.
FAULTS = ("cuMemAlloc_v2", "cuMemFree_v2", "cuDeviceTotalMem_v2", "cuCtxGetDevice", "cuCtxGetCurrent", "cuEventCreate", "cuEventRecord",
          "cuEventQuery", "cuStreamQuery", "cuThreadExchangeStreamCaptureMode", "cuCtxGetId")
# Which call of `cases retry` fails for want of memory, and how many blocks are given back: those of its device, or of all.
RETRIES = {
    "cuMemAlloc_v2": (4, 1), "cuMemAllocPitch_v2": (1, 1), "cuMemAllocManaged": (2, 1), "cuMemAllocAsync": (1, 1),
    "cuArrayCreate_v2": (1, 1), "cuArray3DCreate_v2": (1, 1), "cuMemCreate": (1, 2), "cuModuleLoadData": (2, 1),
    "cuModuleGetFunction": (4, 1), "cuOccupancyMaxActiveBlocksPerMultiprocessor": (1, 1), "cuFuncGetAttribute": (1, 1), "cuStreamCreate": (2, 1), "cuStreamCreateWithPriority": (1, 1), "cuCtxCreate_v2": (1, 2),
    "cuCtxSetLimit": (1, 1), "cuDevicePrimaryCtxRetain": (3, 2), "cuGraphInstantiateWithFlags": (2, 1), "cuGraphUpload": (1, 1),
    "cuGraphAddMemAllocNode": (1, 1), "cuGraphAddNode": (1, 1),
    "cuLaunchKernel": (4, 0), "cuGraphLaunch": (1, 0),
}
LIMIT_S = 20
MEMORY = 1200000  # of the device, where little of it is wanted


class Broken(Exception):
    pass


def counts(folder):
    """Sums of what the processes' `frees` did, and the reasons they gave."""
    total, reasons = collections.Counter(), collections.Counter()
    for process in slip.processes(folder):
        for kind, body in slip.records(process.path):
            if kind == REWRITE and process.strings[struct.unpack_from("<I", body, 8)[0]] == "frees":
                total.update(dict(zip(FIELDS, struct.unpack_from(f"<{len(FIELDS)}Q", body, 16))))
        for (code, text), count in process.notes.items():
            if code in (NOTE_REWRITE, "rewrite"):
                reasons[text] += count
    return total, reasons


def run(options, command, fix="frees", **variables):
    """stdout, counts, reasons. `fix` None: without the library."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_"))}
        environment.update(LD_LIBRARY_PATH=options.simcuda, SIMCUDA_COSTS="none", **variables)
        if fix:
            environment.update(LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_OUT=folder, SLIPSTREAM_FIX=fix)
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
            # Beside the pinned pool, with which it shares batches and table.
            _, total, reasons = run(options, [options.cases, name], fix="pinned,frees")
            told = f"counts {dict(total)}, {dict(reasons)}"
            if name == "relaxed":
                expect(total["parked"] >= 200 and total["waits_avoided"] >= 200 and not total["real_frees"], told)
            elif name == "capturing":
                expect(total["hits"] >= 1, told)
            elif name == "reset":
                expect(total["held_bytes"] < 8192, told)
            elif name == "exported-again":
                expect(total["parked"] == 2 and total["real_frees"] == 1 and total["hits"] == 2, told)
            elif name in ("exported", "exported-range", "sync-memops", "sync-memops-context"):
                expect(not total["parked"] and total["real_frees"] == 1 and reasons["a block with attributes of its own"] == 1, told)
            elif name == "tokens":
                expect(total["parked"] == 1 and total["real_frees"] == 2 and reasons["a block with attributes of its own"] == 2, told)
            elif name == "arrays":
                expect(total["parked"] == 1 and total["real_frees"] == 2, told)
            elif name == "arrays-drained":
                expect(total["parked"] == 1 and total["real_frees"] == 1 and not total["held_bytes"], told)
            elif name == "doubted":
                expect(total["parked"] == 4 and total["real_frees"] == 5 and not total["held_bytes"], told)
            elif name in ("doubted-later", "doubted-drained"):
                expect(total["parked"] == 1 and total["real_frees"] == 1 and not total["held_bytes"], told)
            elif name == "doubted-beside":
                expect(total["parked"] == 1 and not total["real_frees"], told)
            elif name == "asked-unseen":
                expect(total["parked"] == 1 and total["hits"] == 1 and not [reason for reason in reasons if reason.startswith("off")], told)
            elif name == "others":
                expect(not total["parked"] and not total["real_frees"] and not total["hits"], told)
            elif name == "foreign":
                expect(total["real_frees"] == 1 and not total["parked"], told)
        yield name, one

    def long_way():
        """Where no free takes the short way the long one keeps the same rules. A list of denied sites is what sends them there."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("file no-such-library.so frees\n")
            file.flush()
            for name in ("in-flight", "other-context", "capturing", "foreign", "sync-memops", "freed-statuses"):
                run(options, [options.cases, name], fix="pinned,frees", SLIPSTREAM_DENY=file.name)

    def strict():
        _, total, _ = run(options, [options.cases, "strict"], SLIPSTREAM_RELAX="strict-free")
        expect(total["waits_made"] == 1 and not total["waits_avoided"], f"counts {dict(total)}")

    def order():
        """A list of relaxations without `free` leaves frees as they are: only strict-free makes them wait."""
        _, total, _ = run(options, [options.cases, "relaxed"], SLIPSTREAM_RELAX="order")
        expect(total["waits_avoided"] >= 200 and not total["waits_made"], f"counts {dict(total)}")

    def limit():
        """More than the limit is freed by the driver, and what was held above half of it with it."""
        _, total, _ = run(options, [options.cases, "limit", "1"], SIMCUDA_MEMORY=str(8 << 30))
        expect(total["limit_bytes"] == (1 << 30) + (1 << 28), f"counts {dict(total)}")
        _, total, reasons = run(options, [options.cases, "limit", "40"], SIMCUDA_MEMORY=str(8 << 30))
        expect(total["peak_bytes"] == 1 << 30, f"counts {dict(total)}")
        expect(total["held_bytes"] <= total["limit_bytes"], "more is held than the limit")
        expect(1 <= reasons["a free above the limit"] <= 4 and total["real_frees"] >= 16, f"{dict(total)} {dict(reasons)}")

    def array_limit():
        """A thirty-second of the device in arrays, no more."""
        _, total, reasons = run(options, [options.cases, "array-limit"], SIMCUDA_MEMORY=str(1 << 30))
        expect(total["parked"] >= 4 and total["peak_bytes"] == 32 << 20 and reasons["a free above the limit"] >= 1 and
               total["real_frees"] >= 3, f"{dict(total)} {dict(reasons)}")

    def asked():
        """Nobody asks for a context that has been destroyed: its handle may be anything."""
        with tempfile.TemporaryDirectory() as folder:
            journal = os.path.join(folder, "journal")
            run(options, [options.cases, "many-contexts"], SIMCUDA_JOURNAL=journal)
            with open(journal, encoding="utf-8") as stream:
                calls = [line for line in stream if " cuCtxGetId " in line and " ctx=0 " not in line]
        expect(calls and all(" -> 0 " in line for line in calls), f"{[line for line in calls if ' -> 0 ' not in line][:3]} of {len(calls)}")

    def ended_meanwhile():
        """As above, where another thread destroys it."""
        with tempfile.TemporaryDirectory() as folder:
            journal = os.path.join(folder, "journal")
            run(options, [options.cases, "ended-meanwhile"], SIMCUDA_JOURNAL=journal)
            with open(journal, encoding="utf-8") as stream:
                calls = [line for line in stream if " cuCtxGetId " in line and " ctx=0 " not in line]
        expect(calls and all(" -> 0 " in line for line in calls), f"{[line for line in calls if ' -> 0 ' not in line][:3]} of {len(calls)}")

    def full():
        """Every allocation finds room, though all that is free is held."""
        _, total, _ = run(options, [options.cases, "full"], SIMCUDA_MEMORY=str(32 << 20))
        expect(total["purges"] >= 6, f"counts {dict(total)}")
        _, total, _ = run(options, [options.cases, "full-capture"], SIMCUDA_MEMORY=str(32 << 20))
        expect(total["purges"] == 1, f"counts {dict(total)}")
        for name in ("full-twice", "full-stream", "full-contexts", "full-info"):
            _, total, _ = run(options, [options.cases, name], SIMCUDA_MEMORY=str(32 << 20))
            expect(total["purges"] >= 1, f"{name}: counts {dict(total)}")
        _, total, reasons = run(options, [options.cases, "full-waited-for"], SIMCUDA_MEMORY=str(32 << 20))
        expect(total["purges"] == 1 and reasons["held memory stays, since work does not end"] == 1, f"counts {dict(total)} {dict(reasons)}")

    def tight():
        """While most of the memory is in use nothing is held that could go back without a wait."""
        why = "most of the memory is in use, and nothing is at work"
        for name, freed, parked in (("tight", 4, 0), ("tight-context", 4, 4), ("tight-free", 5, 4), ("tight-beside", 4, 4)):
            _, total, reasons = run(options, [options.cases, name], SIMCUDA_MEMORY=str(32 << 20))
            expect(total["real_frees"] == freed and total["parked"] == parked and reasons[why] and not total["purges"], f"{name}: counts {dict(total)} {dict(reasons)}")
        _, total, _ = run(options, [options.cases, "tight-once"], SIMCUDA_MEMORY=str(32 << 20))
        expect(total["parked"] == 4 and total["purges"] == 1, f"counts {dict(total)}")
        _, total, reasons = run(options, [options.cases, "not-tight"], SIMCUDA_MEMORY=str(32 << 20))
        expect(total["hits"] == 1 and not total["real_frees"] and not reasons[why], f"counts {dict(total)} {dict(reasons)}")

    def blocking():
        _, total, reasons = run(options, [options.cases, "others"], CUDA_LAUNCH_BLOCKING="1")
        expect(not total["misses"] and reasons["off: CUDA_LAUNCH_BLOCKING is set"] == 1, f"{dict(total)} {dict(reasons)}")

    def no_ids():
        """A driver before 12.0 cannot tell a primary context from the one that was there before: nothing is kept."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(options.simcuda, "libcuda.so.1"), "rb") as stream:
                driver = stream.read()
            with open(os.path.join(folder, "libcuda.so.1"), "wb") as stream:
                stream.write(driver.replace(b"\0cuCtxGetId\0", b"\0cuCtxGotId\0"))
            old = argparse.Namespace(**{**vars(options), "simcuda": folder})
            for name in ("released", "released-pinned"):
                _, total, reasons = run(old, [options.cases, name], "pinned,frees")
                expect(not total["parked"] and reasons["off: this driver has no ids of contexts"] == 1, f"{dict(total)} {dict(reasons)}")

    def switched_off():
        """The driver frees, and waits."""
        _, total, _ = run(options, [options.cases, "strict"], fix="pinned")
        expect(not total, f"counts {dict(total)}")

    def ends_tight():
        """What threads hold in contexts that end meanwhile is there for the others all the same."""
        for _ in range(5):
            _, total, _ = run(options, [options.cases, "ends-tight"], SIMCUDA_MEMORY=str(7 << 20))
            expect(total["purges"] >= 1, f"counts {dict(total)}")
        for name in ("ends-slowly", "ends-later"):
            run(options, [options.cases, name], SIMCUDA_MEMORY=str(32 << 20))

    yield "long-way", long_way
    yield "strict", strict
    yield "order", order
    yield "ends-tight", ends_tight
    yield "limit", limit
    yield "array-limit", array_limit
    yield "asked-of-contexts", asked
    yield "ended-meanwhile", ended_meanwhile
    yield "full", full
    yield "tight", tight
    yield "launch-blocking", blocking
    yield "switched-off", switched_off
    yield "no-ids", no_ids


def faults(options):
    for function in FAULTS:
        for number in ("1", "2", "3", "5", "8", "2+"):
            for status in (2, 999):
                if function == "cuCtxGetId" and number == "1":
                    continue
                # The program's own first allocation is not what is tried here.
                if function == "cuMemAlloc_v2" and number in ("1", "2+"):
                    continue
                yield f"{function} {number} {status}", lambda f=function, n=number, s=status: run(
                    options, [options.cases, "faults"], SIMCUDA_FAIL=f"{f}:{n}:{s}")
    for function, (number, freed) in RETRIES.items():
        def one(function=function, number=number, freed=freed):
            fail = f"{function}:{number}:2"
            out, total, _ = run(options, [options.cases, "retry", function], SIMCUDA_FAIL=fail)
            expect(out == ("0\n" if freed else "2\n"), f"status {out.strip()}")
            expect(total["real_frees"] == freed and total["purges"] == (1 if freed else 0), f"counts {dict(total)}")
            out, _, _ = run(options, [options.cases, "retry", function], fix=None, SIMCUDA_FAIL=fail)
            expect(out == "2\n", f"status {out.strip()} without mode fix: another call failed than was meant")
        yield f"retry {function}", one


def random(options):
    total = collections.Counter()
    for seed in options.seeds:
        for threads, steps, large in ((1, 800, False), (1, 500, True), (4, 300, False)):
            def one(seed=seed, threads=threads, steps=steps, large=large):
                command = [options.random, str(seed), str(steps), str(threads)] + ["large"] * large
                variables = {"SIMCUDA_SEED": str(seed)}
                if large:
                    variables["SIMCUDA_MEMORY"] = str(MEMORY)
                if threads == 1:
                    variables["SIMCUDA_TIME"] = "virtual"
                raw, _, _ = run(options, command, None, **variables)
                fixed, found, reasons = run(options, command, "pinned,frees", **variables)
                differ = [pair for pair in zip(raw.splitlines(), fixed.splitlines()) if pair[0] != pair[1]]
                expect(raw == fixed, f"prints differently: {differ[:3]}")
                expect(not [reason for reason in reasons if reason.startswith("off")], f"off: {dict(reasons)}")
                total.update(found)
                total["refused"] += fixed.count("alloc 2\n")
            yield f"seed {seed}, {threads} threads{', little memory' * large}", one

    def hits():
        print(f"random programs: {total['hits']} blocks used again, {total['misses']} allocations by the driver, "
              f"{total['waits_avoided']} waits avoided, {total['real_frees']} real frees, {total['purges']} times all given back, "
              f"{total['refused']} times no memory all the same")
        expect(total["hits"] >= 5 * len(options.seeds), "hardly any block was used again: nothing was tested")
    yield "hits", hits


def main():
    parser = argparse.ArgumentParser()
    for name in ("shim", "simcuda", "cases", "random"):
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
