#include "pinprick/tracepoint.h"

#include <cerrno>
#include <new>
#include <vector>

#include "library/points/point_notifiers.h"
#include "library/points/points.h"
#include "pinprick/handler.h"
#include "runtime/thread.h"

using pinprick::library::last_point_error;
using pinprick::library::note_point_error;
using pinprick::library::PointDescription;
using pinprick::library::PointError;
using pinprick::library::PointNotifiers;
using pinprick::library::Points;

// A copy of all points, and the one that was returned last.
struct pinprick_point_list {
  std::vector<PointDescription> points;
  size_t next = 0;
  pinprick_point_info info = {};
};

namespace {

// Runs what may throw for want of memory. Returns 0, or -1 with errno.
template <class F>
int point_status(F&& f) noexcept {
  const pinprick::detail::Uncancelled uncancelled;
  try {
    const auto result = f();
    return result ? 0 : note_point_error(result.error());
  } catch (const std::bad_alloc&) {
    return note_point_error({ENOMEM, {}});
  }
}

}  // namespace

pinprick_point_reader pinprick_library_points_read() {
  return {&pinprick::runtime::this_thread().in_point,
          pinprick::runtime::period.load(std::memory_order_relaxed)};
}

int pinprick_library_points_attach(const pinprick_attachment* all, size_t count) {
  return point_status([&] { return Points::get().attach({all, count}); });
}

int pinprick_library_points_detach(const pinprick_attachment* all, size_t count) {
  return point_status([&] { return Points::get().detach({all, count}); });
}

int pinprick_library_points_attach_named(const pinprick_named_attachment* all, size_t count) {
  return point_status([&] { return Points::get().attach_named({all, count}); });
}

int pinprick_library_points_detach_named(const pinprick_named_attachment* all, size_t count) {
  return point_status([&] { return Points::get().detach_named({all, count}); });
}

int pinprick_library_points_synchronize() {
  return point_status([] { return Points::get().synchronize(); });
}

int pinprick_library_points_notify(pinprick_points_notified* function, void* data) {
  return point_status([&] { return PointNotifiers::get().add(function, data); });
}

int pinprick_library_points_stop_notifying(pinprick_points_notified* function, void* data) {
  return point_status([&] { return PointNotifiers::get().remove(function, data); });
}

void pinprick_library_points_object(const void* inside, int comes) {
  try {
    PointNotifiers::object(inside, comes != 0);
  } catch (const std::bad_alloc&) {
    // There is no one to tell.
  }
}

const char* pinprick_library_points_error() {
  return last_point_error();
}

pinprick_point_list* pinprick_library_points_list() {
  pinprick_point_list* list = nullptr;
  point_status([&]() -> pinprick::Result<void, PointError> {
    auto points = Points::get().list();
    if (!points) return pinprick::fail(points.error());
    list = new pinprick_point_list{*std::move(points)};
    return {};
  });
  return list;
}

const pinprick_point_info* pinprick_library_points_next(pinprick_point_list* list) {
  if (list->next == list->points.size()) return nullptr;
  const PointDescription& point = list->points[list->next++];
  list->info = {.object = point.object.c_str(),
                .provider = point.provider.c_str(),
                .name = point.name.c_str(),
                .types = point.types.c_str(),
                .point = reinterpret_cast<const pinprick_point*>(point.point),
                .sites = point.sites,
                .foreign_sites = point.foreign_sites,
                .semaphore_sites = point.semaphore_sites,
                .functions = point.functions};
  return &list->info;
}

void pinprick_library_points_free(pinprick_point_list* list) {
  delete list;
}
