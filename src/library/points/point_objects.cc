#include "library/points/point_objects.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>

#include "pinprick/tracepoint.h"
#include "runtime/traps.h"

namespace pinprick::library {
namespace {

// No exception may pass through the loader: it would keep its lock.
void for_each_object(const std::function<bool(const dl_phdr_info&)>& f) {
  struct Visit {
    const std::function<bool(const dl_phdr_info&)>& f;
    std::exception_ptr thrown;
  } visit = {f, nullptr};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* given) {
        auto& to = *static_cast<Visit*>(given);
        try {
          return to.f(*info) ? 0 : 1;
        } catch (...) {
          to.thrown = std::current_exception();
          return 1;
        }
      },
      &visit);
  if (visit.thrown) std::rethrow_exception(visit.thrown);
}

std::string path_of(const dl_phdr_info& object) {
  if (object.dlpi_name != nullptr && object.dlpi_name[0] != '\0') return object.dlpi_name;
  std::array<char, 4096> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "the program";
}

// The addresses from the first nop to the last one.
Range nops_of(const PointObject& object) {
  Range nops = {~Address{0}, 0};
  for (const auto& [address, point] : object.notes.points)
    for (const PointSite& site : point.sites)
      nops = {std::min(nops.begin, site.nop), std::max(nops.end, site.nop + 1)};
  return nops;
}

void forget_continuations_in(const PointObject& object) {
  for (const auto& [address, point] : object.notes.points)
    for (const PointSite& site : point.sites) runtime::forget_continuation(site.nop, site.block);
}

// If it was loaded again at the same address, its breakpoints mean the same.
bool is_among(const PointObject& object, const std::vector<PointObject>& others) {
  return std::any_of(others.begin(), others.end(), [&](const PointObject& other) {
    return other.path == object.path && nops_of(other) == nops_of(object);
  });
}

}  // namespace

bool PointObjects::refresh() {
  std::vector<PointObject> objects;
  LoaderState now;
  for_each_object([&](const dl_phdr_info& info) {
    now.look_at(info);  // before its notes are read
    if (loaded_.holds(now)) return false;
    ObjectNotes notes = read_point_notes(info);
    if (!notes.points.empty() || notes.bad_records != 0)
      objects.push_back({path_of(info), std::move(notes)});
    return true;
  });
  if (loaded_.holds(now)) return false;
  for (const PointObject& former : objects_)
    if (!is_among(former, objects)) forget_continuations_in(former);
  objects_ = std::move(objects);
  loaded_ = now;
  return true;
}

const PointOfObject* PointObjects::find(Address point) const {
  for (const PointObject& object : objects_)
    if (const auto found = object.notes.points.find(point); found != object.notes.points.end())
      return &found->second;
  return nullptr;
}

std::optional<PointObject> PointObjects::around(Address address) {
  std::optional<PointObject> found;
  for_each_object([&](const dl_phdr_info& info) {
    if (!is_in(info, address)) return true;
    ObjectNotes notes = read_point_notes(info);
    if (!notes.points.empty()) found = PointObject{path_of(info), std::move(notes)};
    return false;
  });
  return found;
}

void PointObjects::for_each_loaded(const std::vector<Address>& points,
                                   const std::function<void(Address)>& f) {
  for_each_object([&](const dl_phdr_info& info) {
    for (const Address point : points)
      if (is_data_of(info, {point, point + sizeof(pinprick_point)})) f(point);
    return true;
  });
}

}  // namespace pinprick::library
