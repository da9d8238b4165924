#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rewritten default stream on the simulated driver: each case says the same with it and without, and the driver is given what it should be.

    run.py --shim FILE --simcuda DIR --cases FILE --deadlocks FILE [--only cases|faults|settings|deadlocks|proofs|known] [--case NAME]... [--without NAME]... [--limit S] [--show]

Exit status 1 and what differs, where a rule is broken. --show prints what the driver was given in each case.

What is expected is written as the driver is given it, between begin() and end() of the program (| where that is twice): `launch a` on stream a, `record E a`
of the program's event E, `record L` of an event of ours, and so on. Streams: N the legacy stream itself, L its substitute, M one of another context, T
the thread's own, small letters the program's.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "entry"))
import slip  # noqa: E402

# The word of SLIPSTREAM_FIX that switches the rewrite on.
SWITCH = "streams"
LIMIT_S = 30
SEEDS = (None, "1", "2")
BEGIN, END, LETTER = 1001, 1002, 2000

CALLS = {
    "cuLaunchKernel": "launch", "cuLaunchKernelEx": "launch-ex", "cuLaunchCooperativeKernel": "launch-cooperative", "cuEventRecord": "record",
    "cuEventRecordWithFlags": "record", "cuStreamWaitEvent": "wait", "cuStreamSynchronize": "synchronize", "cuStreamQuery": "query",
    "cuLaunchHostFunc": "function", "cuStreamAddCallback": "callback", "cuGraphLaunch": "graph", "cuStreamWaitValue32_v2": "wait-value",
    "cuStreamWriteValue32_v2": "write-value", "cuStreamWriteValue64_v2": "write-value", "cuStreamBatchMemOp_v2": "batch",
    "cuMemcpyHtoDAsync_v2": "copy", "cuMemcpyDtoHAsync_v2": "copy", "cuMemcpyDtoDAsync_v2": "copy", "cuMemcpyDtoH_v2": "copy-synchronous",
    "cuMemsetD8Async": "memset", "cuMemAllocAsync": "allocate", "cuMemFreeAsync": "free", "cuStreamDestroy_v2": "destroy",
    "cuStreamEndCapture": "end-capture", "cuStreamSetAttribute": "set-attribute", "cuStreamCopyAttributes": "copy-attributes",
}
LINE = re.compile(r"call (\d+) (\w+?)(_ptsz|_ptds)?((?: \w+=\S+)*) -> (\d+) wait=[yn]")

# What the driver is given, in mode fix. None: only what the program says is compared.
CASES = {
    "one-dirty-stream-one-record-one-wait":
        "record L, wait a, launch a, record N, wait L, launch L, record L, wait a, launch a, launch a, record N, wait L, launch L, launch L, launch L",
    "two-dirty-streams-one-join":
        "record L, wait a, launch a, wait b, launch b, record N, wait L, launch L, launch L, record L, wait b, launch b, wait a, launch a",
    "non-blocking-stream-no-barrier": "launch n | launch L",
    "per-thread-stream-joined": "record L, wait T, launch T, record N, wait L, launch L, record L, wait T, launch T, launch T",
    "ended-threads-streams-joined": "record N, wait L, launch L",
    "destroyed-dirty-stream-joined": "launch a, destroy a, record N, wait L, launch L | record L, wait b, launch b",
    "destroyed-clean-stream-no-barrier": "destroy a, launch L",
    "new-stream-waits-for-pending": "record L, wait b, launch b",
    "gates-open-in-the-wrong-order": None,
    "only-legacy-nothing-added": "as raw",
    "only-blocking-nothing-added": "as raw",
    "events-stand-for-both-sides":
        "launch a, record N, wait L, record E L, wait E n | "
        "record G n, wait G L, record L, wait a, launch a, record F a, record N, wait L, wait F L, record E L",
    "timing-events-enclose-what-is-between": None,
    "query-of-the-legacy-stream-is-true": None,
    "query-of-a-blocking-stream-is-true": None,
    "synchronize-waits-for-both-sides": None,
    "wait-on-the-legacy-stream-holds-blocking-ones": "wait E L, record L, wait a, launch a",
    "host-functions-in-order":
        "record L, wait a, function a, record N, wait L, function L, function L, record L, wait a, function a",
    "callback-gets-the-programs-handle": "record L, wait N, callback N, callback a, callback N",
    "graphs-in-order": "graph a, record N, wait L, graph L, record L, wait a, graph a, record N, wait L, launch L",
    "memory-operations-in-order": "wait-value L, record L, wait a, launch a | record N, wait L, write-value L, write-value L, batch L",
    "launch-structure-unchanged": "record N, wait L, launch-ex",
    "every-handle-and-name":
        "record N, wait L, launch L, launch L, record L, wait T, launch T, launch T, launch T, wait a, launch a, record E T, record N, wait L, record E L",
    "attributes-reach-the-substitute":
        "set-attribute N, copy-attributes L, launch L, launch L, copy-attributes a, copy-attributes N, copy-attributes L, launch L",
    "copies-that-never-wait-go-along":
        "record N, wait L, copy L, copy L, memset L, copy L, record L, wait a, launch a, record L, wait N, memset N, copy N, launch a, copy-synchronous, copy N",
    "synchronous-calls-see-all-before": None,
    "allocations-in-order": "record L, wait N, allocate N, record N, wait L, memset L, launch L, record L, wait N, free N, launch a",
    "refused-calls-leave-order": None,
    "capturing-stream-gets-no-barrier": "launch a, launch a, end-capture a, record L, wait a, launch a",
    "others-stay-in-order-beside-a-capture": "record L, wait b, launch b, launch a",
    "stream-drawn-into-a-capture-gets-no-barrier": "launch b, launch a | record L, wait b, launch b, wait a, launch a",
    "legacy-call-beside-a-capture-is-refused": "launch N | launch a, record N, wait L, launch L",
    "legacy-call-beside-a-loose-capture-is-native":
        "record L, wait N, launch N, launch a, launch N | record N, wait L, memset L, launch L, record L, wait a, launch a",
    "every-touch-beside-a-capture": None,
    "every-touch-beside-a-global-capture": None,
    "every-touch-beside-a-loose-capture": None,
    "every-touch-beside-a-loose-global-capture": None,
    "what-a-capture-does-not-take": None,
    "long-queue-beside-a-capture-gets-its-barrier": "launch a, record L, wait b, launch b, launch b, launch a",
    "long-queue-waits-for-no-other-stream": "record L, wait b, write-value b, launch b",
    "query-beside-a-capture-holds-nobody": None,
    "doubt-beside-a-capture-leaves-it": None,
    "two-contexts-two-substitutes":
        "record L, wait b, launch b, record N, wait L, launch L, record M, wait a, launch a, record N, wait M, launch M",
    "peer-copies-in-order-on-both-sides": None,
    "context-ends-with-pending-work": "record L, wait b, launch b, record N, wait L, launch L",
    "primary-context-is-reset": "launch L, record L, wait a, launch a, record N, wait L, launch L",
    "unseen-blocking-stream-stays-in-order": "record L, wait N, launch u | memset N, launch N, launch u, launch a",
    "unseen-loose-stream-waits-for-nothing": "record L, wait N, launch u | memset N, launch N, launch u, launch a",
    "unknown-table-goes-native-in-order": "record L, wait N, memset N, launch a, launch N",
    "deep-bound-library-goes-native-in-order": "record L, wait N, memset N, launch a, launch N",
    "forked-child-leaves-the-parent-alone": "record L, wait a, launch a, record N, wait L, launch L",
    "broken-context-fails-every-call": None,
    "query-of-a-blocking-stream-behind-its-event-is-true": None,
    "recycled-blocks-are-free": None,
    "peer-copy-on-a-stream-holds-nobody-elsewhere": None,
    "refused-end-of-a-context-leaves-order": "launch L, record L, wait b, launch b, wait a, launch a",
    "refused-end-of-a-context-holds-nobody": "wait b, launch b, synchronize b",
    "released-context-is-left-alone": "synchronize N",
    "given-up-in-order": "record L, wait N, launch a, launch N, launch a",
    "refused-fence-keeps-errno": "launch a, launch N, launch a, launch N",
    "legacy-work-alone-and-to-and-fro": None,
    "place-of-an-ended-context-is-new": "launch a, copy-attributes L, record N, wait L, launch L, record L, wait a, launch a",
    "place-of-a-native-context-is-new": "record L, wait a, launch a, record N, wait L, launch L",
    "place-of-a-mixed-context-is-new": "memset N, memset N",
    "two-contexts-change-places":
        "record L, wait b, launch b, record N, wait L, launch L, launch a, record N, wait M, launch M | "
        "record O, wait b, launch b, record N, wait O, launch O, launch a, record N, wait P, launch P",
    "unknown-table-goes-native-in-every-context": None,
    "nothing-on-the-legacy-stream-holds-nobody": None,
    "no-bytes-at-once-hold-nobody": None,
    "turns-order-all-streams": "record N, wait L, launch L, launch b",
    "nothing-on-a-blocking-stream-waits-for-nobody": None,
    "nothing-on-a-threads-own-stream-waits-for-nobody": None,
    "nothing-in-between-leaves-order": None,
    "refused-operation-is-none": "record N, wait L, launch L, launch L, launch a, launch a, launch a",
    "batch-on-the-legacy-stream-is-refused": None,
    "calls-of-a-host-function-are-refused": None,
}
# What nobody can prove: how a stream that was not seen made is ordered, that a wait of the host is one for all streams, that a context told of its end and went on.
NOT_PROVED = ("refused-calls-leave-order", "unseen-blocking-stream-stays-in-order", "unseen-loose-stream-waits-for-nothing",
              "place-of-a-native-context-is-new", "doubt-beside-a-capture-leaves-it")
# What is known to differ, and is in no test: `--only known` tells whether it still does.
KNOWN = ("refused-operation-on-legacy-holds-nobody", "refused-operation-on-blocking-waits-for-nobody", "unknown-table-holds-nobody",
         "unseen-stream-holds-nobody")
# large-copy-behind-legacy: the simulated driver's large pageable copy waits for what was put on its own stream, our wait for the substitute included, and not for what the
# legacy stream orders before it. Measured is only that it waits for its stream's own work; that a real one, which hands the source on in pieces, returns here is not known.
KNOWN_DEADLOCKS = ("deepest-queues-opened-by-their-own-thread", "large-copy-behind-legacy")
# What the rewrite itself calls. Of the program's own calls none may fail: these begin where only ours are.
FAULTS = ("cuEventCreate", "cuStreamCreateWithPriority", "cuEventRecord", "cuStreamWaitEvent", "cuStreamGetPriority")
DEADLOCKS = (
    "full-legacy-stream full-blocking-stream full-blocking-stream-behind-legacy full-legacy-stream-behind-blocking full-per-thread-stream "
    "full-stream-opened-by-a-working-thread full-stream-behind-legacy-opened-by-a-working-thread full-stream-opened-by-a-thread-on-legacy "
    "deep-queues-opened-by-their-own-thread first-launch-on-legacy first-launch-on-blocking first-launch-on-loose "
    "mutex-held-while-submitting mutex-held-while-synchronizing persistent-kernel persistent-kernel-on-blocking legacy-polled stuck-on-legacy "
    "stuck-on-legacy-many-streams stuck-on-stream stuck-on-event stuck-on-context stuck-in-copy snapshot-behind-legacy snapshot-behind-blocking "
    "capture-begins-during-a-wait "
    "threads-mix-everything threads-on-both-sides threads-share-new-streams threads-make-contexts threads-exit contexts-end-beside-each-other "
    "process-exits signal-handlers-launch wait-beside-full-queue refused-beside-capture refused-post refused-barriers").split()
# Programs of these in which barriers are refused: function, number of the call. 5+: the last post and the turn back in its place.
REFUSED = {"refused-post": [(function, str(n)) for function in ("cuEventRecord", "cuStreamWaitEvent") for n in range(1, 9)],
           "refused-barriers": [(function, str(n)) for function in ("cuEventRecord", "cuStreamWaitEvent") for n in range(1, 9)] + [("cuStreamWaitEvent", "5+")]}


class Broken(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Broken(text)


class Done:
    """What a run left: what it said, the driver's journal, the notes of the shim."""

    def __init__(self, stdout, folder, journal):
        self.stdout, self.notes = stdout, {}
        for process in slip.processes(folder):
            for (_, text), count in process.notes.items():
                self.notes[text] = self.notes.get(text, 0) + count
        self.journal = []
        if os.path.exists(journal):
            with open(journal, encoding="utf-8") as stream:
                self.journal = stream.read().splitlines()

    def parts(self):
        """What was called between begin() and end(): (thread, function, form, arguments, status) each, and the letters of streams and events."""
        letters, parts, letter, inside = {}, [], None, False
        for line in self.journal:
            match = LINE.fullmatch(line)
            if not match:
                continue
            arguments = dict(item.split("=", 1) for item in match[4].split())
            # Which context is current is asked in every call that needs to know: a getter.
            if match[2] in ("cuCtxGetId", "cuStreamIsCapturing"):
                continue
            if match[2] == "cuDeviceGetName":
                number = int(arguments["len"])
                inside = number == BEGIN
                if inside:
                    parts.append([])
                letter = chr(number - LETTER) if number > LETTER else None
                continue
            if letter:
                letters[arguments.get("hStream", arguments.get("hEvent"))] = letter
                letter = None
            elif inside:
                parts[-1].append((match[1], match[2], match[3], arguments, match[5]))
        return parts, letters

    def sequence(self):
        parts, letters = self.parts()
        substitutes = iter("LMOP")
        for part in parts:
            for _, function, form, arguments, _ in part:
                stream = arguments.get("hStream", "")
                if function in CALLS and stream.startswith("s") and stream not in letters:
                    letters[stream] = next(substitutes)
        return " | ".join(", ".join(filter(None, (self.one(call, letters) for call in part))) for part in parts)

    @staticmethod
    def one(call, letters):
        _, function, form, arguments, _ = call
        if function not in CALLS:
            return None
        stream = arguments.get("hStream", arguments.get("stream", arguments.get("dstStream")))
        if stream is not None:
            stream = {"0": "T" if form else "N", "1": "N", "2": "T"}.get(stream) or letters.get(stream, stream)
        return " ".join(filter(None, (CALLS[function], letters.get(arguments.get("hEvent", "")), stream)))


def run(options, command, fix=SWITCH, seed=None, after="0", **variables):
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_"))}
        journal = os.path.join(folder, "journal.txt")
        environment.update(LD_LIBRARY_PATH=options.simcuda, SIMCUDA_COSTS="none", SIMCUDA_JOURNAL=journal, **variables)
        if seed:
            environment.update(SIMCUDA_SEED=seed)
        if fix:
            environment.update(LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX=fix, SLIPSTREAM_OUT=folder,
                               SLIPSTREAM_STAGE_FROM="128K", SLIPSTREAM_LEGACY_AFTER=after)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit, check=False)
        except subprocess.TimeoutExpired:
            raise Broken(f"hangs {'with' if fix else 'without'} the rewrite") from None
        if done.returncode:
            raise Broken(f"ended with {done.returncode} {'with' if fix else 'without'} the rewrite: {done.stderr.strip()[:600]}")
        return Done(done.stdout, folder, journal)


def compare(raw, fixed, what):
    pairs = list(zip(raw.stdout.splitlines(), fixed.stdout.splitlines()))
    differ = [pair for pair in pairs if pair[0] != pair[1]]
    expect(raw.stdout == fixed.stdout, f"says other things than without the rewrite ({what}): {len(differ)} of {len(pairs)} lines, {differ[:3]}")


def one_case(options, name, wanted):
    command = [options.cases, name]
    fix = SWITCH + ",pinned,frees,staging" if name == "recycled-blocks-are-free" else SWITCH
    raw = run(options, command, None)
    for seed in SEEDS:
        fixed = run(options, command, fix, seed)
        if options.show:
            print(f"{name}: {fixed.sequence()}", *(f"    {text}: {count}" for text, count in fixed.notes.items()), sep="\n")
        compare(raw, fixed, f"seed {seed}")
        if wanted == "as raw":
            calls = [[call[1:] for call in part] for part in fixed.parts()[0]]
            expect(calls == [[call[1:] for call in part] for part in raw.parts()[0]], f"the driver is given other calls: {fixed.sequence()[:300]}")
        elif wanted:
            expect(fixed.sequence() == wanted, f"the driver is given\n    {fixed.sequence()}, not\n    {wanted}")
    compare(raw, run(options, command, fix, after="2"), "late")
    compare(raw, run(options, command, "pinned"), "another rewrite")


def cases(options):
    for name, wanted in CASES.items():
        yield name, lambda name=name, wanted=wanted: one_case(options, name, wanted)


def one_fault(options, function, number, status):
    """The program has made two streams by cuStreamCreate, no event, and no wait: the calls that fail are ours."""
    command = [options.cases, "faults"]
    raw = run(options, command, None)
    # Virtual time: nothing is done before somebody waits for it, so that what is not ordered comes out of order.
    for seed in ("3", "4", "5"):
        done = run(options, command, seed=seed, SIMCUDA_TIME="virtual", SIMCUDA_FAIL=f"{function}:{number}:{status}")
        compare(raw, done, f"under a fault, seed {seed}")
    expect(not number.startswith("1") or number.strip("+") != "1" or
           any(f" {function} " in line and f" -> {status} " in line for line in done.journal), "the fault did not come")


def faults(options):
    for function in FAULTS:
        for number in [str(n) for n in range(1, 14)] + ["20", "1+", "2+", "7+", "16+"]:
            status = "2" if len(number) % 2 else "999"
            yield f"{function} {number} {status}", lambda f=function, n=number, s=status: one_fault(options, f, n, s)
    for name, calls in REFUSED.items():
        for function, number in calls:
            yield f"{name} {function} {number}", lambda name=name, f=function, n=number: one_refused(options, name, f, n)
    for number in range(1, 8):
        yield f"neither barrier nor wait {number}", lambda n=number: one_unplaced(options, n)


def one_unplaced(options, number):
    """Neither a barrier can be placed where the rewrite is given up, nor may the host wait: the turn stays until the next call."""
    command = [options.cases, "given-up-in-order"]
    for seed in SEEDS:
        done = run(options, command, seed=seed, SIMCUDA_FAIL=f"cuStreamWaitEvent:{number}:2,cuStreamSynchronize:1:2")
        compare(run(options, command, None), done, f"seed {seed}")


def one_refused(options, name, function, number):
    """The program ends, and says the same."""
    command = [options.deadlocks, name]
    done = run(options, command, SIMCUDA_FAIL=f"{function}:{number}:2")
    compare(run(options, command, None), done, "refused")
    waited = [text for text in done.notes if text.endswith("the host waited")]
    expect(waited or not number.endswith("+"), f"notes {done.notes}")


def one_proof(options, command, **variables):
    """`slipstream verify` proves from the trace that legacy order was kept."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "a.trace")
        run(options, command, SLIPSTREAM_LEVEL="full", SLIPSTREAM_LTTNG=options.provider, TRACE_JOURNAL=trace, **variables)
        done = subprocess.run([options.verify, trace], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    expect(done.returncode == 0, f"not proved: {done.stdout.strip()[:600]} {done.stderr.strip()[:200]}")


def proofs(options):
    if not options.verify:
        return
    for name in CASES:
        if name not in NOT_PROVED:
            yield name, lambda name=name: one_proof(options, [options.cases, name])
    for name in DEADLOCKS:
        if name not in ("process-exits",):
            yield name, lambda name=name: one_proof(options, [options.deadlocks, name])
    for function in FAULTS:
        for number in ("2", "5", "9", "2+", "7+"):
            yield f"{function} {number}", lambda f=function, n=number: one_proof(options, [options.cases, "faults"], SIMCUDA_FAIL=f"{f}:{n}:2")


def settings(options):
    def waits_until_it_pays():
        """Default: a program that alternates is left as it is."""
        done = run(options, [options.cases, "one-dirty-stream-one-record-one-wait"], after="16")
        expect(done.sequence() == "launch a, launch N, launch a, launch a, launch N, launch N, launch N", done.sequence())
    yield "waits-until-it-pays", waits_until_it_pays

    def turns_where_it_pays():
        """It goes back when barriers have cost more than was gained, and each time takes longer to turn again."""
        done = run(options, [options.cases, "legacy-work-alone-and-to-and-fro"], after="16").sequence()
        found = [done.count(text) for text in ("record N, wait L", "record L, wait a", "record L, wait N", "memset L")]
        expect(found == [9, 9, 2, 41], f"joins, posts, turns back, operations on the substitute: {found}")
        expect("memset L, launch N" not in done and "launch L, launch N" not in done, "a launch took the short way past the substitute")
    yield "turns-only-where-it-pays", turns_where_it_pays

    def launch_blocking():
        command, variables = [options.deadlocks, "launches"], {"CUDA_LAUNCH_BLOCKING": "1"}
        done = run(options, command, **variables)
        compare(run(options, command, None, **variables), done, "blocking")
        expect(done.notes.get("off: CUDA_LAUNCH_BLOCKING is set") == 1, f"{done.notes}")
    yield "launch-blocking-is-off", launch_blocking

    def eager_loading():
        command, variables = [options.deadlocks, "launches"], {"CUDA_MODULE_LOADING": "EAGER"}
        compare(run(options, command, None, **variables), run(options, command, **variables), "eager loading")
    yield "eager-loading", eager_loading

    def failed_end():
        """Of a context that was made: it goes back before."""
        command, variables = [options.cases, "failed-end-of-a-context-leaves-order"], {"SIMCUDA_FAIL": "cuCtxDestroy_v2:1:999"}
        raw = run(options, command, None, **variables)
        for seed in SEEDS:
            done = run(options, command, seed=seed, **variables)
            compare(raw, done, f"seed {seed}")
            expect(done.sequence() == "record L, wait N, launch N, launch b, launch a", done.sequence())
    yield "failed-end-of-a-context-leaves-order", failed_end

    def denied():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"file {os.path.basename(options.cases)} {SWITCH}\n")
            file.flush()
            done = run(options, [options.cases, "one-dirty-stream-one-record-one-wait"], SLIPSTREAM_DENY=file.name)
        expect("L" not in done.sequence(), done.sequence())
    yield "denied-sites-stay-native", denied

    def not_asked_for():
        done = run(options, [options.cases, "one-dirty-stream-one-record-one-wait"], fix="pinned")
        expect(done.sequence() == "launch a, launch N, launch a, launch a, launch N, launch N, launch N", done.sequence())
    yield "not-asked-for", not_asked_for

    def all_rewrites():
        for name in ("one-dirty-stream-one-record-one-wait", "synchronous-calls-see-all-before", "every-touch-beside-a-capture", "primary-context-is-reset",
                     "peer-copies-in-order-on-both-sides", "refused-calls-leave-order"):
            command = [options.cases, name]
            compare(run(options, command, None), run(options, command, SWITCH + ",pinned,frees,staging", seed="4"), name)
    yield "all-rewrites", all_rewrites


def one_deadlock(options, name):
    command = [options.deadlocks, name]
    raw = run(options, command, None)
    for fix, seed, after in ((SWITCH, None, "0"), (SWITCH, "5", "0"), (SWITCH, None, "16"), (SWITCH + ",pinned,frees,staging", None, "0")):
        compare(raw, run(options, command, fix, seed, after), f"{fix}, seed {seed}, after {after}")


def deadlocks(options):
    for name in DEADLOCKS:
        yield name, lambda name=name: one_deadlock(options, name)


def known(options):
    for name in KNOWN:
        yield name, lambda name=name: one_case(options, name, None)
    for name in KNOWN_DEADLOCKS:
        yield name, lambda name=name: one_deadlock(options, name)


def attempt(name, one):
    try:
        one()
    except Broken as error:
        return f"{name}: {error}"
    return None


def main():
    parser = argparse.ArgumentParser()
    for name in ("shim", "simcuda", "cases", "deadlocks"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--verify", type=os.path.abspath, help="slipstream-verify")
    parser.add_argument("--provider", type=os.path.abspath, help="of a trace as text: libtrace-journal.so")
    parser.add_argument("--only", choices=("cases", "faults", "settings", "deadlocks", "proofs", "known"))
    parser.add_argument("--case", action="append", help="of all, these only")
    parser.add_argument("--without", action="append", default=[], help="of all, not these")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds after which a program hangs")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    wanted = [(name, one) for kind, make in (("cases", cases), ("faults", faults), ("settings", settings), ("deadlocks", deadlocks), ("proofs", proofs), ("known", known))
              if options.only == kind or (options.only is None and kind != "known") for name, one in make(options) if (not options.case or name in options.case) and name not in options.without]
    # They wait more than they compute.
    with concurrent.futures.ThreadPoolExecutor(1 if options.show else 4) as pool:
        broken = [text for text in pool.map(lambda pair: attempt(*pair), wanted) if text]
    print(f"{len(wanted)} cases")
    if broken or not wanted:
        sys.exit("\n".join([*broken, f"{len(broken)} broken"]))


if __name__ == "__main__":
    main()
