# SPDX-License-Identifier: MIT
"""What the `mutate` scripts share: a rule's text is changed in one source file, and a target is built with that file. Nothing in the build folder changes."""
import os
import re
import shlex
import subprocess
import tempfile

SHIM = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shim"))
LIBRARY = "shim/libslipstream.so"
UNIT = "unit:"


class NotOnce(Exception):
    """What is to be changed does not stand there once."""


def changes(old, new):
    """The pairs of a rule: what stands there, and what instead."""
    return [(old, new)] if isinstance(old, str) else list(zip(old, new, strict=True))


def changed(text, old, new):
    """The text with the rule off. The changes are made one after the other."""
    places = []
    for before, after in changes(old, new):
        places.append(text.count(before))
        text = text.replace(before, after)
    if places != [1] * len(places):
        raise NotOnce(f"{places} places")
    return text


def mutant(file, old, new):
    with open(os.path.join(SHIM, file), encoding="utf-8") as stream:
        return changed(stream.read(), old, new)


def build(folder, build_folder, file, text, target=LIBRARY):
    """The target with one file changed, in `folder`; its path. The rest must be built."""
    listed = subprocess.run(["ninja", "-C", build_folder, "-t", "commands", target], capture_output=True, text=True, check=True).stdout.splitlines()
    source = os.path.join(folder, os.path.basename(file))
    with open(source, "w", encoding="utf-8") as stream:
        stream.write(text)
    compiled = os.path.join(folder, "mutant.o")
    made = os.path.join(folder, os.path.basename(target))
    own = next(line for line in listed if line.endswith(f"shim/{file}") and f" -o {target}.p/" in line)
    old = re.search(r" -o (\S+) ", own).group(1)
    command = re.sub(r" -M[DQF]( \S+\.[od]\b| )?", " ", own).replace(f" -o {old} ", f" -o {compiled} ")
    command = re.sub(r" -MQ \S+| -MF \S+", "", command)
    words = shlex.split(command)
    words[-1] = source
    words += ["-w", "-I" + os.path.join(SHIM, os.path.dirname(file))]
    subprocess.run(words, cwd=build_folder, check=True)
    link = [compiled if word == old else made if word == target else word for word in shlex.split(listed[-1])]
    subprocess.run(link, cwd=build_folder, check=True)
    return made


def unit_notices(build_folder, part, file, text):
    """Does the unit test that `part` names fail with the file changed ("unit:", and its path in tests/unit)? And what it says."""
    target = os.path.join("tests/unit", part[len(UNIT):])
    subprocess.run(["ninja", "-C", build_folder, target], stdout=subprocess.DEVNULL, check=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run([build(folder, build_folder, file, text, target)], capture_output=True, text=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            return True, "hangs"
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode != 0, " | ".join([line for line in lines if "FAILED" in line or "error" in line][:2])
