// HIVE functions of 16 bytes, hive_0 and up, one after the other from `hive` on. Each returns its
// argument plus 256.

        .altmacro
        .macro  bee number
        .type   hive_\number, @function
        .p2align 4
hive_\number:
        .cfi_startproc
        leaq    256(%rdi), %rax
        ret
        .cfi_endproc
        .size   hive_\number, . - hive_\number
        .endm

        .text
        .p2align 4
        .globl  hive
        .hidden hive
hive:
        .set    number, 0
        .rept   HIVE
        bee     %number
        .set    number, number + 1
        .endr

        .section .note.GNU-stack, "", @progbits
