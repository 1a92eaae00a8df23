// Calls functions with all kinds of signatures, ROUNDS times: return values in different registers,
// arguments on the stack, registers on which callers rely. Prints "right" if all values are right.
#include <complex.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "noinline.h"

struct large { long words[12]; };
struct mixed { double real; long whole; };

static int wrong;
static void expect(const char* what, int holds) {
  if (holds) return;
  wrong = 1;
  printf("WRONG %s\n", what);
}

NOINLINE double sums(int count, ...) {
  va_list list;
  double sum = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++) sum += i % 2 ? va_arg(list, double) : (double)va_arg(list, long);
  va_end(list);
  return sum;
}
NOINLINE struct large returns_large(long x) {
  struct large value;
  for (int i = 0; i < 12; i++) value.words[i] = x + i;
  return value;
}
NOINLINE struct mixed returns_mixed(long x) { return (struct mixed){(double)x / 4, x * 4}; }
NOINLINE __int128 returns_pair(long x) { return (__int128)x << 64 | (unsigned long)~x; }
NOINLINE long double returns_x87(long x) { return (long double)x + 0.5L; }
NOINLINE complex long double returns_two_x87(long x) { return (long double)x - 0.5L * I; }
NOINLINE __m128 returns_xmm(float x) { return _mm_set_ps(x, x + 1, x + 2, x + 3); }
__attribute__((target("avx"))) NOINLINE __m256d returns_ymm(double x) {
  return _mm256_set_pd(x, x + 1, x + 2, x + 3);
}
NOINLINE long on_stack(long a, long b, long c, long d, long e, long f, long g, struct large h,
                       long i, double j) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h.words[11] + 9 * i + 10 * (long)j;
}

// A caller in the same file knows which registers this function does not change (-fipa-ra), and
// keeps values in them, more than the callee-saved registers can hold.
static NOINLINE long leaves_alone(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}
NOINLINE long relies_on(long a, long b, long c, long d, long e, long f) {
  const long g = a ^ b, h = b ^ c, i = c ^ d, j = d ^ e, k = e ^ f;
  const double l = (double)a, m = (double)b;
  const long x = leaves_alone(a);
  return x + a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + g + h + i + j + k + (long)(l + m);
}
NOINLINE long relied(long a, long b, long c, long d, long e, long f) {
  return a + 1 + a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + (a ^ b) + (b ^ c) + (c ^ d) + (d ^ e) +
         (e ^ f) + a + b;
}

__attribute__((target("avx"))) static void with_avx(long i) {
  double four[4];
  _mm256_storeu_pd(four, returns_ymm((double)i));
  expect("ymm", four[0] == (double)i + 3 && four[3] == (double)i);
}

static void round_of(long i) {
  expect("variadic", sums(9, 1L, 0.5, i, 1.5, 3L, 2.5, 4L, 3.5, 5L) == 21.0 + (double)i);
  const struct large large = returns_large(i);
  expect("sret", large.words[0] == i && large.words[11] == i + 11);
  const struct mixed mixed = returns_mixed(i);
  expect("rax and xmm0", mixed.real == (double)i / 4 && mixed.whole == i * 4);
  expect("rax and rdx", returns_pair(i) == ((__int128)i << 64 | (unsigned long)~i));
  expect("st0", returns_x87(i) == (long double)i + 0.5L);
  const complex long double two = returns_two_x87(i);
  expect("st0 and st1", creall(two) == (long double)i && cimagl(two) == -0.5L);
  float floats[4];
  _mm_storeu_ps(floats, returns_xmm((float)i));
  expect("xmm0", floats[0] == (float)i + 3 && floats[3] == (float)i);
  if (__builtin_cpu_supports("avx")) with_avx(i);
  expect("stack", on_stack(i, 1, 2, 3, 4, 5, 6, large, 7, 8.0) ==
                      i + 2 + 6 + 12 + 20 + 30 + 42 + 8 * (i + 11) + 63 + 80);
  expect("ipa-ra", relies_on(i, 3, 5, 7, i + 1, 11) == relied(i, 3, 5, 7, i + 1, 11));
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 0;
  for (long i = 0; i < rounds; i++) round_of(i);
  if (!wrong) puts("right");
  return wrong;
}
