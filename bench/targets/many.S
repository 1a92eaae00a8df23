// FUNCTIONS small functions, many_0 and up, of eight shapes in turn: small functions as from
// compilers, with different first instructions, which decide whether a jump fits. Each takes a
// number and returns another one; the shapes that call, call the next function, which is a leaf.
//
// many_table has their distances from it (4 bytes each, so that there are no relocations),
// many_count their number.

        .altmacro
        .text

        .macro  begin_function number
        .globl  many_\number
        .type   many_\number, @function
        .p2align 4
many_\number:
        .cfi_startproc
        .pushsection .rodata.many, "a", @progbits
        .long   many_\number - many_table
        .popsection
        .endm

        .macro  end_function number
        .cfi_endproc
        .size   many_\number, . - many_\number
        .endm

        // What lies between entry and return: some work on %rax, with branches.
        .macro  work number
        leaq    (%rdi,%rdi,2), %rax
        addq    $\number, %rax
        testb   $1, %al
        je      1f
        leaq    many_zeros(%rip), %rdx
        addq    (%rdx), %rax
        xorq    $0x55, %rax
        jmp     2f
1:      imulq   $7, %rax, %rax
        subq    $\number, %rax
        movq    %rax, %rcx
        shrq    $3, %rcx
        xorq    %rcx, %rax
2:
        .endm

        // A frame pointer, and space on the stack.
        .macro  shape_frame number
        begin_function \number
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register rbp
        subq    $32, %rsp
        movq    %rdi, -8(%rbp)
        work    \number
        addq    -8(%rbp), %rax
        leave
        .cfi_def_cfa rsp, 8
        ret
        end_function \number
        .endm

        // Registers saved, and a call.
        .macro  shape_call number, next
        begin_function \number
        pushq   %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset rbx, -16
        movq    %rdi, %rbx
        addq    $\number, %rdi
        call    many_\next
        leaq    (%rax,%rbx), %rdi
        popq    %rbx
        .cfi_def_cfa_offset 8
        work    \number
        ret
        end_function \number
        .endm

        // One instruction of 5 bytes or more.
        .macro  shape_wide number
        begin_function \number
        movl    $\number, %edx
        addq    %rdx, %rdi
        work    \number
        ret
        end_function \number
        .endm

        // An endbr64, and a branch directly after it.
        .macro  shape_test number
        begin_function \number
        endbr64
        testq   %rdi, %rdi
        je      3f
        work    \number
        ret
3:      movl    $1, %eax
        ret
        end_function \number
        .endm

        // Many short instructions.
        .macro  shape_pushes number
        begin_function \number
        pushq   %r12
        .cfi_def_cfa_offset 16
        .cfi_offset r12, -16
        pushq   %rbp
        .cfi_def_cfa_offset 24
        .cfi_offset rbp, -24
        pushq   %rbx
        .cfi_def_cfa_offset 32
        .cfi_offset rbx, -32
        movq    %rdi, %rbx
        leaq    1(%rdi), %rbp
        xorl    %r12d, %r12d
        work    \number
        addq    %rbx, %rax
        addq    %rbp, %rax
        addq    %r12, %rax
        popq    %rbx
        .cfi_def_cfa_offset 24
        popq    %rbp
        .cfi_def_cfa_offset 16
        popq    %r12
        .cfi_def_cfa_offset 8
        ret
        end_function \number
        .endm

        // An operand relative to rip.
        .macro  shape_global number
        begin_function \number
        movq    many_zeros(%rip), %rcx
        addq    %rcx, %rdi
        work    \number
        ret
        end_function \number
        .endm

        // The nop of -fpatchable-function-entry.
        .macro  shape_nop number
        begin_function \number
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
        work    \number
        ret
        end_function \number
        .endm

        // Shorter than a jump; padding follows.
        .macro  shape_tiny number
        begin_function \number
        movq    %rdi, %rax
        ret
        end_function \number
        .endm

        .macro  eight first, second, third, fourth, fifth, sixth, seventh, eighth
        shape_frame \first
        shape_call \second, \third
        shape_wide \third
        shape_test \fourth
        shape_pushes \fifth
        shape_call \sixth, \seventh
        shape_global \seventh
        .if     (\eighth / 8) % 2
        shape_nop \eighth
        .else
        shape_tiny \eighth
        .endif
        .endm

        .section .rodata.many, "a", @progbits
        .globl  many_table, many_count
        .hidden many_table, many_count
        .p2align 4
many_count:
        .quad   FUNCTIONS
many_table:

        .data
        .hidden many_zeros
many_zeros:
        .quad   0

        .text
        .set    at, 0
        .rept   FUNCTIONS / 8
        eight   %at, %at+1, %at+2, %at+3, %at+4, %at+5, %at+6, %at+7
        .set    at, at + 8
        .endr
        .p2align 4

        .section .note.GNU-stack, "", @progbits
