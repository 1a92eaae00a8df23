// Functions of several window shapes, each at every offset to a cache line:
//
//     0  add 6: instructions of 4, 4, 4 bytes           boundary at 4
//     1  add 3: instructions of 2 bytes                 boundaries at 2, 4
//     2  add 1000: one instruction of 6 bytes           none
//     3  add 1: instructions of 1 byte                  boundaries at 1, 2, 3, 4
//     4  add 4105: instructions of 3, 7 bytes              boundary at 3

        .macro shape0
        leaq    1(%rdi), %rax
        addq    $2, %rax
        addq    $3, %rax
        ret
        .endm

        .macro shape1
        movl    %edi, %eax
        incl    %eax
        incl    %eax
        incl    %eax
        ret
        .endm

        .macro shape2
        addq    $1000, %rdi
        movq    %rdi, %rax
        ret
        .endm

        .macro shape3
        pushq   %rbx
        pushq   %rbp
        pushq   %rdi
        popq    %rax
        popq    %rbp
        popq    %rbx
        incq    %rax
        ret
        .endm

        .macro shape4
        movq    %rdi, %rax
        leaq    4105(%rax), %rax
        ret
        .endm

        .macro place shape, offset
        .p2align 6
        .if     \offset
        .skip   \offset, 0x90
        .endif
        .globl  stress_\shape\()_\offset
        .type   stress_\shape\()_\offset, @function
stress_\shape\()_\offset:
        .cfi_startproc
        \shape
        .cfi_endproc
        .size   stress_\shape\()_\offset, . - stress_\shape\()_\offset
        .pushsection .data.rel.ro, "aw"
        .quad   stress_\shape\()_\offset
        .popsection
        .endm

        .section .data.rel.ro, "aw"
        .globl  stress_functions
        .p2align 3
stress_functions:

        .text
        .altmacro
        .macro  at_each_offset shape
        .set    n, 0
        .rept   64
        place_at \shape, %n
        .set    n, n + 1
        .endr
        .endm
        .macro  place_at shape, offset
        place   \shape, \offset
        .endm

        at_each_offset shape0
        at_each_offset shape1
        at_each_offset shape2
        at_each_offset shape3
        at_each_offset shape4

        .section .note.GNU-stack, "", @progbits
