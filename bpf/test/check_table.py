#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of what can be watched, against the catalogue and the prototypes that it is made from.

    check_table.py GENERATORS CATALOGUE INCLUDE CPP
"""
import re
import sys

sys.path.insert(0, sys.argv[1])
import bpf_table  # noqa: E402
import catalogue as catalogue_module  # noqa: E402
import prototypes as prototypes_module  # noqa: E402


def main():
    prototypes = prototypes_module.parse(sys.argv[3], sys.argv[4])
    catalogue = catalogue_module.load(sys.argv[2])
    exports = catalogue.exports(prototypes)
    names = catalogue.names(prototypes)
    by_name = {export.name: export for export in exports}
    chosen = {export.name for export in exports if bpf_table.can_synchronize(catalogue, export)}
    text = bpf_table.source(catalogue, exports, names)

    assert len(re.findall(r'^\t\{ (?:\.name = )?"cu', text, re.MULTILINE)) == len(names) >= 600
    # Whatever waits by its text or by measurement, and is not called all the time, is watched; all forms of it.
    for export in exports:
        rules = [catalogue.rule(slug) for slug in export.row.rules]
        waits = any(rule.wait_class in ("explicit", "implicit") and rule.scope != "host" and not rule.room for rule in rules)
        assert not waits or export.name in chosen or export.row.kind not in bpf_table.DEFAULT_KINDS, export.name
        if export.row.kind in ("launch", "query", "event", "hostfunc", "memop", "capture", "graph"):
            assert export.name not in chosen, export.name
    for base in ("cuMemcpyHtoD", "cuStreamSynchronize", "cuCtxSynchronize", "cuMemFree"):
        forms = {name for name in by_name if prototypes_module.base_name(name) == base}
        assert len(forms) > 1 and forms <= chosen, forms - chosen
    assert all(export.name in chosen for export in exports if export.row.kind == "wait")

    def places(name):
        export = by_name[name]
        row = export.row
        return tuple(bpf_table.operand(expression, export.prototype) for expression in (row.stream_argument, row.source, row.destination, row.bytes))

    nothing = bpf_table.NOTHING
    assert places("cuStreamSynchronize") == ("{ 1, 8, 0, 0, 1 }", nothing, nothing, nothing)
    assert places("cuMemcpyHtoDAsync_v2") == ("{ 4, 8, 0, 0, 1 }", "{ 2, 8, 0, 0, 1 }", "{ 1, 8, 0, 0, 1 }", "{ 3, 8, 0, 0, 1 }")
    assert places("cuMemcpyHtoD") == (nothing, "{ 2, 8, 0, 0, 1 }", "{ 1, 4, 0, 0, 1 }", "{ 3, 4, 0, 0, 1 }")
    assert places("cuMemsetD2D32_v2")[3] == "{ 4, 8, 5, 8, 4 }"
    assert places("cuMemcpyBatchAsync_v2" if "cuMemcpyBatchAsync_v2" in by_name else "cuMemcpyBatchAsync")[0].startswith("{ ")
    assert places("cuMemcpyPeerAsync")[0] == "{ 6, 8, 0, 0, 1 }"
    # Every plain stream argument of the catalogue is found, wherever it stands.
    for export in exports:
        if export.row.stream_argument in export.prototype.names():
            position = export.prototype.names().index(export.row.stream_argument) + 1
            assert places(export.name)[0] == f"{{ {position}, 8, 0, 0, 1 }}", export.name
    directions = {name: bpf_table.direction(by_name[name].row) for name in by_name}
    assert directions["cuMemcpyHtoD_v2"] == directions["cuMemcpyHtoAAsync_v2"] == "WATCH_H2D"
    assert directions["cuMemcpyDtoH_v2"] == directions["cuMemcpyAtoH_v2"] == "WATCH_D2H"
    assert directions["cuMemcpyPeer"] == directions["cuMemcpyAtoD_v2"] == "WATCH_D2D"
    assert directions["cuMemcpy"] == directions["cuMemcpy3DPeer"] == "WATCH_UNKNOWN" and directions["cuMemAlloc_v2"] == "WATCH_DIRECTION_NONE"
    classes = {name: bpf_table.stream_class(by_name[name]) for name in by_name}
    assert classes["cuMemcpyHtoD_v2"] == classes["cuStreamSynchronize"] == "WATCH_STREAM_LEGACY"
    assert classes["cuMemcpyHtoD_v2_ptds"] == classes["cuStreamSynchronize_ptsz"] == "WATCH_STREAM_PER_THREAD"
    assert classes["cuCtxSynchronize"] == classes["cuMemFree_v2"] == "WATCH_STREAM_NONE"
    assert bpf_table.structure(by_name["cuMemcpy2DAsync_v2"]) == ("WATCH_STRUCTURE_2D", 1)
    assert bpf_table.structure(by_name["cuMemcpy2D"]) == ("WATCH_STRUCTURE_NONE", 0)  # 32-bit fields
    assert bpf_table.structure(by_name["cuMemcpy3DPeer"]) == ("WATCH_STRUCTURE_3D", 1)
    print(f"{len(names)} functions, {len(chosen)} watched by default")


if __name__ == "__main__":
    main()
