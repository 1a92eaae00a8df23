# Code that its program copies, checks or knows by its bytes, and code that only looks like it.

.macro function name
    .globl \name
    .type \name, @function
\name:
.endm
.macro end name
    .size \name, . - \name
    .balign 16, 0x90
.endm

    .text
    function _start
    ret
    end _start

# CoreCLR's templates: copies find their data in the page after them.
    .set data, 0x4000
    function stub_precode
    mov stub_precode + data(%rip), %r10
    jmp *stub_precode + data + 8(%rip)
    end stub_precode

    function fixup_precode
    jmp *fixup_precode + data(%rip)
    mov fixup_precode + data + 8(%rip), %r10
    jmp *fixup_precode + data + 16(%rip)
    end fixup_precode

    function call_counting
    mov call_counting + data(%rip), %rax
    decw (%rax)
    je 1f
    jmp *call_counting + data + 8(%rip)
1:  jmp *call_counting + data + 16(%rip)
    end call_counting

# One whose data lie before it.
    function backwards
    mov _start(%rip), %r10
    jmp *_start(%rip)
    end backwards

# QEMU starts system calls of the emulated program here.
    function pending
    cmpl $0, (%rbp)
    jne 1f
    syscall
1:  ret
    end pending

# A jump through data, as in any linkage table.
    function through_data
    jmp *pointer(%rip)
    end through_data

# The bytes of a jump, in the midst of an instruction.
    function has_bytes
    movabs $0x00000000000025ff, %rax
    ret
    end has_bytes

    function compares
    cmpl $0, (%rbp)
    jne 1f
    nop
1:  ret
    end compares

    function BORINGSSL_bcm_text_start
    ret
    end BORINGSSL_bcm_text_start
    function cipher
    push %rbp
    mov %rsp, %rbp
    pop %rbp
    ret
    end cipher
    .globl BORINGSSL_bcm_text_end
BORINGSSL_bcm_text_end:
    function after_check
    ret
    end after_check
# Up to here copies would find their data.
    .skip data + 64, 0xcc

    .data
pointer:
    .quad 0
