// Functions, and parts of functions that look like functions: they have unwind entries of their
// own, the return address on top of the stack, and no name once the program is stripped. Parts are
// entered with data of their function below rsp.
#define BEGIN(name) .type name, @function; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name; .p2align 4

        .text
        .p2align 4

// long leaf(long): its middle is in another part, to which it jumps and which jumps back, with a
// value below rsp; its end is in a third part, which only reads there.
        .globl leaf
BEGIN(leaf)
        mov     %rdi, -8(%rsp)
        lea     3(%rdi), %rax
        mov     %rax, -16(%rsp)
        test    $1, %dil
        jne     leaf.cold
back:   add     -8(%rsp), %rax
        test    $2, %dil
        jne     leaf.cold.1
        ret
END(leaf)

// long table(long): parts of it are entered through a table of labels.
        .globl table
BEGIN(table)
        mov     %rdi, -8(%rsp)
        and     $1, %edi
        lea     labels(%rip), %rdx
        jmp     *(%rdx,%rdi,8)
here:   mov     -8(%rsp), %rax
        ret
END(table)

// long ends(long): ends with a call of `tail`, and for some arguments of `passed`.
        .globl ends
BEGIN(ends)
        lea     5(%rdi), %rdi
        test    $4, %dil
        jne     tail
        lea     passed(%rip), %rax
        jmp     *%rax
END(ends)

// long calls(long)
        .globl calls
BEGIN(calls)
        push    %rbx
        .cfi_adjust_cfa_offset 8
        mov     %rdi, %rbx
        call    called
        mov     %rbx, %rdi
        mov     %rax, %rbx
        call    *pointer(%rip)
        add     %rbx, %rax
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        ret
END(calls)

BEGIN(called)           // directly
        mov     %rdi, -8(%rsp)
        lea     7(%rdi), %rax
        xor     -8(%rsp), %rax
        ret
END(called)

BEGIN(pointed)          // through a word of the data
        mov     %rdi, -8(%rsp)
        lea     9(%rdi), %rax
        xor     -8(%rsp), %rax
        ret
END(pointed)

BEGIN(passed)           // by an address that code takes
        mov     %rdi, -8(%rsp)
        lea     11(%rdi), %rax
        xor     -8(%rsp), %rax
        ret
END(passed)

BEGIN(tail)             // by jumps only; but its caller has no data below rsp
        lea     13(%rdi), %rax
        xor     %rdi, %rax
        ret
END(tail)

BEGIN(leaf.cold)        // writes there, and jumps back to code that reads it
        lea     1(%rax), %rcx
        mov     %rcx, %rax
        jmp     back
END(leaf.cold)

BEGIN(leaf.cold.1)
        mov     -16(%rsp), %rcx
        sub     %rcx, %rax
        ret
END(leaf.cold.1)

BEGIN(table.cold)
        mov     -8(%rsp), %rax
        neg     %rax
        ret
END(table.cold)

        .section .data.rel.ro, "aw"
        .p2align 3
labels: .quad   here, table.cold
        .quad   0
pointer: .quad  pointed
        .section .note.GNU-stack, "", @progbits
