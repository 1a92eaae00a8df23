// A program to be stopped: THREADS threads, of which the first calls a function all the time, and
// the others wait for a byte that never arrives.
//
// Usage: still_target THREADS. Prints "ready" once all threads run; ends at the end of its input.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

extern "C" long stand_still_here(long);

// Starts with several instructions under the jump, as most functions do.
asm(R"(
  .pushsection .text
  .globl stand_still_here
  .type stand_still_here, @function
stand_still_here:
  push %rbx
  mov %rdi, %rbx
  lea 1(%rbx), %rax
  pop %rbx
  ret
  .size stand_still_here, . - stand_still_here
  .popsection
)");

int main(int argc, char** argv) {
  const long threads = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 1;
  int never[2];
  if (threads < 1 || ::pipe(never) != 0) return 2;
  std::atomic<long> there = 1;
  for (long i = 1; i < threads; ++i)
    std::thread([&] {
      ++there;
      char byte;
      while (::read(never[0], &byte, 1) != 1) continue;
    }).detach();
  while (there < threads) std::this_thread::yield();
  std::puts("ready");
  std::fflush(stdout);
  for (long i = 0; i >= 0;) i = stand_still_here(i) & 0xffff;
}
