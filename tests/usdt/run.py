#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The probes of the preloaded library: their notes in the file, and what a listener hears against what the library records.

    run.py --shim FILE --simcuda DIR --program FILE --readme FILE --source FILE [--listen FILE --signals FILE --signals-driver FILE] --only notes|heard

Exit status 1 and what differs; 77 where BPF is refused.
"""
import argparse
import collections
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "entry"))
import slip  # noqa: E402
from library import Broken, Library, PROBES, equal, expect  # noqa: E402

SKIP = 77
LIMIT_S = 60
SIZES = {"u32": 4, "u64": 8, "text": 8}
REWRITE, WAIT = 17, 11
FIGURES = ("hits misses unproven parked waits_avoided waits_made real_frees purges events queries held_bytes peak_bytes live_bytes limit_bytes "
           "to_device to_device_bytes from_device from_device_bytes to_driver redirected").split()
HIT, PARKED, STAGED, REDIRECTED, PARKED_WAITED = 1, 2, 3, 4, 5  # enum usdt_how
FREED, GIVEN_BACK = 3, 4  # enum usdt_pool
KINDS_OF = {"pinned": (0,), "frees": (1, 2)}  # enum pool_kind
PASSES = 8
CACHE_LINE = 64


class Refused(Exception):
    """By the machine."""


def stripped(options, folder):
    path = os.path.join(folder, "libslipstream.so")
    shutil.copy(options.shim, path)
    for library in os.listdir(os.path.dirname(options.shim)):  # what it needs travels beside it
        if library.startswith("liburcu"):
            shutil.copy(os.path.join(os.path.dirname(options.shim), library), folder)
    subprocess.run(["strip", "--strip-all", path], check=True)
    return path


# ---- notes ----

def check_notes(library):
    equal(sorted(note.name for note in library.notes), sorted(PROBES), "names, each once")
    for note in library.notes:
        at, semaphore = library.offset(note.location), library.offset(note.semaphore)
        equal(library.data[at], 0x90, f"{note.name}: a 1-byte nop")
        expect(library.data[at + 1:at + 4] != b"\x0f\x1f\x44", f"{note.name}: a 5-byte nop follows, which libbpf would take instead")
        expect(library.segment_of(note.location)[1] & 1, f"{note.name}: not in code")
        equal(library.segment_of(note.semaphore)[1] & 3, 2, f"{note.name}: its semaphore can be written, and is no code")
        equal(library.data[semaphore:semaphore + 2], b"\0\0", f"{note.name}: nobody listens at first")
    equal(len({note.semaphore // CACHE_LINE for note in library.notes}), 1, "cache lines of the semaphores")
    equal(len({note.semaphore for note in library.notes}), 4, "semaphores; scopes have one")


def notes_of_file(options):
    library = Library(options.shim)
    check_notes(library)
    page = library.address_of("entry_page")
    expect(page is None or page // CACHE_LINE == library.notes[0].semaphore // CACHE_LINE, "the semaphores are not in the line that each call reads")


def notes_of_stripped(options):
    with tempfile.TemporaryDirectory() as folder:
        library = Library(stripped(options, folder))
        equal(library.address_of("entry_page"), None, "symbols")
        check_notes(library)


def table_is_the_source(options):
    """README's table, the source and the notes name the same probes with the same arguments."""
    with open(options.readme, encoding="utf-8") as stream:
        chapter = stream.read().split("## Probes for tracers\n")[1].split("\n## ")[0]
    with open(options.source, encoding="utf-8") as stream:
        source = {name: re.split(r",\s*", arguments) for name, arguments in re.findall(r"STAP_PROBE\d\(slipstream, (\w+), ([^)]*)\)", stream.read())}
    table = {name: re.findall(r"`(\w+)` (\w+)", arguments) for name, arguments in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", chapter, re.MULTILINE)}
    equal({name: [one for one, _ in arguments] for name, arguments in table.items()}, source, "arguments in README and source")
    for note in Library(options.shim).notes:
        # Size before the @, less than 0: signed.
        equal([int(argument.split("@")[0]) for argument in note.arguments], [SIZES[kind] for _, kind in table[note.name]], f"{note.name}: sizes")


def readelf_shows_them(options):
    if not shutil.which("readelf"):
        return
    text = subprocess.run(["readelf", "-n", options.shim], capture_output=True, text=True, check=True).stdout
    shown = re.findall(r"Provider: slipstream\n\s*Name: (\w+)\n\s*Location: (\S+), Base: \S+, Semaphore: (\S+)", text)
    equal({name: (int(location, 16), int(semaphore, 16)) for name, location, semaphore in shown},
          {note.name: (note.location, note.semaphore) for note in Library(options.shim).notes}, "what readelf shows")


# ---- heard ----

class Listener:
    """`process` 0: everybody."""
    every = []

    def __init__(self, options, library, way, process=0):
        command = [options.listen, library.path, str(process), way] + (library.places() if way == "multi" else [])
        self.running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        Listener.every.append(self.running)
        if self.running.stdout.readline() != "ready\n":
            _, errors = self.running.communicate()
            if self.running.returncode == SKIP:
                raise Refused(errors.strip())
            raise Broken(f"the listener ended with {self.running.returncode}")

    def heard(self):
        """{probe: {(process, a, b, c): (count, sum)}}, faults."""
        out, errors = self.running.communicate(timeout=LIMIT_S)
        expect(not self.running.returncode, f"the listener: {errors}")
        found, faults = {name: {} for name in PROBES}, None
        for line in out.splitlines():
            name, *numbers = line.split()
            if name == "faults":
                faults = [int(number) for number in numbers]
            else:
                process, a, b, c, count, total = (int(number) for number in numbers)
                found[name][process, a, b, c] = (count, total)
        return found, faults


def environment_of(options, mode, out, shim=None, **more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_"))}
    environment.update(LD_LIBRARY_PATH=options.simcuda, SIMCUDA_COSTS="none", LD_PRELOAD=shim or options.shim, SLIPSTREAM_MODE=mode, SLIPSTREAM_OUT=out,
                       SLIPSTREAM_FIX="pinned,frees,staging,streams", SLIPSTREAM_STAGE_FROM="128K")
    return {**environment, **more}


class Recorded:
    """What a record file says, as the probes would."""

    def __init__(self, path):
        process = slip.Process(path)
        self.process = process.header["pid"]
        self.names = {number: name for name, (number, _, _) in process.functions.items()}
        self.calls = {process.functions[name][0]: count for name, count in process.counts.items()}
        self.waits, self.rewrites = collections.Counter(), collections.defaultdict(collections.Counter)
        for kind, body in slip.records(path):
            if kind == WAIT:
                _, function, rule, site = struct.unpack_from("<IIII", body, 8)
                count, blocked = struct.unpack_from("<QQ", body, 32)
                self.waits[function, rule, site, "count"] += count
                self.waits[function, rule, site, "sum"] += blocked
            elif kind == REWRITE:
                name = process.strings[struct.unpack_from("<I", body, 8)[0]]
                self.rewrites[name].update(dict(zip(FIGURES, struct.unpack_from(f"<{len(FIGURES)}q", body, 16))))

    def less(self, earlier):
        """What came since."""
        self.calls = collections.Counter(self.calls)
        self.calls.subtract(earlier.calls)
        self.waits.subtract(earlier.waits)
        for name, figures in self.rewrites.items():
            figures.subtract(earlier.rewrites[name])


def compare_scopes(found, recorded):
    launches = {number for number, name in recorded.names.items() if name.startswith("cuLaunchKernel")}
    enters, exits = collections.Counter(), collections.Counter()
    for name, counter in (("scope_enter", enters), ("scope_exit", exits)):
        for (process, function, _, _), (count, _) in found[name].items():
            if process == recorded.process:
                counter[function] += count
    equal(+exits, +enters, "scopes that end, by function")
    counted = {function: count for function, count in recorded.calls.items() if count and function not in launches}
    equal({function: count for function, count in enters.items() if function not in launches}, counted, "scopes and calls, by function")
    for function in launches:
        expect(enters[function] <= recorded.calls.get(function, 0), "more scopes than launches")
    return sum(enters.values())


def compare_waits(found, recorded):
    heard = collections.Counter()
    for (process, function, rule, site), (count, blocked) in found["wait"].items():
        if process == recorded.process:
            heard[function, rule, site, "count"] += count
            heard[function, rule, site, "sum"] += blocked
    equal(+heard, +recorded.waits, "waits: function, rule, site")
    return sum(count for (*_, what), count in heard.items() if what == "count")


def compare_rewrites(found, recorded):
    hows, pool, sizes = collections.Counter(), collections.Counter(), collections.Counter()
    for (process, _, how, letters), (count, total) in found["rewrite"].items():
        if process == recorded.process:
            name = struct.pack("<I", letters).decode()
            hows[name, how] += count
            sizes[name, how] += total
    held = collections.Counter()
    for (process, how, kind, _), (count, total) in found["pool"].items():
        if process == recorded.process:
            pool[kind, how] += count
            held[kind] += {HIT: -total, PARKED: total, FREED: 0, GIVEN_BACK: -total}[how]
    for name, figures in recorded.rewrites.items():
        word = name[:4]
        equal(hows[word, HIT], figures["hits"], f"{name}: hits")
        equal(hows[word, PARKED] + hows[word, PARKED_WAITED], figures["parked"], f"{name}: parked")
        equal(hows[word, STAGED], figures["to_device"] + figures["from_device"], f"{name}: staged")
        equal(sizes[word, STAGED], figures["to_device_bytes"] + figures["from_device_bytes"], f"{name}: bytes staged")
        equal(hows[word, REDIRECTED], figures["redirected"], f"{name}: redirected")
        kinds = KINDS_OF.get(name, ())
        if kinds:
            equal(sum(pool[kind, HIT] for kind in kinds), figures["hits"], f"{name}: hits of the pool")
            equal(sum(pool[kind, PARKED] for kind in kinds), figures["parked"], f"{name}: parked in the pool")
            equal(sum(pool[kind, FREED] + pool[kind, GIVEN_BACK] for kind in kinds), figures["real_frees"], f"{name}: real frees")
            equal(sum(held[kind] for kind in kinds), figures["held_bytes"], f"{name}: bytes held")
    return sum(hows.values()), sum(pool.values())


def compare(found, recorded, faults, wants):
    """Each probe that is wanted was heard; all are exactly what was recorded."""
    sums = dict(zip(("scopes", "waits", "rewrites", "pool"),
                    (compare_scopes(found, recorded), compare_waits(found, recorded), *compare_rewrites(found, recorded))))
    for name in wants:
        expect(sums[name], f"no {name} at all")
    equal(faults[2], 0, "what was lost")
    return sums


ALL = ("scopes", "waits", "rewrites", "pool")


def files_of(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".slip")]


def whole_run(options, library, mode, arguments, wants, program=None, nested=True, processes=1, **more):
    """Listened to from before its start to behind its end."""
    with tempfile.TemporaryDirectory() as out:
        listener = Listener(options, library, "usdt")
        done = subprocess.run([program or options.program, *arguments], env=environment_of(options, mode, out, library.path, **more), capture_output=True, text=True, timeout=LIMIT_S, check=False)
        found, faults = listener.heard()
        expect(not done.returncode, f"the program: {done.returncode} {done.stderr}")
        recorded = [Recorded(path) for path in files_of(out)]
        equal(len(recorded), processes, "processes")
        sums = [compare(found, one, faults, wants) for one in recorded]
        if nested:
            equal(faults[:2], [0, 0], "scopes out of order, numbers left out")
            equal(faults[3], 0, "waits outside of scopes")
        return sums, found, recorded


def observed(options, library):
    whole_run(options, library, "observe", ["rounds=6"], ("scopes", "waits"))


def fixed(options, library):
    _, found, _ = whole_run(options, library, "fix", ["rounds=6"], ALL, SLIPSTREAM_LEGACY_AFTER="0", SLIPSTREAM_RELAX="order,free")
    equal({how for _, _, how, _ in found["rewrite"]}, {HIT, PARKED, STAGED, REDIRECTED}, "what rewrites did")
    equal({how for _, how, _, _ in found["pool"]}, {HIT, PARKED}, "what the pool did")


def strict(options, library):
    """What is held back behind the driver's wait says so: no claim that nobody waited."""
    _, found, _ = whole_run(options, library, "fix", ["rounds=6"], ALL, SLIPSTREAM_RELAX="strict-free")
    hows = {how for _, _, how, _ in found["rewrite"]}
    expect(PARKED_WAITED in hows and PARKED not in hows, f"what rewrites did: {hows}")


def held(options, library):
    """Plain launches that turn out long have scopes when they are found to: behind the driver's call."""
    _, found, (recorded,) = whole_run(options, library, "observe", ["rounds=1", "held"], ("scopes", "waits"), SIMCUDA_DRAIN_LOCK="on")
    launches = {number for number, name in recorded.names.items() if name == "cuLaunchKernel"}
    waits = sum(count for (_, function, _, _), (count, _) in found["wait"].items() if function in launches)
    expect(waits >= 3, f"{waits} launches waited")


def limited(options, library):
    """Little room: blocks go back to the driver."""
    _, found, _ = whole_run(options, library, "fix", ["rounds=6"], ALL, SLIPSTREAM_POOL_LIMIT="70000")
    expect({FREED, GIVEN_BACK} <= {how for _, how, _, _ in found["pool"]}, f"no block went to the driver: {found['pool']}")


def threaded(options, library):
    whole_run(options, library, "fix", ["rounds=3", "threads=4"], ALL, SLIPSTREAM_LEGACY_AFTER="0")


def interrupted(options, library):
    """Handlers open scopes inside others. In the few instructions between the library's word and a probe they are seen in another order."""
    with tempfile.TemporaryDirectory() as folder:
        # The simulated driver has one lock; this one may be called from handlers.
        os.symlink(options.signals_driver, os.path.join(folder, "libcuda.so.1"))
        _, found, _ = whole_run(options, library, "fix", [], ("scopes", "rewrites", "pool"), program=options.signals, nested=False, LD_LIBRARY_PATH=folder, SLIPSTREAM_FIX="pinned")
    inside = [(function, count) for (_, function, _, outer), (count, _) in found["scope_enter"].items() if outer]
    expect(inside, "no handler came while a call was under way")


def forked(options, library):
    whole_run(options, library, "fix", ["rounds=2", "fork"], ALL, processes=2)


def late(options, library):
    """A child that the driver refuses: its calls are counted, and their scopes say that they pass."""
    with tempfile.TemporaryDirectory() as out:
        listener = Listener(options, library, "usdt")
        done = subprocess.run([options.program, "rounds=1", "late"], env=environment_of(options, "observe", out, library.path), capture_output=True, text=True, timeout=LIMIT_S, check=False)
        found, faults = listener.heard()
        expect(not done.returncode, f"the program: {done.returncode} {done.stderr}")
        recorded = {one.process: one for one in map(Recorded, files_of(out))}
        equal(len(recorded), 2, "processes")
        for one in recorded.values():
            compare(found, one, faults, ("scopes",))
        passed = {process: count for (process, _, class_, _), (count, _) in found["scope_enter"].items() if class_ & PASSES}
        equal(list(passed.values()), [3], "calls that pass, by process")


def by_one_link(options, library):
    """All probes by one link, at the notes' offsets: as often as they are recorded."""
    with tempfile.TemporaryDirectory() as out:
        listener = Listener(options, library, "multi")
        done = subprocess.run([options.program, "rounds=4"], env=environment_of(options, "fix", out, library.path), capture_output=True, text=True, timeout=LIMIT_S, check=False)
        found, _ = listener.heard()
        expect(not done.returncode, f"the program: {done.returncode} {done.stderr}")
        recorded = Recorded(files_of(out)[0])
        sums = {name: sum(count for count, _ in found[name].values()) for name in PROBES}
        equal(sums["scope_enter"], sums["scope_exit"], "ends of scopes")
        equal(sums["wait"], sum(count for (*_, what), count in recorded.waits.items() if what == "count"), "waits")
        equal(sums["rewrite"], sum(figures[name] for figures in recorded.rewrites.values() for name in ("hits", "parked", "to_device", "from_device", "redirected")), "rewrites")
        equal(sums["pool"], sum(recorded.rewrites[name][figure] for name in KINDS_OF for figure in ("hits", "parked", "real_frees")), "pool")
        expect(all(sums.values()), f"{sums}")


class Paused:
    """A program that has made a round and waits."""

    def __init__(self, options, library, out, *arguments):
        self.running = subprocess.Popen([options.program, "rounds=4", "paused", *arguments], env=environment_of(options, "fix", out, library.path),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        Listener.every.append(self.running)
        self.process = int(self.running.stdout.readline())

    def go_on(self):
        self.running.stdin.write("\n")
        self.running.stdin.flush()
        if not self.running.stdout.readline():
            raise Broken("the program has failed")

    def end(self):
        self.running.communicate("\n", timeout=LIMIT_S)
        expect(not self.running.returncode, f"the program: {self.running.returncode}")

    def semaphores(self, library):
        """As they are in its memory now."""
        with open(f"/proc/{self.process}/maps", encoding="ascii") as stream:
            base = next(int(line.split("-")[0], 16) for line in stream if line.rstrip().endswith(library.path))
        with open(f"/proc/{self.process}/mem", "rb", 0) as memory:
            words = {}
            for note in library.notes:
                memory.seek(base + note.semaphore)
                words[note.name] = struct.unpack("<H", memory.read(2))[0]
        return words


NOBODY = {name: 0 for name in PROBES}


def running(options, library):
    """Attached to a running process, heard from there on, and left again."""
    for way in ("usdt", "multi"):
        for everybody in (False, True):
            with tempfile.TemporaryDirectory() as out:
                program = Paused(options, library, out)
                path, = files_of(out)
                before = Recorded(path)
                equal(program.semaphores(library), NOBODY, "semaphores before")
                listener = Listener(options, library, way, 0 if everybody else program.process)
                words = program.semaphores(library)
                equal(words, {"scope_enter": 2, "scope_exit": 2, "wait": 1, "rewrite": 1, "pool": 1}, f"semaphores while {way} listens")
                program.go_on()
                after = Recorded(path)
                found, faults = listener.heard()
                equal(program.semaphores(library), NOBODY, f"semaphores behind {way}")
                after.less(before)
                if way == "usdt":
                    compare(found, after, faults, ALL)
                else:
                    equal(sum(count for count, _ in found["wait"].values()), sum(count for (*_, what), count in after.waits.items() if what == "count"), "waits")
                program.end()


def left_alone(options, library):
    """Who listens to one process does not hear another."""
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryDirectory() as other_out:
        program, other = Paused(options, library, out), Paused(options, library, other_out)
        listener = Listener(options, library, "usdt", program.process)
        equal(other.semaphores(library), NOBODY, "semaphores of the other")
        other.go_on()
        found, _ = listener.heard()
        equal(found, {name: {} for name in PROBES}, "what was heard of the other")
        program.go_on()
        program.end()
        other.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("shim", "simcuda", "program", "readme", "source", "listen", "signals", "signals-driver"):
        parser.add_argument("--" + name, required=name not in ("listen", "signals", "signals-driver"), type=os.path.abspath)
    parser.add_argument("--only", choices=("notes", "heard"), required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    failed, refused = 0, []
    with tempfile.TemporaryDirectory() as folder:
        if options.only == "notes":
            tests = [(test.__name__, lambda test=test: test(options)) for test in (notes_of_file, notes_of_stripped, readelf_shows_them, table_is_the_source)]
        else:
            # A copy: other tests use the library meanwhile.
            library = Library(stripped(options, folder))
            heard = (observed, fixed, strict, held, limited, threaded, interrupted, forked, late, by_one_link, running, left_alone)
            tests = [(test.__name__, lambda test=test: test(options, library)) for test in heard]
        for name, test in tests:
            if options.names and name not in options.names:
                continue
            try:
                test()
                print(f"ok {name}", flush=True)
            except Refused as error:
                print(f"not here: {name}: {error}", flush=True)
                refused.append(name)
            except (Broken, subprocess.TimeoutExpired) as error:
                print(f"FAILED {name}: {error}", flush=True)
                failed = 1
            finally:
                for process in Listener.every:
                    process.kill()
                Listener.every.clear()
    return failed or (SKIP if refused else 0)


if __name__ == "__main__":
    sys.exit(main())
