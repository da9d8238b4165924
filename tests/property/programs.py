# SPDX-License-Identifier: MIT
"""Runs random programs (property) without and with mode fix, says which differ, and makes those small. For run.py and mutate beside it."""
import collections
import concurrent.futures
import glob
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "entry"))
import slip  # noqa: E402

CHUNK = 250  # programs of one process
# After how many operations in a row the default stream is rewritten (SLIPSTREAM_LEGACY_AFTER), by chunk. Mostly at once: programs are short.
AFTER = (0, 0, 0, 0, 0, 0, 1, 3)
REWRITE = 17
JOURNAL = "order.trace"
HANGS, ENDS = "hangs", "ends with"
SEVERAL = "/"  # between the digests of a program that gave two
NOT_PROVED = "not proved: "
LIMIT_S = 10  # one that takes longer hangs, under any load
SHORT_LIMIT_S = 2  # the same, where many are expected to hang
RACES = 8  # schedules that a program that differs is tried with
SCHEDULES = 6  # that a small program is tried with


class Broken(Exception):
    pass


def idle(options, found):
    """Why the run says nothing: the rewrites were off, or the default stream was hardly rewritten."""
    off = [reason for reason in found.reasons if reason.startswith(("off", NOT_PROVED)) or ": off" in reason]
    if "streams" in options.fix.split(",") and found.counts["legacy redirected"] < found.programs:
        off.append(f"{found.counts['legacy redirected']} operations went to a substitute")
    return off


def is_race(raw):
    """Runs without any rewrite gave several things."""
    return SEVERAL in raw and " " not in raw


def after_of(options, seed):
    return options.after if options.after is not None else AFTER[seed // options.chunk % len(AFTER)]


def environment(options, fixed, folder, after=0):
    """No other variable of these says anything to the programs."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_"))}
    if options.simcuda:
        found.update(LD_LIBRARY_PATH=options.simcuda, SIMCUDA_TIME="virtual", SIMCUDA_SEED="1", SIMCUDA_COSTS="none")
    if fixed:
        # The smallest copies are staged, too: programs of large ones would be slow.
        found.update(LD_PRELOAD=options.shim, SLIPSTREAM_MODE="fix", SLIPSTREAM_FIX=options.fix, SLIPSTREAM_OUT=folder, SLIPSTREAM_STAGE_FROM="256",
                     SLIPSTREAM_LEGACY_AFTER=str(after))
        if options.journal:
            found.update(SLIPSTREAM_LTTNG=options.journal, SLIPSTREAM_LEVEL="full", TRACE_JOURNAL=os.path.join(folder, JOURNAL))
    return found


def prove(options, folder):
    """What `slipstream verify` has against the journal of a run; None: legacy order was kept."""
    done = subprocess.run([options.verify, "verify", "--quiet", "--empty", "--limit", "3", os.path.join(folder, JOURNAL)],
                          capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() or f"verify ended with {done.returncode}" if done.returncode else None


def figures(name, body):
    """What a rewrite did: of its record what says most."""
    hits, staged, redirected, native, barriers, elided, turns = (struct.unpack_from("<Q", body, at)[0] for at in (16, 128, 168, 176, 184, 192, 200))
    if name == "streams":
        return {"legacy redirected": redirected, "legacy native": native, "legacy barriers": barriers, "legacy elided": elided, "legacy turns": turns}
    return {"staged copies": staged + struct.unpack_from("<Q", body, 144)[0]} if name == "staging" else {f"{name} blocks used again": hits}


def run_once(options, arguments, fixed, limit=LIMIT_S, after=0):
    """What each program printed, by number; the number of the one that hung or ended the process, with what it did; reasons and counts."""
    with tempfile.TemporaryDirectory() as folder:
        # Making a context takes a real driver longer than a hundred programs.
        kept = [] if options.simcuda else ["--keep-contexts"]
        done = subprocess.run([options.property, "--limit", str(limit), "--repeat", str(options.repeat), *kept, *arguments], env=environment(options, fixed, folder, after),
                              capture_output=True, text=True, check=False)
        told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.count(" ") == 1)
        told = {int(number): text for number, text in told.items()}
        reasons, counts = collections.Counter(), collections.Counter()
        for process in slip.processes(folder) if fixed else ():
            for (code, text), count in process.notes.items():
                if code == "rewrite":
                    reasons[text] += count
            for kind, body in slip.records(process.path):
                if kind == REWRITE:
                    counts.update(figures(process.strings.get(struct.unpack_from("<I", body, 8)[0]), body))
        # A process that hung or was ended has not written its journal to the end.
        unproved = prove(options, folder) if fixed and options.journal and not done.returncode else None
        if unproved:
            reasons[NOT_PROVED + unproved] += 1
    end = None
    if done.returncode:
        end = HANGS if done.returncode == 3 else f"{ENDS} {done.returncode}: {done.stderr.strip()[-300:]}"
    return told, end, reasons, counts


def seeds_of(options, first, count):
    """The seeds that are run: all, or with --threads-only those whose program has threads beside each other."""
    if not options.threads_only:
        return list(range(first, first + count))
    told = subprocess.run([options.property, "--seeds", f"{first}:{first + count}", "--threads", "--print"], env=environment(options, False, None),
                          capture_output=True, text=True, check=True).stdout
    return [int(line.split()[1]) for line in told.splitlines() if line.startswith("program ")]


def run_seeds(options, seeds, fixed, schedule=0):
    """Programs of rising seeds. One that hangs or ends its process does not hide those behind it."""
    told, reasons, counts = {}, collections.Counter(), collections.Counter()
    left = list(seeds)
    only = ["--threads"] if options.threads_only else []
    while left:
        some, end, more_reasons, more_counts = run_once(
            options, ["--seeds", f"{left[0]}:{left[-1] + 1}", "--schedule", str(schedule), *only], fixed, after=after_of(options, seeds[0]))
        told.update(some)
        reasons.update(more_reasons)
        counts.update(more_counts)
        if not end:
            break
        left = [seed for seed in left if seed not in some]
        told[left.pop(0)] = end
    return told, reasons, counts


def run_texts(options, texts, fixed, after=0, limit=LIMIT_S, enough=lambda told: False):
    """Programs as texts; what each printed, up to the one with which it is enough where a process ended."""
    told = []
    while len(told) < len(texts):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(texts[len(told):]))
            file.flush()
            some, end, _, _ = run_once(options, ["--programs", file.name], fixed, limit, after)
        told += [some[i] for i in range(len(some))]
        if not end:
            break
        told.append(end)
        if enough(told):
            return told
    if len(told) != len(texts):
        raise Broken(f"{len(texts)} programs gave {len(told)} lines")
    return told


def first_difference(options, texts, after=0, limit=LIMIT_S):
    """The place of the first text that gives something else when fixed; None. Where one hangs, those behind it are not waited for."""
    if options.repeat > 1:
        return first_that_differs_repeated(options, texts, after, limit)
    raw = run_texts(options, texts, False, limit=limit)
    differ = []

    def look(told):
        differ[:] = [i for i, (one, other) in enumerate(zip(raw, told)) if one != other and one != HANGS and " " not in one]
        return differ

    look(run_texts(options, texts, True, after, limit, look))
    return differ[0] if differ else None


def first_that_differs_repeated(options, texts, after, limit):
    """The same where each is run many times, which takes long: one after the other, and fixed first, since that ends with the first difference."""
    for i, text in enumerate(texts):
        fixed, = run_texts(options, [text], True, after, limit)
        raw, = run_texts(options, [text], False, limit=limit)
        if fixed != raw and raw != HANGS and " " not in raw and not is_race(raw):
            return i
    return None


def corpus(options):
    """Texts of the corpus: each program as it is, with a name."""
    for path in sorted(glob.glob(os.path.join(options.corpus, "*.txt"))):
        with open(path, encoding="utf-8") as stream:
            lines = [line for line in stream if not line.startswith("#")]
        for number, text in enumerate("".join(lines).split("end.\n")[:-1]):
            yield f"{os.path.basename(path)} {number}", text + "end.\n"


class Compared:
    def __init__(self):
        self.programs, self.differ, self.reasons, self.counts = 0, {}, collections.Counter(), collections.Counter()

    def add(self, other):
        self.programs += other.programs
        self.differ.update(other.differ)
        self.reasons.update(other.reasons)
        self.counts.update(other.counts)


def has_race(options, seed, raw):
    """Whether the program gives several things without any rewrite: then it says nothing of one. About one of 500,000 does."""
    return is_race(raw) or any(run_seeds(options, [seed], False, schedule)[0][seed] != raw for schedule in range(1, RACES))


def compare_range(options, first, count, raw_too=False):
    """One chunk, raw and fixed; with raw_too also raw with another schedule, which must not matter."""
    found = Compared()
    seeds = seeds_of(options, first, count)
    if not seeds:
        return found
    raw, _, _ = run_seeds(options, seeds, False)
    fixed, found.reasons, found.counts = run_seeds(options, seeds, True, options.schedule)
    other = run_seeds(options, seeds, False, 77)[0] if raw_too else raw
    found.programs = len(seeds)
    for seed in seeds:
        if len({raw[seed], fixed[seed], other[seed]}) > 1 or " " in raw[seed] or raw[seed] == HANGS or is_race(raw[seed]):
            found.differ[seed] = f"raw {raw[seed]}, fixed {fixed[seed]}" + (f", raw again {other[seed]}" if other[seed] != raw[seed] else "")
    for seed in [seed for seed in found.differ if not raw_too and has_race(options, seed, raw[seed])]:
        del found.differ[seed]
        found.counts["programs left out for a race of their own"] += 1
    return found


def compare(options, first, count, stop=lambda found: False, raw_too=False):
    """Chunks beside each other on all processors; `stop` says when enough was found."""
    found = Compared()
    chunk = options.chunk
    edges = [first, *range((first // chunk + 1) * chunk, first + count, chunk), first + count]
    chunks = [(begin, end - begin) for begin, end in zip(edges, edges[1:])]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pending = collections.deque()
        while chunks or pending:
            while chunks and len(pending) < 2 * options.jobs:
                pending.append(pool.submit(compare_range, options, *chunks.pop(0), raw_too))
            found.add(pending.popleft().result())
            if stop(found):
                chunks.clear()
                for one in pending:
                    one.cancel()
                pending = collections.deque(one for one in pending if not one.cancelled())
    return found


# ---- making programs small ----

class Program:
    def __init__(self, text):
        lines = text.splitlines()
        words = lines[0].split()
        self.head = dict(zip(words[::2], (int(word) for word in words[1::2])))
        self.operations = [line.split() for line in lines[1:-1]]

    def text(self, schedule=None):
        head = dict(self.head, **({} if schedule is None else {"schedule": schedule}))
        return "\n".join([" ".join(f"{name} {value}" for name, value in head.items()), *(" ".join(line) for line in self.operations), "end.\n"])

    def without(self, begin, end):
        return self.changed(operations=self.operations[:begin] + self.operations[end:])

    def changed(self, operations=None, **head):
        copy = Program.__new__(Program)
        copy.head = dict(self.head, **head)
        copy.operations = self.operations if operations is None else operations
        return copy


def text_of(options, seed):
    return subprocess.run([options.property, "--seeds", f"{seed}:{seed + 1}", "--print"], env=environment(options, False, None), capture_output=True,
                          text=True, check=True).stdout


def first_that_differs(options, programs, after):
    """Of candidates the first that differs with any of some schedules, with that schedule; or None. Each repetition has another schedule by itself."""
    schedules = SCHEDULES if options.repeat == 1 else 1
    tries = [(program, program.head["schedule"] + more) for program in programs for more in range(schedules)]
    if not tries:
        return None
    found = first_difference(options, [program.text(schedule) for program, schedule in tries], after, SHORT_LIMIT_S)
    return None if found is None else tries[found][0].changed(schedule=tries[found][1])


def smaller_heads(program):
    head = program.head
    if head["threads"] > 1:
        less = head["threads"] - 1
        yield program.changed([[line[0], str(min(int(line[1]), less - 1)), *line[2:]] for line in program.operations], threads=less)
    if head["contexts"] > 1:
        yield program.changed(contexts=1)
    if head["side"]:
        yield program.changed(side=head["side"] - 1)
    if head["blocking"] > 1:
        yield program.changed(blocking=head["blocking"] - 1)
    for bit in (1, 2, 4, 8, 16):
        if head["flags"] & bit:
            yield program.changed(flags=head["flags"] & ~bit)


def shrink(options, text, after=0):
    """The smallest program that still differs, found by leaving things out; None if it does not differ with any schedule tried."""
    program = first_that_differs(options, [Program(text)], after)
    if not program:
        return None
    again = True
    while again:
        again = False
        size = max(1, len(program.operations) // 2)
        while size:
            found = first_that_differs(
                options, [program.without(at, at + size) for at in range(0, len(program.operations), size)] if len(program.operations) > 1 else [],
                after)
            if found:
                program, again = found, True
                size = min(size, max(1, len(program.operations) // 2))
            else:
                size //= 2
        found = first_that_differs(options, list(smaller_heads(program)), after)
        if found:
            program, again = found, True
    return program.text()


def explain(options, text, after=0):
    """The actions of a program, and the lines in which the two runs differ."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, tempfile.TemporaryDirectory() as folder:
        file.write(text)
        file.flush()
        runs = [subprocess.run([options.property, "--programs", file.name, "--verbose", "--limit", "2"],
                               env=environment(options, fixed, folder, after), capture_output=True, text=True, check=False).stdout.splitlines()
                for fixed in (False, True)]
    plan = [line for line in runs[0] if " thread " in line]
    differ = [f"\traw {pair[0].strip()}\n\tfixed {pair[1].strip()}" for pair in zip(*runs) if pair[0] != pair[1]]
    return "\n".join(plan + differ[:4])
