# SPDX-License-Identifier: MIT
"""What the GPU suite ran on: machine, driver and versions of everything that took part; used by run_all.py, and as a line by trace.py and whatif.py."""
import datetime
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys

PACKAGES = ("torch", "cupy-cuda13x", "cupy-cuda12x", "cupy", "jax", "jaxlib", "triton", "numpy", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def field(path, pattern):
    try:
        with open(path, encoding="utf-8") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1) if found else ""


def versions():
    found = {"Python": platform.python_version(), "glibc": platform.libc_ver()[1]}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    release = re.search(r"V([\d.]+)", output(nvcc, "--version"))
    if release:
        found["nvcc"] = release.group(1)
    return found


def built_from(build):
    """The commit, as pack.sh wrote it or as git has it, "and changes" where files differ from it; "" where nobody knows."""
    try:
        with open(os.path.join(build, "commit"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        pass
    source = os.path.dirname(os.path.abspath(__file__))
    commit = output("git", "-C", source, "rev-parse", "--short=12", "HEAD")
    changed = commit and output("git", "-C", source, "status", "--porcelain", "--untracked-files=no")
    return commit + (" and changes" if changed else "")


def hash_of(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]
    except OSError:
        return ""


def machine(build):
    gpu = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "gpu": gpu[0].split(",")[0].strip() if gpu else "",
        "gpus": len(gpu), "driver": gpu[0].split(",")[1].strip() if gpu and "," in gpu[0] else "",
        "cpu": field("/proc/cpuinfo", r"^model name\s*: (.*)$"), "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(),
        "system": field("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'), "versions": versions(), "python": sys.executable,
        "slipstream": output(os.path.join(build, "tools", "slipstream"), "--version"), "commit": built_from(build),
        # Of the very file that was preloaded: two builds of one commit can differ.
        "library": hash_of(os.path.join(build, "shim", "libslipstream.so")),
    }


def what_ran(build):
    """One line for RESULTS.md: when, what and where."""
    what = machine(build)
    return (f"ran   {what['date']}: {what['slipstream'] or 'slipstream'}, commit {what['commit'] or 'unknown'}, libslipstream.so sha256 "
            f"{what['library'] or 'unknown'}; {what['gpu'] or 'no GPU'}, driver {what['driver'] or 'unknown'}")
