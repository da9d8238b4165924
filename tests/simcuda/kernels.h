// SPDX-License-Identifier: MIT
/*
 * PTX of the built-in kernels, for test programs: real drivers compile it, the simulated driver
 * finds the kernels by their entry names and runs kernels.c. Both compute the same bytes. Launch
 * each with any grid and block; spin, gate and hash do their work in thread 0 of block 0 only (the
 * others leave at once).
 */
#ifndef SIMCUDA_KERNELS_H
#define SIMCUDA_KERNELS_H

#define SIMCUDA_PTX_INDEX                                                                          \
	"	mov.u32 %r1, %ctaid.x;\n"                                                                \
	"	mov.u32 %r2, %ntid.x;\n"                                                                 \
	"	mov.u32 %r3, %tid.x;\n"                                                                  \
	"	mad.lo.u32 %r4, %r1, %r2, %r3;\n" /* first element of this thread */               \
	"	mov.u32 %r5, %nctaid.x;\n"                                                               \
	"	mul.lo.u32 %r5, %r5, %r2;\n" /* stride */

#define SIMCUDA_PTX_REGISTERS                                                                      \
	"	.reg .pred %p<4>;\n"                                                                     \
	"	.reg .b32 %r<16>;\n"                                                                     \
	"	.reg .b64 %d<16>;\n"                                                                     \
	"	.reg .f32 %f<8>;\n"

static const char simcuda_ptx[] =
	".version 6.4\n"
	".target sm_70\n"
	".address_size 64\n"
	/* spin(u64 ns): keeps the device busy for ns of its clock */
	".visible .entry spin(.param .u64 p0)\n{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX
	"	setp.ne.u32 %p1, %r4, 0;\n"
	"	@%p1 bra SPIN_END;\n"
	"	ld.param.u64 %d1, [p0];\n"
	"	mov.u64 %d2, %globaltimer;\n"
	"SPIN_LOOP:\n"
	"	mov.u64 %d3, %globaltimer;\n"
	"	sub.u64 %d4, %d3, %d2;\n"
	"	setp.lt.u64 %p2, %d4, %d1;\n"
	"	@%p2 bra SPIN_LOOP;\n"
	"SPIN_END:\n	ret;\n}\n"
	/* gate(u32 *flag): waits until *flag is not 0 */
	".visible .entry gate(.param .u64 p0)\n{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX
	"	setp.ne.u32 %p1, %r4, 0;\n"
	"	@%p1 bra GATE_END;\n"
	"	ld.param.u64 %d1, [p0];\n"
	"	cvta.to.global.u64 %d1, %d1;\n"
	"GATE_LOOP:\n"
	"	ld.volatile.global.u32 %r6, [%d1];\n"
	"	setp.eq.u32 %p2, %r6, 0;\n"
	"	@%p2 bra GATE_LOOP;\n"
	"	membar.sys;\n"
	"GATE_END:\n	ret;\n}\n"
	/* add(f32 *a, f32 *b, f32 *c, u32 n): c[i] = a[i] + b[i] */
	".visible .entry add(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n"
	"{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX "	ld.param.u64 %d1, [p0];\n"
	"	ld.param.u64 %d2, [p1];\n"
	"	ld.param.u64 %d3, [p2];\n"
	"	ld.param.u32 %r6, [p3];\n"
	"ADD_LOOP:\n"
	"	setp.ge.u32 %p1, %r4, %r6;\n"
	"	@%p1 bra ADD_END;\n"
	"	mul.wide.u32 %d4, %r4, 4;\n"
	"	add.u64 %d5, %d1, %d4;\n"
	"	add.u64 %d6, %d2, %d4;\n"
	"	add.u64 %d7, %d3, %d4;\n"
	"	ld.f32 %f1, [%d5];\n"
	"	ld.f32 %f2, [%d6];\n"
	"	add.rn.f32 %f3, %f1, %f2;\n"
	"	st.f32 [%d7], %f3;\n"
	"	add.u32 %r4, %r4, %r5;\n"
	"	bra ADD_LOOP;\n"
	"ADD_END:\n	ret;\n}\n"
	/* saxpy(f32 a, f32 *x, f32 *y, u32 n): y[i] = fma(a, x[i], y[i]) */
	".visible .entry saxpy(.param .f32 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n"
	"{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX "	ld.param.f32 %f4, [p0];\n"
	"	ld.param.u64 %d1, [p1];\n"
	"	ld.param.u64 %d2, [p2];\n"
	"	ld.param.u32 %r6, [p3];\n"
	"SAXPY_LOOP:\n"
	"	setp.ge.u32 %p1, %r4, %r6;\n"
	"	@%p1 bra SAXPY_END;\n"
	"	mul.wide.u32 %d4, %r4, 4;\n"
	"	add.u64 %d5, %d1, %d4;\n"
	"	add.u64 %d6, %d2, %d4;\n"
	"	ld.f32 %f1, [%d5];\n"
	"	ld.f32 %f2, [%d6];\n"
	"	fma.rn.f32 %f3, %f4, %f1, %f2;\n"
	"	st.f32 [%d6], %f3;\n"
	"	add.u32 %r4, %r4, %r5;\n"
	"	bra SAXPY_LOOP;\n"
	"SAXPY_END:\n	ret;\n}\n"
	/* copy(u8 *to, u8 *from, u64 bytes) */
	".visible .entry copy(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n"
	"{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX "	ld.param.u64 %d1, [p0];\n"
	"	ld.param.u64 %d2, [p1];\n"
	"	ld.param.u64 %d3, [p2];\n"
	"	cvt.u64.u32 %d4, %r4;\n"
	"	cvt.u64.u32 %d5, %r5;\n"
	"COPY_LOOP:\n"
	"	setp.ge.u64 %p1, %d4, %d3;\n"
	"	@%p1 bra COPY_END;\n"
	"	add.u64 %d6, %d1, %d4;\n"
	"	add.u64 %d7, %d2, %d4;\n"
	"	ld.u8 %r6, [%d7];\n"
	"	st.u8 [%d6], %r6;\n"
	"	add.u64 %d4, %d4, %d5;\n"
	"	bra COPY_LOOP;\n"
	"COPY_END:\n	ret;\n}\n"
	/* fill(u32 *to, u32 value, u32 n): to[i] = value */
	".visible .entry fill(.param .u64 p0, .param .u32 p1, .param .u32 p2)\n"
	"{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX "	ld.param.u64 %d1, [p0];\n"
	"	ld.param.u32 %r7, [p1];\n"
	"	ld.param.u32 %r6, [p2];\n"
	"FILL_LOOP:\n"
	"	setp.ge.u32 %p1, %r4, %r6;\n"
	"	@%p1 bra FILL_END;\n"
	"	mul.wide.u32 %d4, %r4, 4;\n"
	"	add.u64 %d5, %d1, %d4;\n"
	"	st.u32 [%d5], %r7;\n"
	"	add.u32 %r4, %r4, %r5;\n"
	"	bra FILL_LOOP;\n"
	"FILL_END:\n	ret;\n}\n"
	/* hash(u64 *state, u8 *data, u32 n, u32 salt): folds salt, then n bytes of data, into
	 * *state (FNV-1a); the result depends on the order of the launches */
	".visible .entry hash(.param .u64 p0, .param .u64 p1, .param .u32 p2, .param .u32 p3)\n"
	"{\n" SIMCUDA_PTX_REGISTERS SIMCUDA_PTX_INDEX "	setp.ne.u32 %p1, %r4, 0;\n"
	"	@%p1 bra HASH_END;\n"
	"	ld.param.u64 %d1, [p0];\n"
	"	ld.param.u64 %d2, [p1];\n"
	"	ld.param.u32 %r6, [p2];\n"
	"	ld.param.u32 %r7, [p3];\n"
	"	ld.u64 %d3, [%d1];\n"
	"	cvt.u64.u32 %d4, %r7;\n"
	"	xor.b64 %d3, %d3, %d4;\n"
	"	mul.lo.u64 %d3, %d3, 1099511628211;\n"
	"	mov.u32 %r4, 0;\n"
	"HASH_LOOP:\n"
	"	setp.ge.u32 %p2, %r4, %r6;\n"
	"	@%p2 bra HASH_STORE;\n"
	"	ld.u8 %r8, [%d2];\n"
	"	cvt.u64.u32 %d4, %r8;\n"
	"	xor.b64 %d3, %d3, %d4;\n"
	"	mul.lo.u64 %d3, %d3, 1099511628211;\n"
	"	add.u64 %d2, %d2, 1;\n"
	"	add.u32 %r4, %r4, 1;\n"
	"	bra HASH_LOOP;\n"
	"HASH_STORE:\n"
	"	st.u64 [%d1], %d3;\n"
	"HASH_END:\n	ret;\n}\n";

#endif
