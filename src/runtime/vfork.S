// A vfork that marks its child as having no registered rseq area (library/process/children.h).
//
//     pp_vfork:        rdi = return address, off the stack that parent and child share
//                      goto plain if rseq.cpu_id < 0
//                      rseq.cpu_id = -1
//                      vfork; in the child: rseq.cpu_id = -1; goto rdi
//                      pp_put_cpu_back
//                      return
//     pp_put_cpu_back: rseq.cpu_id = rseq.cpu_id_start, in a restartable sequence
//
// arch/x86_64/hooks/vfork_hook.cc says why parent and child are safe at each step. The child
// returns by a jump, as the C library's does, since it shares a shadow stack with its parent.

#include <asm/unistd_64.h>

#include "layout/runtime_offsets.h"
#include "runtime/routine.inc"

        .set    HIGHEST_ERROR, -4095

        .text

// Sets rdx = offset of the area from the thread pointer.
        .macro  load_area
        movq    __rseq_offset@GOTPCREL(%rip), %rdx
        movq    (%rdx), %rdx
        .endm

        routine pp_vfork
        .cfi_startproc
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        .cfi_register rip, rdi
        load_area
        movl    $__NR_vfork, %eax
        cmpl    $0, %fs:PP_RSEQ_CPU_ID(%rdx)
        jl      plain
        movl    $-1, %fs:PP_RSEQ_CPU_ID(%rdx)
        syscall
        testl   %eax, %eax
        jz      child
        pushq   %rdi
        .cfi_remember_state
        .cfi_adjust_cfa_offset 8
        .cfi_offset rip, -8
        call    pp_put_cpu_back
finish: cmpl    $HIGHEST_ERROR, %eax
        jae     failed
        ret
failed: movl    %eax, %edi
        jmp     pp_vfork_failed         // returns -1
        .cfi_restore_state
plain:  syscall
        testl   %eax, %eax
        jz      1f
        pushq   %rdi
        .cfi_remember_state
        .cfi_adjust_cfa_offset 8
        .cfi_offset rip, -8
        jmp     finish
        .cfi_restore_state
child:  movl    $-1, %fs:PP_RSEQ_CPU_ID(%rdx)
1:      jmp     *%rdi
        .cfi_endproc
        .size   pp_vfork, . - pp_vfork

// For a thread whose area is registered. Clobbers rcx and rdx.
        routine pp_put_cpu_back
        .cfi_startproc
        load_area
again:  leaq    put_back_cs(%rip), %rcx
        movq    %rcx, %fs:PP_RSEQ_CS(%rdx)
begin:  movl    %fs:PP_RSEQ_CPU_ID_START(%rdx), %ecx
        movl    %ecx, %fs:PP_RSEQ_CPU_ID(%rdx)  // takes effect
end:    movq    $0, %fs:PP_RSEQ_CS(%rdx)
        ret
        .long   PP_RSEQ_SIGNATURE
aborted:
        jmp     again
        .cfi_endproc
        .size   pp_put_cpu_back, . - pp_put_cpu_back

        .section .data.rel.ro, "aw", @progbits
        .p2align 5
put_back_cs:
        .long   0, 0
        .quad   begin, end - begin, aborted

        .section .note.GNU-stack, "", @progbits
