# SPDX-License-Identifier: MIT
"""From which size on copies are staged: by a calibration table of this device, by SLIPSTREAM_STAGE_FROM, else by the default."""

import json
import os
import subprocess
import tempfile
import unittest

TOOL = os.environ["TESTED_TOOL"]
SIMCUDA = os.environ["SIMCUDA_FOLDER"]
PROGRAM = os.environ["PROGRAM"]

MIB = 1 << 20
LARGE = 8 * MIB  # what the program copies first; whether that is staged is not looked at
NONE, ONLY_1M, BOTH = 0, 5 * MIB, 5 * MIB + 5 * MIB // 4

DEVICE = ("driver 13000", "gpu Simulated CUDA device")
SIZES = ("stage to-device sync idle 262144", "stage from-device sync idle 1048576")
MEASURED = "the calibration's"
ELSEWHERE = "not the calibration's: it was measured on another GPU or driver"
CHOSEN = "not the calibration's: SLIPSTREAM_STAGE_FROM is set"


def table(*lines):
    text = "".join(line + "\n" for line in ("slipstream-calibration 1", *lines)).encode()
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return text + b"checksum %016x\n" % value


class Sizes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {k: v for k, v in os.environ.items()
                            if k == "SLIPSTREAM_LIBRARY" or not k.startswith(("SLIPSTREAM_", "SIMCUDA_", "CUDA_", "LD_"))}

    def run_program(self, lines, mode="fix", **variables):
        """Bytes staged to and from the device, what the report says of the table, and what the program's stderr got."""
        paths = {name: os.path.join(self.folder, name) for name in ("table", "json", "text")}
        if lines is not None:
            with open(paths["table"], "wb") as file:
                file.write(table(*lines))
            variables["SLIPSTREAM_CALIBRATION"] = paths["table"]
        done = subprocess.run([TOOL, "run", "--driver", SIMCUDA, "--mode", mode, "--fix", "staging", "--json", paths["json"],
                               "--output", paths["text"], "--", PROGRAM],
                              timeout=60, capture_output=True, text=True, env={**self.environment, **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(paths["json"]) as file:
            report = json.load(file)
        with open(paths["text"]) as file:
            self.text = file.read()
        staging = [rewrite for rewrite in report.get("rewrites", []) if rewrite["name"] == "staging"]
        staged = [sum(rewrite[name] for rewrite in staging) % LARGE for name in ("to_device_bytes", "from_device_bytes")]
        told = [note["text"] for note in report["coverage"]["notes"] if note["code"] == "sizes"]
        self.assertEqual([note["count"] for note in report["coverage"]["notes"] if note["code"] == "sizes"], [1] * len(told))
        self.assertEqual(self.text.count("sizes from which on copies are staged: "), len(told))
        return staged, told, done.stderr

    def test_measured_sizes(self):
        self.assertEqual(self.run_program((*DEVICE, *SIZES)), ([BOTH, ONLY_1M], [MEASURED], ""))
        self.assertIn("  sizes from which on copies are staged: the calibration's (1x)\n", self.text)

    def test_never(self):
        lines = ("stage to-device sync idle never", "stage from-device sync idle 1")
        self.assertEqual(self.run_program((*DEVICE, *lines)), ([NONE, BOTH], [MEASURED], ""))

    def test_what_the_table_does_not_say_is_the_default(self):
        lines = ("stage from-device sync idle 1", "stage to-device async idle 1", "stage to-device sync busy 1")
        self.assertEqual(self.run_program((*DEVICE, *lines)), ([NONE, BOTH], [MEASURED], ""))

    def test_without_a_table(self):
        self.assertEqual(self.run_program(None), ([NONE, NONE], [], ""))

    def test_table_of_before(self):
        self.assertEqual(self.run_program((*DEVICE, "idle cuMemFree_v2 device none 12 47000")), ([NONE, NONE], [], ""))

    def test_the_users_size_wins(self):
        lines = (*DEVICE, *SIZES)
        self.assertEqual(self.run_program(lines, SLIPSTREAM_STAGE_FROM="1M"), ([ONLY_1M, ONLY_1M], [CHOSEN], ""))
        self.assertEqual(self.run_program(lines, SLIPSTREAM_STAGE_FROM="4M"), ([NONE, NONE], [CHOSEN], ""))  # the default, but said

    def test_another_device(self):
        for device in (("driver 12080", DEVICE[1]), (DEVICE[0], "gpu Simulated CUDA device 2"), (DEVICE[0],), (DEVICE[1],), ()):
            self.assertEqual(self.run_program((*device, *SIZES)), ([NONE, NONE], [ELSEWHERE], ""))

    def test_bad_sizes_are_one_line(self):
        for bad, why in (("stage to-device async idle 0", "size is neither 'never' nor a number from 1 to 1099511627776"),
                         ("stage to-device async idle 256K", "size is neither 'never' nor a number from 1 to 1099511627776"),
                         ("stage to-device async often 1", "expected: stage DIRECTION FORM STATE FROM, of a copy that is known"),
                         (SIZES[1], "the same copy for the second time")):
            staged, told, stderr = self.run_program((*DEVICE, *SIZES, bad))
            self.assertEqual((staged, told), ([NONE, NONE], []))
            self.assertEqual(stderr, f"slipstream: calibration table '{self.folder}/table' is ignored: line 6: {why}\n")

    def test_other_modes(self):
        self.assertEqual(self.run_program((*DEVICE, *SIZES), mode="observe"), ([NONE, NONE], [], ""))


if __name__ == "__main__":
    unittest.main(verbosity=1)
