# SPDX-License-Identifier: MIT
"""Memory does not grow with the trace: 4.8 million waits take what 1.2 million take; definitions that every dump repeats add nothing. And the
report is not slow: the benchmark runs, within a bound that a loaded machine keeps."""
import os
import subprocess
import sys
import unittest

import ctf
from support import ANALYZE, PLUGIN, SOURCE, Case
from test_errors import define

sys.path.insert(0, os.path.join(SOURCE, "tests", "bench"))
import analysis  # noqa: E402


class Memory(Case):
    def resident(self, trace):
        """KiB, and what the report counted."""
        command = [ANALYZE, "--json", self.path("report.json"), "--output", self.path("text"), trace]
        size = analysis.run(command)[2]
        return size, sum(sync["count"] for sync in self.load(self.path("report.json"))["syncs"])

    def test_flat(self):
        analysis.make_trace(self.path("small"), 1200000)
        analysis.make_trace(self.path("large"), 4800000)
        small, few = self.resident(self.path("small"))
        large, many = self.resident(self.path("large"))
        self.assertGreater(many, 4700000)
        self.assertGreater(many, 3.9 * few)
        # babeltrace2 maps up to 8 MiB of each stream, which both are larger than.
        self.assertLess(large, small + 4096, f"{small} KiB, then {large}")

    def test_repeated_dumps(self):
        """A thousand dumps, one a second, of 700 definitions with long texts and allocations that come and go."""
        sizes = []
        for dumps in (10, 1000):
            trace = ctf.Trace(self.path(f"dumps-{dumps}"))
            stream = trace.stream()
            define(stream)
            stream.flush()
            for dump in range(dumps):
                ns = 10**9 * (dump + 1)
                stream.event(ns, "dump_begin", vpid=100, dump=dump)
                for number in range(5, 205):
                    stream.event(ns + number, "def_string", vpid=100, id=number, length=1000, offset=0, text=str(number) * 166)
                    stream.event(ns + number, "def_candidate", vpid=100, id=number, stream_kind=3, context=1, stream=number)
                    stream.event(ns + number, "def_frame", vpid=100, site=number, index=number % 7, offset=number)
                    stream.event(ns + number, "def_allocation", vpid=100, address=dump * 2**30 + number * 512, bytes=512, memory=6)
                stream.event(ns + 10000, "dump_end", vpid=100, dump=dump)
            trace.close()
            sizes.append(self.resident(self.path(f"dumps-{dumps}"))[0])
        self.assertLess(sizes[1], sizes[0] + 4096, sizes)

    def test_text_source(self):
        """The golden traces' source streams, too."""
        with open(self.path("long.trace"), "w", encoding="utf-8") as file:
            file.write("0 host=a pid=1 tid=1 def_wait id=1\n")
            file.writelines(f"{number // 1000}.{number % 1000:03d} wait wait=1 bytes={number}\n" for number in range(300000))
        size, count = self.resident(self.path("long.trace"))
        self.assertEqual(count, 300000)
        self.assertLess(size, 64 * 1024)

    def test_benchmark_runs(self):
        result = subprocess.run([sys.executable, os.path.join(SOURCE, "tests/bench/analysis.py"), "--plugin", PLUGIN, "--analyze", ANALYZE, "--events", "400000",
                                 "--runs", "3", "--most-ratio", os.environ.get("MOST_RATIO", "1.5"), "--most-kib", "100000"],
                                capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"report +\d+\.\d+ s, \d\.\d+ of dummy")


if __name__ == "__main__":
    unittest.main()
