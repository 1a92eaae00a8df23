// A valid restartable sequence, and invalid descriptors.
  .text
  .globl _start
  .type _start, @function
_start:
  lea descriptor(%rip), %rax
  .globl announcement
announcement:
  mov %rax, %fs:0
  .globl start
start:
  mov %fs:8, %eax
  incq (%rdi,%rax,8)
  .globl commit_end
commit_end:
  ret
  .byte 0x0f, 0xb9, 0x3d  // ud1: the signature is its operand
  .globl signature
signature:
  .long 0x53053053
  .globl abort
abort:
  jmp start
  .size _start, . - _start

  .globl unsigned_abort
unsigned_abort:
  nop
  ret

  .section __rseq_cs, "aw"
  .p2align 5
descriptor:
  .long 0, 0
  .quad start, commit_end - start, abort
// Without a signature before the abort address.
  .p2align 5
  .long 0, 0
  .quad start, commit_end - start, unsigned_abort
// With length 0.
  .p2align 5
  .long 0, 0
  .quad start, 0, abort
// Too long to ever complete.
  .p2align 5
  .long 0, 0
  .quad start, 0x10000000, abort
  .section .note.GNU-stack, "", @progbits
