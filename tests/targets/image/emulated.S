// Instructions that hypervisors emulate, followed by code that shows whether single steps over them
// work.
  .text
  .globl _start, jumps, jumped_to, calls, called, returned, jumps_twice, jumped_to_again
  .type _start, @function
_start:
  xor %eax, %eax
  cpuid
  nop
  xor %eax, %eax
  cpuid
jumps:
  jmp jumped_to
  ud2
jumped_to:
  xor %eax, %eax
  cpuid
calls:
  call called
returned:
  rdtsc
  xor %eax, %eax
  cpuid
  cpuid
jumps_twice:
  jmp jumped_to_again
  ud2
jumped_to_again:
  mov $60, %eax
  xor %edi, %edi
  syscall
  .size _start, . - _start

  .type called, @function
called:
  ret
  .size called, . - called
  .section .note.GNU-stack, "", @progbits
