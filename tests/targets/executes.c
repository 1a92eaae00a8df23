// Executes itself again and again, as many times as its first argument says, each time with 24
// threads, and ends.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void* wait_for_end(void* unused) {
  pause();
  return unused;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const long left = atol(argv[1]);
  for (int i = 0; i < 24; i++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, wait_for_end, 0) != 0) return 1;
  }
  if (left == 0) return 0;
  char next[32];
  snprintf(next, sizeof next, "%ld", left - 1);
  char* const arguments[] = {argv[0], next, 0};
  execv("/proc/self/exe", arguments);
  return 1;
}
