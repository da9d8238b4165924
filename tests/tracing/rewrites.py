# SPDX-License-Identifier: MIT
"""Mode fix in a trace: what the report says of rewrites is what it says of record files; real frees have their site and reason at level
waits, rewritten calls are there at level full only."""

import collections
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from robust_support import TOOL, Traced, main, read_trace

ZERO = os.environ["BISECT_ZERO"]  # ten blocks are freed and allocated again; ends with 7 where that happens
HIT, PARKED = 1, 2


class Rewrites(Traced):
    def rewrites(self, *options):
        path = self.path("again.json")
        subprocess.run([TOOL, "report", "--json", path, *options, self.folder], env=self.environment, capture_output=True, check=True, timeout=60)
        with open(path) as file:
            return json.load(file)

    def traced(self, *options, status):
        self.trace("--mode", "fix", *options, program=ZERO, steps=(), status=status)
        trace, records = self.rewrites(), self.rewrites("--records")
        self.assertEqual(trace["rewrites"], records["rewrites"])
        return trace, read_trace(self.folder).events

    def test_level_waits(self):
        report, events = self.traced(status=7)
        row = report["rewrites"][0]
        self.assertEqual((row["name"], row["hits"], row["misses"], row["parked"], row["sites"]), ("pinned", 10, 1, 10, []))
        names = collections.Counter(event.name for event in events)
        self.assertGreaterEqual(names["def_rewrite"], 1)
        self.assertEqual((names["rewritten"], names["real_free"], names["def_rewrite_site"]), (0, 0, 0))

    def test_level_full(self):
        report, events = self.traced("--level", "full", "--deny", "/dev/null", status=7)
        rewritten = [event.fields for event in events if event.name == "rewritten"]
        self.assertEqual(collections.Counter(fields["how"] for fields in rewritten), {HIT: 10, PARKED: 10})
        self.assertEqual({fields["bytes"] for fields in rewritten}, {8192})
        self.assertEqual([(site["count"], site["denied"]) for site in report["rewrites"][0]["sites"]], [(1, 0)] * 21)

    def test_real_frees(self):
        """Frees that a list denies are the driver's: where, and why."""
        report, _ = self.traced("--deny", "/dev/null", status=7)
        keys = [site["id"] for site in report["rewrites"][0]["sites"] if site["function"] == "cuMemFreeHost"]
        self.assertEqual(len(keys), 10)
        deny = self.path("frees.deny")
        with open(deny, "w") as file:
            file.writelines("site %s\n" % key for key in keys)
        self.folder = self.path("denied")
        report, events = self.traced("--deny", deny, status=0)
        self.assertEqual(report["rewrites"][0]["real_frees"], 10)
        self.assertEqual([(row["function"], row["why"], row["count"], row["blocks"]) for row in report["rewrites"][0]["freed_at"]],
                         [("cuMemFreeHost", "denied at their call sites", 1, 1)] * 10)
        freed = [event.fields for event in events if event.name == "real_free"]
        self.assertEqual([(fields["blocks"], fields["bytes"]) for fields in freed], [(1, 8192)] * 10)
        self.assertEqual(len({fields["site"] for fields in freed}), 10)
        sites = {event.fields["id"] for event in events if event.name == "def_site"}
        self.assertLessEqual({fields["site"] for fields in freed}, sites)
        self.assertEqual(len({fields["why"] for fields in freed}), 1)
        self.assertEqual([note["text"] for note in report["coverage"]["notes"] if note["code"] == "rewrite"], ["denied at their call sites"])


main()
