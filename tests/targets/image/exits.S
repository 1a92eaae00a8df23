// Functions that are left in all ways, of which tests/placement/exits_test.cc says what is known.
#define FUNCTION(name) .globl name; .type name, @function; .p2align 4; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name

// Jumps through a table of distances, unless %edi is 3 or more: that goes on at 1, ahead.
#define DISPATCH(table) cmp $2, %edi; ja 1f; lea table(%rip), %r8; movslq (%r8,%rdi,4), %rax; \
  add %r8, %rax; jmp *%rax

  .text
FUNCTION(callee)
  lea 1(%rdi), %eax
  ret
END(callee)

FUNCTION(returns_twice)
  test %edi, %edi
  je 1f
  mov $1, %eax
  ret
1: xor %eax, %eax
  ret
END(returns_twice)

FUNCTION(never_returns)
  push %rax
  .cfi_adjust_cfa_offset 8
  call callee
  ud2
END(never_returns)

FUNCTION(ends_with_a_call)
  test %edi, %edi
  je 1f
  ret
1: push %rax
  call never_returns
END(ends_with_a_call)

FUNCTION(falls_into_the_next)
  test %edi, %edi
  je 1f
  ret
1: inc %edi
END(falls_into_the_next)

FUNCTION(jumps_to_another)
  inc %edi
  jmp callee
END(jumps_to_another)

FUNCTION(jumps_to_another_on_a_condition)
  test %edi, %edi
  je callee
  ret
END(jumps_to_another_on_a_condition)

FUNCTION(jumps_into_another)
  inc %edi
  jmp returns_twice+4
END(jumps_into_another)

FUNCTION(jumps_to_itself)
  dec %edi
  jne jumps_to_itself
  ret
END(jumps_to_itself)

FUNCTION(jumps_through_a_pointer)
  inc %edi
  jmp *pointer(%rip)
END(jumps_through_a_pointer)

FUNCTION(jumps_to_a_virtual_function)
  mov (%rdi), %rax
  test %esi, %esi
  je 1f
  jmp *8(%rax)
1: mov 16(%rax), %rax
  jmp *%rax
END(jumps_to_a_virtual_function)

FUNCTION(jumps_through_a_large_object)
  jmp *0x1100(%rdi)
END(jumps_through_a_large_object)

// Compilers make this of a switch.
FUNCTION(jumps_by_a_table)
  DISPATCH(distances)
to_first:
  mov $5, %eax
  ret
to_second:
  mov $6, %eax
  ret
1: xor %eax, %eax
  ret
END(jumps_by_a_table)

// The sum is not what it jumps to at last, which may be one of its own labels.
FUNCTION(jumps_by_a_table_beside_a_sum)
  DISPATCH(distances_too)
to_first_too:
  mov $5, %eax
  ret
to_second_too:
  mov $6, %eax
  ret
1: mov pointer(%rip), %rax
  add %esi, %edi
  jmp *16(%rax)
END(jumps_by_a_table_beside_a_sum)

// To code without a name, as the stubs of the procedure linkage table are.
FUNCTION(jumps_to_an_import)
  inc %edi
  jmp .Llinkage
END(jumps_to_an_import)
  .p2align 4
.Llinkage:
  endbr64
  jmp *pointer(%rip)

// Bytes that are never executed, among them those of a return. They might also be a block that a
// table leads to.
FUNCTION(has_constants)
  mov .Lconstants(%rip), %eax
  ret
.Lconstants:
  .byte 0xc3, 0x90, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90
END(has_constants)

FUNCTION(jumps_below_the_stack)
  mov %rdi, -8(%rsp)
  jmp *-8(%rsp)
END(jumps_below_the_stack)

FUNCTION(jumps_to_a_label_in_a_variable)
  test %edi, %edi
  je 1f
  jmp *variable(%rip)
1: mov $1, %eax
  ret
to_variable:
  mov $2, %eax
  ret
END(jumps_to_a_label_in_a_variable)

FUNCTION(has_a_part_for_a_table)
  DISPATCH(distances_of_part)
to_third_too:
  mov $5, %eax
  ret
1: xor %eax, %eax
  ret
END(has_a_part_for_a_table)

#ifndef __PIC__
FUNCTION(jumps_to_functions_in_a_fixed_table)
  jmp *functions(,%rdi,8)
END(jumps_to_functions_in_a_fixed_table)
  .section .rodata
  .p2align 3
functions: .quad callee, returns_twice
  .text

FUNCTION(jumps_by_a_fixed_table)
  cmp $1, %edi
  ja 1f
  jmp *addresses(,%rdi,8)
to_third:
  mov $5, %eax
  ret
to_fourth:
  mov $6, %eax
  ret
1: xor %eax, %eax
  ret
END(jumps_by_a_fixed_table)
  .section .rodata
  .p2align 3
addresses: .quad to_third, to_fourth
  .text
#endif

// Which of the jumps leads to the labels, and which to other functions?
FUNCTION(jumps_to_an_unknown_address)
  test %esi, %esi
  je 1f
  jmp *%rdi
1: mov $1, %eax
  ret
to_label:
  mov $2, %eax
  ret
END(jumps_to_an_unknown_address)

FUNCTION(has_a_part_elsewhere)
  test %edi, %edi
  js has_a_part_elsewhere.cold
  mov $1, %eax
  ret
END(has_a_part_elsewhere)

FUNCTION(is_returned_from_by_its_part)
  test %edi, %edi
  js is_returned_from_by_its_part.cold
  ret
END(is_returned_from_by_its_part)

  .section .text.unlikely, "ax", @progbits
FUNCTION(is_first)
  ud2
END(is_first)

  .type has_a_part_elsewhere.cold, @function
has_a_part_elsewhere.cold:
  .cfi_startproc
  neg %edi
  jmp has_a_part_elsewhere+8
  .cfi_endproc
  .size has_a_part_elsewhere.cold, . - has_a_part_elsewhere.cold

  .type is_returned_from_by_its_part.cold, @function
is_returned_from_by_its_part.cold:
  .cfi_startproc
  cmp $-1, %edi
  je 1f
  ret
1: neg %edi
  jmp callee
  .cfi_endproc
  .size is_returned_from_by_its_part.cold, . - is_returned_from_by_its_part.cold

  .type has_a_part_for_a_table.cold, @function
has_a_part_for_a_table.cold:
  .cfi_startproc
  mov $7, %eax
  ret
  .cfi_endproc
  .size has_a_part_for_a_table.cold, . - has_a_part_for_a_table.cold

  .text
FUNCTION(_start)
  ud2
END(_start)

  .section .rodata
  .p2align 2
distances:
  .long to_first - distances, to_second - distances, to_first - distances
distances_too:
  .long to_first_too - distances_too, to_second_too - distances_too, to_first_too - distances_too
distances_of_part:
  .long to_third_too - distances_of_part, has_a_part_for_a_table.cold - distances_of_part
  .long to_third_too - distances_of_part
  .data
  .p2align 3
pointer: .quad callee
label: .quad to_label
variable: .quad to_variable
