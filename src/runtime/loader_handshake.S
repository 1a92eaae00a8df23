// The target's end of the loader handshake: a thread that has loaded or unloaded libraries waits
// here until the controller has looked at them.
//
//     rdi = LoaderHandshake
//
// Called at the entry of a function, where the red zone is not in use. Keeps the flags and all
// registers but rdi. Position independent; refers to nothing else.
//
// A thread must not wait for a controller that is gone. A controller at work changes `heartbeat`.
// After a timeout of a second without a change it counts as gone, for this thread and all later
// ones, until it answers again. The timeout is measured by the clock, not by counting waits, since
// signals may wake the thread at any rate. While the controller is gone, no system call is made.

#include "layout/runtime_offsets.h"

        .set    SYS_FUTEX, 202
        .set    FUTEX_WAIT, 0
        .set    FUTEX_WAKE, 1
        .set    ALL_WAITERS, 0x7fffffff
        .set    EINTR, 4
        .set    EAGAIN, 11
        .set    ETIMEDOUT, 110
        .set    NAP, 100000000

        .section .pinprick_loader_handshake, "a", @progbits
        .p2align 4
        .globl  pp_loader_handshake
        .hidden pp_loader_handshake
pp_loader_handshake:
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
        cmpl    $0, PP_LOADER_CONTROLLER_GONE(%rbx)
        jne     out                             // a controller that is back looks by itself
        leaq    PP_LOADER_REQUESTS(%rbx), %rdi
        movl    $FUTEX_WAKE, %esi
        movl    $ALL_WAITERS, %edx
        movl    $SYS_FUTEX, %eax
        syscall

        movl    PP_LOADER_HEARTBEAT(%rbx), %r13d
1:      rdtsc
        shlq    $32, %rdx
        leaq    (%rdx, %rax), %r12
        addq    PP_LOADER_TIMEOUT(%rbx), %r12  // r12 = when the timeout ends

again:  movl    PP_LOADER_ANSWERED(%rbx), %edx
        movl    %edx, %eax
        subl    %ebp, %eax
        jns     out                             // answered - request >= 0, modulo 2^32
        cmpl    $0, PP_LOADER_CONTROLLER_GONE(%rbx)
        jne     out
        movl    PP_LOADER_HEARTBEAT(%rbx), %ecx
        cmpl    %ecx, %r13d
        movl    %ecx, %r13d
        jne     1b
        movl    %edx, %ecx                      // futex(2) compares with this
        rdtsc
        shlq    $32, %rdx
        orq     %rdx, %rax
        cmpq    %r12, %rax
        jae     controller_gone
        movl    %ecx, %edx
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
controller_gone:
        movl    $1, PP_LOADER_CONTROLLER_GONE(%rbx)

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
        .globl  pp_loader_handshake_end
        .hidden pp_loader_handshake_end
pp_loader_handshake_end:

        .section .note.GNU-stack, "", @progbits
