// Gives numbers to the functions of a recording. Pure; not thread-safe.
//
// Names come from a file that may be hostile. Names of probes are not copied, since many probes may
// share one long name. Names of frames take up to 64 MB: beyond that, all others are one function,
// `(other)`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/session.h"

namespace pinprick::recording {

// Its texts belong to the probe, or to the table.
struct Function {
  std::string_view object = {}, function = {}, file = {};  // of a stack's frame: `function` alone
  uint64_t address = 0;                                    // in that file
  std::string_view build_id = {};                          // of that file
};

class FunctionTable {
 public:
  // Two probes of one function have one number. `probe` must outlive this: it is recognised by its
  // address, and its texts are used.
  uint32_t number_of(const engine::ProbeName& probe);
  // The same for a function that is known by its name alone.
  uint32_t number_of_frame(std::string_view name);

  const Function& operator[](uint32_t number) const { return functions_[number]; }
  size_t size() const { return functions_.size(); }

 private:
  uint32_t add(Function function);

  std::deque<Function> functions_;  // whose addresses stay
  std::unordered_map<const void*, uint32_t> by_probe_;
  std::map<std::pair<std::string_view, uint64_t>, uint32_t> by_address_;
  std::map<std::string, uint32_t, std::less<>> by_name_;
  size_t bytes_of_names_ = 0;
};

}  // namespace pinprick::recording
