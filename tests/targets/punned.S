// Sites where only a pun fits, a jump that ends in the next instructions' bytes: blocks of one
// byte, or of two without any room nearby. The bytes after each `site` make the jump lead far below
// the program.
#define BEGIN(name) .globl name; .type name, @function; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name

        .text
        .p2align 12, 0xc3
BEGIN(one)              // void one(void), of one byte
        ret                             // site; 31 c0 89 f8
END(one)
BEGIN(behind_one)       // long behind_one(int x) { return x; }
        xor     %eax, %eax
        mov     %edi, %eax
        ret
END(behind_one)
BEGIN(looped)           // long looped(long n) { return -16 * n; }
        mov     %rdi, %rcx
        xor     %eax, %eax
        test    %rdi, %rdi
        jnz     2f
        ret
1:      clc                             // site, at 11; 48 8d 40 f0
2:      lea     -16(%rax), %rax
        dec     %rcx
        jnz     1b
        ret
END(looped)
BEGIN(paired)           // long paired(long n) { return -16 * (n + 1); }
        lea     1(%rdi), %rcx
        xor     %eax, %eax
        jmp     3f
1:      clc                             // site, at 8; f8 8d 40 f0, with the next one as its part
2:      clc                             // site, at 9; both are branch targets
3:      .byte   0x8d, 0x40, 0xf0        // lea -16(%rax), %eax
        dec     %rcx
        jz      4f
        test    $1, %cl
        jz      1b
        jmp     2b
4:      cltq
        ret
END(paired)
BEGIN(locked)           // void locked(long* x, int alone) { *x += 16; }, atomic unless alone
        cmp     $0, %esi
        jne     1f
        .byte   0xf0                    // site, at 5: lock; 48 83 2f f0
1:      subq    $-16, (%rdi)
        ret
END(locked)
BEGIN(tabled)           // long tabled(int x) { return x & 7; }
        lea     2f(%rip), %rdx
        and     $7, %edi
        movzbl  (%rdx,%rdi), %eax
        jz      1f
        dec     %eax
        inc     %eax
1:      ret                             // site, at 20, before data that look like code
2:      .byte   0, 1, 2, 3, 4, 5, 6, 7
END(tabled)
BEGIN(marked)           // long marked(int x) { return x & 1; }
        mov     %edi, %eax
        and     $1, %eax
        jz      1f
        jmp     2f
1:      ret                             // site, at 9, before an endbr64
2:      endbr64
        mov     $1, %eax
        ret
END(marked)
        .skip   300, 0xc3
BEGIN(prefixed)         // long prefixed(int n) { return max(n, 1) * 0x900000; }
        xor     %eax, %eax              // site; 05 00 00 leads into the program, unlike 05 00 00 90
1:      add     $0x900000, %eax
2:      dec     %edi
        jg      1b
        ret
        jmp     2b
END(prefixed)
        .p2align 12, 0xc3
        .skip   4095, 0xc3
BEGIN(edge)             // long edge(int x) { return x - 0x70f00; }
        lea     -0x70f00(%rdi), %eax    // site, in two pages; 87 00 f1 f8
        cltq
        ret
END(edge)
        .p2align 12, 0xc3
        .skip   4095, 0xc3
BEGIN(wide_edge)        // long wide_edge(long x) { return x - 0x70f00; }
        lea     -0x70f00(%rdi), %rax    // site, in two pages: a prefix in the first
        ret
END(wide_edge)
        .p2align 12, 0xc3
        .skip   4095, 0xc3
BEGIN(short_edge)       // long short_edge(long x) { return x; }
        mov     %rdi, %rax              // site, in two pages: a prefix in the first; c3 c3
        ret
END(short_edge)
        .p2align 12, 0xc3
        .section .note.GNU-stack, "", @progbits
