#include "recording/call_paths.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/abandoned.h"
#include "image/names/frame_name.h"
#include "recording/expected_time.h"
#include "session/thread_identity.h"

namespace pinprick::recording {
namespace {

const session::EventValue* stack_value(const session::Event& event) {
  const auto found = std::find_if(
      event.values.begin(), event.values.end(),
      [](const session::EventValue& one) { return one.kind == session::EventValue::Kind::stack; });
  return found == event.values.end() ? nullptr : &*found;
}

}  // namespace

void CallPaths::add(const session::Event& event) {
  using Of = Kept::Of;
  if (event.span_part || event.triggers_end) return;
  Kept kept = {.tsc = event.tsc,
               .latency_ns = event.latency_ns.value_or(0),
               .stack_pointer = event.stack_pointer,
               .thread = identity_of_thread(event)};
  const session::EventValue* const stack = is_tree_ ? nullptr : stack_value(event);
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
  waiting_.add(kept, [this](const Kept& one) { take(one); });
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
  if (!is_tree_) return take_call(kept);
  Thread& thread = threads_[kept.thread];
  const uint64_t last_tsc = std::exchange(thread.last_tsc, kept.tsc);
  end_abandoned(thread, kept);
  if (kept.of == Of::ret) return take_return(thread, kept, last_tsc);
  // Deeper calls are counted when they return.
  constexpr size_t kMostOpen = 1 << 16, kMostOpenOfAll = 1 << 22;
  const bool is_entry = kept.of == Of::entry;
  if (is_entry && (thread.open.size() == kMostOpen || open_ == kMostOpenOfAll)) return;
  const bool is_outermost = thread.open.empty();
  const PathTree::Node caller = is_outermost ? PathTree::kRoot : thread.open.back().node;
  const PathTree::Node node = tree_.within(caller, kept.function);
  tree_.add(node, 1, 0);
  if (!is_entry) return;
  const uint64_t lowest = is_outermost ? UINT64_MAX : thread.open.back().lowest;
  const uint64_t known = kept.stack_pointer == 0 ? UINT64_MAX : kept.stack_pointer;
  thread.open.push_back(
      {node, kept.function, kept.tsc, kept.stack_pointer, std::min(lowest, known)});
  ++open_;
}

void CallPaths::end_calls(Thread& thread, size_t remaining, uint64_t tsc) {
  for (; thread.open.size() > remaining; thread.open.pop_back()) {
    const Open& call = thread.open.back();
    tree_.add(call.node, 0,
              expected_time(std::max(tsc, call.entry_tsc), call.entry_tsc, 0, ns_multiplier_));
    has_times_ = true;
    --open_;
  }
}

// Usually nothing was abandoned: the event then lies below all open calls.
void CallPaths::end_abandoned(Thread& thread, const Kept& kept) {
  if (thread.open.empty() || kept.stack_pointer < thread.open.back().lowest) return;
  const auto ended = std::find_if(thread.open.begin(), thread.open.end(), [&](const Open& call) {
    return was_abandoned(call.stack_pointer, kept.stack_pointer, call.function == kept.function);
  });
  end_calls(thread, static_cast<size_t>(ended - thread.open.begin()), kept.tsc);
}

// If the entry of a call was lost, its return counts as a call without others in it. Calls in it
// whose returns were lost count as ended at the event before.
void CallPaths::take_return(Thread& thread, const Kept& kept, uint64_t last_tsc) {
  const auto found = std::find_if(thread.open.rbegin(), thread.open.rend(),
                                  [&](const Open& call) { return call.function == kept.function; });
  if (found == thread.open.rend()) {
    const PathTree::Node caller = thread.open.empty() ? PathTree::kRoot : thread.open.back().node;
    return tree_.add(tree_.within(caller, kept.function), 1, kept.latency_ns);
  }
  const auto at = static_cast<size_t>(thread.open.rend() - found) - 1;
  end_calls(thread, at + 1, last_tsc);
  tree_.add(thread.open.back().node, 0, kept.latency_ns);
  thread.open.pop_back();
  --open_;
}

void CallPaths::take_call(const Kept& kept) {
  const PathTree::Node node = tree_.make(kept.function);
  tree_.add(node, 1, kept.latency_ns);
  const uint64_t began_tsc =
      kept.tsc - std::min(kept.tsc, ticks_of(kept.latency_ns, ns_multiplier_));
  ended_.add(
      kept.thread, began_tsc, kept.tsc, node,
      [&](PathTree::Node inner) { tree_.adopt(node, inner); },
      [this](PathTree::Node outermost) { tree_.adopt(PathTree::kRoot, outermost); });
}

void CallPaths::finish() {
  waiting_.take_all([this](const Kept& kept) { take(kept); });
  for (auto& [identity, thread] : threads_) end_calls(thread, 0, thread.last_tsc);
  threads_.clear();
  ended_.give_up_all([this](PathTree::Node outermost) { tree_.adopt(PathTree::kRoot, outermost); });
}

}  // namespace pinprick::recording
