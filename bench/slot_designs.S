// Two ways to call a measured function, without the rest of a return probe: for one thread, without
// restartable sequences, without saving flags. slot_designs.h says what is compared.
//
//     named      enter:  jump to the slot's own code, which calls the function; the return address
//                        of that call identifies the slot (runtime/slots.S)
//     carried    stub:   call the function; meanwhile a callee-saved register holds the slot

        .set    NEXT, 0
        .set    RETURN_ADDRESS, 8
        .set    FUNCTION, 16                    // named: the function to call
        .set    SAVED, 16                       // carried: the register
        .set    RECORD, 24
        .set    TSC, 32
        .set    CODE, 40
        .set    SLOT_SIZE, 64
        .set    SLOTS, 64
        .set    FUNCTIONS, 64
        .set    CALLS, 1024
        .set    HISTOGRAM_SIZE, 64 * 16

        .altmacro

// A record: function, then the histogram.
        .macro  record design, i
        .balign 64
record_\design\()_\i:
        .quad   function_\i
        .skip   HISTOGRAM_SIZE
        .endm

        .data
        .set    i, 0
        .rept   FUNCTIONS
        record  named, %i
        record  carried, %i
        .set    i, i + 1
        .endr

        .macro  slot_named k
slot_named_\k:
        .quad   slot_named_\k + SLOT_SIZE, 0, 0, 0, 0, slot_code_\k, 0, 0
        .endm
        .balign 64
free_named:   .quad slot_named_0
        .balign 64
free_carried: .quad slots_carried
        .balign 64
        .set    k, 0
        .rept   SLOTS
        slot_named %k
        .set    k, k + 1
        .endr
slots_carried:
        .set    k, 0
        .rept   SLOTS
        .quad   slots_carried + (k + 1) * SLOT_SIZE, 0, 0, 0, 0, 0, 0, 0
        .set    k, k + 1
        .endr

        .text

// Takes the slot rsi; rax = record. The return address of the measured call lies at \at(%rsp).
        .macro  take design, at
        movq    free_\design(%rip), %rsi
        movq    NEXT(%rsi), %rdx
        movq    %rdx, free_\design(%rip)
        movq    \at(%rsp), %rdx
        movq    %rdx, RETURN_ADDRESS(%rsi)
        movq    %rax, RECORD(%rsi)
        .endm

        .macro  note_time
        rdtsc
        movl    %eax, TSC(%rsi)
        movl    %edx, TSC+4(%rsi)
        .endm

// Records the call of slot rsi, gives the slot back. Clobbers rax, rcx, rdx.
        .macro  finish design
        rdtsc
        subl    TSC(%rsi), %eax
        sbbl    TSC+4(%rsi), %edx
        shlq    $32, %rdx
        orq     %rdx, %rax
        movq    %rax, %rcx
        orq     $1, %rcx
        bsrq    %rcx, %rcx
        shlq    $4, %rcx
        addq    RECORD(%rsi), %rcx
        incq    8(%rcx)
        addq    %rax, 16(%rcx)
        movq    free_\design(%rip), %rdx
        movq    %rdx, NEXT(%rsi)
        movq    %rsi, free_\design(%rip)
        .endm

        .p2align 6
enter_named:
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        take    named, 32
        movq    (%rax), %rdx
        movq    %rdx, FUNCTION(%rsi)
        movq    CODE(%rsi), %rdx
        movq    %rdx, -8(%rsp)
        note_time
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        leaq    8(%rsp), %rsp
        jmp     *-48(%rsp)

// Stack: slot's rax above the return address.
        .p2align 6
leave_named:
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        movq    %rax, %rsi
        finish  named
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        ret

        .macro  slot_code k
        .p2align 5
slot_code_\k:
        call    *slot_named_\k + FUNCTION(%rip)
        pushq   slot_named_\k + RETURN_ADDRESS(%rip)
        pushq   %rax
        leaq    slot_named_\k(%rip), %rax
        jmp     leave_named
        .endm
        .set    k, 0
        .rept   SLOTS
        slot_code %k
        .set    k, k + 1
        .endr

        .p2align 6
enter_carried:
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        take    carried, 40
        movq    %rbx, SAVED(%rsi)
        note_time
        movq    %rsi, %rbx
        popq    %rsi
        popq    %rdx
        popq    %rcx
        movq    8(%rsp), %rax
        ret

        .p2align 6
leave_carried:
        pushq   RETURN_ADDRESS(%rbx)
        pushq   %rax
        pushq   %rcx
        pushq   %rdx
        pushq   %rsi
        movq    %rbx, %rsi
        movq    SAVED(%rbx), %rbx
        finish  carried
        popq    %rsi
        popq    %rdx
        popq    %rcx
        popq    %rax
        ret

        .macro  stubs i
        .p2align 4
named_\i:
        pushq   %rax
        leaq    record_named_\i(%rip), %rax
        jmp     enter_named
        .p2align 4
carried_\i:
        pushq   %rax
        leaq    record_carried_\i(%rip), %rax
        call    enter_carried
        leaq    16(%rsp), %rsp
        call    function_\i
        jmp     leave_carried
        .endm

        .macro  function i
        .p2align 4
bare_\i:
function_\i:
        leaq    \i(%rdi), %rax
        ret
        stubs   \i
        .endm
        .set    i, 0
        .rept   FUNCTIONS
        function %i
        .set    i, i + 1
        .endr

// void run_DESIGN_one(void): CALLS calls of one function. ..._mixed: calls of all functions, in a
// fixed order that looks random.
        .macro  call_one design, i
        call    \design\()_\i
        .endm
        .macro  runs design
        .globl  run_\design\()_one
        .p2align 6
run_\design\()_one:
        .rept   CALLS
        call    \design\()_0
        .endr
        ret
        .globl  run_\design\()_mixed
        .p2align 6
run_\design\()_mixed:
        .set    x, 12345
        .rept   CALLS
        .set    x, (x * 1103515245 + 12345) & 0x7fffffff
        call_one \design, %((x >> 16) & (FUNCTIONS - 1))
        .endr
        ret
        .endm
        runs    bare
        runs    named
        runs    carried

        .section .note.GNU-stack, "", @progbits
