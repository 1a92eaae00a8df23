// Filters of functions, as the kernel's set_ftrace_filter and set_ftrace_notrace have them:
//
//     schedule        the function of that name
//     sys_*           names that begin so; *_sys: that end so; *sys*: that have it in them
//     do_*_read       any other use of *, ?, [a-z], [!a-z] and \ is a pattern for the whole name
//     !sys_close      removes what the filters before it have added
//     sys_*:mod:ext4  only in this module, here an object: a library, or the program by its name
//     :mod:ext4       all of its functions
//     sys_*:mod:!ext4 in any other; :mod:* means all libraries, and :mod:!* the program itself
//
// Several may stand in one text, with blanks between them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pinprick::select {

// A text with wildcards, of which the kernel knows these types (filter_parse_regex).
struct FilterPattern {
  enum class Type : uint8_t { full, front, middle, end, glob } type = Type::full;
  std::string text = {};  // without the * that the type stands for
  bool is_negated = false;

  // Returns whether it means all texts.
  bool is_blank() const { return text.empty(); }
  bool matches(std::string_view name) const;  // without regard to `is_negated`
  friend bool operator==(const FilterPattern&, const FilterPattern&) = default;
};

struct FilterError {
  enum class Cause : uint8_t {
    number,   // a line of the kernel's list of functions
    command,  // such as traceon: only :mod: is one of a filter
    module,   // nothing follows :mod:
  } cause = Cause::number;
  std::string text;  // the word that is wrong
  friend bool operator==(const FilterError&, const FilterError&) = default;
};

// The names of a function and of its object. A function has several if it has a signature, or is a
// copy that a compiler has made of another.
struct FilteredFunction {
  std::vector<std::string_view> names = {};
  std::vector<std::string_view> objects = {};
  bool is_of_program = false;
};

struct FunctionFilter {
  FilterPattern function;                    // negated: it removes
  std::optional<FilterPattern> module = {};  // negated: any other
  std::string text = {};                     // as it was written
  bool removes() const { return function.is_negated; }
  bool matches(const FilteredFunction& function) const;
  friend bool operator==(const FunctionFilter&, const FunctionFilter&) = default;
};

Result<std::vector<FunctionFilter>, FilterError> parse_function_filters(std::string_view text);

// Filters in the order in which they would be written to the kernel's file: the last one that
// matches a function adds or removes it. Without any filter that adds, `by_default` decides.
class FunctionFilters {
 public:
  enum class Default : uint8_t { all, program, none };
  explicit FunctionFilters(Default by_default) : default_(by_default) {}

  void add(FunctionFilter filter) { filters_.push_back(std::move(filter)); }
  void clear() { filters_.clear(); }
  bool has_added() const;  // does any filter add?
  const std::vector<FunctionFilter>& all() const { return filters_; }
  bool contain(const FilteredFunction& function) const;

 private:
  Default default_;
  std::vector<FunctionFilter> filters_;
};

// A function is traced if the filters contain it, and the notrace list does not.
struct TracedFunctions {
  FunctionFilters filters{FunctionFilters::Default::program};
  FunctionFilters left_out{FunctionFilters::Default::none};

  bool contain(const FilteredFunction& function) const {
    return filters.contain(function) && !left_out.contain(function);
  }
};

}  // namespace pinprick::select
