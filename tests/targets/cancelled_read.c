// Threads that are cancelled while they wait in a system call; its argument is their number. Prints
// how many were.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ends[2];
static volatile int tid;

static void* wait_for_a_byte(void* none) {
  char byte;
  tid = (int)syscall(SYS_gettid);
  return read(ends[0], &byte, 1) < 0 ? none : NULL;
}

// Does the kernel say that the thread sleeps?
static int waits(void) {
  char path[64], status[256] = "";
  if (tid == 0) return 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  FILE* file = fopen(path, "r");
  if (file == NULL) return 0;
  const char* name_end = fgets(status, sizeof status, file) ? strchr(status, ')') : NULL;
  fclose(file);
  return name_end != NULL && name_end[2] == 'S';
}

int main(int argc, char** argv) {
  int cancelled = 0;
  for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0; --i) {
    pthread_t thread;
    void* result;
    tid = 0;
    if (pipe(ends) != 0 || pthread_create(&thread, NULL, wait_for_a_byte, NULL) != 0) return 1;
    while (!waits()) usleep(100);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
    close(ends[0]);
    close(ends[1]);
  }
  printf("cancelled %d\n", cancelled);
  return 0;
}
