// Lists the objects of its process for each line that it reads, in a function that is called by
// another one: `any` looks for no address; `caller` looks for the first address on its stack that
// is not its own, as unwinders do; `holds` does the same, and reads another line at the first
// object. `[pinprick]` must be listed with the address in one of its segments; otherwise prints
// WRONG.
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "noinline.h"

struct looking {
  uint64_t address;
  int holds, objects, more;
};

extern char __executable_start, etext;

static _Unwind_Reason_Code not_own(struct _Unwind_Context* context, void* found) {
  const uint64_t ip = _Unwind_GetIP(context);
  if (ip - (uint64_t)&__executable_start < (uint64_t)(&etext - &__executable_start))
    return _URC_NO_REASON;
  *(uint64_t*)found = ip;
  return _URC_END_OF_STACK;
}

static int on_object(struct dl_phdr_info* info, size_t size, void* argument) {
  struct looking* const looking = argument;
  (void)size;
  ++looking->objects;
  if (strcmp(info->dlpi_name, "[pinprick]") == 0) {
    int within = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const uint64_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      if (info->dlpi_phdr[i].p_type == PT_LOAD &&
          looking->address - 1 - begin < info->dlpi_phdr[i].p_memsz)
        within = 1;
    }
    ++looking->more;
    if (!within) printf("WRONG\n");
  } else if (looking->more) {
    printf("WRONG, not the last\n");
  }
  if (looking->holds && looking->objects == 1) {
    char line[64];
    printf("holds\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(1);
  }
  return 0;
}

NOINLINE void lists(const char* what) {
  struct looking looking = {0, strcmp(what, "holds\n") == 0, 0, 0};
  if (strcmp(what, "any\n") != 0) _Unwind_Backtrace(not_own, &looking.address);
  dl_iterate_phdr(on_object, &looking);
  printf("%d objects, and %d\n", looking.objects - looking.more, looking.more);
  fflush(stdout);
}

int main(void) {
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    lists(line);
    __asm__ volatile("");
  }
  return 0;
}
