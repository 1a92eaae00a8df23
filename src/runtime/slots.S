// Entry and return of a measured call, as they run in the target.
//
// A probed function's stub pushes rax, loads the address of its ProbeRecord into rax and jumps to
// pp_enter. From there (the copy is that of the displaced instructions, and continues in
// the function):
//
//     pp_enter:   if the caller is unknown: count, run the copy unmeasured
//                 slot = a free slot; if there is none: count as missed, run the copy unmeasured
//                 slot.return_address = [rsp]          the record, which readers need, is written before
//                 slot.tsc = now                       last
//                 rsp += 8                             the slot's call puts its own address there
//                 jump slot.code
//     slot code:  call slot.copy                       rsp is as without the probe: stack arguments
//                 push slot.return_address             and alignment are as the function expects
//                 push rax; rax = slot; jump pp_leave
//     pp_leave:   block = that of the histogram on this CPU; else one of the pool
//                 cell = the block's, of (now - slot.tsc) in nanoseconds
//                 cell.count += 1; cell.sum += ns
//                 free the slot
//                 ret                                  calls and returns have paired all the way
//
// All registers and flags are preserved, at entry and at return: callers compiled with -fipa-ra
// rely on more than the ABI promises. No vector register is touched. Nothing here waits, calls out,
// or enters the kernel.
//
// Taking and giving back slots, and the two additions, are restartable sequences: if a thread is
// preempted, migrated or signalled inside one, the kernel sends it to the abort address, which
// starts the sequence again. Each sequence takes effect by one store, its last instruction. A
// thread whose rseq area is not registered (no glibc, or not yet) finds 0 in the per-CPU tables,
// and takes the locked paths. So does a thread of a child that must not count; there it finds 0
// again, and counts nothing.
//
// But a thread may have an area that names a CPU without being registered: a new thread that got
// the memory of one that ended, until it registers. (Children in their parent's memory are marked
// as unregistered, arch/vfork_hook.h.) Its sequences are not restarted, so a list may come to hold
// a slot twice, or to lead into another list. So a list only proposes slots: a slot belongs to the
// call that claims it, by the only locked instruction at entry. If the slot is claimed already, it
// is left to its owner, and the call takes one that was in no list yet. Damaged lists can lose
// slots, but never share them; additions can get lost.
//
// The area's descriptor is cleared after each sequence. Otherwise the kernel might look at it when
// the thread's memory belongs to another thread and this code is gone, and would kill the process.
//
// **Calls abandoned by longjmp** keep their slots: they may still return, as there are libraries
// that copy stacks away and back. Once 1024 slots, or an eighth of all, were in use
// (REUSE_FROM), such a slot is reused by a call that has the same return address at the same
// address on the stack:
//   - The call that had the slot is not on that stack any more, since ours has its address; and
//     only the thread that owns this stack can get to the same slot. So no lock is needed.
//   - If the first call returns after all, on a stack that was copied back, it returns to the same
//     address as ours. So that this holds, no other call ever gets the slot: it is in no list from
//     then on (REUSED). Only its time is wrong, as it is that of the later call.
// Such slots are found in a table, by a hash of the two addresses, with four entries for each hash.
// With one, two places whose calls are abandoned again and again would push each other out, and take
// a new slot each time. An entry is a hint, compared with the slot. Entries are written, a few at a
// time, by calls that find their CPU's list empty. They read a slot's return address first, and then
// its address on the stack: the other way round, the two might belong to different calls.
//
// At the entry of either routine the red zone is not in use: the function has just been called, or
// has just returned. Data that is written below rsp survives signals (128 bytes, ABI).

#include "runtime/image.inc"
#include "runtime/routine.inc"

// Claims the slot at rcx: rsi = slot; rcx = 0 if it is ours now. Keeps the flags.
        .macro claim
        movq    %rcx, %rsi
        movl    $1, %ecx
        xchgb   %cl, PP_SLOT_CLAIMED(%rsi)      // locks by itself
        .endm

// Gives the slot at rdi up, before it goes into a list. Outside any sequence, as a restart would
// disclaim the next owner's slot.
        .macro  disclaim
        movq    $0, PP_SLOT_RETURN_ADDRESS(%rdi)
        movb    $0, PP_SLOT_CLAIMED(%rdi)
        .endm

// Sets esi = the index in the table of the first of four entries, from the return address in esi and
// the stack address in ecx.
        .macro  hash
        addl    %ecx, %esi
        imull   $0x9e3779b1, %esi, %esi
        shrl    $32 - PP_REUSABLE_LOG2, %esi
        andl    $-PP_REUSABLE_WAYS, %esi
        .endm

// Puts the slot at rdi, which is disclaimed, into the global list. Clobbers rax, rcx, rdx.
        .macro  give_to_global_list
        movq    %rdi, %rcx
        subq    CONTEXT(SLOTS), %rcx
        shrq    $PP_SLOT_SIZE_LOG2, %rcx
        incl    %ecx                    // index + 1
        movq    CONTEXT(FREE_LIST), %rax
1:      movl    %eax, PP_SLOT_GLOBAL_NEXT(%rdi)
        movq    %rax, %rdx
        shrq    $32, %rdx
        incl    %edx
        shlq    $32, %rdx
        orq     %rcx, %rdx
        lock cmpxchgq %rdx, CONTEXT(FREE_LIST)
        jne     1b
        .endm

// ---------------------------------------------------------------------------------------- enter

// Pushes the flags and rax = record, after rax, rcx, rdx and rsi. Clobbers rdx.
        .macro  save_flags_and_record
        movq    %rax, %rdx
        frame   RECORD_IN_RDX, 4
        lahf
        seto    %al
        pushq   %rax
        frame   RECORD_IN_RDX, 5
        pushq   %rdx
        frame   RECORD_ON_STACK, 6
        .endm

        .macro  restore_flags_and_record
        popq    %rdx
        frame   RECORD_IN_RDX, 5
        popq    %rax
        frame   RECORD_IN_RDX, 4
        addb    $127, %al
        sahf
        movq    %rdx, %rax
        frame   RECORD_IN_RAX, 4
        .endm

        .macro  save_for_entry
        frame   RECORD_IN_RAX, 1
        pushq   %rcx
        frame   RECORD_IN_RAX, 2
        pushq   %rdx
        frame   RECORD_IN_RAX, 3
        pushq   %rsi
        frame   RECORD_IN_RAX, 4
        .endm

// Looks up the return address, which is 32 bytes up: rcx = 0 if calls from there are not timed
// (callers.h). The indices are 16 bits each, from bits 40, 24 and 8. Clobbers rdx, rsi. Keeps the
// flags.
        .macro  find_caller
        movq    CONTEXT(CALLERS), %rsi
        movzwl  37(%rsp), %ecx
        movl    PP_CALLERS_FIRST(%rsi,%rcx,4), %edx
        movzwl  35(%rsp), %ecx
        leaq    (%rsi,%rdx), %rdx
        movl    (%rdx,%rcx,4), %edx
        movzwl  33(%rsp), %ecx
        leaq    (%rsi,%rdx), %rdx
        movzbl  (%rdx,%rcx), %ecx
        .endm

// Used if the process has no rseq.
        routine pp_enter_locked
        save_for_entry
        find_caller
        jrcxz   1f
        jmp     enter_global
1:      jmp     enter_from_unknown_caller
        .size   pp_enter_locked, . - pp_enter_locked

// Time calls from anywhere, where no caller looks for return addresses.
        routine pp_enter_any_locked
        save_for_entry
        jmp     enter_global
        .size   pp_enter_any_locked, . - pp_enter_any_locked

        routine pp_enter_any
        save_for_entry
        jmp     enter_known
        .size   pp_enter_any, . - pp_enter_any

//      stack                       rax = record
//        return address   40
//        rax              32 -> 24 after rcx, 16 after rdx, ...
        routine pp_enter
        save_for_entry
        find_caller
        jrcxz   1f
enter_known:
        movq    CONTEXT(REUSING), %rcx
        jrcxz   enter_taking
        jmp     enter_reusing
1:      jmp     enter_from_unknown_caller
enter_taking:
        begin_sequence take, PP_CONTEXT_CPU_FREE
        jrcxz   take_global
        movq    %rcx, %rdx              // rdx = &head of this CPU's list
        movq    (%rdx), %rcx            // rcx = first free slot
        jrcxz   take_global
        movq    PP_SLOT_NEXT(%rcx), %rsi
        movq    %rsi, (%rdx)            // takes effect
        end_sequence take
        forget_sequence
        claim
        jrcxz   enter_claimed
        jmp     enter_global
take_global:
        forget_sequence
        jmp     enter_global

// rsi = slot, ours alone; stack: rsi rdx rcx rax return-address
enter_claimed:
        leaq    32(%rsp), %rdx
        movq    %rdx, PP_SLOT_STACK(%rsi)
        movq    PP_RECORD_COPY(%rax), %rdx
        movq    %rdx, PP_SLOT_COPY(%rsi)
        movq    %rax, PP_SLOT_RECORD(%rsi)
        movq    32(%rsp), %rdx
        movq    %rdx, PP_SLOT_RETURN_ADDRESS(%rsi)
        movq    PP_SLOT_CODE(%rsi), %rdx
        movq    %rdx, -8(%rsp)          // survives below rsp until the jump
        frame   SLOT_CODE_ON_STACK, 4, -8
        rdtsc
        movl    %eax, PP_SLOT_TSC(%rsi)
        movl    %edx, PP_SLOT_TSC+4(%rsi)
        popq    %rsi
        frame   SLOT_CODE_ON_STACK, 3, -16
        popq    %rdx
        frame   SLOT_CODE_ON_STACK, 2, -24
        popq    %rcx
        frame   SLOT_CODE_ON_STACK, 1, -32
        popq    %rax
        frame   SLOT_CODE_ON_STACK, 0, -40
        leaq    8(%rsp), %rsp
        frame   SLOT_CODE_ON_STACK, -1, -48
        jmp     *-48(%rsp)

        frame   RECORD_IN_RAX, 4
        abort_handler take

// Some calls may have been abandoned.
        .p2align 4
enter_reusing:
        save_flags_and_record
        call    find_abandoned
        restore_flags_and_record
        jrcxz   1f
        movq    %rcx, %rsi
        jmp     enter_claimed
1:      jmp     enter_taking

// Sets rcx = the slot of an abandoned call, which is ours now; 0 if there is none. Clobbers rax,
// rdx, rsi.
//      stack: return-address record flags rsi rdx rcx rax return-address
find_abandoned:
        frame   RETURNED_TO, 1
        movq    56(%rsp), %rax
        leaq    56(%rsp), %rcx
        movl    %eax, %esi
        hash
3:      leaq    REUSABLE, %rdx
        movl    (%rdx,%rsi,4), %edx     // index + 1
        decl    %edx
        js      2f
        shlq    $PP_SLOT_SIZE_LOG2, %rdx
        addq    CONTEXT(SLOTS), %rdx
        cmpq    %rax, PP_SLOT_RETURN_ADDRESS(%rdx)
        jne     2f
        cmpq    %rcx, PP_SLOT_STACK(%rdx)
        jne     2f
        cmpb    $PP_SLOT_REUSED_FREE, PP_SLOT_REUSED(%rdx)
        je      1f
        movq    PP_SLOT_RECORD(%rdx), %rsi
        movq    CONTEXT(LOCKED_AREAS), %rcx
        jrcxz   1f
0:      cmpb    $0, PP_RECORD_PASS(%rsi)        // a gap is no call; it comes last
        jne     1f
        movq    PP_RECORD_COUNTERS(%rsi), %rax
        lock incq PP_COUNTERS_ABANDONED(%rcx,%rax)
        movq    PP_RECORD_NEXT(%rsi), %rsi
        testq   %rsi, %rsi
        jnz     0b
1:      movb    $PP_SLOT_REUSED_TAKEN, PP_SLOT_REUSED(%rdx)
        movq    %rdx, %rcx
        ret
2:      incl    %esi
        testl   $PP_REUSABLE_WAYS - 1, %esi
        jnz     3b
        xorl    %ecx, %ecx
        ret
        frame   RECORD_IN_RAX, 4
        .size   pp_enter, . - pp_enter

// The global list: one word, tag << 32 | index + 1. The tag changes with every exchange, so that a
// list whose first slot was taken and given back in between is not mistaken for the old list. If
// the list is empty, there may be slots that were in no list yet.
        .p2align 6
enter_global:
        save_flags_and_record
        cmpq    $0, CONTEXT(REUSING)
        jne     enter_looking
enter_listed:
        movq    CONTEXT(FREE_LIST), %rax
1:      movl    %eax, %ecx
        testl   %ecx, %ecx
        jz      take_fresh
        decl    %ecx
        shlq    $PP_SLOT_SIZE_LOG2, %rcx
        addq    CONTEXT(SLOTS), %rcx
        movl    PP_SLOT_GLOBAL_NEXT(%rcx), %esi
        movq    %rax, %rdx
        shrq    $32, %rdx
        incl    %edx
        shlq    $32, %rdx
        orq     %rsi, %rdx
        lock cmpxchgq %rdx, CONTEXT(FREE_LIST)
        jne     1b
claim_global:
        claim
        testl   %ecx, %ecx
        jnz     take_fresh              // not the list's next slot, as the list might be a cycle
enter_found:
        restore_flags_and_record
        jmp     enter_claimed

take_fresh:
        frame   RECORD_ON_STACK, 6
        movq    CONTEXT(FRESH), %rax
1:      cmpq    CONTEXT(FRESH_LIMIT), %rax
        jae     enter_missed
        leaq    1(%rax), %rdx
        lock cmpxchgq %rdx, CONTEXT(FRESH)
        jne     1b
        cmpq    CONTEXT(REUSE_FROM), %rax
        jb      2f
        movq    $1, CONTEXT(REUSING)
2:      movq    %rax, %rcx
        shlq    $PP_SLOT_SIZE_LOG2, %rcx
        movq    CONTEXT(SLOTS), %rdx
        addq    %rdx, %rcx
        // The codes of all slots follow that of the first one, which is the only one that is noted.
        shlq    $PP_SLOT_CODE_SIZE_LOG2, %rax
        addq    PP_SLOT_CODE(%rdx), %rax
        movq    %rax, PP_SLOT_CODE(%rcx)
        jmp     claim_global

// Notes slots that are in use, by abandoned or by running calls. All threads take turns, and
// sometimes two note the same slots. Of a hash's entries, a slot gets the first that leads to no
// slot in use, or to one with the same two addresses; if there is none, one of them in turn. Then
// looks for an abandoned slot, which without rseq was not done before.
        .set    SLOTS_NOTED, 4
        .set    NOTED_RETURN_ADDRESS, -8        // from rsp, as are those below
        .set    NOTED_STACK, -16
        .set    NOTED_LEFT, -24
enter_looking:
        movq    CONTEXT(HAND), %rax
        movl    $SLOTS_NOTED, %edx
1:      cmpq    CONTEXT(FRESH), %rax
        jb      2f
        xorl    %eax, %eax
2:      movq    %rax, %rcx
        shlq    $PP_SLOT_SIZE_LOG2, %rcx
        addq    CONTEXT(SLOTS), %rcx
        incq    %rax
        movq    PP_SLOT_RETURN_ADDRESS(%rcx), %rsi
        testq   %rsi, %rsi
        jz      3f
        movq    %rsi, NOTED_RETURN_ADDRESS(%rsp)
        movq    PP_SLOT_STACK(%rcx), %rcx
        movq    %rcx, NOTED_STACK(%rsp)
        movl    %edx, NOTED_LEFT(%rsp)
        hash
4:      leaq    REUSABLE, %rcx
        movl    (%rcx,%rsi,4), %ecx
        decl    %ecx
        js      6f
        shlq    $PP_SLOT_SIZE_LOG2, %rcx
        addq    CONTEXT(SLOTS), %rcx
        movq    PP_SLOT_RETURN_ADDRESS(%rcx), %rdx
        testq   %rdx, %rdx
        jz      6f
        cmpq    NOTED_RETURN_ADDRESS(%rsp), %rdx
        jne     5f
        movq    PP_SLOT_STACK(%rcx), %rdx
        cmpq    NOTED_STACK(%rsp), %rdx
        je      6f
5:      incl    %esi
        testl   $PP_REUSABLE_WAYS - 1, %esi
        jnz     4b
        subl    $PP_REUSABLE_WAYS, %esi
        movl    %eax, %ecx
        andl    $PP_REUSABLE_WAYS - 1, %ecx
        addl    %ecx, %esi
6:      leaq    REUSABLE, %rcx
        movl    %eax, (%rcx,%rsi,4)
        movl    NOTED_LEFT(%rsp), %edx
3:      decl    %edx
        jnz     1b
        movq    %rax, CONTEXT(HAND)
        call    find_abandoned
        testq   %rcx, %rcx
        jz      enter_listed
        movq    %rcx, %rsi
        jmp     enter_found

// The caller is generated code, whose runtime may look for the return address. The first such
// address is noted for the controller, until it has looked; there may be many such calls.
enter_from_unknown_caller:
        frame   RECORD_IN_RAX, 4
        save_flags_and_record
        cmpq    $0, CONTEXT(UNKNOWN_CALLER)
        jne     1f
        movq    48(%rsp), %rcx
        movq    %rcx, CONTEXT(UNKNOWN_CALLER)
1:      call    locked_area
        popq    %rdx
        frame   RECORD_IN_RDX, 5
        movl    $PP_COUNTERS_FROM_GENERATED, %esi
        jmp     enter_unmeasured

        frame   RECORD_ON_STACK, 6
enter_missed:
        popq    %rdx
        frame   RECORD_IN_RDX, 5
        movq    CONTEXT(LOCKED_AREAS), %rcx
        movl    $PP_COUNTERS_MISSED, %esi
// rcx = a stripe's counters, or 0; rsi = offset of the counter in TimeCounters; rdx = record
enter_unmeasured:
        jrcxz   1f
        addq    %rsi, %rcx
        movq    %rdx, %rax
0:      cmpb    $0, PP_RECORD_PASS(%rax)        // as above
        jne     1f
        movq    PP_RECORD_COUNTERS(%rax), %rsi
        lock incq (%rcx,%rsi)
        movq    PP_RECORD_NEXT(%rax), %rax
        testq   %rax, %rax
        jnz     0b
1:      movq    PP_RECORD_COPY(%rdx), %rsi
        testb   $PP_RECORD_RETURNS, PP_RECORD_FLAGS(%rdx)
        jz      2f
        movq    PP_RECORD_UNMEASURED(%rdx), %rsi
2:      popq    %rax
        frame   RECORD_IN_RDX, 4
        addb    $127, %al
        sahf
        movq    %rdx, -16(%rsp)         // for unwinders
        frame   RECORD_ON_STACK, 4, -16
        movq    %rsi, -8(%rsp)
        popq    %rsi
        frame   RECORD_ON_STACK, 3, -24
        popq    %rdx
        frame   RECORD_ON_STACK, 2, -32
        popq    %rcx
        frame   RECORD_ON_STACK, 1, -40
        popq    %rax
        frame   RECORD_ON_STACK, 0, -48
        jmp     *-40(%rsp)

#include "runtime/leave.inc"
#include "runtime/keys.inc"
#include "runtime/thread.inc"
#include "runtime/regions.inc"
#include "runtime/reads.inc"
#include "runtime/stacks.inc"
#include "runtime/span.inc"
#include "runtime/self_time.inc"
#include "runtime/events.inc"
#include "runtime/unwound.inc"

        .subsection 2
        frame   NOWHERE, 0
        .p2align 5
        descriptor take
        descriptor leave_count
        descriptor value_count
        descriptor several_count
        descriptor leave_sum
        descriptor several_sum
        descriptor value_sum
        descriptor give
        descriptor key
        descriptor summed
        descriptor sum
        descriptor take_gap
        descriptor start_gap
        descriptor event
        descriptor every
        descriptor newest
        .globl  pp_first_reading, pp_last_reading
        .hidden pp_first_reading, pp_last_reading
pp_first_reading:
        descriptor load
        descriptor bytes
pp_last_reading:
        descriptor text
        .globl  pp_image_end
        .hidden pp_image_end
pp_image_end:

        .section .pinprick_fixups, "a", @progbits
        .globl  pp_fixups_end
        .hidden pp_fixups_end
pp_fixups_end:

        .section .pinprick_frames, "a", @progbits
        .globl  pp_frames_end
        .hidden pp_frames_end
pp_frames_end:

        .section .note.GNU-stack, "", @progbits
