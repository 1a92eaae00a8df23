#include "recording/function_times.h"

#include <algorithm>

#include "recording/expected_time.h"
#include "session/thread_identity.h"

namespace pinprick::recording {

void FunctionTimes::add(const session::Event& event) {
  if (!event.latency_ns || event.span_part || event.triggers_end) return;
  const uint32_t function = functions_.number_of(event.name);
  waiting_.add({event.tsc, *event.latency_ns, identity_of_thread(event), function},
               [this](const Call& call) { take(call); });
}

void FunctionTimes::told_until(uint64_t tsc) {
  waiting_.take_before(tsc, [this](const Call& call) { take(call); });
}

void FunctionTimes::take(const Call& call) {
  // The system's clock, which is set, does not go as the latencies do.
  const uint64_t began_tsc =
      call.tsc - std::min(call.tsc, ticks_of(call.latency_ns, ns_multiplier_));
  if (times_.size() <= call.function) times_.resize(functions_.size());
  FunctionTime& function = times_[call.function];
  ++function.calls;
  function.total_ns += call.latency_ns;
  function.self_ns += self_times_.take(call.thread, began_tsc, call.tsc, call.latency_ns);
  function.longest_ns = std::max(function.longest_ns, call.latency_ns);
}

std::vector<FunctionTime> FunctionTimes::finish() {
  waiting_.take_all([this](const Call& call) { take(call); });
  for (uint32_t number = 0; number < times_.size(); ++number) {
    const Function& function = functions_[number];
    FunctionTime& time = times_[number];
    time.object = function.object;
    time.function = function.function;
    time.file = function.file;
    time.address = function.address;
  }
  std::erase_if(times_, [](const FunctionTime& one) { return one.calls == 0; });
  std::stable_sort(times_.begin(), times_.end(), [](const FunctionTime& a, const FunctionTime& b) {
    return a.total_ns > b.total_ns;
  });
  return std::move(times_);
}

}  // namespace pinprick::recording
