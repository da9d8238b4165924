#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the exported face of the simulated driver.

Owns: the text of exports.c and of the linker version script. Called by tests/simcuda/meson.build. Relies on the CUDA
headers (prototypes from cuda.h, versions from cudaTypedefs.h) and on shim/catalogue/exports.txt (names of the interface).
For every name one function is written that does the common start and end of a call (core.c) and calls
impl_NAME if some file of the simulator defines it.
"""
import re
import subprocess
import sys

WITHOUT_INIT = {
    'cuInit', 'cuDriverGetVersion', 'cuGetErrorName', 'cuGetErrorString', 'cuGetProcAddress', 'cuGetProcAddress_v2',
    'cuGetExportTable', 'cuThreadExchangeStreamCaptureMode',
}
# Allowed inside a host function; all others return NOT_PERMITTED there.
IN_CALLBACK = {'cuGetErrorName', 'cuGetErrorString', 'cuDriverGetVersion', 'cuGetProcAddress', 'cuGetProcAddress_v2'}


def fail(text):
    sys.exit('exports.py: ' + text)


def preprocess(compiler, include):
    source = '#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaProfiler.h>\n'
    out = subprocess.run([*compiler.split(), '-E', '-P', '-I', include, '-x', 'c', '-'], input=source, text=True,
                         capture_output=True, check=False)
    if out.returncode:
        fail('preprocessing cuda.h failed:\n' + out.stderr)
    return re.sub(r'__attribute__\(\([^()]*(\([^()]*\))?[^()]*\)\)', '', out.stdout)


def split(parameters):
    parameters = ' '.join(parameters.split())
    if parameters in ('', 'void'):
        return []
    found = []
    for text in parameters.split(','):
        match = re.fullmatch(r'(.*?)(\w+)\s*((?:\[[^\]]*\])?)', text.strip())
        if not match:
            fail('cannot read the parameter "%s"' % text)
        kind = match[1].strip() + ('*' if match[3] else '')
        found.append((kind, match[2], text.strip()))
    return found


def note(kind, name):
    """The journal note of one argument, by its type."""
    plain = kind.replace('const ', '').strip()
    for handle, letter in (('CUstream', 's'), ('CUevent', 'e'), ('CUcontext', 'c'), ('CUgraph', 'g'),
                           ('CUgraphExec', 'x'), ('CUgraphNode', 'n'), ('CUfunction', 'f'), ('CUmodule', 'm'),
                           ('CUmemoryPool', 'p'), ('CUarray', 'a')):
        if plain == handle:
            return 'sim_note_handle(&call, "%s", \'%s\', %s);' % (name, letter, name)
    if plain in ('CUdeviceptr', 'CUdeviceptr_v2'):
        return 'sim_note_pointer(&call, "%s", %s);' % (name, name)
    if re.search(r'\*', plain) or plain in ('CUhostFn', 'CUstreamCallback'):
        if plain in ('void *', 'void*') and name in ('srcHost', 'dstHost', 'p', 'ptr'):
            return 'sim_note_pointer(&call, "%s", (uintptr_t)%s);' % (name, name)
        return None
    if re.fullmatch(r'(unsigned )?(int|char|short|long|long long)|unsigned|size_t|cuuint\d+_t|CUdevice(_v1)?', plain):
        return 'sim_note_number(&call, "%s", (long long)%s);' % (name, name)
    return None


def main():
    names_file, compiler, include, out_c, out_h, out_map = sys.argv[1:]
    names = [line.strip() for line in open(names_file) if line.strip()]
    text = preprocess(compiler, include)
    prototypes = {}
    for match in re.finditer(r'\bCUresult\s+(cu\w+)\s*\(([^;{}]*)\)\s*;', text):
        prototypes[match[1]] = split(match[2])

    typedefs = ''
    for header in ('cudaTypedefs.h', 'cudaProfilerTypedefs.h'):
        typedefs += open('%s/%s' % (include, header)).read()
    versions = {}
    for match in re.finditer(r'\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)', typedefs):
        versions.setdefault((match[1], bool(match[3])), set()).add(int(match[2]))

    forms = {}
    for name in names:
        match = re.fullmatch(r'(cu\w+?)(?:_v(\d+))?(_ptsz|_ptds)?', name)
        forms.setdefault((match[1], bool(match[3])), []).append((int(match[2] or 1), name))

    lines = ['// SPDX-License-Identifier: MIT', '// Written by gen/exports.py; do not edit.', '',
             '#define __CUDA_API_VERSION_INTERNAL', '#include "sim.h"', '']
    index = {}
    exports = []
    implementations = ['// SPDX-License-Identifier: MIT', '// Written by gen/exports.py; do not edit.']
    for number, name in enumerate(names):
        index[name] = number
        per_thread = name.endswith(('_ptsz', '_ptds'))
        base = re.sub(r'_(ptsz|ptds)$', '', name)
        flags = []
        if per_thread:
            flags.append('SIM_PER_THREAD')
        if name in WITHOUT_INIT:
            flags.append('SIM_WITHOUT_INIT')
        if name in IN_CALLBACK:
            flags.append('SIM_IN_CALLBACK')
        exports.append('\t{.name = "%s", .address = (void *)%s, .flags = %s},' % (name, name, ' | '.join(flags) or '0'))
        parameters = prototypes.get(name)
        known = parameters is not None
        declared = ', '.join(p[2] for p in parameters) if parameters else 'void'
        passed = ', '.join(p[1] for p in parameters) if parameters else ''
        if not known:
            lines.append('CUresult %s(void);' % name)
        elif not per_thread:
            implementations.append('SIM_IMPLEMENTATION CUresult impl_%s(%s);' % (base, declared))
            lines.append('#pragma weak impl_%s' % base)
        lines.append('__attribute__((visibility("default"))) CUresult %s(%s)' % (name, declared))
        lines.append('{')
        lines.append('\tstruct sim_call call;')
        lines.append('\tCUresult status_;')
        lines.append('')
        lines.append('\tif (sim_enter(&call, &sim_exports[%d], &status_)) {' % number)
        lines.append('\t\tif (call.noting) {')
        for kind, parameter, _ in parameters or []:
            line = note(kind, parameter)
            if line:
                lines.append('\t\t\t' + line)
        lines.append('\t\t}')
        if known:
            lines.append('\t\tstatus_ = impl_%s ? impl_%s(%s) : CUDA_ERROR_NOT_SUPPORTED;' % (base, base, passed))
        else:
            lines.append('\t\tstatus_ = CUDA_ERROR_NOT_SUPPORTED;')
        lines.append('\t}')
        lines.append('\treturn sim_leave(&call, status_);')
        lines.append('}')
        lines.append('')

    lookups = []
    for (base, per_thread), found in sorted(versions.items()):
        have = sorted(forms.get((base, per_thread), []))
        asked = sorted(found)
        if len(have) != len(asked):
            fail('%s%s: %d versions in cudaTypedefs.h but %d exported forms' %
                 (base, ' per-thread' if per_thread else '', len(asked), len(have)))
        for version, (_, name) in zip(asked, have):
            lookups.append('\t{"%s", %d, %d, %d},' % (base, version, per_thread, index[name]))
    # Names with no typedef (graphics, debugger) are found at any version.
    for (base, per_thread), have in sorted(forms.items()):
        if (base, False) not in versions and (base, True) not in versions:
            lookups.append('\t{"%s", %d, %d, %d},' % (base, 0, per_thread, index[max(have)[1]]))
    lines.append('struct sim_export sim_exports[] = {')
    lines += exports
    lines.append('};')
    lines.append('const unsigned sim_export_count = sizeof(sim_exports) / sizeof(sim_exports[0]);')
    lines.append('')
    lines.append('const struct sim_lookup sim_lookups[] = {')
    lines += lookups
    lines.append('};')
    lines.append('const unsigned sim_lookup_count = sizeof(sim_lookups) / sizeof(sim_lookups[0]);')
    open(out_h, 'w').write('\n'.join(implementations) + '\n')
    open(out_c, 'w').write('\n'.join(lines) + '\n')
    open(out_map, 'w').write('{\nglobal:\n' + ''.join('\t%s;\n' % n for n in [*names, 'simcuda_reseed']) + 'local:\n\t*;\n};\n')


main()
