#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sink.slipstream.html in headless Chromium: figures, sorting, filters, timeline; silent console, no network, names that do nothing."""
import json
import os
import re
import subprocess
import sys
import tempfile

import traces
from chromium import Chromium, Missing


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, expected {wanted!r}")


def require(what, holds):
    if not holds:
        sys.exit(f"{what}: does not hold")


class Pages:
    def __init__(self, program, folder, browser):
        self.program, self.folder, self.browser, self.number = program, folder, browser, 0

    def draw(self, trace, *more):
        self.number += 1
        path, out = os.path.join(self.folder, "trace"), os.path.join(self.folder, f"page{self.number}.html")
        trace.write(path)
        subprocess.run([self.program, path, "html=" + out, *more], check=True, timeout=50, stdout=subprocess.DEVNULL)
        return out

    def open(self, trace, *more):
        """Draws the page and opens it; it must be silent and ask for nothing but itself."""
        path = self.draw(trace, *more)
        self.browser.problems.clear()
        self.browser.requests.clear()
        self.browser.open("file://" + path)
        self.silent(path)
        return path

    def silent(self, path):
        self.browser.settle()
        expect("console, exceptions, policy", self.browser.problems, [])
        expect("requests", self.browser.requests, ["file://" + path])

    def text(self, selector):
        return self.browser.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((element) => element.innerText.trim())")

    def press(self, selector):
        self.browser.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.browser.settle()

    def centre(self, selector):
        return self.browser.run(f"(() => {{ const element = document.querySelector({json.dumps(selector)}); element.scrollIntoView({{block: 'center'}});"
                                "const box = element.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })()")

    def view(self):
        begin, end = self.browser.run("[Number(document.getElementById('rows').dataset.begin), Number(document.getElementById('rows').dataset.end)]")
        return begin, end

    def choose(self, identity, value):
        self.browser.run(f"(() => {{ const field = document.getElementById({json.dumps(identity)}); field.value = {json.dumps(value)};"
                         "field.dispatchEvent(new Event('input', {bubbles: true})); })()")
        self.browser.settle()


def test_figures(pages):
    trace = traces.Trace()
    traces.small(trace)
    path = pages.open(trace)
    expect("title", pages.browser.run("document.title"), "demo - slipstream")
    expect("command", pages.text("#command"), "/opt/demo --all")
    cards = dict(zip(pages.texts(".card .label"), pages.texts(".card .value")))
    expect("blocked without asking", cards["Blocked without asking"], "40.0 \u00b5s")
    expect("blocked on request", cards["Blocked on request"], "90.0 \u00b5s")
    expect("lost", cards["Lost events"], "0")
    expect("no doubt", pages.browser.run("document.getElementById('doubt').hidden"), True)
    expect("what nobody asked for first", pages.texts("#table-body .name b"), ["pageable-h2d", "stream-synchronize"])
    pages.press("[data-sort=blocked]")
    expect("rules by blocked time", pages.texts("#table-body .name b"), ["stream-synchronize", "pageable-h2d"])
    expect("figures of the first", pages.texts("#table-body tr.entry:first-child td"), ["explicit", "1", "90.0 \u00b5s", "69.2 %", "90.0 \u00b5s", "-"])
    data = json.loads(pages.browser.run("document.getElementById('data').textContent"))
    expect("operations", len(data["operations"]), 3)
    expect("nothing left out", set(data["left_out"].values()), {0})
    pages.silent(path)


def test_table(pages):
    """Sorting, opening a row, ranking by call site, filters, search."""
    path = pages.open(traces.train())
    names = pages.texts("#table-body .name b")
    expect("rules", sorted(names), ["free-drains-device", "pageable-d2h", "pageable-h2d", "stream-synchronize"])
    pages.press("[data-sort=name]")
    expect("by name", pages.texts("#table-body .name b"), sorted(names))
    expect("said to readers", pages.browser.run("document.querySelector('[data-sort=name]').closest('th').getAttribute('aria-sort')"), "ascending")
    pages.press("[data-sort=count]")
    counts = [int(text) for text in pages.texts("#table-body tr.entry td:nth-child(3)")]
    expect("by count", counts, sorted(counts, reverse=True))
    pages.press("[data-sort=count]")
    expect("by count, rising", [int(text) for text in pages.texts("#table-body tr.entry td:nth-child(3)")], sorted(counts))
    pages.press("#by-site")
    require("call sites", "data.py:88 to_device" in pages.texts("#table-body .name b"))
    pages.press("#table-body [data-key]")
    require("the stack opens", len(pages.texts(".stack li")) >= 4)
    expect("Python first", pages.browser.run("document.querySelector('.stack li').className"), "python")
    pages.choose("filter-text", "to_device")
    expect("search finds frames", pages.texts("#table-body .name b"), ["data.py:88 to_device"])
    pages.choose("filter-text", "no such thing")
    require("nothing found is said", "No wait passes the filter." in pages.text("#table-body"))
    pages.choose("filter-text", "")
    pages.choose("filter-process", "1")
    expect("waits of rank 1", sum(int(text) for text in pages.texts("#table-body tr.entry td:nth-child(3)")), 38)
    pages.choose("filter-rule", "pageable-h2d")
    expect("one rule of rank 1", pages.texts("#table-body tr.entry td:nth-child(3)"), ["12"])
    pages.press("#filter-reset")
    pages.browser.run("new Promise((done) => setTimeout(done, 50))")
    expect("all again", sum(int(text) for text in pages.texts("#table-body tr.entry td:nth-child(3)")), 76)
    pages.silent(path)


def test_savings(pages):
    """What-if's intervals are a column, ranked by what is given as their middle, and only there where there are some."""
    trace = traces.Trace()
    traces.small(trace)
    pages.open(trace)
    expect("no column", "saving" in pages.browser.run("[...document.querySelectorAll('[data-sort]')].map((one) => one.dataset.sort)"), False)
    path = pages.open(trace, "savings")
    expect("by rule", list(zip(pages.texts("#table-body .name b"), pages.texts("#table-body tr.entry td:last-child"))), [("pageable-h2d", "12.0 \u00b5s"), ("stream-synchronize", "0 ns to 90.0 \u00b5s")])
    expect("ranked by it", pages.browser.run("document.querySelector('[data-sort=saving]').closest('th').getAttribute('aria-sort')"), "descending")
    pages.press("#by-site")
    expect("by call site", pages.texts("#table-body tr.entry td:last-child"), ["10.0 \u00b5s to 20.0 \u00b5s", "-"])
    pages.silent(path)


def test_timeline(pages):
    """Zoom and move by wheel, keys and buttons; a click gives details; Enter leads to the call site."""
    path = pages.open(traces.train())
    whole = pages.view()
    x, y, width, height = pages.centre("#rows")
    pages.browser.wheel(x + width / 2, y + 40, -120, control=True)
    zoomed = pages.view()
    require("the wheel zooms in", zoomed[1] - zoomed[0] < .8 * (whole[1] - whole[0]))
    pages.browser.wheel(x + width / 2, y + 40, 120)
    expect("a plain wheel scrolls the page only", pages.view(), zoomed)
    pages.browser.run("document.getElementById('rows').focus()")
    pages.browser.key("ArrowRight")
    require("the arrow moves", pages.view()[0] > zoomed[0])
    pages.browser.key("0")
    expect("0 shows all", pages.view(), whole)
    pages.browser.key("+")
    require("+ zooms", pages.view()[1] - pages.view()[0] < .6 * whole[1])
    pages.press("#fit")
    expect("the button shows all", pages.view(), whole)
    pages.browser.key("n")
    require("N chooses a wait", "blocked" in pages.text("#details"))
    first = pages.text("#details")
    pages.browser.key("n")
    require("N goes on", pages.text("#details") != first)
    pages.browser.key("p")
    expect("P goes back", pages.text("#details"), first)
    pages.browser.key("Enter")
    expect("Enter opens the call site", pages.browser.run("document.activeElement.getAttribute('aria-expanded')"), "true")
    pages.press("#fit")
    pages.silent(path)


def test_touch(pages):
    """Two fingers zoom, one moves."""
    path = pages.open(traces.train())
    pages.browser.resize(390, 840, True)
    pages.browser.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    x, y, width, height = pages.centre("#rows")

    def touch(kind, *places):
        pages.browser.send("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x + place, "y": y + 60, "id": number} for number, place in enumerate(places)])

    whole = pages.view()
    touch("touchStart", 100, 200)
    for step in range(1, 6):
        touch("touchMove", 100 - 10 * step, 200 + 10 * step)
    touch("touchEnd")
    pages.browser.settle()
    zoomed = pages.view()
    require(f"two fingers zoom: {whole} {zoomed}", zoomed[1] - zoomed[0] < .7 * (whole[1] - whole[0]))
    touch("touchStart", 200)
    for step in range(1, 6):
        touch("touchMove", 200 - 20 * step)
    touch("touchEnd")
    pages.browser.settle()
    moved = pages.view()
    require(f"one finger moves: {zoomed} {moved}", moved[0] > zoomed[0] and abs((moved[1] - moved[0]) - (zoomed[1] - zoomed[0])) < 1)
    pages.silent(path)
    pages.browser.send("Emulation.setTouchEmulationEnabled", enabled=False)
    pages.browser.resize(1280, 900)


def test_pointer(pages):
    """What lies under the pointer: the wait that a golden trace has there."""
    trace = traces.Trace()
    traces.small(trace)
    path = pages.open(trace)
    x, y, width, height = pages.centre("#rows")
    # rows: the process, thread 78 (its wait ended first), thread 77. The wait of 77 is [100, 200] us after t = 2 s.
    begin, end = pages.view()
    data = json.loads(pages.browser.run("document.getElementById('data').textContent"))
    wait = next(wait for wait in data["waits"] if wait[2] == 90_000)
    pages.browser.run("document.getElementById('rows').focus()")
    for _ in range(12):
        pages.browser.key("n")
        if "stream-synchronize" in pages.text("#details"):
            break
    begin, end = pages.view()
    at = x + 220 + (width - 220) * (wait[0] + wait[1] / 2 - begin) / (end - begin)
    row = 26 + 30 * wait[5] + 15
    pages.browser.move(at, y + row)
    tip = pages.text("#tip")
    require(f"tip: {tip}", tip.startswith("stream-synchronize: cuStreamSynchronize") and "blocked 90.0 \u00b5s of 100 \u00b5s" in tip and "a.py:3 go" in tip)
    pages.browser.key("Escape")
    expect("no details", pages.text("#details"), "")
    pages.browser.click(at, y + row)
    require("a click gives details", "stream-synchronize" in pages.text("#details"))
    pages.silent(path)


def test_hostile(pages):
    """Names that try to be markup, scripts or terminal commands are text."""
    path = pages.open(traces.hostile())
    with open(path, encoding="ascii") as file:
        html = file.read()
    expect("scripts in the file", len(re.findall(r"<script|</script", html)), 4)
    expect("elements that the page has not", pages.browser.run("document.querySelectorAll('img, iframe, b b, object, a:not(.skip)').length"), 0)
    names = pages.texts("#table-body .name b")
    require("markup is text", "</script><script>alert(1)</script>" in names and "<img src=x onerror=alert(1)>" in names and "&lt;&amp;&#60;" in names)
    require("control characters are shown", "\\x1b[31mred\\x1b[0m\\x07\\x0d\\x0a" in names)
    require("prototypes are names", "__proto__" in names)
    expect("long names", max(len(name) for name in names) <= 513, True)
    for index in range(len(names)):
        pages.browser.run(f"(() => {{ const button = document.querySelectorAll('[data-key]')[{index}]; if (button.getAttribute('aria-expanded') === 'false') button.click(); }})()")
    pages.browser.run("document.getElementById('rows').focus()")
    for _ in range(len(names)):
        pages.browser.key("n")
    for name in ("__proto__", traces.HOSTILE[0]):
        pages.choose("filter-rule", name)
        expect(f"filter by {name}", pages.texts("#table-body .name b"), [name])
    expect("no sideways scrolling", pages.browser.run("document.scrollingElement.scrollWidth <= window.innerWidth"), True)
    pages.silent(path)


def test_policy(pages):
    """The policy of the page is on: what would fetch, embed or run something is refused."""
    trace = traces.Trace()
    traces.small(trace)
    pages.open(trace)
    expect("fetch", pages.browser.run("fetch('http://127.0.0.1:9/').then(() => 'loaded', () => 'refused')"), "refused")
    pages.browser.run("(() => { const script = document.createElement('script'); script.textContent = 'window.wasRun = true'; document.body.append(script);"
                      "document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x.png\" onerror=\"window.wasRun = true\">'); })()")
    pages.browser.run("new Promise((done) => setTimeout(done, 100))")
    expect("inline code", pages.browser.run("window.wasRun === undefined"), True)
    require("the refusals were reported", sum("Content Security Policy" in problem for problem in pages.browser.problems) >= 3)


def test_doubt(pages):
    """Lost events, notes: the page says that it proves nothing."""
    trace = traces.Trace()
    process = traces.small(trace)
    trace.lost(2_300_000_000, "alpha", 12)
    process.define("def_note", note=1, code=2, text=process.string("0102"), count=1)
    process.define("def_note", note=2, code=1, text=process.string("cuOfLater"), count=1)
    pages.open(trace)
    expect("banner", pages.browser.run("document.getElementById('doubt').hidden"), False)
    reasons = pages.texts("#reasons li")
    require("lost events", "12 events were lost by the tracer" in reasons)
    require("table", "an unknown export table was handed out: 0102" in reasons)
    require("function", "a function without wrapper was handed out: cuOfLater" in reasons)
    empty = traces.Trace()
    pages.open(empty)
    require("no process", "no process left a record (no driver call seen)" in pages.texts("#reasons li"))
    expect("no waits", pages.text("#table-body").strip(), "No wait was recorded.")


def test_bounds(pages):
    """A long trace: exact sums, bounded size, and a note of what is left out."""
    trace = traces.Trace()
    traces.small(trace, full=False)
    path = os.path.join(pages.folder, "long.trace")
    trace.write(path)
    waits = 150_000
    with open(path, "a", encoding="ascii") as file:
        for index in range(waits):
            ns = 3_000_000_000 + index * 9000
            file.write(f"{ns // 10**9}.{ns % 10**9:09d} host=alpha pid=77 tid={77 + index % 4} wait wait={1 + index % 2} candidates=1 stream=2 blocked_ns={999 if index % 1000 == 7 else 800 + index % 97} call_ns=1000\n")
    out = os.path.join(pages.folder, "long.html")
    subprocess.run([pages.program, path, "html=" + out], check=True, timeout=50, stdout=subprocess.DEVNULL)
    size = os.path.getsize(out)
    print(f"page of {waits} waits: {size} bytes")
    require("size", size < 4 << 20)
    pages.browser.problems.clear()
    pages.browser.requests.clear()
    pages.browser.open("file://" + out)
    expect("waits", sum(int(text.replace(",", "")) for text in pages.texts("#table-body tr.entry td:nth-child(3)")), waits + 2)
    longest = pages.browser.run("JSON.parse(document.getElementById('data').textContent).waits.filter((wait) => wait[2] === 999).length")
    expect("the longest are kept", longest, waits // 1000)
    require("the note", f"of {waits + 2:,} waits one by one" in pages.text("#footer"))
    pages.silent(out)


CONTRAST = """(() => {
  const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([red, green, blue]) => { const [r, g, b] = [red, green, blue].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const back = (element) => { for (; element; element = element.parentElement) { const c = numbers(getComputedStyle(element).backgroundColor);
    if (c.length === 3 || c[3] > .5) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || ['SCRIPT', 'OPTION'].includes(element.tagName) || element.closest('.hidden, .skip')) continue;
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(back(element))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) poor.push([element.tagName, element.className, element.textContent.slice(0, 30), ((a + .05) / (b + .05)).toFixed(2)].join(' '));
  }
  return poor;
})()"""


def test_looks(pages):
    """Light and dark, wide and narrow: text has contrast, nothing sticks out sideways, every control has a name."""
    path = pages.open(traces.train())
    pages.press("#table-body [data-key]")
    pages.press("#next")
    for width, mobile in ((1280, False), (800, False), (390, True), (320, True)):
        pages.browser.resize(width, 840, mobile)
        for dark in (False, True):
            pages.browser.dark(dark)
            expect(f"poor contrast at {width}, dark {dark}", pages.browser.run(CONTRAST), [])
            expect(f"sideways scrolling at {width}", pages.browser.run("document.scrollingElement.scrollWidth <= window.innerWidth"), True)
    pages.browser.resize(1280, 900)
    pages.browser.dark(False)
    pages.press("#theme")
    expect("the button changes the theme", pages.browser.run("getComputedStyle(document.documentElement).colorScheme"), "dark")
    tree = pages.browser.send("Accessibility.getFullAXTree")["nodes"]
    nameless = [node["role"]["value"] for node in tree if not node.get("ignored") and node.get("role", {}).get("value") in ("button", "combobox", "searchbox", "link", "application")
                and not node.get("name", {}).get("value")]
    expect("controls without a name", nameless, [])
    require("column headers", sum(node.get("role", {}).get("value") == "columnheader" for node in tree) == 7)
    require("row headers", sum(node.get("role", {}).get("value") == "rowheader" for node in tree) == 4)
    pages.silent(path)


TESTS = (test_figures, test_table, test_savings, test_timeline, test_touch, test_pointer, test_hostile, test_policy, test_doubt, test_bounds, test_looks)


def main():
    with tempfile.TemporaryDirectory() as folder:
        try:
            browser = Chromium(1280, 900)
        except Missing as missing:
            print(f"skipped: {missing}")
            return 77
        with browser:
            pages = Pages(sys.argv[1], folder, browser)
            for test in TESTS:
                test(pages)
                print(test.__name__, "ok", flush=True)
    return 0


sys.exit(main())
