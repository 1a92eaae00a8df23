#include "recording/call_paths.h"

#include <algorithm>
#include <string_view>

#include "image/names/frame_name.h"
#include "recording/abandoned.h"
#include "recording/expected_time.h"

namespace pinprick::recording {
namespace {

const session::EventValue* stack_of(const session::Event& event) {
  const auto found = std::find_if(
      event.values.begin(), event.values.end(),
      [](const session::EventValue& one) { return one.kind == session::EventValue::Kind::stack; });
  return found == event.values.end() ? nullptr : &*found;
}

}  // namespace

void CallPaths::add(const session::Event& event) {
  using Of = Kept::Of;
  constexpr int kBitsOfThread = 32;
  if (event.span_part || event.triggers_end) return;
  Kept kept = {.tsc = event.tsc,
               .time_ns = event.time_ns,
               .latency_ns = event.latency_ns.value_or(0),
               .stack_pointer = event.stack_pointer,
               .thread = static_cast<uint64_t>(event.process.pid) << kBitsOfThread |
                         static_cast<uint32_t>(event.tid)};
  const session::EventValue* const stack = is_tree_ ? nullptr : stack_of(event);
  if (stack != nullptr) {
    kept.of = Of::by_stack;
    kept.node = node_of_stack(stack->words, event.name.function);
  } else if (!is_tree_ && !event.latency_ns) {
    return;
  } else {
    kept.of = event.latency_ns ? Of::ret : event.has_return_event ? Of::entry : Of::point;
    kept.function = functions_.number_of(event.name);
  }
  has_times_ = has_times_ || event.latency_ns.has_value();
  waiting_.add(kept);
}

// The frames are those of the callers, the innermost first.
PathTree::Node CallPaths::node_of_stack(std::string_view frames, std::string_view function) {
  PathTree::Node node = PathTree::kRoot;
  while (!frames.empty()) {
    if (frames.ends_with('\n')) frames.remove_suffix(1);
    const size_t before = frames.rfind('\n');
    const std::string_view frame = before == frames.npos ? frames : frames.substr(before + 1);
    node = tree_.within(node, functions_.number_of_frame(image::function_of_frame(frame)));
    frames = before == frames.npos ? std::string_view() : frames.substr(0, before + 1);
  }
  return tree_.within(node, functions_.number_of_frame(function));
}

void CallPaths::told_until(uint64_t tsc) {
  waiting_.take_before(tsc, [this](const Kept& kept) { take(kept); });
}

void CallPaths::take(const Kept& kept) {
  using Of = Kept::Of;
  if (kept.of == Of::by_stack) return tree_.add(kept.node, 1, kept.latency_ns);
  Thread& thread = threads_[kept.thread];
  if (!is_tree_) return take_call(thread, kept);
  thread.last_ns = kept.time_ns;
  end_abandoned(thread, kept);
  if (kept.of == Of::ret) return take_return(thread, kept);
  const PathTree::Node caller = thread.open.empty() ? PathTree::kRoot : thread.open.back().node;
  const PathTree::Node node = tree_.within(caller, kept.function);
  tree_.add(node, 1, 0);
  if (kept.of == Of::entry)
    thread.open.push_back({node, kept.function, kept.time_ns, kept.stack_pointer});
}

void CallPaths::end_calls(Thread& thread, size_t remaining, uint64_t time_ns) {
  for (; thread.open.size() > remaining; thread.open.pop_back()) {
    const Open& call = thread.open.back();
    tree_.add(call.node, 0, time_ns - std::min(time_ns, call.entry_ns));
    has_times_ = true;
  }
}

void CallPaths::end_abandoned(Thread& thread, const Kept& kept) {
  const auto ended = std::find_if(thread.open.begin(), thread.open.end(), [&](const Open& call) {
    return was_abandoned(call.stack_pointer, kept.stack_pointer, call.function == kept.function);
  });
  end_calls(thread, static_cast<size_t>(ended - thread.open.begin()), kept.time_ns);
}

// If the entry of a call was lost, its return is a call without others in it.
void CallPaths::take_return(Thread& thread, const Kept& kept) {
  const auto found = std::find_if(thread.open.rbegin(), thread.open.rend(),
                                  [&](const Open& call) { return call.function == kept.function; });
  if (found == thread.open.rend()) {
    const PathTree::Node caller = thread.open.empty() ? PathTree::kRoot : thread.open.back().node;
    return tree_.add(tree_.within(caller, kept.function), 1, kept.latency_ns);
  }
  const auto at = static_cast<size_t>(thread.open.rend() - found) - 1;
  end_calls(thread, at + 1, kept.time_ns);
  tree_.add(thread.open.back().node, 0, kept.latency_ns);
  thread.open.pop_back();
}

// Calls that are in no recorded one would add up. The oldest ones are taken to lie in none.
void CallPaths::take_call(Thread& thread, const Kept& kept) {
  constexpr size_t kMostEnded = 1 << 16;
  const PathTree::Node node = tree_.make(kept.function);
  tree_.add(node, 1, kept.latency_ns);
  const uint64_t began_tsc =
      kept.tsc - std::min(kept.tsc, ticks_of(kept.latency_ns, ns_multiplier_));
  auto& ended = thread.ended;
  for (; !ended.empty() && ended.back().end_tsc > began_tsc; ended.pop_back())
    tree_.adopt(node, ended.back().node);
  if (ended.size() >= kMostEnded) {
    const auto half = ended.begin() + kMostEnded / 2;
    for (auto one = ended.begin(); one != half; ++one) tree_.adopt(PathTree::kRoot, one->node);
    ended.erase(ended.begin(), half);
  }
  ended.push_back({kept.tsc, node});
}

void CallPaths::finish() {
  told_until(UINT64_MAX);
  for (auto& [identity, thread] : threads_) {
    end_calls(thread, 0, thread.last_ns);
    for (const Ended& one : thread.ended) tree_.adopt(PathTree::kRoot, one.node);
  }
  threads_.clear();
}

}  // namespace pinprick::recording
