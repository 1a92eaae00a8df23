// Which calls lie within which, as lines of text: `trace --tree`.
//
//       duration      TID | call
//                    4242 | getCommand(c=0x7f24) {
//         1.20us     4242 |   lookupKey() = 0x7f31;
//     +  12.3us      4242 | } getCommand = 0
//
// Made of events at entries and returns, in the order of time. A call that calls none of the others
// is one line. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/render/function_graph.h"

namespace pinprick::cli {

class CallTree {
 public:
  struct Event {
    uint64_t thread = 0;  // differs from those of all other processes; 0: it is not known
    int number = 0;       // the thread's, as it is shown
    enum class Of : uint8_t { entry, ret, point } of = Of::entry;
    std::string function = {};             // by it, a return is assigned to its entry
    std::string call = {};                 // `f(a=1)`
    std::string result = {};               // ` = 3`, or empty
    std::vector<std::string> frames = {};  // of its stack, each a line below that of the call
    uint64_t latency_ns = 0;
    uint64_t stack_pointer = 0;  // 0: it is not known, as that of a return
    std::optional<uint32_t> cpu = {};
    std::string thread_name = {};
  };
  // Lines as above, or as the kernel's function graph has them, without values and stacks.
  enum class Style : uint8_t { tree, function_graph };
  struct Limits {
    uint64_t slower_ns = 0;       // calls are shown if they, or calls in them, take as long
    uint32_t depth = UINT32_MAX;  // the most levels that are shown
    // Patterns of functions' names, with * and ?. If there are some of `in`, only calls of these
    // are shown, and what lies in them; never calls of `not_in`, and what lies in those.
    std::vector<std::string> in = {}, not_in = {};
  };

  explicit CallTree(Limits limits, Style style = Style::tree, uint32_t cpus = 1)
      : limits_(std::move(limits)), style_(style), graph_(cpus) {}

  // Returns the lines that are known by now. A call's line may have to wait for the next event of
  // its thread.
  std::string add(const Event& event);
  // Returns the lines of calls that have not returned.
  std::string finish();

  std::string heading() const;

 private:
  // What a line tells of a call.
  enum class Part : uint8_t { begins, leaf, ends, ends_alone };
  struct Place {
    bool is_inside = false, is_left_out = false;  // by Limits::in and not_in
    size_t depth = 0;                             // among what is shown

    bool is_shown() const { return is_inside && !is_left_out; }
  };
  struct Open {
    Event entry;
    Place place;
    bool is_printed = false;
  };
  using Calls = std::vector<Open>;

  // Returns the place of a function's hit or call that lies in the first `count` of the calls.
  Place place_in(const Calls& calls, size_t count, const std::string& function) const;

  void add_hit(Calls& calls, const Event& event, std::string& lines);
  void add_return(Calls& calls, const Event& event, std::string& lines);
  // Forgets the calls that, by the event's place on the stack, have ended without a return.
  void forget_ended(Calls& calls, const Event& event, std::string& lines);
  // Prints what was not printed of calls of which some have ended without a return.
  void print_left(Calls& calls, std::string& lines);
  // These print the first lines of calls, if they were not printed: of one, or of the outermost.
  void print_open(Open& call, std::string& lines);
  void print_open(Calls& calls, size_t count, std::string& lines);
  std::string text_of(const Event& event, Part part, const std::string& result) const;
  // Prints a part of the call that has begun with `event`. `at` is the event of that part.
  void print(const Event& event, const Event& at, const Place& place, Part part,
             std::optional<uint64_t> latency_ns, std::string& lines);

  Limits limits_;
  Style style_;
  FunctionGraph graph_;
  std::map<uint64_t, Calls> threads_;  // the calls that each is in, the outermost first
};

}  // namespace pinprick::cli
