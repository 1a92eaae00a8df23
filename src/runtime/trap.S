// The signal handler of breakpoints.
//
//     pp_on_trap(signal, info, context):
//                     target = pp_trap_target(signal, info, context)
//                     if 0: goto pp_pass_trap_on          with the same arguments
//                     context.rip = target
//                     return, to the kernel
//
// After a breakpoint, the kernel's signal frame says that the thread is at the byte after it, which
// may be inside an instruction. A handler of another signal that unwinds from there, or a
// cancellation, would misread the stack. That happens: both signals are often pending at once, and
// then the other handler interrupts this one at its first instruction. So the unwind tables here,
// and not the C library's for the kernel's frame, say which frame is next: the breakpoint
// itself, until the context has the thread's continuation. Blocking other signals (sa_mask) would do as well, but
// then threads contend in the kernel.
//
// Context and siginfo are found through the arguments: a handler that the program has set later may
// call this one (chaining), and then they lie further up the stack, above its frames. By the
// tables, the interrupted thread still comes directly after this handler.
//
//     stack      rsp -> context, siginfo, signal, return address         while C++ is called
//
// C++ has no way to say that, instruction by instruction.

#include "runtime/routine.inc"

        // Offsets in the context, and in the siginfo.
        .set    RSP, 160
        .set    RIP, 168
        .set    CODE, 8
        .set    SI_KERNEL, 0x80

        .set    DW_CFA_DEF_CFA_EXPRESSION, 0x0f
        .set    DW_CFA_EXPRESSION, 0x10
        .set    DW_CFA_VAL_EXPRESSION, 0x16
        .set    DW_OP_DEREF, 0x06
        .set    DW_OP_CONST1U, 0x08
        .set    DW_OP_MINUS, 0x1c
        .set    DW_OP_PLUS_UCONST, 0x23
        .set    DW_OP_EQ, 0x29
        .set    DW_OP_BREG1, 0x71       // rdx
        .set    DW_OP_BREG4, 0x74       // rsi
        .set    DW_OP_BREG7, 0x77       // rsp
        .set    DW_OP_DEREF_SIZE, 0x94
        .set    DW_OP_NOP, 0x96
        .set    RETURN_ADDRESS, 16

// Adds n, in three bytes.
#define PLUS(n) DW_OP_PLUS_UCONST, ((n) & 0x7f) | 0x80, (n) >> 7

// `context` and `info` are expressions of three bytes each, for the addresses of the two.
        .macro  is_in_context context, register, at
        .cfi_escape DW_CFA_EXPRESSION, \register, 6, \context, PLUS(\at)
        .endm

// From here on: the thread was interrupted at the breakpoint, if the signal comes from one.
        .macro  at_breakpoint context, info
        .cfi_escape DW_CFA_DEF_CFA_EXPRESSION, 7, \context, PLUS(RSP), DW_OP_DEREF
        is_in_context "\context", 0, 144               // rax
        is_in_context "\context", 1, 136               // rdx
        is_in_context "\context", 2, 152               // rcx
        is_in_context "\context", 3, 128               // rbx
        is_in_context "\context", 4, 112               // rsi
        is_in_context "\context", 5, 104               // rdi
        is_in_context "\context", 6, 120               // rbp
        .irp    number, 0, 1, 2, 3, 4, 5, 6, 7          // r8 to r15
        is_in_context "\context", 8+\number, 40+8*\number
        .endr
        .cfi_escape DW_CFA_VAL_EXPRESSION, RETURN_ADDRESS, 19, \
            \context, PLUS(RIP), DW_OP_DEREF, \
            \info, PLUS(CODE), DW_OP_DEREF_SIZE, 4, \
            DW_OP_CONST1U, SI_KERNEL, DW_OP_EQ, DW_OP_MINUS
        .endm

        .macro  at_breakpoint_by_arguments
        at_breakpoint "DW_OP_BREG1, 0, DW_OP_NOP", "DW_OP_BREG4, 0, DW_OP_NOP"
        .endm

        .macro  at_breakpoint_by_stack
        at_breakpoint "DW_OP_BREG7, 0, DW_OP_DEREF", "DW_OP_BREG7, 8, DW_OP_DEREF"
        .endm

        .text
        routine pp_on_trap
        .cfi_startproc
        .cfi_signal_frame
        at_breakpoint_by_arguments
        subq    $24, %rsp
        movq    %rdi, 16(%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, (%rsp)
        at_breakpoint_by_stack
        call    pp_trap_target
        movq    (%rsp), %rdx
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdi
        at_breakpoint_by_arguments
        addq    $24, %rsp
        testq   %rax, %rax
        jz      1f
        movq    %rax, RIP(%rdx)
        is_in_context "DW_OP_BREG1, 0, DW_OP_NOP", RETURN_ADDRESS, RIP
        ret
        at_breakpoint_by_arguments
1:      jmp     pp_pass_trap_on
        .cfi_endproc
        .size   pp_on_trap, . - pp_on_trap

        .section .note.GNU-stack, "", @progbits
