#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the entry room's generated files: wrappers, thunks, the driver's table, the name hash, the version script.

Owns: what a wrapper does, step by step (shim/call.h tells the order). Called by: Meson. Relies on: catalogue.py, prototypes.py.

    wrappers.py --include DIR --catalogue DIR [--driver-ops FILE] [--out DIR --files N]

writes FILE (driver_ops.h), and to the folder name_slots.h, wrapper_table.c, thunks.S, slipstream.map, wrappers_0.c to wrappers_<N-1>.c.
"""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalogue as catalogue_module  # noqa: E402
import prototypes as prototypes_module  # noqa: E402

# Written by hand in shim/entry/special.c.
SPECIAL = {"cuInit", "cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2", "cuGetExportTable"}

# Slugs of the rules for which the driver waits for the device in the middle of a call; filled by main().
DRAINS = set()
HOLD_NOTHING = ("queue-full", "pageable-h2d-async", "pageable-d2h-async", "staging-full", "h2h-async")

# Rewrites with a short way, and when there is one.
SHORT_REWRITES = {"host_alloc": "short_magazine", "host_free": "short_magazine", "device_free": "__atomic_load_n(&short_device, __ATOMIC_RELAXED)"}
# What these hand out past the rooms the rewrites never hear of: whoever frees it gives it to the driver. And they change nothing that is held.
HARMLESS_REWRITES = ("device_alloc", "memory_info", "array_create", "array_create_3d", "array_create_mipmapped", "observe_legacy")

# Parameters without which there is no operation: a function of the host, a graph, an event, a block that is freed.
NOTHING_WITHOUT = ("fn", "callback", "hGraphExec", "hGraph", "hEvent", "dptr")

NAME_SLOTS = 2048
# What else the library exports: the hooks, what the public header asks for, and NVTX.
OWN_EXPORTS = ("InitializeInjectionNvtx2", "dlmopen", "dlopen", "dlsym", "slipstream_allow_begin", "slipstream_allow_end",
               "slipstream_region_begin", "slipstream_region_end", "slipstream_step")
# Types that cuda.h declares only under __CUDA_API_VERSION_INTERNAL.
INTERNAL_TYPE = re.compile(r"\b\w+_v1\b")

HEAD = """// SPDX-License-Identifier: MIT
/* Written by tools/gen/wrappers.py. {what} */
"""


def hash_name(name):
    """FNV-1a, 32 bits, as names.c."""
    value = 2166136261
    for byte in name.encode():
        value = ((value ^ byte) * 16777619) & 0xffffffff
    return value


def write_driver_ops(path, names, prototypes):
    lines = [HEAD.format(what="The driver's functions, one pointer each, in the order of their numbers."),
             "#ifndef SLIPSTREAM_DRIVER_DRIVER_OPS_H", "#define SLIPSTREAM_DRIVER_DRIVER_OPS_H", "",
             "#include <stddef.h>", "", "#include <cuda.h>", "",
             '#include "catalogue/catalogue.h"', "",
             "/* cuda.h renames many functions to their newest version; here a name is the exported name. */"]
    lines += [f"#undef {name}" for name in names]
    lines += ["", "struct driver_ops {"]
    for name in names:
        prototype = prototypes.get(name)
        if prototype is None:
            lines.append(f"\tvoid (*{name})(void); /* no prototype known */")
        elif INTERNAL_TYPE.search(prototype.parameter_list()):
            lines += ["#ifdef __CUDA_API_VERSION_INTERNAL", f"\t{prototype.declare_pointer()};", "#else",
                      f"\tvoid (*{name})(void); /* its types are not declared */", "#endif"]
        else:
            lines.append(f"\t{prototype.declare_pointer()};")
    lines += ["};", ""]
    lines += [f"_Static_assert(offsetof(struct driver_ops, {name}) == FUNCTION_{name} * sizeof(void *), \"order\");"
              for name in names]
    lines += ["", "#endif", ""]
    catalogue_module.write(path, "\n".join(lines))


def write_name_slots(path, names):
    slots = [0] * NAME_SLOTS
    for number, name in enumerate(names):
        slot = hash_name(name) % NAME_SLOTS
        while slots[slot]:
            slot = (slot + 1) % NAME_SLOTS
        slots[slot] = number + 1
    rows = [", ".join(str(value) for value in slots[at:at + 24]) for at in range(0, NAME_SLOTS, 24)]
    catalogue_module.write(path, HEAD.format(what="Open addressing over FNV-1a of the exported names: function number + 1.") +
                           f"#define NAME_SLOTS {NAME_SLOTS}\n\nstatic const uint16_t name_slots[NAME_SLOTS] = {{\n\t" +
                           ",\n\t".join(rows) + ",\n};\n")


def write_table(path, names, prototypes):
    lines = [HEAD.format(what="What the program gets for each of the driver's functions."), '#include "entry/entry.h"', ""]
    # A thunk goes under a C name of its own: a header newer than the catalogue may declare the driver's name otherwise.
    lines += [f'void thunk_{name}(void) __asm__("{name}");' for name in names if name not in prototypes]
    lines += ["", "void *const entry_wrappers[FUNCTION_COUNT] = {"]
    lines += [f"\t[FUNCTION_{name}] = (void *){'' if name in prototypes else 'thunk_'}{name}," for name in names]
    lines += ["};", ""]
    catalogue_module.write(path, "\n".join(lines))


def write_map(path, names):
    catalogue_module.write(path, "/* Written by tools/gen/wrappers.py. The symbols other objects may see; unversioned on purpose. */\n{\n\tglobal:\n" +
                           "".join(f"\t\t{name};\n" for name in list(OWN_EXPORTS) + names) + "\tlocal:\n\t\t*;\n};\n")


THUNK_X86_64 = """
	.globl	{name}
	.type	{name}, @function
	.p2align 4
{name}:
	.cfi_startproc
	endbr64
	movq	entry_page(%rip), %r11
	cmpq	$0, (%r11)
	je	1f
	movq	entry_thunk_counters(%rip), %r11
	testq	%r11, %r11
	je	1f
	lock incq	{offset}(%r11)
	movq	driver+{offset}(%rip), %r11
	testq	%r11, %r11
	je	1f
	jmp	*%r11
1:	movl	${number}, %r11d
	jmp	thunk_resolve
	.cfi_endproc
	.size	{name}, . - {name}
"""

# Keeps what a call of any prototype may carry: six integer registers, the vector registers' low halves, the count of vector arguments,
# the static chain. The stack arguments stay where they are, since the driver is entered by a jump.
THUNK_HEAD_X86_64 = """// SPDX-License-Identifier: MIT
/* Written by tools/gen/wrappers.py. Count-and-jump thunks of exports without a known prototype. */
	.text
	.type	thunk_resolve, @function
	.p2align 4
thunk_resolve:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$208, %rsp
	andq	$-16, %rsp
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movq	%rax, 48(%rsp)
	movq	%r10, 56(%rsp)
	movups	%xmm0, 64(%rsp)
	movups	%xmm1, 80(%rsp)
	movups	%xmm2, 96(%rsp)
	movups	%xmm3, 112(%rsp)
	movups	%xmm4, 128(%rsp)
	movups	%xmm5, 144(%rsp)
	movups	%xmm6, 160(%rsp)
	movups	%xmm7, 176(%rsp)
	movl	%r11d, %edi
	call	entry_thunk_resolve
	movq	%rax, %r11
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movq	48(%rsp), %rax
	movq	56(%rsp), %r10
	movups	64(%rsp), %xmm0
	movups	80(%rsp), %xmm1
	movups	96(%rsp), %xmm2
	movups	112(%rsp), %xmm3
	movups	128(%rsp), %xmm4
	movups	144(%rsp), %xmm5
	movups	160(%rsp), %xmm6
	movups	176(%rsp), %xmm7
	movq	%rbp, %rsp
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	jmp	*%r11
	.cfi_endproc
	.size	thunk_resolve, . - thunk_resolve
"""


def write_thunks(path, names, prototypes):
    text = THUNK_HEAD_X86_64
    for number, name in enumerate(names):
        if name not in prototypes:
            text += THUNK_X86_64.format(name=name, number=number, offset=8 * number)
    catalogue_module.write(path, text + '\t.section .note.GNU-stack, "", @progbits\n')


def flags_of(export):
    row, prototype = export.row, export.prototype
    flags = []
    if prototype.per_thread:
        flags.append("CALL_PER_THREAD")
    if row.asynchronous:
        flags.append("CALL_ASYNC")
    source_host, destination_host = row.host_operands(prototype)
    if source_host:
        flags.append("CALL_SOURCE_HOST")
    if destination_host:
        flags.append("CALL_DESTINATION_HOST")
    if row.peer:
        flags.append("CALL_TWO_CONTEXTS")
    return " | ".join(flags) or "0"


def short_way(export):
    """The condition under which a launch may take the short way (shim/state/launch.h), None: never."""
    row = export.row
    if row.kind != "launch" or row.submits != "kernel" or not row.stream_argument or row.before or row.result or row.level != "full":
        return None
    if export.name.startswith("cuLaunchCooperativeKernelMultiDevice") or not row.subject:
        return None
    if row.rewrite or row.host_memory != "stays":
        sys.exit(f"wrappers: {export.name}: a launch that takes the short way has no rewrite, and leaves the host's memory as it is")
    # All that one that joins has to say (shim/sync/joined.c).
    if list(row.rules) != ["lazy-load", "queue-full", "legacy-join"]:
        sys.exit(f"wrappers: {export.name}: a launch that takes the short way has other rules")
    # Events that a launch attribute records must be seen by state: none may be named.
    if any(hook.name != "event_foreign" for hook in row.after):
        return None
    return " && ".join([f"!({argument})" for hook in row.after for argument in hook.arguments]) or "true"


def legacy_class(export):
    """How the rewrite of the legacy default stream (shim/legacy/legacy.h) treats the row; None: it has nothing to do with it."""
    row = export.row
    if row.level == "count" or row.kind == "capture" or row.stream not in ("argument", "implicit"):
        return None
    if row.submits == "none" and row.kind != "event":
        return None
    # The driver takes none on the legacy stream, and would on another.
    if export.name.startswith(("cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync")):
        return "LEGACY_NATIVE"
    if row.replacement == "redirect" or (row.kind == "copy" and row.asynchronous):
        return "LEGACY_REDIRECT" if redirect(export) else "LEGACY_NATIVE"
    return "LEGACY_NATIVE"


def redirect(export):
    """Gives the driver another stream than the program's; empty: there is no argument for it."""
    argument = export.row.stream_argument
    if argument in export.prototype.names():
        return [f"{argument} = pass_.stream;"]
    if argument == "OPERAND_LAUNCH_STREAM(config)":
        return ["config_ = *config;", "config_.hStream = pass_.stream;", "config = &config_;"]
    return []


def legacy_variables(export):
    if not legacy_class(export):
        return []
    is_structure = len(redirect(export)) > 1
    return ["\tstruct legacy_pass pass_;"] + (["\tCUlaunchConfig config_;"] if is_structure else [])


def puts_nothing(export):
    """Arguments with which a call has no effect on any stream, whether the driver takes it or refuses it; empty: there are none."""
    row, names = export.row, export.prototype.names()
    if row.bytes:
        return "!call.bytes"
    if "gridDimX" in names and "blockDimX" in names:
        return "!(f && gridDimX && gridDimY && gridDimZ && blockDimX && blockDimY && blockDimZ)"
    if row.stream_argument == "OPERAND_LAUNCH_STREAM(config)":
        return "OPERAND_LAUNCH_IS_EMPTY(config)"
    # Flags that no header knows say nothing: a later driver may take them.
    if "paramArray" in names:
        return "!(count && paramArray)"
    return next((f"!{name}" for name in names if name in NOTHING_WITHOUT), "")


def legacy_enter(export, indent):
    """Behind state_before() and the `before` hooks: what comes first by legacy order, and where the call goes."""
    name = legacy_class(export)
    if not name:
        return []
    # What puts nothing on a stream comes behind nothing, and nothing behind it.
    nothing = puts_nothing(export)
    lines = ["pass_.context = NULL;", f"if (legacy_active() && !({nothing})) {{" if nothing else "if (legacy_active()) {",
             f"\tlegacy_enter(&call, &pass_, {name});"]
    if name == "LEGACY_REDIRECT":
        # What the driver refuses has no structure, perhaps.
        asked = "pass_.redirected && config" if len(redirect(export)) > 1 else "pass_.redirected"
        lines += [f"\tif ({asked}) {{", *["\t\t" + line for line in redirect(export)], "\t}"]
    return [indent + line for line in lines + ["}"]]


def legacy_leave(export):
    return ["\tif (entry_unlikely(pass_.context != NULL))", "\t\tlegacy_leave(&call, &pass_, result_);"] if legacy_class(export) else []


def passes(export, arguments, first=()):
    """A call that the rooms do not see. What it may put on a stream, end, or take from the pool, is then unknown for good."""
    row = export.row
    # Records, destroyed events, memory that is unregistered: what state remembers of them would be untrue.
    hooks = [hook.name for hook in row.before + row.after if hook.name not in ("module_unloading", "event_created", "allocated", "host_registered")]
    rewrites = [hook for hook in row.rewrite if hook.name not in HARMLESS_REWRITES]
    real = changes(export, f"real_({arguments})")
    if row.submits == "none" and row.kind not in ("capture", "context", "stream") and not rewrites and not hooks:
        return ["\tif (entry_unlikely(!rooms_))", f"\t\treturn {real};"]
    return ["\tif (entry_unlikely(!rooms_)) {", *first, "\t\tstate_unseen();", "\t\tlegacy_retreat();", f"\t\treturn {real};", "\t}"]


def changes(export, call):
    """The driver's call; around one behind which it may know more of the host's memory, what it said before is forgotten (shim/rewrite/known.h)."""
    return call if export.row.host_memory == "stays" else f"KNOWN_CHANGES({call})"


def begin(export, indent, place="__builtin_return_address(0), ENTRY_FRAME()"):
    """Fills struct call from the arguments, as the row says."""
    row = export.row
    lines = [f"entry_begin(&call, FUNCTION_{export.name}, {flags_of(export)}, CALL_STREAM_{row.stream.upper()},",
             f"\t    OPERATION_{catalogue_module.OPERATIONS[row.submits]}, {place});"]
    if row.stream_argument:
        lines.append(f"call.stream_handle = {row.stream_argument};")
    for field, text in (("source", row.source), ("destination", row.destination), ("bytes", row.bytes),
                        ("subject", row.subject), ("peer_context", row.peer), ("peer_to", row.peer_to)):
        if text:
            lines.append(f"call.{field} = ENTRY_U64({text});")
    return [indent + line for line in lines]


# Passed by value: check gets their address.
STRUCTURES = ("CUipcEventHandle", "CUipcMemHandle", "CUmemLocation")


def check(export, name, indent):
    """What the rules of order (shim/check/check.h) need of a call: struct call, and its arguments as they came, one word each."""
    words = []
    for parameter in export.prototype.parameters:
        if parameter.type in ("float", "double"):
            words.append("0")
        else:
            words.append(f"ENTRY_U64({'&' if parameter.type in STRUCTURES else ''}{parameter.name})")
    result = ", result_" if name == "after" else ""
    lines = ["if (entry_unlikely(check_on)) {", f"\tconst uint64_t arguments_[] = {{{', '.join(words) or '0'}}};", "",
             f"\tcheck_{name}(&call, arguments_{result});", "}"]
    return [indent + line if line else "" for line in lines]


def end(export):
    """What follows sync_after()."""
    row = export.row
    lines = [f"\tstate_{hook.name}(&call, result_);" for hook in row.result]
    if any(hook.name == "context_observed" for hook in row.result):
        lines += ["\tif (entry_unlikely(rewrite_active()) && result_ == CUDA_SUCCESS)", "\t\trewrite_context_synchronized(&call);"]
    if row.after:
        lines.append("\tif (result_ == CUDA_SUCCESS) {")
        lines += ["\t\t" + hook.c_call() for hook in row.after]
        lines.append("\t}")
    return lines + ["\tstate_after(&call, result_);", *check(export, "after", "\t"), "\tbusy_end(busy_);", "\tentry_rooms_leave();", "\treturn result_;", "}", ""]


def remembered_launch(export, short):
    """The wrapper of a launch: small, since all of it is fetched anew after every launch; the rest is in long_way()."""
    row, prototype, name = export.row, export.prototype, export.name
    arguments = prototype.arguments()
    ask = f"state_launch_remembered(FUNCTION_{name} + 1, {row.stream_argument}, {row.subject}, &ready_)"
    return ["\tstruct launch_ready ready_;", "\tCUresult result_;", "",
            f"\tif (entry_likely({ask if short == 'true' else f'{short} && {ask}'})) {{",
            f"\t\tresult_ = (({prototype.declare_pointer(' ')})ready_.real)({arguments});",
            "\t\tif (entry_likely(result_ == CUDA_SUCCESS))", "\t\t\tstate_launch_succeeded(&ready_);",
            "\t\telse", "\t\t\tstate_launch_failed(result_);", "\t\tstate_launch_is_over();", "\t\treturn result_;", "\t}",
            f"\treturn long_{name}(__builtin_return_address(0), ENTRY_FRAME(), {arguments});", "}", ""]


def long_way(export, short):
    """A launch that has to be timed, or has something to say."""
    row, prototype, name = export.row, export.prototype, export.name
    arguments = prototype.arguments()
    per_thread = "true" if prototype.per_thread else "false"
    place = "return_address_, frame_"
    # Of a plain launch nobody says that it is under way.
    busy = [f"\t\tbusy_ = busy_begin(entry_thread.busy, FUNCTION_{name});"]
    head = f"static ENTRY_LONG CUresult long_{name}(const void *return_address_, const void *frame_, {prototype.parameter_list()})"
    # Its symbol says whose part it is, as a compiler's own pieces do: the witness knows a wrapper's call by that.
    return [f'{head} __asm__("{name}.long");', head, "{",
            f"\t{prototype.declare_pointer('real_')};", "\tstruct state_launch launch_;", "\tuint64_t entered_, left_;", "\tstruct busy busy_ = {0};", "\tstruct call call;",
            *legacy_variables(export),
            "\tCUresult result_;", "\tbool rooms_, plain_;", "", f"\trooms_ = entry_count(FUNCTION_{name});",
            # One in a row comes here to be timed: no listener is told of it, as of the others.
            f"\tUSDT_SCOPE_LATER(FUNCTION_{name});", f"\treal_ = ENTRY_DRIVER({name});", "\tif (entry_unlikely(!real_))", f"\t\treturn entry_missing(FUNCTION_{name});",
            *passes(export, arguments, ["\t\tUSDT_SCOPE_OPEN(true);"]), "\tentry_rooms_enter();",
            "\tpass_.context = NULL;", "\tstate_launch_begins();",
            *([] if short == "true" else [f"\tplain_ = {short} &&"]),
            f"\t{'plain_ = ' if short == 'true' else chr(9) + ' '}(state_launch_is_plain({row.stream_argument}, {row.subject}, {per_thread}, &launch_) ||",
            "\t\t  entry_joins(&launch_, &call));",
            "\tif (!plain_) {", "\t\tUSDT_SCOPE_OPEN(false);", "\t\tstate_launch_is_over();", *begin(export, "\t\t", place), *busy, "\t\tstate_before(&call);",
            *check(export, "before", "\t\t"), *legacy_enter(export, "\t\t"), "\t}",
            "\tentry_rooms_leave();", "\tentered_ = plain_ && launch_.clock == LAUNCH_READ_LEFT ? 0 : clock_ticks();",
            "\tif (!plain_)", f"\t\tbusy_reaches(busy_.record, FUNCTION_{name}, entered_);",
            # Loading a function may drain the device.
            f"\tresult_ = entry_unlikely(!plain_ && call.flags & CALL_FIRST_USE) ? DRAINING(real_({arguments})) : real_({arguments});",
            "\tleft_ = clock_ticks();", "\tif (plain_)", "\t\tstate_launch_is_over();", "\tentry_rooms_enter();", *legacy_leave(export),
            "\tif (plain_ && result_ == CUDA_SUCCESS && state_launch_done(&launch_, entered_, left_)) {",
            "\t\tif (launch_.is_joining)",
            f"\t\t\tsync_launch_joined(FUNCTION_{name}, &launch_, &(struct sync_launch){{entered_, left_, return_address_, frame_}});", "\t\telse",
            f"\t\t\tstate_launch_remember(&launch_, FUNCTION_{name} + 1, entry_thread.counters + FUNCTION_{name}, (void (*)(void))real_);",
            "\t\tentry_rooms_leave();", "\t\treturn result_;", "\t}",
            # The scope that it should have had: what is found of it is found in one.
            "\tif (plain_) {", "\t\tUSDT_SCOPE_OPEN(false);", *begin(export, "\t\t", place), *busy, "\t\tstate_launch_late(&launch_, &call);", "\t}",
            "\tcall.entered = entered_ ? entered_ : left_;", "\tcall.left = left_;", "\tsync_after(&call, result_);", *end(export)]


def wrapper(export):
    """The C text of one wrapper. Every one takes the same steps in the same order; what a row does not name is left out."""
    row, prototype, name = export.row, export.prototype, export.name
    arguments = prototype.arguments()
    number = f"FUNCTION_{name}"
    pointer = prototype.declare_pointer("real_")
    lines = [f"ENTRY_EXPORT {prototype.declare()};", f"{prototype.declare()}", "{"]
    if row.level == "count" and row.rewrite:
        # A getter: what the rewrites know of it answers, without a struct call.
        lines += [f"\t{pointer};", "\tCUresult result_;", "\tbool rooms_, done_;", "", f"\trooms_ = entry_count({number});",
                  scope(export), f"\treal_ = ENTRY_DRIVER({name});", "\tif (entry_unlikely(!real_))", f"\t\treturn entry_missing({number});",
                  "\tif (entry_unlikely(rewrite_active()) && rooms_) {", "\t\tentry_rooms_enter();",
                  f"\t\tdone_ = {row.rewrite[0].c_rewrite('NULL')};", "\t\tentry_rooms_leave();",
                  "\t\tif (done_)", "\t\t\treturn result_;", "\t}", f"\treturn {changes(export, f'real_({arguments})')};", "}", ""]
        return "\n".join(lines)
    if row.level == "count":
        forget = ["\tstate_launch_end_row();"] if row.kind == "context" else []
        # By itself, so that the call stays a jump where nobody listens.
        lines = [f'static ENTRY_COLD CUresult listened_{name}({prototype.parameter_list()}) __asm__("{name}.listened");', "",
                 f"static ENTRY_COLD CUresult listened_{name}({prototype.parameter_list()})", "{",
                 f"\tUSDT_SCOPE({number}, entry_thread.hold != 0);", "", f"\treturn {changes(export, f'ENTRY_DRIVER({name})({arguments})')};", "}", ""] + lines
        lines += [f"\t{pointer};", "", f"\tentry_count({number});", *forget, f"\treal_ = ENTRY_DRIVER({name});",
                  "\tif (entry_unlikely(!real_))", f"\t\treturn entry_missing({number});",
                  "\tif (usdt_scope_listens())", f"\t\treturn listened_{name}({arguments});", f"\treturn {changes(export, f'real_({arguments})')};", "}", ""]
        return "\n".join(lines)
    short = short_way(export)
    if short:
        lines = long_way(export, short) + lines + remembered_launch(export, short)
        return "\n".join(lines)
    room = ["\tstruct rewrite_room room_ = {0};", "\tbool again_;"] if row.retry != "none" else []
    lines += [f"\t{pointer};", "\tstruct call call;", *legacy_variables(export), "\tCUresult result_;", "\tstruct busy busy_;", "\tbool rooms_;", *room, "",
              f"\trooms_ = entry_count({number});", scope(export), *short_rewrite(export), f"\treal_ = ENTRY_DRIVER({name});",
              "\tif (entry_unlikely(!real_))", f"\t\treturn entry_missing({number});",
              *passes(export, arguments)]
    lines += begin(export, "\t") + ["\tentry_rooms_enter();", f"\tbusy_ = busy_begin(entry_thread.busy, {number});", "\tstate_before(&call);"]
    lines += ["\t" + hook.c_call() for hook in row.before]
    lines += check(export, "before", "\t") + legacy_enter(export, "\t")
    ask = ["entry_rooms_leave();", f"call.entered = busy_reaches(busy_.record, {number}, clock_ticks());", f"result_ = {real_call(export)};", *again(export),
           "call.left = clock_ticks();", "entry_rooms_enter();"]
    if row.rewrite:
        # A rewrite reads the clock around what it asks of the driver itself. What it waited for before it gave up belongs to the call.
        ask[1] = f"call.entered = busy_reaches(busy_.record, {number}, call.entered ? call.entered : clock_ticks());"
        lines += [f"\tif (!entry_unlikely(rewrite_active()) || !{row.rewrite[0].c_rewrite()}) {{",
                  *["\t\t" + line for line in ask], "\t}"]
        if row.host_memory != "stays":
            # What it asked of the driver in the program's place. What it had already is known to the driver as ever.
            lines[-1:] = ["\t} else if (!(call.flags & CALL_REWRITTEN)) {", "\t\tknown_changed();", "\t}"]
    else:
        lines += ["\t" + line for line in ask]
    lines += legacy_leave(export)
    lines.append("\tsync_after(&call, result_);")
    lines += end(export)
    return "\n".join(lines)


def real_call(export):
    """The call of the driver's function; one that may wait in the middle of it keeps out of the way of staged copies (shim/stage/drain.h)."""
    call = f"real_({export.prototype.arguments()})"
    drains = export.row.kind == "module" or (export.row.kind not in ("launch", "wait") and DRAINS.intersection(export.row.rules))
    return changes(export, f"DRAINING({call})" if drains else call)


def scope(export):
    """For who listens from outside (shim/emit/usdt.h): the call is in the library's hands until it returns."""
    return f"\tUSDT_SCOPE(FUNCTION_{export.name}, !rooms_);"


def short_rewrite(export):
    """What a rewrite can do at once, without a struct call (shim/rewrite/short.h)."""
    hook = export.row.rewrite[0] if export.row.rewrite else None
    if not hook or hook.name not in SHORT_REWRITES:
        return []
    return [f"\tif (entry_likely(rooms_) && {SHORT_REWRITES[hook.name]}) {{", "\t\tentry_rooms_enter();",
            f"\t\trooms_ = !short_{hook.name}({', '.join([f'FUNCTION_{export.name}', *hook.arguments])});", "\t\tentry_rooms_leave();",
            "\t\tif (!rooms_)", "\t\t\treturn CUDA_SUCCESS;", "\t}"]


def again(export):
    """A call that found no memory and had no effect is made again, as long as a rewrite can give some back."""
    if export.row.retry == "none":
        return []
    return ["while (entry_unlikely(result_ == CUDA_ERROR_OUT_OF_MEMORY) && rewrite_active()) {", "\tentry_rooms_enter();",
            "\tagain_ = rewrite_make_room(&call, &room_);", "\tentry_rooms_leave();", "\tif (!again_)", "\t\tbreak;",
            f"\tresult_ = {real_call(export)};", "}"]


def check_names(export):
    """Parameters must not shadow what a wrapper calls its own."""
    for name in export.prototype.names():
        if name in ("call", "result_", "real_", "rooms_", "plain_", "launch_", "entered_", "left_",
                    "ready_", "done_", "again_", "room_", "scope_", "return_address_", "frame_", "pass_", "config_", "busy_", "arguments_"):
            sys.exit(f"wrappers: {export.name}: parameter '{name}' has the name of a wrapper's variable")


def write_wrappers(out, exports, files):
    for index in range(files):
        text = HEAD.format(what="Wrappers: one a driver function, all with the same steps (shim/call.h).")
        text += '#include "entry/entry.h"\n\n'
        text += "\n".join(wrapper(export) for export in exports[index::files] if export.name not in SPECIAL)
        catalogue_module.write(os.path.join(out, f"wrappers_{index}.c"), text)


def main():
    parser = argparse.ArgumentParser(description="write the entry room's generated files")
    parser.add_argument("--include", required=True, help="folder with cuda.h")
    parser.add_argument("--catalogue", required=True, help="folder with functions.yaml")
    parser.add_argument("--cpp", default=os.environ.get("CC", "cc"), help="compiler used as preprocessor")
    parser.add_argument("--driver-ops", help="write driver_ops.h here")
    parser.add_argument("--out", help="folder for the files of the entry room")
    parser.add_argument("--files", type=int, default=4, help="how many wrappers_<n>.c")
    arguments = parser.parse_args()
    try:
        prototypes = prototypes_module.parse(arguments.include, arguments.cpp)
        catalogue = catalogue_module.load(arguments.catalogue)
        exports = catalogue.exports(prototypes)
        names = catalogue.names(prototypes)
    except (catalogue_module.CatalogueError, prototypes_module.HeaderError) as error:
        sys.exit(f"wrappers: {error}")
    for export in exports:
        check_names(export)
    # Such waits were seen to hold what submissions of all threads need (H200, tests/bench/gates: frees, synchronous copies, memsets of host memory, limits,
    # loading). Waits that the program asks for were not, nor were full queues and asynchronous copies of pageable memory.
    DRAINS.update(rule.slug for rule in catalogue.rules
                  if rule.wait_class == "implicit" and rule.scope != "host" and rule.slug not in HOLD_NOTHING)
    try:
        if arguments.driver_ops:
            write_driver_ops(arguments.driver_ops, names, prototypes)
        if arguments.out:
            out = arguments.out
            write_name_slots(os.path.join(out, "name_slots.h"), names)
            write_table(os.path.join(out, "wrapper_table.c"), names, prototypes)
            write_map(os.path.join(out, "slipstream.map"), names)
            write_thunks(os.path.join(out, "thunks.S"), names, prototypes)
            write_wrappers(out, exports, arguments.files)
    except OSError as error:
        sys.exit(f"wrappers: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
