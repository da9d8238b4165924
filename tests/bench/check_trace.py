#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""trace.py's judgement of pairs: a cost that all pairs show is measurable, one that both signs have is not.

    check_trace.py
"""
import importlib.util
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("bench_trace", os.path.join(HERE, "trace.py"))  # `trace` is a module of Python's
bench_trace = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench_trace)

NOISE = [((7 * number) % 40) - 19.5 for number in range(40)]  # each half unit once, in mixed order, as often below 0 as above

for cost, wanted in ((0, False), (1, False), (-1, False), (10, True), (-10, True)):
    got = bench_trace.is_measurable([noise + cost for noise in NOISE])
    assert got == wanted, f"a cost of {cost} among noise of 20: {got}"
assert not bench_trace.is_measurable([0.0] * 40)
assert bench_trace.is_measurable([0.1] * 40)
print("ok: 7 judgements")
