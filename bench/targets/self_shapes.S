// The functions that self_target probes.

        .macro begin name
        .text
        .globl  \name
        .type   \name, @function
        .p2align 6
\name:
        .cfi_startproc
        .endm

        .macro end name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        begin   self_two
        leaq    (%rdi,%rsi), %rax
        addq    $0, %rax
        ret
        end     self_two

// At offset 2 is a block of one byte: there are branches to it, and to the byte after it.
        begin   self_unroomy
        jmp     2f
1:      ret
2:      leaq    1(%rdi), %rax
        jmp     1b
        end     self_unroomy

        begin   self_trapping
        jmp     2f
1:      int3
        ret
2:      leaq    1(%rdi), %rax
        jmp     1b
        end     self_trapping

        .section .note.GNU-stack, "", @progbits
