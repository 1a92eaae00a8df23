# A 32-bit program that waits for a signal.
        .globl _start
_start: movl $29, %eax          # pause
        int $0x80
        jmp _start
