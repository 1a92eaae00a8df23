#include "session/planning.h"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "image/loader.h"
#include "placement/hooks.h"
#include "select/operand.h"
#include "target/held_thread.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

using namespace std::literals;

// Before the loader has run, its interface for debuggers is empty. Both loaders export the function
// that it will name.
std::optional<Address> loader_will_notify_at(const Subject& subject) {
  const Address loader = image::loader_base(subject.target.pid(), subject.target.reader());
  for (const auto& object : subject.image->objects) {
    if (loader == 0 || !object->extent().contains(loader)) continue;
    for (const image::Symbol& symbol : object->elf().dynamic_symbols())
      if (symbol.name == "_dl_debug_state"sv) return symbol.address + object->bias();
  }
  return std::nullopt;
}

// Returns where the loader of the process can be made to wait for us, if later loads may matter.
std::optional<placement::HookSite> tracks_loads_by(const Subject& subject, Progress progress) {
  const pid_t pid = subject.target.pid();
  // A seccomp filter, even of one thread only, might kill the process for the system call by which
  // a thread would wait.
  for (const pid_t tid : target::list_threads(pid))
    if (const auto status = target::read_thread_status(pid, tid); status && status->seccomp != 0)
      return std::nullopt;
  const auto notifies = progress == Progress::at_exec
                            ? loader_will_notify_at(subject)
                            : image::loader_notifies_at(pid, subject.target.reader());
  return notifies ? placement::loader_site(*subject.image, *notifies) : std::nullopt;
}

// Do two patterns match one function? Only the first one's value would be recorded. `matches` is
// the number of matches of all patterns together.
bool means_twice(image::ProcessImage& image, const Selection& selection, size_t matches) {
  if (selection.values.size() < 2) return false;
  size_t each = 0;
  for (const image::Pattern& one : selection.wanted)
    each += image::match_patterns(image, {one}, selection.excluded).matches.size();
  return each != matches;
}

bool waits_for_relocation(const image::Match& match) {
  return match.unresolved || match.object->elf().has_text_relocations();
}

// Returns the points of all spans, each site once.
std::vector<image::Match> points_of(const std::vector<placement::SpanMatches>& spans) {
  std::vector<image::Match> points;
  for (const placement::SpanMatches& span : spans) {
    points.insert(points.end(), span.starts.begin(), span.starts.end());
    points.insert(points.end(), span.ends.begin(), span.ends.end());
  }
  const auto by_site = [](const image::Match& a, const image::Match& b) { return a.site < b.site; };
  std::stable_sort(points.begin(), points.end(), by_site);
  const auto same = [](const image::Match& a, const image::Match& b) { return a.site == b.site; };
  points.erase(std::unique(points.begin(), points.end(), same), points.end());
  return points;
}

Result<placement::ProbeSet, MeasurementError> plan_spans(const Subject& subject,
                                                         const MeasurementSpec& spec,
                                                         Unrelocated* unrelocated) {
  image::ProcessImage& image = *subject.image;
  auto spans = match_spans(image, spec.selection, spec.unmatched);
  if (!spans) return fail(MeasurementError(spans.error()));
  if (unrelocated != nullptr &&
      std::any_of(spans->begin(), spans->end(), [](const placement::SpanMatches& span) {
        return std::any_of(span.starts.begin(), span.starts.end(), waits_for_relocation) ||
               std::any_of(span.ends.begin(), span.ends.end(), waits_for_relocation);
      })) {
    unrelocated->waits = true;
    spans->clear();
  }
  auto set = placement::plan_probes(image, points_of(*spans), placement::Kind::span);
  if (!set.skipped.empty() && spec.unmatched == Unmatched::refuse) {
    const placement::Skipped& first = set.skipped.front();
    return fail(MeasurementError(PointRefused{spec.selection.spans[first.match.pattern / 2],
                                              first.match.name(), first.refusal}));
  }
  placement::set_spans(set, *spans);
  return set;
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
  const Range read = {*found + offset, *found + offset + bytes};
  const auto& segments = object.elf().segments();
  const bool is_data =
      read.begin < read.end &&
      std::any_of(segments.begin(), segments.end(), [&](const image::Segment& segment) {
        return segment.readable && segment.range.contains(read);
      });
  return is_data ? std::optional(*found + object.bias()) : std::nullopt;
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

std::optional<plan::Reason> why_not_recorded(const image::ProcessImage& image,
                                             const image::Match& match, const select::Value& value,
                                             Variables& variables) {
  if (match.point == nullptr || value.argument == 0) return std::nullopt;
  const auto found = select::argument_of(match.point->arguments, value);
  if (found) {
    if (found->symbol.empty()) return std::nullopt;
    const auto base = base_of_symbol(image, *match.object, *found);
    if (!base) return plan::Reason::argument_elsewhere;
    variables[{match.object, std::string(found->symbol)}] = *base;
    return std::nullopt;
  }
  switch (found.error()) {
    case select::ArgumentError::none_such:
      return plan::Reason::no_such_argument;
    case select::ArgumentError::floating_point:
      return plan::Reason::argument_no_integer;
    case select::ArgumentError::elsewhere:
      return plan::Reason::argument_elsewhere;
    case select::ArgumentError::unreadable:
      return plan::Reason::arguments_unknown;
  }
  return std::nullopt;
}

// Plans probes, except at sites of points whose argument a hit cannot read.
placement::ProbeSet plan_matches(const image::ProcessImage& image,
                                 std::vector<image::Match> matches,
                                 std::span<const placement::HookSite> hooks,
                                 const MeasurementSpec& spec) {
  const Selection& selection = spec.selection;
  std::vector<placement::Skipped> skipped;
  Variables variables;
  if (selection.kind == placement::Kind::value)
    std::erase_if(matches, [&](const image::Match& match) {
      const auto reason =
          why_not_recorded(image, match, selection.values[match.pattern].value, variables);
      if (reason) skipped.push_back({match, {*reason, match.site - match.object->bias()}});
      return reason.has_value();
    });
  auto set = placement::plan_probes(image, std::move(matches), selection.kind, hooks, spec.risk);
  set.values = selection.values;
  set.variables = std::move(variables);
  set.skipped.insert(set.skipped.end(), skipped.begin(), skipped.end());
  return set;
}

}  // namespace

// A program without a loader has all of its code.
bool awaits_loader(const Subject& subject, const MeasurementSpec& spec) {
  return spec.selection.kind == placement::Kind::latency &&
         image::loader_base(subject.target.pid(), subject.target.reader()) != 0;
}

Result<placement::ProbeSet, MeasurementError> plan(const Subject& subject,
                                                   const MeasurementSpec& spec, Progress progress,
                                                   Unrelocated* unrelocated) {
  const Selection& selection = spec.selection;
  if (selection.kind == placement::Kind::span) return plan_spans(subject, spec, unrelocated);
  image::ProcessImage& image = *subject.image;
  const bool awaits = progress == Progress::at_exec && awaits_loader(subject, spec);
  const bool tracks = spec.loads == Loads::tracked &&
                      (awaits || spec.hooks_execs || may_match_later(image, selection));
  const auto loader = tracks ? tracks_loads_by(subject, progress) : std::nullopt;
  std::vector<placement::HookSite> hooks;
  if (loader) hooks.push_back(*loader);
  if (awaits && loader) return plan_matches(image, {}, hooks, spec);
  if (awaits) return fail(MeasurementError(NothingArmed{selection.kind}));
  // What does not match yet may do so in a library, none of which is mapped.
  const Unmatched unmatched = progress == Progress::at_exec ? Unmatched::accept : spec.unmatched;
  auto matches = match(image, selection, unmatched, loader ? Loads::tracked : Loads::ignored);
  if (!matches) return fail(MeasurementError(matches.error()));
  if (means_twice(image, selection, matches->size())) return fail(MeasurementError(MeantTwice{}));
  // The loader of a process that we hold may have yet to relocate code, and would write into our
  // jumps.
  if (unrelocated == nullptr && target::HeldThread::holds_any_of(subject.target.pid()))
    std::erase_if(*matches, [](const image::Match& match) {
      return match.object->elf().has_text_relocations();
    });
  if (unrelocated != nullptr) {
    unrelocated->waits = std::erase_if(*matches, waits_for_relocation) != 0;
    for (const image::Match& match : *matches) unrelocated->sites.insert(match.site);
  }
  if (selection.sites == Sites::every_instruction) image::mean_each_instruction(*matches);
  if (spec.hooks_execs)
    for (placement::HookSite& site : placement::exec_sites(image)) hooks.push_back(std::move(site));
  return plan_matches(image, *std::move(matches), hooks, spec);
}

std::vector<image::Match> match_loaded(image::ProcessImage& image, const Selection& selection,
                                       const std::function<bool(const image::Object&)>& is_new) {
  return image::match_patterns(image, selection.wanted, selection.excluded, is_new).matches;
}

placement::ProbeSet plan_loaded(const image::ProcessImage& image, std::vector<image::Match> matches,
                                const MeasurementSpec& spec,
                                std::span<const placement::HookSite> hooks) {
  const Selection& selection = spec.selection;
  if (selection.sites == Sites::every_instruction) image::mean_each_instruction(matches);
  return plan_matches(image, std::move(matches), hooks, spec);
}

}  // namespace pinprick::session
