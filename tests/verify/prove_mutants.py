#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""With a rule of the default stream's rewrite off, `slipstream verify` says of each run that went wrong that its order is not proved, and names what is missing.

    prove_mutants.py --build FOLDER --property FILE --simcuda DIR --journal PROVIDER --verify TOOL [--sample] [--programs N] [NAME...]

The rules are those of tests/property/mutate, and OWN. Of each the programs of the corpus and of N seeds (1,000) are run, each run with its journal, until ENOUGH
runs gave something else than raw. Each of these must be not proved, unless the rule is in UNSEEN, which says why a trace of the rewrite
cannot tell. Without a rule off all programs are the same and proved, before anything is said. --sample: a few rules, a few programs. Exit status 1: a run that
went wrong was proved, or a rule in SURE did nothing wrong.
"""
import argparse
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROPERTY = os.path.join(HERE, "..", "property")
sys.path[:0] = [PROPERTY, os.path.join(HERE, "..", "programs")]
import mutants  # noqa: E402
import programs  # noqa: E402

ENOUGH = 6
TRIES = 3
CORPUS_TRIES = 20  # some differ only when threads meet in one way
OF_ONE = 3  # runs of the same programs that count
TURN, TELL = "legacy/turn.c", "legacy/tell.c"
ENTER = "if (!call->stream || !call->context || call->stream_kind == STREAM_NON_BLOCKING ||"

OWN = (
    # Operations that the rewrite does not see at all.
    ("unseen-copies", TURN, ENTER, ENTER + "\n\t    (!is_legacy && (call->operation == OPERATION_COPY || call->operation == OPERATION_MEMSET)) ||"),
    ("unseen-kernels", TURN, ENTER, ENTER + "\n\t    (!is_legacy && call->operation == OPERATION_KERNEL) ||"),
    ("unseen-events", TURN, ENTER, ENTER + "\n\t    (!is_legacy && call->operation == OPERATION_UNKNOWN) ||"),
    ("unseen-legacy", TURN, ENTER, ENTER + "\n\t    (is_legacy && call->operation == OPERATION_MEMSET) ||"),
)
SAMPLE = ("join", "post", "records-native", "back", "unseen-copies", "epoch")
# These go wrong for certain.
SURE = SAMPLE + ("unseen-kernels", "unseen-legacy", "recorded-once", "clean")

# What goes wrong without any order between operations being broken, or where no trace has it.
ANSWER = "the driver would have refused the call, or have answered it otherwise; what was submitted is in order"
LEGACY = "the barrier is on the legacy stream itself, behind which the driver puts all; a capture that it breaks is another answer, no other order"
HOST = "the host asked too little; what it waits for is no operation, and what was submitted is in order"
UNSEEN = {
    "post-by-name": LEGACY,
    "capture": ANSWER,
    "captured": ANSWER,
    "wait": HOST,
    "wait-joins": HOST,
    "query-both": HOST,
}


# Where no run differs, at level full and on the simulated driver.
QUIET = {
    "short-way": "at level full no launch takes the short way",
    "count-slow": "what waits is under the lock: it can hang, and stays in order",
    "slow": "what waits is under the lock: it can hang, and stays in order",
    "first-use": "what waits is under the lock: it can hang, and stays in order",
    "queue": "what waits is under the lock: it can hang, and stays in order",
    "next-context": "the rewrite is off for good, and order the driver's",
}


def rules():
    loader = importlib.machinery.SourceFileLoader("mutate", os.path.join(PROPERTY, "mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(module)
    return module.RULES + OWN


def run(options, arguments, after=0):
    """What each program printed when fixed, or None where the process did not end well; what verify says of the order, "" if it is proved."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([options.property, "--limit", str(programs.SHORT_LIMIT_S), *arguments], env=programs.environment(options, True, folder, after),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return None, programs.HANGS if done.returncode == 3 else f"{programs.ENDS} {done.returncode}"
        return done.stdout, programs.prove(options, folder) or ""


def raw(options, arguments):
    return subprocess.run([options.property, "--limit", str(programs.LIMIT_S), *arguments], env=programs.environment(options, False, None),
                          capture_output=True, text=True, check=True).stdout


def candidates(options, name):
    """Arguments of a run, and how often: the whole corpus in one process, its program for this rule, then each seed whose chunk differs."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(text for _, text in programs.corpus(options)))
        file.flush()
        yield ["--programs", file.name], TRIES if options.sample else CORPUS_TRIES
    path = os.path.join(options.corpus, name + ".txt")
    if os.path.exists(path):
        yield ["--programs", path], TRIES
    for first in range(0, options.programs, options.chunk):
        chunk = ["--seeds", f"{first}:{first + options.chunk}"]
        told = raw(options, chunk).splitlines()
        fixed, _ = run(options, chunk)
        fixed = fixed.splitlines() if fixed is not None else []
        for line in told:
            if line not in fixed:
                seed = int(line.split()[0])
                yield ["--seeds", f"{seed}:{seed + 1}"], TRIES


def judge(options, name):
    """How many runs differed, how many of these were not proved, how many hung; what verify said first, and a run that was proved."""
    differ = unproved = hung = 0
    said = proved = ""
    for arguments, tries in candidates(options, name):
        want, of_one = raw(options, arguments), 0
        for _ in range(tries):
            got, finding = run(options, arguments)
            if got is None:
                hung += 1
            elif got != want:
                differ += 1
                unproved += bool(finding)
                said = said or finding.split("\n", 1)[0]
                proved = proved or ("" if finding else " ".join(arguments))
            of_one += got != want
            if of_one == OF_ONE:
                break
        if differ >= ENOUGH or hung >= ENOUGH:
            break
    return differ, unproved, hung, said, proved


def try_rule(options, name, file, old, new):
    """False: it must not be so."""
    try:
        text = mutants.mutant(file, old, new)
    except mutants.NotOnce as error:
        print(f"{name}: not changed: {error}", flush=True)
        return False
    with tempfile.TemporaryDirectory() as folder:
        options.shim = mutants.build(folder, options.build, file, "#include <unistd.h>\n" + text)
        differ, unproved, hung, said, proved = judge(options, name)
    told = f"{name}: {differ} runs differ, {unproved} of these not proved, {hung} hang"
    if not differ:
        print(f"{told}: {QUIET.get(name, 'nothing to prove')}", flush=True)
        return name not in SURE
    if unproved == differ:
        print(f"{told}: {said}", flush=True)
        return True
    # Of several programs in one process some may be out of order, too.
    print(f"{told}: {UNSEEN.get(name) or 'PROVED: ' + proved}", flush=True)
    return name in UNSEEN


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "property", "simcuda", "journal", "verify"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--programs", type=int)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    options.programs = options.programs or (50 if options.sample else 1000)
    options.chunk, options.fix, options.corpus = 50, "pinned,frees,staging,streams", os.path.join(PROPERTY, "corpus")
    options.shim = os.path.join(options.build, mutants.LIBRARY)
    known = {rule[0] for rule in rules()}
    stale = sorted({*SURE, *UNSEEN, *QUIET, *options.names} - known)
    if stale:
        sys.exit(f"no such rule: {', '.join(stale)}")
    names = options.names or (SAMPLE if options.sample else ())
    seeds = ["--seeds", f"0:{options.programs}"]
    got, finding = run(options, seeds)
    if got != raw(options, seeds) or finding:
        sys.exit(f"without any rule off: {'' if got else 'no end '}{finding or 'programs differ'}")
    broken = [rule[0] for rule in rules() if (not names or rule[0] in names) and not try_rule(options, *rule)]
    if broken:
        sys.exit(f"not as it must be: {', '.join(broken)}")


if __name__ == "__main__":
    main()
