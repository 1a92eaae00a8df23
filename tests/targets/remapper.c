// A library that replaces the text of one object by a copy in other memory before main, as programs do
// that want their code in huge pages. The environment says REMAP=OBJECT HOW, where OBJECT is `program`
// or the start of a library's file name, and HOW is one of these:
//     anonymous   all pages of text become anonymous memory
//     inner       all but the first and the last page
//     twice       as `anonymous`, in two mappings
//     whole       from the object's first page to its last page of text
//     everything  all pages of the object, its data too
//     memfd       text becomes shared memory of a file that has no name
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul

static char object[64], how[32];

static void fail(const char* what) {
  perror(what);
  _exit(99);
}

// Replaces [begin, end), which may be executed meanwhile, by memory with the same bytes.
static void replace(char* begin, char* end, int protection) {
  const size_t size = end - begin;
  char* copy = MAP_FAILED;
  if (!strcmp(how, "memfd")) {
    const int fd = memfd_create("text", 0);
    if (fd < 0 || write(fd, begin, size) != (ssize_t)size) fail("memfd_create");
    copy = mmap(0, size, protection, MAP_SHARED, fd, 0);
    close(fd);
  } else {
    copy = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy != MAP_FAILED) memcpy(copy, begin, size);
    if (copy != MAP_FAILED && mprotect(copy, size, protection) != 0) fail("mprotect");
  }
  if (copy == MAP_FAILED) fail("mmap");
  if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, begin) != begin) fail("mremap");
}

static char* first_page(struct dl_phdr_info* info, const ElfW(Phdr) * segment) {
  return (char*)((info->dlpi_addr + segment->p_vaddr) & -PAGE);
}

static char* end_of_pages(struct dl_phdr_info* info, const ElfW(Phdr) * segment) {
  return (char*)((info->dlpi_addr + segment->p_vaddr + segment->p_memsz + PAGE - 1) & -PAGE);
}

static int look_at(struct dl_phdr_info* info, size_t size, void* done) {
  (void)size;
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* name = info->dlpi_name[0] == 0 ? "program" : slash ? slash + 1 : info->dlpi_name;
  if (strncmp(name, object, strlen(object)) != 0) return 0;
  char* lowest = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD) continue;
    char *begin = first_page(info, segment), *end = end_of_pages(info, segment);
    if (lowest == 0) lowest = begin;
    if ((segment->p_flags & PF_X) == 0) {
      // Pages after the file's are anonymous already.
      if (!strcmp(how, "everything"))
        replace(begin, end, segment->p_flags & PF_W ? PROT_READ | PROT_WRITE : PROT_READ);
      continue;
    }
    if (!strcmp(how, "inner")) {
      begin += PAGE;
      end -= PAGE;
    }
    if (!strcmp(how, "whole")) begin = lowest;
    if (!strcmp(how, "twice")) {
      replace(begin, begin + PAGE, PROT_READ | PROT_EXEC);
      madvise(begin, PAGE, MADV_DONTFORK);
      begin += PAGE;
    }
    if (begin < end) replace(begin, end, PROT_READ | PROT_EXEC);
    *(int*)done = 1;
  }
  return 0;
}

__attribute__((constructor)) static void remap(void) {
  const char* wanted = getenv("REMAP");
  if (wanted == 0) return;
  if (sscanf(wanted, "%63s %31s", object, how) != 2) fail("REMAP");
  int done = 0;
  dl_iterate_phdr(look_at, &done);
  if (!done) fail(object);
}
