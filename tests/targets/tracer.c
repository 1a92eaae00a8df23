// Traces a process until it is killed.
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 2 || ptrace(PTRACE_SEIZE, atoi(argv[1]), 0, 0) != 0) return 1;
  puts("traced");
  fflush(stdout);
  for (;;) pause();
}
