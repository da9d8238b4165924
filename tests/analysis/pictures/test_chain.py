#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Page and timeline of a real trace: `slipstream trace` of the demo program on the simulated driver. Every figure of the page, and every
wait of the timeline, equals those of the report on the same trace."""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile

import timeline_rules

SKIP = 77


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, expected {wanted!r}")


class Data(html.parser.HTMLParser):
    """The data of a page, found as a browser finds it."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.text = False, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "script" and dict(attributes).get("id") == "data"

    def handle_data(self, data):
        if self.inside:
            self.text += data

    def handle_endtag(self, _):
        self.inside = False


def run(*command):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLIPSTREAM_")}
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\nended with {result.returncode}\n{result.stdout[-1000:]}\n{result.stderr[-1000:]}")


def check(report, page, timeline, level):
    wanted, got, drawn = {}, {}, {}
    for sync in report["syncs"]:
        wanted[sync["rule"], sync["function"], sync["class"], sync["allowed"]] = (sync["count"], sync["blocked_ns"], sync["blocked_max_ns"], sync["bytes"], sync["call_ns"])
    for group, _, _, count, blocked, longest, call, size in page["rows"]:
        group = page["groups"][group]
        key = group["rule"], group["function"], group["class"], group["allowed"]
        before = got.get(key, (0, 0, 0, 0, 0))
        got[key] = (before[0] + count, before[1] + blocked, max(before[2], longest), before[3] + size, before[4] + call)
    expect("figures of the page", got, wanted)
    expect("run", page["run_ns"], report["wall_ns"])
    expect("lost", page["discarded"], 0)
    expect("waits one by one", len(page["waits"]), sum(sync["count"] for sync in report["syncs"]))
    for event in timeline["traceEvents"]:
        if event.get("cat", "").startswith("wait"):
            args = event["args"]
            key = args["rule"], args["function"], args["class"], args.get("allowed", False)
            drawn[key] = (drawn.get(key, (0, 0))[0] + 1, drawn.get(key, (0, 0))[1] + args["blocked_ns"])
    expect("waits of the timeline", drawn, {key: value[:2] for key, value in wanted.items()})
    lines = {site["label"] for site in page["sites"]}
    expect("call sites have lines", any(label.startswith("upload.c:") for label in lines), True)
    counts = {ph: sum(event["ph"] == ph for event in timeline["traceEvents"]) for ph in "si"}
    expect(f"arrows and instants at level {level}", (counts["s"] > 0, counts["i"] > 0), (level == "full", level == "full"))
    expect(f"operations at level {level}", len(page["operations"]) > 50, level == "full")


def main():
    tool, driver, program = sys.argv[1:4]
    for needed in ("lttng-sessiond", "lttng-consumerd"):
        if not any(os.path.exists(os.path.join(folder, needed)) for folder in
                   ("/usr/bin", "/usr/local/bin", "/usr/lib/lttng/libexec", "/usr/lib/x86_64-linux-gnu/lttng/libexec", "/usr/libexec", *os.get_exec_path())):
            print(f"skipped: no {needed}")
            return SKIP
    for level in ("waits", "full"):
        with tempfile.TemporaryDirectory() as folder:
            trace, paths = os.path.join(folder, "trace"), {kind: os.path.join(folder, "out." + kind) for kind in ("json", "html", "timeline", "txt")}
            run(tool, "trace", "--level=" + level, "--driver=" + driver, "--folder=" + trace, "--output=" + os.devnull, "--", program)
            run(tool, "report", trace, "--json=" + paths["json"], "--html=" + paths["html"], "--timeline=" + paths["timeline"], "--output=" + paths["txt"])
            with open(paths["json"], encoding="utf-8") as file:
                report = json.load(file)
            with open(paths["html"], encoding="utf-8") as file:
                text = file.read()
            expect("addresses of others in the page", re.findall(r"(?:src|href)=\"(?!#)[^\"]*", text), [])
            timeline = timeline_rules.load(paths["timeline"])
            timeline_rules.check(timeline)
            check(report, json.loads(Data(text).text), timeline, level)
            print(f"level {level}: {len(timeline['traceEvents'])} events in the timeline, page of {len(text)} bytes, ok", flush=True)
    return 0


sys.exit(main())
