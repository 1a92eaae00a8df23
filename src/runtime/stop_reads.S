// Ends all reading of what pointers lead to (reads.inc), before the program may install a filter of
// system calls, or take page faults over. Called by a stub, in front of that system call.
//
//     rdi = READS of the context, with READERS after it
//
// Keeps the flags and all registers but rdi. Position independent; refers to nothing else.
//
// A filter may be meant for all threads. So the thread waits for those that have begun to read: that
// takes some microseconds, or until they run again, or until a page has come from a disk. What was
// begun may never end: a signal handler may have left it, or be what waits here. So after a second
// or so, the thread goes on.

        .section .pinprick_stop_reads, "a", @progbits
        .p2align 4
        .globl  pp_stop_reads
        .hidden pp_stop_reads
pp_stop_reads:
        pushfq
        pushq   %rcx
        xorl    %ecx, %ecx
        xchgq   %rcx, (%rdi)            // before READERS is looked at
        movl    $1 << 24, %ecx
1:      cmpq    $0, 8(%rdi)
        je      2f
        pause
        decl    %ecx
        jnz     1b
2:      popq    %rcx
        popfq
        ret
        .size   pp_stop_reads, . - pp_stop_reads
        .globl  pp_stop_reads_end
        .hidden pp_stop_reads_end
pp_stop_reads_end:

        .section .note.GNU-stack, "", @progbits
