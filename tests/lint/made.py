# SPDX-License-Identifier: MIT
"""Record files made for lint's tests: what a run cannot be made to do at will, with exact counts and times."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import records  # noqa: E402

MS = 1000000


class Made:
    """One process. A wait is at a Python place, FILE:LINE in a function."""

    def __init__(self, calls=100, **header):
        self.records = records.Records(**header)
        self.functions, self.rules, self.regions, self.sites, self.candidates = {}, {}, {}, {}, {}
        self.calls = calls

    def of(self, table, key, make):
        if key not in table:
            table[key] = make()
        return table[key]

    def wait(self, slug="d2h", function="cuMemcpyDtoH_v2", at=("train.py", 12, "step"), kind=records.IMPLICIT, count=1, blocked=MS,
             region=None, amount=4096, cause=None, waited=True, **more):
        r = self.records
        number = self.of(self.functions, function, lambda: r.function(function))
        rule = self.of(self.rules, slug, lambda: r.rule(slug, cause or slug.replace("-", " "), kind))
        stack = (at,) if at and isinstance(at[0], str) else at
        site = self.of(self.sites, stack, lambda: r.site((), [(file, line, name) for file, line, name in stack])) if at else 0
        if region:
            more["region"] = self.of(self.regions, region, lambda: r.region(region))
        wait = r.wait(number, rule, site, 2, 6, 1, count=count, blocked=blocked, amount=amount * count, **more)
        if waited:
            r.waited_for(wait, self.of(self.candidates, "spin", lambda: r.candidate(3, 1, 2, 1, "spin")), count, blocked)
        return wait

    def write(self, folder):
        r = self.records
        if not self.functions:
            self.functions["cuInit"] = r.function("cuInit")
        if self.calls:
            r.counters([self.calls] + [0] * (len(self.functions) - 1))
        os.makedirs(folder, exist_ok=True)
        r.write(os.path.join(folder, f"{r.header['pid']}-{r.header['start']}.slip"))
        return folder
