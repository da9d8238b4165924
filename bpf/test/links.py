# SPDX-License-Identifier: MIT
"""Common probes that a watcher holds."""
import os
import re


def links_of(pid):
    """Common probes that a process holds: the links among its descriptors."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii", errors="replace") as file:
            count += re.search(r"^link_type:\s+u(ret)?probe_multi$", file.read(), re.M) is not None
    return count


def has_sessions():
    """Linux 6.13: before it, a library needs two links."""
    with open("/proc/sys/kernel/osrelease", encoding="ascii") as file:
        return tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", file.read()).groups()) >= (6, 13)
