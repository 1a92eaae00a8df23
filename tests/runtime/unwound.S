// Functions to be probed and stepped through, with unwind tables as from a compiler. Their first
// instructions decide what their stubs look like.
//
//     long NAME(long)            follows the ABI, and uses the stack freely

        .macro  function name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
.L\name:                                // assemblers differ in the length of a jump to a global
        .cfi_startproc
        .endm

        .macro  end name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text
        .globl  unwound_begin
unwound_begin:

        function unwound_frame_pointer
        push    %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov     %rsp, %rbp
        .cfi_def_cfa_register rbp
        sub     $32, %rsp
        mov     %rdi, -8(%rbp)
        mov     -8(%rbp), %rax
        leave
        .cfi_def_cfa rsp, 8
        ret
        end unwound_frame_pointer

        function unwound_saves
        push    %r15
        .cfi_def_cfa_offset 16
        .cfi_offset r15, -16
        push    %r12
        .cfi_def_cfa_offset 24
        .cfi_offset r12, -24
        push    %rbx
        .cfi_def_cfa_offset 32
        .cfi_offset rbx, -32
        mov     $1, %ebx
        mov     $2, %r12d
        mov     $3, %r15d
        lea     6(%rdi), %rax
        pop     %rbx
        .cfi_def_cfa_offset 24
        .cfi_restore rbx
        pop     %r12
        .cfi_def_cfa_offset 16
        .cfi_restore r12
        pop     %r15
        .cfi_def_cfa_offset 8
        .cfi_restore r15
        ret
        end unwound_saves

// Data in the red zone.
        function unwound_leaf
        mov     %rdi, -8(%rsp)
        mov     %rdi, -120(%rsp)
        mov     -8(%rsp), %rax
        add     -120(%rsp), %rax
        ret
        end unwound_leaf

        function unwound_branches
        test    %rdi, %rdi
        js      1f
        jz      2f
        lea     1(%rdi), %rax
        ret
1:      mov     %rdi, %rax
2:      ret
        end unwound_branches

        function unwound_loops
        push    %rcx
        .cfi_def_cfa_offset 16
        mov     $3, %ecx
        xor     %eax, %eax
1:      loop    2f
        inc     %eax
        pop     %rcx
        .cfi_def_cfa_offset 8
        ret
        .cfi_def_cfa_offset 16
2:      inc     %eax
        jmp     1b
        end unwound_loops

        function unwound_calls
        sub     $8, %rsp
        .cfi_def_cfa_offset 16
        call    unwound_branches
        add     $8, %rsp
        .cfi_def_cfa_offset 8
        ret
        end unwound_calls

        function unwound_calls_through_memory
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset rbx, -16
        call    *pointer(%rip)
        pop     %rbx
        .cfi_def_cfa_offset 8
        .cfi_restore rbx
        ret
        end unwound_calls_through_memory

        function unwound_returns
        lea     1(%rdi), %rax
        ret
        end unwound_returns

// For trampolines to the functions around it.
        .globl  unwound_room
unwound_room:
        .skip   8, 0x90

        function unwound_jumps
        xor     %eax, %eax
        inc     %rax
        jmp     .Lunwound_branches
        end unwound_jumps

        function unwound_system_call
        mov     $39, %eax                       // getpid
        syscall
        nop
        ret
        end unwound_system_call

        function unwound_starts_child
        mov     $56, %eax                       // clone
        mov     $0x14100, %edi                  // CLONE_THREAD without the flags that it requires
        syscall
        lea     1(%rax), %rax
        ret
        end unwound_starts_child

// Calls f(x) with the trap flag set. The SIGTRAP handler clears it, at unwound_returned at the
// latest.
//     long step_through(long (*f)(long), long x)
        .globl  unwound_end
unwound_end:
        function step_through
        .irp    kept, rbx, rbp, r12, r13, r14, r15
        push    %\kept
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset \kept, 0
        .endr
        sub     $8, %rsp                        // aligned at the call
        .cfi_adjust_cfa_offset 8
        mov     %rdi, %rax
        mov     %rsi, %rdi
        mov     $0x7b7b, %ebx
        mov     $0x7c7c, %ebp
        mov     $0x7d7d, %r12d
        mov     $0x7e7e, %r13d
        mov     $0x7f7f, %r14d
        mov     $0x7878, %r15d
        pushfq
        .cfi_adjust_cfa_offset 8
        orl     $0x100, (%rsp)
        popfq
        .cfi_adjust_cfa_offset -8
        call    *%rax
        .globl  step_returned
step_returned:
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        .irp    kept, r15, r14, r13, r12, rbp, rbx
        pop     %\kept
        .cfi_adjust_cfa_offset -8
        .cfi_restore \kept
        .endr
        ret
        end step_through

        .section .data.rel.local, "aw", @progbits
        .p2align 3
pointer:
        .quad   unwound_branches
        .section .note.GNU-stack, "", @progbits
