# Linked into a program, it fills the last page of the code: no space is left after it. .fini
# comes last, and at its end the C library's crtn.o has add $8,%rsp and ret.
	.section .fini, "ax", @progbits
	.balign 4096, 0x90
	.fill 4096 - 5, 1, 0x90

	.section .note.GNU-stack, "", @progbits
