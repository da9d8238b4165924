# SPDX-License-Identifier: MIT
"""Four ranks of Open MPI on the simulated driver, traced in the three ways there are: a tracer around the launcher, one for each rank, and one
for each rank that streams to a relay daemon. The counts of each rank in the merged trace are those of its in-process summary."""

import collections
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from robust_support import SIMCUDA, TOOL, Traced, main, read_trace, waits

RANKS = 4
WAITS = 10
PROGRAM = os.environ["MPI_RANKS"]
MPIRUN = [os.environ["MPIRUN"], "-n", str(RANKS), "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


class Ranks(Traced):
    def setUp(self):
        super().setUp()
        self.environment.update(OMPI_MCA_btl="self,vader", OMPI_MCA_plm="isolated", OMPI_MCA_rmaps_base_oversubscribe="1", HOME=self.base)
        probe = subprocess.run([*MPIRUN, "true"], env=self.environment, capture_output=True, text=True, timeout=60)
        if probe.returncode:
            self.skipTest("mpirun does not work here: " + probe.stderr.strip()[-200:])

    def launch(self, command):
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        self.assertEqual((result.returncode, result.stdout), (0, "sum 6\n"), result.stderr)
        self.assert_nothing_left()
        return result

    def tracer(self, *options):
        return [TOOL, "trace", "--driver", SIMCUDA, "--output", "/dev/null", *options, "--"]

    def counts(self, folder):
        """Waits by rank in a merged trace, and the pid of each rank."""
        trace = read_trace(folder)
        self.assertEqual(trace.discarded, 0)
        pids = {event.vpid: event.fields["rank"] for event in trace.events if event.name == "def_process"}
        self.assertEqual(sorted(pids.values()), list(range(RANKS)))
        found = collections.Counter(pids[event.vpid] for event in waits(trace))
        return found, pids

    def summaries(self, pids, folders):
        """Waits by rank as the processes counted them, from their record files."""
        found = {}
        for folder in folders:
            for name in os.listdir(folder):
                report = subprocess.run([TOOL, "report", "--records", os.path.join(folder, name), "--json", "/dev/stdout", "--output", "/dev/null"],
                                        capture_output=True, text=True, timeout=60)
                self.assertEqual(report.returncode, 0, report.stderr)
                pid = int(name.split("-")[0])
                if pid in pids:
                    found[pids[pid]] = sum(sync["count"] for sync in json.loads(report.stdout)["syncs"])
        return found

    def assert_equal_counts(self, merged, folders):
        found, pids = self.counts(merged)
        self.assertEqual(dict(found), self.summaries(pids, folders))
        for rank in range(RANKS):
            self.assertGreaterEqual(found[rank], WAITS + rank)
            self.assertIn(self.analysed(merged, rank), (None, found[rank]))

    def analysed(self, folder, rank):
        """Waits of the rank in the report on the merged trace; None: this build has no analysis."""
        report = subprocess.run([TOOL, "report", folder, "--rank", str(rank), "--json", "/dev/stdout", "--output", "/dev/null"], capture_output=True,
                                text=True, timeout=60)
        if "is not part of this build" in report.stderr:
            return None
        self.assertEqual(report.returncode, 0, report.stderr)
        return sum(sync["count"] for sync in json.loads(report.stdout)["syncs"])

    def test_around_the_launcher(self):
        self.launch([*self.tracer("--folder", self.folder), *MPIRUN, PROGRAM])
        self.assert_equal_counts(self.folder, [self.path("trace/records")])

    def test_each_rank(self):
        self.launch([*MPIRUN, *self.tracer("--folder", self.folder), PROGRAM])
        ranks = [os.path.join(self.folder, "rank%d" % rank) for rank in range(RANKS)]
        self.assertEqual(sorted(os.listdir(self.folder)), [os.path.basename(rank) for rank in ranks])
        self.assert_equal_counts(self.folder, [os.path.join(rank, "records") for rank in ranks])

    def test_each_rank_through_a_relay_daemon(self):
        each = self.path("each")
        self.launch([*self.tracer("--relayd", "--folder", self.folder), *MPIRUN, *self.tracer("--folder", each), PROGRAM])
        self.assert_equal_counts(self.folder, [os.path.join(each, "rank%d" % rank, "records") for rank in range(RANKS)])


if __name__ == "__main__":
    main()
