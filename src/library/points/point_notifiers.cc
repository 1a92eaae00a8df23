#include "library/points/point_notifiers.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "library/points/point_objects.h"
#include "library/probes/registry.h"

namespace pinprick::library {
namespace {

// Objects that come before the first function is there do not wake anything else of the library,
// which may not be initialised yet.
constinit std::atomic<bool> is_any = false;
// Destructors of all objects run at exit, when what functions use may be gone.
constinit std::atomic<bool> is_exiting = false;

void wait_for_loader() {
  if (void* const program = ::dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD)) ::dlclose(program);
}

}  // namespace

PointNotifiers& PointNotifiers::get() {
  static auto* const notifiers = new PointNotifiers;
  return *notifiers;
}

Result<void, PointError> PointNotifiers::add(pinprick_points_notified* function, void* data) {
  if (function == nullptr) return fail(PointError{EINVAL, "there is no function to call"});
  return Registry::get().exclusively([&]() -> Result<void, PointError> {
    const Notified one = {function, data};
    if (std::find(all_.begin(), all_.end(), one) != all_.end())
      return fail(PointError{EEXIST, "this function is called already; give it other data"});
    all_.push_back(one);
    // Before the loader's destructors run, which it has registered first.
    if (!is_any.exchange(true)) std::atexit([] { is_exiting = true; });
    return {};
  });
}

Result<void, PointError> PointNotifiers::remove(pinprick_points_notified* function, void* data) {
  const bool is_removed = Registry::get().exclusively([&] {
    return std::erase(all_, Notified{function, data}) != 0;
  });
  if (!is_removed) return fail(PointError{ENOENT, "this function is not called with this data"});
  wait_for_loader();
  return {};
}

// A function may add and remove others, and itself.
void PointNotifiers::object(const void* inside, bool comes) {
  if (!is_any || is_exiting) return;
  const auto object = PointObjects::around(reinterpret_cast<Address>(inside));
  if (!object) return;
  const pinprick_points_event event = {object->path.c_str(),
                                       static_cast<unsigned>(object->notes.points.size()), comes};
  PointNotifiers& notifiers = get();
  const auto all = Registry::get().exclusively([&] { return notifiers.all_; });
  for (const Notified& one : all) {
    const bool is_there = Registry::get().exclusively([&] {
      return std::find(notifiers.all_.begin(), notifiers.all_.end(), one) != notifiers.all_.end();
    });
    if (is_there) one.function(one.data, &event);
  }
}

}  // namespace pinprick::library
