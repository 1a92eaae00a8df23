#include "library/process/own_code.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include "runtime/handlers.h"

// The linker defines these where there is a section of that name.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const uint8_t __start_pinprick_text[];
[[gnu::weak, gnu::visibility("hidden")]] extern const uint8_t __stop_pinprick_text[];
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

namespace pinprick::library {

Range own_code() {
  if (__start_pinprick_text != nullptr)
    return {reinterpret_cast<Address>(__start_pinprick_text),
            reinterpret_cast<Address>(__stop_pinprick_text)};
  dl_find_object found = {};
  if (::_dl_find_object(const_cast<uint8_t*>(pp_hit), &found) != 0) return {};
  const Range object = {reinterpret_cast<Address>(found.dlfo_map_start),
                        reinterpret_cast<Address>(found.dlfo_map_end)};
  return object.contains(::getauxval(AT_PHDR)) ? Range{} : object;
}

}  // namespace pinprick::library
