// Calls functions with addresses whose texts and numbers it knows. Does what its arguments say, or
// what it reads, line by line, and answers each line:
//     texts FILE    take() each text of the file, in which each ends with a 0. "done"
//     threads FILE  four threads take() each text, all at the same moment. "done"
//     forks FILE    take() each text; then a child does, and a child of that child. "done"
//     vforks FILE   take() each text, and then a child of vfork() does. "done"
//     signals FILE  take() each text, again and again, while a signal's handler takes "of a
//     handler", until
//                   that was 200 times. The number of rounds, and that of the handler's
//     edges         take() texts at the ends of pages, and addresses that lead nowhere. A JSON list
//     of
//                   each text and how often; null where there is none
//     numbers       look() at records, some of which are not there in part. A JSON list of the four
//                   numbers of each, null where it is not there, and how often
//     returns FILE  fill() a buffer that has "before N" with each text, N from 0 to 2. A JSON list
//     of
//                   what the buffer had, the text, and what is returned, with its length
//     faults [FILE] opens a userfaultfd, through that device if there is one. "done", or "no" if
//     that
//                   cannot be done
//     park          has a thread that waits in syscall() forever. "done"
// No handler of SIGSEGV and SIGBUS is called: if one is, the program ends with status 9.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "noinline.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum { kPage = 4096, kThreads = 4 };

NOINLINE long take(const char* text) {
  __asm__ volatile("" : "+r"(text)::"memory");
  return (long)text;
}

struct Record {
  int whole;
  int64_t wide;
  const char* name;
};

NOINLINE long look(const struct Record* record) {
  __asm__ volatile("" : "+r"(record)::"memory");
  return (long)record;
}

// Overwrites the buffer, and the length.
NOINLINE const char* fill(char* buffer, const char* text, unsigned* length) {
  strcpy(buffer, text);
  *length = (unsigned)strlen(text);
  __asm__ volatile("" ::: "memory");
  return *length % 2 ? NULL : text + 1 - !*length;
}

static void fail(const char* what) {
  perror(what);
  exit(3);
}

static void caught(int number) {
  (void)number;
  _exit(9);
}

// Pages of memory, of which those from `present` on are not mapped.
static char* pages(int present, int absent) {
  char* const start = mmap(NULL, (size_t)(present + absent) * kPage, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) fail("mmap");
  if (absent && munmap(start + present * kPage, (size_t)absent * kPage)) fail("munmap");
  return start;
}

struct Texts {
  char* bytes;
  const char* text[100000];
  int count;
};
static struct Texts read_texts(const char* file) {
  static struct Texts all;
  FILE* const from = fopen(file, "r");
  if (!from) fail(file);
  free(all.bytes);
  all.bytes = malloc(1 << 22);
  const size_t size = fread(all.bytes, 1, 1 << 22, from);
  fclose(from);
  all.count = 0;
  for (size_t at = 0; at < size; at += strlen(all.bytes + at) + 1) {
    if (all.count == 100000) fail("too many");
    all.text[all.count++] = all.bytes + at;
  }
  return all;
}

static void take_each(const struct Texts* all) {
  for (int i = 0; i < all->count; ++i) take(all->text[i]);
}

// Addresses that lead nowhere.
static const void* nowhere[8];
static int nowhere_count;
static void find_nowhere(void) {
  if (nowhere_count) return;
  nowhere[nowhere_count++] = NULL;
  nowhere[nowhere_count++] = (void*)(UINT64_C(1) << 63);
  nowhere[nowhere_count++] = (void*)UINT64_C(0x0000800000000000);
  nowhere[nowhere_count++] = (void*)UINT64_C(0xffffffff81000000);
  char* const closed = pages(1, 0);
  strcpy(closed, "closed");
  if (mprotect(closed, kPage, PROT_NONE)) fail("mprotect");
  nowhere[nowhere_count++] = closed;
  const int file = memfd_create("reads", 0);
  if (file < 0 || ftruncate(file, kPage)) fail("memfd_create");
  char* const shortened = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shortened == MAP_FAILED) fail("mmap");
  strcpy(shortened, "shortened");
  if (ftruncate(file, 0)) fail("ftruncate");
  close(file);
  nowhere[nowhere_count++] = shortened;
  // Linux 6.13 and later.
  char* const guard = pages(1, 0);
  strcpy(guard, "guard");
  if (madvise(guard, kPage, MADV_GUARD_INSTALL) == 0) nowhere[nowhere_count++] = guard;
}

static void edges(void) {
  find_nowhere();
  char* const start = pages(2, 1);
  char* const end = start + 2 * kPage;
  memset(start, 'x', 2 * kPage);
  char* const last = end - 8;  // its 0 is the last byte
  memcpy(last, "to edge", 8);
  for (int i = 0; i < 6; ++i) take(last);
  for (int i = 0; i < 3; ++i) take(end - 1);  // an empty one
  memcpy(start + kPage - 4, "over it", 8);
  for (int i = 0; i < 4; ++i) take(start + kPage - 4);
  // 64 bytes and their 0, and then one byte more, up to the same place.
  char* const longest = pages(1, 1);
  memset(longest, 'm', kPage);
  longest[kPage - 1] = 0;
  for (int i = 0; i < 5; ++i) take(longest + kPage - 65);
  for (int i = 0; i < 7; ++i) take(longest + kPage - 66);
  // These have no end. One of 65 bytes is known to be longer than 64.
  char* const endless = pages(1, 1);
  memset(endless, 'e', kPage);
  for (int i = 0; i < 2; ++i) take(endless + kPage - 10);
  for (int i = 0; i < 2; ++i) take(endless + kPage - 64);
  for (int i = 0; i < 8; ++i) take(endless + kPage - 65);
  for (int i = 0; i < 3; ++i) take(end);
  int none = 2 + 2 + 3;
  for (int i = 0; i < nowhere_count; ++i)
    for (int times = 0; times <= i; ++times, ++none) take(nowhere[i]);
  printf(
      "[[\"to edge\", 6], [\"\", 3], [\"over it\", 4], [\"%s\", 5], [\"%s\", 7], [\"%.65s\", 8], "
      "[null, %d]]\n",
      longest + kPage - 65, longest + kPage - 66, endless + kPage - 65, none);
}

static void numbers(void) {
  find_nowhere();
  static const char* const names[] = {"one", "two", "three"};
  printf("[");
  for (int i = 0; i < 40; ++i) {
    const struct Record record = {i * 1000 - 7000, INT64_C(-5000000000) * (i % 4 - 1),
                                  names[i % 3]};
    for (int times = 0; times <= i % 5; ++times) look(&record);
    printf("[%d, %d, %lld, \"%s\", %d], ", record.whole, (unsigned char)record.whole,
           (long long)record.wide, record.name, i % 5 + 1);
  }
  // Its name lies nowhere.
  const struct Record nameless = {5, 6, nowhere[4]};
  for (int i = 0; i < 3; ++i) look(&nameless);
  printf("[5, 5, 6, null, 3], ");
  // One byte of the first number is there, and then all of it and nothing more.
  char* const end = pages(1, 1) + kPage;
  memset(end - 4, 0x81, 4);
  for (int i = 0; i < 4; ++i) look((void*)(end - 1));
  for (int i = 0; i < 6; ++i) look((void*)(end - 4));
  printf("[null, %d, null, null, 4], [%d, %d, null, null, 6]", 0x81, (int)0x81818181, 0x81);
  for (int i = 0; i < nowhere_count; ++i) {
    for (int times = 0; times <= i; ++times) look(nowhere[i]);
    printf(", [null, null, null, null, %d]", i + 1);
  }
  printf("]\n");
}

static void returns(const char* file) {
  const struct Texts all = read_texts(file);
  for (int i = 0; i < all.count; ++i) {
    char buffer[300];
    unsigned length = 1000 + (unsigned)i % 3;
    sprintf(buffer, "before %d", i % 3);
    const char* const result = fill(buffer, all.text[i], &length);
    printf("%s[\"before %d\", \"%s\", ", i ? ", " : "[", i % 3, all.text[i]);
    printf(result ? "\"%s\"" : "null", result);
    printf(", %u, %u]", 1000 + (unsigned)i % 3, length);
  }
  printf("]\n");
}

static pthread_barrier_t barrier;
static struct Texts of_threads;
static void* take_together(void* none) {
  for (int i = 0; i < of_threads.count; ++i) {
    pthread_barrier_wait(&barrier);
    take(of_threads.text[i]);
  }
  return none;
}

static void threads(const char* file) {
  of_threads = read_texts(file);
  pthread_barrier_init(&barrier, NULL, kThreads);
  pthread_t all[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&all[i], NULL, take_together, NULL)) fail("pthread_create");
  for (int i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
}

static void forks(const char* file, int children) {
  const struct Texts all = read_texts(file);
  take_each(&all);
  if (!children) return;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    forks(file, children - 1);
    _exit(0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status) fail("fork");
}

static void vforks(const char* file) {
  const struct Texts all = read_texts(file);
  take_each(&all);
  const pid_t child = vfork();
  if (child == 0) {
    take_each(&all);
    _exit(0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status) fail("vfork");
}

static volatile int handled;
static void handle(int number) {
  (void)number;
  take("of a handler");
  ++handled;
}

static void signals(const char* file) {
  const struct Texts all = read_texts(file);
  struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  if (signal(SIGALRM, handle) == SIG_ERR || setitimer(ITIMER_REAL, &often, NULL)) fail("setitimer");
  int rounds = 0;
  for (; handled < 200; ++rounds) take_each(&all);
  if (setitimer(ITIMER_REAL, &never, NULL)) fail("setitimer");
  printf("%d %d\n", rounds, handled);
}

static int open_userfaultfd(const char* file) {
  if (!*file) return (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  const int device = open(file, O_RDWR | O_CLOEXEC);
  return device < 0 ? -1 : ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
}

static void* wait_forever(void* none) {
  static int word;
  for (;;) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  return none;
}

static void obey(const char* what, const char* file) {
  const char* answer = "done";
  if (!strcmp(what, "texts")) {
    const struct Texts all = read_texts(file);
    take_each(&all);
  } else if (!strcmp(what, "threads")) {
    threads(file);
  } else if (!strcmp(what, "forks")) {
    forks(file, 2);
  } else if (!strcmp(what, "vforks")) {
    vforks(file);
  } else if (!strcmp(what, "signals")) {
    signals(file);
    return;
  } else if (!strcmp(what, "faults")) {
    if (open_userfaultfd(file) < 0) answer = "no";
  } else if (!strcmp(what, "park")) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_forever, NULL)) fail("pthread_create");
  } else if (!strcmp(what, "edges")) {
    edges();
    return;
  } else if (!strcmp(what, "numbers")) {
    numbers();
    return;
  } else if (!strcmp(what, "returns")) {
    returns(file);
    return;
  } else {
    errno = EINVAL;
    fail(what);
  }
  printf("%s\n", answer);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 1 << 16);
  if (signal(SIGSEGV, caught) == SIG_ERR || signal(SIGBUS, caught) == SIG_ERR) return 2;
  if (argc > 1) obey(argv[1], argc > 2 ? argv[2] : "");
  char line[4096];
  while (argc == 1 && fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    char* const blank = strchr(line, ' ');
    if (blank) *blank = 0;
    obey(line, blank ? blank + 1 : "");
  }
  return 0;
}
