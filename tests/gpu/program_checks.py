# SPDX-License-Identifier: MIT
"""What the reports of single programs must show, besides equal output and counts; used by run_all.py.

CHECKS: program name -> function of (report, script) that returns faults as lines.
"""
import re


def marked_line(script, marker):
    """Number of the one line of the script that ends in "# marker: <marker>"."""
    with open(script, encoding="utf-8") as file:
        lines = [number for number, line in enumerate(file, 1) if re.search(rf"# marker: {marker}$", line)]
    if len(lines) != 1:
        raise ValueError(f"{script}: {len(lines)} lines with marker {marker}")
    return lines[0]


def python_frames(report):
    """(finding, count of its site, frame) of all Python frames."""
    for sync in report["syncs"]:
        for site in sync["sites"]:
            for frame in site["python"] or []:
                yield sync, site["count"], frame


def check_pytorch(report, script):
    faults = []
    name, line = script.rsplit("/", 1)[-1], marked_line(script, "item")
    at_item = [
        (sync, count) for sync, count, frame in python_frames(report)
        if frame["file"].endswith(name) and frame["line"] == line and frame["function"] == "main" and
        sync["function"] in ("cuStreamSynchronize", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz")
    ]
    count = sum(count for _, count in at_item)
    # Once a turn of the loop.
    if count != 300:
        faults.append(f".item() at {name}:{line}: {count} waits with that Python frame instead of 300")
    if not any(frame["file"].endswith("_utils/pin_memory.py") for _, _, frame in python_frames(report)):
        faults.append("no finding in the thread that pins memory (_utils/pin_memory.py)")
    graphs = report["calls"]["by_function"].get("cuGraphLaunch", 0) + report["calls"]["by_function"].get("cuGraphLaunch_ptsz", 0)
    if graphs != 50:
        faults.append(f"{graphs} graph launches instead of 50")
    # Two loaders of two workers; the second two were forked by a process that used CUDA.
    workers = [process for process in report["processes"] if process["calls"] < 10]
    forked = [process for process in workers if process["forked"]]
    if len(workers) != 4 or len(forked) < 2:
        faults.append(f"{len(workers)} workers instead of 4, {len(forked)} forked after CUDA instead of 2 or more")
    # Every worker asks once.
    if any(process["calls"] != 1 for process in workers):
        faults.append(f"calls of the workers: {[process['calls'] for process in workers]} instead of 1 each")
    if any(process["dropped"] for process in report["processes"]):
        faults.append("records were lost")
    return faults


def check_forking(report, _):
    seen = len(report["processes"]), sum(process["forked"] for process in report["processes"]), report["calls"]["total"]
    return [] if seen == (5, 2, 9) else [f"{seen} processes, forked after CUDA, calls instead of (5, 2, 9)"]


CHECKS = {"PyTorch": check_pytorch, "forked children": check_forking}
