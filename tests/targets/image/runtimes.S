# What the runtimes of .NET, Mono and GHC have among their code: MONO, CORE_CLR, NATIVE_AOT or GHC is
# defined.

.macro function name
    .globl \name
    .type \name, @function
\name:
.endm
.macro end name
    .size \name, . - \name
.endm

    .text
    function _start
    push %rbp
    mov %rsp, %rbp
    pop %rbp
    ret
    end _start

# Its first bytes neither fault nor call.
    function quiet
    sub $24, %rsp
    mov %rdi, 8(%rsp)
    mov (%rdi), %rax
    add $24, %rsp
    ret
    end quiet

# A fault at its first instruction is an exception.
    function reads
    mov 8(%rdi), %rax
    mov %rax, 16(%rsi)
    ret
    end reads

    function divides
    mov %edi, %eax
    cltd
    idiv %esi
    ret
    end divides

    function calls
    call quiet
    ret
    end calls

# As reads, but with a frame: C++ code.
    function framed
    push %rbp
    mov %rsp, %rbp
    mov 8(%rdi), %rax
    pop %rbp
    ret
    end framed

#ifdef MONO
jit_code_end:
    .skip 6, 0xcc
# A jump, and a number that Mono finds after it.
    function plt
    jmp *got(%rip)
    .long 0x1234
    end plt
    jmp *got(%rip)
    .long 0x1236
plt_end:
    .skip 16, 0xcc
    function after
    push %rbp
    mov %rsp, %rbp
    pop %rbp
    ret
    end after

    .data
    .globl mono_aot_file_info
mono_aot_file_info:
    .long 140, 0
    .quad got
    .quad 0
    .quad jit_code_end
    .quad _start
    .quad plt
    .quad plt_end
    .long 7, 8
got:
    .quad 0
#endif

# Linked into a program, with the module above.
#ifdef TWICE
    .text
    function second
    sub $24, %rsp
    add $24, %rsp
    ret
    end second
second_end:
    .skip 8, 0xcc
second_plt:
    jmp *got(%rip)
    .long 0x1238
second_plt_end:
    .data
mono_aot_module_second_info:
    .long 140, 0
    .quad second_plt_end
    .quad second_plt
    .quad second_end
    .quad second
#endif

#ifdef CORE_CLR
    .data
    .globl g_dacTable
g_dacTable:
    .quad 0
#endif

# A function of Haskell's, with the table of its continuation, and one of C's.
#ifdef GHC
    function continues
    lea -16(%rbp), %rax
    cmp %r15, %rax
    lea continuation(%rip), %rax
    mov %rax, -16(%rbp)
    sub $16, %rbp
    jmp *(%rbx)
    .quad 0x01  # as instructions: add and adc
    .quad 0x13
continuation:
    add $16, %rbp
    jmp *(%rbp)
    end continues

    function of_c
    .cfi_startproc
    mov 8(%rdi), %rax
    add %rsi, %rax
    ret
    .cfi_endproc
    end of_c

    .globl stg_upd_frame_info
    .type stg_upd_frame_info, @object
stg_upd_frame_info:
    jmp *(%rbp)
#endif

#ifdef NATIVE_AOT
    .section __managedcode, "ax", @progbits
    function method
    push %rbp
    mov %rsp, %rbp
    pop %rbp
    ret
    end method
    .section __unbox, "ax", @progbits
    function unboxes
    add $8, %rdi
    jmp method
    end unboxes
    .data
    .globl DotNetRuntimeDebugHeader
DotNetRuntimeDebugHeader:
    .quad 0
#endif
