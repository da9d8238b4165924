#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The entry tests: runs one program of this folder under the shim and looks at what came of it.

    run.py --list
    run.py --shim FILE --folder BUILD --source SOURCE --simcuda DIR TEST

A test named failure-NN-... is the public failure NN of FAILURES.md. Exit status 77: skipped, with the reason.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slip  # noqa: E402

TESTS = {}
GETPPID = {"x86_64": 110, "aarch64": 173}.get(os.uname().machine)


def test(name):
    def add(function):
        assert name not in TESTS, name
        TESTS[name] = function
        return function
    return add


class Skip(Exception):
    """Cannot be tried here; the text says why."""


class Place:
    """One test's folder: a driver folder, a folder for records, and how to run a program."""

    def __init__(self, arguments, temporary):
        self.shim = os.path.abspath(arguments.shim)
        self.folder = os.path.abspath(arguments.folder)
        self.source = arguments.source
        text = subprocess.run(["objdump", "-p", self.shim], capture_output=True, text=True, check=True).stdout
        runtimes = re.findall(r"NEEDED\s+(lib\w*san)\.so", text)
        # ASan's runtime must come first (public failure 19); a program of the same build has it in its own list, behind the preload.
        self.runtimes = [self.runtime(name) for name in runtimes if name == "libasan"]
        self.sanitized = bool(runtimes)
        self.simcuda = arguments.simcuda
        self.temporary = temporary
        self.out = os.path.join(temporary, "out")
        os.mkdir(self.out)

    @staticmethod
    def runtime(name):
        """The compiler's own shared runtime, None if it has none."""
        path = subprocess.run(["gcc", f"-print-file-name={name}.so"], capture_output=True, text=True, check=False).stdout.strip()
        return os.path.realpath(path) if os.path.isabs(path) else None

    def library(self, name):
        return os.path.join(self.folder, f"lib{name}.so")

    def program(self, name):
        return os.path.join(self.folder, f"entry-{name}")

    def driver_folder(self, kind):
        folder = os.path.join(self.temporary, kind)
        if not os.path.isdir(folder):
            os.mkdir(folder)
            os.symlink(self.library(f"fake-{kind}"), os.path.join(folder, "libcuda.so.1"))
        return folder

    def run(self, *command, driver="full", preload=None, status=0, environment=None, out=True, shim=True):
        """Runs it; returns (stdout, stderr). The status must be as given."""
        values = {key: value for key, value in os.environ.items() if not key.startswith("SLIPSTREAM_")}
        values.pop("LD_PRELOAD", None)
        values.pop("LD_LIBRARY_PATH", None)
        if driver:
            values["LD_LIBRARY_PATH"] = self.driver_folder(driver) if driver != "simcuda" else self.simcuda
        preload = preload if preload is not None else ["SHIM"]
        if shim:
            values["LD_PRELOAD"] = " ".join(self.runtimes + [self.shim if item == "SHIM" else item for item in preload])
        values.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        if out:
            values["SLIPSTREAM_OUT"] = self.out
        values.update(environment or {})
        done = subprocess.run(command, env=values, capture_output=True, text=True, timeout=110, check=False)
        if done.returncode != status:
            raise AssertionError(f"{' '.join(command)}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def quiet(self, *command, **options):
        """Runs it; nothing may appear on stderr."""
        stdout, stderr = self.run(*command, **options)
        assert stderr == "", f"stderr: {stderr}"
        return stdout

    def calls(self, *case, **options):
        return self.quiet(self.program("calls"), *case, **options)

    def skip_if_sanitized(self):
        """A library built with a sanitizer brings its runtime, which some programs here cannot have."""
        if self.sanitized:
            raise Skip("the shim is built with a sanitizer")

    def processes(self):
        return slip.processes(self.out)

    def process(self):
        found = self.processes()
        assert len(found) == 1, f"{len(found)} record files"
        return found[0]


def equal(got, wanted, what):
    assert got == wanted, f"{what}: {got!r}, not {wanted!r}"


def counts(process, **wanted):
    for name, count in wanted.items():
        equal(process.counts.get(name, 0), count, f"calls of {name}")


# Ways in -------------------------------------------------------------------------------------------------------------------


@test("entry-dlsym-callers-are-counted")
def _(place):
    place.calls("dlsym")
    process = place.process()
    equal(process.counts, {"cuInit": 1, "cuCtxGetCurrent": 1000}, "counts")
    equal(process.handed_out, {"cuInit": 1, "cuCtxGetCurrent": 1}, "handed out")
    equal(process.header["state"], 2, "state")
    equal(process.header["driver_version"], 13000, "driver version")
    assert process.driver.endswith("/libcuda.so.1"), process.driver
    assert "cuMemcpyHtoD_v2" in process.in_driver and "cuMemcpyDtoH_v2" not in process.in_driver


@test("entry-linked-callers-are-counted")
def _(place):
    place.quiet(place.program("linked"), "calls", driver="more")
    counts(place.process(), cuInit=1, cuCtxGetCurrent=10, cuMemAlloc_v2=1, cuMemcpyHtoD_v2=1, cuMemFree_v2=1)


@test("failure-08-versions")
def _(place):
    """One wrapper an address, each version its own prototype."""
    place.calls("identity")
    counts(place.process(), cuCtxSynchronize_v2=1, cuCtxSynchronize=0)


@test("entry-off-changes-no-address-and-counts-nothing")
def _(place):
    for case in ("dlsym", "identity", "fork-after-init"):
        place.calls(case, environment={"SLIPSTREAM_MODE": "off"})
    place.quiet(place.program("linked"), "missing", driver="full", environment={"SLIPSTREAM_MODE": "off"})
    equal(place.processes(), [], "record files")


@test("entry-a-driver-opened-by-its-path")
def _(place):
    place.calls("absolute", os.path.join(place.driver_folder("full"), "libcuda.so.1"), driver=None)
    counts(place.process(), cuInit=1)


@test("entry-a-second-driver-passes-and-is-noted")
def _(place):
    # The loader takes a file with a loaded SONAME for the loaded library, so the second one goes by another.
    second = os.path.join(place.temporary, "libcuda.so.2")
    with open(place.library("fake-more"), "rb") as stream:
        data = stream.read()
    with open(second, "wb") as stream:
        stream.write(data.replace(b"libcuda.so.1\0", b"libcuda.so.2\0", 1))
    place.calls("second", second)
    process = place.process()
    equal(process.note("second"), [second], "note")
    counts(process, cuInit=1)


@test("entry-functions-without-prototype-are-counted-and-keep-every-argument")
def _(place):
    place.calls("thunk")
    process = place.process()
    counts(process, cuGraphicsEGLRegisterImage=10)
    equal(process.note("unwrapped"), ["cuGraphicsEGLRegisterImage"], "unwrapped")
    assert "cuGraphicsEGLRegisterImage" not in process.wrapped


@test("entry-unknown-driver-functions-pass-and-are-noted")
def _(place):
    place.calls("unknown")
    equal(place.process().note("unwrapped"), ["cuFutureThing", "cuPrivate"], "unwrapped")


@test("entry-wrappers-take-the-same-steps")
def _(place):
    """Every generated wrapper has the steps that shim/call.h names, once each and in that order."""
    steps = ["entry_count(", "ENTRY_DRIVER(", "entry_missing(", "return real_(", "entry_begin(", "entry_rooms_enter();", "state_before(&call);",
             "entry_rooms_leave();", "call.entered = ", "clock_ticks()", "result_ = real_(", "call.left = clock_ticks();",
             "entry_rooms_enter();", "sync_after(&call, result_);", "state_after(&call, result_);", "entry_rooms_leave();",
             "return result_;"]
    # In mode fix a rewrite is asked before the driver; a getter's goes without struct call.
    rewrite = [*steps[:7], "if (!entry_unlikely(rewrite_active()) || !rewrite_", *steps[7:]]
    # Where the driver found no memory, rewrites are asked for some, and the call is made again.
    again = ["while (entry_unlikely(result_ == CUDA_ERROR_OUT_OF_MEMORY) && rewrite_active()) {", "entry_rooms_enter();",
             "again_ = rewrite_make_room(&call, &room_);", "entry_rooms_leave();", "if (!again_)", "break;", "result_ = real_("]
    getter = [*steps[:3], "if (entry_unlikely(rewrite_active()) && rooms_) {", "entry_rooms_enter();", "done_ = rewrite_",
              "entry_rooms_leave();", "if (done_)", "return result_;", "return real_("]
    # A launch looks for the short way first (shim/state/launch.h); what has to be timed or said is in a function of its own.
    launch = ["state_launch_remembered(FUNCTION_", "&ready_))) {", "result_ = ((CUresult (* )(", "ready_.real)(",
              "if (entry_likely(result_ == CUDA_SUCCESS))", "state_launch_succeeded(&ready_);", "else", "state_launch_failed(result_);", "return result_;", "return long_"]
    long = ["entry_count(", "ENTRY_DRIVER(", "entry_missing(", "return real_(", "entry_rooms_enter();", "state_launch_is_plain(", "entry_joins(&launch_, &call));", "if (!plain_) {",
            "entry_begin(", "state_before(&call);", "}", "entry_rooms_leave();", "clock_ticks();", "result_ = real_(", "left_ = clock_ticks();",
            "entry_rooms_enter();", "if (plain_ && result_ == CUDA_SUCCESS && state_launch_done(&launch_, entered_, left_)) {",
            "if (launch_.is_joining)", "sync_launch_joined(FUNCTION_", "else", "state_launch_remember(&launch_, FUNCTION_", "entry_rooms_leave();", "return result_;",
            "if (plain_) {", "entry_begin(", "state_launch_late(&launch_, &call);", "}",
            "call.entered = ", "call.left = left_;", "sync_after(&call, result_);", "state_after(&call, result_);", "entry_rooms_leave();",
            "return result_;"]
    # Pinned memory asks for a short way of its own (shim/rewrite/short.h).
    hasty = ["if (entry_likely(rooms_) && short_magazine) {", "entry_rooms_enter();", "rooms_ = !short_host_", "entry_rooms_leave();", "if (!rooms_)",
             "return CUDA_SUCCESS;"]
    found = timed = short = pinned = 0
    for name in sorted(os.listdir(os.path.join(os.path.dirname(place.shim), "entry"))):
        if not re.match(r"wrappers_\d+\.c$", name):
            continue
        with open(os.path.join(os.path.dirname(place.shim), "entry", name), encoding="utf-8") as stream:
            text = stream.read()
        for function, body in re.findall(r"^(?:static ENTRY_LONG )?CUresult ((?:long_)?cu\w+)\([^{]*\)\n\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
            found += 1
            # A call that drains the device keeps staged copies away meanwhile (shim/stage/drain.h), a launch where it loads its function.
            body = re.sub(r"DRAINING\((real_\([^()]*\))\)", r"\1", body)
            # One that can change what memory of the host is known to the driver says so (shim/rewrite/known.h).
            body = re.sub(r"KNOWN_CHANGES\((real_\([^()]*\))\)", r"\1", body)
            body = re.sub(r"entry_unlikely\(!plain_ && call\.flags & CALL_FIRST_USE\) \? real_\([^()]*\) : ", "", body)
            wanted = (long if function.startswith("long_") else launch if "state_launch_remembered(" in body
                      else getter if "done_ = " in body else rewrite if "|| !rewrite_" in body
                      else steps if "struct call call;" in body else steps[:4])
            # A listener is told of each call but plain launches (shim/emit/usdt.h).
            told = "USDT_SCOPE" in body or f"listened_{function}(" in body
            equal(told, wanted is not launch, f"{function}: tells a listener")
            timed += wanted in (steps, rewrite)
            short += wanted is launch
            if "again_" in body:
                place_of_call = wanted.index("result_ = real_(") + 1
                wanted = [*wanted[:place_of_call], *again, *wanted[place_of_call:]]
            if "short_magazine" in body:
                pinned += 1
                wanted = [wanted[0], *hasty, *wanted[1:]]
            at = 0
            for step in wanted:
                at = body.find(step, at)
                assert at >= 0, f"{function}: no {step} in its place"
                at += 1
            equal(len(re.findall(r"\breal_\(|ready_\.real\)\(", body)), 1 if wanted in (launch, getter, steps[:4]) else 3 if "again_" in body else 2, f"{function}: calls of the driver")
            assert f"FUNCTION_{function.removeprefix('long_')}" in body, f"{function}: counts another function"
    assert found > 600 and timed > 200, f"{found} wrappers, {timed} timed"
    assert short >= 6, f"{short} launches with a short way"
    equal(pinned, 3, "functions of pinned memory with a short way")


@test("entry-dlsym-looked-up-by-dlsym-is-ours")
def _(place):
    place.calls("dlsym-of-dlsym")


@test("entry-probing-by-rtld-default-finds-the-driver-exactly-where-it-is")
def _(place):
    place.calls("probe-global")
    place.calls("probe", driver=None)


@test("entry-a-weak-reference-without-driver-gets-a-status")
def _(place):
    equal(place.quiet(place.program("weak"), driver=None), "34\n", "stdout")


@test("entry-errno-is-kept")
def _(place):
    place.calls("errno")


@test("entry-dlerror-is-kept")
def _(place):
    place.calls("dlerror")


@test("entry-calls-from-a-signal-handler")
def _(place):
    copies, others = map(int, place.calls("signal").split())
    counts(place.process(), cuMemcpyHtoD_v2=copies, cuCtxGetCurrent=others)


@test("entry-driver-closed-and-opened-again")
def _(place):
    place.calls("reopen")
    counts(place.process(), cuCtxGetCurrent=2)


@test("entry-rtld-default-in-a-plugin")
def _(place):
    """RTLD_DEFAULT of a plugin whose driver was loaded for it alone."""
    place.calls("linked-plugin", place.library("entry-plugin-linked"))
    counts(place.process(), cuInit=1)


@test("entry-fork-without-wipe-on-fork")
def _(place):
    """A kernel that has no such pages: fork is still seen, and a note says what is not."""
    status = subprocess.run([place.program("no-wipe"), "/bin/true"], check=False).returncode
    if status == 77:
        raise Skip("no seccomp filters here")
    place.quiet(place.program("no-wipe"), place.program("calls"), "fork-after-init")
    parent, child = place.processes()
    counts(parent, cuCtxGetCurrent=10, cuInit=1)
    counts(child, cuCtxGetCurrent=7, cuInit=1)
    equal(parent.note("pass"), ["no wipe-on-fork pages: bare clone() is not noticed"], "notes")


# Launches in a row (shim/state/launch.h) --------------------------------------------------------------------------------------


@test("entry-launch-last-kernel-of-a-row-is-the-candidate")
def _(place):
    """Every wait behind a row names the row's last kernel; a wait behind that one has nothing to name."""
    launched, rows = map(int, place.quiet(place.program("launches"), "last-kernel", driver="launch").split())
    process = place.process()
    counts(process, cuLaunchKernel=launched, cuStreamSynchronize=2 * rows + 1)
    equal(process.waits["stream-synchronize"], 2 * rows + 1, "waits")
    # Kernel (100 + row % 5 - 1) % 5 is the last; the set-up's one wait names the last of all.
    wanted = dict.fromkeys(("zero", "one", "two", "three", "four"), 0)
    names = list(wanted)
    for row in range(rows):
        wanted[names[(99 + row % 5) % 5]] += 1
    wanted["four"] += 1
    equal({name: count for (rule, name), count in process.waited_for.items() if rule == "stream-synchronize"}, wanted, "candidates")


def submission_is_exact(place, case):
    launched, full, rounds = map(int, place.quiet(place.program("launches"), case, driver="launch").split())
    process = place.process()
    counts(process, cuLaunchKernel=launched, cuStreamSynchronize=rounds + 1)
    equal(process.waits.get("queue-full", 0), full, "launches behind exactly 500 others")


@test("entry-launch-submissions-are-exact-in-one-thread")
def _(place):
    submission_is_exact(place, "one-thread")


@test("entry-launch-submissions-are-exact-in-four-threads")
def _(place):
    submission_is_exact(place, "four-threads")


@test("entry-launch-that-blocks-in-a-row-is-told")
def _(place):
    """3 ms in a launch: a wait where it was timed, else counted as not timed."""
    launched, rows = map(int, place.quiet(place.program("launches"), "blocked", driver="launch").split())
    process = place.process()
    counts(process, cuLaunchKernel=launched)
    untimed = sum(count for (code, _), count in process.notes.items() if code == "untimed")
    waits = process.waits.get("observed-unknown", 0)
    assert untimed + waits >= rows, f"{rows} launches blocked: {waits} waits, {untimed} rows not timed"
    assert untimed > 0, "no launch took the untimed way"


@test("entry-no-system-call-on-the-fast-path")
def _(place):
    """10,000 getters and 10,000 launches under a filter that traps every system call but write and exit_group."""
    place.skip_if_sanitized()
    try:
        stdout, _ = place.run(place.program("launches"), "system-call", driver="launch", status=3)
    except AssertionError as error:
        if "status 77," in str(error):
            raise Skip("no seccomp filters here") from error
        raise
    equal(stdout, f"system call {GETPPID}\n", "what the filter says to a call of getppid()")
    # A launch that lost the processor for long is a finding, and taking its site may ask the kernel: such a run says nothing.
    for left in reversed(range(10)):
        try:
            place.run(place.program("launches"), "no-system-call", driver="launch")
            break
        except AssertionError:
            if not left:
                raise
    process = place.processes()[-1]
    counts(process, cuCtxGetCurrent=10001, cuLaunchKernel=10010)


# Settings ------------------------------------------------------------------------------------------------------------------


@test("entry-bad-settings-give-one-line-each-and-are-noted")
def _(place):
    bad = {"SLIPSTREAM_STACK": "65", "SLIPSTREAM_THRESHOLD": "5 parsecs", "SLIPSTREAM_PYHTON": "off", "SLIPSTREAM_MODE": "on"}
    _, stderr = place.run(place.program("calls"), "dlsym", environment=bad)
    lines = sorted(stderr.splitlines())
    equal(lines, ["slipstream: SLIPSTREAM_MODE: bad value 'on'", "slipstream: SLIPSTREAM_PYHTON: no such setting",
                  "slipstream: SLIPSTREAM_STACK: bad value '65'", "slipstream: SLIPSTREAM_THRESHOLD: bad value '5 parsecs'"], "stderr")
    equal(len(place.process().note("config")), 4, "notes")
    counts(place.process(), cuCtxGetCurrent=1000)


@test("entry-bad-settings-are-silent-where-no-driver-is-called")
def _(place):
    """What a shell catches of its children's stderr is somebody's input."""
    shell = ("/bin/sh", "-c", "ls /nonexistent-folder 2>&1; true")
    plain = place.run(*shell, shim=False)
    equal(place.run(*shell, environment={"SLIPSTREAM_PYHTON": "off"}), plain, "output")


@test("entry-settings-of-other-parts-are-silent")
def _(place):
    others = {"SLIPSTREAM_STREAM_TO": "net://x", "SLIPSTREAM_LIBRARY": "/none"}
    good = {"SLIPSTREAM_STACK": "64", "SLIPSTREAM_THRESHOLD": "2ms", "SLIPSTREAM_PYTHON": "off", "SLIPSTREAM_ATTRIBUTE": ""}
    place.calls("dlsym", environment={**others, **good})
    equal(place.process().note("config"), [], "notes")


@test("entry-mode-fix-with-an-unknown-rewrite-says-so")
def _(place):
    _, stderr = place.run(place.program("calls"), "dlsym", environment={"SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": "stream"})
    equal(stderr, "slipstream: SLIPSTREAM_FIX: bad value 'stream'\n", "stderr")
    counts(place.process(), cuCtxGetCurrent=1000)


@test("entry-records-go-nowhere-where-the-folder-cannot-be-written")
def _(place):
    place.run(place.program("calls"), "dlsym", out=False, environment={"SLIPSTREAM_OUT": "/proc/no/such"})
    place.calls("dlsym", out=False)


# Public failures -----------------------------------------------------------------------------------------------------------


@test("failure-01-rtld-next-O0")
def _(place):
    place.quiet(place.program("next-O0"), driver=None)


@test("failure-01-rtld-next-O2")
def _(place):
    place.quiet(place.program("next-O2"), driver=None)


@test("failure-01-rtld-next-interposers")
def _(place):
    """Before and behind the shim."""
    interposer = place.library("entry-interposer")
    for order in (["SHIM", interposer], [interposer, "SHIM"]):
        place.quiet(place.program("linked"), "missing", preload=order)
        counts(place.processes()[-1], cuInit=1)


@test("failure-02-thread-identity")
def _(place):
    """Every thread's calls are its own."""
    place.calls("threads")
    process = place.process()
    counts(process, cuCtxGetCurrent=4 * 8 * 20000)
    assert process.blocks <= 11, f"{process.blocks} blocks of counters for 8 threads at a time"


@test("failure-03-exact-names")
def _(place):
    """Cudnn, cublas and a foreign cuInit are not ours."""
    place.calls("other-names", place.library("entry-other"))


@test("failure-04-driver-looks-itself-up")
def _(place):
    place.calls("own-lookup")


@test("failure-05-v1-only-driver")
def _(place):
    place.calls("v1-only", driver="v1")
    counts(place.process(), cuGetProcAddress=2, cuInit=1)


@test("failure-06-before-11.3")
def _(place):
    """No look-up function in the driver."""
    place.calls("no-look-up", driver="old")
    counts(place.process(), cuCtxGetCurrent=1000)


@test("failure-07-export-table-before-init")
def _(place):
    """Verbatim, noted, no cuInit."""
    place.calls("export-table")
    process = place.process()
    equal(process.note("table"), ["f8cff951-2146-8b4e-b9e2-fb469e7c0dd9"], "tables")
    counts(process, cuGetExportTable=4, cuInit=0)


@test("entry-export-table-of-a-known-asker")
def _(place):
    """Who asks is noted where that matters."""
    place.calls("export-table-askers", place.library("cublasLt"))
    equal(sorted(place.process().note("table")), ["21318c60-9714-3248-8ca6-41ff7324c8f2 entry-calls",
                                                  "21318c60-9714-3248-8ca6-41ff7324c8f2 libcublasLt.so"], "tables")


@test("failure-09-null-status")
def _(place):
    place.calls("null-status")


@test("failure-11-null-and-failed-out-parameters")
def _(place):
    place.calls("null-arguments")
    place.calls("untouched")


@test("failure-12-failed-init-can-be-repeated")
def _(place):
    place.calls("failed-init")
    counts(place.process(), cuInit=4)


@test("failure-13-shell-without-driver")
def _(place):
    """Nothing printed, nothing written, nothing undefined."""
    plain = place.run("/bin/bash", "-c", "echo $((6 * 7)); ls / | wc -l", driver=None, shim=False)
    equal(place.run("/bin/bash", "-c", "echo $((6 * 7)); ls / | wc -l", driver=None), plain, "output")
    equal(place.processes(), [], "record files")
    place.calls("probe", driver=None)


@test("failure-14-no-newer-glibc-than-2.34")
def _(place):
    text = subprocess.run(["objdump", "-T", place.shim], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", text)}
    assert versions and max(versions) <= (2, 34), f"newest is GLIBC_{'.'.join(map(str, max(versions)))}"


@test("failure-15-needs-libc-only")
def _(place):
    place.skip_if_sanitized()
    text = subprocess.run(["objdump", "-p", place.shim], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED\s+(\S+)", text))
    equal(needed - {"libc.so.6", "ld-linux-x86-64.so.2"}, set(), "needed libraries")
    text = subprocess.run(["nm", "-D", "--undefined-only", place.shim], capture_output=True, text=True, check=True).stdout
    equal(re.findall(r"\bcu[A-Z]\w*", text), [], "undefined driver functions")


@test("failure-15-exports")
def _(place):
    """Every name of the driver, dlsym, nothing else."""
    text = subprocess.run(["nm", "-D", "--defined-only", place.shim], capture_output=True, text=True, check=True).stdout
    found = {line.split()[-1] for line in text.splitlines()}
    with open(os.path.join(place.source, "shim", "catalogue", "exports.txt"), encoding="utf-8") as stream:
        names = {line.split("#")[0].strip() for line in stream} - {""}
    equal(sorted(names - found), [], "names not exported")
    own = {name for name in found - names if not re.match(r"cu[A-Z]", name)}
    equal(own, OWN_EXPORTS, "own exports")


OWN_EXPORTS = {"InitializeInjectionNvtx2", "dlmopen", "dlopen", "dlsym", "slipstream_allow_begin", "slipstream_allow_end",
               "slipstream_region_begin", "slipstream_region_end", "slipstream_step"}


@test("failure-17-deepbind")
def _(place):
    """Passes the shim by and is reported."""
    if place.sanitized:
        raise Skip("sanitizers refuse RTLD_DEEPBIND")
    place.calls("deepbind", place.library("entry-plugin"))
    notes = place.process().note("pass")
    assert any("RTLD_DEEPBIND" in text for text in notes), notes


@test("failure-18-dlsym-while-the-allocator-starts")
def _(place):
    place.skip_if_sanitized()
    allocator = place.library("entry-allocator")
    place.quiet("/bin/true", preload=[allocator, "SHIM"], driver=None)
    place.quiet("/bin/true", preload=["SHIM", allocator], driver=None)
    place.calls("dlsym", preload=["SHIM", allocator])
    counts(place.process(), cuCtxGetCurrent=1000)


@test("failure-19-asan-first")
def _(place):
    place.skip_if_sanitized()
    runtime = place.runtime("libasan")
    if not runtime:
        raise Skip("no libasan.so")
    options = {"ASAN_OPTIONS": "protect_shadow_gap=0:detect_leaks=0"}
    place.calls("dlsym", preload=[runtime, "SHIM"], environment=options)
    counts(place.process(), cuCtxGetCurrent=1000)


@test("failure-21-fork")
def _(place):
    """Parent and child have counts of their own."""
    place.calls("fork")
    parent, child = place.processes()
    counts(parent, cuCtxGetCurrent=10, cuInit=0)
    counts(child, cuCtxGetCurrent=7, cuInit=1)
    equal(child.header["parent_pid"], parent.header["pid"], "parent")
    equal(child.note("pass"), [], "notes")


@test("failure-21-clone")
def _(place):
    """A child without fork handlers."""
    place.run(place.program("calls"), "clone")  # ASan wonders about the child's stack on stderr
    parent, child = place.processes()
    counts(parent, cuCtxGetCurrent=10, cuInit=1)
    counts(child, cuCtxGetCurrent=7, cuInit=1)


@test("failure-21-fork-thread")
def _(place):
    """The child's first call comes from a new thread."""
    place.calls("fork-thread")
    parent, child = place.processes()
    counts(parent, cuCtxGetCurrent=1)
    counts(child, cuCtxGetCurrent=4)


@test("failure-21-fork-idle")
def _(place):
    """A child that uses nothing leaves its parent's record alone."""
    place.calls("fork-idle", status=-signal.SIGKILL)
    process = place.process()
    counts(process, cuCtxGetCurrent=2)
    equal(process.header["state"], 1, "state")


@test("failure-21-vfork")
def _(place):
    place.calls("vfork")
    counts(place.process(), cuCtxGetCurrent=2)


@test("failure-22-fork-after-init")
def _(place):
    """The child passes through, counted; nobody calls cuInit for it."""
    place.calls("fork-after-init")
    parent, child = place.processes()
    counts(parent, cuCtxGetCurrent=10, cuInit=1)
    counts(child, cuCtxGetCurrent=7, cuInit=1)
    equal(child.note("pass"), ["forked after cuInit"], "notes")
    equal(child.header["forked"], 1, "forked")


@test("failure-23-fork-while-others-call")
def _(place):
    place.calls("fork-busy")
    found = place.processes()
    equal(len(found), 41, "record files")
    # By its number, not by its place: a file is made at the first call, and a child may call before any thread of the parent does.
    pids = {process.header["pid"] for process in found}
    children = [process for process in found if process.header["parent_pid"] in pids]
    equal(len(children), 40, "children")
    for child in children:
        counts(child, cuCtxGetCurrent=7)


@test("failure-25-exit-handlers")
def _(place):
    place.calls("exit")
    process = place.process()
    counts(process, cuCtxGetCurrent=9)
    equal(process.header["state"], 2, "state")


@test("failure-25-thread-exit")
def _(place):
    """Destructors that run after ours."""
    place.calls("thread-exit")
    process = place.process()
    counts(process, cuCtxGetCurrent=250)
    assert process.blocks <= 5, f"{process.blocks} blocks of counters for one thread at a time"


@test("failure-29-call-from-the-driver")
def _(place):
    place.calls("callback")
    counts(place.process(), cuCtxSynchronize=1, cuCtxGetCurrent=1)


@test("entry-early-constructor")
def _(place):
    """A call before the shim's own constructor."""
    place.quiet(place.program("early"))
    counts(place.process(), cuInit=1)


@test("entry-unmodified-runtime")
def _(place):
    """A program with a real static cudart: 440 look-ups and the export tables it asks before cuInit, the same answers as without the shim."""
    place.skip_if_sanitized()
    if not os.path.exists(place.program("runtime")):
        raise Skip("no libcudart_static.a")
    plain = place.run(place.program("runtime"), driver="simcuda", shim=False)[0]
    equal(place.quiet(place.program("runtime"), driver="simcuda"), plain, "output")
    process = place.process()
    counts(process, cuGetProcAddress_v2=440, cuInit=1)
    assert process.counts["cuGetExportTable"] >= 1, process.counts
    equal(process.handed_out["cuGetProcAddress_v2"], 2, "hand-outs of cuGetProcAddress_v2 (dlsym, then by itself)")


@test("failure-26-context-reset")
def _(place):
    """A primary context that is reset and comes back with the same handle: statuses and bytes are those without the shim."""
    plain = place.run(place.program("reset"), driver="simcuda", shim=False)[0]
    assert plain.count("same handle 1") == 4, f"the driver did not use the handle again:\n{plain}"
    equal(plain.count("bytes 1"), 4, "copies read back")
    equal(place.quiet(place.program("reset"), driver="simcuda"), plain, "output")
    counts(place.process(), cuDevicePrimaryCtxReset_v2=4, cuMemcpyDtoH_v2=4)


@test("entry-nothing-injected")
def _(place):
    """Mode observe adds no event, wait, query or cuInit to the program's calls."""
    place.calls("nothing-injected")


# What the library asks: which context this is, once more about a new one, and the version.
ASKED = {"cuCtxGetId", "cuCtxGetDevice", "cuCtxGetFlags", "cuDriverGetVersion"}


def journal_of(place, program, case, **options):
    """What the program printed, and the driver's calls as (function, line)."""
    path = os.path.join(place.temporary, "journal")
    environment = {"SIMCUDA_JOURNAL": path, **options.pop("environment", {})}
    output = place.quiet(place.program(program), case, driver="simcuda", environment=environment, **options)
    with open(path, encoding="utf-8") as file:
        calls = [(line.split()[2], line) for line in file if line.startswith("call ")]
    os.unlink(path)
    return output, calls


def sorted_names(calls, aside=()):
    return sorted(name for name, _ in calls if name not in aside)


def captured_alike(place, case):
    """Statuses, nodes and bytes are those without the shim, and the driver was asked for nothing else."""
    plain, plain_calls = journal_of(place, "captures", case, shim=False)
    assert not ASKED & set(sorted_names(plain_calls)), plain_calls
    output, calls = journal_of(place, "captures", case)
    equal(output, plain, "output")
    equal(sorted_names(calls, ASKED), sorted_names(plain_calls), "the driver's calls")
    counts(place.process(), cuStreamBeginCapture_v2=plain.count("cuStreamBeginCapture "), cuStreamEndCapture=plain.count("cuStreamEndCapture "))
    return plain


@test("failure-31-legacy-work-in-capture")
def _(place):
    """A blocking stream is captured while the program waits elsewhere: work on the legacy stream would break that, as the program's own does."""
    plain = captured_alike(place, "legacy-work")
    assert "nodes 2\n" in plain and "byte 32\n" in plain and "cuMemsetD8Async 906\n" in plain and "cuStreamEndCapture 901\n" in plain, plain


@test("failure-32-event-query-in-capture")
def _(place):
    """No event is asked while a capture would end of it (900, then 901: the program's own)."""
    plain = captured_alike(place, "event-query")
    equal((plain.count("nodes 1\n"), plain.count("cuEventQuery 900\n"), plain.count("cuStreamEndCapture 901\n")), (4, 2, 2), "captures")


@test("failure-33-pool-in-capture")
def _(place):
    """Blocks of a pool come and go, in two threads, during a global capture that a question about the pool would break."""
    plain = captured_alike(place, "pool")
    equal((plain.count("nodes 1\n"), plain.count("cuMemPoolGetAttribute 900\n"), plain.count("cuStreamEndCapture 901\n")), (1, 1, 1), "captures")


@test("failure-34-events-in-capture")
def _(place):
    """The graph has the program's nodes: two memsets, and the one event that is recorded outside the capture's order."""
    plain = captured_alike(place, "events")
    equal([plain.count(f"nodes {count}\n") for count in (1, 2, 3, 4)], [0, 1, 1, 0], "captures of so many nodes")
    equal(plain.count("cuEventQuery 907\n"), 2, "queries of a captured event")


@test("failure-36-questions-in-capture")
def _(place):
    """Asked with --attribute, of a stream that may be captured: whether it is, and nothing else while it is."""
    plain = captured_alike(place, "questions")
    equal(plain.count("nodes 1\n"), 3, "captures")
    plain_calls = journal_of(place, "captures", "questions", shim=False)[1]
    output, calls = journal_of(place, "captures", "questions", environment={"SLIPSTREAM_ATTRIBUTE": "on"})
    equal(output, plain, "output with --attribute")
    captured, asked, allowed = None, 0, ASKED | {"cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode", "cuStreamQuery"}
    equal(sorted_names(calls, allowed), sorted_names(plain_calls, allowed), "calls with --attribute")
    for name, line in calls:
        stream = re.search(r"hStream=(\w+)", line)
        if name == "cuStreamBeginCapture_v2":
            captured = stream.group(1)
        elif name == "cuStreamEndCapture":
            captured = None
        elif name == "cuStreamQuery":
            assert stream.group(1) != captured, line
            asked += captured is not None
    assert asked >= 3, f"{asked} streams were asked while another was captured"


@test("failure-41-registered-twice")
def _(place):
    """Statuses are the driver's, and the first registration stays in force."""
    plain = journal_of(place, "registered", "twice", shim=False)[0]
    equal((plain.count("cuMemHostRegister 712\n"), plain.count("cuMemHostUnregister 713\n"), plain.count("bytes 1\n")), (3, 1, 3), "refusals and copies")
    equal(journal_of(place, "registered", "twice")[0], plain, "output")
    counts(place.process(), cuMemHostRegister_v2=5, cuMemHostUnregister=4)


@test("failure-43-copy-across-registered-memory")
def _(place):
    """One that begins in a registered range and ends outside is the driver's to refuse (1), each other one arrives."""
    plain = journal_of(place, "registered", "across", shim=False)[0]
    equal((plain.count("cuMemcpyHtoD 1\n"), plain.count("cuMemcpyHtoDAsync 1\n"), plain.count("bytes 1\n"), plain.count("bytes 0\n")),
          (1, 1, 3, 1), "refusals and copies")
    equal(journal_of(place, "registered", "across")[0], plain, "output")
    counts(place.process(), cuMemcpyHtoD_v2=4, cuMemcpyHtoDAsync_v2=4, cuMemcpyDtoH_v2=4)


@test("failure-37-per-thread-names")
def _(place):
    place.calls("per-thread")
    counts(place.process(), cuMemcpyHtoD_v2=1, cuMemcpyHtoD_v2_ptds=3)


@test("failure-38-missing-symbol")
def _(place):
    """A status instead of the loader's abort."""
    place.quiet(place.program("linked"), "missing", driver="full")
    process = place.process()
    equal(process.notes.get(("missing", "cuMemcpyDtoH_v2")), 3, "notes")
    counts(process, cuMemcpyDtoH_v2=3)


@test("failure-10-lookups-of-cudart")
def _(place):
    """The 440 look-ups of a real cudart: each pointer is ours for the very export the driver meant, each status the driver's."""
    command = [place.program("replay"), os.path.join(place.source, "tests", "programs", "entry", "lookups-cudart-13.0.txt")]
    plain = place.run(*command, driver="simcuda", shim=False)[0].splitlines()
    ours = place.quiet(*command, driver="simcuda").splitlines()
    equal(len(plain), 440, "look-ups")
    equal(ours, [line.replace(" libcuda.so.1", " libslipstream.so") for line in plain], "answers")
    found = sum(line.endswith("libslipstream.so") for line in ours)
    assert found > 400, f"{found} found only"
    process = place.process()
    counts(process, cuGetProcAddress_v2=440)
    equal(sum(process.handed_out.values()), found + 1, "handed out")
    unwrapped = {line.split()[-2] for line in ours if line.endswith("libslipstream.so")} - process.wrapped
    equal(process.note("unwrapped"), sorted(unwrapped), "unwrapped names")


@test("failure-27-every-version-has-a-wrapper")
def _(place):
    """Every export with a prototype in cuda.h is wrapped; the others are named."""
    place.calls("dlsym")
    process = place.process()
    with open(os.path.join(place.source, "shim", "catalogue", "exports.txt"), encoding="utf-8") as stream:
        names = {line.split("#")[0].strip() for line in stream} - {""}
    equal(sorted(names - set(process.functions)), [], "names without a number")
    for name in ("cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4", "cuCtxSynchronize_v2", "cuMemcpyBatchAsync_v2_ptsz"):
        assert name in process.wrapped, name
    assert len(names - process.wrapped) < 60, sorted(names - process.wrapped)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--shim")
    parser.add_argument("--folder")
    parser.add_argument("--source")
    parser.add_argument("--simcuda")
    parser.add_argument("test", nargs="?")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(TESTS))
        return 0
    with tempfile.TemporaryDirectory(prefix="entry-") as temporary:
        try:
            TESTS[arguments.test](Place(arguments, temporary))
        except Skip as reason:
            print(f"skipped: {reason}")
            return 77
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
