// Threads that wait inside the first instructions of a function, by one command per line on stdin:
//     read N    N threads call waits(), whose system call is the last instruction under a jump
//     fault N   N threads call faults(), whose first instruction reads a page that is not there yet
//     go        lets them all go on
// Answers each with a line: its first word, once all threads wait or have ended, or WRONG. Answers
// "cannot" if no page can be made to wait. Ends at the end of its input.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMost = 16, kPage = 4096 };

// long waits(int descriptor, void* bytes, long size, long number), and
// unsigned long faults(const unsigned long* word).
long waits(int, void*, long, long);
unsigned long faults(const unsigned long*);
__asm__(
    ".text\n"
    ".globl waits\n.type waits, @function\nwaits:\n"
    "  mov %rcx, %rax\n"
    "  syscall\n"
    "  nopl (%rax)\n"
    "  ret\n"
    ".size waits, . - waits\n"
    ".globl faults\n.type faults, @function\nfaults:\n"
    "  mov (%rdi), %rax\n"
    "  imul $3, %rax, %rax\n"
    "  add $7, %rax\n"
    "  ret\n"
    ".size faults, . - faults\n");

static int ends[2], faulting = -1;
static char* pages;
static pthread_t threads[kMost];
static atomic_int tids[kMost], wrong;
static int count, are_faults;

static void* reads(void* number) {
  char byte;
  tids[(long)number] = gettid();
  if (waits(ends[0], &byte, 1, SYS_read) != 1) wrong = 1;
  return 0;
}

static void* touches(void* number) {
  tids[(long)number] = gettid();
  if (faults((const unsigned long*)(pages + (long)number * kPage)) != 7) wrong = 1;
  return 0;
}

static int make_pages(void) {
  struct uffdio_api api = {.api = UFFD_API};
  faulting = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (faulting < 0 || ioctl(faulting, UFFDIO_API, &api) != 0) return 0;
  pages = mmap(0, kMost * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register all = {.range = {(unsigned long)pages, kMost * kPage},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
  return ioctl(faulting, UFFDIO_REGISTER, &all) == 0;
}

// A thread waits in the kernel if it sleeps: neither of the functions takes a lock.
static void await(int tid) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  for (;; sched_yield()) {
    FILE* file = fopen(path, "r");
    const int got = file && fgets(line, sizeof line, file) != 0;
    if (file) fclose(file);
    const char* state = got ? strrchr(line, ')') : 0;
    if (state && (state[2] == 'S' || state[2] == 'D')) return;
  }
}

static void begin(void* (*run)(void*), int n) {
  count = n < kMost ? n : kMost;
  are_faults = run == touches;
  for (long i = 0; i < count; i++) {
    tids[i] = 0;
    pthread_create(&threads[i], 0, run, (void*)i);
    while (tids[i] == 0) sched_yield();
  }
  for (int i = 0; i < count; i++) await(tids[i]);
}

static void go(void) {
  for (long i = 0; i < count; i++) {
    struct uffdio_zeropage page = {.range = {(unsigned long)(pages + i * kPage), kPage}};
    if (are_faults ? ioctl(faulting, UFFDIO_ZEROPAGE, &page) != 0 : write(ends[1], "x", 1) != 1)
      wrong = 1;
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
}

int main(void) {
  char line[64], word[16];
  int n;
  if (pipe(ends) != 0) return 1;
  setvbuf(stdout, 0, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    n = 0;
    if (sscanf(line, "%15s %d", word, &n) < 1) continue;
    if (strcmp(word, "read") == 0) begin(reads, n);
    if (strcmp(word, "fault") == 0) {
      if (!make_pages()) {
        puts("cannot");
        continue;
      }
      begin(touches, n);
    }
    if (strcmp(word, "go") == 0) go();
    puts(wrong ? "WRONG" : word);
  }
  return 0;
}
