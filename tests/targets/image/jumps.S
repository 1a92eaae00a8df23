// Computed jumps as only assembly has them. Every label whose name starts with `to_` is the target
// of a jump. Without the symbols, these have to be found by other means.
#define FUNCTION(name) .globl name; .type name, @function; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name; .p2align 4

  .text
  .p2align 4

// Into its own middle, by an address that the code computes, so that the target is unknown.
FUNCTION(computes_inside)
  lea to_computed(%rip), %rax
  lea (%rax,%rdi), %rax
  jmp *%rax
to_computed:
  inc %eax
  nop
  nop
  inc %ecx
  nop
  nop
  ret
END(computes_inside)

// The same, by a sum, in a function that also reads data, which are no distances.
FUNCTION(computes_beside_data)
  lea words(%rip), %rdx
  mov (%rdx,%rsi,4), %ecx
  lea to_computed_too(%rip), %rax
  add %rdi, %rax
  jmp *%rax
to_computed_too:
  inc %eax
  nop
  nop
  ret
END(computes_beside_data)

// The same by a table of whole distances, as -mcmodel=large has them. Read as a table of half words,
// it would have one entry.
FUNCTION(jumps_by_whole_words)
  lea whole_words(%rip), %rdx
  add (%rdx,%rdi,8), %rdx
  jmp *%rdx
to_computed_by_whole:
  inc %eax
  nop
  nop
to_computed_by_whole_too:
  inc %ecx
  nop
  nop
  ret
  .section .rodata
  .p2align 3
whole_words:
  .quad to_computed_by_whole - whole_words
  .quad to_computed_by_whole_too - whole_words
  .text
END(jumps_by_whole_words)

// The same in a function with another one nested in it: in the rest of the outer one, targets are
// just as unknown.
FUNCTION(computes_behind_inner)
  test %edi, %edi
  .cfi_endproc
  .globl inner_entry
  .type inner_entry, @function
inner_entry:
  inc %eax
  .size inner_entry, . - inner_entry
  lea to_behind(%rip), %rax
  lea (%rax,%rdi), %rax
  jmp *%rax
to_behind:
  inc %eax
  nop
  nop
  ret
  .size computes_behind_inner, . - computes_behind_inner
  .p2align 4

// To one of several blocks of the same size.
FUNCTION(jumps_among_blocks)
  lea to_block_0(%rip), %rdx
  shl $2, %edi
  lea (,%rdi,2), %eax
  add %rdx, %rax
  jmp *%rax
  .p2align 3
to_block_0:
  inc %eax
  mov %ebx, %ebx
no_block:
  mov %ebx, %ebx
  ret
  nop
to_block_1:
  inc %ecx
  ret
END(jumps_among_blocks)

// The same by two sums at once.
FUNCTION(jumps_by_scale)
  mov %edi, %edi
  lea to_scaled_0(%rip), %rdx
  lea (%rdx,%rdi,8), %rax
  jmp *%rax
  .p2align 3
to_scaled_0:
  inc %eax
  ret
  .p2align 3
to_scaled_1:
  inc %eax
  ret
END(jumps_by_scale)

// The same in both directions, and into another function, also to where there seems to be no
// instruction.
FUNCTION(jumps_both_ways)
  cmp $7, %rdi
  jb 1f
  ret
  .p2align 4
1:
  shl $4, %rdi
  lea to_shared_2(%rip), %rdx
  add %rdx, %rdi
  jmp *%rdi
END(jumps_both_ways)

FUNCTION(blocks_of_another)
  inc %eax
  ret
  .p2align 4, 0x90
to_shared_0:
  inc %eax
  jmp 1f
  .skip 8, 0x90
  .byte 0x48, 0xb8, 0, 0  // data that looks like a movabs, 10 bytes long
to_shared_1:
  inc %eax
  ret
  .p2align 4, 0x90
to_shared_2:
  inc %eax
1:
  ret
END(blocks_of_another)

// The same, but a jump from elsewhere has another index.
FUNCTION(enters_block_jump)
  cmp $3, %rsi
  jae 2f
  lea to_computed_block(%rip), %rdx
  shl $4, %rdi
1:
  add %rdx, %rdi
  jmp *%rdi
2:
  lea to_computed_block(%rip), %rdx
  jmp 1b
to_computed_block:
  inc %eax
  nop
  ret
END(enters_block_jump)

// A tail call through a register, which never leads back into the function.
FUNCTION(tail_calls)
  mov (%rdi), %rax
  nop
  jmp *%rax
END(tail_calls)

// A table relative to itself that another function looks up.
FUNCTION(takes_table)
  lea relative_table(%rip), %rdx
  jmp jumps_by_table
END(takes_table)

FUNCTION(jumps_by_table)
  movslq (%rdx,%rdi,4), %rax
  add %rdx, %rax
  jmp *%rax
to_relative_0:
  inc %eax
  ret
to_relative_1:
  inc %ecx
  ret
END(jumps_by_table)

// A sum of unknown origin.
FUNCTION(jumps_by_unknown_sum)
  mov (%rdi), %rax
  mov 8(%rdi), %rdx
  add %rdx, %rax
  jmp *%rax
END(jumps_by_unknown_sum)

// A table in the code, between functions.
FUNCTION(table_in_text)
  lea text_table(%rip), %rdx
  movslq (%rdx,%rdi,4), %rax
  add %rdx, %rax
  jmp *%rax
to_text_0:
  inc %eax
  ret
to_text_1:
  inc %ecx
  ret
END(table_in_text)
  .p2align 3
text_table:
  .long to_text_0 - text_table
  .long to_text_1 - text_table
  .p2align 4

// Absolute addresses in the code, between functions.
FUNCTION(words_in_text)
  lea text_words(%rip), %rdx
  jmp *(%rdx,%rdi,8)
to_text_word:
  inc %ecx
  ret
END(words_in_text)
#ifndef __PIE__
  .p2align 3
text_words:
  .quad to_text_word
#else
  .set text_words, data_words
#endif
  .p2align 4

// Every kind of direct branch.
FUNCTION(branches)
  jmp to_short
  nop
to_short:
  jne to_conditional
  nop
to_conditional:
  jrcxz to_rcxz
  nop
to_rcxz:
  loop to_loop
  nop
to_loop:
  call to_called
  nop
to_called:
  xbegin to_abort
  nop
to_abort:
  {disp32} jmp to_near
  nop
to_near:
  {disp32} jne to_near_conditional
  nop
to_near_conditional:
  cmpb $0, %fs:24
  je 1f
  lock
to_behind_prefix = .
1: cmpxchg %rcx, (%rdi)
  jmp to_function
  ret
END(branches)

// Called, but without a symbol or an unwind entry of its own.
to_function:
  inc %eax
  ret
  .p2align 4

// Addresses that are passed on.
FUNCTION(passes_on)
  lea to_passed(%rip), %rdi
  ret
  nop
to_passed:
  inc %eax
  ret
#ifndef __PIE__
  mov $to_immediate, %edi
  ret
  nop
to_immediate:
  inc %eax
  ret
  jmp *short_words(,%rdi,8)
#endif
END(passes_on)

#ifndef __PIE__
// Tables of 4-byte addresses: indexed from 0, from the first case, and from the fifth.
FUNCTION(half_words_by_begin)
  mov $begun_table, %esi
  mov (%rsi,%rdi,4), %eax
  jmp *%rax
to_begun_0:
  inc %eax
  ret
to_begun_1:
  inc %ecx
  ret
END(half_words_by_begin)

FUNCTION(half_words)
  mov half_table(,%rdi,4), %eax
  jmp *%rax
to_half_0:
  inc %eax
  ret
to_half_1:
  inc %ecx
  ret
END(half_words)

FUNCTION(late_half_words)
  mov late_half_table - 20(,%rdi,4), %eax
  jmp *%rax
to_late_0:
  inc %eax
  ret
to_late_1:
  inc %ecx
  ret
END(late_half_words)

// Such numbers in other data.
FUNCTION(adds_numbers)
  add numbers(,%rdi,4), %eax
  lea in_between(%rip), %rdx
  ret
no_label:
  inc %eax
  ret
END(adds_numbers)

// The same in code that is not known to be a function.
half_words_between:
  mov between_table - 8(,%rdi,4), %eax
  jmp *%rax
to_between_0:
  inc %eax
  ret
  .p2align 4
#endif

  .globl _start
  .type _start, @function
_start:
  mov $60, %eax
  xor %edi, %edi
  syscall
  .size _start, . - _start

  .section .rodata
  .p2align 2
words:
  .ascii "no distances at all"
  .p2align 2
relative_table:
  .long to_relative_0 - relative_table
  .long to_relative_1 - relative_table
  .long 0x7fffffff

#ifndef __PIE__
begun_table:
  .long to_begun_0, to_begun_1
numbers:
  .long 7, no_label, 7, no_label, 7
half_table:
  .long to_half_0, to_half_1
  .skip 8
in_between:
  .skip 12
late_half_table:
  .long to_late_0, to_late_1
  .skip 8192
between_table:
  .long to_between_0, to_between_0
#endif

  .section .data.rel.ro, "aw"
  .p2align 3
data_words:
#ifdef __PIE__
  .quad to_text_word
#endif
short_words:
  .quad to_word
  .byte 0
  .globl packed_word
packed_word:
#ifdef __PIE__
  .quad to_packed_word  // relocated, though not aligned
#endif
  .text
to_word:
  ret
to_packed_word:
  ret
reads_constant:
  movdqu to_constant(%rip), %xmm0
  ret
to_constant:
  .quad 0, 0
  .section .note.GNU-stack, "", @progbits
