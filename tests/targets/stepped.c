// stepped BEGIN END PROGRAM ARGUMENTS...: single-steps a program with one thread, and writes to
// file descriptor 9 how often it executed each instruction in [BEGIN, END): "offset count".
// Addresses are hexadecimal, as nm prints them for a program at a fixed address. Steps begin when it
// comes to BEGIN for the first time, as most would be its loader's.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

// runs_to ADDRESS: with a breakpoint there, which is taken out again. False if the program does not come
// to it.
static int runs_to(pid_t child, unsigned long address) {
  int status;
  struct user_regs_struct registers;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 0;  // executed
  const long code = ptrace(PTRACE_PEEKTEXT, child, address, 0);
  if (ptrace(PTRACE_POKETEXT, child, address, (code & ~0xffL) | 0xcc) != 0) return 0;
  if (ptrace(PTRACE_CONT, child, 0, 0) != 0 || waitpid(child, &status, 0) != child) return 0;
  if (!WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, child, 0, &registers) != 0) return 0;
  if (registers.rip != address + 1) return 0;
  registers.rip = address;
  return ptrace(PTRACE_SETREGS, child, 0, &registers) == 0 &&
         ptrace(PTRACE_POKETEXT, child, address, code) == 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const unsigned long begin = strtoul(argv[1], 0, 16), end = strtoul(argv[2], 0, 16);
  unsigned long* counts = calloc(end - begin, sizeof *counts);
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    execv(argv[3], argv + 3);
    _exit(127);
  }
  int status, signal = 0;
  struct user_regs_struct registers;
  if (!runs_to(child, begin)) return 1;
  do {
    if (ptrace(PTRACE_GETREGS, child, 0, &registers) != 0) return 1;
    if (registers.rip - begin < end - begin) counts[registers.rip - begin]++;
    ptrace(PTRACE_SINGLESTEP, child, 0, signal);
    if (waitpid(child, &status, 0) != child) return 1;
    signal = WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
  } while (WIFSTOPPED(status));
  FILE* out = fdopen(9, "w");
  if (out == 0) return 1;
  for (unsigned long i = 0; i < end - begin; i++)
    if (counts[i] != 0) fprintf(out, "0x%lx %lu\n", i, counts[i]);
  return fclose(out) == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
