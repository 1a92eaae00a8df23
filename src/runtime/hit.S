// From a stub to the handlers in the same process, and back.
//
//     pp_hit:         save all registers                 called by stubs at functions' entries
//                     target, changed = pp_run_handlers(record, registers)
//                     restore what the handlers left
//                     changed:  go to registers.ip
//                     else:     [rsp_of_stub - 16] = target; return to the stub
//     pp_hit_inside:  the same elsewhere: below the red zone, with all flags
//     pp_returned:    slot code jumps here when a call returns; registers.ip is its return address
//     pp_landed:      the unwinder's landing pad, when an exception unwinds a call
//
// All general registers are saved and restored, so that handlers can read and change them, and for
// callers compiled with -fipa-ra. Vector registers are not touched: pp_run_handlers and the
// functions that it calls are compiled without them, and save them before they call a handler that
// uses them.
//
// The stack while handlers run, from rbx up:
//
//       0  struct Registers: vector state, general registers, ip, flags
//     152  pp_hit: return address into the stub       pp_returned: rax
//     160  the program's (pp_hit_inside: 128 bytes of red zone before that)
//
// pushf and popf are slow. At entries and returns the direction flag is clear by the ABI, and a
// program can rely on the arithmetic flags only, so lahf and sahf suffice. Elsewhere all flags are
// saved, and the direction flag is cleared for the handlers.
//
// By the unwind tables, the handlers were called by the probed instruction, as a signal handler is.
// Before the registers are saved, and after they are restored, this code was called by the stub,
// which has tables of its own. So backtraces work from every instruction.

#include "layout/runtime_offsets.h"
#include "runtime/routine.inc"

#define REGISTER(n) PP_REGISTERS_GENERAL + 8*(n)
#define ABOVE PP_REGISTERS_SIZE

        .macro for_each_register do
        \do     rax, 0
        \do     rcx, 1
        \do     rdx, 2
        \do     rbx, 3
        \do     rbp, 5
        \do     rsi, 6
        \do     rdi, 7
        \do     r8, 8
        \do     r9, 9
        \do     r10, 10
        \do     r11, 11
        \do     r12, 12
        \do     r13, 13
        \do     r14, 14
        \do     r15, 15
        .endm

        .macro save name, number
        movq    %\name, REGISTER(\number)(%rsp)
        .endm

        .macro restore name, number
        movq    REGISTER(\number)(%rsp), %\name
        .endm

// Sets rbx = registers; its old value is found there.
        .macro save_registers program_stack
        leaq    -PP_REGISTERS_SIZE(%rsp), %rsp
        .cfi_adjust_cfa_offset PP_REGISTERS_SIZE
        for_each_register save
        leaq    \program_stack(%rsp), %rcx
        movq    %rcx, PP_REGISTERS_RSP(%rsp)
        movq    $0, PP_REGISTERS_VECTOR_STATE(%rsp)
        .cfi_rel_offset rbx, REGISTER(3)
        movq    %rsp, %rbx
        .endm

// Sets registers.flags. Clobbers rax, rcx.
        .macro save_arithmetic_flags
        lahf
        seto    %al
        movzbl  %ah, %ecx
        movzbl  %al, %eax
        shll    $11, %eax
        leal    0x200(%rcx,%rax), %eax  // interrupts are on
        movq    %rax, PP_REGISTERS_FLAGS(%rsp)
        .endm

        .macro save_all_flags
        pushfq
        .cfi_adjust_cfa_offset 8
        popq    PP_REGISTERS_FLAGS(%rsp)
        .cfi_adjust_cfa_offset -8
        .endm

// From here on: registers.ip has been written.
        .macro unwind_to_program program_stack
        .cfi_def_cfa rbx, \program_stack
        .cfi_offset rip, PP_REGISTERS_IP - (\program_stack)
        .cfi_offset rax, REGISTER(0) - (\program_stack)
        .cfi_offset rdx, REGISTER(2) - (\program_stack)
        .cfi_offset rcx, REGISTER(1) - (\program_stack)
        .cfi_offset rbx, REGISTER(3) - (\program_stack)
        .cfi_offset rsi, REGISTER(6) - (\program_stack)
        .cfi_offset rdi, REGISTER(7) - (\program_stack)
        .cfi_offset rbp, REGISTER(5) - (\program_stack)
        .cfi_offset r8, REGISTER(8) - (\program_stack)
        .cfi_offset r9, REGISTER(9) - (\program_stack)
        .cfi_offset r10, REGISTER(10) - (\program_stack)
        .cfi_offset r11, REGISTER(11) - (\program_stack)
        .cfi_offset r12, REGISTER(12) - (\program_stack)
        .cfi_offset r13, REGISTER(13) - (\program_stack)
        .cfi_offset r14, REGISTER(14) - (\program_stack)
        .cfi_offset r15, REGISTER(15) - (\program_stack)
        .endm

// From here on: rsp points to the registers again, and they are restored from there, with rbx.
        .macro unwind_from_stack
        .cfi_def_cfa_register rsp
        .endm

// From here on: the registers are the program's. The caller's address lies `to_return` bytes above
// rsp, and its stack starts `stack` bytes above rsp.
        .macro unwind_by_return stack, to_return
        .cfi_restore rax
        .cfi_restore rdx
        .cfi_restore rcx
        .cfi_restore rbx
        .cfi_restore rsi
        .cfi_restore rdi
        .cfi_restore rbp
        .cfi_restore r8
        .cfi_restore r9
        .cfi_restore r10
        .cfi_restore r11
        .cfi_restore r12
        .cfi_restore r13
        .cfi_restore r14
        .cfi_restore r15
        .cfi_def_cfa rsp, \stack
        .cfi_offset rip, (\to_return) - (\stack)
        .endm

// Sets rdi = record, which is in the operand of the nop after the stub's call, and registers.ip.
        .macro load_record
        movq    ABOVE(%rsp), %rax
        movslq  3(%rax), %rdi
        leaq    7(%rax,%rdi), %rdi
        movq    PP_HIT_ADDRESS(%rdi), %rax
        movq    %rax, PP_REGISTERS_IP(%rsp)
        .endm

// Restores the arithmetic flags from registers.flags. Clobbers rcx and ax.
        .macro restore_arithmetic_flags
        movq    PP_REGISTERS_FLAGS(%rsp), %rcx
        movb    %cl, %ah
        shrl    $11, %ecx
        andb    $1, %cl
        movb    %cl, %al
        addb    $127, %al               // the overflow flag
        sahf                            // the others
        .endm

        .macro begin_routine name
        routine \name
        .cfi_startproc
        .endm

        .macro end_routine name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text

        begin_routine pp_hit
        .cfi_signal_frame
        save_registers ABOVE + 8
        save_arithmetic_flags
        load_record
        unwind_to_program ABOVE + 8
        movq    %rsp, %rsi
        andq    $-16, %rsp
        call    pp_run_handlers
        movq    %rbx, %rsp
        unwind_from_stack
        testq   %rdx, %rdx
        jnz     1f
        movq    %rax, %rdx
        restore_arithmetic_flags
        movq    %rdx, PP_REGISTERS_FLAGS(%rsp)
        for_each_register restore
        .cfi_remember_state
        leaq    ABOVE(%rsp), %rsp
        unwind_by_return 8, 0
        ret
        .cfi_restore_state
1:      movq    PP_REGISTERS_IP(%rsp), %rax
        movq    %rax, ABOVE(%rsp)
        restore_arithmetic_flags
        for_each_register restore
        leaq    ABOVE(%rsp), %rsp
        unwind_by_return 8, 0
        ret
        end_routine pp_hit

        .set    INSIDE, ABOVE + 8 + 128
        .set    ABOVE_FLAGS, ABOVE - PP_REGISTERS_FLAGS

        begin_routine pp_hit_inside
        .cfi_signal_frame
        save_registers INSIDE
        save_all_flags
        load_record
        unwind_to_program INSIDE
        movq    %rsp, %rsi
        cld
        andq    $-16, %rsp
        call    pp_run_handlers
        movq    %rbx, %rsp
        unwind_from_stack
        testq   %rdx, %rdx
        jnz     1f
        for_each_register restore
        .cfi_remember_state
        leaq    PP_REGISTERS_FLAGS(%rsp), %rsp
        unwind_by_return ABOVE_FLAGS + 8, ABOVE_FLAGS
        popfq
        unwind_by_return 8, 0
        ret
        .cfi_restore_state
1:      movq    PP_REGISTERS_IP(%rsp), %rax
        movq    %rax, ABOVE(%rsp)
        for_each_register restore
        leaq    PP_REGISTERS_FLAGS(%rsp), %rsp
        unwind_by_return ABOVE_FLAGS + 8 + 128, ABOVE_FLAGS
        popfq
        unwind_by_return 8 + 128, 0
        ret     $128
        end_routine pp_hit_inside

// rax = slot; stack: rax, return address. The call is over, and its caller comes next. Not marked
// as a signal frame, so that an unwinder looks for the caller's clean-ups at the call.
        begin_routine pp_returned
        .cfi_adjust_cfa_offset 8
        save_registers ABOVE + 16
        save_arithmetic_flags
        movq    REGISTER(0)(%rsp), %rdi // slot
        movq    ABOVE(%rsp), %rax
        movq    %rax, REGISTER(0)(%rsp)
        movq    ABOVE+8(%rsp), %rax
        movq    %rax, PP_REGISTERS_IP(%rsp)
        unwind_to_program ABOVE + 16
        movq    %rsp, %rsi
        andq    $-16, %rsp
        call    pp_run_return_handlers
        movq    %rbx, %rsp
        unwind_from_stack
        movq    PP_REGISTERS_IP(%rsp), %rax
        movq    %rax, ABOVE+8(%rsp)
        restore_arithmetic_flags
        for_each_register restore
        leaq    ABOVE+8(%rsp), %rsp
        unwind_by_return 8, 0
        ret
        end_routine pp_returned

        .set    DW_CFA_DEF_CFA_EXPRESSION, 0x0f
        .set    DW_CFA_VAL_EXPRESSION, 0x16
        .set    DW_OP_BREG1, 0x71       // rdx
        .set    DW_OP_BREG7, 0x77       // rsp
        .set    DW_OP_DEREF, 6

// rax = exception, rdx = slot, rsp as after the return that did not happen.
        .macro unwind_from_landing
        .cfi_def_cfa_offset 0
        .cfi_escape DW_CFA_VAL_EXPRESSION, 16, 3, DW_OP_BREG1, PP_SLOT_RETURN_ADDRESS, DW_OP_DEREF
        .endm

// The landing pad of a slot's frame. It puts the return address back, gives the slot back, and goes
// on unwinding as the measured function would.
//
// The stack is aligned here: a caller need not align its stack if it calls nothing that can throw,
// but a cancelled thread is unwound through such a caller, too. The tables find the frame by rsp
// alone: while libgcc's unwinder installs a context, it has the registers of the frame that it goes
// to where it saved those of its caller, and a profiler that interrupts it there reads them.
        begin_routine pp_landed
        unwind_from_landing
        pushq   PP_SLOT_RETURN_ADDRESS(%rdx)
        .cfi_def_cfa_offset 8
        .cfi_offset rip, -8
        leaq    8(%rsp), %rcx
        .cfi_def_cfa rcx, 0
        leaq    -3*8(%rsp), %rsp
        andq    $-16, %rsp
        movq    %rcx, (%rsp)
        .cfi_escape DW_CFA_DEF_CFA_EXPRESSION, 3, DW_OP_BREG7, 0, DW_OP_DEREF
        movq    %rax, 8(%rsp)
        movq    PP_SLOT_COPY(%rdx), %rax        // the unwinder's functions, as its personality left them
        movq    %rax, 16(%rsp)
        movq    %rdx, %rdi
        call    pp_leave_by_exception
        movq    8(%rsp), %rdi
        movq    16(%rsp), %rax
        call    *PP_UNWINDER_RESUME(%rax)       // does not return
        ud2
        end_routine pp_landed

// The same for a timed call. The rest is pp_unwound, which expects the unwinder's table in r11.
        begin_routine pp_landed_timed
        unwind_from_landing
        movq    PP_SLOT_COPY(%rdx), %r11
        jmp     *pp_timed_unwound(%rip)
        end_routine pp_landed_timed

        .section .note.GNU-stack, "", @progbits
