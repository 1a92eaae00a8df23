// Where the dynamic linker finds a library; loads it into the test.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace pinprick {

// Empty: there is none of this name.
inline std::string library_path(const std::string& soname) {
  void* library = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return {};
  return map->l_name;
}

}  // namespace pinprick
