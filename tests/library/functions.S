        .macro function name
        .text
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        .endm

        .macro end name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        function self_window
        leaq    (%rdi,%rdi,2), %rax
        addq    %rsi, %rax
        ret
        end     self_window

        function self_blocked
        movl    $1, %eax
        ret
        end     self_blocked

        function self_below
        movq    %rdi, -8(%rsp)
        movq    %rdi, -128(%rsp)
        nopl    0(%rax,%rax)
        movq    -8(%rsp), %rax
        addq    -128(%rsp), %rax
        ret
        end     self_below

        function self_backward
        std
        nopl    0(%rax,%rax)
        pushfq
        .cfi_adjust_cfa_offset 8
        popq    %rax
        .cfi_adjust_cfa_offset -8
        cld
        ret
        end     self_backward

        function self_insn
        movl    $1000, %eax
        addq    %rdi, %rax
        ret
        end     self_insn

        function self_nop
        nopl    0(%rax,%rax)
        leaq    1(%rdi), %rax
        ret
        end     self_nop

        function self_marked
        endbr64
        leaq    2(%rdi), %rax
        addq    $0, %rax
        ret
        end     self_marked

        function self_short
        jmp     2f
1:      ret
2:      leaq    3(%rdi), %rax
        jmp     1b
        end     self_short

        function self_pushes
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        popq    %rax
        .cfi_adjust_cfa_offset -8
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        incq    %rax
        ret
        end     self_pushes

        function self_steps
        movq    %rdi, %rax
        incq    %rax
        incq    %rax
        incq    %rax
        incq    %rax
        ret
        end     self_steps

        function self_seven
        movq    8(%rsp), %rax
        nop
        ret
        end     self_seven

        function self_half
        addsd   %xmm0, %xmm0
        mulsd   half_of_half(%rip), %xmm0
        ret
        end     self_half

        function self_call_back
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        incq    %rax
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        end     self_call_back

        function self_factorial
        cmpq    $1, %rdi
        ja      1f
        movl    $1, %eax
        ret
1:      pushq   %rdi
        .cfi_adjust_cfa_offset 8
        decq    %rdi
        call    self_factorial
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        imulq   %rdi, %rax
        ret
        end     self_factorial

        function self_unaligned
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        ret
        end     self_unaligned

        function self_waits
        movl    $1, %eax
        movq    %rax, (%rdi)
1:      pause
        cmpq    $1, (%rdi)
        je      1b
        ret
        end     self_waits

        .section .rodata
        .p2align 3
half_of_half:
        .double 0.25

        .section .note.GNU-stack, "", @progbits
