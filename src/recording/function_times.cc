#include "recording/function_times.h"

#include <algorithm>

namespace pinprick::recording {

void FunctionTimes::add(const session::Event& event) {
  constexpr int kBitsOfThread = 32;
  if (!event.latency_ns || event.span_part || event.triggers_end) return;
  const engine::ProbeName& name = event.name;
  const auto [known, is_new] = known_.try_emplace(&name);
  if (is_new) {
    const auto [number, is_first] =
        numbers_.try_emplace({std::string(name.file), name.address}, functions_.size());
    if (is_first)
      functions_.push_back({.object = std::string(name.object),
                            .function = std::string(name.function),
                            .file = std::string(name.file),
                            .address = name.address});
    known->second = number->second;
  }
  const uint64_t thread =
      static_cast<uint64_t>(event.process.pid) << kBitsOfThread | static_cast<uint32_t>(event.tid);
  waiting_.push_back(
      {event.tsc, clocks_.boottime_of(event.tsc), *event.latency_ns, thread, known->second});
}

void FunctionTimes::told_until(uint64_t tsc) {
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const Call& a, const Call& b) { return a.tsc < b.tsc; });
  auto next = waiting_.begin();
  for (; next != waiting_.end() && next->tsc < tsc; ++next)
    if (next->tsc <= end_tsc_) take(*next);
  waiting_.erase(waiting_.begin(), next);
}

void FunctionTimes::take(const Call& call) {
  FunctionTime& function = functions_[call.function];
  ++function.calls;
  function.total_ns += call.latency_ns;
  function.self_ns += self_times_.take(call.thread, call.end_ns, call.latency_ns);
  function.longest_ns = std::max(function.longest_ns, call.latency_ns);
}

std::vector<FunctionTime> FunctionTimes::finish() {
  told_until(UINT64_MAX);
  std::erase_if(functions_, [](const FunctionTime& one) { return one.calls == 0; });
  std::stable_sort(
      functions_.begin(), functions_.end(),
      [](const FunctionTime& a, const FunctionTime& b) { return a.total_ns > b.total_ns; });
  return std::move(functions_);
}

}  // namespace pinprick::recording
