# SPDX-License-Identifier: MIT
"""The catalogue's data: complete, consistent with cuda.h, and written the same way each time."""
import os
import re
import tempfile
import unittest

import support
import catalogue as catalogue_module
import catalogue_doc
import prototypes as prototypes_module

# Take a CUstream but put nothing on it and wait for nothing: counted or remembered only.
STREAM_UNUSED = {
    "cuStreamGetPriority", "cuStreamGetDevice", "cuStreamGetFlags", "cuStreamGetId", "cuStreamGetCtx", "cuStreamGetAttribute",
    "cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuStreamUpdateCaptureDependencies",
    "cuStreamDestroy", "cuStreamGetGreenCtx",
}
# Put nothing on the stream that they take: they wait, ask, record or capture.
STREAM_SUBMITS_NOTHING = {
    "cuStreamQuery", "cuStreamSynchronize", "cuEventRecord", "cuEventRecordWithFlags", "cuStreamBeginCapture", "cuStreamBeginCaptureToGraph",
    "cuStreamEndCapture", "cuStreamSetAttribute", "cuStreamCopyAttributes",
}


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prototypes = prototypes_module.parse(support.INCLUDE)
        cls.catalogue = catalogue_module.load(support.DATA)
        cls.exports = cls.catalogue.exports(cls.prototypes)
        cls.names = cls.catalogue.names(cls.prototypes)
        cls.by_name = {export.name: export for export in cls.exports}

    def test_every_function_has_a_row(self):
        if self.prototypes.cuda_version <= catalogue_module.CUDA_VERSION:
            self.assertEqual(self.catalogue.unknown, {})
        for name, prototype in self.prototypes.items():
            self.assertIn(prototype.base, self.catalogue.functions)
            self.assertIs(self.by_name[name].prototype, prototype)
        self.assertEqual(len(self.exports), len(self.prototypes))
        if self.prototypes.cuda_version == 13000:
            self.assertEqual(len({prototype.base for prototype in self.prototypes.values() if not prototype.base.startswith("cuProfiler")}), 447)
            self.assertEqual(set(self.catalogue.functions), {prototype.base for prototype in self.prototypes.values()})

    def test_numbers(self):
        self.assertEqual([export.number for export in self.exports], list(range(len(self.exports))))
        self.assertEqual([export.name for export in self.exports], self.names[:len(self.exports)])
        self.assertEqual(len(set(self.names)), len(self.names))
        self.assertEqual(len(self.catalogue.exported_names()), 682)
        self.assertLessEqual(set(self.catalogue.exported_names()), set(self.names))

    def test_stream_arguments(self):
        """A function that takes a CUstream says so, unless it is known to do nothing with it."""
        count = 0
        for export in self.exports:
            streams = [parameter.name for parameter in export.prototype.parameters if parameter.type == "CUstream"]
            row = export.row
            if not streams:
                self.assertTrue(row.stream != "argument" or row.stream_argument.startswith("OPERAND_"), export.name)
                continue
            count += 1
            if export.prototype.base in STREAM_UNUSED:
                self.assertEqual(row.stream, "none", export.name)
            else:
                self.assertEqual((row.stream, row.stream_argument), ("argument", streams[0]), export.name)
                self.assertEqual(row.submits == "none", export.prototype.base in STREAM_SUBMITS_NOTHING, export.name)
        self.assertGreater(count, 150)

    def test_streamless_copies_are_on_the_default_stream(self):
        for export in self.exports:
            if export.prototype.version == "" and export.name.endswith("_ptds"):
                self.assertEqual(export.row.stream, "implicit", export.name)
            if re.match(r"cuMem(cpy|set)", export.name):
                self.assertEqual(export.row.stream, "argument" if "Async" in export.name else "implicit", export.name)
                self.assertIn(export.row.submits, ("copy", "memset"), export.name)

    def test_legacy_join(self):
        """Whatever puts work on a stream that can be the legacy one tells that it joins."""
        for export in self.exports:
            if export.row.submits != "none" and export.row.barrier != "stream":
                self.assertIn("legacy-join", export.row.rules, export.name)

    def test_no_invented_waits(self):
        """The measured table says that these do not block the host."""
        host = {rule.slug for rule in self.catalogue.rules if rule.wait_class != "device" and rule.scope != "host" and
                rule.confidence in ("measured", "documented")}
        for name in ("cuStreamDestroy", "cuStreamCreate", "cuEventCreate", "cuEventDestroy", "cuMemAlloc", "cuMemHostAlloc", "cuLaunchKernel",
                     "cuPointerGetAttribute", "cuMemFreeAsync", "cuMemAllocAsync", "cuGraphLaunch", "cuStreamQuery", "cuEventQuery",
                     "cuMemcpyDtoDAsync", "cuMemsetD8Async"):
            self.assertEqual(host & set(self.catalogue.functions[name].rules), set(), name)
        self.assertEqual(host & set(self.catalogue.functions["cuMemcpyDtoD"].rules), {"sync-memops"})

    def test_frees_take_the_range_out_first(self):
        for name in ("cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuMemFreeAsync", "cuMemUnmap"):
            row = self.catalogue.functions[name]
            self.assertEqual([hook.name for hook in row.before], ["freeing"], name)
            self.assertEqual([hook.name for hook in row.result], ["freed"], name)

    def test_versions(self):
        begin = {name: [hook.arguments for hook in self.by_name[name].row.after] for name in
                 ("cuStreamBeginCapture", "cuStreamBeginCapture_ptsz", "cuStreamBeginCapture_v2", "cuStreamBeginCapture_v2_ptsz")}
        self.assertEqual(begin["cuStreamBeginCapture"], [["hStream", "CU_STREAM_CAPTURE_MODE_GLOBAL"]])
        self.assertEqual(begin["cuStreamBeginCapture"], begin["cuStreamBeginCapture_ptsz"])
        self.assertEqual(begin["cuStreamBeginCapture_v2"], [["hStream", "mode"]])
        self.assertEqual(begin["cuStreamBeginCapture_v2"], begin["cuStreamBeginCapture_v2_ptsz"])
        self.assertEqual(self.by_name["cuGraphLaunch"].row.subject, "hGraph")
        self.assertEqual(self.by_name["cuGraphLaunch_ptsz"].row.subject, "hGraphExec")

    def test_host_operands(self):
        for name, expected in {"cuMemcpyHtoD_v2": (True, False), "cuMemcpyDtoH_v2_ptds": (False, True), "cuMemcpyDtoD_v2": (False, False),
                               "cuMemcpy": (True, True), "cuMemcpy2D_v2": (True, True), "cuMemcpyAtoH": (False, True),
                               "cuMemsetD8_v2": (False, False), "cuMemFree_v2": (False, False)}.items():
            export = self.by_name[name]
            self.assertEqual(export.row.host_operands(export.prototype), expected, name)

    def test_levels(self):
        for name in ("cuCtxGetCurrent", "cuCtxGetId", "cuDriverGetVersion", "cuDeviceGetAttribute", "cuGetErrorString", "cuStreamIsCapturing",
                     "cuThreadExchangeStreamCaptureMode"):
            self.assertEqual(self.catalogue.functions[name].level, "count", name)
        for name in ("cuLaunchKernel", "cuMemcpyHtoD", "cuMemFree", "cuCtxSynchronize"):
            self.assertEqual(self.catalogue.functions[name].level, "full", name)
        self.assertEqual(self.catalogue.functions["cuEventQuery"].level, "timed")

    def test_macros_exist(self):
        """Every capital name in a row is declared: in operands.h, in record.h, in rewrite.h or by cuda.h."""
        known = ""
        for path in (os.path.join(support.ROOT, "shim", "entry", "operands.h"), os.path.join(support.ROOT, "shim", "emit", "record.h"),
                     os.path.join(support.ROOT, "shim", "rewrite", "rewrite.h"), os.path.join(support.INCLUDE, "cuda.h")):
            with open(path, encoding="utf-8") as stream:
                known += stream.read()
        known = set(re.findall(r"\w+", known))
        for export in self.exports:
            for key, text in export.row.expressions():
                for name in re.findall(r"\b[A-Z][A-Z0-9_]+\b", text):
                    self.assertIn(name, known, f"{export.name}: {key}")

    def test_freed_memory_is_an_operand(self):
        """Its kind is reported, and is part of the key of the idle cost (tools/calibrate/cells.c has the same)."""
        for name, address in (("cuMemFree", "dptr"), ("cuMemFreeHost", "p"), ("cuMemHostUnregister", "p"), ("cuIpcCloseMemHandle", "dptr")):
            row = self.catalogue.functions[name]
            self.assertEqual(row.source, address, name)
            self.assertIn(row.host, ("none", None), name)
            self.assertEqual([hook.name for hook in row.before + row.result], ["freeing", "freed"], name)

    def test_host_memory(self):
        """What can make memory of the host known to the driver says so; whoever is not known to be harmless does, too."""
        functions = self.catalogue.functions
        for name in ("cuMemHostRegister cuMemHostAlloc cuMemAllocHost cuMemAllocManaged cuMemAllocAsync cuMemAllocFromPoolAsync cuMemPoolCreate "
                     "cuMemPoolImportPointer cuMemPoolImportFromShareableHandle cuDeviceSetMemPool cuMemAddressReserve cuMemMap cuMemSetAccess cuMemCreate "
                     "cuMemImportFromShareableHandle cuIpcOpenMemHandle cuImportExternalMemory cuExternalMemoryGetMappedBuffer cuGraphicsMapResources "
                     "cuArrayCreate cuMipmappedArrayCreate cuModuleLoadData cuLibraryLoadData cuModuleGetGlobal cuLibraryGetManaged cuLibraryGetGlobal "
                     "cuGraphAddMemAllocNode cuGraphLaunch cuGraphInstantiate cuCtxCreate cuCtxSetFlags cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags "
                     "cuStreamAttachMemAsync cuMemPrefetchAsync cuMemAdvise cuMulticastBindAddr cuPointerSetAttribute").split():
            self.assertEqual(functions[name].host_memory, "may-change", name)
        stays = {row.kind for row in functions.values() if row.host_memory == "stays"}
        self.assertEqual(stays, set(catalogue_module.HOST_MEMORY_STAYS) | {"alloc", "context", "misc", "module", "texture"})
        self.assertEqual({name for name, row in functions.items() if row.kind == "alloc" and row.host_memory == "stays"}, {"cuMemAlloc", "cuMemAllocPitch"})

    def test_context_flags_are_noted(self):
        hooks = [hook.c_call() for hook in self.catalogue.functions["cuCtxCreate"].after]
        self.assertEqual(hooks, ["state_context_created(&call, *pctx);", "state_context_flags(&call, *pctx, flags);"])

    def test_rules_are_documented(self):
        for rule in self.catalogue.rules:
            for text in (rule.cause, rule.text, rule.fix, rule.sources):
                self.assertTrue(text.strip(), rule.slug)
            # Those of order stand in no column.
            self.assertLessEqual(len(rule.cause), 120 if rule.wait_class == "order" else 60, rule.slug)
        for slug in ("pageable-h2d", "pinned-h2d", "d2h", "h2h", "pageable-h2d-async", "pageable-d2h-async", "memset-host", "free-drains-device",
                     "host-free-drains-device", "unregister-drains-device", "pinning", "registering", "lazy-load", "module-load", "module-unload",
                     "stack-limit", "queue-full", "sync-memops", "context-synchronize", "stream-synchronize", "event-synchronize", "legacy-join",
                     "peer-copy", "managed-copy", "context-destroy", "ipc-open", "graph-instantiate", "observed-unknown"):
            self.catalogue.rule(slug)

    def test_readers_need_no_slug(self):
        """What-if asks these flags (whatif_call.c), not names."""
        flags = {rule.slug: rule.c_flags for rule in self.catalogue.rules}
        self.assertEqual({slug: flag for slug, flag in flags.items() if flag not in ("0", "RECORD_RULE_OWN_COST")}, {
            "queue-full": "RECORD_RULE_ROOM", "staging-full": "RECORD_RULE_ROOM", "event-synchronize": "RECORD_RULE_EVENT",
            "observed-unknown": "RECORD_RULE_UNEXPLAINED"})

    def test_page_has_every_function(self):
        page = catalogue_doc.page(self.catalogue, self.prototypes)
        rows = re.findall(r"^\| `(cu\w+)` \|", page, re.MULTILINE)
        self.assertEqual(sorted(rows), sorted(self.catalogue.functions))
        for rule in self.catalogue.rules:
            self.assertIn(f"### {rule.slug}\n", page)
        for line in page.splitlines():
            if line.startswith("| "):
                self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), len(catalogue_doc.HEAD) + 1, line)
        self.assertRegex(page, r"\| `cuMemFree` \| implicit \| free-drains-device \| .* \| all streams of all contexts \| on condition \|")
        self.assertRegex(page, r"\| `cuCtxSynchronize` \| explicit \| context-synchronize \| - \| all streams of the context \| yes \|")
        self.assertRegex(page, r"\| `cuStreamDestroy` \| - \| - \| - \| - \| no \|")


class Output(unittest.TestCase):
    def test_same_input_same_bytes(self):
        written = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                paths = [os.path.join(folder, name) for name in ("catalogue.h", "catalogue.c")]
                done = support.run("catalogue.py", "--catalogue", support.DATA, "--include", support.INCLUDE, "--header", paths[0],
                                   "--source", paths[1])
                self.assertEqual(done.returncode, 0, done.stderr)
                for path in paths:
                    with open(path, "rb") as stream:
                        written.append(stream.read())
        self.assertEqual(written[:2], written[2:])

    def test_identity_follows_both_files(self):
        identities = set()
        for functions, rules in ((support.FUNCTIONS, support.RULES), (support.FUNCTIONS + "\n", support.RULES),
                                 (support.FUNCTIONS, support.RULES + "\n")):
            with tempfile.TemporaryDirectory() as folder:
                support.write_catalogue(folder, functions, rules)
                identities.add(catalogue_module.load(folder, support.STATE_HEADER).identity)
        self.assertEqual(len(identities), 3)
        self.assertEqual(catalogue_module.fnv1a(b""), 0xcbf29ce484222325)
        self.assertEqual(catalogue_module.fnv1a(b"foobar"), 0x85944171f73967e8)

    def test_newer_header(self):
        """Functions and versions that the catalogue does not know get no wrapper; the same in a header of its age is an error."""
        text = """typedef int CUresult; typedef int CUcontext; typedef int CUstream;
            CUresult cuCtxGetCurrent(CUcontext *pctx); CUresult cuBrandNew(int x); CUresult cuStreamSynchronize(CUstream hStream);
            CUresult cuStreamSynchronize_v9(CUstream other);"""
        with tempfile.TemporaryDirectory() as folder:
            support.write_catalogue(folder)
            loaded = catalogue_module.load(folder, support.STATE_HEADER)
            found = prototypes_module.parse_text(text)
            found.cuda_version = catalogue_module.CUDA_VERSION + 10
            self.assertEqual([export.name for export in loaded.exports(found)], ["cuCtxGetCurrent", "cuStreamSynchronize"])
            self.assertEqual(set(loaded.unknown), {"cuBrandNew", "cuStreamSynchronize_v9"})
            self.assertEqual(loaded.names(found), ["cuCtxGetCurrent", "cuStreamSynchronize", "cuBrandNew", "cuMemcpyHtoD", "cuStreamCreate",
                                                   "cuStreamSynchronize_v9"])
            found = prototypes_module.parse_text(text)
            found.cuda_version = catalogue_module.CUDA_VERSION
            with self.assertRaisesRegex(catalogue_module.CatalogueError, r"functions\.yaml: cuBrandNew: no row for this function"):
                loaded.exports(found)

    def test_older_header(self):
        with tempfile.TemporaryDirectory() as folder:
            support.write_catalogue(folder)
            loaded = catalogue_module.load(folder, support.STATE_HEADER)
            found = prototypes_module.parse_text("typedef int CUresult; typedef int CUcontext; CUresult cuCtxGetCurrent(CUcontext *pctx);")
            self.assertEqual(len(loaded.exports(found)), 1)
            self.assertEqual([row.name for row in loaded.without_prototype(found)], ["cuMemcpyHtoD", "cuStreamCreate", "cuStreamSynchronize"])


class When(unittest.TestCase):
    def test_c(self):
        for text, expected in {
            "true": "true",
            "ASYNC && SOURCE == PAGEABLE": "((call->flags & CALL_ASYNC) != 0) && call->source_kind == MEMORY_PAGEABLE",
            "!( BYTES > 4 )||STREAM==LEGACY": "!(call->bytes > 4) || call->stream_kind == STREAM_LEGACY",
            "(SUBJECT & CU_CTX_SYNC_MEMOPS) != 0": "(call->subject & CU_CTX_SYNC_MEMOPS) != 0",
        }.items():
            self.assertEqual(catalogue_module.when_to_c(text), expected)

    def test_refused(self):
        for text, expected in {
            "": "is empty", "SORCE == PAGEABLE": "unknown name 'SORCE'", "SOURCE == ": "ends where a value is expected",
            "SOURCE PAGEABLE": "'PAGEABLE' stands where an operator is expected", "(SOURCE": "')' missing", "SOURCE)": "')' too early",
            "SOURCE = PAGEABLE": "'= PAGEABLE' is not understood", "== 3": "'==' stands where a value is expected", "BYTES / 2": "'/' is not allowed",
            "system(\"x\")": "unknown name 'system'", "BYTES ? 1 : 2": "'?' is not allowed", "()": "')' too early", "BYTES $ 2": "'$ 2' is not understood",
            "&& true": "'&&' stands where a value is expected", "1 2": "'2' stands where an operator is expected",
        }.items():
            with self.assertRaises(ValueError) as caught:
                catalogue_module.when_to_c(text)
            self.assertEqual(str(caught.exception), expected, text)


if __name__ == "__main__":
    unittest.main()
