# SPDX-License-Identifier: MIT
"""Runs frames.py on every interpreter of one version that this machine has.

    run.py VERSION PROBE EMBED

and, where an interpreter has a libpython, in the program EMBED that opens it.
Looks on PATH, in /usr/bin, /usr/local/bin, ~/.pyenv, and in the list of commands in TEST_PYTHONS (one a line; a
command may have arguments). Exit status 77 (skipped) where there is none.
"""
import glob
import os
import shlex
import shutil
import subprocess
import sys

ASK = ('import sys, platform, sysconfig; print(platform.python_implementation(), "%d.%d" % sys.version_info[:2], '
       'sysconfig.get_config_var("Py_GIL_DISABLED") or 0, sys.version.split()[0], '
       'str(sysconfig.get_config_var("LIBDIR")) + "/" + str(sysconfig.get_config_var("INSTSONAME")), sys.prefix)')


def candidates(version):
    for name in 'python' + version, 'python' + version + 'd', 'python' + version + '-dbg', 'python3', 'python':
        for folder in '/usr/bin', '/usr/local/bin':
            yield [os.path.join(folder, name)]
        found = shutil.which(name)
        if found:
            yield [found]
    for root in os.path.expanduser('~/.pyenv'), os.environ.get('PYENV_ROOT', ''):
        for path in sorted(glob.glob(root + '/versions/' + version + '.*/bin/python')) if root else []:
            yield [path]
    for line in os.environ.get('TEST_PYTHONS', '').splitlines():
        if line.strip():
            yield shlex.split(line)


def ask(command):
    """(implementation, version, free-threaded, full version) or None"""
    try:
        answer = subprocess.run(command + ['-c', ASK], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    words = answer.stdout.split()
    return words if answer.returncode == 0 and len(words) == 6 else None


def main():
    version, probe, embed = sys.argv[1:]
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'frames.py')
    seen = set()
    for command in candidates(version):
        key = (os.path.realpath(command[0]), *command[1:])
        if not os.path.exists(command[0]) or key in seen:
            continue
        seen.add(key)
        words = ask(command)
        if not words or words[0] != 'CPython' or words[1] != version:
            continue
        refused = [] if (3, 10) <= tuple(map(int, version.split('.'))) <= (3, 14) and words[2] == '0' else ['refused']
        print(words[3], shlex.join(command), *refused, flush=True)
        if subprocess.run(command + [script, probe, *refused], timeout=200).returncode:
            sys.exit('failed on ' + shlex.join(command))
        library = words[4]
        if library.endswith(('.so', '.so.1.0')) and os.path.exists(library) and not refused:
            print(words[3], 'embedded:', library, flush=True)
            for unload in [], ['unload']:
                if subprocess.run([embed, library, probe, *unload], timeout=200,
                                  env={**os.environ, 'PYTHONHOME': words[5]}).returncode:
                    sys.exit('failed embedded: ' + library)
        seen.add(version)
    if version not in seen:
        print('no CPython', version, 'here')
        sys.exit(77)


main()
