#include "library/process/loader_state.h"

#include <dlfcn.h>

#include <algorithm>
#include <span>

namespace pinprick::library {

bool is_relocated(Address address) {
  dl_find_object found;
  return ::_dl_find_object(reinterpret_cast<void*>(address), &found) == 0;
}

bool is_relocated(const dl_phdr_info& object) {
  const std::span segments(object.dlpi_phdr, object.dlpi_phnum);
  const auto first = std::find_if(segments.begin(), segments.end(),
                                  [](const ElfW(Phdr) & one) { return one.p_type == PT_LOAD; });
  return first == segments.end() || is_relocated(object.dlpi_addr + first->p_vaddr);
}

LoaderState LoaderState::now() {
  LoaderState state;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        static_cast<LoaderState*>(out)->look_at(*info);
        return 0;
      },
      &state);
  return state;
}

void LoaderState::look_at(const dl_phdr_info& object) {
  added = object.dlpi_adds;
  removed = object.dlpi_subs;
  is_done = is_done && is_relocated(object);
}

}  // namespace pinprick::library
