# SPDX-License-Identifier: MIT
"""How threads wait, what they called with, and from where. Of check_watch.py."""
from watching import calls, PLAIN, PROGRAM, PTSZ, watch


def classes_of(seen):
    ways = {0x1000: [], 0x2000: [], 0x3000: [], 0x4000: [], 0x5000: [], 0x6000: []}
    for call in seen["calls"]:
        ways[call["stream"]].append(call)
    return list(ways.values())


def five_ways_to_wait_are_told_apart():
    for options in ((), ("--system-calls",)):
        seen = watch("--records", *options, program=[PROGRAM, "waits"])
        spin, yielding, poll, futex, ioctl, sleep = classes_of(seen)
        assert [len(way) for way in classes_of(seen)] == [20] * 6
        for way, how, number in ((poll, "poll", 7), (futex, "futex", 202), (sleep, "other", 230)):
            for call in way:
                assert call["off"][how] > 1500000 and call["switches"] >= 1, call
                if not options:
                    assert call["top"] == number and call["tops"] >= 1, call
                assert all(call["off"][other] == 0 for other in ("poll", "futex", "ioctl", "yield", "other") if other != how), call
        for call in spin + ioctl:
            assert call["off_cpu"] == call["off"]["preempted"] and call["switches"] == 0, call
        for call in yielding:
            assert call["off"]["poll"] == call["off"]["futex"] == 0 and call["switches"] == 0, call
        if options:
            assert all(call["top"] == 16 and call["tops"] > 50 for call in ioctl if not call["preemptions"]), ioctl
            assert all(call["tops"] == 0 for call in spin), spin
            assert all(call["top"] == 24 for call in yielding), yielding
        assert all(call["ns"] >= call["off_cpu"] and call["ns"] >= 2000000 for way in classes_of(seen) for call in way)


def yields_show_where_somebody_else_wants_the_processor():
    seen = watch("--records", program=["taskset", "-c", "0", "sh", "-c", f"{PROGRAM} waits & {PROGRAM} waits; wait"])
    yielding = [call for call in seen["calls"] if call["stream"] == 0x2000]
    assert sum(call["yields"] for call in yielding) > 0 and sum(call["off"]["yield"] for call in yielding) > 0


def lost_processor_is_told_as_preemption():
    seen = watch("--records", program=[PROGRAM, "preempted"])
    assert len(seen["calls"]) == 100
    lost = sum(call["off"]["preempted"] for call in seen["calls"])
    assert lost > 20000000 and sum(call["preemptions"] for call in seen["calls"]) >= 10, lost
    assert all(call["off_cpu"] == call["off"]["preempted"] for call in seen["calls"])


def check_arguments(seen, stepped=True):
    found = [(call["function"], call["stream_class"], call["stream"], call["direction"], call["bytes"], call["source"], call["destination"])
             for call in seen["calls"] if not call["nested"] and call["function"] != "cuMemcpyHtoD"]
    expected = [
        (PLAIN, 1, 0, 0, 0, 0, 0),
        (PLAIN, 1, 1, 0, 0, 0, 0),
        (PLAIN, 2, 2, 0, 0, 0, 0),
        (PLAIN, 3, 0x8000, 0, 0, 0, 0),
        (PTSZ, 2, 0, 0, 0, 0, 0),
        ("cuMemcpyHtoD_v2", 1, 0, 1, 4096, 0x8000, 0x7000),
        ("cuMemcpyDtoHAsync_v2", 3, 0x8000, 2, 8192, 0xa000, 0x9000),
        ("cuMemsetD2D32_v2", 1, 0, 0, 1200, 0, 0xc000),
        ("cuMemcpyBatchAsync_ptsz", 2, 0, 5, 0, 0, 0),
        ("cuMemcpyBatchAsync_ptsz", 3, 0x123450, 5, 0, 0, 0),
        ("cuMemcpy2D_v2", 1, 0, 1, 1000, 0x100000 + 2 * 256 + 8, 0x200000 + 128),
        ("cuMemcpy3D_v2_ptds", 2, 0, 2, 100, 0x300000 + 8 * 64 + 4, 0x400000),
        ("cuMemcpy2D_v2", 1, 0, 5, 0, 0, 0),
    ]
    if not stepped:
        sites = seen["sites"]
        expected = [row for row in expected if row[0] in sites]
    assert found == expected, [row for row in zip(found, expected) if row[0] != row[1]]
    narrow = [call for call in seen["calls"] if call["function"] == "cuMemcpyHtoD"]
    assert [(call["destination"], call["bytes"]) for call in narrow] == [(0xb000, 100)], narrow
    nested = [call for call in seen["calls"] if call["nested"]]
    assert [(call["function"], call["by"]) for call in nested] == [(PLAIN, "library")], nested
    outer = next(call for call in seen["calls"] if call["function"] == "cuMemcpyHtoD_v2")
    assert outer["off"]["other"] >= nested[0]["off"]["other"] > 1500000 and outer["ns"] > nested[0]["ns"]


def arguments_are_read_by_the_catalogue():
    check_arguments(watch("--records", "--stepped", program=[PROGRAM, "arguments"]))


def stacks_begin_with_the_return_address():
    seen = watch("--records", "--frames", "8", program=[PROGRAM, "stack"])
    inner, outer = (int(text, 16) for text in seen["out"].split())
    (call,) = seen["calls"]
    assert 0 < call["frames"][0] - inner < 64 and 0 < call["frames"][1] - outer < 64, (call, inner, outer)
    assert len(call["frames"]) >= 4 and call["path"] == PROGRAM, call
    seen = watch("--records", program=[PROGRAM, "stack"])
    assert len(seen["calls"][0]["frames"]) == 1


TESTS = [
    five_ways_to_wait_are_told_apart,
    yields_show_where_somebody_else_wants_the_processor,
    lost_processor_is_told_as_preemption,
    arguments_are_read_by_the_catalogue,
    stacks_begin_with_the_return_address,
]
