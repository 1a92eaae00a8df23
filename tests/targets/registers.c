// Calls `here` 1,000 times with a different value in every register, and exits with 0 if all are
// preserved. At here+0xd there is data in the red zone, and flags are in use.
#include <stdint.h>
#include <string.h>

const uint64_t before[15] = {1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000,
                                    9000, 10000, 11000, 12000, 13000, 14000, 0x1122334455667788};
uint64_t after[15], red_zone;
uint8_t below;

// In the order rax, rcx, rdx, rbx, rbp, rsi, rdi, r8 ... r15.
__asm__(
    "        .text\n"
    "        .globl  here\n"
    "        .type   here, @function\n"
    "here:   .byte   0x0f, 0x1f, 0x44, 0, 0\n"
    "        movq    %rbp, -8(%rsp)\n"
    "        cmpq    %rsp, %rbp\n"
    "        .byte   0x0f, 0x1f, 0x44, 0, 0\n"
    "        setb    below(%rip)\n"
    "        pushq   -8(%rsp)\n"
    "        popq    red_zone(%rip)\n"
    "        ret\n"
    "        .size   here, . - here\n"
    "        .globl  come_by\n"
    "        .type   come_by, @function\n"
    "come_by:pushq   %rbx\n"
    "        pushq   %rbp\n"
    "        pushq   %r12\n"
    "        pushq   %r13\n"
    "        pushq   %r14\n"
    "        pushq   %r15\n"
    "        movq    before+0(%rip), %rax\n"
    "        movq    before+8(%rip), %rcx\n"
    "        movq    before+16(%rip), %rdx\n"
    "        movq    before+24(%rip), %rbx\n"
    "        movq    before+32(%rip), %rbp\n"
    "        movq    before+40(%rip), %rsi\n"
    "        movq    before+48(%rip), %rdi\n"
    "        movq    before+56(%rip), %r8\n"
    "        movq    before+64(%rip), %r9\n"
    "        movq    before+72(%rip), %r10\n"
    "        movq    before+80(%rip), %r11\n"
    "        movq    before+88(%rip), %r12\n"
    "        movq    before+96(%rip), %r13\n"
    "        movq    before+104(%rip), %r14\n"
    "        movq    before+112(%rip), %r15\n"
    "        call    here\n"
    "        movq    %rax, after+0(%rip)\n"
    "        movq    %rcx, after+8(%rip)\n"
    "        movq    %rdx, after+16(%rip)\n"
    "        movq    %rbx, after+24(%rip)\n"
    "        movq    %rbp, after+32(%rip)\n"
    "        movq    %rsi, after+40(%rip)\n"
    "        movq    %rdi, after+48(%rip)\n"
    "        movq    %r8, after+56(%rip)\n"
    "        movq    %r9, after+64(%rip)\n"
    "        movq    %r10, after+72(%rip)\n"
    "        movq    %r11, after+80(%rip)\n"
    "        movq    %r12, after+88(%rip)\n"
    "        movq    %r13, after+96(%rip)\n"
    "        movq    %r14, after+104(%rip)\n"
    "        movq    %r15, after+112(%rip)\n"
    "        popq    %r15\n"
    "        popq    %r14\n"
    "        popq    %r13\n"
    "        popq    %r12\n"
    "        popq    %rbp\n"
    "        popq    %rbx\n"
    "        ret\n"
    "        .size   come_by, . - come_by\n");
void come_by(void);

// Calls at_known_stack with the stack pointer at 0x1238 below a multiple of 0x10000.
__asm__(
    "        .globl  at_known_stack\n"
    "        .type   at_known_stack, @function\n"
    "at_known_stack:\n"
    "        movq    %rsp, -8(%rsp)\n"
    "        .byte   0x0f, 0x1f, 0x44, 0, 0\n"
    "        ret\n"
    "        .size   at_known_stack, . - at_known_stack\n"
    "        .globl  move_stack\n"
    "        .type   move_stack, @function\n"
    "move_stack:\n"
    "        pushq   %rbx\n"
    "        movq    %rsp, %rbx\n"
    "        andq    $-0x10000, %rsp\n"
    "        subq    $0x1230, %rsp\n"
    "        call    at_known_stack\n"
    "        movq    %rbx, %rsp\n"
    "        popq    %rbx\n"
    "        ret\n"
    "        .size   move_stack, . - move_stack\n");
void move_stack(void);

// Never called. It starts like Go's functions, with a check of the stack.
__asm__(
    "        .globl  checks_stack\n"
    "        .type   checks_stack, @function\n"
    "checks_stack:\n"
    "        cmpq    16(%r14), %rsp\n"
    "        jbe     1f\n"
    "        nopl    (%rax)\n"
    "        ret\n"
    "1:      jmp     checks_stack\n"
    "        .size   checks_stack, . - checks_stack\n");

int main(void) {
  for (int i = 0; i < 1000; i++) {
    memset(after, 0, sizeof after);
    red_zone = below = 0;
    come_by();
    move_stack();
    if (memcmp(before, after, sizeof after) != 0 || red_zone != before[4] || below != 1)
      return 1;
  }
  return 0;
}
