#include "image/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/task.h"
#include "image/demangle.h"
#include "image/entry_sites.h"

namespace pinprick::image {
namespace {

// The name by which a function matched, and the instruction that is meant.
struct Named {
  std::string_view name;  // lives as long as the object
  uint64_t offset = 0;    // from the function's start
};

// Could the pattern mean a function by its address? One that is a symbol's name alone does not, and
// its objects may have thousands of functions without symbols.
bool may_mean_offset(const Pattern& pattern) {
  return pattern.has_wildcard() || pattern.has_offset() ||
         pattern.function().find("0x") != std::string::npos;
}

// Returns the symbol that matches the pattern. A function without symbols has the name by which it
// is shown, which looks like an offset: gzip+0x3500. Returns nullopt if there is no match.
std::optional<Named> matching_name(Object& object, const Function& function,
                                   const Pattern& pattern) {
  const auto names = object.functions().names(function);
  for (std::string_view name : names)
    if (pattern.matches_function(name) && (!names_part(name) || pattern.means_part(true)))
      return Named{object.function_name(function, name), pattern.offset()};
  if (!names.empty()) return std::nullopt;
  if (!function.entered_by_call && !pattern.means_part(false)) return std::nullopt;
  const std::string_view name = object.function_name(function, {});
  if (pattern.matches_function(name) ||
      pattern.matches_function(fmt::format("{:#x}", function.range.begin)))
    return Named{name, pattern.offset()};
  if (pattern.has_offset() && pattern.offset() == function.range.begin &&
      pattern.function() == object.name())
    return Named{name, 0};
  return std::nullopt;
}

// Returns whether a pattern that means entry sites matches this function, as far as those go. A
// function that runs once has to be named.
bool has_entry_site(Object& object, const Function& function, const Pattern& pattern) {
  if (pattern.has_wildcard()) {
    const auto names = object.functions().names(function);
    if (std::any_of(names.begin(), names.end(), is_static_initializer)) return false;
  }
  return entry_kind(object, function).has_value();
}

bool is_excluded(Object& object, const Function& function, const std::vector<Pattern>& excluded) {
  return std::any_of(excluded.begin(), excluded.end(), [&](const Pattern& pattern) {
    return pattern.matches_object(object.names()) &&
           matching_name(object, function, pattern).has_value();
  });
}

// Keeps the first match of each site. Matches are sorted by address, and usually have no
// duplicates.
void drop_duplicates(std::vector<Match>& matches) {
  const auto is_not_below = [](const Match& a, const Match& b) { return a.site >= b.site; };
  if (std::adjacent_find(matches.begin(), matches.end(), is_not_below) == matches.end()) return;
  std::unordered_set<Address> seen;
  seen.reserve(matches.size());
  matches.erase(std::remove_if(matches.begin(), matches.end(),
                               [&](const Match& match) { return !seen.insert(match.site).second; }),
                matches.end());
}

// Removes the signature from names, except from those that several functions would share. `matches`
// are of one object.
void shorten_names(std::span<Match> matches) {
  std::vector<std::string_view> names(matches.size());
  std::unordered_map<std::string_view, int> uses;  // of names that had a signature
  for (size_t i = 0; i < matches.size(); ++i) {
    names[i] = without_signature(matches[i].function_name);
    if (names[i].size() != matches[i].function_name.size()) uses.try_emplace(names[i], 0);
  }
  if (uses.empty()) return;
  for (std::string_view name : names)
    if (const auto found = uses.find(name); found != uses.end()) ++found->second;
  std::vector<bool> is_only(matches.size());
  for (size_t i = 0; i < matches.size(); ++i) {
    const auto found = uses.find(names[i]);
    is_only[i] = found != uses.end() && found->second == 1;
  }
  for (size_t i = 0; i < matches.size(); ++i)
    if (is_only[i]) matches[i].function_name = names[i];
}

}  // namespace

std::string name_at(std::string_view function, uint64_t offset) {
  return offset == 0 ? std::string(function) : fmt::format("{}+{:#x}", function, offset);
}

std::vector<Address> implementations(ProcessImage& image, Object& definer,
                                     const Function& resolver) {
  const auto names = definer.functions().names(resolver);
  std::set<Address> found;
  for (const auto& object : image.objects) {
    for (const Relocation& relocation : object->relocations()) {
      const bool by_address = object.get() == &definer &&
                              relocation.kind == Relocation::Kind::irelative &&
                              static_cast<Address>(relocation.addend) == resolver.range.begin;
      const bool by_name = relocation.kind == Relocation::Kind::symbol &&
                           std::find(names.begin(), names.end(), relocation.symbol) != names.end();
      if (!by_address && !by_name) continue;
      uint64_t word = 0;
      if (!object->read(relocation.address + object->bias(),
                        {reinterpret_cast<uint8_t*>(&word), sizeof word}))
        continue;
      const Address target = word - definer.bias();
      // Before the first call, the word leads to the loader.
      if (definer.contains_code(word) && !definer.layout().in_linkage_table(target) &&
          target != resolver.range.begin)
        found.insert(word);
    }
  }
  return {found.begin(), found.end()};
}

namespace {

// Matches patterns against one object after the other.
class ObjectMatcher {
 public:
  ObjectMatcher(ProcessImage& image, const std::vector<Pattern>& patterns,
                const std::vector<Pattern>& excluded)
      : image_(image), patterns_(patterns), excluded_(excluded), matched_(patterns.size()) {}

  // By address, each site once.
  std::vector<Match> match(Object& object);
  // Returns which of the patterns have matched anything so far, even if it was excluded.
  const std::vector<bool>& matched() const { return matched_; }

 private:
  std::vector<const Function*> candidates(Object& object, std::span<const size_t> wanted);
  std::vector<Match> match_functions(Object& object, std::span<const size_t> wanted);
  void add_function(Object& object, const Function& function, const Named& named, size_t pattern,
                    std::vector<Match>& matches);
  void add_points(Object& object, std::span<const size_t> wanted, std::vector<Match>& matches);

  ProcessImage& image_;
  const std::vector<Pattern>& patterns_;
  const std::vector<Pattern>& excluded_;
  std::vector<bool> matched_;
};

std::vector<Match> ObjectMatcher::match(Object& object) {
  std::vector<size_t> functions, points;
  for (size_t i = 0; i < patterns_.size(); ++i)
    if (patterns_[i].matches_object(object.names()))
      (patterns_[i].names_points() ? points : functions).push_back(i);
  // If several patterns match one thing, one without a wildcard comes first.
  for (auto* const wanted : {&functions, &points})
    std::stable_partition(wanted->begin(), wanted->end(),
                          [&](size_t i) { return !patterns_[i].has_wildcard(); });
  std::vector<Match> matches;
  if (!functions.empty()) matches = match_functions(object, functions);
  shorten_names(matches);
  if (!points.empty()) add_points(object, points, matches);
  drop_duplicates(matches);
  return matches;
}

// Returns the functions to look at, by address: those that a name may mean, or else all.
std::vector<const Function*> ObjectMatcher::candidates(Object& object,
                                                       std::span<const size_t> wanted) {
  std::vector<const Function*> all;
  if (std::any_of(wanted.begin(), wanted.end(),
                  [&](size_t i) { return may_mean_offset(patterns_[i]); })) {
    const auto& functions = object.functions().functions();
    all.reserve(functions.size());
    for (const Function& function : functions) all.push_back(&function);
    return all;
  }
  for (const size_t i : wanted) {
    const auto some = object.functions_named(patterns_[i]);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<Match> ObjectMatcher::match_functions(Object& object, std::span<const size_t> wanted) {
  std::vector<Match> matches;
  for (const Function* const candidate : candidates(object, wanted)) {
    check_cancelled();
    const Function& function = *candidate;
    for (size_t i : wanted) {
      const auto named = matching_name(object, function, patterns_[i]);
      if (!named) continue;
      if (patterns_[i].means_entry_sites() && !has_entry_site(object, function, patterns_[i]))
        continue;
      matched_[i] = true;
      if (!is_excluded(object, function, excluded_))
        add_function(object, function, *named, i, matches);
    }
  }
  drop_duplicates(matches);
  return matches;
}

void ObjectMatcher::add_function(Object& object, const Function& function, const Named& named,
                                 size_t pattern, std::vector<Match>& matches) {
  Match match;
  match.object = &object;
  match.function = &function;
  match.site = function.range.begin + object.bias();
  match.function_name = named.name;
  match.pattern = static_cast<uint32_t>(pattern);
  if (function.ifunc) {
    const auto targets = implementations(image_, object, function);
    match.unresolved = targets.empty();
    for (Address target : targets) {
      const Function* implementation = object.functions().find(target - object.bias());
      if (implementation == nullptr) continue;
      match.function = implementation;
      match.site = target + named.offset;
      matches.push_back(match);
    }
    if (!match.unresolved) return;
  }
  match.site += named.offset;
  matches.push_back(match);
}

void ObjectMatcher::add_points(Object& object, std::span<const size_t> wanted,
                               std::vector<Match>& matches) {
  const auto is_meant = [&](const Pattern& pattern, const SdtSite& site) {
    return pattern.matches_point(site.provider(), site.name());
  };
  for (const SdtSite& site : object.sdt_sites()) {
    check_cancelled();
    const auto first = std::find_if(wanted.begin(), wanted.end(),
                                    [&](size_t i) { return is_meant(patterns_[i], site); });
    if (first == wanted.end()) continue;
    for (size_t i : wanted)
      if (is_meant(patterns_[i], site)) matched_[i] = true;
    if (std::any_of(excluded_.begin(), excluded_.end(), [&](const Pattern& pattern) {
          return pattern.matches_object(object.names()) && is_meant(pattern, site);
        }))
      continue;
    Match match;
    match.object = &object;
    match.function = &object.function_of(site);
    match.site = site.address + object.bias();
    match.function_name = site.label;
    match.pattern = static_cast<uint32_t>(*first);
    match.point = &site;
    matches.push_back(match);
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match& a, const Match& b) { return a.site < b.site; });
}

}  // namespace

void mean_each_instruction(std::vector<Match>& matches) {
  for (Match& match : matches)
    match.each_instruction = match.at_entry() && !match.unresolved && match.point == nullptr;
}

Matches match_patterns(ProcessImage& image, const std::vector<Pattern>& patterns,
                       const std::vector<Pattern>& excluded,
                       const std::function<bool(const Object&)>& looks_at) {
  Matches out;
  ObjectMatcher matcher(image, patterns, excluded);
  for (const auto& object : image.objects) {
    if (looks_at && !looks_at(*object)) continue;
    auto matches = matcher.match(*object);
    if (out.matches.empty())
      out.matches = std::move(matches);
    else
      std::move(matches.begin(), matches.end(), std::back_inserter(out.matches));
  }
  const std::vector<bool>& matched = matcher.matched();
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (matched[i]) continue;
    const bool there =
        patterns[i].names_object() && std::any_of(image.unreadable.begin(), image.unreadable.end(),
                                                  [&](const UnreadableObject& object) {
                                                    return patterns[i].matches_object(object.names);
                                                  });
    (there ? out.only_unreadable : out.unmatched).push_back(i);
  }
  return out;
}

}  // namespace pinprick::image
