// A library whose constructor forks. Parent and child both run the program; the parent first waits
// until the child has, and fails if that was killed.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void fork_early(void) {
  const pid_t child = fork();
  int status = 1;
  if (child != 0 && (waitpid(child, &status, 0) != child || status != 0)) abort();
}
