// The signal handler of breakpoints.
//
//     pp_on_trap:     target = pp_trap_target(signal, info, context)
//                     if 0: goto pp_pass_trap_on          with the same arguments
//                     context.rip = target
//                     return, to the kernel
//
// The kernel says of a thread that has met a breakpoint that it stands behind its byte, which may be
// within an instruction. Whoever unwinds from a handler of another signal, or is cancelled, would
// take the stack for another; both signals are often pending at once, and then that is where the
// other one's handler begins. So who comes next is said here, and not by the C library of the frame
// that the kernel has made: the breakpoint itself, until the context says where the thread goes on.
// Holding the others back (sa_mask) would do as well, but for that threads fight in the kernel.
//
//     stack      rsp -> return address, context, siginfo
//
// In C++ there is no way to say that, instruction by instruction.

#include "runtime/routine.inc"

        .set    CONTEXT, 8
        .set    RIP, CONTEXT + 168
        .set    RSP, CONTEXT + 160
        .set    INFO, CONTEXT + 304
        .set    CODE, INFO + 8
        .set    SI_KERNEL, 0x80
        .set    SIGTRAP, 5

        .set    DW_CFA_DEF_CFA_EXPRESSION, 0x0f
        .set    DW_CFA_EXPRESSION, 0x10
        .set    DW_CFA_VAL_EXPRESSION, 0x16
        .set    DW_OP_DEREF, 0x06
        .set    DW_OP_CONST1U, 0x08
        .set    DW_OP_MINUS, 0x1c
        .set    DW_OP_EQ, 0x29
        .set    DW_OP_BREG7, 0x77       // rsp
        .set    DW_OP_DEREF_SIZE, 0x94
        .set    RETURN_ADDRESS, 16

// What follows DW_OP_BREG7, in two bytes.
#define OFFSET(n) ((n) & 0x7f) | 0x80, (n) >> 7

        .macro  is_in_context register, at
        .cfi_escape DW_CFA_EXPRESSION, \register, 3, DW_OP_BREG7, OFFSET(\at)
        .endm

        .macro  registers_are_in_context below
        .cfi_escape DW_CFA_DEF_CFA_EXPRESSION, 4, DW_OP_BREG7, OFFSET(RSP + \below), DW_OP_DEREF
        is_in_context 0, CONTEXT+144+\below         // rax
        is_in_context 1, CONTEXT+136+\below         // rdx
        is_in_context 2, CONTEXT+152+\below         // rcx
        is_in_context 3, CONTEXT+128+\below         // rbx
        is_in_context 4, CONTEXT+112+\below         // rsi
        is_in_context 5, CONTEXT+104+\below         // rdi
        is_in_context 6, CONTEXT+120+\below         // rbp
        .irp    number, 0, 1, 2, 3, 4, 5, 6, 7          // r8 to r15
        is_in_context 8+\number, CONTEXT+40+8*\number+\below
        .endr
        .endm

// From here on: the thread stands at the breakpoint, where it is one.
        .macro  at_breakpoint below
        registers_are_in_context \below
        .cfi_escape DW_CFA_VAL_EXPRESSION, RETURN_ADDRESS, 13, \
            DW_OP_BREG7, OFFSET(RIP + \below), DW_OP_DEREF, \
            DW_OP_BREG7, OFFSET(CODE + \below), DW_OP_DEREF_SIZE, 4, \
            DW_OP_CONST1U, SI_KERNEL, DW_OP_EQ, DW_OP_MINUS
        .endm

        .text
        routine pp_on_trap
        .cfi_startproc
        .cfi_signal_frame
        at_breakpoint 0
        subq    $8, %rsp
        at_breakpoint 8
        call    pp_trap_target
        addq    $8, %rsp
        at_breakpoint 0
        testq   %rax, %rax
        jz      1f
        movq    %rax, RIP(%rsp)
        is_in_context RETURN_ADDRESS, RIP
        ret
        at_breakpoint 0
1:      movl    $SIGTRAP, %edi
        leaq    INFO(%rsp), %rsi
        leaq    CONTEXT(%rsp), %rdx
        jmp     pp_pass_trap_on
        .cfi_endproc
        .size   pp_on_trap, . - pp_on_trap

        .section .note.GNU-stack, "", @progbits
