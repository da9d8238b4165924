#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The functions that the BPF witness can watch, as C tables (bpf/watch_table.h has the types).

Owns: which functions are watched by default, and where their arguments lie. Called by: Meson, the tests as a module. Relies on:
catalogue.py, prototypes.py. The order is that of enum function_number, so that an index is a row's number too.

By default: what can make the host wait. Launches, queries, event records and what only submits are never among them: they are called
too often, and their waits (a full queue) show in the calls that follow.
"""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalogue as catalogue_module  # noqa: E402
import prototypes as prototypes_module  # noqa: E402

DEFAULT_KINDS = frozenset("alloc context copy external free graphics ipc limit memset misc module pool register texture vmm wait".split())
# A rule that only says "this is slow by itself" puts a function into the default set where that was seen, not where it was inferred.
KNOWN = ("measured", "documented")
DIRECTIONS = {"HtoD": "WATCH_H2D", "HtoA": "WATCH_H2D", "DtoH": "WATCH_D2H", "AtoH": "WATCH_D2H", "DtoD": "WATCH_D2D",
              "DtoA": "WATCH_D2D", "AtoD": "WATCH_D2D", "AtoA": "WATCH_D2D", "Peer": "WATCH_D2D"}
STRUCTURES = {"CUDA_MEMCPY2D": "WATCH_STRUCTURE_2D", "CUDA_MEMCPY3D": "WATCH_STRUCTURE_3D", "CUDA_MEMCPY3D_PEER": "WATCH_STRUCTURE_3D"}
NARROW = re.compile(r"(?:const )?(?:unsigned int|int|unsigned|CUdeviceptr_v1|cuuint32_t|CU[a-z]\w*_enum)$")
PRODUCT = re.compile(r"(?:\(uint64_t\))?(\w+)(?: \* ([A-Za-z_]\w*))?(?: \* ([1-4]))?$")
NOTHING = "{ 0 }"


def can_synchronize(catalogue, export):
    """Is it watched by default?"""
    row = export.row
    if row.kind not in DEFAULT_KINDS:
        return False
    for rule in map(catalogue.rule, row.rules):
        if rule.wait_class == "device" or rule.room:
            continue
        if not rule.own_cost or rule.confidence in KNOWN or (row.kind == "module" and "Load" in row.name):
            return True
    return False


def is_frequent(row):
    """Called so often that a dear probe would be felt."""
    return row.asynchronous or row.kind in ("launch", "query", "event", "graph", "memop", "misc")


def width(parameter):
    return 4 if NARROW.match(parameter.type) else 8


def operand(text, prototype):
    """The C initializer of a struct watch_operand for an expression over the parameters; NOTHING for what is not that simple."""
    match = PRODUCT.match(text or "")
    if not match:
        return NOTHING
    names = prototype.names()
    fields = []
    for name in match.group(1, 2):
        if name is None:
            fields += [0, 0]
            continue
        if name not in names:
            return NOTHING
        fields += [names.index(name) + 1, width(prototype.parameter(name))]
    return "{ " + ", ".join(str(field) for field in fields + [int(match.group(3) or 1)]) + " }"


def structure(export):
    """(enum watch_structure, position) of the parameter in which a copy is described."""
    for position, parameter in enumerate(export.prototype.parameters, 1):
        name = re.sub(r"^const |\s*\*$", "", parameter.type)
        if parameter.type.endswith("*") and name.removesuffix("_v2") in STRUCTURES:
            return STRUCTURES[name.removesuffix("_v2")], position
    return "WATCH_STRUCTURE_NONE", 0


def direction(row):
    if row.kind != "copy":
        return "WATCH_DIRECTION_NONE"
    for part, name in DIRECTIONS.items():
        if part in row.name and not row.name.startswith("cuMemcpy3DPeer"):
            return name
    return "WATCH_UNKNOWN"


def stream_class(export):
    """What handle 0, or no handle, means."""
    if export.row.stream in ("none", "context"):
        return "WATCH_STREAM_NONE"
    return "WATCH_STREAM_PER_THREAD" if export.prototype.per_thread else "WATCH_STREAM_LEGACY"


def entry(catalogue, export):
    row, prototype = export.row, export.prototype
    form, position = structure(export)
    stream = operand(row.stream_argument, prototype) if row.stream == "argument" else NOTHING
    flags = [str(bool(flag)).lower() for flag in (can_synchronize(catalogue, export), is_frequent(row))]
    return (f'\t{{ "{export.name}", {flags[0]}, {flags[1]}, CATALOGUE_KIND_{row.kind.upper()}, {direction(row)}, {stream_class(export)}, '
            f"{form}, {position}, {stream}, {operand(row.source, prototype)}, {operand(row.destination, prototype)}, "
            f"{operand(row.bytes, prototype)} }},")


def source(catalogue, exports, names):
    lines = ["/* Written by bpf_table.py. */", '#include "watch.h"', "", "#include <string.h>", "",
             '#include "catalogue/catalogue.h"', "",
             '_Static_assert(WATCH_FUNCTION_COUNT == FUNCTION_COUNT, "one table for both");', "",
             "const struct watch_function watch_functions[WATCH_FUNCTION_COUNT] = {"]
    lines += [entry(catalogue, export) for export in exports]
    lines += [f'\t{{ .name = "{name}", .frequent = true }},' for name in names[len(exports):]]
    lines += ["};", "", "static const unsigned short by_name[WATCH_FUNCTION_COUNT] = {"]
    lines += [f"\t{names.index(name)}," for name in sorted(names)]
    lines += ["};", "", "int watch_function_index(const char *name)", "{", "\tunsigned int low = 0, high = WATCH_FUNCTION_COUNT;", "",
              "\twhile (low < high) {", "\t\tunsigned int middle = (low + high) / 2;",
              "\t\tint order = strcmp(name, watch_functions[by_name[middle]].name);", "", "\t\tif (!order)",
              "\t\t\treturn by_name[middle];", "\t\tif (order < 0)", "\t\t\thigh = middle;", "\t\telse", "\t\t\tlow = middle + 1;",
              "\t}", "\treturn -1;", "}", ""]
    return "\n".join(lines)


def header(names):
    return "\n".join(["/* Written by bpf_table.py. */", "#ifndef SLIPSTREAM_WATCH_TABLE_GENERATED_H",
                      "#define SLIPSTREAM_WATCH_TABLE_GENERATED_H", "", f"#define WATCH_FUNCTION_COUNT {len(names)}", "", "#endif", ""])


def main():
    parser = argparse.ArgumentParser(description="write the BPF witness's table of functions")
    parser.add_argument("--catalogue", required=True, help="folder with functions.yaml, rules.yaml, exports.txt")
    parser.add_argument("--include", required=True, help="folder with cuda.h")
    parser.add_argument("--cpp", default=os.environ.get("CC", "cc"), help="compiler used as preprocessor")
    parser.add_argument("--header", help="write watch_table_generated.h here")
    parser.add_argument("--source", help="write watch_table_generated.c here")
    arguments = parser.parse_args()
    try:
        prototypes = prototypes_module.parse(arguments.include, arguments.cpp)
        catalogue = catalogue_module.load(arguments.catalogue)
        exports = catalogue.exports(prototypes)
        names = catalogue.names(prototypes)
        if arguments.header:
            catalogue_module.write(arguments.header, header(names))
        if arguments.source:
            catalogue_module.write(arguments.source, source(catalogue, exports, names))
        if not arguments.header and not arguments.source:
            print("\n".join(export.name for export in exports if can_synchronize(catalogue, export)))
    except (catalogue_module.CatalogueError, prototypes_module.HeaderError) as error:
        sys.exit(f"bpf_table: {error}")
    except OSError as error:
        sys.exit(f"bpf_table: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
