# SPDX-License-Identifier: MIT
"""Headless Chromium, driven through its debugging protocol over a pipe: what the tests of the page and the timeline need of it.

Debian package chromium; no Python package. Everything the page reports (console, exceptions, policy violations, requests) is
kept, so that a test can say that there was nothing.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Missing(Exception):
    """There is no browser here: a reason to skip."""


class Chromium:
    def __init__(self, width=1280, height=900, dark=False, timeout=40):
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not binary:
            raise Missing("no chromium (Debian package chromium)")
        self.timeout = timeout
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def as_3_and_4():
            os.dup2(to_browser, 63)
            os.dup2(from_browser, 64)
            os.dup2(63, 3)
            os.dup2(64, 4)

        self.log = open(os.path.join(self.profile.name, "log"), "w+")
        self.process = subprocess.Popen(
            [binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=as_3_and_4, close_fds=False,
            env={**os.environ, "HOME": self.profile.name})
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session = 0, b"", None
        self.problems, self.requests, self.loaded = [], [], False
        target = next(target for target in self.wait_for_targets() if target["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.send(domain + ".enable")
        self.resize(width, height)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.send("Browser.close")
        except (RuntimeError, OSError):
            pass
        os.close(self.write_end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        self.log.close()
        self.profile.cleanup()

    def wait_for_targets(self):
        for _ in range(100):
            targets = self.send("Target.getTargets")["targetInfos"]
            if any(target["type"] == "page" for target in targets):
                return targets
            time.sleep(.1)
        raise RuntimeError("chromium opened no page")

    def send(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        wanted, end = self.number, time.monotonic() + self.timeout
        while True:
            answer = self.receive(end)
            if answer.get("id") == wanted:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def receive(self, end):
        while b"\0" not in self.buffer:
            if not select.select([self.read_end], [], [], max(end - time.monotonic(), 0))[0]:
                raise RuntimeError("chromium does not answer")
            data = os.read(self.read_end, 1 << 20)
            if not data:
                self.log.seek(0)
                raise RuntimeError("chromium ended: " + self.log.read()[-800:])
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method, parameters):
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append("exception: " + details.get("exception", {}).get("description", details.get("text", "")))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(f"console.{parameters['type']}: " + " ".join(str(argument.get("value", argument.get("description"))) for argument in parameters["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(f"{parameters['entry']['source']} {parameters['entry']['level']}: {parameters['entry']['text']}")
        elif method == "Audits.issueAdded":
            self.problems.append("issue: " + parameters["issue"]["code"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append("dialog: " + parameters["message"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def open(self, url):
        self.loaded = False
        self.send("Page.navigate", url=url)
        end = time.monotonic() + self.timeout
        while not self.loaded:
            self.receive(end)
        self.settle()

    def settle(self):
        """Two frames later: what was asked for has been drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script):
        """The value of an expression; a promise is waited for."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return answer["result"].get("value")

    def resize(self, width, height, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, dark):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.settle()

    def click(self, x, y, count=1):
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
        self.settle()

    def move(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def wheel(self, x, y, amount, control=False):
        self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=amount, modifiers=2 if control else 0)
        self.settle()

    def key(self, key, code=None):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)
        self.settle()

    def screenshot(self, path, whole=False):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))
