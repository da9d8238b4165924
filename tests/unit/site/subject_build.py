# SPDX-License-Identifier: MIT
"""Builds the symbolizer's subject with a compiler that is not the project's.

    subject_build.py OUTPUT COMPILER FLAGS INCLUDE SOURCE...

Objects, and what a compiler leaves beside them (split debug information), go into OUTPUT.d.
"""
import os
import subprocess
import sys

output, compiler, flags, include, *sources = sys.argv[1:]
folder = os.path.abspath(output + '.d')
os.makedirs(folder, exist_ok=True)
objects = []
for source in sources:
    objects.append(os.path.join(folder, os.path.basename(source) + '.o'))
    subprocess.run([compiler, *flags.split(), '-D_GNU_SOURCE', '-fno-optimize-sibling-calls', '-fPIE', '-I' + include,
                    '-I' + os.path.dirname(sources[0]), '-c', os.path.abspath(source), '-o', objects[-1]],
                   check=True, cwd=folder)
subprocess.run([compiler, *flags.split(), '-pie', '-rdynamic', '-Wl,--build-id', *objects, '-o', output], check=True)
