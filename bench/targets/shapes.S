// Small functions with different first instructions, on which the cost of a probe depends, above
// all that of the kernel's, which emulates some instructions and single-steps the others.
//
// All take a number and, except for shape_ret, return the next one or another sum. Each starts a
// fetch block of its own, so that none profits from its neighbour.

        .text

        .macro  shape name
        .globl  \name
        .hidden \name
        .type   \name, @function
        .p2align 6
\name:
        .cfi_startproc
        .endm

        .macro  end_shape name
        .cfi_endproc
        .size   \name, . - \name
        .p2align 4                      // padding as from compilers
        .endm

        shape   shape_nop
        nop
        leaq    1(%rdi), %rax
        ret
        end_shape shape_nop

        shape   shape_push
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        movq    %rsp, %rbp
        leaq    1(%rdi), %rax
        popq    %rbp
        .cfi_def_cfa_offset 8
        ret
        end_shape shape_push

        shape   shape_ret
        ret
        end_shape shape_ret

        shape   shape_nop5
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
        leaq    1(%rdi), %rax
        ret
        end_shape shape_nop5

        shape   shape_mov
        movl    $0x12345678, %edx
        leaq    (%rdi,%rdx), %rax
        ret
        end_shape shape_mov

// With the SDT point bench:hit inside, as <sys/sdt.h> makes it.
        shape   shape_usdt
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        movq    %rsp, %rbp
.Lhit:  nop
        leaq    1(%rdi), %rax
        popq    %rbp
        .cfi_def_cfa_offset 8
        ret
        end_shape shape_usdt

        .pushsection .note.stapsdt, "", "note"
        .balign 4
        .4byte  2f - 1f, 4f - 3f, 3
1:      .asciz  "stapsdt"
2:      .balign 4
3:      .8byte  .Lhit, 0, 0
        .asciz  "bench", "hit", "8@%rdi"
4:      .balign 4
        .popsection

// shape_nop with a read of the clock, for the cost of that.
        shape   shape_nop_rdtsc
        nop
        rdtsc
        leaq    1(%rdi), %rax
        ret
        end_shape shape_nop_rdtsc

        .section .note.GNU-stack, "", @progbits
