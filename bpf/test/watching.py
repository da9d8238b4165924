# SPDX-License-Identifier: MIT
"""What the tests of the watch share: the tool, the programs, one run of them. FOLDER: the second argument of check_watch.py."""
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

SKIP = 77
FOLDER = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
TOOL = os.path.join(FOLDER, "watch-tool")
PROGRAM = os.path.join(FOLDER, "watch-program")
LATE = os.path.join(FOLDER, "watch-late")
DRIVER = os.path.join(FOLDER, "libcuda.so.1")
FORMS = os.path.join(FOLDER, "libforms.so")
PTSZ = "cuStreamSynchronize_ptsz"
PLAIN = "cuStreamSynchronize"


def environment(**more):
    result = dict(os.environ, LD_LIBRARY_PATH=FOLDER, **more)
    result.pop("LD_PRELOAD", None)
    return result


class Watch:
    """One run of the tool; `with` gives the report once it has ended."""

    def __init__(self, *options, program=(), tool=TOOL, env=None, wrap=(), before=None):
        self.folder = tempfile.mkdtemp(prefix="watch.")
        os.chmod(self.folder, 0o777)
        self.output = os.path.join(self.folder, "seen.json")
        command = [*wrap, tool, "--output", self.output, *options]
        command += ["--", *program] if program else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env or environment(),
                                        preexec_fn=before)

    def ready(self):
        """Waits until the probes are there."""
        lines = []
        for line in self.process.stderr:
            if line == "watching\n":
                return self
            lines.append(line)
        raise AssertionError(lines)

    def end(self, number=signal.SIGTERM):
        if number:
            self.process.send_signal(number)
        return self.report()

    def report(self):
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, (self.process.returncode, err)
        with open(self.output, encoding="utf-8") as file:
            seen = json.load(file)
        shutil.rmtree(self.folder)
        seen["out"] = out
        return seen


def watch(*options, program=(), **more):
    return Watch(*options, program=program, **more).report()


def calls(seen):
    return {name: count["calls"] for name, count in seen["functions"].items()}


def nothing_lost(seen):
    for key in ("lost_records", "lost_calls", "lost_callers", "lost_processes"):
        assert seen[key] == 0, (key, seen[key])


class Program(subprocess.Popen):
    """Ended where a test fails inside `with`, which would wait for it."""

    def __exit__(self, kind, value, trace):
        if kind:
            self.kill()
        super().__exit__(kind, value, trace)


def started(*command, env=None, **more):
    """A program that says "ready" and goes on when its input ends."""
    process = Program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env or environment(), **more)
    assert process.stdout.readline() == "ready\n"
    return process


def needs_root(test):
    """A test that takes rights away."""
    @functools.wraps(test)
    def checked():
        if os.geteuid():
            print("not here: not root, so no rights to take away")
        else:
            test()
    return checked


def as_nobody(folder, *capabilities):
    """What runs a command as another user with these capabilities only."""
    names = ",".join("+" + name for name in capabilities)
    keep = ["--inh-caps", "-all," + names, "--ambient-caps", "-all," + names] if names else ["--inh-caps", "-all"]
    for name in ("watch-tool", "watch-program", "watch-late", "libcuda.so.1"):
        shutil.copy(os.path.join(FOLDER, name), folder)
    os.chmod(folder, 0o755)
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *keep, "env", f"LD_LIBRARY_PATH={folder}"]
