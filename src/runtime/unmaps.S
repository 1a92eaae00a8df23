// Comes before a system call that may take memory away which hits read (regions.inc). Called by a stub
// in front of the call, or at the start of a function that makes the call it is given, as syscall(2)
// does. Also comes before calls that may end all reading (stop_reads.S), and then takes all away.
//
//     rdi = Regions;  8(%rsp) = the rdi of before;  all other registers as in the system call
//
// Keeps the flags and all registers but rdi. Position independent; refers to nothing else.
//
// Nothing here waits for a lock, so a signal handler may do the same. A thread that reads may be
// stopped, or wait for a page that never comes: so after a second or so, the thread goes on.
//
//     stack: what the calls here need, the registers, flags, return-address, rdi

#include "layout/runtime_offsets.h"

        .set    SYS_MMAP, 9
        .set    SYS_MPROTECT, 10
        .set    SYS_MUNMAP, 11
        .set    SYS_BRK, 12
        .set    SYS_SCHED_YIELD, 24
        .set    SYS_MREMAP, 25
        .set    SYS_MADVISE, 28
        .set    SYS_SHMAT, 30
        .set    SYS_NANOSLEEP, 35
        .set    SYS_REMAP_FILE_PAGES, 216
        .set    SYS_MEMBARRIER, 324
        .set    SYS_PKEY_MPROTECT, 329
        .set    SYS_PROCESS_MADVISE, 440
        .set    PROT_READ, 1
        .set    PROT_EXEC, 4
        .set    MAP_FIXED, 16
        .set    MREMAP_FIXED, 2
        .set    SHM_REMAP, 040000
        .set    SHM_EXEC, 0100000
        .set    MADV_REMOVE, 9
        .set    MADV_UNKNOWN, 26        // the first that this file does not know (MADV_GUARD_INSTALL)
        .set    PRIVATE_EXPEDITED, 8
        .set    REGISTER_PRIVATE_EXPEDITED, 16
        .set    EPERM, 1
        .set    X32, 0x40000000         // marks a call of that ABI

        .set    LOCAL, 0                // an element
        .set    REMOTE, 16              // an element
        .set    AREA_CS, 32
        .set    PAUSE, 40               // struct timespec
        .set    TID, 56
        .set    TRIES, 64
        .set    SECOND_BEGIN, 72        // what mremap(2) takes away at its new place
        .set    SECOND_END, 80
        .set    ROOM, 88
        .set    OLD_RDI, ROOM + 80
        .set    YIELDS, 64
        .set    PAUSES, 1000            // of a millisecond

        .macro  save_all
        pushfq
        pushq   %rax
        pushq   %rsi
        pushq   %rcx
        pushq   %rdx
        pushq   %r8
        pushq   %r9
        pushq   %r10
        pushq   %r11
        leaq    -ROOM(%rsp), %rsp
        .endm

        .section .pinprick_unmaps, "a", @progbits
        .p2align 4
        .globl  pp_before_call
        .hidden pp_before_call
pp_before_call:
        save_all
        movq    OLD_RDI(%rsp), %rcx     // the arguments: rcx, rsi, rdx, r10, r8
        jmp     classify

// The same where the number, which is written into this code, is not in its register yet.
        .globl  pp_before_number, pp_number
        .hidden pp_before_number, pp_number
pp_before_number:
        save_all
        movq    OLD_RDI(%rsp), %rcx
        .byte   0xb8                    // movl $number, %eax
pp_number:
        .long   0
        jmp     classify

        .globl  pp_before_syscall_function
        .hidden pp_before_syscall_function
pp_before_syscall_function:
        save_all
        movq    OLD_RDI(%rsp), %rax
        movq    %r8, %r10
        movq    %r9, %r8
        movq    %rsi, %r11
        movq    %rdx, %rsi
        movq    %rcx, %rdx
        movq    %r11, %rcx

        jmp     classify

// Takes all regions away: the kernel may soon refuse what is called here.
        .globl  pp_before_ending_reads
        .hidden pp_before_ending_reads
pp_before_ending_reads:
        save_all
        cmpq    $0, PP_REGIONS_BYTES(%rdi)
        je      done
        movq    $0, SECOND_END(%rsp)
        jmp     all

classify:
        andl    $~X32, %eax
        cmpl    $SYS_PROCESS_MADVISE, %eax
        je      1f
        cmpl    $SYS_MADVISE, %eax
        jne     2f
        cmpl    $MADV_UNKNOWN, %edx
        jb      2f
1:      lock incq PP_REGIONS_CHANGES(%rdi)
2:      cmpq    $0, PP_REGIONS_BYTES(%rdi)
        je      done
        movq    $0, SECOND_END(%rsp)
        cmpl    $SYS_MUNMAP, %eax
        je      by_length
        cmpl    $SYS_MMAP, %eax
        je      3f
        cmpl    $SYS_MPROTECT, %eax
        je      4f
        cmpl    $SYS_BRK, %eax
        je      5f
        cmpl    $SYS_MADVISE, %eax
        je      6f
        cmpl    $SYS_MREMAP, %eax
        je      7f
        cmpl    $SYS_PKEY_MPROTECT, %eax
        je      10f
        cmpl    $SYS_REMAP_FILE_PAGES, %eax
        je      by_length
        cmpl    $SYS_SHMAT, %eax
        je      8f
        cmpl    $SYS_PROCESS_MADVISE, %eax
        je      9f
        jmp     done
3:      testl   $PROT_EXEC, %edx
        jnz     all                     // new code has no hooks yet
        testl   $MAP_FIXED, %r10d
        jz      done
        jmp     by_length
10:     testl   $PROT_EXEC, %edx
        jnz     all
        jmp     by_length
4:      testl   $PROT_EXEC, %edx
        jnz     all
        testl   $PROT_READ, %edx
        jnz     done
        jmp     by_length
5:      movq    PP_REGIONS_HEAP_END(%rdi), %r9
        cmpq    PP_REGIONS_HEAP_BEGIN(%rdi), %rcx
        jb      done                    // it asks where the heap ends, or the kernel refuses
        movq    %rcx, %r8
        jmp     by_range
6:      cmpl    $MADV_UNKNOWN, %edx
        jae     by_length
        cmpl    $MADV_REMOVE, %edx
        je      by_length
        jmp     done
7:      testl   $MREMAP_FIXED, %r10d
        jz      by_length
        movq    %r8, SECOND_BEGIN(%rsp)
        leaq    PP_PAGE_SIZE-1(%r8,%rdx), %r9
        andq    $-PP_PAGE_SIZE, %r9
        movq    %r9, SECOND_END(%rsp)
        jmp     by_length
8:      testl   $SHM_EXEC, %edx
        jnz     all
        testl   $SHM_REMAP, %edx
        jz      done
        movq    %rsi, %r8
        movq    $-1, %r9
        jmp     by_range
9:
all:    xorl    %r8d, %r8d
        movq    $-1, %r9
        jmp     by_range

by_length:
        movq    %rcx, %r8
        leaq    PP_PAGE_SIZE-1(%rcx,%rsi), %r9
        andq    $-PP_PAGE_SIZE, %r9
        cmpq    %r8, %r9
        jae     by_range
        movq    $-1, %r9                // the kernel will refuse it
by_range:
        call    take_away
        movq    SECOND_END(%rsp), %r9
        testq   %r9, %r9
        jz      done
        movq    SECOND_BEGIN(%rsp), %r8
        movq    $0, SECOND_END(%rsp)
        jmp     by_range
done:
        leaq    ROOM(%rsp), %rsp
        popq    %r11
        popq    %r10
        popq    %r9
        popq    %r8
        popq    %rdx
        popq    %rcx
        popq    %rsi
        popq    %rax
        popfq
        ret

// Sets r11 = the length that is left of the region at rsi, and goes to `apart` if it ends before r8 or
// begins at r9 or later. Its admitted length is at rdx. Clobbers rax, rcx.
        .macro  what_is_left apart
        movq    (%rdx), %rax
        testq   %rax, %rax
        jz      \apart
        movq    (%rsi), %rcx
        cmpq    %r9, %rcx
        jae     \apart
        movq    %r8, %r11
        subq    %rcx, %r11
        jae     77f
        xorl    %r11d, %r11d            // it begins within
77:     cmpq    %rax, %r11
        jae     \apart
        .endm

// Lowers the 8 bytes at `place` to r11, unless they are less. Clobbers rax.
        .macro  lower place
        movq    \place, %rax
78:     cmpq    %r11, %rax
        jbe     79f
        lock cmpxchgq %r11, \place
        jne     78b
79:
        .endm

// Of the addresses from r8 to r9 nothing is read when this returns. Clobbers rax, rcx, rdx, rsi, r10,
// r11. The admitted length, up to which some thread may still read, is lowered last. Until then,
// another thread that unmaps a part of the region finds it high, and waits, too.
take_away:
        xorl    %r10d, %r10d            // whether any region is among them
        leaq    PP_REGIONS_LIST(%rdi), %rsi
        leaq    PP_REGIONS_ADMITTED(%rdi), %rdx
1:      what_is_left 2f
        lower   8(%rsi)
        movl    $1, %r10d
2:      addq    $PP_REGION_SIZE, %rsi
        addq    $8, %rdx
        leaq    PP_REGIONS_LIST(%rdi), %rax
        addq    PP_REGIONS_BYTES(%rdi), %rax
        cmpq    %rax, %rsi
        jb      1b
        testl   %r10d, %r10d
        jz      4f
        call    wait_for_readers
        testl   %eax, %eax
        jz      4f
        leaq    PP_REGIONS_LIST(%rdi), %rsi
        leaq    PP_REGIONS_ADMITTED(%rdi), %rdx
3:      what_is_left 5f
        lower   (%rdx)
5:      addq    $PP_REGION_SIZE, %rsi
        addq    $8, %rdx
        leaq    PP_REGIONS_LIST(%rdi), %rax
        addq    PP_REGIONS_BYTES(%rdi), %rax
        cmpq    %rax, %rsi
        jb      3b
4:      ret

// Returns eax = 1 if no thread is in a sequence that it was in when this was called, 0 if that took
// too long. Keeps rdi, r8 and r9, and clobbers the rest.
        .set    ON_STACK, 8*5           // two return addresses, and what is pushed
wait_for_readers:
        pushq   %rdi
        pushq   %r8
        pushq   %r9
        movl    $SYS_MEMBARRIER, %eax
        movl    $PRIVATE_EXPEDITED, %edi
        xorl    %esi, %esi
        xorl    %edx, %edx
        syscall
        cmpq    $-EPERM, %rax
        jne     1f
        movl    $SYS_MEMBARRIER, %eax
        movl    $REGISTER_PRIVATE_EXPEDITED, %edi
        syscall
        movl    $SYS_MEMBARRIER, %eax
        movl    $PRIVATE_EXPEDITED, %edi
        syscall
1:      movl    $PP_SYS_GETTID, %eax
        syscall
        movl    %eax, ON_STACK+TID(%rsp)
        leaq    ON_STACK+AREA_CS(%rsp), %rax
        movq    %rax, ON_STACK+LOCAL(%rsp)
        movq    $8, ON_STACK+LOCAL+8(%rsp)
        movq    $8, ON_STACK+REMOTE+8(%rsp)
        movq    $0, ON_STACK+PAUSE(%rsp)
        movq    $1000000, ON_STACK+PAUSE+8(%rsp)
        movl    $PAUSES + YIELDS, ON_STACK+TRIES(%rsp)
        movq    16(%rsp), %rdi          // Regions
        leaq    PP_REGIONS_THREADS(%rdi), %r9
        leaq    8*PP_REGION_THREADS(%r9), %r8
        jmp     3f
2:      addq    $8, %r9
        cmpq    %r8, %r9
        jae     6f
3:      movq    (%r9), %rax
        testq   %rax, %rax
        jz      2b
        movq    16(%rsp), %rdi
        addq    PP_REGIONS_RSEQ(%rdi), %rax
        addq    $PP_RSEQ_CS, %rax
        movq    %rax, ON_STACK+REMOTE(%rsp)
        pushq   %r8
        pushq   %r9
4:      movl    16+ON_STACK+TID(%rsp), %edi
        leaq    16+ON_STACK+LOCAL(%rsp), %rsi
        movl    $1, %edx
        leaq    16+ON_STACK+REMOTE(%rsp), %r10
        movl    $1, %r8d
        xorl    %r9d, %r9d
        movl    $PP_SYS_PROCESS_VM_READV, %eax
        syscall
        cmpq    $8, %rax
        jne     5f                      // the thread's memory is gone, so the thread is
        movq    32(%rsp), %rdi
        movq    16+ON_STACK+AREA_CS(%rsp), %rax
        cmpq    PP_REGIONS_FIRST_CS(%rdi), %rax
        jb      5f
        cmpq    PP_REGIONS_LAST_CS(%rdi), %rax
        ja      5f
        movl    16+ON_STACK+TRIES(%rsp), %eax
        decl    %eax
        js      7f
        movl    %eax, 16+ON_STACK+TRIES(%rsp)
        cmpl    $PAUSES, %eax
        movl    $SYS_SCHED_YIELD, %eax
        jae     8f
        leaq    16+ON_STACK+PAUSE(%rsp), %rdi
        xorl    %esi, %esi
        movl    $SYS_NANOSLEEP, %eax
8:      syscall
        jmp     4b
5:      popq    %r9
        popq    %r8
        jmp     2b
6:      movl    $1, %eax
        jmp     9f
7:      popq    %r9
        popq    %r8
        xorl    %eax, %eax
9:      popq    %r9
        popq    %r8
        popq    %rdi
        ret
        .globl  pp_unmaps_end
        .hidden pp_unmaps_end
pp_unmaps_end:

        .section .note.GNU-stack, "", @progbits
