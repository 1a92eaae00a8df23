// Has children that execute nothing. Does what it reads, line by line, and answers each with
// "done":
//   fork      forks a child more
//   call N    it and each child call probed() N times
//   end       waits for a child to end, the oldest one
// At the end of its input all end. With "leave" as its argument, it itself ends then, and its
// children when the descriptor 9 has nothing more to read. With "threads", each child has two more
// threads, which call busy() now and then; with "hot", all the time.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int probed(int value) {
  __asm__ volatile("" ::: "memory");
  return value + 1;
}

__attribute__((noinline)) int busy(int value) {
  __asm__ volatile("" ::: "memory");
  return value + 1;
}

enum { kMost = 64 };
static struct Child {
  pid_t pid;
  int orders, answers;
} children[kMost];
static int count;
static int leaves, has_threads, is_hot;

static void call(int times) {
  for (int i = 0; i < times; ++i) probed(i);
}

static void* stay_busy(void* none) {
  for (;;) {
    for (int i = 0; !is_hot && i < 1000; ++i) __asm__ volatile("");
    busy(0);
  }
  return none;
}

static void obey(int orders, int answers) {
  int times = 0;
  pthread_t threads[2];
  for (int i = 0; has_threads && i < 2; ++i)
    if (pthread_create(&threads[i], NULL, stay_busy, NULL) != 0) _exit(9);
  while (read(orders, &times, sizeof times) == sizeof times) {
    call(times);
    if (write(answers, "", 1) != 1) _exit(3);
  }
  char nothing;
  if (leaves && read(9, &nothing, 1) != 0) _exit(4);
  _exit(0);
}

static void start(void) {
  int orders[2], answers[2];
  if (count == kMost || pipe(orders) != 0 || pipe(answers) != 0) exit(5);
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < count; ++i) close(children[i].orders);
    close(orders[1]);
    obey(orders[0], answers[1]);
  }
  close(orders[0]);
  close(answers[1]);
  children[count++] = (struct Child){pid, orders[1], answers[0]};
}

int main(int argc, char** argv) {
  leaves = argc > 1 && strcmp(argv[1], "leave") == 0;
  is_hot = argc > 1 && strcmp(argv[1], "hot") == 0;
  has_threads = is_hot || (argc > 1 && strcmp(argv[1], "threads") == 0);
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    char byte;
    if (strcmp(line, "fork\n") == 0) start();
    if (strncmp(line, "call ", 5) == 0) {
      const int times = atoi(line + 5);
      call(times);
      for (int i = 0; i < count; ++i)
        if (write(children[i].orders, &times, sizeof times) != sizeof times ||
            read(children[i].answers, &byte, 1) != 1)
          exit(6);
    }
    if (strcmp(line, "end\n") == 0) {
      close(children[0].orders);
      int status = 0;
      if (waitpid(children[0].pid, &status, 0) != children[0].pid || status != 0) exit(7);
      memmove(children, children + 1, sizeof children[0] * (size_t)--count);
    }
    printf("done %d\n", count == 0 ? 0 : (int)children[count - 1].pid);
    fflush(stdout);
  }
  for (int i = 0; i < count; ++i) close(children[i].orders);
  for (int status = 0; !leaves && count > 0 && wait(&status) > 0; --count)
    if (status != 0) return 8;
  return 0;
}
