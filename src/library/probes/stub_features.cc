#include "library/probes/stub_features.h"

namespace pinprick::library {

bool StubFeatures::covers(const StubFeatures& other) const {
  return counts >= other.counts && before >= other.before && after >= other.after &&
         measures >= other.measures && times >= other.times;
}

StubFeatures StubFeatures::with(const StubFeatures& other) const {
  return {counts || other.counts, before || other.before, after || other.after,
          measures || other.measures, times || other.times};
}

}  // namespace pinprick::library
