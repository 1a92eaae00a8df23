// again() has no prologue: it jumps back to its first instruction, with data in the red zone, as
// gcc compiles
//     do if (n & 4) b[n & 3] = n; else *out = *out * 3 + b[n & 3]; while (n--);
// Prints what comes out.
#include <stdio.h>

void again(unsigned long n, unsigned long* out);
void marked(unsigned long n, unsigned long* out);
#define FUNCTION(name, mark)                                     \
  ".globl " name "\n.type " name ", @function\n" name ":\n" mark \
  "1: mov %rdi, %rcx\n"                                          \
  "  lea -1(%rdi), %rdx\n"                                       \
  "  and $3, %ecx\n"                                             \
  "  test $4, %dil\n"                                            \
  "  jne 2f\n"                                                   \
  "  imul $3, (%rsi), %rax\n"                                    \
  "  add -0x20(%rsp, %rcx, 8), %rax\n"                           \
  "  mov %rdx, %rdi\n"                                           \
  "  mov %rax, (%rsi)\n"                                         \
  "  cmp $-1, %rdx\n"                                            \
  "  jne 1b\n"                                                   \
  "  ret\n"                                                      \
  "2: mov %rdi, -0x20(%rsp, %rcx, 8)\n"                          \
  "  mov %rdx, %rdi\n"                                           \
  "  jmp 1b\n"                                                   \
  ".size " name ", . - " name "\n"
__asm__(".text\n" FUNCTION("again", "") FUNCTION("marked", "endbr64\n"));

int main(void) {
  unsigned long sum = 0;
  again(7, &sum);
  marked(15, &sum);
  printf("%lu\n", sum);
  return 0;
}
