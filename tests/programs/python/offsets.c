// SPDX-License-Identifier: MIT
/*
 * Prints the layout row of shim/sync/python_layout.c for the interpreter whose headers it is
 * compiled against:
 *
 *	cc -DPy_BUILD_CORE -I$INCLUDE -I$INCLUDE/internal tests/programs/python/offsets.c -o offsets
 *	./offsets
 *
 * Not part of the build: the numbers were taken with it from each version's own headers, and the
 * program test checks them against the running interpreters.
 */
#include <Python.h>
#include <stddef.h>
#include <stdio.h>

#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#else
#include <frameobject.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#endif

#define SHOW(name, value) printf("\t.%s = %zu,\n", name, (size_t)(value))

int main(void)
{
	union {
		PyASCIIObject object;
		unsigned int words[sizeof(PyASCIIObject) / sizeof(unsigned int)];
	} bits = {0};
	size_t state = offsetof(PyASCIIObject, state) / sizeof(unsigned int);

	printf("/* %s */\n", PY_VERSION);
	SHOW("thread_id", offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX >= 0x030d0000
	SHOW("current_frame", offsetof(PyThreadState, current_frame));
#elif PY_VERSION_HEX >= 0x030b0000
	SHOW("cframe", offsetof(PyThreadState, cframe));
	SHOW("current_frame", offsetof(_PyCFrame, current_frame));
#else
	SHOW("current_frame", offsetof(PyThreadState, frame));
#endif
#if PY_VERSION_HEX >= 0x030b0000
	SHOW("frame_size", offsetof(_PyInterpreterFrame, localsplus));
	SHOW("frame_previous", offsetof(_PyInterpreterFrame, previous));
#if PY_VERSION_HEX >= 0x030d0000
	SHOW("frame_code", offsetof(_PyInterpreterFrame, f_executable));
	SHOW("frame_instruction", offsetof(_PyInterpreterFrame, instr_ptr));
#else
	SHOW("frame_code", offsetof(_PyInterpreterFrame, f_code));
	SHOW("frame_instruction", offsetof(_PyInterpreterFrame, prev_instr));
#endif
	SHOW("frame_owner", offsetof(_PyInterpreterFrame, owner));
#else
	SHOW("frame_size", offsetof(PyFrameObject, f_localsplus));
	SHOW("frame_previous", offsetof(PyFrameObject, f_back));
	SHOW("frame_code", offsetof(PyFrameObject, f_code));
	SHOW("frame_instruction", offsetof(PyFrameObject, f_lasti));
	SHOW("frame_line", offsetof(PyFrameObject, f_lineno));
#endif
	SHOW("code_filename", offsetof(PyCodeObject, co_filename));
	SHOW("code_name", offsetof(PyCodeObject, co_name));
#if PY_VERSION_HEX >= 0x030b0000
	SHOW("code_qualified_name", offsetof(PyCodeObject, co_qualname));
	SHOW("code_instructions", offsetof(PyCodeObject, co_code_adaptive));
#endif
	SHOW("code_line_table", offsetof(PyCodeObject, co_linetable));
	SHOW("code_first_line", offsetof(PyCodeObject, co_firstlineno));
	SHOW("object_type", offsetof(PyObject, ob_type));
	SHOW("object_size", offsetof(PyVarObject, ob_size));
	SHOW("bytes_data", offsetof(PyBytesObject, ob_sval));
	SHOW("text_length", offsetof(PyASCIIObject, length));
	SHOW("text_state", offsetof(PyASCIIObject, state));
	SHOW("text_ascii_data", sizeof(PyASCIIObject));
	SHOW("text_data", sizeof(PyCompactUnicodeObject));
	bits.object.state.kind = 7;
	printf("\t/* state masks: kind %#x", bits.words[state]);
	bits.object.state.kind = 0;
	bits.object.state.compact = 1;
	printf(" compact %#x", bits.words[state]);
	bits.object.state.compact = 0;
	bits.object.state.ascii = 1;
	printf(" ascii %#x */\n", bits.words[state]);
	return 0;
}
