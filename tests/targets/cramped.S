// A function of three bytes, and one of four, between others without any padding. No jump fits at
// their returns: these are branch targets, a 0xcc follows closely after each, and no jump fits at
// the next instruction either.
#define BEGIN(name) .globl name; .type name, @function; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name

        .text
        .p2align 4
BEGIN(before)           // long before(long x) { return x + 6; }
        mov     $1, %eax
        mov     $2, %edx
        mov     $3, %ecx
        add     %rdx, %rax
        add     %rcx, %rax
        add     %rdi, %rax
        ret
END(before)
BEGIN(three)            // long three(long) { return 0; }
        xor     %eax, %eax
1:      ret
END(three)
        // The SDT point cramped:back at its return, with a semaphore.
        .pushsection .note.stapsdt, "", "note"
        .balign 4
        .4byte  5f - 4f, 7f - 6f, 3
4:      .asciz  "stapsdt"
5:      .balign 4
6:      .8byte  1b, 0, back_semaphore
        .asciz  "cramped", "back", ""
7:      .balign 4
        .popsection
BEGIN(four)             // long four(long x) { return (unsigned)(-52 * x); }
        imul    $-52, %edi, %eax
2:      ret
END(four)
BEGIN(behind)           // long behind(long x) { return 2 * x - 52; }
        lea     -52(%rdi), %rax
3:      mov     $4, %edx
        mov     $5, %ecx
        mov     $9, %esi
        sub     %rsi, %rdx
        add     %rcx, %rdx
        add     %rdi, %rax
        add     %rdx, %rax
        ret
        jmp     1b
        jmp     2b
        jmp     3b
END(behind)
        .section .probes, "aw"
        .globl  back_semaphore
        .hidden back_semaphore
back_semaphore:
        .2byte  0
        .section .note.GNU-stack, "", @progbits
