#include "session/matching.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "image/names/demangle.h"
#include "session/debug_files.h"

namespace pinprick::session {
namespace {

// Are they the sites of one SDT point?
bool is_one_point(const std::vector<image::Match>& matches) {
  const image::Match& first = matches.front();
  return std::all_of(matches.begin(), matches.end(), [&](const image::Match& match) {
    return match.point != nullptr && first.point != nullptr && match.object == first.object &&
           match.point->label == first.point->label;
  });
}

Result<std::vector<image::Match>, MatchError> match_point(image::ProcessImage& image,
                                                          const Selection& selection,
                                                          const SelectedSpan& span, size_t point) {
  constexpr size_t kNamed = 3;
  Selection one;
  one.wanted = {selection.wanted[point]};
  one.measures = {{{}, placement::Kind::span, 0, 1}};
  one.actions = placement::Kind::span;
  one.excluded = selection.excluded;
  one.sites = selection.sites;
  auto matches = match(image, one, Unmatched::refuse);
  if (!matches) return fail(matches.error());
  if (matches->size() > 1 && !is_one_point(*matches)) {
    AmbiguousPoint error{span.text, one.wanted[0].text(), matches->size(), {}};
    std::set<std::pair<const image::Object*, std::string_view>> points;
    for (const image::Match& match : *matches) {
      const bool is_point = match.point != nullptr;
      if (is_point && !points.emplace(match.object, match.point->label).second)
        --error.matches;
      else if (error.some.size() < kNamed)
        error.some.push_back(is_point ? "usdt:" + match.object->name() + ":" + match.name()
                                      : image::name_by_address(match));
    }
    return fail(MatchError(std::move(error)));
  }
  for (image::Match& match : *matches) match.pattern = static_cast<uint32_t>(point);
  return matches;
}

// Functions that share a name are told apart by their signatures.
std::vector<image::SourceSite> inlined_sites(debug::DebugInfo& info,
                                             const image::Pattern& pattern) {
  std::vector<image::SourceSite> sites;
  std::map<std::string, std::set<std::string>> functions;  // by name without signature
  for (debug::InlinedCode& one :
       info.inlined_code([&](std::string_view name) { return pattern.matches_inlined(name); })) {
    std::string name = image::demangle(one.function);
    functions[std::string(image::without_signature(name))].insert(name);
    sites.push_back({.address = one.address,
                     .name = std::move(name),
                     .inlined = one.number,
                     .function = std::move(one.function)});
  }
  for (image::SourceSite& site : sites) {
    std::string name(image::without_signature(site.name));
    if (functions[name].size() == 1) site.name = std::move(name);
    site.name += image::Pattern::kInlineMark;
  }
  return sites;
}

std::vector<image::SourceSite> find_source(image::Object& object, const image::Pattern& pattern) {
  std::vector<image::SourceSite> sites;
  const auto info = debug_info_of(object);
  if (info == nullptr) return sites;
  if (pattern.names_inlined()) return inlined_sites(*info, pattern);
  const auto& lines = pattern.lines();
  for (const debug::LineCode& one : info->code_of_lines(lines.file, lines.first, lines.last))
    sites.push_back({.address = one.address, .name = line_name(one), .line = one.line});
  return sites;
}

// Returns the pattern of the same name, with or without the mark of inlined functions.
std::optional<image::Pattern> with_text(const std::string& text) {
  auto pattern = image::Pattern::parse(text, image::PatternSyntax::glob);
  return pattern ? std::optional(*std::move(pattern)) : std::nullopt;
}

// Says of each pattern that has matched nothing what debug information knows of inlined functions.
void explain_inlined(image::ProcessImage& image, const std::vector<const image::Pattern*>& patterns,
                     NothingMatched& error) {
  for (const image::Pattern* const pattern : patterns) {
    if (pattern->names_inlined()) {
      // That a library has debug information says nothing about a program that has none.
      const bool has_information =
          pattern->names_object() ? std::any_of(image.objects.begin(), image.objects.end(),
                                                [&](const auto& object) {
                                                  return pattern->matches_object(object->names()) &&
                                                         debug_info_of(*object) != nullptr;
                                                })
                                  : debug_info_of(*image.objects.front()) != nullptr;
      if (!has_information) continue;
      const size_t length = pattern->text().size() - image::Pattern::kInlineMark.size();
      const std::string function = pattern->text().substr(0, length);
      const auto plain = pattern->is_regex() ? std::nullopt : with_text(function);
      if (error.inlined_nowhere.empty() && plain)
        error.has_own_code = !image::match_patterns(image, {*plain}, {}).matches.empty();
      error.inlined_nowhere.push_back(function);
    } else if (error.inlined_places == 0) {
      error.inlined = pattern->text();
      error.inlined_places = inlined_places(image, *pattern);
    }
  }
}

// Returns what filters of functions look at. A copy that a compiler has made of a function has the
// name of that, too, and so has one whose signature is shown.
select::FilteredFunction as_filtered(const image::ProcessImage& image, const image::Match& match) {
  const std::string_view name = match.function_name;
  const std::string_view plain = image::without_signature(name);
  select::FilteredFunction function = {.names = {name, plain, image::without_copy_suffix(plain)}};
  for (const std::string& one : match.object->names()) {
    function.objects.emplace_back(one);
    function.objects.push_back(image::without_version(one));
  }
  function.is_of_program = match.object == image.objects.front().get();
  return function;
}

// Returns the filter of functions that the pattern was made of; nullptr if there is none. Each
// action has a pattern for each filter that adds, in their order.
const select::FunctionFilter* filter_of(const Selection& selection, uint32_t pattern) {
  if (selection.functions == nullptr) return nullptr;
  size_t before = 0;
  for (uint32_t i = 0; i < pattern; ++i)
    if (selection.actions.number_of(i) == selection.actions.number_of(pattern)) ++before;
  for (const select::FunctionFilter& one : selection.functions->filters.all())
    if (!one.removes() && before-- == 0) return &one;
  return nullptr;
}

// A pattern may match more than its filter does: a ? stands for a class, and no pattern says which
// object it does not mean.
bool may_mean_more(const image::Pattern& pattern, const select::FunctionFilter& filter) {
  return pattern.text().find('?') != std::string::npos ||
         (filter.module && (filter.module->is_negated || filter.module->is_blank()));
}

// Leaves the functions that the filters mean, and adds patterns to the unmatched ones if their
// filters match none of the functions. `numbers` has the patterns' numbers.
void apply_filters(const image::ProcessImage& image, const Selection& selection,
                   const std::vector<uint32_t>& numbers, image::Matches& some) {
  for (const uint32_t number : numbers) {
    const select::FunctionFilter* const filter = filter_of(selection, number);
    if (filter == nullptr || !may_mean_more(selection.wanted[number], *filter)) continue;
    const bool matches_some = std::ranges::any_of(some.matches, [&](const image::Match& match) {
      return filter->matches(as_filtered(image, match));
    });
    const bool is_known = std::ranges::find(some.unmatched, number) != some.unmatched.end();
    if (!matches_some && !is_known) some.unmatched.push_back(number);
  }
  std::erase_if(some.matches, [&](const image::Match& match) {
    return !selection.functions->contain(as_filtered(image, match));
  });
}

// People have written the filter.
std::string as_written(const Selection& selection, uint32_t pattern) {
  const select::FunctionFilter* const filter = filter_of(selection, pattern);
  return filter != nullptr ? filter->text : selection.wanted[pattern].text();
}

}  // namespace

image::Matches match_actions(image::ProcessImage& image, const Selection& selection, Points points,
                             const std::function<bool(const image::Object&)>& looks_at) {
  image::Matches all;
  const auto& actions = selection.actions.all();
  for (uint32_t action = 0; action < actions.size(); ++action) {
    if (points == Points::left_out && actions[action].kind == placement::Kind::span) continue;
    std::vector<image::Pattern> wanted;
    std::vector<uint32_t> numbers;
    for (uint32_t pattern = 0; pattern < selection.wanted.size(); ++pattern) {
      if (selection.actions.number_of(pattern) != action) continue;
      wanted.push_back(selection.wanted[pattern]);
      numbers.push_back(pattern);
    }
    auto some = image::match_patterns(image, wanted, selection.excluded, looks_at, find_source);
    for (image::Match& match : some.matches) match.pattern = numbers[match.pattern];
    for (size_t& pattern : some.unmatched) pattern = numbers[pattern];
    for (size_t& pattern : some.only_unreadable) pattern = numbers[pattern];
    if (selection.functions != nullptr) apply_filters(image, selection, numbers, some);
    std::move(some.matches.begin(), some.matches.end(), std::back_inserter(all.matches));
    all.unmatched.insert(all.unmatched.end(), some.unmatched.begin(), some.unmatched.end());
    all.only_unreadable.insert(all.only_unreadable.end(), some.only_unreadable.begin(),
                               some.only_unreadable.end());
  }
  return all;
}

Result<std::vector<image::Match>, MatchError> match(image::ProcessImage& image,
                                                    const Selection& selection, Unmatched unmatched,
                                                    Loads loads, Points points) {
  using Remedy = NothingMatched::Remedy;
  auto matches = match_actions(image, selection, points);
  if (!matches.only_unreadable.empty()) {
    const auto& pattern = selection.wanted[matches.only_unreadable.front()];
    for (const auto& object : image.unreadable)
      if (pattern.matches_object(object.names)) return fail(MatchError(object.error));
  }
  const bool accepts = unmatched == Unmatched::accept;
  const bool later = loads == Loads::tracked;
  if (accepts && later) return std::move(matches.matches);
  if (!matches.unmatched.empty() && (!accepts || matches.matches.empty())) {
    NothingMatched error;
    // In a tree, entries and returns have the same patterns.
    for (size_t i : matches.unmatched) {
      std::string text = as_written(selection, static_cast<uint32_t>(i));
      if (std::ranges::find(error.patterns, text) == error.patterns.end())
        error.patterns.push_back(std::move(text));
    }
    if (!accepts) {
      std::vector<const image::Pattern*> patterns;
      for (size_t i : matches.unmatched) patterns.push_back(&selection.wanted[i]);
      explain_inlined(image, patterns, error);
    }
    error.entry_sites = selection.sites == Sites::entry_sites;
    error.remedy = later                     ? Remedy::await_loads
                   : matches.matches.empty() ? Remedy::none
                                             : Remedy::accept;
    return fail(MatchError(std::move(error)));
  }
  if (matches.matches.empty()) return fail(MatchError(NothingMatched{}));
  return std::move(matches.matches);
}

Result<std::vector<placement::SpanMatches>, MatchError> match_spans(image::ProcessImage& image,
                                                                    const Selection& selection,
                                                                    Unmatched unmatched) {
  std::vector<placement::SpanMatches> spans;
  for (const SelectedSpan& span : selection.spans) {
    const auto start = match_point(image, selection, span, span.first);
    const auto end = start ? match_point(image, selection, span, span.first + 1) : start;
    if (start && end) {
      spans.push_back({span.text, *start, *end});
      continue;
    }
    const MatchError& why = start ? end.error() : start.error();
    if (unmatched == Unmatched::refuse || !std::holds_alternative<NothingMatched>(why))
      return fail(why);
  }
  return spans;
}

size_t inlined_places(image::ProcessImage& image, const image::Pattern& pattern,
                      const image::Object* only) {
  if (pattern.names_points() || pattern.names_source() || pattern.has_offset() ||
      pattern.is_regex() || pattern.has_wildcard())
    return 0;
  const auto inlined = with_text(pattern.text() + std::string(image::Pattern::kInlineMark));
  if (!inlined) return 0;
  const auto looks_at = [&](const image::Object& object) {
    return only == nullptr || &object == only;
  };
  return image::match_patterns(image, {*inlined}, {}, looks_at, find_source).matches.size();
}

bool may_match_later(const image::ProcessImage& image, const Selection& selection) {
  const auto& program = image.objects.front()->names();
  return std::any_of(selection.wanted.begin(), selection.wanted.end(), [&](const auto& pattern) {
    return !pattern.names_object() || pattern.names_objects() || !pattern.matches_object(program);
  });
}

}  // namespace pinprick::session
