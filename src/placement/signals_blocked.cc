#include "placement/signals_blocked.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "image/pattern.h"

namespace pinprick::placement {
namespace {

// The functions of glibc 2.34 to 2.36 around which start_thread and pthread_create block all
// signals.
constexpr std::string_view kFunctions[] = {"start_thread",
                                           "create_thread",
                                           "advise_stack_range",
                                           "setup_stack_prot",
                                           "queue_stack",
                                           "__nptl_stack_list_add",
                                           "__nptl_stack_list_del",
                                           "__nptl_free_stacks",
                                           "__nptl_create_event",
                                           "__nptl_death_event",
                                           "_setjmp",
                                           "__sigsetjmp",
                                           "__sigjmp_save",
                                           "clone",
                                           "__clone",
                                           "clone3",
                                           "__clone3",
                                           "__ctype_init",
                                           "getpagesize",
                                           "__getpagesize",
                                           "madvise",
                                           "__madvise",
                                           "__clone_internal",
                                           "__nptl_free_tcb",
                                           "__nptl_deallocate_stack",
                                           "_dl_deallocate_tls"};

bool is_libc(const image::Object& object) {
  const std::string_view file = object.names().back();
  return image::is_library(file, "libc") || image::is_library(file, "libpthread");
}

bool is_loader(const image::Object& object) {
  const std::string_view file = object.names().back();
  return file.starts_with("ld-linux") || image::is_library(file, "ld");
}

}  // namespace

bool is_c_library(const image::Object& object) {
  return is_libc(object) || is_loader(object);
}

bool runs_with_signals_blocked(image::Object& object, const image::Function& function) {
  if (!is_c_library(object)) return false;
  const auto names = object.functions().names(function);
  // In a stripped libc, start_thread is one of the functions without a name.
  if (names.empty()) return is_libc(object);
  return std::any_of(names.begin(), names.end(), [](std::string_view name) {
    return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions);
  });
}

}  // namespace pinprick::placement
