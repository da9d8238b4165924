#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sink.slipstream.timeline on golden traces: drawn as expected, and the rules of the format hold for random and hostile ones."""
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import timeline_rules
import traces

HERE = os.path.dirname(os.path.abspath(__file__))


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, expected {wanted!r}")


class Drawer:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def draw(self, trace, with_schema=True):
        path, out = os.path.join(self.folder, "trace"), os.path.join(self.folder, "timeline.json")
        trace.write(path)
        subprocess.run([self.program, path, "timeline=" + out], check=True, timeout=50, stdout=subprocess.DEVNULL)
        document = timeline_rules.load(out)
        try:
            timeline_rules.check(document, with_schema)
        except timeline_rules.Broken as broken:
            sys.exit(f"{broken}\n(the trace is in {keep(path)})")
        return document


def keep(path):
    with tempfile.NamedTemporaryFile(delete=False, suffix=".trace") as file, open(path, "rb") as source:
        file.write(source.read())
    return file.name


def select(document, ph, category=None):
    return [event for event in document["traceEvents"] if event["ph"] == ph and (category is None or event.get("cat", "").startswith(category))]


def arrows(document):
    """{(name, slice it comes from, slice it goes to)}; the innermost slices."""
    rows, ends = timeline_rules.slices_by_row(document), {}
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            at = timeline_rules.ns(event["ts"])
            inside = [item for item in rows[event["pid"], event["tid"]] if item[0] <= at < item[1]]
            ends.setdefault(event["id"], []).append((event["name"], min(inside, key=lambda item: item[1] - item[0])[2]))
    return sorted((pair[0][0], pair[0][1]["name"], pair[1][1]["name"]) for pair in ends.values())


def test_full(drawer):
    """Everything at level full, at the times of traces.small()."""
    trace = traces.Trace()
    traces.small(trace)
    document = drawer.draw(trace)
    waits = sorted(select(document, "X", "wait"), key=lambda event: event["ts"])
    expect("waits", [(event["name"], event["cat"], event["ts"], event["dur"]) for event in waits],
           [("pageable-h2d", "wait,implicit", 1_000_050.5, 50.0), ("stream-synchronize", "wait,explicit", 1_000_100.0, 100.0)])
    expect("arguments of a wait", waits[0]["args"], {
        "rule": "pageable-h2d", "class": "implicit", "function": "cuMemcpyHtoD_v2", "cause": "cause of pageable-h2d", "blocked_ns": 40000, "call_ns": 50000, "bytes": 4096,
        "stream": "stream 1 (legacy), context 9, GPU 0", "call_site": "a.py:3 go", "from": "pageable", "to": "device",
        "waited_for": ["stream 2 (non-blocking), context 9, GPU 0: kernel_a, not known complete", "stream 1 (legacy), context 9, GPU 0: HtoD, was unfinished"]})
    submits = select(document, "X", "submit")
    expect("submissions", sorted((event["name"], event["tid"], event["ts"], event["dur"]) for event in submits), [
        ("submit: cuLaunchKernel", 77, 1_000_000.0, 10.0), ("submit: cuLaunchKernel", 77, 1_000_295.0, 5.0), ("submit: cuLaunchKernel", 78, 1_000_022.0, 10.0),
        ("submit: cuMemcpyHtoD_v2", 78, 1_000_050.5, 49.5)])  # the last one within the wait of its call
    operations = select(document, "X", "operation")
    expect("operations", sorted((event["name"], event["ts"], event["dur"], event["args"]["known_complete_ns"]) for event in operations if event["args"]["known_complete_ns"]), [
        ("HtoD", 1_000_050.0, 50.9, 1_000_100_900), ("kernel_a", 1_000_000.0, 200.4, 1_000_200_400), ("kernel_a", 1_000_022.0, 79.0, 1_000_101_000)])
    expect("operations never known complete", [(event["ts"], event["dur"]) for event in operations if event["args"]["known_complete_ns"] is None], [(1_000_295.0, 205.0)])
    expect("instants", sorted((event["name"], event["ts"]) for event in select(document, "i")), [
        ("event recorded", 1_000_012.0), ("join: after stream 3 (blocking), context 9, GPU 0", 1_000_040.0),
        ("stream wait: after stream 2 (non-blocking), context 9, GPU 0", 1_000_020.0)])
    expect("arrows", arrows(document), [
        ("join", "kernel_a", "HtoD"), ("stream wait", "kernel_a", "kernel_a"), ("submission", "submit: cuLaunchKernel", "kernel_a"),
        ("submission", "submit: cuLaunchKernel", "kernel_a"), ("submission", "submit: cuLaunchKernel", "kernel_a"), ("submission", "submit: cuMemcpyHtoD_v2", "HtoD"),
        ("waited for", "submit: cuLaunchKernel", "pageable-h2d"), ("waited for", "submit: cuLaunchKernel", "stream-synchronize")])
    expect("names", sorted(event["args"]["name"] for event in select(document, "M") if "name" in event["args"]), [
        "CUDA streams of demo (pid 77), host alpha, GPU 0", "demo (pid 77), host alpha, GPU 0", "main thread 77", "stream 1 (legacy), context 9, GPU 0",
        "stream 2 (non-blocking), context 9, GPU 0", "stream 3 (blocking), context 9, GPU 0", "thread 78"])
    expect("complete", document["otherData"]["complete"], True)


def test_waits(drawer):
    """Level waits: the streams of the candidates are busy during the wait."""
    trace = traces.Trace()
    traces.small(trace, full=False)
    document = drawer.draw(trace)
    expect("busy", sorted((event["name"], event["args"]["wait"], event["dur"]) for event in select(document, "X", "busy")), [
        ("busy: HtoD", "pageable-h2d", 50.0), ("busy: kernel_a", "pageable-h2d", 50.0), ("busy: kernel_a", "stream-synchronize", 100.0)])
    expect("waits", len(select(document, "X", "wait")), 2)
    expect("arrows", arrows(document), [])


def test_late(drawer):
    """Definitions that come after what they define (a session that started late) are used all the same."""
    trace = traces.Trace()
    traces.small(trace, define=False)
    document = drawer.draw(trace)
    waits = sorted(select(document, "X", "wait"), key=lambda event: event["ts"])
    expect("waits", sorted(event["name"] for event in waits), ["pageable-h2d", "stream-synchronize"])
    expect("call site", {event["args"]["call_site"] for event in waits}, {"a.py:3 go"})
    expect("submissions", sorted({event["name"] for event in select(document, "X", "submit")}), ["submit: cuLaunchKernel", "submit: cuMemcpyHtoD_v2"])
    expect("undefined", document["otherData"]["undefined_slices"], 0)
    trace = traces.Trace()
    process = traces.small(trace, define=False)
    trace.events = [event for event in trace.events if "def_" not in event[2]]
    document = drawer.draw(trace)
    expect("waits that nothing defines", [event["name"] for event in select(document, "X", "wait")], ["wait", "wait"])
    expect("undefined", document["otherData"]["undefined_slices"], 2 + sum(process.numbers.values()))


def test_ranks(drawer):
    """Two hosts with the same pid, and two ranks: groups apart, sorted by rank."""
    trace = traces.Trace()
    for host, rank in (("b", 1), ("a", 0)):
        process = traces.Process(trace, 1_000_000_000, host, 7, rank)
        process.at(2_000_000_000, 7, "wait", wait=1, candidates=0, stream=0, bytes=0, blocked_ns=5, call_ns=10)
    document = drawer.draw(trace)
    order = {event["pid"]: event["args"]["sort_index"] for event in select(document, "M") if event["name"] == "process_sort_index"}
    named = {event["args"]["name"]: order[event["pid"]] for event in select(document, "M") if event["name"] == "process_name"}
    expect("groups in order", sorted(named, key=named.get), ["rank 0: python3 (pid 7), host a", "rank 1: python3 (pid 7), host b"])
    trace = traces.Trace()
    for rank in (10, -1, 2, 0):  # by number, not by letter; processes without a rank last, streams behind their process
        process = traces.Process(trace, 1_000_000_000, "a", 40 + rank, rank)
        process.submit(2_000_000_000, 7, 1, traces.KERNEL, 0, 500)
    document = drawer.draw(trace)
    order = {event["pid"]: event["args"]["sort_index"] for event in select(document, "M") if event["name"] == "process_sort_index"}
    named = {event["args"]["name"]: order[event["pid"]] for event in select(document, "M") if event["name"] == "process_name"}
    groups = [f"{start}python3 (pid {pid}), host a" for start, pid in (("rank 0: ", 40), ("rank 2: ", 42), ("rank 10: ", 50), ("", 39))]
    expect("groups of four in order", sorted(named, key=named.get), [name for group in groups for name in (group, "CUDA streams of " + group)])
    expect("no two alike", len(set(order.values())), 8)


def test_deep(drawer):
    """Far more operations in flight than lanes: none is lost from the picture, rows stay few."""
    trace = traces.Trace()
    process = traces.Process(trace, 1_000_000_000, "alpha", 7, -1)
    process.define("def_function", number=0, name=process.string("cuLaunchKernel"), flags=3, handed_out=1)
    for index in range(500):
        process.submit(2_000_000_000 + 1000 * index, 7, 1, traces.KERNEL, 0, 500)
    process.complete(2_000_400_000, 7, 1, 300)
    process.complete(2_000_900_000, 7, 1, 500)
    document = drawer.draw(trace)
    seen = set()
    for event in select(document, "X", "operation"):
        first = event["args"].get("number", event["args"].get("first_number"))
        seen.update(range(first, first + event["args"].get("operations", 1)))
    expect("operations in the picture", sorted(seen), list(range(1, 501)))
    rows = {event["tid"] for event in select(document, "X", "operation")}
    expect("rows at most", len(rows) <= 7, True)


def waiting(trace, **options):
    """A process with one function, rule and wait that any test can add to."""
    process = traces.Process(trace, 1_000_000_000, "alpha", 7, -1, **options)
    process.define("def_function", number=0, name=process.string("cuCtxSynchronize"), flags=3, handed_out=1)
    process.define("def_rule", number=0, slug=process.string("context-synchronize"), cause=0, **{"class": traces.EXPLICIT})
    process.define("def_wait", id=1, function=0, rule=0, site=1)
    return process


def a_wait(process, ns, tid=7, **fields):
    process.at(ns, tid, "wait", **{"wait": 1, "candidates": 0, "stream": 0, "bytes": 0, "blocked_ns": 5, "call_ns": 10, **fields})


def in_time(document, category):
    return sorted(select(document, "X", category), key=lambda event: event["ts"])


def test_impossible_times(drawer):
    """A call that lasted for years begins with the picture; the picture does not begin years earlier for it."""
    trace = traces.Trace()
    process = waiting(trace)
    a_wait(process, 2_000_000_000, call_ns=1 << 62)
    a_wait(process, 3_000_000_000, tid=8, call_ns=(1 << 64) - 1)
    document = drawer.draw(trace)
    expect("waits", sorted((event["tid"], event["ts"], event["dur"]) for event in select(document, "X", "wait")), [(7, 0, 1_000_000), (8, 0, 2_000_000)])


def test_held_back(drawer):
    """At most 4096 slices are held back for definitions that are still to come."""
    trace = traces.Trace()
    process = waiting(trace, define=False)
    for number in range(5000):
        a_wait(process, 2_000_000_000 + 1000 * number)
    process.define("def_site", id=1, frames=0, python_frames=0)
    process.define_late(3_000_000_000)
    document = drawer.draw(trace, with_schema=False)
    expect("undefined", document["otherData"]["undefined_slices"], 4999 - 4096)  # the last one waits for a next one of its thread anyway
    expect("names", {name: sum(event["name"] == name for event in select(document, "X", "wait")) for name in ("wait", "context-synchronize")},
           {"wait": 903, "context-synchronize": 4097})


def test_too_many_rows(drawer):
    """Rows have a bound: what is on further threads and streams is left out and counted."""
    trace = traces.Trace()
    process = waiting(trace)
    process.submit(2_000_000_000, 1, 1, traces.KERNEL, 0, 500)
    for tid in range(1, 65536):  # with one stream
        a_wait(process, 2_000_001_000 + tid, tid)
    a_wait(process, 3_000_000_000, 65536)
    process.submit(3_000_000_000, 65537, 2, traces.KERNEL, 0, 500)
    process.at(3_000_001_000, 1, "record", stream=2, number=1, event="0xe1")
    process.at(3_000_002_000, 1, "join", stream=1, number=2, of_stream=2, of_number=1)
    process.at(3_000_003_000, 1, "join", stream=2, number=2, of_stream=1, of_number=1)
    document = drawer.draw(trace, with_schema=False)
    expect("rows", len({(event["pid"], event["tid"]) for event in select(document, "X")}), 65536)
    expect("waits", len(select(document, "X", "wait")), 65535)
    expect("left out", document["otherData"]["left_out_events"], 5)


def test_kept_texts(drawer):
    """Texts are kept for the next slice of their kind, but not where something of them came later or differs."""
    trace = traces.Trace()
    process = waiting(trace)
    process.define("def_site", id=1, frames=0, python_frames=0)
    process.define("def_function", number=1 << 24, name=process.string("cuLaunchKernel"), flags=3, handed_out=1)
    process.define("def_candidate", id=1, stream_kind=traces.BLOCKING, context=9, stream=2, operation=traces.KERNEL, name=100, certain=0)
    a_wait(process, 2_000_000_000, candidates=1)
    process.at(2_100_000_000, 7, "def_string", id=100, length=1, text='"k"')
    a_wait(process, 2_200_000_000, candidates=1)
    document = drawer.draw(trace)
    expect("busy", [event["name"] for event in in_time(document, "busy")], ["busy: kernel", "busy: k"])
    for index, function in enumerate((0, 1 << 24, 0)):
        process.submit(3_000_000_000 + index * 1_000_000, 7, 3, traces.KERNEL, 0, 500, function=function)
        process.complete(3_000_001_000 + index * 1_000_000, 7, 3, index + 1)
    process.at(3_001_500_000, 7, "def_stream", stream=3, kind=traces.BLOCKING, context=9, handle="0x0")
    document = drawer.draw(trace)
    expect("submissions", [event["name"] for event in in_time(document, "submit")], ["submit: cuCtxSynchronize", "submit: cuLaunchKernel", "submit: cuCtxSynchronize"])
    expect("operations", [(event["args"]["stream"], event["args"]["function"]) for event in in_time(document, "operation")],
           [("stream 3", "cuCtxSynchronize"), ("stream 3", "cuLaunchKernel"), ("stream 3 (blocking), context 9", "cuCtxSynchronize")])


def test_sites(drawer):
    """Call sites of which a part never came are not told; a line is never negative, a build id has its length."""
    def site_of(frames, python_frames, **module):
        trace = traces.Trace()
        process = waiting(trace)
        process.define("def_site", id=1, frames=frames, python_frames=python_frames)
        process.define("def_module", id=1, path=process.string("/no/such/library.so"), base=0, **{"build_id": traces.quote("ab" * 20), **module})
        # The first one is held back for what comes late; the second one only settles it.
        a_wait(process, 2_000_000_000)
        a_wait(process, 2_050_000_000)
        process.at(2_100_000_000, 7, "def_frame", site=1, index=0, module=1, offset=0x20)
        process.at(2_100_000_000, 7, "def_python_frame", site=1, index=0, file=process.string("/src/a.py"), function=process.string("go"), line=-5)
        return in_time(drawer.draw(trace), "wait")[0]["args"].get("call_site")

    expect("all there", site_of(1, 1), "a.py:0 go")
    expect("a frame missing", site_of(2, 1), None)
    expect("a Python frame missing", site_of(1, 2), None)
    expect("a build id without end", site_of(1, 1, build_id=traces.quote("ab" * 4000)), "a.py:0 go")


def test_candidates(drawer):
    """As many as the library names, those that are defined, all that come."""
    trace = traces.Trace()
    process = waiting(trace)
    process.define("def_site", id=1, frames=0, python_frames=0)
    process.define("def_context", context=1, device=-5, id=9)
    process.define("def_context", context=2, device=70, id=10)
    for number in range(1, 101):
        process.define("def_candidate", id=number, stream_kind=traces.BLOCKING, context=9, stream=2, operation=traces.KERNEL, name=process.string(""), certain=0)
        process.define("def_candidate_set", set=(1 << 31) + 1, index=number - 1, count=100, candidate=number)
    process.define("def_candidate_set", set=(1 << 31) + 2, index=0, count=2, candidate=1000)
    process.define("def_candidate_set", set=(1 << 31) + 2, index=1, count=2, candidate=1)
    process.define("def_candidate_set", set=(1 << 31) + 3, index=0, count=2, candidate=1)
    for index, number in enumerate((3, 1, 2)):
        a_wait(process, 2_000_000_000 + 1_000_000 * index, candidates=(1 << 31) + number)
    process.at(2_100_000_000, 7, "def_candidate_set", set=(1 << 31) + 3, index=1, count=2, candidate=2)
    document = drawer.draw(trace)
    expect("candidates", [len(event["args"]["waited_for"]) for event in in_time(document, "wait")], [2, 64, 1])
    expect("words", in_time(document, "wait")[2]["args"]["waited_for"], ["stream 2: kernel, not known complete"])
    expect("no GPU of such a number", [event["args"]["name"] for event in select(document, "M") if event["name"] == "process_name" and "GPU" in event["args"]["name"]], [])


def test_hostile(drawer):
    """Names that try to be something else: printable text of bounded length everywhere (the schema says so)."""
    document = drawer.draw(traces.hostile())
    expect("waits", len(select(document, "X", "wait")), len(traces.HOSTILE))
    names = {event["name"] for event in select(document, "X", "wait")}
    expect("control characters are shown", "\\x1b[31mred\\x1b[0m\\x07\\x0d\\x0a" in names, True)
    expect("broken UTF-8 is shown", "\\xff\\xfe broken \\xc3" in names, True)
    expect("marks that reorder are shown", "right\\xe2\\x80\\xaeto\\xe2\\x80\\xacleft \\xe2\\x81\\xa6isolate\\xe2\\x81\\xa9 \\xe2\\x80\\x8bzero" in names, True)
    expect("long names are cut", sorted(len(name) for name in names)[-1] <= 513, True)


def test_random(drawer, seeds=30):
    for number in range(seeds):
        seed = random.randrange(1 << 32)
        garbage = number % 3 == 2
        print(f"seed {seed}{' with garbage' if garbage else ''}", flush=True)
        trace, waits, submits = traces.scrambled(seed, garbage)
        document = drawer.draw(trace, with_schema=number < 6)
        if not garbage:
            expect(f"seed {seed}: waits", len(select(document, "X", "wait")), waits)
            expect(f"seed {seed}: submissions", len(select(document, "X", "submit")), submits)


def test_rules(drawer):
    """The rules themselves notice what they are there for."""
    trace = traces.Trace()
    traces.small(trace)
    good = drawer.draw(trace)

    def broken(change, rule):
        document = copy.deepcopy(good)
        change(document["traceEvents"])
        try:
            rule(document)
        except timeline_rules.Broken:
            return
        sys.exit(f"{rule.__name__} did not notice")

    first = {ph: next(index for index, event in enumerate(good["traceEvents"]) if event["ph"] == ph) for ph in "Xsf"}
    submit = next(index for index, event in enumerate(good["traceEvents"]) if event["name"] == "submit: cuMemcpyHtoD_v2")
    broken(lambda events: events.pop(first["s"]), timeline_rules.check_flows)
    broken(lambda events: events.pop(first["f"]), timeline_rules.check_flows)
    broken(lambda events: events[first["f"]].update(ts=5.0), timeline_rules.check_flows)
    broken(lambda events: events[submit].update(ts=events[submit]["ts"] - 1), timeline_rules.check_nesting)
    broken(lambda events: events[first["X"]].update(name="bell \x07"), timeline_rules.check_schema)
    broken(lambda events: events[first["f"]].pop("bp"), timeline_rules.check_schema)
    broken(lambda events: [events.remove(event) for event in list(events) if event["name"] == "thread_name"], timeline_rules.check_names)


def test_memory(drawer):
    """Ten times the waits, the same memory (within 2 MiB)."""
    peaks = []
    for waits in (20_000, 200_000):
        trace = traces.Trace()
        traces.small(trace)
        path = os.path.join(drawer.folder, "long.trace")
        trace.write(path)
        with open(path, "a", encoding="ascii") as file:
            for index in range(waits):
                ns = 3_000_000_000 + index * 3000
                file.write(f"{ns // 10**9}.{ns % 10**9:09d} host=alpha pid=77 tid={77 + index % 4} wait wait={1 + index % 2} candidates=1 stream=2 blocked_ns=900 call_ns=1000\n")
        result = subprocess.run([drawer.program, path, "timeline=/dev/null"], capture_output=True, text=True, check=True, timeout=50)
        peaks.append(int(result.stdout.split()[1]))
    print("peak memory of 20000 and 200000 waits, KiB:", peaks)
    expect("memory grows", peaks[1] - peaks[0] < 2048, True)


def test_full_disk(drawer):
    """A file that cannot be written is an error, in one line."""
    path = os.path.join(drawer.folder, "trace")
    trace = traces.Trace()
    traces.small(trace)
    trace.write(path)
    for out in ("/dev/full", os.path.join(drawer.folder, "no/such/folder")):
        result = subprocess.run([drawer.program, path, "timeline=" + out], capture_output=True, text=True, timeout=50)
        expect(f"status for {out}", result.returncode, 1)
        expect(f"lines for {out}", (len(result.stderr.splitlines()), "cannot be written" in result.stderr), (1, True))


def main():
    with tempfile.TemporaryDirectory() as folder:
        drawer = Drawer(sys.argv[1], folder)
        for test in (test_full, test_waits, test_late, test_ranks, test_deep, test_impossible_times, test_held_back, test_too_many_rows, test_kept_texts,
                     test_sites, test_candidates, test_hostile, test_rules, test_random, test_memory, test_full_disk):
            if test is test_memory and sys.argv[2] != "none":
                print("test_memory left out: a sanitizer keeps what is freed")
                continue
            test(drawer)
            print(test.__name__, "ok", flush=True)


main()
