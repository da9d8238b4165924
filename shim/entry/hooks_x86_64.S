// SPDX-License-Identifier: MIT
/*
 * dlsym, dlopen and dlmopen, exported without a version so that they stand for every version a program may ask for.
 *
 * glibc finds the caller by the return address: of RTLD_NEXT and RTLD_DEFAULT for dlsym, of the run path and the namespace for the others. So a
 * call that is not ours must reach glibc by a jump, with the stack and the arguments as they came. The C part (dlsym.c, dlopen.c) is
 * given the arguments and decides; it returns an address, and in rdx whether to jump there (not 0) or to return it (0).
 */
	.macro	HOOK name, handler, return_address
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	.if	\return_address
	movq	24(%rsp), %rdx
	.endif
	call	\handler
	movq	%rdx, %rcx
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rcx, %rcx
	jz	1f
	jmp	*%rax
1:	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	HOOK	dlsym, entry_dlsym, 1
	HOOK	dlopen, entry_dlopen, 0
	HOOK	dlmopen, entry_dlmopen, 0
	.section .note.GNU-stack, "", @progbits
