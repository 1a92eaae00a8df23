// The objects of our own process that have tracepoints.
//
// Kept between calls, and read anew when the loader has added or removed objects, or was relocating
// some: before that, the names of their points cannot be read. The caller holds the registry's
// lock. Functions allocate, and throw std::bad_alloc; they cannot fail otherwise.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "library/points/point_notes.h"
#include "library/process/loader_state.h"

namespace pinprick::library {

struct PointObject {
  std::string path;
  ObjectNotes notes;
};

class PointObjects {
 public:
  // Returns whether objects may have come or gone.
  bool refresh();

  const std::vector<PointObject>& all() const { return objects_; }
  // Returns nullptr if no object has records of it.
  const PointOfObject* find(Address point) const;

  // Returns the object that has the address; nullopt if none does, or it has no points.
  static std::optional<PointObject> around(Address address);
  // Calls f with each of `points`, an address of a struct pinprick_point, that lies in an object's
  // data now. While f runs, the object is not unloaded.
  static void for_each_loaded(const std::vector<Address>& points,
                              const std::function<void(Address)>& f);

 private:
  LoaderState loaded_;  // when they were read
  std::vector<PointObject> objects_;
};

}  // namespace pinprick::library
