// Entry and return of a measured call, as they run in the target.
//
// A probed function's stub pushes rax, loads the address of its ProbeRecord into rax and jumps to
// pp_enter. From there:
//
//     pp_enter:   slot = take a free slot              else: count as missed, run the body unmeasured
//                 slot.tsc = now
//                 slot.return_address = [rsp]          last: who reads it finds the others written
//                 rsp += 8                             the slot's call puts its own address there
//                 jump slot.code
//     slot code:  call slot.body                       rsp is as without the probe: stack arguments
//                 push slot.return_address             and alignment are as the body expects
//                 push rax; rax = slot; jump pp_leave
//     pp_leave:   block = that of the histogram on this CPU; else one of the pool
//                 cell = the block's, of (now - slot.tsc) in nanoseconds
//                 cell.count += 1; cell.sum += ns
//                 free the slot
//                 ret                                  calls and returns have paired all the way
//
// All registers and flags come out as they went in, at entry as at return: callers compiled with
// -fipa-ra rely on more than the ABI promises. No vector register is touched. Nothing here waits,
// calls, or enters the kernel.
//
// Taking and giving back slots, and the two additions, are restartable sequences: the kernel sends a
// thread that is preempted, migrated or signalled inside one to its abort address, which begins it
// again. Each has one store that takes effect, its last instruction. A thread whose rseq area is not
// registered (no glibc, or not yet) finds 0 in the per-CPU tables, and takes the locked paths. So does
// one of a child that is not to count; there it finds 0 again, and counts nowhere.
//
// But some threads have an area that names a CPU, and no registration: a new thread that got the
// memory of one that ended, until it registers, and the child of a vfork in its parent's memory. What
// they do to a list, nobody restarts, so that lists may come to hold a slot twice, or lead into each
// other. So a list only proposes: a slot belongs to the call that claims it, with the one locked
// instruction of the way in. A slot that is claimed already is left to its owner. Lists that are
// damaged can lose slots, never share them; additions can get lost.
//
// **Blocks.** A histogram takes memory on a CPU once something is recorded there: its place, a word
// in the CPU's region, leads to a block of the pool then. A place that is set stays as it is. But
// the cells are shared with forked children, who may have given up rights, and with whoever may
// write the file: a place is followed only as far as the pool goes, which is known from here. The
// pool is what the controller has reserved in the file system, and it reserves more in time: who
// wrote to a file system that has run full would be killed. Where no block of a CPU's own is left,
// calls are recorded in region 0; where none is left at all, they count as missed.
//
// A sequence that is over is forgotten: the kernel looks at the descriptor that the area names when
// the thread's memory is another thread's already and this code gone, and kills the process then.
//
// **Calls that longjmp left** keep their slots: nothing proves that nobody will return there, as long
// as there are libraries that copy stacks away and back. Once an eighth of all slots was in use
// (REUSE_FROM), such a slot is used again, by a call that has the same return address and has it at
// the same place on the stack:
//   - The call that had the slot is not on that stack any more, since ours has its place; and nobody
//     but the thread whose stack this is can come to the same slot. So it needs no lock.
//   - Who comes back after all, on a stack that was copied back, returns where both calls return to.
//     For that the slot is never any other call's again: it is in no list from then on (REUSED).
//     Only its time is wrong, being that of the later call.
// Such slots are found in a table, by a hash of the two addresses, with one entry to a hash: a hint,
// compared with the slot. It is written, a few slots at a time, by calls that find their CPU's list
// empty. A slot's return address is read first, and then its place: the other way round they might
// be of two calls.
//
// On entry to either routine there is no red zone to spare: the function has just been called, or has
// just returned, so nothing lives below rsp. Data below rsp survives signals (128 bytes, ABI).
//
// The image is position independent, refers only to itself and to the RuntimeContext that ends where
// it begins, and is fixed up (section pp_fixups) before it is written into a target:
//     rseq       32 bits  += offset of struct rseq from the thread pointer
//     image      64 bits  += address of the image
//     bits        8 bits   = fraction bits of the histograms
//     unit        8 bits   = 1 << fraction bits
//
// And at each instruction it is known what an unwinder has to know (section pp_frames): who comes
// next, and how many words of its own lie on the stack.

#include "layout/runtime_offsets.h"
#include "runtime/routine.inc"

#define CONTEXT(field) image - PP_CONTEXT_SIZE + PP_CONTEXT_##field(%rip)
#define REUSABLE image - PP_CONTEXT_SIZE - PP_REUSABLE_SIZE(%rip)

        .section .pinprick_image, "a", @progbits
        .p2align 12
        .globl  pp_image
        .hidden pp_image
pp_image:
image:                                  // local, so that nothing is left to the linker

        .macro fixup kind, bytes
        .pushsection .pinprick_fixups, "a", @progbits
        .long   0b - image - \bytes
        .long   \kind
        .popsection
        .endm

        .set    FIXUP_RSEQ, 0
        .set    FIXUP_IMAGE, 1
        .set    FIXUP_BITS, 2
        .set    FIXUP_UNIT, 3

        .pushsection .pinprick_fixups, "a", @progbits
        .p2align 2
        .globl  pp_fixups
        .hidden pp_fixups
pp_fixups:
        .popsection

        .set    NOWHERE, 0              // arch::CodeRow::Caller
        .set    RETURNED_TO, 1
        .set    RECORD_IN_RAX, 3
        .set    RECORD_IN_RDX, 4
        .set    RECORD_ON_STACK, 5
        .set    SLOT_CODE_ON_STACK, 6
        .set    SLOT_IN_RDX, 7
        .set    RETURNED_TO_WITH_RBP, 8
        .set    RBX_SECOND, 1           // arch::CodeRow::Saved
        .set    RBP_THIRD, 2
        .set    R12_FOURTH, 4
        .set    RBP_SECOND, 16

// From here on.
        .macro frame caller, words, argument=0, saved=0
77:
        .pushsection .pinprick_frames, "a", @progbits
        .long   77b - image
        .byte   \caller, \words, \argument, \saved
        .popsection
        .endm

        .pushsection .pinprick_frames, "a", @progbits
        .p2align 2
        .globl  pp_frames
        .hidden pp_frames
pp_frames:
        .popsection

// struct rseq_cs of the sequence name_begin .. name_end
        .macro descriptor name
        .p2align 5
\name\()_cs:
        .long   0, 0
        .quad   \name\()_begin - image
0:      fixup   FIXUP_IMAGE, 8
        .quad   \name\()_end - \name\()_begin
        .quad   \name\()_abort - image
0:      fixup   FIXUP_IMAGE, 8
        .endm

// Enters a restartable sequence. Leaves the CPU's entry of a context table in rcx (0: unregistered).
// Clobbers rcx, rdx.
        .macro begin_sequence name, table
\name\()_again:
        leaq    \name\()_cs(%rip), %rdx
        movq    %rdx, %fs:PP_RSEQ_CS
0:      fixup   FIXUP_RSEQ, 4
\name\()_begin:
        movslq  %fs:PP_RSEQ_CPU_ID, %rcx
0:      fixup   FIXUP_RSEQ, 4
        leaq    image - PP_CONTEXT_SIZE + \table(%rip), %rdx
        movq    (%rdx,%rcx,8), %rcx
        .endm

        .macro end_sequence name
\name\()_end:
        .endm

        .macro forget_sequence
        movq    $0, %fs:PP_RSEQ_CS
0:      fixup   FIXUP_RSEQ, 8
        .endm

        .macro abort_handler name
        .long   PP_RSEQ_SIGNATURE
\name\()_abort:
        jmp     \name\()_again
        .endm

// Takes the slot at rcx, if nobody has it: rsi = slot, rcx = 0 if it is ours. Keeps the flags.
        .macro claim
        movq    %rcx, %rsi
        movl    $1, %ecx
        xchgb   %cl, PP_SLOT_CLAIMED(%rsi)      // locks by itself
        .endm

// Gives the slot at rdi up, before it goes into a list: outside of any sequence, because what is
// begun again would hit the next owner.
        .macro  disclaim
        movq    $0, PP_SLOT_RETURN_ADDRESS(%rdi)
        movb    $0, PP_SLOT_CLAIMED(%rdi)
        .endm

// esi = the slot's entry in the table: of the return address in esi, and the place in ecx
        .macro  hash
        addl    %ecx, %esi
        imull   $0x9e3779b1, %esi, %esi
        shrl    $32 - PP_REUSABLE_LOG2, %esi
        .endm

// Puts the slot at rdi, which is nobody's any more, into the global list. Clobbers rax, rcx, rdx.
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

// rax = record; on the stack, in front of rsi, rdx, rcx and rax. Clobbers rdx.
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

// Without rseq in the whole process.
        routine pp_enter_locked
        frame   RECORD_IN_RAX, 1
        pushq   %rcx
        frame   RECORD_IN_RAX, 2
        pushq   %rdx
        frame   RECORD_IN_RAX, 3
        pushq   %rsi
        frame   RECORD_IN_RAX, 4
        jmp     enter_global
        .size   pp_enter_locked, . - pp_enter_locked

//      stack                       rax = record
//        return address   40
//        rax              32 -> 24 after rcx, 16 after rdx, ...
        routine pp_enter
        frame   RECORD_IN_RAX, 1
        pushq   %rcx
        frame   RECORD_IN_RAX, 2
        pushq   %rdx
        frame   RECORD_IN_RAX, 3
        pushq   %rsi
        frame   RECORD_IN_RAX, 4
        movq    CONTEXT(REUSING), %rcx
        jrcxz   enter_taking
        jmp     enter_reusing
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
        movq    PP_RECORD_BODY(%rax), %rdx
        movq    %rdx, PP_SLOT_BODY(%rsi)
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

// Some slots may have been left.
        .p2align 4
enter_reusing:
        save_flags_and_record
        call    find_left
        restore_flags_and_record
        jrcxz   1f
        movq    %rcx, %rsi
        jmp     enter_claimed
1:      jmp     enter_taking

// rcx = the slot of a call that was left, which is ours now; 0: there is none. Clobbers rax, rdx, rsi.
//      stack: return-address record flags rsi rdx rcx rax return-address
find_left:
        frame   RETURNED_TO, 1
        movq    56(%rsp), %rax
        leaq    56(%rsp), %rcx
        movl    %eax, %esi
        hash
        leaq    REUSABLE, %rdx
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
        movq    PP_RECORD_LOST(%rsi), %rsi
        movq    CONTEXT(LOCKED_CELLS), %rcx
        jrcxz   1f
        lock incq (%rcx,%rsi)
1:      movb    $PP_SLOT_REUSED_TAKEN, PP_SLOT_REUSED(%rdx)
        movq    %rdx, %rcx
        ret
2:      xorl    %ecx, %ecx
        ret
        frame   RECORD_IN_RAX, 4
        .size   pp_enter, . - pp_enter

// The global list: one word, tag << 32 | index + 1. The tag changes with every exchange, so a slot
// that was taken and given back in between does not pass for the same list. When it is empty, there may
// be slots that were in no list yet.
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
        jnz     enter_missed            // and not on to the next: the list might be a circle
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
        addq    CONTEXT(SLOTS), %rcx
        jmp     claim_global

// Notes where slots are that some call has, be it left or under way. All threads do so by turns, and
// sometimes two of them for the same slots. Then looks for one that was left, which without rseq
// nobody has done yet.
        .set    SLOTS_NOTED, 4
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
        movl    PP_SLOT_STACK(%rcx), %ecx
        hash
        leaq    REUSABLE, %rcx
        movl    %eax, (%rcx,%rsi,4)
3:      decl    %edx
        jnz     1b
        movq    %rax, CONTEXT(HAND)
        call    find_left
        testq   %rcx, %rcx
        jz      enter_listed
        movq    %rcx, %rsi
        jmp     enter_found

enter_missed:
        popq    %rdx
        frame   RECORD_IN_RDX, 5
        movq    CONTEXT(LOCKED_CELLS), %rcx
        jrcxz   1f
        movq    PP_RECORD_MISSED(%rdx), %rsi
        lock incq (%rcx,%rsi)
1:      popq    %rax
        frame   RECORD_IN_RDX, 4
        addb    $127, %al
        sahf
        movq    %rdx, -16(%rsp)         // for unwinders
        frame   RECORD_ON_STACK, 4, -16
        movq    PP_RECORD_BODY(%rdx), %rdx
        movq    %rdx, -8(%rsp)
        popq    %rsi
        frame   RECORD_ON_STACK, 3, -24
        popq    %rdx
        frame   RECORD_ON_STACK, 2, -32
        popq    %rcx
        frame   RECORD_ON_STACK, 1, -40
        popq    %rax
        frame   RECORD_ON_STACK, 0, -48
        jmp     *-40(%rsp)

// ---------------------------------------------------------------------------------------- leave

// Saves what leave uses, and computes from rax = slot:
//     rdi = slot, rax = what to add to the sum, rsi = offset of the histogram cell
// by the kstats formula (docs/data.md), in nanoseconds:
//     s = log2(max(ns, 2^bits)) - bits;  cell = (s << bits) + (ns >> s);  sum += ns >> max(0, s - 19)
        .macro  measure
        frame   RETURNED_TO, 2
        pushq   %rcx
        frame   RETURNED_TO, 3
        movq    %rax, %rcx
        lahf
        seto    %al
        pushq   %rax
        frame   RETURNED_TO, 4
        pushq   %rdx
        frame   RETURNED_TO, 5
        pushq   %rsi
        frame   RETURNED_TO, 6
        pushq   %rdi
        frame   RETURNED_TO, 7
        pushq   %r8
        frame   RETURNED_TO, 8
        movq    %rcx, %rdi
        rdtsc
        subl    PP_SLOT_TSC(%rdi), %eax
        sbbl    PP_SLOT_TSC+4(%rdi), %edx
        jc      2f                      // clocks of two CPUs disagree by a tick: nothing elapsed
1:      shlq    $32, %rdx
        orq     %rdx, %rax
        mulq    CONTEXT(NS_MULTIPLIER)
        shrdq   $32, %rdx, %rax
        movq    PP_SLOT_RECORD(%rdi), %rdx
        movq    PP_RECORD_HISTOGRAM(%rdx), %rsi
        movq    %rax, %rdx
        orq     $8, %rdx
0:      fixup   FIXUP_UNIT, 1
        bsrq    %rdx, %rcx
        subl    $3, %ecx
0:      fixup   FIXUP_BITS, 1
        movq    %rax, %rdx
        shrq    %cl, %rdx
        cmpl    $19, %ecx
        ja      3f
4:      shll    $3, %ecx
0:      fixup   FIXUP_BITS, 1
        addq    %rcx, %rdx
        shlq    $4, %rdx
        movq    %rdx, %r8
        .subsection 1
        frame   RETURNED_TO, 8
2:      xorl    %eax, %eax
        xorl    %edx, %edx
        jmp     1b
3:      subl    $19, %ecx
        shrq    %cl, %rax
        addl    $19, %ecx
        jmp     4b
        .previous
        .endm

        .macro  restore_and_return
        popq    %r8
        frame   RETURNED_TO, 7
        popq    %rdi
        frame   RETURNED_TO, 6
        popq    %rsi
        frame   RETURNED_TO, 5
        popq    %rdx
        frame   RETURNED_TO, 4
        popq    %rax
        frame   RETURNED_TO, 3
        addb    $127, %al
        sahf
        popq    %rcx
        frame   RETURNED_TO, 2
        popq    %rax
        frame   RETURNED_TO, 1
        ret
        frame   RETURNED_TO, 8          // what comes behind is on the way there
        .endm

        routine pp_leave
        measure

        begin_sequence count, PP_CONTEXT_CPU_CELLS
        testq   %rcx, %rcx
        jz      count_unregistered
        movq    (%rcx,%rsi), %rdx
        testq   %rdx, %rdx
        jz      count_without_block
        cmpq    CONTEXT(LAST_PLACE), %rdx
        ja      count_misled
        addq    CONTEXT(BLOCKS), %rdx
        incq    (%rdx,%r8)              // takes effect
        end_sequence count

        begin_sequence sum, PP_CONTEXT_CPU_CELLS
        testq   %rcx, %rcx
        jz      sum_unregistered
        movq    (%rcx,%rsi), %rdx
        testq   %rdx, %rdx
        jz      sum_without_block
        cmpq    CONTEXT(LAST_PLACE), %rdx
        ja      sum_misled
        addq    CONTEXT(BLOCKS), %rdx
        addq    %rax, 8(%rdx,%r8)       // takes effect
        end_sequence sum

        cmpb    $0, PP_SLOT_REUSED(%rdi)
        jne     leave_reused
        disclaim
        begin_sequence give, PP_CONTEXT_CPU_FREE
        testq   %rcx, %rcx
        jz      give_elsewhere
        movl    $1, %eax
        movq    (%rcx), %rdx
        testq   %rdx, %rdx
        jz      1f
        addw    PP_SLOT_LIST_LENGTH(%rdx), %ax
        cmpw    $PP_CPU_FREE_LIMIT, %ax
        ja      give_elsewhere
1:      movw    %ax, PP_SLOT_LIST_LENGTH(%rdi)
        movq    %rdx, PP_SLOT_NEXT(%rdi)
        movq    %rdi, (%rcx)            // takes effect
        end_sequence give
        forget_sequence
leave_done:
        restore_and_return

count_unregistered:
        forget_sequence
        jmp     record_locked
sum_unregistered:
        forget_sequence
        jmp     sum_locked
count_without_block:
        forget_sequence
        movl    $PP_POOL_OWN_LIMIT, %edx
        call    give_block
        jrcxz   1f
        jmp     count_again
1:      jmp     record_locked
count_misled:
        forget_sequence
        jmp     unrecorded
sum_misled:
        forget_sequence
        jmp     sum_locked
sum_without_block:
        forget_sequence
        movl    $PP_POOL_OWN_LIMIT, %edx
        call    give_block
        jrcxz   1f
        jmp     sum_again
1:      jmp     sum_locked
give_elsewhere:
        forget_sequence
        jmp     give_global
leave_reused:
        forget_sequence
        movb    $PP_SLOT_REUSED_FREE, PP_SLOT_REUSED(%rdi)
        jmp     leave_done

        abort_handler count
        abort_handler sum
        abort_handler give
        .size   pp_leave, . - pp_leave

// Without rseq: threads are spread over a few stripes by their stacks.
        routine pp_leave_locked
        measure
record_locked:
        call    locked_cells
        jrcxz   2f
        call    locked_block
        jrcxz   unrecorded
        lock incq (%rcx,%r8)
        lock addq %rax, 8(%rcx,%r8)
        jmp     2f
// What has been counted elsewhere, by a thread that was moved to another CPU since. Without a block
// there its time is missing in the sum.
sum_locked:
        call    locked_cells
        jrcxz   2f
        call    locked_block
        jrcxz   2f
        lock addq %rax, 8(%rcx,%r8)
        jmp     2f
// There is no block left: as a call that found no slot.
unrecorded:
        call    locked_cells
        jrcxz   2f
        movq    PP_SLOT_RECORD(%rdi), %rdx
        movq    PP_RECORD_MISSED(%rdx), %rdx
        lock incq (%rcx,%rdx)
        movq    CONTEXT(POOL), %rdx
        testq   %rdx, %rdx
        jz      2f
        lock incq PP_POOL_REFUSED(%rdx)
2:      cmpb    $0, PP_SLOT_REUSED(%rdi)
        jne     leave_reused_locked
        disclaim

give_global:
        give_to_global_list
        restore_and_return
leave_reused_locked:
        movb    $PP_SLOT_REUSED_FREE, PP_SLOT_REUSED(%rdi)
        jmp     leave_done

// rcx = base of the stripe's cells; 0: a child that is not to count. Clobbers rdx.
locked_cells:
        frame   RETURNED_TO, 1
        movq    %rsp, %rcx
        shrq    $16, %rcx
        imull   $0x9e3779b1, %ecx, %ecx
        shrl    $32 - PP_LOCKED_STRIPES_LOG2, %ecx
        leaq    CONTEXT(LOCKED_CELLS), %rdx
        movq    (%rdx,%rcx,8), %rcx
        ret

// rcx = the histogram's block in the stripe at rcx, or in region 0, for which there are more blocks;
// 0: there is none. Clobbers rdx.
locked_block:
        frame   RETURNED_TO, 1
1:      movq    (%rcx,%rsi), %rdx
        testq   %rdx, %rdx
        jnz     3f
        movl    $PP_POOL_OWN_LIMIT, %edx
        call    give_block
        testq   %rcx, %rcx
        jnz     1b
2:      movq    CONTEXT(LOCKED_CELLS), %rcx
        movq    (%rcx,%rsi), %rdx
        testq   %rdx, %rdx
        jnz     3f
        movl    $PP_POOL_LIMIT, %edx
        call    give_block
        testq   %rcx, %rcx
        jnz     2b
        ret
3:      xorl    %ecx, %ecx
        cmpq    CONTEXT(LAST_PLACE), %rdx
        ja      4f
        movq    CONTEXT(BLOCKS), %rcx
        addq    %rdx, %rcx
4:      ret

// Gives a block to the histogram whose place lies rsi behind the region at rcx, as long as the
// pool's field at edx allows it. rcx = 0: it does not. Clobbers rdx.
give_block:
        frame   RETURNED_TO, 1
        pushq   %rax
        frame   RETURNED_TO, 2
        pushq   %rdi
        frame   RETURNED_TO, 3
        pushq   %r9
        frame   RETURNED_TO, 4
        movq    CONTEXT(POOL), %rdi
        testq   %rdi, %rdi
        jz      3f
        movq    (%rdi,%rdx), %rdx
        movq    PP_POOL_TAKEN(%rdi), %rax
1:      cmpq    %rdx, %rax
        jae     3f
        cmpq    CONTEXT(POOL_BLOCKS), %rax
        jae     3f
        leaq    1(%rax), %r9
        lock cmpxchgq %r9, PP_POOL_TAKEN(%rdi)
        jne     1b
        imulq   CONTEXT(BLOCK_SIZE), %rax
        leaq    PP_POOL_BLOCKS(%rax), %r9
        xorl    %eax, %eax
        lock cmpxchgq %r9, (%rcx,%rsi)  // or else somebody was faster, and ours stays empty
2:      popq    %r9
        frame   RETURNED_TO, 3
        popq    %rdi
        frame   RETURNED_TO, 2
        popq    %rax
        frame   RETURNED_TO, 1
        ret
        frame   RETURNED_TO, 4
3:      xorl    %ecx, %ecx
        jmp     2b
        .size   pp_leave_locked, . - pp_leave_locked

// --------------------------------------------------------------------------------------- unwind

// The personality of slots' frames, called by the unwinder whose table r9 leads to:
//     edi = version, esi = actions, rdx = class, rcx = exception, r8 = context
// Nobody catches anything in a slot. When the stack is taken down, the unwinder lands here for the
// slot to be given back, and goes on from where the measured function was called. Not where a thread
// that is cancelled has begun to return from the slot: the stack is no more as the landing needs it,
// and the slot stays in use.
        .set    CLEANUP_PHASE, 2
        .set    INSTALL_CONTEXT, 7
        .set    CONTINUE_UNWIND, 8
        .set    DWARF_RAX, 0
        .set    DWARF_RDX, 1

        routine pp_personality
        frame   RETURNED_TO, 1
        movl    $CONTINUE_UNWIND, %eax
        testl   $CLEANUP_PHASE, %esi
        jz      2f
        pushq   %rbx
        frame   RETURNED_TO, 2, 0, RBX_SECOND
        pushq   %rbp
        frame   RETURNED_TO, 3, 0, RBX_SECOND | RBP_THIRD
        pushq   %r12
        frame   RETURNED_TO, 4, 0, RBX_SECOND | RBP_THIRD | R12_FOURTH
        movq    %r9, %rbx
        movq    %r8, %rbp
        movq    %rcx, %r12
        movq    %rbp, %rdi
        call    *PP_UNWINDER_GET_IP(%rbx)
        movq    CONTEXT(SLOTS), %rdx
        subq    PP_SLOT_CODE(%rdx), %rax
        movl    %eax, %ecx
        andl    $(1 << PP_SLOT_CODE_SIZE_LOG2) - 1, %ecx
        cmpl    $PP_SLOT_CODE_RETURN, %ecx
        ja      1f
        shrq    $PP_SLOT_CODE_SIZE_LOG2, %rax
        cmpq    CONTEXT(SLOT_COUNT), %rax
        jae     1f
        shlq    $PP_SLOT_SIZE_LOG2, %rax
        addq    %rax, %rdx
        movl    $DWARF_RDX, %esi
        movq    %rbp, %rdi
        call    *PP_UNWINDER_SET_GR(%rbx)
        movq    %r12, %rdx
        movl    $DWARF_RAX, %esi
        movq    %rbp, %rdi
        call    *PP_UNWINDER_SET_GR(%rbx)
        movq    PP_UNWINDER_LANDING(%rbx), %rsi
        movq    %rbp, %rdi
        call    *PP_UNWINDER_SET_IP(%rbx)
        movl    $INSTALL_CONTEXT, %eax
        jmp     3f
1:      movl    $CONTINUE_UNWIND, %eax
3:      popq    %r12
        frame   RETURNED_TO, 3, 0, RBX_SECOND | RBP_THIRD
        popq    %rbp
        frame   RETURNED_TO, 2, 0, RBX_SECOND
        popq    %rbx
        frame   RETURNED_TO, 1
2:      ret
        .size   pp_personality, . - pp_personality

// Where it lands: rax = exception, rdx = slot, r11 = the unwinder's table; rsp as behind the return
// that did not happen. With the return address back in its place this is the measured function,
// at its beginning, which goes on unwinding.
//
// A caller need not align its stack as long as it calls nothing that can throw, and then it is a
// cancelled thread that comes by. For that there is a frame of our own, below which the stack is
// aligned; who detaches looks for it (pp_resumed).
        routine pp_unwound
        frame   SLOT_IN_RDX, 0
        pushq   PP_SLOT_RETURN_ADDRESS(%rdx)
        frame   RETURNED_TO, 1
        movq    %rax, %r10
        movq    %rdx, %rdi
        movq    PP_SLOT_RECORD(%rdi), %rdx
        movq    PP_RECORD_UNWOUND(%rdx), %rdx
        movq    CONTEXT(LOCKED_CELLS), %rcx
        jrcxz   1f
        lock incq (%rcx,%rdx)
1:      cmpb    $0, PP_SLOT_REUSED(%rdi)
        jne     3f
        disclaim
        give_to_global_list
4:      movq    %r10, %rdi
        testb   $8, %spl
        jz      2f
        jmp     *PP_UNWINDER_RESUME(%r11)
2:      pushq   %rbp
        frame   RETURNED_TO, 2, 0, RBP_SECOND
        movq    %rsp, %rbp
        frame   RETURNED_TO_WITH_RBP, 2, 0, RBP_SECOND
        andq    $-16, %rsp
        call    *PP_UNWINDER_RESUME(%r11)       // does not come back
        .globl  pp_resumed
        .hidden pp_resumed
pp_resumed:
        ud2
        frame   RETURNED_TO, 1
3:      movb    $PP_SLOT_REUSED_FREE, PP_SLOT_REUSED(%rdi)
        jmp     4b
        .size   pp_unwound, . - pp_unwound

        .subsection 2
        frame   NOWHERE, 0
        .p2align 5
        descriptor take
        descriptor count
        descriptor sum
        descriptor give
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
