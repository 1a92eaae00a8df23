// A profile for `go tool pprof` and what reads the same (github.com/google/pprof, profile.proto).
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace pinprick::exports {

class Profile {
 public:
  using ValueType = std::pair<std::string_view, std::string_view>;  // what is counted, and its unit
  struct Frame {
    std::string function;
    std::string object = {};    // the path of its file; empty: it is not known
    std::string build_id = {};  // of that
    uint64_t address = 0;       // in that
  };
  struct Label {
    std::string key, text;
  };

  explicit Profile(const std::vector<ValueType>& types);

  // The innermost frame first. As many values as there are types.
  void add(const std::vector<Frame>& frames, const std::vector<int64_t>& values,
           const std::vector<Label>& labels);
  // Returns the profile, compressed by gzip. It says when it was made, and of how long it is.
  std::string compressed(uint64_t started_ns, uint64_t duration_ns);

 private:
  int64_t number_of(std::string_view text);
  uint64_t mapping_of(const Frame& frame);
  uint64_t location_of(const Frame& frame);

  std::string samples_, mappings_, locations_, functions_, types_;
  std::vector<std::string> strings_ = {""};
  std::map<std::string, int64_t, std::less<>> numbers_;
  std::map<std::pair<std::string, std::string>, uint64_t> known_mappings_;
  std::map<std::tuple<std::string, std::string, uint64_t>, uint64_t> known_locations_;
};

}  // namespace pinprick::exports
