// 10,000 tracepoints with one site each, as pinprick/tracepoint.h makes them. A site that is on
// leads to a block that counts in %rax, instead of calling functions.
//
// reach_many_points passes all of them, one after the other. many_points has the points.

        .set    POINTS, 10000

        .text
        .globl  reach_many_points
        .type   reach_many_points, @function
        .p2align 4
reach_many_points:
        .cfi_startproc
        xorl    %eax, %eax
        .set    number, 0
        .rept   POINTS
1:      .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
2:      leaq    1(%rdx), %rdx
        movq    %rdx, %rcx
        .subsection 1
3:      incq    %rax
        jmp     2b
        .previous
        .pushsection pinprick_points, "ao", @note, reach_many_points
        .balign 4
        .long   9, 12, 1
        .asciz  "pinprick"
        .balign 4
        .long   1b - ., 3b - ., many_points + 32 * number - .
        .popsection
        .set    number, number + 1
        .endr
        ret
        .cfi_endproc
        .size   reach_many_points, . - reach_many_points

        .section .rodata.many_points, "a", @progbits
names:  .asciz  "bench"
        .asciz  "many"

        .data
        .globl  many_points
        .type   many_points, @object
        .p2align 3
many_points:
        .rept   POINTS
        .quad   0, names, names + 5, 0
        .endr
        .size   many_points, . - many_points
        .globl  many_points_end
many_points_end:

        .section .note.GNU-stack, "", @progbits
