#include "recording/reader.h"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "recording/expected_time.h"
#include "recording/format.h"

namespace pinprick::recording {
namespace {

using session::EventValue;

constexpr uint64_t kNothing = 0;

uint64_t changed(uint64_t from, ByteReader& in) {
  const uint64_t coded = in.uleb();
  return from + (coded >> 1 ^ -(coded & 1));
}

std::string_view fail_in(ByteReader& in) {
  in.skip(in.remaining() + 1);
  return {};
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

ReadError damaged() {
  return {.cause = ReadError::Cause::damaged};
}

}  // namespace

Result<Reader, ReadError> Reader::open(const std::string& path) {
  auto file = open_file(path, O_RDONLY);
  if (!file) return fail(ReadError{.system_error = file.error().number});
  Reader reader;
  reader.file_ = *std::move(file);
  return begin(std::move(reader));
}

Result<Reader, ReadError> Reader::of(std::string bytes) {
  Reader reader;
  reader.bytes_ = std::move(bytes);
  return begin(std::move(reader));
}

Result<Reader, ReadError> Reader::begin(Reader reader) {
  using Cause = ReadError::Cause;
  const auto first = reader.next_bytes(kMagic.size() + 1);
  if (!first) return fail(first.error());
  if (!first->starts_with(kMagic) || first->size() != kMagic.size() + 1)
    return fail(ReadError{.cause = Cause::not_recording});
  if (static_cast<uint8_t>(first->back()) != kVersion)
    return fail(ReadError{.cause = Cause::other_version});
  const auto chunk = reader.next_chunk();
  if (!chunk) return fail(chunk.error());
  ByteReader in(as_bytes(*chunk));
  if (!reader.read_header(in)) return fail(damaged());
  return reader;
}

// Returns fewer bytes at the end.
Result<std::string, ReadError> Reader::next_bytes(size_t size) {
  if (file_.get() < 0) {
    std::string part = bytes_.substr(std::min(position_, bytes_.size()), size);
    position_ += part.size();
    return part;
  }
  std::string part(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t read = ::read(file_.get(), part.data() + done, size - done);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return fail(ReadError{.system_error = errno});
    if (read == 0) break;
    done += static_cast<size_t>(read);
  }
  part.resize(done);
  return part;
}

// Returns an empty one at the end of the file, and for one that was not written to its end.
Result<std::string, ReadError> Reader::next_chunk() {
  constexpr size_t kSizes = 2 * sizeof(uint32_t);
  const auto sizes = next_bytes(kSizes);
  if (!sizes) return fail(sizes.error());
  if (sizes->size() < kSizes) return std::string();
  ByteReader in(as_bytes(*sizes));
  const size_t size = in.u32(), content = in.u32();
  if (size == 0 || size > kMostChunk || content == 0 || content > kMostChunk)
    return fail(damaged());
  const auto bytes = next_bytes(size);
  if (!bytes) return fail(bytes.error());
  if (bytes->size() < size) return std::string();
  std::string chunk(content, '\0');
  const size_t result = ZSTD_decompress(chunk.data(), content, bytes->data(), size);
  if (ZSTD_isError(result) != 0 || result != content) return fail(damaged());
  return chunk;
}

bool Reader::read_header(ByteReader& in) {
  if (in.u8() != static_cast<uint8_t>(Tag::header)) return false;
  header_.version = text(in);
  header_.command_line = text(in);
  Clocks& clocks = header_.clocks;
  for (uint64_t* const one : {&clocks.tsc, &clocks.boottime_ns, &clocks.monotonic_ns,
                              &clocks.realtime_ns, &clocks.ns_multiplier})
    *one = in.uleb();
  if (clocks.ns_multiplier == 0) return false;
  const uint64_t patterns = in.uleb();
  if (patterns > in.remaining()) return false;
  for (uint64_t i = 0; i < patterns; ++i) header_.patterns.emplace_back(text(in));
  header_.is_regex = in.u8() != 0;
  header_.is_tree = in.u8() != 0;
  header_.has_until = in.u8() != 0;
  header_.after_ns = in.uleb();
  for (std::optional<uint64_t>* const one : {&header_.slower_ns, &header_.faster_ns})
    if (const uint64_t limit = in.uleb(); limit != 0) *one = limit - 1;
  tsc_ = clocks.tsc;
  time_ns_ = clocks.realtime_ns;
  return in.ok();
}

Result<bool, ReadError> Reader::read_chunk(Sink& sink) {
  const auto chunk = next_chunk();
  if (!chunk) return fail(chunk.error());
  if (chunk->empty()) return false;
  ByteReader in(as_bytes(*chunk));
  while (in.remaining() != 0)
    if (!read_record(in, sink) || !in.ok()) return fail(damaged());
  texts_of_chunk_.clear();
  return true;
}

bool Reader::read_record(ByteReader& in, Sink& sink) {
  const uint8_t tag = in.u8();
  if ((tag & ~kEventBits) == static_cast<uint8_t>(Tag::event)) return read_event(tag, in, sink);
  switch (static_cast<Tag>(tag)) {
    case Tag::thread:
      return read_thread(in);
    case Tag::probe:
      return read_probe(in);
    case Tag::told:
      sink.told_until(changed(tsc_, in));
      return true;
    case Tag::report:
      return read_report(in, sink);
    case Tag::end:
      is_complete_ = true;
      return true;
    case Tag::whole_program:
      is_whole_program_ = true;
      return true;
    default:
      return false;
  }
}

// The last text may go beyond the most bytes.
bool Reader::has_room_for(uint64_t size) const {
  return size <= kLongestNumberedText && texts_.size() < kMostNumberedTexts &&
         bytes_of_texts_ < 2 * kMostBytesOfTexts;
}

std::string_view Reader::text(ByteReader& in, Lasts lasts) {
  const uint64_t how = in.uleb();
  if (how == kEmptyText) return {};
  if (how >= kKnownTexts) {
    if (how - kKnownTexts < texts_.size()) return texts_[how - kKnownTexts];
    return fail_in(in);
  }
  const uint64_t size = in.uleb();
  const bool is_new = how == kNewText;
  if (size > in.remaining() || (is_new && !has_room_for(size))) return fail_in(in);
  if (lasts == Lasts::always || is_new) bytes_of_texts_ += size;
  std::deque<std::string>& to = how == kNewText          ? texts_
                                : lasts == Lasts::always ? long_texts_
                                                         : texts_of_chunk_;
  const auto bytes = in.take(size);
  return to.emplace_back(bytes.begin(), bytes.end());
}

bool Reader::read_thread(ByteReader& in) {
  if (threads_.size() == kMostThreads || bytes_of_texts_ > 2 * kMostBytesOfTexts) return false;
  Thread& thread = threads_.emplace_back();
  thread.process.pid = static_cast<pid_t>(in.uleb());
  thread.process.command = text(in, Lasts::always);
  thread.tid = static_cast<pid_t>(in.uleb());
  thread.command = text(in, Lasts::always);
  if (std::max(thread.command.size(), thread.process.command.size()) > kLongestCommand)
    return false;
  return in.ok();
}

bool Reader::read_probe(ByteReader& in) {
  if (probes_.size() == kMostProbes || bytes_of_texts_ > 2 * kMostBytesOfTexts) return false;
  Probe& probe = probes_.emplace_back();
  engine::ProbeName& name = probe.name;
  for (std::string_view* const one :
       {&name.object, &name.function, &name.condition, &name.file, &name.build_id, &name.event})
    *one = text(in, Lasts::always);
  name.address = in.uleb();
  name.site = in.uleb();
  name.offset = in.uleb();
  const uint8_t flags = in.u8();
  name.is_point = (flags & kIsPoint) != 0;
  name.at_return = (flags & kAtReturn) != 0;
  name.is_shared = (flags & kIsShared) != 0;
  probe.has_return_event = (flags & kHasReturnEvent) != 0;
  probe.triggers_end = (flags & kTriggersEnd) != 0;
  if ((flags & kHasSpan) != 0)
    probe.span_part = {static_cast<uint32_t>(in.uleb()), (flags & kIsStart) != 0};
  const uint64_t values = in.uleb();
  if (values > in.remaining()) return false;
  for (uint64_t i = 0; i < values && in.ok(); ++i) {
    Probe::Value& value = probe.values.emplace_back();
    value.name = text(in, Lasts::always);
    value.text = text(in, Lasts::always);
    const uint8_t words = in.u8();
    if (words > kWordsAroundValue) return false;
    if (words == kNoWords) continue;
    action::Field::Words around;
    around.before = text(in, Lasts::always);
    around.after = text(in, Lasts::always);
    around.has_value = words == kWordsAroundValue;
    value.words = std::move(around);
  }
  return in.ok();
}

bool Reader::read_value(ByteReader& in, unsigned depth, EventValue& value) {
  using Kind = EventValue::Kind;
  if (++values_of_event_ > kMostValues) return false;
  const uint8_t kind = in.u8();
  value.kind = static_cast<Kind>(kind & ~kIsCut);
  value.is_cut = (kind & kIsCut) != 0;
  switch (value.kind) {
    case Kind::number:
    case Kind::hexadecimal:
    case Kind::floating:
    case Kind::character:
      value.number = in.uleb();
      return in.ok();
    case Kind::signed_number:
    case Kind::error:
      value.number = changed(kNothing, in);
      return in.ok();
    case Kind::code:
      value.number = in.uleb();
      value.words = text(in);
      return in.ok();
    case Kind::words:
    case Kind::cut:
    case Kind::none:
    case Kind::stack:
      value.words = text(in);
      return in.ok();
    case Kind::unread:
    case Kind::other:
      return in.ok();
    case Kind::elements:
      value.number = in.uleb();
      break;
    case Kind::members:
      break;
    case Kind::variant:
      value.words = text(in);
      break;
    default:
      return false;
  }
  const uint64_t inner = in.uleb();
  if (inner > in.remaining() || depth == kMostDepth) return false;
  for (uint64_t i = 0; i < inner; ++i) {
    EventValue& one = value.inner.emplace_back();
    one.name = text(in);
    if (!read_value(in, depth + 1, one)) return false;
  }
  return true;
}

bool Reader::read_event(uint8_t tag, ByteReader& in, Sink& sink) {
  if ((tag & kSameThread) == 0) thread_ = in.uleb();
  if ((tag & kSameProbe) == 0) probe_ = in.uleb();
  if ((tag & kSameCpu) == 0) {
    const uint64_t cpu = in.uleb();
    cpu_ = cpu == 0 ? std::nullopt : std::optional(static_cast<uint32_t>(cpu - 1));
  }
  if (thread_ >= threads_.size() || probe_ >= probes_.size()) return false;
  const Thread& thread = threads_[thread_];
  const Probe& probe = probes_[probe_];
  const uint64_t tsc = changed(tsc_, in);
  time_ns_ = changed(expected_time(tsc, tsc_, time_ns_, header_.clocks.ns_multiplier), in);
  tsc_ = tsc;
  std::optional<uint64_t> latency_ns;
  if ((tag & kHasLatency) != 0) latency_ns = in.uleb();
  const bool has_stack_pointer = (tag & kHasStackPointer) != 0;
  if (has_stack_pointer) stack_pointer_ = changed(stack_pointer_, in);
  values_.clear();
  values_of_event_ = 0;
  for (const Probe::Value& known : probe.values) {
    EventValue& value = values_.emplace_back();
    if (!read_value(in, 0, value)) return false;
    value.name = known.name;
    value.text = known.text;
    if (known.words) value.format = &*known.words;
  }
  if (!in.ok()) return false;
  sink.event({thread.process, tsc, time_ns_, thread.tid, cpu_, thread.command, probe.name, values_,
              latency_ns, probe.has_return_event, probe.span_part,
              has_stack_pointer ? stack_pointer_ : 0, probe.triggers_end});
  return true;
}

bool Reader::read_report(ByteReader& in, Sink& sink) {
  session::Report report;
  report.kind = placement::Kind::event;
  report.is_final = true;
  report.process.pid = static_cast<pid_t>(in.uleb());
  report.process.command = text(in);
  report.seconds = std::bit_cast<double>(in.uleb());
  constexpr double kMostSeconds = 1e12;
  if (!(report.seconds >= 0 && report.seconds < kMostSeconds)) return false;
  report.slots_to_ask_for = in.uleb();
  const uint64_t rows = in.uleb();
  constexpr uint64_t kLeastRow = 4 + layout::kLosses;  // bytes
  if (rows > in.remaining() / kLeastRow || rows_ + rows > kMostRows) return false;
  rows_ += rows;
  for (uint64_t i = 0; i < rows && in.ok(); ++i) {
    const uint64_t probe = in.uleb();
    if (probe >= probes_.size()) return false;
    session::Row& row = report.rows.emplace_back();
    row.name = probes_[probe].name;
    row.kind = placement::Kind::event;
    row.hits = in.uleb();
    if (const uint64_t every = in.uleb(); every != 0)
      row.sample = session::Sample{static_cast<uint32_t>(every), in.uleb()};
    row.lacks_older_events = in.u8() != 0;
    row.distribution = session::Distribution{stats::Histogram(0), 0, {}};
    const uint64_t losses = in.uleb();
    if (losses < layout::kLosses || losses > in.remaining()) return false;
    for (uint64_t loss = 0; loss < losses; ++loss) {
      const uint64_t count = in.uleb();
      if (loss < layout::kLosses) row.distribution->losses[static_cast<layout::Loss>(loss)] = count;
    }
  }
  if (!in.ok()) return false;
  sink.report(report);
  return true;
}

}  // namespace pinprick::recording
