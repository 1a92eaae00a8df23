// Small functions, each of another shape at its entry: what a probe costs depends on it, above all
// the kernel's, which emulates some first instructions and single-steps the others.
//
// All take a number and, but for shape_ret, answer the next one or another sum. They stand each at
// the beginning of a fetch block of their own, so that none profits from its neighbour.

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
        .p2align 4                      // padding as compilers leave it
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

// shape_nop and one look at the clock: the difference is what the clock costs.
        shape   shape_nop_rdtsc
        nop
        rdtsc
        leaq    1(%rdi), %rax
        ret
        end_shape shape_nop_rdtsc

        .section .note.GNU-stack, "", @progbits
