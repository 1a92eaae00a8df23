// Places probes, which must succeed.
#pragma once

#include <stdexcept>
#include <utility>

#include "pinprick/probe.h"

namespace pinprick {

template <class T>
T must(Result<T, Error> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return *std::move(result);
}

inline Probe place(ProbeSpec spec) {
  return must(Probe::place(std::move(spec)));
}

inline ReturnProbe place(ReturnProbeSpec spec) {
  return must(ReturnProbe::place(std::move(spec)));
}

}  // namespace pinprick
