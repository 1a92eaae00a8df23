// Where a thread of the target waits for the controller: it has loaded or unloaded libraries, and
// goes on when the controller has looked at them.
//
//     rdi = LoaderCell
//
// Called where a function begins (nobody uses the red zone), keeps all registers but rdi, and the
// flags. Position independent, refers to nothing.
//
// A controller that is gone must not be waited for. While it is at work it changes `heartbeat`; a second
// without, and it counts as absent, for this thread and all that come later, until it answers again.
// The second is counted by the clock: a program that gets signals all the time is woken all the time.
// While it is absent no system call is made.

#include "layout/runtime_offsets.h"

        .set    SYS_FUTEX, 202
        .set    FUTEX_WAIT, 0
        .set    FUTEX_WAKE, 1
        .set    EVERYBODY, 0x7fffffff
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
        jne     out                             // it looks now and then, if it is back
        leaq    PP_LOADER_REQUESTS(%rbx), %rdi
        movl    $FUTEX_WAKE, %esi
        movl    $EVERYBODY, %edx
        movl    $SYS_FUTEX, %eax
        syscall

        movl    PP_LOADER_HEARTBEAT(%rbx), %r13d
1:      rdtsc
        shlq    $32, %rdx
        leaq    (%rdx, %rax), %r12
        addq    PP_LOADER_TIMEOUT(%rbx), %r12  // when timeout ends

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
        movl    %edx, %ecx                      // what the kernel is to compare with
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
