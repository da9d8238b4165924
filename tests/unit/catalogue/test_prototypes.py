# SPDX-License-Identifier: MIT
"""prototypes.py: every function of the header, as C that means the same."""
import os
import re
import subprocess
import tempfile
import time
import unittest

import support
import prototypes


class Names(unittest.TestCase):
    def test_split(self):
        for name, parts in {
            "cuMemAlloc": ("cuMemAlloc", "", ""),
            "cuMemAlloc_v2": ("cuMemAlloc", "_v2", ""),
            "cuMemcpyHtoD_v2_ptds": ("cuMemcpyHtoD", "_v2", "_ptds"),
            "cuMemcpy_ptds": ("cuMemcpy", "", "_ptds"),
            "cuLaunchKernel_ptsz": ("cuLaunchKernel", "", "_ptsz"),
            "cuTexRefSetAddress2D_v3": ("cuTexRefSetAddress2D", "_v3", ""),
            "cuMemsetD2D32": ("cuMemsetD2D32", "", ""),
            "cuStreamWaitValue64_v12": ("cuStreamWaitValue64", "_v12", ""),
        }.items():
            self.assertEqual(prototypes.split_name(name), parts)
            self.assertEqual("".join(prototypes.split_name(name)), name)


class Text(unittest.TestCase):
    """A header made up here: what cuda.h may hold some day."""

    def parse(self, text):
        return prototypes.parse_text(text)

    def test_parameters(self):
        found = self.parse("""
            typedef unsigned long long CUdeviceptr; typedef struct CUstream_st *CUstream;
            typedef enum { CUDA_SUCCESS } CUresult;
            typedef void (*CUcallback)(CUstream stream, void *data);
            struct ignored { int (*cuNotAFunction)(int); };
            static inline int helper(int x) { return cuHidden(x); }
            __attribute__((visibility("default"))) extern CUresult cuOne(CUdeviceptr *dptr, const void *const *table,
                CUcallback callback, int (*function)(int, void *), unsigned char uuid[16]) __attribute__((nothrow));
            __extension__ CUresult cuNone(void);
            const char *cuText(int);
            """)
        self.assertEqual(list(found), ["cuOne", "cuNone", "cuText"])
        one = found["cuOne"]
        self.assertEqual(one.names(), ["dptr", "table", "callback", "function", "uuid"])
        self.assertEqual(one.declare("x"), "CUresult x(CUdeviceptr *dptr, const void * const *table, CUcallback callback, "
                                           "int (*function)(int, void *), unsigned char uuid[16])")
        self.assertEqual(one.parameter("table").type, "const void * const *")
        self.assertEqual(found["cuNone"].declare(), "CUresult cuNone(void)")
        self.assertEqual(found["cuNone"].arguments(), "")
        self.assertEqual(found["cuText"].declare_pointer("p"), "const char *(*p)(int argument0)")

    def test_nothing(self):
        for text in ("", "int x;", "typedef int cuType;", "{{{{", "}}}};;"):
            with self.assertRaises(prototypes.HeaderError):
                self.parse(text)

    def test_unreadable(self):
        with self.assertRaisesRegex(prototypes.HeaderError, "cannot parse a prototype"):
            self.parse("typedef int CUresult; CUresult cuBad(CUresult CUresult CUresult);")
        with self.assertRaisesRegex(prototypes.HeaderError, "cuVariadic: parameter 2 has no type"):
            self.parse("typedef int CUresult; CUresult cuVariadic(int count, ...);")


class Header(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        start = time.monotonic()
        cls.found = prototypes.parse(support.INCLUDE)
        cls.seconds = time.monotonic() - start

    def test_every_function(self):
        text = re.sub(r"(?m)^\s*#.*$", "", prototypes.preprocess(support.INCLUDE))
        declared = set(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text))
        self.assertEqual(set(self.found), declared)
        self.assertGreater(self.found.cuda_version, 11000)
        if self.found.cuda_version == 13000:
            beside = os.path.isfile(os.path.join(support.INCLUDE, "cudaProfiler.h"))
            self.assertEqual(len(self.found), 637 if beside else 634)
            self.assertEqual("cuProfilerStart" in self.found, beside)

    def test_without_profiler_header(self):
        """cuda.h alone is enough: those functions are left out, and nothing else."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(support.INCLUDE, "cuda.h"), os.path.join(folder, "cuda.h"))
            alone = prototypes.parse(folder)
        self.assertEqual(set(self.found) - set(alone), {name for name in self.found if name.startswith("cuProfiler")})
        self.assertEqual(set(alone) - set(self.found), set())

    def test_round_trip(self):
        """The compiler accepts our declaration beside the header's: same types."""
        text = f"#define {prototypes.HEADER_DEFINE} 1\n#include <cuda.h>\n"
        text += "#if __has_include(<cudaProfiler.h>)\n#include <cudaProfiler.h>\n#endif\n"
        text += "".join(prototype.declare() + ";\n" for prototype in self.found.values())
        text += "".join(f"{prototype.declare_pointer('p_' + name)};\nvoid s_{name}(void);\n"
                        f"void s_{name}(void) {{ p_{name} = {name}; }}\n" for name, prototype in self.found.items())
        done = subprocess.run(["cc", "-std=gnu11", "-Werror", "-Wno-deprecated-declarations", "-fsyntax-only", "-isystem", support.INCLUDE,
                               "-x", "c", "-"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[:2000])

    def test_wrong_declaration_is_refused(self):
        """The round trip proves something: another type does not pass."""
        text = f"#define {prototypes.HEADER_DEFINE} 1\n#include <cuda.h>\nCUresult cuMemAlloc_v2(CUdeviceptr *dptr, unsigned char bytesize);\n"
        done = subprocess.run(["cc", "-std=gnu11", "-Werror", "-fsyntax-only", "-isystem", support.INCLUDE, "-x", "c", "-"],
                              input=text, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)

    def test_speed(self):
        self.assertLess(self.seconds, 10, "a build must not wait for this")


class Errors(unittest.TestCase):
    def test_no_header(self):
        with tempfile.TemporaryDirectory() as folder:
            done = support.run("prototypes.py", "--include", folder)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"prototypes: {os.path.join(folder, 'cuda.h')}: no such file\n")

    def test_no_compiler(self):
        done = support.run("prototypes.py", "--include", support.INCLUDE, "--cpp", "no-such-compiler")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "prototypes: no-such-compiler: No such file or directory\n")

    def test_header_with_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "cuda.h"), "w", encoding="utf-8") as stream:
                stream.write("#error broken on purpose\n")
            done = support.run("prototypes.py", "--include", folder)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn("broken on purpose", done.stderr)


if __name__ == "__main__":
    unittest.main()
