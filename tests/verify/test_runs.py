# SPDX-License-Identifier: MIT
"""The preload library on the simulated driver: what it does with the default stream is proved from a journal, and from a trace of the same program. Exit
status 77 with a reason where a machine has no LTTng; the journal is proved anyway."""
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

from journal import verify

PROGRAM, SIMCUDA = os.environ["VERIFY_PROGRAM"], os.environ["SIMCUDA_FOLDER"]
SEED = int(os.environ.get("VERIFY_SEED") or random.randrange(1 << 31))
COUNTS = re.compile(r"proved: 1 context, (\d+) records, (\d+) operations, (\d+) orderings demanded, (\d+) barriers")
SETTINGS = {"SLIPSTREAM_MODE": "fix", "SLIPSTREAM_FIX": "streams", "SLIPSTREAM_LEVEL": "full", "SLIPSTREAM_LEGACY_AFTER": "0"}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPSTREAM_", "SIMCUDA_", "LTTNG_", "CUDA_"))}

    def path(self, name):
        return os.path.join(self.folder, name)

    def proved(self, path, least):
        """Operations that were ordered; at least so many barriers."""
        result = verify(path)
        self.assertEqual((result.returncode, result.stderr), (0, ""), f"VERIFY_SEED={SEED}\n{result.stdout}")
        _, operations, orderings, barriers = map(int, COUNTS.search(result.stdout).groups())
        self.assertGreater(orderings, operations // 2)
        self.assertGreaterEqual(barriers, least)
        return operations

    def journal(self, threads, operations, **more):
        os.makedirs(self.path("out"), exist_ok=True)
        environment = {**self.environment, **SETTINGS, "LD_PRELOAD": os.environ["REAL_LIBRARY"], "LD_LIBRARY_PATH": SIMCUDA,
                       "SLIPSTREAM_OUT": self.path("out"), "SLIPSTREAM_LTTNG": os.environ["TRACE_PROVIDER"], "TRACE_JOURNAL": self.path("a.trace"), **more}
        result = subprocess.run([PROGRAM, str(threads), str(SEED), str(operations)], env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_one_thread(self):
        self.journal(1, 2000)
        # What is neither an event wait of a stream without work, nor a synchronization, nor a new stream.
        self.assertGreater(self.proved(self.path("a.trace"), 100), 1500)

    def test_eight_threads(self):
        self.journal(8, 500)
        # How often it turns depends on who is between two calls at that moment.
        self.assertGreater(self.proved(self.path("a.trace"), 0), 3000)

    def test_one_barrier_less_is_named(self):
        """Of a real run: its records without one post, numbered anew."""
        self.journal(1, 300)
        with open(self.path("a.trace"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        order = sorted((line for line in lines if re.search(r" order_(?!end)", line)), key=lambda line: int(re.search(r"sequence=(\d+)", line)[1]))
        recorded = {int(number) for line in order for number in re.findall(r"recorded=(\d+)", line)}
        posts = [index for index, line in enumerate(order) if "order_barrier" in line and " kind=3 " in line and index + 1 not in recorded]
        gone = posts[len(posts) // 2]

        def renumber(line):
            return re.sub(r"\b(sequence|of|recorded|order)=(\d+)", lambda match: f"{match[1]}={int(match[2]) - (int(match[2]) > gone)}", line)
        definitions = [line for line in lines if " def_" in line] + [renumber(line) for line in lines if re.search(" (submit|record) ", line)]
        end = next(line for line in lines if " order_end " in line)
        kept = definitions + [renumber(line) for line in order[:gone] + order[gone + 1:]] + [renumber(end)]
        with open(self.path("b.trace"), "w", encoding="utf-8") as file:
            file.writelines("1 pid=1 tid=1 " + line.split(" ", 1)[1].replace("pid=", "tid=") + "\n" for line in kept)
        result = verify(self.path("b.trace"))
        stream = re.search(r"to_stream=(\d+)", order[gone])[1]
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, rf"^context 1: .*, record {gone + 1}, is not behind .*: a post barrier from stream \d+ \(substitute\) "
                         rf"to stream {stream} is missing", order[gone])

    def test_the_trace_of_a_session(self):
        if not os.environ.get("TRACING_PROGRAM"):
            self.skipTest("this build has no slipstream trace")
        sys.path.insert(0, os.path.join(os.environ["SOURCE_ROOT"], "tests", "tracing"))
        import session
        try:
            session.need_tools()
        except session.Skip as reason:
            self.skipTest(str(reason))
        folder = self.path("trace")
        result = subprocess.run(
            [os.environ["TESTED_TOOL"], "trace", "--driver", SIMCUDA, "--output", os.devnull, "--folder", folder, "--level", "full", "--mode", "fix",
             "--fix", "streams", "--legacy-after", "0", "--", PROGRAM, "1", str(SEED), "1000"],
            env={**self.environment, "TMPDIR": self.folder}, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(self.proved(folder, 50), 800)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    for case, reason in program.result.skipped:
        print(f"{case.id()}: {reason}")
    sys.exit(77 if program.result.skipped else 0)
