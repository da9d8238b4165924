# SPDX-License-Identifier: MIT
"""What holds for every timeline, whatever was traced: schema, one event a line, arrows in pairs and inside slices, nesting, names."""
import json
import os

import jsonschema

HERE = os.path.dirname(os.path.abspath(__file__))


class Broken(Exception):
    pass


def require(holds, text):
    if not holds:
        raise Broken(text)


def load(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    document = json.loads(text)
    lines = text.splitlines()
    require(len(lines) == len(document["traceEvents"]) + 2, f"{len(lines)} lines for {len(document['traceEvents'])} events")
    return document


def ns(us):
    return round(us * 1000)


def check_schema(document):
    with open(os.path.join(HERE, "timeline.schema.json"), encoding="utf-8") as file:
        validator = jsonschema.Draft202012Validator(json.load(file))
    for error in validator.iter_errors(document):
        raise Broken(f"schema: {'/'.join(map(str, error.path))}: {error.message[:300]}")


def slices_by_row(document):
    rows = {}
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            rows.setdefault((event["pid"], event["tid"]), []).append((ns(event["ts"]), ns(event["ts"]) + ns(event["dur"]), event))
    for slices in rows.values():
        slices.sort(key=lambda item: (item[0], -item[1]))
    return rows


def check_nesting(document):
    """On one row every two slices are disjoint, or one lies within the other."""
    for row, slices in slices_by_row(document).items():
        open_ends = []
        for begin, end, event in slices:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            require(not open_ends or end <= open_ends[-1], f"row {row}: '{event['name']}' at {begin} ns ends at {end}, its surroundings at {open_ends[-1:]}")
            open_ends.append(end)


def check_flows(document):
    """Each arrow has one begin and one end, not before it, each inside a slice of its row."""
    rows, ends = slices_by_row(document), {}
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            ends.setdefault(event["id"], []).append(event)
            at = ns(event["ts"])
            require(any(begin <= at <= end for begin, end, _ in rows.get((event["pid"], event["tid"]), [])),
                    f"arrow {event['id']} ({event['ph']}) at {at} ns is in no slice of its row")
    for number, pair in ends.items():
        require([event["ph"] for event in pair] == ["s", "f"], f"arrow {number} has {[event['ph'] for event in pair]}")
        require(pair[0]["ts"] <= pair[1]["ts"], f"arrow {number} ends before it begins")


def check_names(document):
    """Every row and every group has one name."""
    used, threads, processes = set(), {}, {}
    for event in document["traceEvents"]:
        if event["ph"] != "M":
            used.add((event["pid"], event["tid"]))
        elif event["name"] == "thread_name":
            threads.setdefault((event["pid"], event["tid"]), []).append(event["args"]["name"])
        elif event["name"] == "process_name":
            processes.setdefault(event["pid"], []).append(event["args"]["name"])
    for row in used:
        require(len(threads.get(row, [])) == 1, f"row {row} has the names {threads.get(row)}")
        require(len(processes.get(row[0], [])) == 1, f"group {row[0]} has the names {processes.get(row[0])}")


RULES = (check_schema, check_nesting, check_flows, check_names)


def check(document, with_schema=True):
    """The schema is slow: of many like traces some do."""
    for rule in RULES if with_schema else RULES[1:]:
        rule(document)
