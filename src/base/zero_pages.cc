#include "base/zero_pages.h"

#include <sys/mman.h>

namespace pinprick {

ZeroPages::ZeroPages(size_t size) {
  if (size == 0) return;
  void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages != MAP_FAILED) bytes_ = {static_cast<uint8_t*>(pages), size};
}

ZeroPages::~ZeroPages() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace pinprick
