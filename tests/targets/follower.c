// follower: generates code that calls three functions, as RPython's code generator does: if a
// function's first byte is that of a jump, the code calls the jump's target. Reads lines on stdin:
//   bake   generates the code anew            call N   calls each function N times through it
// Prints `baked`, or `called` and the sum of what five() returns less than many().
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// The first one starts with one instruction as long as a jump, the second one with several. The
// third one starts with one byte, after which comes the target of a branch. So only a pun fits.
long five(long value);
long many(long value);
long lone(long value);
__asm__(
    ".p2align 4\n.globl five\n.type five, @function\n"
    "five: .cfi_startproc\n movl $5, %eax\n addq %rdi, %rax\n ret\n .cfi_endproc\n.size five, . - five\n"
    ".p2align 4\n.globl many\n.type many, @function\n"
    "many: .cfi_startproc\n xorl %eax, %eax\n leaq 7(%rax,%rdi), %rax\n ret\n .cfi_endproc\n"
    ".size many, . - many\n.p2align 4\n"
    ".globl lone\n.type lone, @function\n"
    "lone: .cfi_startproc\n clc\n1: leaq -16(%rdi), %rax\n jc 1b\n ret\n .cfi_endproc\n"
    ".size lone, . - lone\n.p2align 4\n");

// Thousands like five().
__asm__(
    ".altmacro\n.macro crowd number\n"
    ".p2align 4\n.globl crowd_\\number\n.type crowd_\\number, @function\n"
    "crowd_\\number: .cfi_startproc\n movl $\\number, %eax\n addq %rdi, %rax\n ret\n"
    " .cfi_endproc\n.size crowd_\\number, . - crowd_\\number\n.endm\n"
    ".set number, 0\n.rept 3000\n crowd %number\n .set number, number + 1\n.endr\n"
    ".noaltmacro\n.p2align 4\n");

static const unsigned char* followed(const unsigned char* at) {
  while (*at == 0xe9) {
    int distance;
    memcpy(&distance, at + 1, sizeof distance);
    at += 5 + distance;
  }
  return at;
}

// mov $to, %rax; jmp *%rax
static void generate(unsigned char* code, long (*function)(long)) {
  const unsigned char* const to = followed((const unsigned char*)function);
  memcpy(code, "\x48\xb8", 2);
  memcpy(code + 2, &to, sizeof to);
  memcpy(code + 10, "\xff\xe0", 2);
}

int main(void) {
  unsigned char* const code =
      mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return 1;
  generate(code, five);
  generate(code + 64, many);
  generate(code + 128, lone);
  long (*const calls_five)(long) = (long (*)(long))code;
  long (*const calls_many)(long) = (long (*)(long))(code + 64);
  long (*const calls_lone)(long) = (long (*)(long))(code + 128);
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    long n = 0;
    if (strcmp(line, "bake\n") == 0) {
      generate(code, five);
      generate(code + 64, many);
      generate(code + 128, lone);
      puts("baked");
    } else if (sscanf(line, "call %ld", &n) == 1) {
      long sum = 0;
      for (long i = 0; i < n; i++) sum += calls_five(i) - calls_many(i) + calls_lone(i) - (i - 16);
      printf("called %ld\n", sum);
    }
    fflush(stdout);
  }
  return 0;
}
