// SPDX-License-Identifier: MIT
/*
 * dlsym, exported without a version so that it stands for every version a program may ask for.
 *
 * glibc finds the caller of RTLD_NEXT and RTLD_DEFAULT by the return address, so a look-up that is not ours must reach glibc's dlsym by a jump, with
 * the stack as it came. entry_dlsym() (dlsym.c) decides, and returns two words: an address, and whether to jump to it (1) or to
 * return it (0).
 */
	.text
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	24(%rsp), %rdx
	call	entry_dlsym
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rdx, %rdx
	jz	1f
	jmp	*%rax
1:	ret
	.cfi_endproc
	.size	dlsym, . - dlsym
	.section .note.GNU-stack, "", @progbits
