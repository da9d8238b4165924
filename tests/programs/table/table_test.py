#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table test: every call of the measured table, for each kind of stream that a kernel is pending on, is classified right.

    table_test.py --slipstream PATH --program PATH [--driver DIR] [--cell NAME] [--keep DIR] [--calibrate PATH]

The program puts the judged call alone into a region, and only findings in that region count. A cell that waits must give exactly
one finding of its rule, of at least half the kernel, that names the kernel and its stream as what was waited for. A cell that does
not wait must give no implicit finding but for the call's own cost (pinning for one), which is at most what the call takes on an idle
device, give or take half the kernel.

With --calibrate a table is measured first and loaded, and only the cells that wait are run: each must have taken its idle cost from
that table, so that what `calibrate` writes and what the shim looks up is the same.

A try in which the driver itself, by the program's clock, did not do what the table says (the program was put aside by a busy machine
and the kernel had ended, say) shows nothing about the report: it is made again, a few times.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

KERNEL_NS = 2_000_000
TRIES = 6
STREAMS = ("null", "blocking", "non-blocking")
# What the stream is called in a report.
KIND = {"null": "legacy", "blocking": "blocking", "non-blocking": "non-blocking"}
# Its own cost is as large as its wait, so that with a table measured at a busy moment it need not stand out.
NOT_CALIBRATED = {"htod-async-pageable-16m"}
# Rules that say what a call itself costs, not what it waits for: they may appear in any cell, with what the call costs.
OWN_COST = {
    "stack-resize", "stream-create", "teardown", "pinning", "registering", "device-alloc", "module-load", "lazy-load", "function-load", "context-create", "driver-lock",
}

HTOD, HTOD_ASYNC = "cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2"
DTOH, DTOH_ASYNC = "cuMemcpyDtoH_v2", "cuMemcpyDtoHAsync_v2"
ALL = STREAMS
JOINED = ("null", "blocking")
OWN = ("non-blocking",)  # the asynchronous copies go to the non-blocking stream
NEVER = ()

# cell: (function, rule, streams for which it waits)
CELLS = {
    "htod-pageable-4k": (HTOD, "pageable-h2d", JOINED),
    "htod-pageable-1m": (HTOD, "pageable-h2d", JOINED),
    "htod-pinned-1m": (HTOD, "pinned-h2d", JOINED),
    "dtoh-pageable-4k": (DTOH, "d2h", JOINED),
    "dtod-1m": ("cuMemcpyDtoD_v2", None, NEVER),
    "memset-device-1m": ("cuMemsetD8_v2", None, NEVER),
    "memset-pinned-1m": ("cuMemsetD8_v2", "memset-host", JOINED),
    "htod-async-pageable-4k": (HTOD_ASYNC, None, NEVER),
    "htod-async-pageable-1m": (HTOD_ASYNC, None, NEVER),
    "htod-async-pageable-16m": (HTOD_ASYNC, "pageable-h2d-async", OWN),
    "dtoh-async-pageable-4k": (DTOH_ASYNC, "pageable-d2h-async", OWN),
    "dtoh-async-pageable-1m": (DTOH_ASYNC, "pageable-d2h-async", OWN),
    "htod-async-pinned-1m": (HTOD_ASYNC, None, NEVER),
    "mem-alloc-1m": ("cuMemAlloc_v2", None, NEVER),
    "mem-free-1m": ("cuMemFree_v2", "free-drains-device", ALL),
    "mem-alloc-256m": ("cuMemAlloc_v2", None, NEVER),
    "host-alloc-1m": ("cuMemHostAlloc", None, NEVER),
    "host-free-1m": ("cuMemFreeHost", "host-free-drains-device", ALL),
    "host-register-1m": ("cuMemHostRegister_v2", None, NEVER),
    "host-unregister-1m": ("cuMemHostUnregister", "unregister-drains-device", ALL),
    "stream-create": ("cuStreamCreate", None, NEVER),
    "stream-destroy": ("cuStreamDestroy_v2", None, NEVER),
    "event-create": ("cuEventCreate", None, NEVER),
    "event-destroy": ("cuEventDestroy_v2", None, NEVER),
    "launch-null": ("cuLaunchKernel", None, NEVER),
    "stack-limit": ("cuCtxSetLimit", "stack-limit", ALL),
    "pointer-attribute": ("cuPointerGetAttribute", None, NEVER),
}


def judge(report, cell, stream, busy_ns, idle_ns, calibrated):
    """What is wrong with the report of one cell, as lines; none if it is right. The times: what the program saw the call take."""
    function, rule, waits = CELLS[cell]
    excess_ns = busy_ns - idle_ns
    found = []
    for sync in report["syncs"]:
        if sync["function"] != function or sync["class"] != "implicit":
            continue
        in_cell = [(sync, region["count"], region["blocked_ns"]) for region in sync["regions"] if region["name"] == "cell"]
        if sync["rule"] not in OWN_COST:
            found += in_cell
            continue
        for _, count, blocked in in_cell:
            if count and (blocked >= idle_ns + KERNEL_NS // 2 or blocked > busy_ns + 20_000):
                return [f"{sync['rule']} x{count} {blocked / 1000:.0f} us is no cost of a call that took {busy_ns / 1000:.0f} us, idle "
                        f"{idle_ns / 1000:.0f} us"]
    text = "; ".join(f"{sync['rule']} x{count} {blocked / 1000:.0f} us" for sync, count, blocked in found) or "nothing"
    if stream not in waits:
        # What took longer for other reasons (pages of a staging buffer, a busy machine) may be told as what it took, no more.
        wrong = [one for one in found if one[2] >= KERNEL_NS // 2 or one[2] > excess_ns + 20_000]
        return [f"does not wait, but the report has {text}"] if wrong else []
    if len(found) != 1:
        return [f"waits by {rule}: one finding expected, the report has {text}"]
    (sync, count, blocked), faults = found[0], []
    if sync["rule"] != rule:
        faults.append(f"rule {sync['rule']} instead of {rule}")
    if count != 1:
        faults.append(f"{count} waits instead of 1")
    if blocked < KERNEL_NS // 2:
        faults.append(f"blocked for {blocked / 1000:.0f} us only")
    if calibrated and set(sync["idle_basis"]) != {"calibrated"}:
        faults.append(f"idle cost by {sync['idle_basis']}, not from the calibration")
    candidates = [(one["stream_kind"], one["operation"], one["name"]) for one in sync["waited_for"]]
    if (KIND[stream], "kernel", "spin") not in candidates:
        faults.append(f"waited for {candidates}, not for kernel spin on the {KIND[stream]} stream")
    return faults


def did_as_told(cell, stream, times, slack):
    """Whether the driver, by the program's clock, did what the table says; `slack` us are allowed to a call that does not wait."""
    busy, idle = (int(one) for one in times.split())
    waited = busy > idle + KERNEL_NS // 2000
    return waited if stream in CELLS[cell][2] else busy <= idle + idle // 4 + slack


def run_cell(options, cell, stream):
    best = None
    for _ in range(TRIES):
        faults, times = run_once(options, cell, stream)
        if not times or did_as_told(cell, stream, times, 100):
            return faults, times
        if did_as_told(cell, stream, times, KERNEL_NS // 2000):
            best = faults, times
    return best or (faults + ["the driver itself does otherwise than the table says"], times)


def run_once(options, cell, stream):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(options.keep or folder, f"{cell}.{stream}.json")
        command = [options.slipstream, "run", "--json", output, "--output", os.devnull]
        if options.driver:
            command += ["--driver", options.driver]
        if options.calibration:
            command += ["--calibration", options.calibration]
        command += ["--", options.program, cell, stream]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        except subprocess.TimeoutExpired:
            return ["no end within 120 s"], ""
        if done.returncode:
            return [f"status {done.returncode}: {done.stderr.strip()[-300:]}"], ""
        try:
            with open(output, encoding="utf-8") as file:
                report = json.load(file)
        except (OSError, ValueError) as error:
            return [f"no report: {error}"], done.stdout.strip()
        busy, idle = (int(one) for one in done.stdout.split())
        return judge(report, cell, stream, busy * 1000, idle * 1000, options.calibration), done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slipstream", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--driver", help="folder of the driver to use (the simulated one)")
    parser.add_argument("--cell", action="append", help="only this cell")
    parser.add_argument("--keep", help="folder for the reports")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time; more than one disturbs the times")
    parser.add_argument("--calibrate", help="measure a calibration table with this program first, and run what waits with it")
    options = parser.parse_args()
    options.calibration = None
    unknown = set(options.cell or ()) - set(CELLS)
    if unknown:
        parser.error(f"no such cell: {', '.join(sorted(unknown))}")
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)

    if not options.calibrate:
        return run_all(options, [(cell, stream) for cell in options.cell or CELLS for stream in STREAMS])
    with tempfile.TemporaryDirectory() as folder:
        options.calibration = os.path.join(folder, "table")
        command = [options.calibrate, "--output", options.calibration] + (["--driver", options.driver] if options.driver else [])
        subprocess.run(command, check=True, timeout=280, stdout=subprocess.DEVNULL)
        return run_all(options, [(cell, CELLS[cell][2][0]) for cell in options.cell or CELLS
                                 if CELLS[cell][2] and cell not in NOT_CALIBRATED])


def run_all(options, work):
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda one: run_cell(options, *one), work)
        for (cell, stream), (faults, times) in zip(work, results):
            times = " / ".join(times.split()) or "-"
            print(f"{'FAIL' if faults else 'ok':4} {cell:24} {stream:13} {times} us" + "".join(f"\n     {line}" for line in faults),
                  flush=True)
            failed += bool(faults)
    print(f"{len(work) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
