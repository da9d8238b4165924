#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The safety suite's own judgement: what differs, what hangs, what rewrote nothing and what fails raw as well is told as that."""
import argparse
import contextlib
import io
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import safety  # noqa: E402

# Stands for the programs of tests/programs/safety: raw and in mode fix it says and does what its argument asks for.
PROGRAM = """#!/bin/sh
case "$1" in
same) echo one; echo "# $$" ;;
other) echo "one$SLIPSTREAM_MODE" ;;
fails) [ -z "$SLIPSTREAM_MODE" ] || { echo broken >&2; exit 1; } ;;
fails-raw) exit 3 ;;
hangs) [ -z "$SLIPSTREAM_MODE" ] || sleep 100 & wait ;;
crashes) [ -z "$SLIPSTREAM_MODE" ] || kill -SEGV $$ ;;
esac
"""
# Stands for `slipstream report`.
REPORT = """#!/bin/sh
echo '{"rewrites": [{"name": "pinned", "hits": 3, "parked": 0}]}' >"$3"
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o755)


def judged(suite, name, needs=None):
    result = safety.one_check(suite, safety.Check(name, name, None, needs))
    return result[1], result[2]


def main():
    safety.LIMIT_S = 1
    with tempfile.TemporaryDirectory() as folder:
        write(os.path.join(folder, "tests", "programs", "safety", "safety"), PROGRAM)
        write(os.path.join(folder, "tools", "slipstream"), REPORT)
        suite = safety.Suite(argparse.Namespace(build=folder, out=os.path.join(folder, "out"), minutes=1, driver=None, shim="/dev/null", seed=1,
                                                quick=True, only=None))
        suite.fix = lambda place: {"SLIPSTREAM_MODE": "fix", "SLIPSTREAM_OUT": place}
        verdict, text = judged(suite, "same", {"pinned": ("hits",)})
        assert verdict == "ok" and "pinned: hits 3" in text, (verdict, text)
        assert judged(suite, "same", {"pinned": ("hits", "parked"), "frees": ("hits",)}) == (
            "FAIL", "nothing was tried: no pinned parked, frees hits")
        assert judged(suite, "other") == ("FAIL", "raw 'one', in mode fix 'onefix'")
        assert judged(suite, "fails") == ("FAIL", "status 1: broken")
        assert judged(suite, "fails-raw")[0] == "skip" and "status 3" in judged(suite, "fails-raw")[1]
        assert judged(suite, "crashes")[0] == "FAIL" and "-11" in judged(suite, "crashes")[1]
        begin = time.monotonic()
        verdict, text = judged(suite, "hangs")
        assert verdict == "FAIL" and "hangs" in text and time.monotonic() - begin < 10, (verdict, text)
        assert "differs-hangs.txt" in os.listdir(suite.out)
        with contextlib.redirect_stdout(io.StringIO()) as told:
            safety.row(suite, "some check", "ok", "text", {"pinned": {"hits": 3}}, 1, 2)
            safety.row(suite, "some other", "FAIL", "raw 'a|b'")
        assert told.getvalue() == "ok    some check: text\nFAIL  some other: raw 'a|b'\n", told.getvalue()
        suite.random["frees"] = {"seeds": [4, 2], "calls": 4, "different": ["x"], "unstable": []}
        section = safety.section(suite, safety.machine(folder))
        for line in ("1 passed, 1 failed, 0 skipped.", "| some check | ok | 1.0 | 2.0 | pinned: hits 3 |", "| some other | FAIL |  |  | raw 'a/b' |",
                     "- random programs of frees: seeds 2 to 4, 4 programs raw and in mode fix, 1 different, 0 not the same raw from run to run"):
            assert line in section, (line, section)


if __name__ == "__main__":
    main()
