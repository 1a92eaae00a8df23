#include "library/stub_shape.h"

namespace pinprick::library {

bool Shape::covers(const Shape& other) const {
  return counts >= other.counts && before >= other.before && behind >= other.behind &&
         measures >= other.measures && times >= other.times;
}

Shape Shape::with(const Shape& other) const {
  return {counts || other.counts, before || other.before, behind || other.behind,
          measures || other.measures, times || other.times};
}

}  // namespace pinprick::library
