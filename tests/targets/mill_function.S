// long mill(long seed): a function of many short blocks, so that its instructions need every tactic
// at once: windows with branches out of their middle, hops to padding, windows that make room for a
// trampoline. Its result depends on flags, on the red zone and on rip-relative addresses.
    .text
    .globl mill
    .type mill, @function
    .balign 64
mill:
    push %rbx
    mov %rdi, %rbx
    xor %eax, %eax
    mov $9, %ecx
1:  // three jumps leave it, each for a part of the seeds
    lea (%rbx,%rcx), %rdx
    and $3, %edx
    je 2f
    cmp $1, %edx
    je 3f
    add %rdx, %rax
    mov %rax, -8(%rsp)
    shl $1, %rax
    adc $0, %rax
    xor -8(%rsp), %rax
    jmp 4f
    .balign 16
2:  inc %eax // 2 bytes, and the next instruction is a branch target
3:  neg %rax
    sbb $1, %rax
    imul factor(%rip), %rax
4:  dec %ecx
    jne 1b
    test $1, %bl
    jne 5f
    push %rax
    call half
    pop %rdx
    add %rdx, %rax
5:  mov $39, %esi // the next two blocks have no padding near
    bt $1, %rbx
6:  not %eax
7:  rol $3, %rax
    jc 8f
    cmc
    xor %rbx, %rax
    dec %esi
    cmp $36, %esi
    je 7b
    ja 6b
8:  movabs $0x1234567890abcdef, %rdx
    xor %rdx, %rax
    mov %ebx, %ecx
    and $7, %ecx
    jrcxz 9f
    lock addq $0, -16(%rsp)
    loop 10f
9:  add $5, %rax
10: pop %rbx
    ret
    .size mill, . - mill

    .type half, @function
half:
    shr $1, %rax
    ret
    .size half, . - half

    .section .rodata
    .balign 8
factor:
    .quad 0x9e3779b97f4a7c15
    .section .note.GNU-stack,"",@progbits
