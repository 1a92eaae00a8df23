// A record of a program's own statistic (record.h):
//
//     pinprick_kstats_add(rdi = recorder, rsi = value):
//         s    = log2(max(value, 2^bits)) - bits                 the kstats formula (docs/data.md)
//         slot = (s << bits) + (value >> s)
//         add  = {1, value >> max(0, s - 19)}
//     again:
//         cpu  = rseq.cpu_id
//         if cpu >= cpus: goto pp_record_locked                  -1: the area is not registered
//         cell = areas + cpu * area_size + slot * 16
//         rseq.rseq_cs = &descriptor
//     begin:
//         if rseq.cpu_id != cpu: goto again
//         [cell] += add                                          takes effect, by one store
//     end:
//
// If the thread is preempted, migrated or signalled between begin and end, the kernel sends it to
// `again`. A count and its sum are stored by one instruction, so neither is ever without the other.
// The descriptor is not cleared: this code and its data are never unmapped, and the kernel clears
// it when it finds the thread elsewhere.
//
// A function of the C calling convention: it may use vector registers.

#include "layout/runtime_offsets.h"

        .text
        .globl  pinprick_kstats_add
        .hidden pp_record_locked
        .type   pinprick_kstats_add, @function
        .p2align 6
pinprick_kstats_add:
        .cfi_startproc
        testq   %rdi, %rdi
        jz      end
        movl    PP_RECORDER_UNIT(%rdi), %eax
        movq    %rax, %rcx
        orq     %rsi, %rcx
        bsrq    %rcx, %rcx
        subl    PP_RECORDER_BITS(%rdi), %ecx    // s
        movq    %rsi, %rdx
        shrq    %cl, %rdx
        imull   %ecx, %eax
        addq    %rax, %rdx
        shlq    $4, %rdx                        // offset of the cell in its area
        movq    %rsi, %rax
        cmpl    $19, %ecx
        ja      shifted
1:      movq    %rax, %xmm1
        movdqa  one(%rip), %xmm0
        punpcklqdq %xmm1, %xmm0
        movq    PP_RECORDER_RSEQ(%rdi), %r8
again:  movl    %fs:PP_RSEQ_CPU_ID(%r8), %ecx
        cmpl    PP_RECORDER_CPUS(%rdi), %ecx
        jae     locked
        movq    PP_RECORDER_AREA_SIZE(%rdi), %r9
        imulq   %rcx, %r9
        addq    PP_RECORDER_AREAS(%rdi), %r9
        leaq    descriptor(%rip), %rax
        movq    %rax, %fs:PP_RSEQ_CS(%r8)
begin:  cmpl    %fs:PP_RSEQ_CPU_ID(%r8), %ecx
        jne     again
        movdqa  (%r9,%rdx), %xmm1
        paddq   %xmm0, %xmm1
        movdqa  %xmm1, (%r9,%rdx)               // takes effect
end:    ret
shifted:
        subl    $19, %ecx
        shrq    %cl, %rax
        jmp     1b
locked: jmp     pp_record_locked

        .long   PP_RSEQ_SIGNATURE
aborted:
        jmp     again
        .cfi_endproc
        .size   pinprick_kstats_add, . - pinprick_kstats_add

        .section .rodata
        .p2align 4
one:    .quad   1, 0

        .section .data.rel.ro, "aw"
        .p2align 5
descriptor:                                     // struct rseq_cs
        .long   0, 0
        .quad   begin, end - begin, aborted

        .section .note.GNU-stack, "", @progbits
