// SPDX-License-Identifier: MIT
/* A driver with one function that begins with a breakpoint, which no kernel probes, and one like any other. */
__asm__(".globl cuCtxSynchronize, cuStreamSynchronize_ptsz\n"
	".type cuCtxSynchronize, @function\n"
	".type cuStreamSynchronize_ptsz, @function\n"
	"cuCtxSynchronize: int3\n"
	"	ret\n"
	"cuStreamSynchronize_ptsz: push %rbp\n"
	"	pop %rbp\n"
	"	xor %eax, %eax\n"
	"	ret\n");
