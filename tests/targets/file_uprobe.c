// Counts by the kernel's uprobe how often an instruction of a file is executed, by all processes.
//   file_uprobe PATH ADDRESS     the address as in the file's symbols, hexadecimal
// Prints "ready", waits for a line, and prints the number; or why it cannot, and ends with 77.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_CPUS = 1024, CANNOT = 77 };
static int events[MOST_CPUS];

static int cannot(const char* what) {
  printf("%s: %s\n", what, strerror(errno));
  return CANNOT;
}

static uint64_t offset_of(const char* path, uint64_t address) {
  const int file = open(path, O_RDONLY);
  Elf64_Ehdr header;
  if (pread(file, &header, sizeof header, 0) != sizeof header) exit(2);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
    if (pread(file, &segment, sizeof segment, at) != sizeof segment) exit(2);
    if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz) {
      close(file);
      return address - segment.p_vaddr + segment.p_offset;
    }
  }
  exit(2);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* type_file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
  unsigned type = 0;
  if (type_file == NULL || fscanf(type_file, "%u", &type) != 1)
    return cannot("the kernel has no uprobes for perf_event_open");
  fclose(type_file);
  struct perf_event_attr attributes = {0};
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.config1 = (uint64_t)(uintptr_t)argv[1];
  attributes.config2 = offset_of(argv[1], strtoull(argv[2], NULL, 16));
  int cpus = 0;
  for (int cpu = 0; cpu < MOST_CPUS && cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
    const int event =
        (int)syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0 && errno == ENODEV) continue;  // it is off
    if (event < 0) return cannot("perf_event_open of a uprobe");
    events[cpus++] = event;
  }
  puts("ready");
  fflush(stdout);
  getchar();
  uint64_t sum = 0;
  for (int i = 0; i < cpus; ++i) {
    uint64_t count = 0;
    if (read(events[i], &count, sizeof count) != sizeof count) return 2;
    sum += count;
  }
  printf("%lu\n", sum);
  return 0;
}
