// A timer interrupts spin() at any instruction, some 10,000 times a second, until there were ROUNDS
// signals. The handler runs on a stack of its own and calls handled(); one in ten leaves the
// interrupted call of spin() by siglongjmp. Prints "right", and how often spin() and handled() were
// called.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "noinline.h"

static sigjmp_buf again;
static long signals, wrong, spins;
static volatile sig_atomic_t may_leave;
static char stack[65536];

NOINLINE long handled(long x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}

NOINLINE long spin(long x) {
  __asm__ volatile("" : "+r"(x));
  return x * 3 + 1;
}

static void handler(int number) {
  char here;
  signals++;
  if (handled(number) != number + 1 || &here < stack || &here >= stack + sizeof stack) wrong++;
  if (may_leave && signals % 10 == 0) siglongjmp(again, 1);
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 0;
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  const struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  sigaltstack(&other, 0);
  sigaction(SIGALRM, &action, 0);
  setitimer(ITIMER_REAL, &often, 0);
  sigsetjmp(again, 1);
  while (signals < rounds) {
    // Counted before the call, as siglongjmp may leave the call.
    spins++;
    may_leave = 1;
    const long result = spin(signals & 1023);
    may_leave = 0;
    if ((result - 1) % 3 != 0) wrong++;
  }
  setitimer(ITIMER_REAL, &never, 0);
  printf("%s\nspin %ld\nhandled %ld\n", wrong ? "WRONG" : "right", spins, signals);
  return 0;
}
