// stepped BEGIN END PROGRAM ARGUMENTS...: single-steps a program with one thread, and writes to
// file descriptor 9 how often it executed each instruction in [BEGIN, END): "offset count".
// Addresses are hexadecimal, as nm prints them for a program at a fixed address.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

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
  int status;
  struct user_regs_struct registers;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    if (ptrace(PTRACE_GETREGS, child, 0, &registers) != 0) return 1;
    if (registers.rip - begin < end - begin) counts[registers.rip - begin]++;
    ptrace(PTRACE_SINGLESTEP, child, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
  }
  FILE* out = fdopen(9, "w");
  if (out == 0) return 1;
  for (unsigned long i = 0; i < end - begin; i++)
    if (counts[i] != 0) fprintf(out, "0x%lx %lu\n", i, counts[i]);
  return fclose(out) == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
