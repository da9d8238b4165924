#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Load and check the catalogue (functions.yaml, rules.yaml); write it as C tables.

Owns: the meaning of both files (shim/catalogue/FORMAT.md is the text of it). Called by: Meson for the tables, wrappers.py and
catalogue_doc.py as a module, the tests. Relies on: PyYAML, prototypes.py.

    catalogue = load("shim/catalogue")
    exports = catalogue.exports(prototypes.parse(include))   # wrapped functions, in the order of their numbers
    export.row.stream, export.row.after, ...                 # the row as it holds for this export, `versions` applied

Every mistake is a CatalogueError whose text is one line: file:line: row: key: what is wrong.
"""
import argparse
import os
import re
import sys
from dataclasses import dataclass, field

import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import prototypes as prototypes_module  # noqa: E402

# The header that functions.yaml is complete for.
CUDA_VERSION = 13000

KINDS = ("misc alloc capture context copy event external free graph graphics hostfunc init ipc launch limit memop memset "
         "module peer pool prefetch query register stream texture vmm wait").split()
LEVELS = ("count", "timed", "full")
STREAM_FORMS = ("none", "argument", "implicit", "context")
# In the order of enum operation_kind.
SUBMITS = "none kernel copy memset host-function graph event-wait memory-op allocation other".split()
OPERATIONS = dict(zip(SUBMITS, "UNKNOWN KERNEL COPY MEMSET HOST_FUNCTION GRAPH EVENT_WAIT MEMORY_OP ALLOCATION OTHER".split()))
BARRIERS = ("none", "stream", "join", "join-peers", "context")
RETRIES = ("none", "out-of-memory")
HOST_MEMORY = ("stays", "may-change")
# Kinds of which no function makes host memory the driver's, nor tells the program of some. Of all others it may be so, unless a row says otherwise.
HOST_MEMORY_STAYS = "capture copy event free hostfunc init launch memop memset query stream wait".split()
REPLACEMENTS = ("none", "staging", "pinned-pool", "retire-free", "redirect")
DOCS = ("documented-sync", "documented-async", "may", "unspecified")
CONFIDENCES = ("documented", "measured", "reported", "inferred")
CLASSES = ("explicit", "implicit", "device", "order")
SCOPES = ("host", "stream", "legacy", "join", "context", "device", "event")

# Names a `when` may use, and what they are in C.
WHEN_VALUES = {
    "SOURCE": "call->source_kind",
    "DESTINATION": "call->destination_kind",
    "BYTES": "call->bytes",
    "SUBJECT": "call->subject",
    "STREAM": "call->stream_kind",
    "BACKLOG": "call->backlog",
    "CAPTURED": "((call->flags & CALL_CAPTURED) != 0)",
    "ASYNC": "((call->flags & CALL_ASYNC) != 0)",
    "FIRST_USE": "((call->flags & CALL_FIRST_USE) != 0)",
    "SYNC_MEMOPS": "((call->flags & CALL_SYNC_MEMOPS) != 0)",
    "true": "true",
    "false": "false",
}
WHEN_MEMORY = "NONE UNKNOWN PAGEABLE PINNED REGISTERED MANAGED DEVICE POOL ARRAY".split()  # as enum memory_kind
WHEN_STREAM = "LEGACY PER_THREAD BLOCKING NON_BLOCKING".split()                            # as enum stream_kind, from 1
WHEN_CONSTANT = re.compile(r"CU_[A-Z0-9_]+$")

SLUG = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*$")
HOOK = re.compile(r"([a-z][a-z0-9_]*)\s*\((.*)\)$", re.DOTALL)
TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)[uUlL]*|([A-Za-z_]\w*)|(->|==|!=|<=|>=|&&|\|\||<<|>>|[-+*/%<>!&|^~()?:,.\[\]]))")
# Words that C expressions in rows may use besides parameters.
C_WORDS = frozenset("sizeof NULL true false const void char int unsigned signed long short size_t uint64_t uintptr_t "
                    "CUdeviceptr CUstream CUevent CUcontext CUfunction CUkernel".split())


class CatalogueError(Exception):
    """A mistake in the data; the text is one line."""


@dataclass
class Place:
    """Where something stands, for messages."""
    file: str
    line: int = 0

    def error(self, row, key, what):
        parts = [f"{self.file}:{self.line}" if self.line else self.file]
        parts += [str(part) for part in (row, key) if part]
        return CatalogueError(": ".join(parts + [" ".join(what.split())]))


@dataclass
class Hook:
    """`stream_created(*phStream, Flags)`: name and C argument expressions."""
    name: str
    arguments: list

    def c_rewrite(self, call="&call"):
        """The C condition: rewrite_<name>(&call, &result_, ...), true: it made the call's result."""
        return f"rewrite_{self.name}({', '.join([call, '&result_'] + self.arguments)})"

    def c_call(self):
        """The C statement: state_<name>(&call, ...);"""
        return f"state_{self.name}({', '.join(['&call'] + self.arguments)});"


@dataclass
class Row:
    """One function. Expressions are C text over parameter names; None: not given."""
    name: str
    kind: str
    place: Place
    level: str = "timed"
    stream: str = "none"        # form
    stream_argument: str = None  # expression of the CUstream, for the form `argument`
    source: str = None
    destination: str = None
    bytes: str = None
    subject: str = None
    peer: str = None
    peer_to: str = None
    host: str = None  # source, destination, both, none; None: by the parameters' types
    submits: str = "none"
    rules: list = field(default_factory=list)
    before: list = field(default_factory=list)
    after: list = field(default_factory=list)
    result: list = field(default_factory=list)
    rewrite: list = field(default_factory=list)  # at most one hook
    retry: str = "none"
    host_memory: str = "may-change"
    barrier: str = "none"
    replacement: str = "none"
    doc: str = "unspecified"
    confidence: str = "inferred"
    source_note: str = ""
    note: str = ""
    idle_fixed_ns: int = 0
    idle_ns_per_kib: float = 0.0
    versions: dict = field(default_factory=dict)  # suffix -> Row
    given: dict = field(default_factory=dict)     # keys as written, for overrides

    @property
    def asynchronous(self):
        """Sets CALL_ASYNC: takes a stream and puts work on it."""
        return self.stream == "argument" and self.submits != "none"

    @property
    def makes(self):
        """Kind of memory that the call makes (enum memory_kind without MEMORY_), by its hooks; NONE: no memory."""
        for hook in self.after:
            if hook.name == "host_registered":
                return "REGISTERED"
            if hook.name in ("allocated", "mapped"):
                return hook.arguments[0].strip().removeprefix("MEMORY_")
        return "NONE"

    @property
    def capturable(self):
        """On a capturing stream it becomes a graph node: nothing runs, nothing is waited for."""
        return self.stream == "argument" and (self.submits != "none" or self.kind == "event")

    def for_version(self, version, thread=""):
        """The row for an export with these suffixes ('' for none): the longest match in `versions`; `base` is the plain version."""
        for suffix in (version + thread, version, thread, "base" if not version else None):
            if suffix in self.versions:
                return self.versions[suffix]
        return self

    def host_operands(self, prototype):
        """(source, destination): may that operand be host memory? Decides CALL_SOURCE_HOST and CALL_DESTINATION_HOST."""
        if self.host is not None:
            return self.host in ("source", "both"), self.host in ("destination", "both")
        answers = []
        for text in (self.source, self.destination):
            parameter = prototype.parameter(text) if text else None
            answers.append(parameter is not None and parameter.type in ("void *", "const void *"))
        return tuple(answers)

    def expressions(self):
        """(key, C text) of everything that names parameters."""
        for key, text in (("stream", self.stream_argument), ("source", self.source), ("destination", self.destination),
                          ("bytes", self.bytes), ("subject", self.subject), ("peer", self.peer), ("peer_to", self.peer_to)):
            if text is not None:
                yield key, text
        for key, hooks in (("before", self.before), ("after", self.after), ("result", self.result), ("rewrite", self.rewrite)):
            for hook in hooks:
                for text in hook.arguments:
                    yield key, text


@dataclass
class Rule:
    """One reason to wait."""
    slug: str
    number: int
    wait_class: str
    cause: str
    scope: str
    when: str
    place: Place
    condition: str = ""  # `when` in words, for the page
    own_cost: bool = False
    room: bool = False         # waits until its own operation finds room
    unexplained: bool = False  # what no rule explains
    minimum_ns: int = 0
    text: str = ""
    fix: str = ""
    sources: str = ""
    confidence: str = "inferred"

    @property
    def c_flags(self):
        """enum record_rule_flag: what readers of records need to know, so that none has to know slugs."""
        flags = [name for name, holds in (("OWN_COST", self.own_cost), ("ROOM", self.room), ("EVENT", self.scope == "event"),
                                          ("UNEXPLAINED", self.unexplained)) if holds]
        return " | ".join("RECORD_RULE_" + name for name in flags) or "0"

    @property
    def c_name(self):
        return "RULE_" + self.slug.upper().replace("-", "_")


@dataclass
class Export:
    """One exported function that has a prototype."""
    number: int
    prototype: object
    row: Row  # `versions` applied

    @property
    def name(self):
        return self.prototype.name


@dataclass
class Catalogue:
    functions: dict  # base name -> Row
    rules: list      # of Rule; index = rule number
    directory: str = ""
    identity: int = 0
    unknown: dict = field(default_factory=dict)  # exports of a newer header left without wrapper: name -> why; exports() fills

    def rule(self, slug):
        for rule in self.rules:
            if rule.slug == slug:
                return rule
        raise KeyError(slug)

    def exports(self, prototypes):
        """Wrapped exports in the order of their numbers.

        CatalogueError: a function of the header has no row, or a row names what an export lacks. A header newer than the catalogue is
        allowed functions and versions that the catalogue does not know: they are taken out of `prototypes` (and so get a thunk, as
        functions without prototype do) and listed in self.unknown.
        """
        newer = getattr(prototypes, "cuda_version", 0) > CUDA_VERSION
        found = []
        for name in sorted(prototypes):
            prototype = prototypes[name]
            row = self.functions.get(prototype.base)
            try:
                if row is None:
                    raise Place(os.path.join(self.directory, "functions.yaml")).error(
                        prototype.base, None, f"no row for this function of the header (export {name})")
                export = Export(len(found), prototype, row.for_version(*prototypes_module.split_name(name)[1:]))
                self._check_export(export)
            except CatalogueError as error:
                if not newer:
                    raise
                self.unknown[name] = str(error)
                continue
            found.append(export)
        for name in self.unknown:
            prototypes.pop(name, None)
        return found

    def names(self, prototypes):
        """Every exported name known, in the order of the numbers: wrapped ones, then those without wrapper. After exports()."""
        return sorted(prototypes) + sorted((set(self.exported_names()) | set(self.unknown)) - set(prototypes))

    def exported_names(self):
        """The names a real driver exports (exports.txt)."""
        path = os.path.join(self.directory, "exports.txt")
        names = []
        for line, text in enumerate(_read(path).splitlines(), 1):
            text = text.split("#")[0].strip()
            if not text:
                continue
            if not re.match(r"[A-Za-z_]\w*$", text):
                raise Place(path, line).error(None, None, f"'{text}' is no name")
            if text in names:
                raise Place(path, line).error(None, None, f"'{text}' is there twice")
            names.append(text)
        return names

    def without_prototype(self, prototypes):
        """Rows for functions this header lacks (it may be older or newer): allowed, told."""
        bases = {prototype.base for prototype in prototypes.values()}
        return [row for name, row in self.functions.items() if name not in bases]

    def _check_export(self, export):
        row, prototype = export.row, export.prototype
        names = set(prototype.names())
        for key, text in row.expressions():
            if text == "result":
                continue
            for name in parameters_of(text):
                if name not in names:
                    raise row.place.error(row.name, key, f"export {export.name} has no parameter '{name}' (it has: "
                                                         f"{', '.join(prototype.names()) or 'none'})")
        if row.stream == "argument" and row.stream_argument in names:
            type_text = prototype.parameter(row.stream_argument).type
            if type_text != "CUstream":
                raise row.place.error(row.name, "stream", f"export {export.name}: '{row.stream_argument}' is a {type_text}, no CUstream")


def _tokens(text):
    """C tokens of an expression as (kind, text); ValueError: something that is no token."""
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise ValueError(f"'{text[position:].strip()[:20]}' is not understood")
        kind = "number" if match.group(1) else "name" if match.group(2) else "mark"
        yield kind, match.group(0).strip()
        position = match.end()


def parameters_of(text):
    """Names in a C expression that must be parameters: no members, no macros, no types, no constants."""
    found, previous = [], ""
    for kind, token in _tokens(text):
        if kind == "name" and previous not in (".", "->") and token not in C_WORDS and not re.match(r"[A-Z][A-Z0-9_]+$", token):
            found.append(token)
        previous = token
    return found


def when_to_c(text):
    """A rule's `when` as a C expression over `call`; ValueError says what is wrong."""
    out, depth, previous = [], 0, None
    for kind, token in _tokens(text):
        operand = kind in ("name", "number") or token == "("
        if operand and previous in ("operand", ")") or (token == ")" and previous in (None, "mark", "(")):
            raise ValueError(f"'{token}' stands where an operator is expected" if operand else "')' too early")
        if kind == "name":
            if token in WHEN_VALUES:
                out.append(WHEN_VALUES[token])
            elif token in WHEN_MEMORY:
                out.append("MEMORY_" + token)
            elif token in WHEN_STREAM:
                out.append("STREAM_" + token)
            elif WHEN_CONSTANT.match(token):
                out.append(token)
            else:
                raise ValueError(f"unknown name '{token}'")
            previous = "operand"
            continue
        if kind == "number":
            out.append(token)
            previous = "operand"
            continue
        if token in ("->", ".", "?", ":", ",", "[", "]", "/", "%"):
            raise ValueError(f"'{token}' is not allowed")
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            raise ValueError("')' too early")
        if token not in ("(", "!", "~", "-") and token != ")" and previous in (None, "mark", "("):
            raise ValueError(f"'{token}' stands where a value is expected")
        out.append(token)
        previous = token if token in "()" else "mark"
    if depth:
        raise ValueError("')' missing")
    if previous in (None, "mark", "("):
        raise ValueError("ends where a value is expected" if out else "is empty")
    return " ".join(out).replace("( ", "(").replace(" )", ")").replace("! ", "!")


# Reading -------------------------------------------------------------------------------------------------------------------


def _read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError as error:
        raise CatalogueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{path}: not UTF-8 at byte {error.start}") from error


def _plain(node, path, seen):
    """A YAML node as plain Python; duplicate keys and aliases are refused."""
    if id(node) in seen:
        raise Place(path, node.start_mark.line + 1).error(None, None, "aliases are not allowed")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        result = {}
        for key_node, value_node in node.value:
            place = Place(path, key_node.start_mark.line + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                raise place.error(None, None, "a key must be a word")
            if key_node.value in result:
                raise place.error(None, key_node.value, "given twice")
            result[key_node.value] = _plain(value_node, path, seen)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, path, seen) for item in node.value]
    tag = node.tag.rsplit(":", 1)[-1]
    text = node.value
    if node.style:  # quoted or a block: text as it stands
        return text
    if tag == "int":
        try:
            return int(text.replace("_", ""), 0)
        except ValueError:
            return text
    if tag == "float":
        try:
            return float(text)
        except ValueError:
            return text
    if tag == "bool" and text in ("true", "false"):
        return text == "true"
    return text


def _rows(path):
    """[(place, mapping)] of a file that is a list of mappings."""
    text = _read(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)  # the C loader overflows its stack on deep nesting
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise Place(path, mark.line + 1 if mark else 0).error(None, None, getattr(error, "problem", None) or str(error)) from error
    except RecursionError as error:
        raise CatalogueError(f"{path}: nested too deeply") from error
    if not isinstance(node, yaml.SequenceNode):
        raise CatalogueError(f"{path}: must be a list of rows")
    rows, seen = [], set()
    for item in node.value:
        place = Place(path, item.start_mark.line + 1)
        if not isinstance(item, yaml.MappingNode):
            raise place.error(None, None, "a row must be a mapping")
        try:
            rows.append((place, _plain(item, path, seen)))
        except RecursionError as error:
            raise place.error(None, None, "nested too deeply") from error
    return rows


class _Reader:
    """Takes typed values out of one row and complains about the rest."""

    def __init__(self, place, name, values):
        self.place, self.name, self.values = place, name, dict(values)

    def error(self, key, what):
        return self.place.error(self.name, key, what)

    def take(self, key, kind, default):
        if key not in self.values:
            return default
        value = self.values.pop(key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        good = {"text": isinstance(value, str) or number, "flag": isinstance(value, bool),
                "count": isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32,
                "mapping": isinstance(value, dict), "any": True}[kind]
        if not good:
            wanted = {"text": "text", "flag": "true or false", "count": "a number from 0", "mapping": "a mapping"}[kind]
            raise self.error(key, f"must be {wanted}, is {_shown(value)}")
        return str(value) if kind == "text" else value

    def choice(self, key, choices, default):
        value = self.take(key, "text", default)
        if value not in choices:
            raise self.error(key, f"unknown value {_shown(value)} (one of: {' '.join(choices)})")
        return value

    def expression(self, key):
        text = self.take(key, "text", None)
        if text is not None:
            if not text.strip():
                raise self.error(key, "is empty")
            try:
                parameters_of(text)
            except ValueError as error:
                raise self.error(key, str(error)) from error
        return text

    def finish(self):
        for key in self.values:
            raise self.error(key, "unknown key")


def _shown(value):
    text = " ".join(str(value).split())
    return f"'{text[:40]}...'" if len(text) > 43 else f"'{text}'"


def _split_arguments(text):
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    parts.append(current.strip())
    return parts if parts != [""] else []


def _hooks(reader, key, known_hooks):
    """`before`, `after`, `result`: one hook or a list. `rewrite`: one hook."""
    header, prefix, known = ("rewrite.h", "rewrite_", "rewrite:") if key == "rewrite" else ("state.h", "state_", "")
    value = reader.take(key, "any", [])
    hooks = []
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str):
            raise reader.error(key, f"must be a hook or a list of hooks, is {_shown(text)}")
        if key == "result":
            if not re.match(r"[a-z][a-z0-9_]*$", text):
                raise reader.error(key, f"must be the bare name of a hook, is {_shown(text)}")
            hook = Hook(text, ["result"])
        else:
            match = HOOK.match(text.strip())
            if not match:
                raise reader.error(key, f"must be name(arguments), is {_shown(text)}")
            hook = Hook(match.group(1), _split_arguments(match.group(2)))
        if known_hooks is not None:
            if known + hook.name not in known_hooks:
                raise reader.error(key, f"unknown hook '{hook.name}' ({header} declares no {prefix}{hook.name})")
            if known_hooks[known + hook.name] != len(hook.arguments):
                raise reader.error(key, f"hook '{hook.name}' takes {known_hooks[known + hook.name]} arguments after the call, "
                                        f"{len(hook.arguments)} given")
        for argument in hook.arguments:
            try:
                if not argument:
                    raise ValueError("an argument is empty")
                parameters_of(argument)
            except ValueError as error:
                raise reader.error(key, str(error)) from error
        hooks.append(hook)
    if key == "rewrite" and len(hooks) > 1:
        raise reader.error(key, "may be one hook only: two cannot both make the call's result")
    return hooks


def _row(place, name, values, ends, known_hooks):
    """`ends`: for each rule, does it always explain a wait (so that rules after it are dead)? None: class device. No rules of class order."""
    reader = _Reader(place, name, values)
    reader.take("name", "text", None)
    if "kind" not in values:
        raise reader.error("kind", "missing")
    row = Row(name, reader.choice("kind", KINDS, None), place)
    row.given = {key: value for key, value in values.items() if key != "versions"}
    stream = reader.take("stream", "any", "none")
    if isinstance(stream, dict):
        if list(stream) != ["argument"] or not isinstance(stream["argument"], str):
            raise reader.error("stream", "must be none, implicit, context or {argument: NAME}")
        row.stream, row.stream_argument = "argument", stream["argument"]
        try:
            parameters_of(row.stream_argument)
        except ValueError as error:
            raise reader.error("stream", str(error)) from error
    elif stream in ("none", "implicit", "context"):
        row.stream = stream
    else:
        raise reader.error("stream", f"unknown value {_shown(stream)} (one of: none implicit context {{argument: NAME}})")
    for key in ("source", "destination", "bytes", "subject", "peer", "peer_to"):
        setattr(row, key, reader.expression(key))
    if "host" in values:
        row.host = reader.choice("host", ("source", "destination", "both", "none"), None)
    row.submits = reader.choice("submits", SUBMITS, "none")
    row.barrier = reader.choice("barrier", BARRIERS, "none")
    row.replacement = reader.choice("replacement", REPLACEMENTS, "none")
    row.retry = reader.choice("retry", RETRIES, "none")
    row.host_memory = reader.choice("host_memory", HOST_MEMORY, "stays" if row.kind in HOST_MEMORY_STAYS else "may-change")
    row.doc = reader.choice("doc", DOCS, "unspecified")
    row.confidence = reader.choice("confidence", CONFIDENCES, "inferred")
    row.source_note = reader.take("source_note", "text", "")
    row.note = reader.take("note", "text", "")
    rules = reader.take("rules", "any", [])
    if not isinstance(rules, list):
        raise reader.error("rules", f"must be a list, is {_shown(rules)}")
    for slug in rules:
        if not isinstance(slug, str) or slug not in ends:
            raise reader.error("rules", f"unknown rule {_shown(slug)}")
        if slug in row.rules:
            raise reader.error("rules", f"'{slug}' given twice")
        if row.rules and any(ends[before] for before in row.rules) and ends[slug] is not None:
            raise reader.error("rules", f"'{slug}' is never reached: a rule before it always holds")
        row.rules.append(slug)
    if len(row.rules) > 16:
        raise reader.error("rules", f"{len(row.rules)} rules, at most 16 fit the bits of catalogue_held")
    for key in ("before", "after", "result", "rewrite"):
        setattr(row, key, _hooks(reader, key, known_hooks))
    idle = _Reader(place, name, reader.take("idle", "mapping", {}))
    row.idle_fixed_ns = idle.take("fixed_ns", "count", 0)
    per_kib = idle.take("ns_per_kib", "any", 0)
    if isinstance(per_kib, bool) or not isinstance(per_kib, (int, float)) or not 0 <= per_kib < 1e6:
        raise reader.error("idle", f"ns_per_kib must be a number from 0, is {_shown(per_kib)}")
    row.idle_ns_per_kib = float(per_kib)
    for key in idle.values:
        raise reader.error("idle", f"unknown key '{key}'")
    has_hooks = row.before or row.after or row.result
    default = "full" if row.rules or row.submits != "none" else "count" if row.kind == "query" and not has_hooks else "timed"
    row.level = reader.choice("level", LEVELS, default)
    if row.level == "count" and (row.rules or has_hooks or row.submits != "none"):
        raise reader.error("level", "count: but the row has rules, hooks or submits, which need a timed call")
    if row.level == "count" and row.retry != "none":
        raise reader.error("retry", "but level is count")
    if row.submits != "none" and row.stream == "none":
        raise reader.error("submits", "but stream is none")
    versions = reader.take("versions", "mapping", {})
    reader.finish()
    for suffix, override in versions.items():
        if suffix != "base" and not re.match(r"(_v\d+)?(_ptsz|_ptds)?$", suffix):
            raise reader.error("versions", f"'{suffix}' is no version (base, _v2, _ptsz, _v2_ptsz ...)")
        if not isinstance(override, dict):
            raise reader.error("versions", f"{suffix}: must be a mapping")
        if "versions" in override or "name" in override:
            raise reader.error("versions", f"{suffix}: may not hold name or versions")
        merged = {**row.given, **override}
        merged = {key: value for key, value in merged.items() if value not in ("", [])}
        row.versions[suffix] = _row(place, name, merged, ends, known_hooks)
    return row


def _rule(place, slug, values, number):
    reader = _Reader(place, slug, values)
    reader.take("slug", "text", None)
    if not SLUG.match(slug):
        raise reader.error("slug", "must be words in lower case joined by '-'")
    if values.get("class") == "order":
        # No call waits for it: shim/check/ finds it in what several calls did.
        for key in ("scope", "when", "condition", "own_cost", "room", "unexplained", "minimum_ns"):
            if key in values:
                raise reader.error(key, "is not for class order, which explains no wait")
        values = {**values, "scope": "host", "when": False, "condition": "what several calls did together"}
        reader.values.update(scope="host", when=False, condition=values["condition"])
    for key in ("class", "cause", "scope", "when", "text", "fix", "sources", "confidence"):
        if key not in values or values[key] == "":
            raise reader.error(key, "missing")
    when = values["when"]
    when = ("true" if when else "false") if isinstance(when, bool) else when
    reader.values["when"] = when
    rule = Rule(slug, number, reader.choice("class", CLASSES, None), reader.take("cause", "text", ""),
                reader.choice("scope", SCOPES, None), reader.take("when", "text", ""), place)
    rule.own_cost = reader.take("own_cost", "flag", False)
    rule.room = reader.take("room", "flag", False)
    rule.unexplained = reader.take("unexplained", "flag", False)
    rule.minimum_ns = reader.take("minimum_ns", "count", 0)
    rule.condition = reader.take("condition", "text", "")
    rule.text = reader.take("text", "text", "")
    rule.fix = reader.take("fix", "text", "")
    rule.sources = reader.take("sources", "text", "")
    rule.confidence = reader.choice("confidence", CONFIDENCES, None)
    reader.finish()
    try:
        when_to_c(rule.when)
    except ValueError as error:
        raise reader.error("when", str(error)) from error
    if (rule.when == "true") != (rule.condition == ""):
        raise reader.error("condition", "missing: say `when` in words" if rule.condition == "" else "given, but `when` is true")
    if rule.own_cost and rule.scope != "host":
        raise reader.error("own_cost", f"needs scope host, is {rule.scope}")
    if rule.room and rule.scope != "stream":
        raise reader.error("room", f"needs scope stream, is {rule.scope}")
    return rule


def read_hooks(path):
    """Hooks that state.h declares: {name without state_: arguments after the call}; None if there is no such file."""
    if not os.path.isfile(path):
        return None
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", _read(path), flags=re.DOTALL)
    hooks = {}
    for match in re.finditer(r"\bvoid\s+state_(\w+)\s*\(([^)]*)\)\s*;", text):
        parameters = match.group(2).split(",")
        if parameters[0].split()[:2] == ["struct", "call"]:
            hooks[match.group(1)] = len(parameters) - 1
    return hooks


def read_rewrites(path):
    """The same of rewrite.h: {"rewrite:" and name: arguments after call and result}."""
    if not os.path.isfile(path):
        return {}
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", _read(path), flags=re.DOTALL)
    hooks = {}
    for match in re.finditer(r"\bbool\s+rewrite_(\w+)\s*\(([^)]*)\)\s*;", text):
        parameters = match.group(2).split(",")
        if len(parameters) > 1 and parameters[0].split()[:2] == ["struct", "call"]:
            hooks["rewrite:" + match.group(1)] = len(parameters) - 2
    return hooks


def fnv1a(data, value=0xcbf29ce484222325):
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return value


def load(directory, state_header=None):
    """Both files of a folder, checked. CatalogueError names file, line, row and key."""
    rules_path = os.path.join(directory, "rules.yaml")
    functions_path = os.path.join(directory, "functions.yaml")
    if state_header is None:
        state_header = os.path.join(directory, "..", "state", "state.h")
    known_hooks = read_hooks(state_header)
    if known_hooks is not None:
        known_hooks.update(read_rewrites(os.path.join(directory, "..", "rewrite", "rewrite.h")))
    rules, slugs = [], set()
    for place, values in _rows(rules_path):
        slug = values.get("slug")
        if not isinstance(slug, str):
            raise place.error(None, "slug", "missing" if slug is None else "must be text")
        if slug in slugs:
            raise place.error(slug, None, "there is a rule of this name above")
        slugs.add(slug)
        rules.append(_rule(place, slug, values, len(rules)))
    if len(rules) > 254:
        raise CatalogueError(f"{rules_path}: {len(rules)} rules, at most 254 fit a number of one byte")
    ends = {rule.slug: None if rule.wait_class == "device" else
            rule.when == "true" and (rule.scope == "host" or rule.wait_class == "explicit") for rule in rules if rule.wait_class != "order"}
    functions = {}
    for place, values in _rows(functions_path):
        name = values.get("name")
        if not isinstance(name, str):
            raise place.error(None, "name", "missing" if name is None else "must be text")
        if not re.match(r"cu[A-Z]\w*$", name) or prototypes_module.base_name(name) != name:
            raise place.error(name, "name", "is no base name of a driver function")
        if name in functions:
            raise place.error(name, None, f"there is a row for it at line {functions[name].place.line}")
        functions[name] = _row(place, name, values, ends, known_hooks)
    used = {slug for row in functions.values() for version in [row, *row.versions.values()] for slug in version.rules}
    for rule in rules:
        if rule.slug not in used and not rule.unexplained and rule.wait_class != "order":
            raise rule.place.error(rule.slug, None, "no row of functions.yaml uses this rule")
        if rule.slug in used and rule.unexplained:
            raise rule.place.error(rule.slug, "unexplained", "a row of functions.yaml uses this rule")
    identity = fnv1a(_read(functions_path).encode(), fnv1a(_read(rules_path).encode()))
    return Catalogue(functions, rules, directory, identity)


# Writing -------------------------------------------------------------------------------------------------------------------

HEAD = "// SPDX-License-Identifier: MIT\n/* Written by tools/gen/catalogue.py from functions.yaml, rules.yaml and cuda.h. Do not edit. */\n"


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def c_header(catalogue, names, wrapped):
    """catalogue_generated.h: the numbers."""
    lines = [HEAD, "#ifndef SLIPSTREAM_CATALOGUE_GENERATED_H", "#define SLIPSTREAM_CATALOGUE_GENERATED_H", "", "enum function_number {"]
    lines += [f"\tFUNCTION_{name} = {number}," for number, name in enumerate(names)]
    lines += [f"\tFUNCTION_WRAPPED_COUNT = {wrapped},", f"\tFUNCTION_COUNT = {len(names)},", "};", "", "enum rule_number {"]
    lines += [f"\t{rule.c_name} = {rule.number}," for rule in catalogue.rules]
    lines += [f"\tRULE_COUNT = {len(catalogue.rules)},", "};", "", "#endif", ""]
    return "\n".join(lines)


def _row_flags(row):
    flags = []
    if row.asynchronous:
        flags.append("CATALOGUE_ASYNC")
    if row.capturable:
        flags.append("CATALOGUE_CAPTURABLE")
    for key in ("before", "after", "result"):
        if getattr(row, key):
            flags.append("CATALOGUE_HAS_" + key.upper())
    if "Batch" in row.name:
        flags.append("CATALOGUE_SEVERAL")
    if row.bytes:
        flags.append("CATALOGUE_SIZED")
    return " | ".join(flags) or "0"


def _predicate(rule):
    if rule.wait_class == "order":
        return "when_never"
    return "when_always" if rule.when == "true" else "when_" + rule.slug.replace("-", "_")


def _held(catalogue, name, slugs):
    """catalogue_row.held() of a list of rules: all conditions in one function, since each cache line of a call's way counts."""
    lines = ["", f"static uint32_t held_{name}(const struct call *call)", "{", "\tuint32_t held = CATALOGUE_HELD_KNOWN;", ""]
    for number, slug in enumerate(slugs):
        rule = catalogue.rule(slug)
        bits = [f"1U << {number}", f"1U << CATALOGUE_SCOPE_{rule.scope.upper()} << CATALOGUE_HELD_SCOPE_SHIFT"]
        if rule.wait_class == "explicit":
            bits.append("CATALOGUE_HELD_EXPLICIT")
        lines += [f"\tif ({_predicate(rule)}(call))", f"\t\theld |= {' | '.join(bits)};"]
    return [*lines, "\treturn held;", "}", ""]


def c_source(catalogue, exports, names):
    """catalogue_generated.c: the tables."""
    lines = [HEAD, "#include <string.h>", "", "#include <cuda.h>", "", '#include "call.h"', '#include "catalogue/catalogue.h"',
              '#include "emit/record.h"', ""]
    lines += ["static bool when_always(const struct call *call)", "{", "\t(void)call;", "\treturn true;", "}", ""]
    lines += ["static bool when_never(const struct call *call)", "{", "\t(void)call;", "\treturn false;", "}", ""]
    for rule in catalogue.rules:
        if rule.when != "true" and rule.wait_class != "order":
            lines += [f"static bool {_predicate(rule)}(const struct call *call)", "{", f"\treturn {when_to_c(rule.when)};", "}", ""]
    lines += ["const struct catalogue_rule catalogue_rules[RULE_COUNT] = {"]
    for rule in catalogue.rules:
        measured = "true" if rule.confidence in ("documented", "measured") else "false"
        lines += [f"\t[{rule.c_name}] = {{ {c_string(rule.slug)}, {c_string(rule.cause)}, WAIT_{rule.wait_class.upper()}, "
                  f"CATALOGUE_SCOPE_{rule.scope.upper()}, {rule.c_flags}, {measured}, {rule.minimum_ns}, "
                  f"{_predicate(rule)} }},"]
    lines += ["};", "", "static const uint8_t no_rules[] = { 0 };"]
    lines += ["", "static uint32_t held_no_rules(const struct call *call)", "{", "\t(void)call;", "\treturn CATALOGUE_HELD_KNOWN;", "}", ""]
    lists = {}
    for export in exports:
        slugs = tuple(export.row.rules)
        if slugs and slugs not in lists:
            lists[slugs] = f"rules_{len(lists)}"
            numbers = ", ".join(f"{catalogue.rule(slug).c_name} + 1" for slug in slugs)
            lines += [f"static const uint8_t {lists[slugs]}[] = {{ {numbers}, 0 }};", *_held(catalogue, lists[slugs], slugs)]
    lines += ["", "const struct catalogue_row catalogue_rows[FUNCTION_COUNT] = {"]
    for export in exports:
        row = export.row
        lines += [f"\t[FUNCTION_{export.name}] = {{ CATALOGUE_KIND_{row.kind.upper()}, CATALOGUE_LEVEL_{row.level.upper()}, "
                  f"CALL_STREAM_{row.stream.upper()}, {_row_flags(row)}, OPERATION_{OPERATIONS[row.submits]}, "
                  f"CATALOGUE_BARRIER_{row.barrier.upper().replace('-', '_')}, MEMORY_{row.makes}, 0, {row.idle_fixed_ns}, "
                  f"{round(row.idle_ns_per_kib * 1000 / 1024)}, {lists.get(tuple(row.rules), 'no_rules')}, "
                  f"held_{lists.get(tuple(row.rules), 'no_rules')} }},"]
    for name in names[len(exports):]:
        lines += [f"\t[FUNCTION_{name}] = {{ .rules = no_rules, .held = held_no_rules }},"]
    lines += ["};", "", "const char *const function_names[FUNCTION_COUNT] = {"]
    lines += [f"\t[FUNCTION_{name}] = {c_string(name)}," for name in names]
    lines += ["};", "", f"const uint64_t catalogue_id = UINT64_C(0x{catalogue.identity:016x});", "",
              "/* Function numbers in the order of their names. */", "static const uint16_t by_name[FUNCTION_COUNT] = {"]
    lines += [f"\tFUNCTION_{name}," for name in sorted(names)]
    lines += ["};", "", "int catalogue_function(const char *name)", "{", "\tunsigned int low = 0, high = FUNCTION_COUNT;", "",
              "\twhile (low < high) {", "\t\tunsigned int middle = (low + high) / 2;",
              "\t\tint order = strcmp(name, function_names[by_name[middle]]);", "", "\t\tif (order == 0)",
              "\t\t\treturn by_name[middle];", "\t\tif (order < 0)", "\t\t\thigh = middle;", "\t\telse", "\t\t\tlow = middle + 1;",
              "\t}", "\treturn -1;", "}", ""]
    return "\n".join(lines)


def write(path, text):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def main():
    parser = argparse.ArgumentParser(description="check the catalogue; write its C tables")
    parser.add_argument("--catalogue", required=True, help="folder with functions.yaml, rules.yaml, exports.txt")
    parser.add_argument("--include", required=True, help="folder with cuda.h")
    parser.add_argument("--cpp", default=os.environ.get("CC", "cc"), help="compiler used as preprocessor")
    parser.add_argument("--header", help="write catalogue_generated.h here")
    parser.add_argument("--source", help="write catalogue_generated.c here")
    arguments = parser.parse_args()
    try:
        prototypes = prototypes_module.parse(arguments.include, arguments.cpp)
        catalogue = load(arguments.catalogue)
        exports = catalogue.exports(prototypes)
        names = catalogue.names(prototypes)
        unused = catalogue.without_prototype(prototypes)
        if unused:
            print(f"catalogue: note: cuda.h {prototypes.cuda_version} has no function for {len(unused)} rows: "
                  f"{' '.join(row.name for row in unused)}", file=sys.stderr)
        if catalogue.unknown:
            print(f"catalogue: note: cuda.h {prototypes.cuda_version} is newer than the catalogue; left without wrapper: "
                  f"{' '.join(catalogue.unknown)}", file=sys.stderr)
        if arguments.header:
            write(arguments.header, c_header(catalogue, names, len(exports)))
        if arguments.source:
            write(arguments.source, c_source(catalogue, exports, names))
        if not arguments.header and not arguments.source:
            print(f"{len(catalogue.functions)} rows, {len(catalogue.rules)} rules, {len(exports)} exports wrapped, "
                  f"{len(names) - len(exports)} without prototype")
    except (CatalogueError, prototypes_module.HeaderError) as error:
        sys.exit(f"catalogue: {error}")
    except OSError as error:
        sys.exit(f"catalogue: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
