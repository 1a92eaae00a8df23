// Functions as only assembly has them. The symbols that start with `address_` give addresses; as
// they are absolute, they are not symbols of code.
#define FUNCTION(name) .globl name; .type name, @function; name:
#define SIZE(name) .size name, . - name
#define MARK(name) .globl address_##name; .set address_##name, . - base

  .text
  .p2align 4
base:

// Two names, one of them local; and the name of an object that lies in the code.
FUNCTION(twice)
FUNCTION(__twice_too)
  .type twice_local, @function
twice_local:
  mov %edi, %eax
  add %eax, %eax
  ret
  SIZE(twice)
  SIZE(__twice_too)
  .size twice_local, 1
  .p2align 4

// Without a size: it ends where the next one starts.
FUNCTION(sizeless)
  xor %eax, %eax
  ret
  .p2align 4, 0xcc

// A function with an entry in its middle, and code after that entry.
FUNCTION(outer)
  test %edi, %edi
  je inner
  inc %eax
  nop
FUNCTION(inner)
  dec %eax
  ret
  SIZE(inner)
  nop
  inc %ecx
  ret
  SIZE(outer)
  .p2align 4

// Two that overlap.
FUNCTION(left)
  inc %eax
  inc %eax
FUNCTION(right)
  inc %eax
  ret
  .size left, . - left - 1
  SIZE(right)
  .p2align 4

// Not a function by its symbol, but code.
  .globl untyped
untyped:
  ret
  .p2align 4

// Without a symbol, but with an unwind entry.
  .cfi_startproc
  MARK(unnamed)
  xor %eax, %eax
  xor %ecx, %ecx
  ret
  MARK(unnamed_end)
  .cfi_endproc
  .p2align 4

// The size of the symbol ends before the unwind entry does.
FUNCTION(short_symbol)
  .cfi_startproc
  inc %eax
  .size short_symbol, . - short_symbol
  inc %eax
  ret
  MARK(short_symbol_end)
  .cfi_endproc
  .p2align 4

// Entered by a jump, with its frame already built.
  .cfi_startproc
  .cfi_def_cfa_offset 32
  MARK(cold)
  add $24, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .p2align 4

  .globl _start
  .type _start, @function
_start:
  .cfi_startproc
  .cfi_undefined rip
  mov $60, %eax
  xor %edi, %edi
  syscall
  .cfi_endproc
  SIZE(_start)
  .p2align 4

// Its size is larger than the code.
FUNCTION(greedy)
  ret
  .size greedy, 0x100000

  .data
object_in_data:
  .quad twice
  .section .note.GNU-stack, "", @progbits
