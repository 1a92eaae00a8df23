// Reads from a pipe through io_uring, by kernel workers, which are listed among the threads of the
// process. Two reads wait all the time. For each line on stdin ("read") it writes something to the
// pipe, and prints "right" if one of the reads got it, or WRONG. Ends at the end of its input. Its
// first line says if there is no io_uring.
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "noinline.h"

enum { kReads = 2, kBytes = 8 };

static int ring;
static struct io_uring_params params;
static char *submissions, *completions;
static struct io_uring_sqe* requests;
static char buffers[kReads][kBytes];
static int ends[2];

static unsigned* in(char* base, unsigned offset) {
  return (unsigned*)(base + offset);
}

static int make_ring(void) {
  const int rights = PROT_READ | PROT_WRITE;
  ring = (int)syscall(SYS_io_uring_setup, kReads, &params);
  if (ring < 0) return 0;
  submissions = mmap(0, params.sq_off.array + params.sq_entries * sizeof(unsigned), rights,
                     MAP_SHARED, ring, IORING_OFF_SQ_RING);
  completions =
      mmap(0, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), rights,
           MAP_SHARED, ring, IORING_OFF_CQ_RING);
  requests = mmap(0, params.sq_entries * sizeof *requests, rights, MAP_SHARED, ring,
                  IORING_OFF_SQES);
  return submissions != MAP_FAILED && completions != MAP_FAILED && requests != MAP_FAILED;
}

NOINLINE int submit(int read) {
  unsigned* const tail = in(submissions, params.sq_off.tail);
  const unsigned at = *tail & (params.sq_entries - 1);
  memset(&requests[at], 0, sizeof requests[at]);
  requests[at].opcode = IORING_OP_READ;
  requests[at].flags = IOSQE_ASYNC;  // by a worker
  requests[at].fd = ends[0];
  requests[at].addr = (unsigned long)buffers[read];
  requests[at].len = kBytes;
  requests[at].user_data = (unsigned long)read;
  in(submissions, params.sq_off.array)[at] = at;
  __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
  return syscall(SYS_io_uring_enter, ring, 1, 0, 0, 0, 0) == 1;
}

// Waits for one read. Returns which one it was, or -1 for an error.
NOINLINE int complete(void) {
  unsigned* const head = in(completions, params.cq_off.head);
  while (__atomic_load_n(in(completions, params.cq_off.tail), __ATOMIC_ACQUIRE) == *head)
    if (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0 &&
        errno != EINTR)
      return -1;
  const struct io_uring_cqe* const done =
      (struct io_uring_cqe*)(completions + params.cq_off.cqes) + (*head & (params.cq_entries - 1));
  const int read = done->res == kBytes ? (int)done->user_data : -1;
  __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
  return read;
}

int main(void) {
  char line[16];
  setvbuf(stdout, 0, _IOLBF, 0);
  if (!make_ring()) {
    printf("io_uring: %s\n", strerror(errno));
    return 0;
  }
  if (pipe(ends) != 0) return 1;
  for (int read = 0; read < kReads; read++)
    if (!submit(read)) return 1;
  puts("ready");
  for (char value = 'a'; fgets(line, sizeof line, stdin); value = value == 'z' ? 'a' : value + 1) {
    char bytes[kBytes];
    memset(bytes, value, kBytes);
    if (write(ends[1], bytes, kBytes) != kBytes) return 1;
    const int read = complete();
    const int right = read >= 0 && !memcmp(buffers[read], bytes, kBytes) && submit(read);
    puts(right ? "right" : "WRONG");
  }
  _exit(0);  // and leaves the reads to the kernel
}
