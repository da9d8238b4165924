#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast the report of a trace is: events a second, and the time over that of `babeltrace2 -o dummy` on the same trace, each the least of
several runs taken in turn; and how much memory it takes.

    analysis.py --plugin DIR [--analyze FILE] [--trace DIR | --events N] [--runs N] [--json FILE]

DIR is the folder with babeltrace-plugin-slipstream.so, FILE the program slipstream-analyze; without it only the sink is measured. Without --trace a trace is
made: N events of level waits, as LTTng writes them, on 4 streams. Needs babeltrace2 only (PATH, BABELTRACE_PLUGIN_PATH).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "analysis"))

STREAMS = 4
SITES, CANDIDATES = 40, 60


def define(stream, pid):
    """What a dump has of a middle-sized program."""
    number = 0

    def event(name, /, **fields):
        nonlocal number
        number += 1
        stream.event(1000000 + number * 100, name, vpid=pid, vtid=pid, **fields)

    texts = ["/usr/bin/program", "program --steps", "0.1.0", "MODE=observe\n", "/usr/lib/libcuda.so.1", "cuMemcpyHtoD_v2", "pageable-h2d",
             "pageable source is staged", "kernel"]
    event("dump_begin", dump=1, reason=1)
    event("def_process", pid=pid, parent_pid=1, rank=-1, start_ns=900000, exe=1, command=2, shim_version=3, config=4, driver=5,
          driver_version=13000)
    for number_of, text in enumerate(texts, 1):
        event("def_string", id=number_of, length=len(text), text=text)
    event("def_function", number=0, name=6, flags=3, handed_out=1)
    event("def_rule", number=0, slug=7, cause=8, **{"class": 2})
    event("def_module", id=1, path=1, base=0x400000)
    event("def_context", context=1, device=0, id=1)
    for number_of in range(1, 9):
        event("def_stream", stream=number_of, kind=3, context=1, handle=number_of)
    for site in range(1, SITES + 1):
        event("def_site", id=site, frames=2)
        for index in range(2):
            event("def_frame", site=site, index=index, module=1, offset=site * 64 + index)
        event("def_wait", id=site, site=site, source_kind=2, destination_kind=6, idle_basis=1)
    for candidate in range(1, CANDIDATES + 1):
        event("def_candidate", id=candidate, stream_kind=3, context=1, stream=candidate % 8 + 1, operation=1, name=9)
    event("def_coverage", function=0, calls=10**9)
    event("dump_end", dump=1)


def make_trace(folder, events):
    """Packets of a stream are alike but for their heads: a time stamp counts within the period that a packet spans. The definitions come once a
    second in a trace of LTTng's; here with every packet."""
    import ctf

    trace = ctf.Trace(folder)
    written = 0
    each = 9000
    for number in range(STREAMS):
        stream = trace.stream()
        pid = 100 + number % 2
        define(stream, pid)
        for index in range(each):
            ns = 10000000 + index * 400000 + number * 1000
            which = index * 7 + index // 50
            stream.event(ns, "wait", vpid=pid, vtid=pid + index % 3, wait=which % SITES + 1, candidates=which % CANDIDATES + 1,
                         stream=which % 8 + 1, bytes=4096, blocked_ns=1000 + index, call_ns=1500 + index)
        payload = bytes(stream.payload)
        in_packet = each + 100
        stream.payload.clear()
        stream.begin = None
        for period in range(max(1, events // STREAMS // in_packet)):
            stream.packet(period * ctf.PERIOD + 1000000, (period + 1) * ctf.PERIOD - 1, payload)
            written += in_packet
    trace.close()
    return written


def run(command):
    """Processor seconds, which other work on the machine does not touch, seconds on the wall, and largest resident size in KiB."""
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(command)}: {errors.read().decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--analyze")
    parser.add_argument("--trace")
    parser.add_argument("--events", type=int, default=3000000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--most-ratio", type=float, help="exit status 1 above it")
    parser.add_argument("--most-kib", type=int, help="exit status 1 above it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = arguments.trace
        if not trace:
            trace = os.path.join(folder, "trace")
            make_trace(trace, arguments.events)
        about = os.path.join(folder, "report.json")
        dummy = ["babeltrace2", "--output-format=dummy", trace]
        sink = ["babeltrace2", "--plugin-path", arguments.plugin, trace, "--component=sink.slipstream.report",
                f'--params=output="{os.path.join(folder, "text")}",json="{about}"']
        commands = {"dummy": dummy, "report": sink}
        if arguments.analyze:
            commands["analyze"] = [arguments.analyze, "--output", os.path.join(folder, "text"), trace]
        runs = {name: [] for name in commands}
        for _ in range(arguments.runs):
            for name, command in commands.items():
                runs[name].append(run(command))
        with open(about, encoding="utf-8") as file:
            events = json.load(file)["trace"]["events"]
        least = {name: min(cpu for cpu, _, _ in found) for name, found in runs.items()}
        wall = {name: min(wall for _, wall, _ in found) for name, found in runs.items()}
        result = {"events": events, "processor_seconds": least, "seconds": wall, "processor_ratio": {name: value / least["dummy"] for name, value in least.items()},
                  "ratio": {name: value / wall["dummy"] for name, value in wall.items()},
                  "events_per_second": {name: events / value for name, value in wall.items()},
                  "resident_kib": {name: max(size for _, _, size in found) for name, found in runs.items()}}
    print(f"{events} events")
    for name in commands:
        print(f"{name:8} {wall[name]:.3f} s, {result['ratio'][name]:.3f} of dummy, {result['events_per_second'][name] / 1e6:.2f} million events/s, "
              f"{least[name]:.3f} s of processors, {result['processor_ratio'][name]:.3f} of dummy, {result['resident_kib'][name] / 1024:.1f} MiB")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    if arguments.most_ratio and max(result["processor_ratio"].values()) > arguments.most_ratio:
        sys.exit(f"the ratio is above {arguments.most_ratio}")
    if arguments.most_kib and max(result["resident_kib"].values()) > arguments.most_kib:
        sys.exit(f"more than {arguments.most_kib} KiB resident")


if __name__ == "__main__":
    main()
