// Room in other functions for sites that have none in their own: blocks of two, three or four bytes
// between others, as compilers put aside what they think is rarely executed.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "image/object.h"
#include "plan/function_plan.h"

namespace pinprick::probe {

// Bytes that patches of one object touch.
class Taken {
 public:
  void add(Range range) {
    Address& end = ranges_[range.begin];
    end = std::max(end, range.end);
  }
  void add(const plan::PlannedPatch& patch);
  bool is_free(Range range) const;

 private:
  std::map<Address, Address> ranges_;  // begin, end; none overlaps another
};

// Could there be a way around what is in the way of this site's own jump?
bool may_have_detour(plan::Reason reason);

// What it changes is added to `taken`.
std::optional<plan::Detour> find_detour(image::Object& object, const image::Function& function,
                                        Address site, Taken& taken);

}  // namespace pinprick::probe
