#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What twins.py and streams.py judge, on figures that are made up: limits are held, the share that is recovered is right, other bytes and rewrites that did nothing are
refused.

    check_twins.py
"""
import contextlib
import io
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import streams  # noqa: E402
import twins  # noqa: E402


def report(rewrite="staging", key="to_device", done=10):
    return {
        "syncs": [
            {"class": "implicit", "rule": "pageable-h2d", "function": "cuMemcpyHtoD_v2", "blocked_ns": 44000, "count": 110},
            {"class": "implicit", "rule": "pageable-h2d", "function": "cuMemcpyHtoD_v2", "blocked_ns": 11000, "count": 110},
            {"class": "device", "rule": "legacy-join", "function": "cuLaunchKernel", "blocked_ns": 0, "count": 9},
        ],
        "rewrites": [{"name": rewrite, key: done}],
        "coverage": {"notes": []},
    }


def twins_end(program="upload", digest="a", told=None, **us):
    """(status of twins.py --check with these us of its forms, what it printed)"""
    times = {"raw": 3000, "observe": 3000, "strict": 2000, "fix": 1000, "order": 2000, "relaxed": 1000, "ordered": 1000, "unwaited": 900, "free": 500, **us}
    twins.run = lambda options, name, form: {"us": times[form], "first_us": 1, "digest": digest if form == "free" else "a", "report": told or report()}
    argv, sys.argv = sys.argv, ["twins.py", "--build", "none", "--programs", program, "--rounds", "2", "--frames", "100", "--first", "10", "--check"]
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            twins.main()
        status = None
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = argv
    return status, out.getvalue()


def check_twins():
    status, text = twins_end()
    assert status is None, status
    # (3000 - 1000) of (3000 - 500); 55 us in 110 frames.
    assert "fix (free): times ordered 1.000 [1.000, 1.000]; recovered 80 %" in text, text
    assert "0.5 us, 2.00 calls: implicit pageable-h2d in cuMemcpyHtoD_v2" in text and "legacy-join" not in text, text
    assert "relaxed (free,order): times unwaited 1.111" in text, text
    assert twins_end(fix=1049)[0] is None
    assert "1.051 times" in twins_end(fix=1051)[0]
    # Only the default has a limit.
    assert twins_end(strict=5000, relaxed=5000)[0] is None
    assert "not the same bytes" in twins_end(digest="b")[0]
    assert "to_device is 0" in twins_end(told=report(done=0))[0]
    assert "recovered none" in twins_end(free=3000)[1]
    assert "from_device is 0" in twins_end(program="download")[0]


def streams_end(join, only=0.5, control=0.2, redirected=5, eager=0.9, barriers=7):
    """(status of streams.py --check, what it printed); differences in us and percent."""
    def run(options, program, arguments, mode, rewrites="", more=None):
        is_control, is_eager = "streams" not in rewrites, more["SLIPSTREAM_LEGACY_AFTER"] == "0"
        if arguments[0] == "dirty":
            added = control if is_control else eager if is_eager else join
            lines = f"cell join {arguments[1]} raw 400 wrapped 1 difference {added * 1000} low 0 high 1 pairs 9"
        else:
            lines = f"cell null_only 1 raw 4000 wrapped 1 difference {40 * only} low 0 high 1 pairs 9"
        did = {"redirected": redirected, "barriers": barriers, "turns": 3} if is_eager else {"redirected": 0, "barriers": 0, "turns": 0}
        return [lines.split()], {} if is_control else {"streams": did}

    streams.by_turns.run = run
    argv, sys.argv = sys.argv, ["streams.py", "--build", "none", "--parts", "only,dirty", "--streams", "1,64", "--check"]
    out, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = streams.main()
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = argv
    return status, out.getvalue() + errors.getvalue()


def check_streams():
    assert streams_end(0.9)[0] == 0, streams_end(0.9)
    status, text = streams_end(1.1)
    assert status == 1 and "1 streams, default: 1.10 us over the native join (native: 0 redirected, 0 barriers, 0 turns); 64 streams, default" in text, text
    status, text = streams_end(0.9, eager=1.2)
    assert status == 1 and "limit: 1 streams, eager: 1.20 us over the native join (barriers of ours: 5 redirected, 7 barriers, 3 turns); 64 streams, eager" in text, text
    status, text = streams_end(0.9, only=1.1)
    assert status == 1 and "the legacy stream alone: 1.10 % more" in text, text
    assert "over control +0.70" in streams_end(0.9)[1]
    assert "[barriers of ours: 5 redirected, 7 barriers, 3 turns]" in text and "[no rewrite]" in text, text
    assert "nothing was rewritten" in streams_end(0.9, redirected=0)[0]
    assert "nothing was rewritten" in streams_end(0.9, barriers=0)[0]


if __name__ == "__main__":
    check_twins()
    check_streams()
