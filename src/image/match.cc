#include "image/match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/task.h"
#include "image/names/demangle.h"
#include "image/notes/entry_sites.h"

namespace pinprick::image {
namespace {

// The name by which a function matched, and the instruction that is meant.
struct Named {
  std::string_view name;    // lives as long as the object
  uint64_t offset = 0;      // from the function's start
  bool by_address = false;  // this very code is meant: of an IFUNC, its resolver
};

// Could the pattern mean a function by its address? One that is a symbol's name alone does not, and
// its objects may have thousands of functions without symbols.
bool may_mean_address(const Pattern& pattern) {
  return pattern.has_wildcard() || pattern.may_name_address();
}

// Go's compiler makes no copies or parts of functions, and its functions may have such names.
bool may_be_of_go(const Object& object, const Function& function) {
  return object.elf().is_go() && function.entered_by_call;
}

bool is_part(const Object& object, const Function& function,
             std::span<const std::string_view> names) {
  if (names.empty()) return !function.entered_by_call;
  return !may_be_of_go(object, function) && names_part(names.front());
}

// Returns the symbol that matches the pattern.
std::optional<std::string_view> matching_symbol(Object& object, const Function& function,
                                                const Pattern& pattern) {
  const bool is_of_go = may_be_of_go(object, function);
  const auto copies = is_of_go ? Pattern::Copies::none : Pattern::Copies::of_function;
  for (std::string_view name : object.functions().names(function))
    if (pattern.matches_function(name, copies) &&
        (is_of_go || !names_part(name) || pattern.means_part(true)))
      return name;
  return std::nullopt;
}

// Returns the offset in the function that the pattern means by an address in the object's file.
std::optional<uint64_t> matching_address(Object& object, const Function& function,
                                         const Pattern& pattern) {
  const Address begin = function.range.begin;
  if (pattern.matches_address(object.names(), begin)) return pattern.offset();
  const Address address = pattern.offset();
  const bool is_inside = function.range.contains(address) && pattern.has_address_in(object.names());
  if (!is_inside || object.functions().find(address) != &function) return std::nullopt;
  return address - begin;
}

// Returns the name by which the function matches the pattern. One without symbols has the name by
// which it is shown, which is its address: gzip+0x3500. Returns nullopt if there is no match.
std::optional<Named> matching_name(Object& object, const Function& function,
                                   const Pattern& pattern) {
  if (const auto symbol = matching_symbol(object, function, pattern)) {
    // A program may have a function of its own name, which is not as long as the whole program.
    const bool is_address = pattern.offset() >= function.range.size() &&
                            pattern.has_address_in(object.names()) &&
                            object.functions().find(pattern.offset()) != nullptr;
    if (!is_address) return Named{object.function_name(function, *symbol), pattern.offset()};
  }
  const auto names = object.functions().names(function);
  if (is_part(object, function, names) && !pattern.means_part(false)) return std::nullopt;
  const auto shown = [&] {
    return object.function_name(function, names.empty() ? std::string_view() : names.front());
  };
  if (names.empty() && pattern.matches_function(shown())) return Named{shown(), pattern.offset()};
  if (!pattern.may_name_address()) return std::nullopt;
  const auto offset = matching_address(object, function, pattern);
  return offset ? std::optional(Named{shown(), *offset, true}) : std::nullopt;
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
// duplicates. `drop(kept, dropped)` is called for each duplicate.
template <class F>
void drop_duplicates(std::vector<Match>& matches, F&& drop) {
  const auto is_not_below = [](const Match& a, const Match& b) { return a.site >= b.site; };
  if (std::adjacent_find(matches.begin(), matches.end(), is_not_below) == matches.end()) return;
  std::unordered_map<Address, size_t> kept;  // by site
  kept.reserve(matches.size());
  size_t size = 0;
  for (size_t i = 0; i < matches.size(); ++i) {
    const auto [first, is_new] = kept.try_emplace(matches[i].site, size);
    if (is_new)
      matches[size++] = matches[i];
    else
      drop(matches[first->second], matches[i]);
  }
  matches.resize(size);
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

// Functions that the linker has folded into one, and aliases, are one match, which says each name
// that was asked for: `alpha, beta`. `shown` is how the first of these is shown.
std::string_view joined(Object& object, std::string_view shown,
                        std::span<const std::string_view> names) {
  if (names.size() == 1) return shown;
  std::vector<std::string_view> parts;
  for (const std::string_view name : names) {
    const auto part = shown.size() == names.front().size() ? name : without_signature(name);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  if (parts.size() == 1) parts.assign(names.begin(), names.end());
  return object.keep_name(fmt::format("{}", fmt::join(parts, ", ")));
}

}  // namespace

std::string name_at(std::string_view function, uint64_t offset) {
  return offset == 0 ? std::string(function) : fmt::format("{}+{:#x}", function, offset);
}

std::string name_by_address(const Match& match) {
  const std::string by_address = name_at(match.object->name(), match.address());
  const std::string name = match.name();
  return by_address == name ? by_address : fmt::format("{} ({})", by_address, name);
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
                const std::vector<Pattern>& excluded, const FindSource& find_source)
      : image_(image),
        patterns_(patterns),
        excluded_(excluded),
        find_source_(find_source),
        matched_(patterns.size()) {}

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
  void add_source(Object& object, size_t pattern, std::vector<Match>& matches);

  ProcessImage& image_;
  const std::vector<Pattern>& patterns_;
  const std::vector<Pattern>& excluded_;
  const FindSource& find_source_;
  std::vector<bool> matched_;
};

// Returns where an inlined function is: ` in main+0x31`.
std::string place_in_function(const Match& match) {
  const auto names = match.object->functions().names(*match.function);
  const auto name = match.object->function_name(*match.function,
                                                names.empty() ? std::string_view() : names.front());
  return " in " + name_at(without_signature(name), match.offset_of(match.site));
}

// One probe is where both begin, and says both names: `f, g%inline` or `f%inline, g%inline in
// main+0x31`.
void add_inlined_name(Match& kept, const Match& added) {
  const std::string place = place_in_function(added);
  const auto name = [&](const Match& match) {
    std::string_view all = match.function_name;
    if (match.inlined != 0 && all.ends_with(place)) all.remove_suffix(place.size());
    return all;
  };
  const std::string_view own = name(kept), other = name(added);
  if (own == other) return;
  kept.function_name =
      kept.object->keep_name(fmt::format("{}, {}{}", own, other, kept.inlined != 0 ? place : ""));
}

std::vector<Match> ObjectMatcher::match(Object& object) {
  std::vector<size_t> functions, points, source;
  for (size_t i = 0; i < patterns_.size(); ++i)
    if (patterns_[i].matches_object(object.names()))
      (patterns_[i].names_points()   ? points
       : patterns_[i].names_source() ? source
                                     : functions)
          .push_back(i);
  // If several patterns match one thing, one without a wildcard comes first.
  for (auto* const wanted : {&functions, &points, &source})
    std::stable_partition(wanted->begin(), wanted->end(),
                          [&](size_t i) { return !patterns_[i].has_wildcard(); });
  std::vector<Match> matches;
  if (!functions.empty()) matches = match_functions(object, functions);
  if (!points.empty()) add_points(object, points, matches);
  for (const size_t pattern : source) add_source(object, pattern, matches);
  if (!source.empty())
    std::stable_sort(matches.begin(), matches.end(),
                     [](const Match& a, const Match& b) { return a.site < b.site; });
  drop_duplicates(matches, [&](Match& kept, const Match& dropped) {
    const bool is_named = dropped.inlined != 0 && !patterns_[dropped.pattern].has_wildcard();
    if (is_named && kept.point == nullptr && kept.offset() == 0) add_inlined_name(kept, dropped);
  });
  return matches;
}

// Returns the functions to look at, by address: those that a name may mean, or else all.
std::vector<const Function*> ObjectMatcher::candidates(Object& object,
                                                       std::span<const size_t> wanted) {
  std::vector<const Function*> all;
  if (std::any_of(wanted.begin(), wanted.end(),
                  [&](size_t i) { return may_mean_address(patterns_[i]); })) {
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
  std::map<Address, std::vector<std::string_view>> asked;  // by site: other names of a match
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
  drop_duplicates(matches, [&](const Match& kept, const Match& dropped) {
    if (patterns_[dropped.pattern].has_wildcard()) return;
    auto& names = asked[kept.site];
    if (names.empty()) names.push_back(kept.function_name);
    if (std::find(names.begin(), names.end(), dropped.function_name) == names.end())
      names.push_back(dropped.function_name);
  });
  shorten_names(matches);
  for (Match& match : matches)
    if (const auto found = asked.find(match.site); found != asked.end())
      match.function_name = joined(object, match.function_name, found->second);
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
  if (function.ifunc && !named.by_address) {
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

void ObjectMatcher::add_source(Object& object, size_t pattern, std::vector<Match>& matches) {
  if (!find_source_) return;
  for (SourceSite& site : find_source_(object, patterns_[pattern])) {
    const Function* const function = object.functions().find(site.address);
    if (function == nullptr) continue;
    matched_[pattern] = true;
    if (is_excluded(object, *function, excluded_)) continue;
    if (std::any_of(excluded_.begin(), excluded_.end(), [&](const Pattern& excluded) {
          return excluded.matches_object(object.names()) && excluded.matches_inlined(site.function);
        }))
      continue;
    Match match;
    match.object = &object;
    match.function = function;
    match.site = site.address + object.bias();
    match.pattern = static_cast<uint32_t>(pattern);
    match.line = site.line;
    match.inlined = site.inlined;
    if (site.inlined != 0) site.name += place_in_function(match);
    match.function_name = object.keep_name(std::move(site.name));
    matches.push_back(match);
  }
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

// Marks functions that have one name: of one object, or of several.
void mark_namesakes(std::vector<Match>& matches) {
  std::unordered_map<std::string_view, size_t> first;
  first.reserve(matches.size());
  for (size_t i = 0; i < matches.size(); ++i) {
    if (matches[i].point != nullptr) continue;
    const auto [found, is_new] = first.try_emplace(matches[i].function_name, i);
    Match& other = matches[found->second];
    if (is_new || (other.object == matches[i].object && other.function == matches[i].function))
      continue;
    other.shares_name = matches[i].shares_name = true;
  }
}

}  // namespace

void mean_each_instruction(std::vector<Match>& matches) {
  for (Match& match : matches)
    match.each_instruction = match.at_entry() && !match.unresolved && match.point == nullptr;
}

Matches match_patterns(ProcessImage& image, const std::vector<Pattern>& patterns,
                       const std::vector<Pattern>& excluded,
                       const std::function<bool(const Object&)>& looks_at,
                       const FindSource& find_source) {
  Matches out;
  ObjectMatcher matcher(image, patterns, excluded, find_source);
  for (const auto& object : image.objects) {
    if (looks_at && !looks_at(*object)) continue;
    auto matches = matcher.match(*object);
    if (out.matches.empty())
      out.matches = std::move(matches);
    else
      std::move(matches.begin(), matches.end(), std::back_inserter(out.matches));
  }
  mark_namesakes(out.matches);
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
