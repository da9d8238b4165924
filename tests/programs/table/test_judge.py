#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the table test takes for right and wrong, on reports made up here."""
import unittest

from table_test import judge

WAITED = {"stream_kind": "legacy", "operation": "kernel", "name": "spin"}


def sync(rule, blocked_us, function="cuMemHostAlloc", count=1, region="cell", kind="implicit", waited_for=()):
    return {"function": function, "class": kind, "rule": rule, "idle_basis": {"minimum": 1}, "waited_for": list(waited_for),
            "regions": [{"name": region, "count": count, "blocked_ns": blocked_us * 1000}]}


def faults(cell, stream, *syncs, busy_us=300, idle_us=290):
    return judge({"syncs": list(syncs)}, cell, stream, busy_us * 1000, idle_us * 1000, None)


class Judge(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(faults("host-alloc-1m", "null"), [])

    def test_own_cost(self):
        """As much as the call costs, and no more."""
        self.assertEqual(faults("host-alloc-1m", "null", sync("pinning", 295)), [])
        for stream in ("null", "blocking", "non-blocking"):
            self.assertEqual(faults("host-alloc-1m", stream, sync("pinning", 2000)),
                             ["pinning x1 2000 us is no cost of a call that took 300 us, idle 290 us"])
            # Nor where the call did take that long: the kernel is two milliseconds long.
            self.assertEqual(len(faults("host-alloc-1m", stream, sync("pinning", 2000), busy_us=2010)), 1)
        self.assertEqual(faults("host-alloc-1m", "null", sync("pinning", 2000), busy_us=2010, idle_us=1990), [])
        self.assertEqual(len(faults("host-alloc-1m", "null", sync("pinning", 400))), 1)

    def test_elsewhere(self):
        """Another function, another region, another class."""
        self.assertEqual(faults("host-alloc-1m", "null", sync("pinning", 2000, function="cuMemAlloc_v2"), sync("pinning", 2000, region="rest"),
                                sync("synchronize", 2000, kind="explicit")), [])

    def test_wait_where_there_is_none(self):
        self.assertEqual(faults("host-alloc-1m", "null", sync("free-drains-device", 1900), busy_us=2200),
                         ["does not wait, but the report has free-drains-device x1 1900 us"])
        self.assertEqual(len(faults("host-alloc-1m", "null", sync("free-drains-device", 200))), 1)
        self.assertEqual(faults("host-alloc-1m", "null", sync("free-drains-device", 20)), [])

    def test_wait(self):
        good = sync("free-drains-device", 1900, function="cuMemFree_v2", waited_for=[WAITED])
        self.assertEqual(faults("mem-free-1m", "null", good, busy_us=2000, idle_us=50), [])
        self.assertEqual(len(faults("mem-free-1m", "null", busy_us=2000, idle_us=50)), 1)
        self.assertEqual(len(faults("mem-free-1m", "blocking", good, busy_us=2000, idle_us=50)), 1)
        self.assertEqual(len(faults("mem-free-1m", "null", sync("pinning", 1900, function="cuMemFree_v2"), busy_us=2000, idle_us=50)), 1)


unittest.main()
