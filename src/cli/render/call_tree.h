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
#include <vector>

namespace pinprick::cli {

class CallTree {
 public:
  struct Event {
    uint64_t thread = 0;  // which one, of all processes; 0: it is not known
    int number = 0;       // of the thread, to be shown
    enum class Of : uint8_t { entry, ret, point } of = Of::entry;
    std::string function = {};  // by which an entry and its return belong together
    std::string call = {};      // `f(a=1)`
    std::string result = {};    // ` = 3`, or empty
    std::string below = {};     // lines that follow that of the call, without indentation
    uint64_t latency_ns = 0;
    uint64_t stack_pointer = 0;  // but for returns; 0: it is not known
  };
  struct Limits {
    uint64_t slower_ns = 0;       // only calls that take as long, and what calls them
    uint32_t depth = UINT32_MAX;  // only so many levels
  };

  explicit CallTree(Limits limits) : limits_(limits) {}

  // Returns the lines that are known by now. A call's line may have to wait for the next event of
  // its thread.
  std::string add(const Event& event);
  // Returns the lines of calls that have not returned.
  std::string finish();

  static std::string heading();

 private:
  struct Open {
    Event entry;
    bool is_printed = false;
  };
  using Calls = std::vector<Open>;

  void leave_calls(Calls& calls, const Event& event, std::string& lines) const;
  void open_up(Calls& calls, std::string& lines) const;
  void print_open(Open& call, size_t depth, std::string& lines) const;
  void print(const Event& event, size_t depth, const std::string& text,
             std::optional<uint64_t> latency_ns, std::string& lines) const;

  Limits limits_;
  std::map<uint64_t, Calls> threads_;  // the calls that each is in, the outermost first
};

}  // namespace pinprick::cli
