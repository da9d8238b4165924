#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what comes from events.yaml: structures, constants, provider, reader's table."""

import argparse
import os
import re
import sys
import zlib

import yaml

C_TYPES = {"u32": "uint32_t", "u64": "uint64_t", "i32": "int32_t", "x64": "uint64_t", "string": "const char *"}
HEAD = "// SPDX-License-Identifier: MIT\n/* Written by tracing/gen/events.py from tracing/events.yaml; do not edit. */\n"


class SchemaError(Exception):
    pass


def load(path):
    with open(path, encoding="utf-8") as stream:
        schema = yaml.safe_load(stream)
    events, constants = schema["events"], schema["constants"]
    for name, constant in constants.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or set(constant) != {"value", "doc"}:
            raise SchemaError(f"{path}: constant '{name}' needs a name in capitals, value and doc")
    for name, event in events.items():
        fields = event.get("fields") or {}
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise SchemaError(f"{path}: '{name}' is no name of an event")
        if event.get("level") not in ("waits", "full"):
            raise SchemaError(f"{path}: {name}: level must be waits or full")
        if not event.get("doc"):
            raise SchemaError(f"{path}: {name}: no doc")
        for field, kind in fields.items():
            if kind not in C_TYPES:
                raise SchemaError(f"{path}: {name}.{field}: unknown type {kind}")
        for role in ("key", "part"):
            if role in event and event[role] not in fields:
                raise SchemaError(f"{path}: {name}: {role} '{event[role]}' is no field")
        if "key" in event and fields[event["key"]] == "string":
            raise SchemaError(f"{path}: {name}: a key is a number")
        unknown = set(event) - {"level", "dump", "record", "key", "part", "doc", "fields"}
        if unknown:
            raise SchemaError(f"{path}: {name}: unknown {', '.join(sorted(unknown))}")
    return events, constants


def declare(kind, name):
    c_type = C_TYPES[kind]
    return f"{c_type}{'' if c_type.endswith('*') else ' '}{name}"


def header(events, constants):
    lines = [HEAD + "#ifndef SLIPSTREAM_TRACING_EVENT_H\n#define SLIPSTREAM_TRACING_EVENT_H\n", "#include <stdint.h>\n", "enum trace_event {"]
    lines += [f"\tTRACE_{name.upper()}," for name in events]
    lines += ["\tTRACE_EVENT_COUNT", "};", "", "/* Of all names and fields: two builds with the same one understand each other. */",
              f"#define TRACE_SCHEMA UINT32_C({zlib.crc32(repr([(name, event['fields']) for name, event in events.items()]).encode()):#010x})", ""]
    for name, constant in constants.items():
        lines += [f"/* {constant['doc']} */", f"#define TRACE_{name} UINT32_C({constant['value']:#x})", ""]
    for name, event in events.items():
        lines += [f"/* {event['doc']} */", f"struct trace_{name} {{"]
        lines += [f"\t{declare(kind, field)};" for field, kind in event["fields"].items()]
        lines += ["};", ""]
    lines += ["/* Room for any of them. */", "union trace_payload {"]
    lines += [f"\tstruct trace_{name} {name};" for name in events]
    lines += ["};", "", "#endif", ""]
    return "\n".join(lines)


def table(events, _):
    lines = [HEAD + '#include "tracing/event_table.h"\n', "#include <stddef.h>\n"]
    for name, event in events.items():
        lines.append(f"static const struct trace_field {name}_fields[] = {{")
        lines += [f'\t{{"{field}", TRACE_FIELD_{kind.upper()}, offsetof(struct trace_{name}, {field})}},' for field, kind in event["fields"].items()]
        lines += ["};", ""]
    lines.append("const struct trace_event_type trace_event_types[TRACE_EVENT_COUNT] = {")
    for name, event in events.items():
        names = list(event["fields"])
        key = names.index(event["key"]) if "key" in event else -1
        part = names.index(event["part"]) if "part" in event else -1
        lines.append(f'\t[TRACE_{name.upper()}] = {{"{name}", sizeof(struct trace_{name}), {name}_fields, {len(names)}, {key}, {part}, '
                     f'{int(bool(event.get("dump")))}, {int(event["level"] == "full")}}},')
    lines += ["};", ""]
    return "\n".join(lines)


LTTNG_FIELDS = {
    "u32": "lttng_ust_field_integer(uint32_t, {0}, event->{0})",
    "u64": "lttng_ust_field_integer(uint64_t, {0}, event->{0})",
    "i32": "lttng_ust_field_integer(int32_t, {0}, event->{0})",
    "x64": "lttng_ust_field_integer_hex(uint64_t, {0}, event->{0})",
    "string": "lttng_ust_field_string({0}, event->{0})",
}


def provider_header(events, _):
    lines = ["// SPDX-License-Identifier: MIT", "/* Written by tracing/gen/events.py from tracing/events.yaml; do not edit. */",
             "#undef LTTNG_UST_TRACEPOINT_PROVIDER", "#define LTTNG_UST_TRACEPOINT_PROVIDER slipstream", "",
             "#undef LTTNG_UST_TRACEPOINT_INCLUDE", '#define LTTNG_UST_TRACEPOINT_INCLUDE "tracing/provider/provider_events.h"', "",
             "#if !defined(SLIPSTREAM_TRACING_PROVIDER_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)",
             "#define SLIPSTREAM_TRACING_PROVIDER_EVENTS_H", "", "#include <lttng/tracepoint.h>", "", '#include "tracing/event.h"', ""]
    for name, event in events.items():
        fields = " ".join(LTTNG_FIELDS[kind].format(field) for field, kind in event["fields"].items())
        lines += [f"LTTNG_UST_TRACEPOINT_EVENT(slipstream, {name}, LTTNG_UST_TP_ARGS(const struct trace_{name} *, event),",
                  f"\tLTTNG_UST_TP_FIELDS({fields}))", ""]
    lines += ["#endif", "", "#include <lttng/tracepoint-event.h>", ""]
    return "\n".join(lines)


def provider_source(events, _):
    lines = [HEAD + "#define LTTNG_UST_TRACEPOINT_CREATE_PROBES", "#define LTTNG_UST_TRACEPOINT_DEFINE", '#include "tracing/provider/provider_events.h"', "",
             '#include "tracing/provider/emitters.h"', ""]
    for name in events:
        lines += [f"static void emit_{name}(const void *event)", "{", f"\tlttng_ust_do_tracepoint(slipstream, {name}, (const struct trace_{name} *)event);", "}", "",
                  f"static bool {name}_is_enabled(void)", "{", f"\treturn lttng_ust_tracepoint_enabled(slipstream, {name});", "}", ""]
    lines.append("const struct trace_emitter trace_emitters[TRACE_EVENT_COUNT] = {")
    lines += [f"\t[TRACE_{name.upper()}] = {{&lttng_ust_tracepoint_slipstream___{name}.state, {name}_is_enabled, emit_{name}}}," for name in events]
    lines += ["};", ""]
    return "\n".join(lines)


WRITERS = {"event.h": header, "event_table.c": table, "provider_events.h": provider_header, "provider_events.c": provider_source}


def main():
    parser = argparse.ArgumentParser(description="write the files that come from events.yaml")
    parser.add_argument("schema", help="events.yaml")
    parser.add_argument("outputs", nargs="+", help="files to write, known by their names: " + ", ".join(WRITERS))
    arguments = parser.parse_args()
    try:
        events, constants = load(arguments.schema)
        for output in arguments.outputs:
            text = WRITERS[os.path.basename(output)](events, constants)
            with open(output, "w", encoding="utf-8") as stream:
                stream.write(text)
    except (OSError, yaml.YAMLError, SchemaError) as error:
        sys.exit(f"events.py: {error}")
    except KeyError as error:
        sys.exit(f"events.py: no writer for {error}")


if __name__ == "__main__":
    main()
