// Who is told of objects with tracepoints that come and go.
//
// Each object tells of itself, by code that the header pinprick/tracepoint.h puts into it: before
// its constructors, and after its destructors. Then the thread holds the loader's lock, as for
// constructors; so two of these calls never run at once. The list is guarded by the registry's
// lock, which is not held while functions run.
#pragma once

#include <vector>

#include "base/result.h"
#include "library/points/point_error.h"
#include "pinprick/tracepoint.h"

namespace pinprick::library {

class PointNotifiers {
 public:
  static PointNotifiers& get();  // never destroyed

  Result<void, PointError> add(pinprick_points_notified* function, void* data);
  // Waits for the loader's lock, so that no other thread is calling the function afterwards.
  Result<void, PointError> remove(pinprick_points_notified* function, void* data);

  // To be called by the object that has the address `inside`.
  static void object(const void* inside, bool comes);

 private:
  struct Notified {
    pinprick_points_notified* function;
    void* data;
    friend bool operator==(const Notified&, const Notified&) = default;
  };

  PointNotifiers() = default;
  std::vector<Notified> all_;
};

}  // namespace pinprick::library
