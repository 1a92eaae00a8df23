// Points whose arguments are operands of every kind that hits can read. For each line with a number
// it passes all of them with values of that number, and answers "passed"; "nan" stands for a
// floating-point number that is none. Floating-point exceptions end it, and so do their flags.
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "noinline.h"
#include "sdt_note.h"

#define POINT(name, operand, ...) \
  __asm__ volatile(SDT_NOTE("operands", name, "0", operand)::__VA_ARGS__ : "memory")

__thread int of_thread[4];
int table[8];
volatile int variable;
volatile signed char byte;
volatile double real, reals[2];

static int64_t bits_of(double number) {
  int64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static int32_t bits_of_float(float number) {
  int32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static int64_t thread_pointer(void) {
  int64_t pointer;
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

NOINLINE void pass_integers(int number) {
  const int64_t element = 3;
  const int64_t offset = (int64_t)(intptr_t)&of_thread[2] - thread_pointer();
  of_thread[0] = of_thread[2] = variable = table[element] = number;
  byte = (signed char)number;
  POINT("signed", "-4@%%eax", "a"(number));
  POINT("signed8", "-8@%%rdi", "D"((int64_t)number));
  POINT("unsigned", "4@%%eax", "a"(number));
  POINT("high", "1@%%bh", "b"((number & 0xff) << 8 | 0x5500ff));
  POINT("signed_high", "-1@%%ch", "c"((number & 0xff) << 8 | 0x5500ff));
  POINT("variable", "-4@variable(%%rip)", "a"(0));
  POINT("byte", "-1@byte(%%rip)", "a"(0));
  POINT("constant", "-2@$-5", "a"(0));
  POINT("thread", "-4@%%fs:of_thread@tpoff", "a"(0));
  POINT("thread_element", "-4@%%fs:of_thread@tpoff+8", "a"(0));
  POINT("thread_memory", "-4@%%fs:-16(%%rax,%%rcx,4)", "a"(offset), "c"(element + 1));
  POINT("element", "-4@table(,%%rcx,4)", "c"(element));
  POINT("element_of_two", "-4@table+4(%%rax,%%rcx,4)", "a"((int64_t)4), "c"(element - 2));
}

NOINLINE void pass_reals(double number) {
  real = reals[1] = number;
  register double x __asm__("xmm0") = number;
  POINT("double", "8f@%%xmm0", "x"(x));
  register float y __asm__("xmm9") = (float)number;
  POINT("float", "4f@%%xmm9", "x"(y));
  POINT("double_in_integer", "8f@%%rdx", "d"(bits_of(number)));
  POINT("float_in_integer", "4f@%%ecx", "c"(bits_of_float((float)number)));
  POINT("real", "8f@real(%%rip)", "a"(0));
  POINT("real_in_memory", "8f@8(%%rax)", "a"(reals));
  POINT("long_double", "16f@(%%rax)", "a"(0));
}

int main(void) {
  char line[64];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    const int number = atoi(line);
    const double half = number + (number < 0 ? -0.5 : 0.5);
    const int is_none = strncmp(line, "nan", 3) == 0;
    pass_integers(number);
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_ALL_EXCEPT);
    pass_reals(is_none ? (double)NAN : half);
    fedisableexcept(FE_ALL_EXCEPT);
    puts(fetestexcept(FE_ALL_EXCEPT) == 0 ? "passed" : "WRONG");
    fflush(stdout);
  }
  return 0;
}
