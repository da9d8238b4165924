#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The commands of the README answer bad input and a bare machine with one clear line, and change nothing then."""
import os
import stat
import subprocess
import sys
import tempfile

root = sys.argv[1]
problems = []


def run(command, **environment):
    return subprocess.run([os.path.join(root, *command[0].split("/"))] + command[1:], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, **environment), timeout=120)


def expect(command, status, part, **environment):
    result = run(command, **environment)
    lines = result.stderr.strip().splitlines()
    if result.returncode != status or len(lines) != 1 or part not in lines[0]:
        problems.append("%s: status %d, expected %d and one line with '%s', got: %s"
                        % (" ".join(command), result.returncode, status, part, result.stderr))
    return result


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


with tempfile.TemporaryDirectory() as work:
    expect(["tools/demo", "--nonsense"], 2, "'--nonsense'")
    expect(["tools/demo", "--json"], 2, "--json needs a file")
    expect(["tools/demo", "--prebuilt", "--build", work], 1, "libslipstream.so is not there")
    expect(["tools/check", "--nonsense"], 2, "'--nonsense'")
    expect(["tools/fetch-cuda-headers", "a", "b"], 2, "usage")
    expect(["tools/install-dependencies", "nonsense"], 2, "'nonsense'")
    for command in ("tools/demo", "tools/check"):
        result = run([command, "--help"])
        if result.returncode or result.stderr or not result.stdout.startswith("usage: " + command):
            problems.append("%s --help: %d %s" % (command, result.returncode, result.stderr))

    # A machine with nothing installed and without root: a packaging tool that knows no package.
    marker = os.path.join(work, "installed")
    script(work, "dpkg-query", "exit 0\n")
    script(work, "apt-get", "touch %s\n" % marker)
    script(work, "id", "echo 1000\n")
    path = work + ":" + os.environ["PATH"]
    expect(["tools/install-dependencies", "build"], 1, "apt-get install --no-install-recommends", PATH=path)
    if os.path.exists(marker):
        problems.append("install-dependencies called apt-get without root")
    # The same with root: the packages are named, and installed.
    script(work, "id", "echo 0\n")
    result = run(["tools/install-dependencies", "build"], PATH=path)
    if result.returncode or not os.path.exists(marker) or "meson" not in result.stdout:
        problems.append("install-dependencies as root: %d %s" % (result.returncode, result.stdout + result.stderr))

    # No network for the headers.
    result = run(["tools/fetch-cuda-headers", os.path.join(work, "headers")], PIP_NO_INDEX="1", PIP_FIND_LINKS=work)
    last = (result.stderr.strip().splitlines() or [""])[-1]
    if result.returncode != 1 or "install the CUDA toolkit" not in last:
        problems.append("fetch-cuda-headers without a network: %d %s" % (result.returncode, result.stderr))

if problems:
    sys.exit("\n".join(problems))
