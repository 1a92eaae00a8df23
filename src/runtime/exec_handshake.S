// The target's end of the exec handshake: a thread that is about to execute a program waits here
// until the controller traces it.
//
//     rdi = ExecHandshake
//
// Keeps the flags and all registers but rdi. Position independent; refers to nothing else.
//
// It makes no system call. Between fork and exec, a program may have set up a seccomp filter that
// allows little more than the exec, and would kill the thread for another call. So the thread
// spins, until a controller that looks every millisecond has stopped it. It identifies itself by the
// TID in its thread's control block. A child of vfork has its parent's control block and memory: its
// parent sleeps meanwhile, and the controller looks for that one's child. So the slot is the
// thread's own, and its address is in rbx while, and only while, the thread waits: by this the
// controller knows that it has stopped the right one.
//
// A thread must not wait for a controller that is gone. A controller changes `heartbeat`. After a
// timeout of a second without a change it counts as gone, for this thread and all later ones.

#include "layout/runtime_offsets.h"

        .section .pinprick_exec_handshake, "a", @progbits
        .p2align 4
        .globl  pp_exec_handshake
        .hidden pp_exec_handshake
pp_exec_handshake:
        pushfq
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        pushq   %r8
        pushq   %rbx
        cmpl    $0, PP_EXEC_CONTROLLER_GONE(%rdi)
        jne     missed
        leaq    PP_EXEC_SLOTS(%rdi), %rdx
        movl    $PP_EXEC_SLOT_COUNT, %ecx
        movl    $PP_EXEC_TAKEN, %esi
1:      xorl    %eax, %eax
        lock cmpxchgl %esi, (%rdx)
        je      ask
        addq    $8, %rdx
        decl    %ecx
        jnz     1b
missed: lock incl PP_EXEC_MISSED(%rdi)
        jmp     out

ask:    movq    %rdx, %rbx
        movq    PP_EXEC_TID_OFFSET(%rdi), %rax
        movl    %fs:(%rax), %eax
        movl    %eax, PP_EXEC_SLOT_TID(%rbx)
        movl    $PP_EXEC_ASKS, (%rbx)
        movl    PP_EXEC_HEARTBEAT(%rdi), %r8d
2:      rdtsc
        shlq    $32, %rdx
        leaq    (%rdx, %rax), %rsi
        addq    PP_EXEC_TIMEOUT(%rdi), %rsi     // rsi = when the timeout ends

again:  cmpl    $PP_EXEC_ASKS, (%rbx)
        jne     end                             // answered
        cmpl    $0, PP_EXEC_CONTROLLER_GONE(%rdi)
        jne     gone
        movl    PP_EXEC_HEARTBEAT(%rdi), %ecx
        cmpl    %ecx, %r8d
        movl    %ecx, %r8d
        jne     2b
        pause
        rdtsc
        shlq    $32, %rdx
        orq     %rdx, %rax
        cmpq    %rsi, %rax
        jb      again
        movl    $1, PP_EXEC_CONTROLLER_GONE(%rdi)
gone:   lock incl PP_EXEC_MISSED(%rdi)
        // The controller may answer just now, or have freed the slot.
end:    movq    %rbx, %rdx
        xorl    %ebx, %ebx
        xorl    %ecx, %ecx
        movl    $PP_EXEC_ASKS, %eax
        lock cmpxchgl %ecx, (%rdx)
        movl    $PP_EXEC_ANSWERED, %eax
        lock cmpxchgl %ecx, (%rdx)

out:    popq    %rbx
        popq    %r8
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        popfq
        ret
        .globl  pp_exec_handshake_end
        .hidden pp_exec_handshake_end
pp_exec_handshake_end:

        .section .note.GNU-stack, "", @progbits
