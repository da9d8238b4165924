#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""samples.py's judgement, on the simulated driver: a program with the same output passes in every setting and its rewrites are told, whatever its times; one that
shows the shim fails, and so does one without a record; one that is never the same, or was not built, is skipped.

    check_samples.py BUILD
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from samples import first_difference, masked, read_list  # noqa: E402

LIST = {
    "mask": ["^(first|frame) "],
    "programs": [
        {"name": "right", "arguments": ["download", "naive", "--frames=8", "--first=8", "--kib=5120", "--kernel-us=50", "--cpu-us=50"]},
        {"name": "shows"}, {"name": "unseen"}, {"name": "flaky"}, {"name": "missing"}, {"name": "fails", "status": 3, "drop": ["^pid "]},
    ],
}
TWINS = '"$(dirname "$0")/right" churn naive --frames=2 --first=1 --kernel-us=10 | grep digest'
SCRIPTS = {
    "shows": TWINS + '\n[ -z "$SLIPSTREAM_OUT" ] || echo the shim is here',
    "unseen": "echo no driver here",
    "flaky": "date +%N",
    "fails": TWINS + "\necho pid $$\nexit 3",
}


def check_masks():
    program = {"mask": ["^rate"], "drop": ["^pid"]}
    text = b"rate:  12.5 GB\npid 77\nsum 12.5\ntime 1e-3\n"
    assert masked(text, program, ["time"]) == ["rate: # GB", "sum 12.5", "time #"], masked(text, program, ["time"])
    assert masked(b"b\na\n", {"sort": True}, []) == ["a", "b"]
    assert first_difference(["a"], ["a"]) == ""
    assert "line 1" in first_difference(["a"], ["b"]) and "missing" in first_difference(["a"], []) and "more" in first_difference([], ["a"])
    listed = read_list(os.path.join(HERE, "samples.yaml"))
    # What a program computes is compared, what it took is not.
    assert masked(b"GPU result = 2139353471\n", {}, listed["mask"]) == ["GPU result = 2139353471"]
    assert masked(b"Throughput = 26.2581 GB/s, Time = 0.00256 s, Size = 16777216 Elements\n", {}, listed["mask"])[0].count("#") == 3
    assert len(listed["programs"]) >= 15 and len({one["name"] for one in listed["programs"]}) == len(listed["programs"])


def main():
    build = os.path.abspath(sys.argv[1])
    check_masks()
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "list.json"), os.path.join(folder, "out")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(LIST, file)
        os.symlink(os.path.join(build, "tests/bench/twins"), os.path.join(folder, "right"))
        for name, text in SCRIPTS.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n" + text + "\n")
            os.chmod(os.path.join(folder, name), 0o755)
        command = [sys.executable, os.path.join(HERE, "samples.py"), "--build", build, "--bin", folder, "--out", out, "--list", path, "--rounds", "1",
                   "--driver", os.path.join(build, "tests/simcuda")]
        done = subprocess.run([*command, "--least", "2"], capture_output=True, text=True, timeout=110, check=False)
        said = dict(line.split(":")[0].split(maxsplit=1)[::-1] for line in done.stdout.splitlines() if line.split()[0] in ("ok", "FAIL", "skip"))
        assert said == {"right": "ok", "shows": "FAIL", "unseen": "FAIL", "flaky": "skip", "missing": "skip", "fails": "ok"}, done.stdout + done.stderr
        assert done.returncode == 1, done.returncode
        with open(os.path.join(out, "samples.json"), encoding="utf-8") as file:
            rows = {row["program"]: row for row in json.load(file)["rows"]}
        assert rows["right"]["rewrites"]["fix"]["staging"]["from_device"] > 0, rows["right"]["rewrites"]
        assert any("the shim is here" in fault for fault in rows["shows"]["faults"]), rows["shows"]["faults"]
        with open(os.path.join(out, "samples.md"), encoding="utf-8") as file:
            assert "| right download" in file.read()
        # Right programs alone: the number of them decides.
        for least, status in ((2, 0), (3, 1)):
            done = subprocess.run([*command, "--only", "right,fails", "--least", str(least)], capture_output=True, text=True, timeout=110, check=False)
            assert done.returncode == status, (least, done.stdout, done.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
