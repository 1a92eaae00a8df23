// Where a thread of the target waits for the controller: it has loaded or unloaded libraries, and
// goes on when the controller has looked at them.
//
//     rdi = LoaderCell
//
// Called where a function begins (nobody uses the red zone), keeps all registers but rdi, and the
// flags. Position independent, refers to nothing.
//
// A controller that is gone must not be waited for. While it is at work it changes `beat`; a second
// without, and it counts as absent, for this thread and all that come later, until it answers again.
// The second is counted by the clock: a program that gets signals all the time is woken all the time.

#include "layout/runtime_offsets.h"

        .set    SYS_FUTEX, 202
        .set    SYS_CLOCK_GETTIME, 228
        .set    CLOCK_MONOTONIC, 1
        .set    FUTEX_WAIT, 0
        .set    FUTEX_WAKE, 1
        .set    EVERYBODY, 0x7fffffff
        .set    EINTR, 4
        .set    EAGAIN, 11
        .set    ETIMEDOUT, 110
        .set    SECOND, 1000000000
        .set    NAP, 100000000

        .section .pinprick_rendezvous, "a", @progbits
        .p2align 4
        .globl  pp_rendezvous
        .hidden pp_rendezvous
pp_rendezvous:
        pushfq
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        pushq   %r8
        pushq   %r9
        pushq   %r10
        pushq   %r11
        pushq   %rbx
        pushq   %rbp
        pushq   %r12
        pushq   %r13
        subq    $16, %rsp                       // a struct timespec
        movq    %rdi, %rbx

        movl    $1, %ebp
        lock xaddl %ebp, PP_LOADER_REQUESTS(%rbx)
        incl    %ebp                            // ebp = our request
        movl    PP_LOADER_BEAT(%rbx), %r13d
        xorl    %r12d, %r12d                    // r12 = when patience ends; 0: not known yet
        leaq    PP_LOADER_REQUESTS(%rbx), %rdi
        movl    $FUTEX_WAKE, %esi
        movl    $EVERYBODY, %edx
        movl    $SYS_FUTEX, %eax
        syscall

again:  movl    PP_LOADER_ANSWERED(%rbx), %eax
        subl    %ebp, %eax
        jns     out                             // answered - request >= 0, modulo 2^32
        cmpl    $0, PP_LOADER_ABSENT(%rbx)
        jne     out

        movl    $CLOCK_MONOTONIC, %edi
        movq    %rsp, %rsi
        movl    $SYS_CLOCK_GETTIME, %eax
        syscall
        testl   %eax, %eax
        jnz     absent
        imulq   $SECOND, (%rsp), %rax
        addq    8(%rsp), %rax                   // now
        movl    PP_LOADER_BEAT(%rbx), %ecx
        cmpl    %ecx, %r13d
        jne     1f
        testq   %r12, %r12
        jz      1f
        cmpq    %r12, %rax
        jb      2f
        jmp     absent
1:      movl    %ecx, %r13d
        leaq    SECOND(%rax), %r12

2:      movl    PP_LOADER_ANSWERED(%rbx), %edx
        movl    %edx, %eax
        subl    %ebp, %eax
        jns     out
        movq    $0, (%rsp)
        movq    $NAP, 8(%rsp)
        leaq    PP_LOADER_ANSWERED(%rbx), %rdi
        movl    $FUTEX_WAIT, %esi
        movq    %rsp, %r10
        movl    $SYS_FUTEX, %eax
        syscall
        negl    %eax
        jz      again
        cmpl    $EINTR, %eax
        je      again
        cmpl    $EAGAIN, %eax
        je      again
        cmpl    $ETIMEDOUT, %eax
        je      again
absent: movl    $1, PP_LOADER_ABSENT(%rbx)

out:    addq    $16, %rsp
        popq    %r13
        popq    %r12
        popq    %rbp
        popq    %rbx
        popq    %r11
        popq    %r10
        popq    %r9
        popq    %r8
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        popfq
        ret
        .globl  pp_rendezvous_end
        .hidden pp_rendezvous_end
pp_rendezvous_end:

        .section .note.GNU-stack, "", @progbits
