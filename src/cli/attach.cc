#include "cli/attach.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/cache_folder.h"
#include "base/clock.h"
#include "engine/shared_sites.h"
#include "image/loader.h"
#include "layout/runtime_data.h"
#include "ledger/turn.h"
#include "select/span.h"

namespace pinprick::cli {

namespace {

Result<placement::RecordedValue, Message> recorded_value(std::string_view text,
                                                         const image::Pattern& pattern) {
  const auto value = select::parse_value(text);
  if (!value) return fail(message(value.error(), pattern.text()));
  if (value->is_argument && pattern.offset() != 0)
    return fail(
        Message{"bad_value",
                fmt::format("'{} {}': an argument is where the ABI has it when the function "
                            "begins, not at an offset; name a register there: %rdi",
                            pattern.text(), text),
                kUsage});
  return placement::RecordedValue{*value, std::string(text)};
}

// In place of the spans, their points.
Result<std::vector<std::string>, Message> points_of(const std::vector<std::string>& spans) {
  std::vector<std::string> points;
  for (const std::string& text : spans) {
    if (!select::is_span(text))
      return fail(Message{"bad_span",
                          fmt::format("'{}' is no span, but others are: measure calls and spans by "
                                      "two commands, one after the other",
                                      text),
                          kUsage});
    const auto span = select::parse_span(text);
    if (!span) return fail(message(span.error(), text));
    points.emplace_back(span->start);
    points.emplace_back(span->end);
  }
  if (spans.size() > layout::kMostSpans)
    return fail(Message{"bad_span",
                        fmt::format("{} spans at once are too many; {} are possible", spans.size(),
                                    layout::kMostSpans),
                        kUsage});
  return points;
}

}  // namespace

bool means_spans(const Options& options) {
  return options.verb == "latency" && !options.regex &&
         std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span);
}

Result<Patterns, Message> parse_patterns(const Options& options) {
  const auto syntax = options.regex ? image::PatternSyntax::regex : image::PatternSyntax::glob;
  Patterns patterns;
  std::vector<std::string> wanted = options.patterns;
  if (means_spans(options)) {
    auto points = points_of(wanted);
    if (!points) return fail(points.error());
    patterns.spans = std::exchange(wanted, *std::move(points));
  }
  for (auto [texts, parsed] : {std::pair(&std::as_const(wanted), &patterns.wanted),
                               std::pair(&options.excluded, &patterns.excluded)}) {
    const bool has_values = options.verb == "hist" && parsed == &patterns.wanted;
    for (const std::string& text : *texts) {
      const auto spec = has_values ? select::split_spec(text) : select::PointAndValue{text, {}};
      auto pattern = image::Pattern::parse(spec.point, syntax);
      if (!pattern) return fail(message(pattern.error()));
      if (has_values) {
        auto value = recorded_value(spec.value, *pattern);
        if (!value) return fail(value.error());
        patterns.values.push_back(*std::move(value));
      }
      // Every instruction of a function may lie in its parts, too.
      if (parsed == &patterns.wanted && !options.instructions) pattern->leave_out_parts();
      parsed->push_back(*std::move(pattern));
    }
  }
  return patterns;
}

namespace {

std::unique_ptr<image::ObjectStore>& store() {
  static auto one = std::make_unique<image::ObjectStore>();
  return one;
}

// A process that ends loses its memory, and with it the files behind, before it counts as ended.
bool is_gone(const target::RemoteTarget& target) {
  return target.has_exited() || !target.same_image();
}

// While the loader is at work, what is mapped may lack what its objects need: an unwinder, say.
Result<image::ProcessImage, SystemError> load_settled(pid_t pid,
                                                      const image::MemoryReader& reader) {
  constexpr uint64_t kTimeoutNs = 300'000'000;
  for (const uint64_t begin = monotonic_ns();; sleep_ns(1'000'000)) {
    const bool was_idle = !image::loader_is_at_work(pid, reader);
    auto image = image::load_process(pid, reader, &object_store());
    const bool settled = was_idle && !image::loader_is_at_work(pid, reader);
    if (settled || !image || monotonic_ns() - begin > kTimeoutNs) return image;
  }
}

}  // namespace

void use_cache() {
  const auto path = user_cache_path("pinprick");
  auto folder = path ? CacheFolder::open(*path) : std::nullopt;
  if (folder) store() = std::make_unique<image::ObjectStore>(*std::move(folder));
}

image::ObjectStore& object_store() {
  return *store();
}

// Not while another one has stopped it: then it is traced.
Result<target::RemoteTarget, Message> open_target(pid_t pid) {
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(message(turn.error()));
  auto target = target::RemoteTarget::open(pid);
  if (!target) return fail(message(target.error()));
  return *std::move(target);
}

Result<Subject, Message> look_at(pid_t pid) {
  auto target = open_target(pid);
  if (!target) return fail(target.error());
  return look_at(*target);
}

Result<Subject, Message> look_at(const target::RemoteTarget& target) {
  const pid_t pid = target.pid();
  const auto others =
      std::make_shared<const engine::OtherSites>(engine::OtherSites::find(pid, target.memory()));
  auto image = load_settled(pid, engine::reader_without_jumps(others, target.reader()));
  if (image) image->taken = others->taken();
  const bool incomplete = !image || image->objects.empty() || !image->unreadable.empty();
  if (incomplete && is_gone(target))
    return fail(message(target::AttachError{target::AttachCause::exited, pid, 0, 0, {}}));
  if (!image)
    return fail(message(
        target::AttachError{target::AttachCause::not_permitted, pid, 0, image.error().number, {}}));
  Subject subject{target, std::make_unique<image::ProcessImage>(*std::move(image)), {}};
  for (const std::string& name : subject.image->replaced)
    subject.warnings.push_back(
        fmt::format("{}: the file is not the one that is running (replaced or deleted); its memory "
                    "has no more than dynamic symbols",
                    name));
  if (subject.image->objects.empty())
    return fail(subject.image->unreadable.empty()
                    ? message(target::AttachError{target::AttachCause::exited, pid, 0, 0, {}})
                    : message(subject.image->unreadable.front().error));
  return subject;
}

Result<engine::DisarmReport, Message> finish(const ledger::FoundSession& found,
                                             uint64_t timeout_ns) {
  const auto turn = ledger::Turn::take(found.journal.header.pid);
  if (!turn) return fail(message(turn.error()));
  auto file = ledger::SessionFile::open(found.file.path(), ledger::SessionFile::Lock::exclusive);
  if (!file) return fail(message(file.error()));
  auto journal = file->read();  // again, now that it is ours
  if (!journal) return fail(message(journal.error()));
  if (!found.target_lives) {
    file->remove();
    engine::DisarmReport gone;
    gone.target_gone = true;
    return gone;
  }
  auto subject = look_at(found.journal.header.pid);
  if (!subject) return fail(subject.error());
  // Not before: a program that somebody runs as another user is the same process. What was opened
  // now is not what comes after an exec.
  if (!ledger::is_trusted(*file, found.journal.header.pid))
    return fail(
        message(ledger::FileError{ledger::FileError::Cause::untrusted, file->path(), 0, {}, 0}));
  auto report = engine::disarm(subject->target, *subject->image, *file, *journal, timeout_ns);
  if (!report) return fail(message(report.error()));
  return *report;
}

Result<std::vector<image::Match>, Message> match(image::ProcessImage& image,
                                                 const Patterns& patterns, bool allow_missing,
                                                 bool later) {
  auto matches = image::match_patterns(image, patterns.wanted, patterns.excluded);
  if (!matches.only_unreadable.empty()) {
    const auto& pattern = patterns.wanted[matches.only_unreadable.front()];
    for (const auto& object : image.unreadable)
      if (pattern.matches_object(object.names)) return fail(message(object.error));
  }
  if (allow_missing && later) return std::move(matches.matches);
  if (!matches.unmatched.empty() && (!allow_missing || matches.matches.empty())) {
    std::string names;
    for (size_t i : matches.unmatched)
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", patterns.wanted[i].text());
    return fail(
        Message{"nothing_matched",
                fmt::format("no function matches {}; `pinprick list` shows what there is{}", names,
                            later                     ? ", and --allow-missing waits for what is "
                                                        "loaded later"
                            : matches.matches.empty() ? ""
                                                      : ", and --allow-missing accepts it"),
                kNothingMatched});
  }
  if (matches.matches.empty())
    return fail(Message{"nothing_matched", "every match is excluded; nothing is left to probe",
                        kNothingMatched});
  return std::move(matches.matches);
}

namespace {

Result<image::Match, Message> match_point(image::ProcessImage& image, const Patterns& patterns,
                                          size_t point) {
  constexpr size_t kNamed = 3;
  Patterns one;
  one.wanted = {patterns.wanted[point]};
  one.excluded = patterns.excluded;
  auto matches = match(image, one, false);
  if (!matches) return fail(matches.error());
  if (matches->size() > 1) {
    std::string names;
    for (size_t i = 0; i < std::min(matches->size(), kNamed); ++i)
      names += fmt::format("{}{}:{}", i == 0 ? "" : ", ", (*matches)[i].object->name(),
                           (*matches)[i].name());
    return fail(
        Message{"bad_span",
                fmt::format("'{}': '{}' means {} places, {}{}; a point of a span is one",
                            patterns.spans[point / 2], one.wanted[0].text(), matches->size(), names,
                            matches->size() > kNamed ? " and others" : ""),
                kUsage});
  }
  matches->front().pattern = static_cast<uint32_t>(point);
  return matches->front();
}

}  // namespace

Result<std::vector<placement::SpanMatches>, Message> match_spans(image::ProcessImage& image,
                                                                 const Patterns& patterns,
                                                                 bool allow_missing) {
  std::vector<placement::SpanMatches> spans;
  for (size_t i = 0; i < patterns.spans.size(); ++i) {
    const auto start = match_point(image, patterns, 2 * i);
    const auto end = start ? match_point(image, patterns, 2 * i + 1) : start;
    if (start && end) {
      spans.push_back({patterns.spans[i], *start, *end});
    } else {
      const Message& why = start ? end.error() : start.error();
      if (!allow_missing || why.cause != "nothing_matched") return fail(why);
    }
  }
  return spans;
}

bool may_match_later(const image::ProcessImage& image, const Patterns& patterns) {
  const auto& program = image.objects.front()->names();
  return std::any_of(patterns.wanted.begin(), patterns.wanted.end(), [&](const auto& pattern) {
    return !pattern.names_object() || !pattern.matches_object(program);
  });
}

}  // namespace pinprick::cli
