#include "session/planning.h"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "image/loader.h"
#include "placement/hooks.h"
#include "select/operand.h"
#include "session/named_values.h"
#include "target/held_thread.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

// Before the loader has run, its interface for debuggers is empty. Both loaders export the function
// that it will name.
std::optional<Address> loader_will_notify_at(const Subject& subject) {
  const Address loader = image::loader_base(subject.target.pid(), subject.target.reader());
  for (const auto& object : subject.image->objects) {
    if (loader == 0 || !object->extent().contains(loader)) continue;
    for (const image::Symbol& symbol : object->elf().dynamic_symbols())
      if (symbol.name == "_dl_debug_state") return symbol.address + object->bias();
  }
  return std::nullopt;
}

// A seccomp filter, even of one thread only, might kill the process for the system call by which a
// thread would wait.
bool has_filter(pid_t pid) {
  for (const pid_t tid : target::list_threads(pid))
    if (const auto status = target::read_thread_status(pid, tid); status && status->seccomp != 0)
      return true;
  return false;
}

// Returns where the loader of the process can be made to wait for us, if later loads may matter.
std::optional<placement::HookSite> tracks_loads_by(const Subject& subject, Progress progress) {
  const pid_t pid = subject.target.pid();
  if (has_filter(pid)) return std::nullopt;
  const auto notifies = progress == Progress::at_exec
                            ? loader_will_notify_at(subject)
                            : image::loader_notifies_at(pid, subject.target.reader());
  return notifies ? placement::loader_site(*subject.image, *notifies) : std::nullopt;
}

bool waits_for_relocation(const image::Match& match) {
  return match.unresolved || match.object->elf().has_text_relocations();
}

// Returns the points of all spans, each site once in each measure.
std::vector<image::Match> points_of(const Selection& selection,
                                    const std::vector<placement::SpanMatches>& spans) {
  std::vector<image::Match> points;
  for (const placement::SpanMatches& span : spans) {
    points.insert(points.end(), span.starts.begin(), span.starts.end());
    points.insert(points.end(), span.ends.begin(), span.ends.end());
  }
  const auto key = [&](const image::Match& match) {
    return std::pair(match.site, selection.measure_of(match.pattern));
  };
  std::stable_sort(points.begin(), points.end(),
                   [&](const image::Match& a, const image::Match& b) { return key(a) < key(b); });
  points.erase(
      std::unique(points.begin(), points.end(),
                  [&](const image::Match& a, const image::Match& b) { return key(a) == key(b); }),
      points.end());
  return points;
}

bool waits_for_relocation(const std::vector<placement::SpanMatches>& spans) {
  const auto any_waits = [](const std::vector<image::Match>& points) {
    return std::any_of(points.begin(), points.end(),
                       [](const image::Match& point) { return waits_for_relocation(point); });
  };
  return std::any_of(spans.begin(), spans.end(), [&](const placement::SpanMatches& span) {
    return any_waits(span.starts) || any_waits(span.ends);
  });
}

// Adds the spans to a set in which their points were planned. A point that was refused is an error
// if all have to be there.
Result<void, MeasurementError> add_spans(placement::ProbeSet& set, const MeasurementSpec& spec,
                                         const std::vector<placement::SpanMatches>& spans) {
  if (spec.unmatched == Unmatched::refuse)
    for (const placement::Skipped& skipped : set.skipped)
      for (const SelectedSpan& span : spec.selection.spans)
        if (skipped.match.pattern == span.first || skipped.match.pattern == span.first + 1)
          return fail(
              MeasurementError(PointRefused{span.text, skipped.match.name(), skipped.refusal}));
  placement::set_spans(set, spans);
  return {};
}

// Returns the run-time address of the object's variable of that name, of which `bytes` at `offset`
// are read. Returns nullopt if there is none, or several, or if these bytes are not its data.
std::optional<Address> address_of_variable(const image::Object& object, std::string_view name,
                                           uint64_t offset, uint8_t bytes) {
  std::optional<Address> found;
  for (const auto& symbols : {object.elf().symtab(), object.elf().dynamic_symbols()})
    for (const image::Symbol& symbol : symbols) {
      if (symbol.name != name || symbol.is_function()) continue;
      if (found && *found != symbol.address) return std::nullopt;
      found = symbol.address;
    }
  if (!found) return std::nullopt;
  return is_readable(object, {*found + offset, *found + offset + bytes})
             ? std::optional(*found + object.bias())
             : std::nullopt;
}

using Variables = decltype(placement::ProbeSet::variables);

// Returns what to add to the number of an argument that has a symbol: an address, or in a segment
// the distance from its start. Returns nullopt if it is not known, or does not fit.
std::optional<uint64_t> base_of_symbol(const image::ProcessImage& image,
                                       const image::Object& object,
                                       const select::Argument& argument) {
  const auto fits = [&](uint64_t base) {
    const auto all = static_cast<int64_t>(base + argument.number);
    return all >= INT32_MIN && all <= INT32_MAX;
  };
  if (argument.segment == select::Segment::none) {
    // In an array, it is that of an element that the compiler chose.
    const uint64_t offset = argument.has_symbol_and_register() ? 0 : argument.number;
    const auto address = address_of_variable(object, argument.symbol, offset, argument.bytes);
    const bool is_usable = address && (!argument.has_symbol_and_register() || fits(*address));
    return is_usable ? address : std::nullopt;
  }
  if (&object != image.objects.front().get()) return std::nullopt;
  std::string_view name = argument.symbol;
  name.remove_suffix(select::Argument::kOfThreadPointer.size());
  const auto base = object.elf().thread_local_offset(name, argument.number + argument.bytes);
  if (!base || !fits(static_cast<uint64_t>(*base))) return std::nullopt;
  return static_cast<uint64_t>(*base);
}

plan::Reason reason_of(select::ArgumentError error) {
  switch (error) {
    case select::ArgumentError::none_such:
      return plan::Reason::no_such_argument;
    case select::ArgumentError::floating_point:
      return plan::Reason::argument_no_integer;
    case select::ArgumentError::elsewhere:
      return plan::Reason::argument_elsewhere;
    case select::ArgumentError::unreadable:
      break;
  }
  return plan::Reason::arguments_unknown;
}

// Why a hit at the site of a point could not read the arguments of the expression.
std::optional<plan::Reason> why_not_computed(const image::ProcessImage& image,
                                             const image::Match& match,
                                             const select::Expression& expression,
                                             Variables& variables) {
  for (const select::Node& node : expression.nodes) {
    const bool is_of_point = node.what == select::Operator::value && node.value.argument != 0 &&
                             !node.value.is_of_any_hit();
    if (!is_of_point) continue;
    const auto found = select::argument_of(match.point->arguments, node.value);
    if (!found) return reason_of(found.error());
    if (found->symbol.empty()) continue;
    const auto base = base_of_symbol(image, *match.object, *found);
    if (!base) return plan::Reason::argument_elsewhere;
    variables[{match.object, std::string(found->symbol)}] = *base;
  }
  return std::nullopt;
}

// Plans probes, except where names mean nothing, and at sites of points whose argument a hit cannot
// read. It is an error if no match of an action has a name, unless that is accepted.
Result<placement::ProbeSet, MatchError> plan_matches(const image::ProcessImage& image,
                                                     std::vector<image::Match> matches,
                                                     std::span<const placement::HookSite> hooks,
                                                     const MeasurementSpec& spec,
                                                     Unmatched unknown_names) {
  const Selection& selection = spec.selection;
  std::vector<placement::Skipped> skipped;
  Variables variables;
  action::Actions actions = selection.actions;
  auto unknown = resolve_names(image, selection, matches, actions, skipped);
  if (unknown && unknown_names == Unmatched::refuse) return fail(MatchError(*std::move(unknown)));
  std::erase_if(matches, [&](const image::Match& match) {
    if (match.point == nullptr) return false;
    const action::Action& action = actions.of(match.pattern, placement::scope_of(match));
    std::optional<plan::Reason> reason;
    action.for_each_expression([&](const action::Computed& one) {
      if (!reason) reason = why_not_computed(image, match, one.expression, variables);
    });
    if (reason) skipped.push_back({match, {*reason, match.site - match.object->bias()}});
    return reason.has_value();
  });
  auto set = placement::plan_probes(image, std::move(matches), std::move(actions), hooks, spec.risk,
                                    spec.ends);
  set.variables = std::move(variables);
  set.skipped.insert(set.skipped.end(), skipped.begin(), skipped.end());
  return set;
}

}  // namespace

// A program without a loader has all of its code.
bool awaits_loader(const Subject& subject, const MeasurementSpec& spec) {
  // Under a filter the loader cannot be made to wait, and pointers are not followed either.
  const bool waits = spec.selection.times_calls() ||
                     (spec.selection.needs_libraries() && !has_filter(subject.target.pid()));
  return waits && image::loader_base(subject.target.pid(), subject.target.reader()) != 0;
}

// Everything but spans.
static Result<std::vector<image::Match>, MeasurementError> match_functions(
    const Subject& subject, const MeasurementSpec& spec, Progress progress, Loads loads,
    Unrelocated* unrelocated) {
  const Selection& selection = spec.selection;
  image::ProcessImage& image = *subject.image;
  // What does not match yet may do so in a library, none of which is mapped.
  const Unmatched unmatched = progress == Progress::at_exec ? Unmatched::accept : spec.unmatched;
  auto matches = match(image, selection, unmatched, loads, Points::left_out);
  if (!matches) return fail(MeasurementError(matches.error()));
  // The loader of a process that we hold may have yet to relocate code, and would write into our
  // jumps.
  if (unrelocated == nullptr && target::HeldThread::holds_any_of(subject.target.pid()))
    std::erase_if(*matches, [](const image::Match& match) {
      return match.object->elf().has_text_relocations();
    });
  if (unrelocated != nullptr) {
    unrelocated->waits = std::erase_if(*matches, [](const image::Match& match) {
                           return waits_for_relocation(match);
                         }) != 0;
    for (const image::Match& match : *matches) unrelocated->sites.insert(match.site);
  }
  if (selection.sites == Sites::every_instruction) image::mean_each_instruction(*matches);
  return *std::move(matches);
}

Result<placement::ProbeSet, MeasurementError> plan(const Subject& subject,
                                                   const MeasurementSpec& spec, Progress progress,
                                                   Unrelocated* unrelocated) {
  const Selection& selection = spec.selection;
  image::ProcessImage& image = *subject.image;
  std::vector<placement::SpanMatches> spans;
  if (selection.has(placement::Kind::span)) {
    auto found = match_spans(image, selection, spec.unmatched);
    if (!found) return fail(MeasurementError(found.error()));
    if (unrelocated != nullptr && waits_for_relocation(*found)) {
      unrelocated->waits = true;
      return placement::ProbeSet();
    }
    spans = *std::move(found);
  }
  std::vector<image::Match> matches;
  std::vector<placement::HookSite> hooks;
  if (selection.has_others_than(placement::Kind::span)) {
    const bool awaits = progress == Progress::at_exec && awaits_loader(subject, spec);
    const bool tracks = spec.loads == Loads::tracked &&
                        (awaits || spec.hooks_execs || selection.may_follow_pointers() ||
                         selection.actions.name_code() || may_match_later(image, selection));
    const auto loader = tracks ? tracks_loads_by(subject, progress) : std::nullopt;
    if (loader) hooks.push_back(*loader);
    if (awaits && loader) return *plan_matches(image, {}, hooks, spec, Unmatched::accept);
    if (awaits) return fail(MeasurementError(NothingArmed{selection.kind()}));
    auto found = match_functions(subject, spec, progress, loader ? Loads::tracked : Loads::ignored,
                                 unrelocated);
    if (!found) return fail(found.error());
    matches = *std::move(found);
    if (spec.hooks_execs)
      for (placement::HookSite& site : placement::exec_sites(image))
        hooks.push_back(std::move(site));
  }
  const auto points = points_of(selection, spans);
  matches.insert(matches.end(), points.begin(), points.end());
  // As with patterns, what has the name may be in a library that is not mapped yet.
  const Unmatched unknown = progress == Progress::at_exec ? Unmatched::accept : spec.unmatched;
  auto set = plan_matches(image, std::move(matches), hooks, spec, unknown);
  if (!set) return fail(MeasurementError(set.error()));
  if (auto added = add_spans(*set, spec, spans); !added) return fail(added.error());
  return *std::move(set);
}

std::vector<image::Match> match_loaded(image::ProcessImage& image, const Selection& selection,
                                       const std::function<bool(const image::Object&)>& is_new) {
  return match_actions(image, selection, Points::left_out, is_new).matches;
}

placement::ProbeSet plan_loaded(const image::ProcessImage& image, std::vector<image::Match> matches,
                                const MeasurementSpec& spec,
                                std::span<const placement::HookSite> hooks) {
  const Selection& selection = spec.selection;
  if (selection.sites == Sites::every_instruction) image::mean_each_instruction(matches);
  return *plan_matches(image, std::move(matches), hooks, spec, Unmatched::accept);
}

}  // namespace pinprick::session
