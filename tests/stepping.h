// Steps through functions of unwound.S, in this very process, one instruction after the other. At
// each of them a signal handler unwinds with libgcc. What it finds without probes is what it has to
// find with them, wherever the thread is stopped: the program's frames as they are at the
// instruction of the program that is to run next.
#pragma once

#include <gtest/gtest.h>
#include <linux/rseq.h>
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"

extern "C" {
long unwound_frame_pointer(long), unwound_saves(long), unwound_leaf(long), unwound_branches(long),
    unwound_loops(long), unwound_calls(long), unwound_calls_through_memory(long),
    unwound_returns(long), unwound_jumps(long), unwound_system_call(long),
    unwound_starts_child(long);
long step_through(long (*f)(long), long x);
extern const uint8_t unwound_begin[], unwound_end[], step_returned[];
}

namespace pinprick::stepping {

template <class T>
Address address_of(T* pointer) {
  return reinterpret_cast<Address>(pointer);
}

inline const Range kProgram = {address_of(unwound_begin), address_of(unwound_end)};

// Is this code that is there for the sake of probes?
using IsOurs = std::function<bool(Address)>;

struct Frame {
  Address ip = 0;
  bool is_exact = false;           // the instruction is yet to run; else it is the one before
  Address cfa = 0;                 // from step()'s frame
  std::array<uint64_t, 6> kept{};  // rbx, rbp, r12 to r15
  friend bool operator==(const Frame&, const Frame&) = default;
};
using Backtrace = std::vector<Frame>;

inline _Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto& frames = *static_cast<Backtrace*>(to);
  int is_exact = 0;
  Frame frame;
  frame.ip = _Unwind_GetIPInfo(context, &is_exact);
  frame.is_exact = is_exact != 0;
  frame.cfa = _Unwind_GetCFA(context);
  constexpr int kNumbers[] = {3, 6, 12, 13, 14, 15};
  for (size_t i = 0; i < frame.kept.size(); ++i)
    frame.kept[i] = _Unwind_GetGR(context, kNumbers[i]);
  frames.push_back(frame);
  return frames.size() < 40 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

struct Steps {
  IsOurs is_ours;
  Address base = 0;
  long argument = 5;
  std::vector<Backtrace> seen;  // from the interrupted instruction on
  // Of the thread, where the kernel does not know it. Each sequence that it comes to name is
  // interrupted once, and continued as the kernel does that.
  struct rseq* area = nullptr;
  std::set<Address> aborted;  // where those went on
};
inline Steps steps;

inline void look(Address ip) {
  Backtrace frames;
  frames.reserve(40);
  _Unwind_Backtrace(add_frame, &frames);
  const auto first = std::find_if(frames.begin(), frames.end(),
                                  [&](const Frame& frame) { return frame.ip == ip; });
  frames.erase(frames.begin(), first);
  const auto last = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
    return frame.ip == address_of(step_returned);
  });
  // The caller of step_through is the same, and is reached.
  if (frames.end() - last < 4) frames.clear();
  if (!frames.empty()) frames.erase(last + 1, frames.end());
  for (Frame& frame : frames) {
    frame.cfa -= steps.base;
    constexpr uint64_t kNearby = 64 << 10;
    for (uint64_t& kept : frame.kept)  // a frame pointer, perhaps
      if (kept - steps.base + kNearby < 2 * kNearby) kept -= steps.base;
  }
  steps.seen.push_back(std::move(frames));
}

// Where the kernel would send a thread that is interrupted here; 0: nowhere else.
inline Address abort_at(Address ip) {
  if (steps.area == nullptr) return 0;
  char* const named = reinterpret_cast<char*>(steps.area) + 8;
  Address descriptor = 0;
  std::memcpy(&descriptor, named, sizeof descriptor);
  if (descriptor == 0) return 0;
  // Not aligned as the type would be; the kernel does not ask for it.
  struct rseq_cs sequence;
  std::memcpy(&sequence, reinterpret_cast<const void*>(descriptor), sizeof sequence);
  if (ip <= sequence.start_ip || ip >= sequence.start_ip + sequence.post_commit_offset ||
      !steps.aborted.insert(sequence.abort_ip).second)
    return 0;
  std::memset(named, 0, sizeof descriptor);
  return sequence.abort_ip;
}

inline void on_step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto ip = static_cast<Address>(registers[REG_RIP]);
  const bool returned = ip == address_of(step_returned);
  if (!kProgram.contains(ip) && !steps.is_ours(ip) && !returned) return;
  look(ip);
  if (const Address abort = abort_at(ip)) {
    registers[REG_RIP] = static_cast<greg_t>(abort);
    look(abort);
  }
  constexpr greg_t kTrapFlag = 0x100;
  if (returned) registers[REG_EFL] &= ~kTrapFlag;
}

// Steps are seen from here on. Returns the earlier action of the signal.
inline struct sigaction take_steps() {
  struct sigaction action = {}, previous;
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGTRAP, &action, &previous);
  return previous;
}

// Whatever calls it, what lies on the stack from its own frame on is the same.
[[gnu::noinline]] inline std::vector<Backtrace> step(long (*function)(long), IsOurs is_ours) {
  steps.is_ours = std::move(is_ours);
  steps.base = address_of(static_cast<char*>(__builtin_frame_address(0)));
  steps.seen.clear();
  steps.aborted.clear();
  step_through(function, steps.argument);
  return std::move(steps.seen);
}

// What was seen at each instruction of the program, and in which order they ran.
struct Expected {
  std::map<Address, Backtrace> at;
  std::vector<Address> order;
};

inline Expected expected_of(long (*function)(long)) {
  Expected expected;
  const auto add = [&](const Backtrace& frames) {
    expected.order.push_back(frames.front().ip);
    expected.at[frames.front().ip] = frames;
  };
  for (Backtrace& frames : step(function, [](Address) { return false; })) {
    add(frames);
    const Address ip = frames.front().ip;
    if (!kProgram.contains(ip)) continue;
    // The processor does not trap after a system call, but one instruction later.
    const auto* const code = reinterpret_cast<const uint8_t*>(ip);
    if (code[0] == 0x0f && code[1] == 0x05) {
      frames.front().ip += 2;
      add(frames);
    }
  }
  return expected;
}

inline std::string text_of(const Backtrace& frames) {
  std::string text;
  for (const Frame& frame : frames) {
    char line[80];
    std::snprintf(line, sizeof line, "  %#lx%s cfa %#lx rbx %#lx\n", frame.ip,
                  frame.is_exact ? " exact" : "", frame.cfa, frame.kept[0]);
    text += line;
  }
  return text;
}

// The frames of the program alone, the first with the instruction that it is about to run.
inline Backtrace in_program(const Backtrace& frames, const IsOurs& is_ours,
                            const Expected& expected) {
  Backtrace own;
  for (const Frame& frame : frames)
    if (!is_ours(frame.ip)) own.push_back(frame);
  if (own.empty()) return own;
  Frame& first = own.front();
  // As for a return address, the instruction is what the byte before is of.
  if (kProgram.contains(first.ip - 1) && !first.is_exact) {
    const auto next = expected.at.lower_bound(first.ip);
    if (next != expected.at.begin()) first.ip = std::prev(next)->first;
  }
  first.is_exact = true;
  return own;
}

// Steps through the function, whose probes are there now. Returns each instruction that was
// executed for their sake.
inline std::set<Address> expect_right_everywhere(long (*function)(long), const Expected& expected,
                                                 const IsOurs& is_ours) {
  EXPECT_GE(expected.order.size(), 3u);
  std::set<Address> executed;
  size_t next = 0;
  for (const Backtrace& frames : step(function, is_ours)) {
    if (frames.empty()) {
      ADD_FAILURE() << "the stack was not walked to its end";
      continue;
    }
    executed.insert(frames.front().ip);
    const Backtrace own = in_program(frames, is_ours, expected);
    if (own.empty()) {
      ADD_FAILURE() << "lost at\n" << text_of(frames);
      continue;
    }
    const Address ip = own.front().ip;
    // One step is one instruction of the program's, at most; two where one is a system call.
    for (size_t ahead = 0; ahead <= 2 && next + ahead < expected.order.size(); ++ahead)
      if (expected.order[next + ahead] == ip) {
        next += ahead;
        break;
      }
    EXPECT_EQ(expected.order[next], ip) << std::hex << frames.front().ip;
    const auto wanted = expected.at.find(ip);
    EXPECT_TRUE(wanted != expected.at.end()) << text_of(frames);
    if (wanted != expected.at.end()) {
      EXPECT_EQ(own, wanted->second) << text_of(frames) << "but\n" << text_of(wanted->second);
    }
  }
  EXPECT_EQ(next + 1, expected.order.size()) << "it did not come to its end";
  return executed;
}

}  // namespace pinprick::stepping
