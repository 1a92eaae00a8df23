// void call_with_registers(void* function, CallRegisters* in_out)
        .text
        .globl  call_with_registers
        .type   call_with_registers, @function
call_with_registers:
        push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        push    %rdi                    // 8(%rsp)
        push    %rsi                    // (%rsp)
        mov     %rsi, %r15
        pushq   120(%r15)
        popfq
        mov     0(%r15), %rax
        mov     8(%r15), %rbx
        mov     16(%r15), %rcx
        mov     24(%r15), %rdx
        mov     32(%r15), %rsi
        mov     40(%r15), %rdi
        mov     48(%r15), %rbp
        mov     56(%r15), %r8
        mov     64(%r15), %r9
        mov     72(%r15), %r10
        mov     80(%r15), %r11
        mov     88(%r15), %r12
        mov     96(%r15), %r13
        mov     104(%r15), %r14
        mov     112(%r15), %r15
        call    *8(%rsp)
        pushfq
        push    %r15
        mov     16(%rsp), %r15
        mov     %rax, 0(%r15)
        mov     %rbx, 8(%r15)
        mov     %rcx, 16(%r15)
        mov     %rdx, 24(%r15)
        mov     %rsi, 32(%r15)
        mov     %rdi, 40(%r15)
        mov     %rbp, 48(%r15)
        mov     %r8, 56(%r15)
        mov     %r9, 64(%r15)
        mov     %r10, 72(%r15)
        mov     %r11, 80(%r15)
        mov     %r12, 88(%r15)
        mov     %r13, 96(%r15)
        mov     %r14, 104(%r15)
        popq    112(%r15)
        popq    120(%r15)
        pop     %rsi
        pop     %rdi
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   call_with_registers, . - call_with_registers
        .section .note.GNU-stack, "", @progbits
