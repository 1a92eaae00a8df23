#include "cli/measure/leak_patterns.h"

#include <fmt/format.h>

#include <optional>

#include "cli/messages/verb_messages.h"
#include "select/span.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

// A function, and what is computed when it returns, or when it is called if it only frees.
struct AllocatorFunction {
  std::string point;      // without %return
  std::string pointer;    // what it allocates; empty: it only frees
  std::string size;       // of that; empty: it is not known
  std::string freed;      // empty: it only allocates
  std::string condition;  // under which it has done so; empty: always

  bool allocates() const { return !pointer.empty(); }
  bool frees() const { return !freed.empty(); }
};

// The address of a block is mixed with this odd number, so that blocks of one size, whose addresses
// have the same distance, are in all classes. The highest bits of the product depend on all bits of
// the address. They are compared, as a division would take longer than all else.
constexpr uint64_t kMix = 0x1e3779b97f4a7c15;
constexpr unsigned kMixedBits = 24, kLowerBits = 64 - kMixedBits;

constexpr uint64_t followed_below(uint32_t classes) {
  return (uint64_t{1} << kMixedBits) / classes;
}

std::string followed_condition(const std::string& pointer, uint32_t classes) {
  return fmt::format("((u64)({})*{:#x}>>{})<{}", pointer, kMix, kLowerBits,
                     followed_below(classes));
}

void add_condition(std::string& all, const std::string& one) {
  if (!one.empty()) all += (all.empty() ? "" : " && ") + one;
}

// A reallocation is of interest for its old block, too, whatever the new one is.
std::string condition_of(const AllocatorFunction& function, const Options& options) {
  std::string condition = function.condition;
  if (!function.frees() && options.min_size != 0 && !function.size.empty())
    add_condition(condition, fmt::format("({})>={}", function.size, options.min_size));
  if (options.sample > 1) {
    std::string followed;
    if (function.allocates()) followed = followed_condition(function.pointer, options.sample);
    if (function.frees())
      followed +=
          (function.allocates() ? " || " : "") + followed_condition(function.freed, options.sample);
    add_condition(condition, "(" + followed + ")");
  }
  return condition;
}

std::string with_condition(std::string text, const std::string& condition) {
  return condition.empty() ? text : std::move(text) + " if " + condition;
}

std::string free_pattern(const AllocatorFunction& function, const Options& options) {
  return with_condition(fmt::format("{} {}={}", function.point, kOldPointer, function.freed),
                        condition_of(function, options));
}

std::string allocation_pattern(const AllocatorFunction& function, const Options& options) {
  std::string text = function.point + std::string(select::kReturnMark);
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {}={}", name, value);
  };
  add(kNewPointer, function.pointer);
  add(kOldPointer, function.freed);
  add(kBlockSize, function.size);
  add(kBlockStack, fmt::format("$stack:{}", options.stack_frames));
  return with_condition(std::move(text), condition_of(function, options));
}

std::string beginning_pattern(const AllocatorFunction& function, const Options& options) {
  std::string condition = function.freed + "!=0";
  if (options.sample > 1)
    add_condition(condition, followed_condition(function.freed, options.sample));
  return with_condition(fmt::format("{} {}={}", function.point, kMovedPointer, function.freed),
                        condition);
}

std::vector<AllocatorFunction> malloc_family(const std::string& prefix) {
  const std::string ok = "$retval!=0";
  const auto named = [&](const char* name) { return prefix + name; };
  return {
      {named("malloc"), "$retval", "$arg1", "", ok},
      {named("calloc"), "$retval", "$arg1*$arg2", "", ok},
      {named("realloc"), "$retval", "$arg2", "$arg1", ""},
      {named("reallocarray"), "$retval", "$arg2*$arg3", "$arg1", ""},
      {named("memalign"), "$retval", "$arg2", "", ok},
      {named("aligned_alloc"), "$retval", "$arg2", "", ok},
      {named("posix_memalign"), "*(u64*)$arg1@ret", "$arg3", "", "$retval:s32==0"},
      {named("valloc"), "$retval", "$arg1", "", ok},
      {named("pvalloc"), "$retval", "$arg1", "", ok},
      {named("mallocx"), "$retval", "$arg1", "", ok},
      {named("rallocx"), "$retval", "$arg2", "$arg1", ""},
      {named("free"), "", "", "$arg1", "$arg1!=0"},
      {named("dallocx"), "", "", "$arg1", ""},
      {named("sdallocx"), "", "", "$arg1", ""},
  };
}

// The operators of C++ in libstdc++ call malloc and free. Those in libjemalloc and libtcmalloc call
// none of these functions.
std::vector<AllocatorFunction> family() {
  std::vector<AllocatorFunction> all;
  // Of jemalloc in a program, and in one that is written in Rust.
  for (const char* prefix : {"", "je_", "_rjem_"})
    for (AllocatorFunction& function : malloc_family(prefix)) all.push_back(std::move(function));
  all.push_back({"lib*malloc*:operator new*", "$retval", "$arg1", "", "$retval!=0"});
  all.push_back({"lib*malloc*:operator delete*", "", "", "$arg1", "$arg1!=0"});
  return all;
}

// `option` is that of the text: a function, an expression or none, and a condition or none.
Result<AllocatorFunction, Message> named_function(const std::string& text, const char* option) {
  const select::Spec spec = select::split_spec(text);
  const bool is_one_value =
      spec.value.empty() || select::end_of_value(spec.value) == spec.value.size();
  if (spec.point.empty() || spec.at_return || !is_one_value || select::is_span(text))
    return fail(bad_allocator_function(option, text));
  AllocatorFunction function;
  function.point = spec.point;
  function.condition = spec.condition ? "(" + std::string(*spec.condition) + ")" : "";
  if (std::string_view(option) == "--free") {
    function.freed = spec.value.empty() ? "$arg1" : spec.value;
    add_condition(function.condition, "(" + function.freed + ")!=0");
  } else {
    function.pointer = "$retval";
    function.size = spec.value;
    add_condition(function.condition, "$retval!=0");
  }
  return function;
}

}  // namespace

// realloc(p, 0) frees the block where it returns NULL, and where it does not, the new block is
// empty. All other reallocations that return NULL have failed, and leave the old block as it is.
bool has_failed(uint64_t pointer, uint64_t size) {
  return pointer == 0 && size != 0;
}

bool is_followed(uint64_t pointer, uint32_t classes) {
  return pointer * kMix >> kLowerBits < followed_below(classes);
}

Result<std::vector<std::string>, Message> leak_patterns(const Options& options) {
  std::vector<AllocatorFunction> functions;
  if (options.allocators.empty()) functions = family();
  for (const std::string& text : options.allocators) {
    auto function = named_function(text, "--alloc");
    if (!function) return fail(function.error());
    functions.push_back(*std::move(function));
  }
  for (const std::string& text : options.releasers) {
    auto function = named_function(text, "--free");
    if (!function) return fail(function.error());
    functions.push_back(*std::move(function));
  }
  std::vector<std::string> patterns;
  for (const AllocatorFunction& function : functions) {
    if (function.allocates() && function.frees())
      patterns.push_back(beginning_pattern(function, options));
    patterns.push_back(function.allocates() ? allocation_pattern(function, options)
                                            : free_pattern(function, options));
  }
  return patterns;
}

}  // namespace pinprick::cli
