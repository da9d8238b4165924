# SPDX-License-Identifier: MIT
"""The provider that writes journals: complete, in time, with threads; what it leaves where a process does not end as it should."""
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest

from journal import verify

PROVIDER, EMITTER = os.environ["TRACE_PROVIDER"], os.environ["JOURNAL_EMITTER"]
SEED = int(os.environ.get("VERIFY_SEED") or random.randrange(1 << 32))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, journal, threads=1, records=1000, more=()):
        environment = {name: value for name, value in os.environ.items() if name != "TRACE_JOURNAL"}
        if journal is not None:
            environment["TRACE_JOURNAL"] = journal
        return subprocess.Popen([EMITTER, PROVIDER, str(threads), str(records), *more], stdout=subprocess.PIPE, text=True, env=environment, cwd=self.folder)

    def emit(self, *arguments, **options):
        """How many records, and seconds."""
        process = self.start(*arguments, **options)
        text, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)
        records, seconds = text.split()
        return int(records), float(seconds)

    def test_a_journal_is_proved(self):
        records, _ = self.emit(self.path("a.trace"))
        result = verify(self.path("a.trace"))
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertIn(f"proved: 1 context, {records} records, 500 operations", result.stdout)
        with open(self.path("a.trace"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(sum("def_stream" in line for line in lines), 2)
        self.assertEqual(sum('def_string id=9 length=14 text="cuLaunchKernel"' in line for line in lines), 1)
        self.assertTrue(lines[-1].endswith(f" dump_end dump=1 events={len(lines) - 2}"))

    def test_threads_and_time(self):
        for threads, number in ((1, 300000), (8, 300000)):
            records, seconds = self.emit(self.path("a.trace"), threads, number)
            before = time.monotonic()
            result = verify(self.path("a.trace"))
            took = time.monotonic() - before
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            self.assertIn(f"proved: 1 context, {records} records", result.stdout)
            print(f"{threads} threads: written {records / seconds / 1e6:.2f} million records a second, verified {records / took / 1e6:.2f}")

    def test_any_line_is_missed(self):
        self.emit(self.path("a.trace"), 3, 300)
        with open(self.path("a.trace"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        chance = random.Random(SEED)
        for index in {0, 1, len(lines) - 2, len(lines) - 1, *chance.sample(range(len(lines)), 60)}:
            less = lines[:index] + lines[index + 1:]
            if index == 0:  # who sent it is on the first line
                words = less[0].split(" ", 1)
                less[0] = f"{words[0]} pid=1 tid=1 {words[1]}"
            with open(self.path("less.trace"), "w", encoding="utf-8") as file:
                file.write("\n".join(less) + "\n")
            result = verify(self.path("less.trace"))
            self.assertEqual(result.returncode, 1, f"VERIFY_SEED={SEED} without line {index}: {lines[index]}\n{result.stdout}")

    def test_a_folder(self):
        processes = [self.start(self.folder) for _ in range(3)]
        for process in processes:
            process.communicate(timeout=120)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(f"{process.pid}.trace" for process in processes))
        result = verify(self.folder)
        self.assertEqual((result.returncode, result.stdout.count("proved: 1 context")), (0, 3))

    def test_a_child_writes_nothing(self):
        self.emit(self.path("a.trace"), more=["fork"])
        result = verify(self.path("a.trace"))
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        with open(self.path("a.trace"), encoding="utf-8") as file:
            self.assertEqual(sum("dump_end" in line for line in file), 1)

    def test_without_a_place(self):
        self.emit(None)
        self.emit("")
        self.emit(self.path("none/a.trace"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_full_disk_is_seen(self):
        self.emit("/dev/full", records=100000)

    def test_a_killed_process_is_not_proved(self):
        process = self.start(self.path("a.trace"), records=1 << 40)
        while not os.path.exists(self.path("a.trace")) or os.path.getsize(self.path("a.trace")) < 3 << 20:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        result = verify(self.path("a.trace"))
        self.assertIn(result.returncode, (1, 2))
        self.assertIn("incomplete: the end of context 1 is missing", result.stdout)


if __name__ == "__main__":
    unittest.main()
