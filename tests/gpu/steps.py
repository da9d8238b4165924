# SPDX-License-Identifier: MIT
"""Marks of a program that goes in steps, for who looks at it from outside while it runs (witness_steps.py, pytorch_train.py; read by witness_turns.py).

With a third argument MARKS the file of that name is there, empty, once the steps begin; at the end it has a line "BEGIN END" in CLOCK_MONOTONIC ns for each.
The steps end early once there is a file MARKS.stop.
"""
import os
import time


class Marks:
    def __init__(self, arguments):
        self.path = arguments[3] if len(arguments) > 3 else None
        self.ends = []
        if self.path:
            with open(self.path, "w", encoding="ascii"):
                pass

    def step_ends(self):
        """True: it was the last one. Outside the time of the step."""
        self.ends.append(time.monotonic_ns())
        return self.path is not None and os.path.exists(self.path + ".stop")

    def write(self, times):
        if self.path:
            with open(self.path, "w", encoding="ascii") as file:
                file.writelines(f"{end - took} {end}\n" for end, took in zip(self.ends, times))
