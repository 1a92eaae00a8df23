// What functions call that are compiled with -pg: mcount, after they have made their frame, or
// __fentry__ (-mfentry), before anything else. Both preserve the argument registers.

        .macro  save_arguments
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        pushq   %rdi
        pushq   %r8
        pushq   %r9
        .endm
        .macro  note_call_and_return
        movq    56(%rsp), %rsi          // its return address, in the function
        movq    %rsp, %rax
        pushq   %rbp
        movq    %rax, %rbp
        andq    $-16, %rsp
        call    note_call
        movq    %rbp, %rax
        movq    -8(%rax), %rbp
        movq    %rax, %rsp
        popq    %r9
        popq    %r8
        popq    %rdi
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        ret
        .endm

        .text
        .globl  mcount
        .type   mcount, @function
mcount: save_arguments
        movq    8(%rbp), %rdi           // the function's caller, from its frame
        note_call_and_return
        .size   mcount, . - mcount

        .globl  __fentry__
        .type   __fentry__, @function
__fentry__:
        save_arguments
        movq    64(%rsp), %rdi          // the function's caller, on top of the stack
        note_call_and_return
        .size   __fentry__, . - __fentry__
        .section .note.GNU-stack, "", @progbits
