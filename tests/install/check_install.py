#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""meson install --destdir: the whole tree is there, works from there, and says nothing of the build folder."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

problems = []
WANTED = [  # below the prefix
    "bin/slipstream",
    "include/slipstream/slipstream.h",
    "include/slipstream/future.h",
    "include/slipstream/future_class.h",
    "include/slipstream/future_driver.h",
    "include/slipstream/future_monitor.h",
    "include/slipstream/future_state.h",
    "include/slipstream/future_wait.h",
    "share/man/man1/slipstream.1",
    "share/man/man1/slipstream-run.1",
    "share/man/man1/slipstream-trace.1",
    "share/man/man1/slipstream-attach.1",
    "share/man/man1/slipstream-dump.1",
    "share/slipstream/slipstream-dump.schema.json",
    "share/man/man1/slipstream-lint.1",
    "share/slipstream/slipstream-lint.schema.json",
    "share/bash-completion/completions/slipstream",
]
# Parts of builds with LTTng: built file, and what it is called below the prefix.
TRACING = [
    ("tools/trace/slipstream-trace", "slipstream/slipstream-trace"),
    ("tools/trace/libslipstream-daemon-user.so", "slipstream/libslipstream-daemon-user.so"),
    ("tracing/provider/libslipstream-lttng.so", "slipstream/libslipstream-lttng.so"),
]
ANALYSIS = [
    ("tracing/analysis/slipstream-analyze", "slipstream/slipstream-analyze"),
    ("tracing/analysis/babeltrace-plugin-slipstream.so", "babeltrace2/plugins/babeltrace-plugin-slipstream.so"),
    ("tools/verify/slipstream-verify", "slipstream/slipstream-verify"),
    ("tools/lint/trace/slipstream-lint", "slipstream/slipstream-lint"),
]
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "analysis", "golden", "one-wait")


def check_analysis(tool, plugin, environment):
    """The installed command and the installed plugin report the same of a golden trace."""
    with open(GOLDEN + ".txt", encoding="utf-8") as file:
        wanted = file.read()
    for command in ([tool, "report", GOLDEN + ".trace"],
                    ["babeltrace2", "--plugin-path", os.path.dirname(plugin), "--component=source.slipstream.text",
                     '--params=path="%s.trace"' % GOLDEN, "--component=sink.slipstream.report"]):
        if not shutil.which(command[0]):
            continue
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        if result.returncode or result.stdout != wanted:
            problems.append("%s: %s" % (" ".join(command), result.stderr or result.stdout))


def check_trace(tool, build, program, environment, work):
    """The installed trace finds the installed provider, and the events of the program arrive."""
    folder = os.path.join(work, "trace")
    ran = subprocess.run([tool, "trace", "--driver", os.path.join(build, "tests", "simcuda"), "--output", "/dev/null", "--folder", folder, "--",
                          program], env=environment, capture_output=True, text=True, timeout=120)
    if ran.returncode:
        problems.append("the demo failed under the installed trace: %s" % ran.stderr)
        return
    read = subprocess.run(["babeltrace2", folder], capture_output=True, text=True, timeout=60)
    if "slipstream:wait:" not in read.stdout:
        problems.append("the installed trace recorded no wait: %s" % (ran.stderr + read.stderr))
    found = subprocess.run([tool, "trace", "--output", "/dev/null", "--folder", folder + "-environment", "--", "env"], env=environment,
                           capture_output=True, text=True, timeout=60)
    if "SLIPSTREAM_LTTNG=%s/" % os.path.realpath(os.path.join(work, "moved")) not in found.stdout:
        problems.append("the installed trace took another provider: %s" % found.stdout)


def main():
    build, program = sys.argv[1:3]
    # A binary of the sanitizer builds wants its runtime everywhere; the ordinary build is the one that is installed.
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", work], check=True,
                       stdout=subprocess.DEVNULL)
        (tool,) = glob.glob(work + "/**/bin/slipstream", recursive=True) or sys.exit("bin/slipstream is not installed")
        prefix = os.path.dirname(os.path.dirname(tool))
        for name in WANTED:
            if not os.path.exists(os.path.join(prefix, name)):
                problems.append("%s is not installed" % name)
        libraries = glob.glob(prefix + "/**/libslipstream.so", recursive=True)
        if len(libraries) != 1:
            sys.exit("libslipstream.so is installed %d times" % len(libraries))

        if shutil.which("man"):
            for page in glob.glob(prefix + "/share/man/man*/*"):
                shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True,
                                       env=dict(os.environ, MANPAGER="cat", LC_ALL="C.UTF-8", MANWIDTH="100"))
                if shown.returncode or shown.stderr or len(shown.stdout) < 200:
                    problems.append("man page %s: %s" % (os.path.basename(page), shown.stderr.strip() or "empty"))

        # Moved elsewhere, so that nothing can be found by an absolute path.
        moved = os.path.join(work, "moved")
        os.rename(prefix, moved)
        tool = os.path.join(moved, "bin", "slipstream")
        library = libraries[0].replace(prefix, moved)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SLIPSTREAM_") and k != "LD_PRELOAD"}
        maps = subprocess.run([tool, "run", "--output", "/dev/null", "--", "cat", "/proc/self/maps"], env=environment,
                              capture_output=True, text=True, timeout=60)
        if maps.returncode or os.path.realpath(library) not in maps.stdout:
            problems.append("the installed tool did not preload %s (status %d): %s"
                            % (library, maps.returncode, maps.stderr))
        maps = subprocess.run([tool, "lint", "--guard", "--", "cat", "/proc/self/maps"], env=environment, capture_output=True, text=True,
                              timeout=60)
        if os.path.join(os.path.dirname(os.path.realpath(library)), "libslipstream-guard.so") not in maps.stdout:
            problems.append("the installed lint --guard did not preload its library: %s" % maps.stderr)
        report = os.path.join(work, "report.json")
        ran = subprocess.run([tool, "run", "--driver", os.path.join(build, "tests", "simcuda"), "--json", report,
                              "--output", "/dev/null", "--", program], env=environment, capture_output=True, text=True,
                             timeout=120)
        if ran.returncode:
            problems.append("the demo failed under the installed tool: %s" % ran.stderr)
        else:
            with open(report) as file:
                if json.load(file)["calls"]["total"] == 0:
                    problems.append("the installed tool counted no call")
        built = [(name, path) for name, path in TRACING if os.path.exists(os.path.join(build, name))]
        for name, path in built:
            if not glob.glob(moved + "/**/" + path, recursive=True):
                problems.append("%s is not installed" % path)
        if len(built) == len(TRACING) and shutil.which("lttng-sessiond") and shutil.which("babeltrace2"):
            check_trace(tool, build, program, environment, work)
        built = [(name, path) for name, path in ANALYSIS if os.path.exists(os.path.join(build, name))]
        for name, path in built:
            if not glob.glob(moved + "/**/" + path, recursive=True):
                problems.append("%s is not installed" % path)
        if len(built) == len(ANALYSIS) and not problems:
            check_analysis(tool, glob.glob(moved + "/**/" + ANALYSIS[1][1], recursive=True)[0], environment)
    if problems:
        sys.exit("\n".join(problems))


main()
