#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prototypes of every function that cuda.h declares, all versions and per-thread forms, and of cudaProfiler.h where it lies beside it.

Owns: reading the toolkit's header. Called by: catalogue.py, wrappers.py, the tests. Relies on: a C compiler for `-E`, and pycparser.

cuda.h is preprocessed with __CUDA_API_VERSION_INTERNAL, which makes it declare cuMemAlloc and cuMemAlloc_v2 side by side
instead of renaming one to the other. Only the function declarations are given to pycparser: the types they name are
declared to it as opaque, so the system headers (and the GNU C in them) never reach it.
"""
import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

from pycparser import c_ast, c_generator, c_parser

THREAD_SUFFIXES = ("_ptsz", "_ptds")
# What makes the C side see the same declarations as parse() did.
HEADER_DEFINE = "__CUDA_API_VERSION_INTERNAL"

_DECLARATION = re.compile(r"\b(cu[A-Z]\w*)\s*\(")
_TYPEDEF_NAME = re.compile(r"(?:\(\s*\*\s*(\w+)\s*\)\s*\(|\b(\w+)\s*(?:\[[^\]]*\])*\s*$)")
_C_WORDS = frozenset(
    "auto char const double enum extern float inline int long register restrict short signed static struct union "
    "unsigned void volatile".split())


class Prototypes(dict):
    """{exported name: Prototype}, in the header's order; cuda_version as CUDA_VERSION (13000), 0 unknown."""
    cuda_version = 0


class HeaderError(Exception):
    """cuda.h could not be read; the text is one line."""


def split_name(name):
    """'cuMemcpyHtoD_v2_ptds' -> ('cuMemcpyHtoD', '_v2', '_ptds')."""
    thread = ""
    for suffix in THREAD_SUFFIXES:
        if name.endswith(suffix):
            name, thread = name[:-len(suffix)], suffix
    match = re.search(r"_v\d+$", name)
    version = match.group(0) if match else ""
    return name[:len(name) - len(version)], version, thread


def base_name(name):
    """The catalogue's name for an export: without version and per-thread suffix."""
    return split_name(name)[0]


@dataclass
class Parameter:
    """One parameter; `declaration` has the name in its place, also for arrays and function pointers."""
    type: str
    name: str
    declaration: str

    def __iter__(self):  # unpacks as (type, name)
        return iter((self.type, self.name))


@dataclass
class Prototype:
    """One declared function."""
    name: str
    return_type: str
    parameters: list = field(default_factory=list)

    @property
    def base(self):
        return split_name(self.name)[0]

    @property
    def version(self):
        """'' or '_v2' ..."""
        return split_name(self.name)[1]

    @property
    def per_thread(self):
        """True for the _ptds and _ptsz forms, where stream 0 means the per-thread stream."""
        return split_name(self.name)[2] != ""

    def names(self):
        return [parameter.name for parameter in self.parameters]

    def parameter(self, name):
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        return None

    def parameter_list(self):
        """'CUdeviceptr *dptr, size_t bytesize', or 'void'."""
        return ", ".join(parameter.declaration for parameter in self.parameters) or "void"

    def arguments(self):
        """'dptr, bytesize'."""
        return ", ".join(self.names())

    def declare(self, name=None):
        """The declaration under another name, without semicolon."""
        return f"{_join(self.return_type, name or self.name)}({self.parameter_list()})"

    def declare_pointer(self, name=None):
        """A pointer to such a function, without semicolon."""
        return f"{_join(self.return_type, '(*' + (name or self.name) + ')')}({self.parameter_list()})"


def _join(type_text, name):
    return f"{type_text}{name}" if type_text.endswith("*") else f"{type_text} {name}"


def preprocess(include_dir, cpp="cc"):
    """cuda.h through the preprocessor, without line markers; cudaProfiler.h behind it if there is one."""
    header = os.path.join(include_dir, "cuda.h")
    if not os.path.isfile(header):
        raise HeaderError(f"{header}: no such file")
    command = [*cpp.split(), "-E", "-P", "-x", "c", f"-D{HEADER_DEFINE}=1", "-isystem", include_dir,
               "-include", header]
    profiler = os.path.join(include_dir, "cudaProfiler.h")
    if os.path.isfile(profiler):
        command += ["-include", profiler]
    command.append(os.devnull)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise HeaderError(f"{cpp}: {error.strerror}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["failed without a word"]
        raise HeaderError(f"{header}: {cpp}: {next((line for line in lines if 'error' in line), lines[0])}")
    return done.stdout


def _without_attributes(text):
    """Drops `__attribute__((...))`, `__declspec(...)` and `__extension__`, whatever is nested in them."""
    text = re.sub(r"\b(__extension__|__restrict|__restrict__|__inline|__inline__)\b", " ", text)
    pieces = []
    position = 0
    for match in re.finditer(r"\b(?:__attribute__|__declspec|__asm__)\s*\(", text):
        if match.start() < position:
            continue
        pieces.append(text[position:match.start()])
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _statements(text):
    """Top-level statements, bodies in braces cut out."""
    depth, start = 0, 0
    pieces = []
    for match in re.finditer(r"[{};]", text):
        mark = match.group(0)
        if mark == "{":
            if depth == 0:
                pieces.append(text[start:match.start()])
            depth += 1
        elif mark == "}":
            depth -= 1
            start = match.end()
            head = pieces[0].split() if pieces else []
            if depth == 0 and pieces and pieces[-1].rstrip().endswith(")"):
                pieces = []  # the body of a function: no semicolon follows
            elif depth == 0 and head[:2] == ["extern", '"C"']:
                pieces = []
        elif depth == 0:
            pieces.append(text[start:match.start()])
            yield " ".join(" ".join(pieces).split())
            pieces = []
            start = match.end()


def _flat(node):
    return " ".join(c_generator.CGenerator().visit(node).split())


def _parameter(node, function, index):
    """A c_ast parameter declaration as a Parameter."""
    if not isinstance(node, (c_ast.Decl, c_ast.Typename)):
        raise HeaderError(f"cuda.h: {function}: parameter {index + 1} has no type")
    name = node.name or f"argument{index}"
    kind = node.type
    declaration = _flat(c_ast.Decl(name, [], [], [], [], _renamed(kind, name), None, None))
    type_text = _flat(c_ast.Typename(None, [], None, _renamed(kind, None)))
    return Parameter(type_text, name, declaration)


def _renamed(node, name):
    """The same type tree with another declared name."""
    if isinstance(node, c_ast.TypeDecl):
        return c_ast.TypeDecl(name, node.quals, None, node.type)
    if isinstance(node, c_ast.PtrDecl):
        return c_ast.PtrDecl(node.quals, _renamed(node.type, name))
    if isinstance(node, c_ast.ArrayDecl):
        return c_ast.ArrayDecl(_renamed(node.type, name), node.dim, node.dim_quals)
    if isinstance(node, c_ast.FuncDecl):
        return c_ast.FuncDecl(node.args, _renamed(node.type, name))
    return node


def parse_text(text):
    """Preprocessed text -> {name: Prototype}, in the header's order."""
    declarations, types = [], set()
    for statement in _statements(_without_attributes(text)):
        if statement.startswith("typedef "):
            match = _TYPEDEF_NAME.search(statement)
            if match:
                types.add(match.group(1) or match.group(2))
            continue
        match = _DECLARATION.search(statement)
        if match and "(" not in statement[:match.start()] and statement.endswith(")"):
            declarations.append(re.sub(r"^(extern|static|inline)\s+", "", statement) + ";")
    if not declarations:
        raise HeaderError("cuda.h: declares no function")
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(declarations)))
    used = sorted((types & words) - _C_WORDS)
    source = "".join(f"typedef int {name};\n" for name in used) + "\n".join(declarations)
    try:
        tree = c_parser.CParser().parse(source, "cuda.h")
    except Exception as error:  # pycparser's ParseError moved between versions
        raise HeaderError(f"cuda.h: cannot parse a prototype: {error}") from error
    prototypes = Prototypes()
    for node in tree.ext:
        if not isinstance(node, c_ast.Decl) or not isinstance(node.type, c_ast.FuncDecl):
            continue
        function = node.type
        nodes = function.args.params if function.args else []
        if len(nodes) == 1 and isinstance(nodes[0], c_ast.Typename) and _flat(nodes[0]) == "void":
            nodes = []
        return_type = _flat(c_ast.Typename(None, [], None, _renamed(function.type, None)))
        parameters = [_parameter(parameter, node.name, index) for index, parameter in enumerate(nodes)]
        prototypes[node.name] = Prototype(node.name, return_type, parameters)
    return prototypes


def parse(include_dir, cpp="cc"):
    """Every function that the cuda.h in include_dir declares: {exported name: Prototype}, in the header's order."""
    prototypes = parse_text(preprocess(include_dir, cpp))
    with open(os.path.join(include_dir, "cuda.h"), encoding="utf-8", errors="replace") as stream:
        match = re.search(r"^\s*#\s*define\s+CUDA_VERSION\s+(\d+)", stream.read(), re.MULTILINE)
    prototypes.cuda_version = int(match.group(1)) if match else 0
    return prototypes


def main():
    parser = argparse.ArgumentParser(description="list the functions that cuda.h declares")
    parser.add_argument("--include", default="/usr/local/cuda/include", help="folder with cuda.h")
    parser.add_argument("--cpp", default=os.environ.get("CC", "cc"), help="compiler used as preprocessor")
    parser.add_argument("--declarations", action="store_true", help="print whole prototypes")
    parser.add_argument("--base", action="store_true", help="print base names, each once")
    arguments = parser.parse_args()
    try:
        prototypes = parse(arguments.include, arguments.cpp)
    except HeaderError as error:
        sys.exit(f"prototypes: {error}")
    if arguments.base:
        lines = sorted({prototype.base for prototype in prototypes.values()})
    elif arguments.declarations:
        lines = [prototype.declare() + ";" for prototype in prototypes.values()]
    else:
        lines = list(prototypes)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
