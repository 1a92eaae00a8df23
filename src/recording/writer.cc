#include "recording/writer.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "recording/expected_time.h"

namespace pinprick::recording {
namespace {

using session::EventValue;

void append_u32(std::string& bytes, uint64_t value) {
  const auto narrow = static_cast<uint32_t>(value);
  char raw[sizeof narrow];
  std::memcpy(raw, &narrow, sizeof narrow);
  bytes.append(raw, sizeof raw);
}

std::string compressed(const std::string& content) {
  constexpr int kFast = 3;
  std::string bytes(ZSTD_compressBound(content.size()), '\0');
  const size_t size =
      ZSTD_compress(bytes.data(), bytes.size(), content.data(), content.size(), kFast);
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();
  bytes.resize(size);
  return bytes;
}

uint8_t flags_of(const engine::ProbeName& name) {
  return static_cast<uint8_t>((name.is_point ? kIsPoint : 0) | (name.at_return ? kAtReturn : 0) |
                              (name.is_shared ? kIsShared : 0));
}

uint8_t flags_of(const session::Event& event) {
  const bool is_start = event.span_part && event.span_part->is_start;
  return static_cast<uint8_t>(flags_of(event.name) |
                              (event.has_return_event ? kHasReturnEvent : 0) |
                              (event.triggers_end ? kTriggersEnd : 0) |
                              (event.span_part ? kHasSpan : 0) | (is_start ? kIsStart : 0));
}

uint64_t span_of(const session::Event& event) {
  return event.span_part ? event.span_part->span : 0;
}

}  // namespace

Writer::Writer(const Header& header)
    : ns_multiplier_(header.clocks.ns_multiplier),
      tsc_(header.clocks.tsc),
      time_ns_(header.clocks.realtime_ns) {
  done_ = kMagic;
  done_ += static_cast<char>(kVersion);
  put(header);
  close_chunk();
}

void Writer::put(const Header& header) {
  begin(Tag::header);
  out_.text(header.version);
  out_.text(header.command_line);
  const Clocks& clocks = header.clocks;
  for (const uint64_t one : {clocks.tsc, clocks.boottime_ns, clocks.monotonic_ns,
                             clocks.realtime_ns, clocks.ns_multiplier})
    out_.number(one);
  out_.number(header.patterns.size());
  for (const std::string& one : header.patterns) out_.text(one);
  out_.byte(header.is_regex ? 1 : 0);
  out_.byte(header.is_tree ? 1 : 0);
  out_.byte(header.has_until ? 1 : 0);
  out_.number(header.after_ns);
  // 0: there is none.
  out_.number(header.slower_ns ? *header.slower_ns + 1 : 0);
  out_.number(header.faster_ns ? *header.faster_ns + 1 : 0);
}

// A thread gets another number when its command has changed.
uint64_t Writer::number_of_thread(const session::Event& event) {
  const auto [known, is_new] = threads_.try_emplace({event.process.pid, event.tid});
  Thread& thread = known->second;
  if (!is_new && thread.command == event.command && thread.of_process == event.process.command)
    return thread.number;
  thread = {threads_told_++, std::string(event.command), event.process.command};
  begin(Tag::thread);
  out_.number(static_cast<uint64_t>(event.process.pid));
  out_.text(event.process.command);
  out_.number(static_cast<uint64_t>(event.tid));
  out_.text(event.command);
  return thread.number;
}

Writer::Probe Writer::probe_of(const engine::ProbeName& name) {
  return {.object = std::string(name.object),
          .function = std::string(name.function),
          .condition = std::string(name.condition),
          .file = std::string(name.file),
          .build_id = std::string(name.build_id),
          .event = std::string(name.event),
          .address = name.address,
          .site = name.site,
          .offset = name.offset,
          .flags = flags_of(name)};
}

Writer::Probe Writer::probe_of(const session::Event& event) {
  Probe probe = probe_of(event.name);
  probe.flags = flags_of(event);
  probe.span = span_of(event);
  for (const EventValue& one : event.values) {
    Probe::Value& value = probe.values.emplace_back();
    value.name = one.name;
    value.text = one.text;
    if (one.format != nullptr) value.words = *one.format;
  }
  return probe;
}

bool Writer::is_of(const Probe& probe, const session::Event& event) {
  const engine::ProbeName& name = event.name;
  return probe.address == name.address && probe.site == name.site && probe.event == name.event &&
         probe.offset == name.offset && probe.flags == flags_of(event) &&
         probe.span == span_of(event) && probe.function == name.function &&
         probe.object == name.object && probe.condition == name.condition &&
         probe.file == name.file &&
         std::equal(probe.values.begin(), probe.values.end(), event.values.begin(),
                    event.values.end(), [](const Probe::Value& known, const EventValue& one) {
                      return known.name == one.name && known.text == one.text &&
                             known.words.has_value() == (one.format != nullptr) &&
                             (one.format == nullptr || *known.words == *one.format);
                    });
}

uint64_t Writer::number_of_probe(const session::Event& event) {
  const auto [known, is_new] = probes_.try_emplace(&event.name);
  if (is_new || !is_of(known->second.probe, event)) {
    known->second.probe = probe_of(event);
    known->second.number = put(known->second.probe);
  }
  return known->second.number;
}

uint64_t Writer::put(const Probe& probe) {
  begin(Tag::probe);
  for (const std::string* one : {&probe.object, &probe.function, &probe.condition, &probe.file,
                                 &probe.build_id, &probe.event})
    out_.text(*one);
  out_.number(probe.address);
  out_.number(probe.site);
  out_.number(probe.offset);
  out_.byte(probe.flags);
  if ((probe.flags & kHasSpan) != 0) out_.number(probe.span);
  out_.number(probe.values.size());
  for (const Probe::Value& one : probe.values) {
    out_.text(one.name);
    out_.text(one.text);
    out_.byte(!one.words ? kNoWords : one.words->has_value ? kWordsAroundValue : kWordsAlone);
    if (!one.words) continue;
    out_.text(one.words->before);
    out_.text(one.words->after);
  }
  return probes_told_++;
}

void Writer::put(const EventValue& value) {
  using Kind = EventValue::Kind;
  out_.byte(static_cast<uint8_t>(static_cast<uint8_t>(value.kind) | (value.is_cut ? kIsCut : 0)));
  switch (value.kind) {
    case Kind::number:
    case Kind::hexadecimal:
    case Kind::floating:
    case Kind::character:
      return out_.number(value.number);
    case Kind::signed_number:
    case Kind::error:
      return out_.difference(value.number, 0);
    case Kind::code:
      out_.number(value.number);
      return out_.text(value.words);
    case Kind::words:
    case Kind::cut:
    case Kind::none:
    case Kind::stack:
      return out_.text(value.words);
    case Kind::unread:
    case Kind::other:
      return;
    case Kind::elements:
      out_.number(value.number);
      break;
    case Kind::members:
      break;
    case Kind::variant:
      out_.text(value.words);
      break;
  }
  out_.number(value.inner.size());
  for (const EventValue& one : value.inner) {
    out_.text(one.name);
    put(one);
  }
}

// An event of a function's entry without values takes some 8 bytes before it is compressed.
void Writer::add(const session::Event& event) {
  const uint64_t thread = number_of_thread(event), probe = number_of_probe(event);
  const uint64_t cpu = event.cpu ? *event.cpu + uint64_t{1} : 0;
  out_.byte(static_cast<uint8_t>(
      static_cast<uint8_t>(Tag::event) | (event.latency_ns ? kHasLatency : 0) |
      (event.stack_pointer != 0 ? kHasStackPointer : 0) | (thread == thread_ ? kSameThread : 0) |
      (probe == probe_ ? kSameProbe : 0) | (cpu == cpu_ ? kSameCpu : 0)));
  if (thread != thread_) out_.number(thread);
  if (probe != probe_) out_.number(probe);
  if (cpu != cpu_) out_.number(cpu);
  out_.difference(event.tsc, tsc_);
  // The time is nearly what the TSC says.
  out_.difference(event.time_ns, expected_time(event.tsc, tsc_, time_ns_, ns_multiplier_));
  if (event.latency_ns) out_.number(*event.latency_ns);
  if (event.stack_pointer != 0) {
    out_.difference(event.stack_pointer, stack_pointer_);
    stack_pointer_ = event.stack_pointer;
  }
  for (const EventValue& one : event.values) put(one);
  tsc_ = event.tsc;
  time_ns_ = event.time_ns;
  thread_ = thread;
  probe_ = probe;
  cpu_ = cpu;
  if (out_.size() >= kFullChunk) close_chunk();
}

void Writer::told_until(uint64_t tsc) {
  begin(Tag::told);
  out_.difference(tsc, tsc_);
}

// A row without events is told as well if something was lost of it.
void Writer::add(const session::Report& report) {
  std::vector<uint64_t> probes;
  for (const session::Row& row : report.rows) {
    Probe probe = probe_of(row.name);
    probes.push_back(put(probe));
  }
  begin(Tag::report);
  out_.number(static_cast<uint64_t>(report.process.pid));
  out_.text(report.process.command);
  out_.number(std::bit_cast<uint64_t>(report.seconds));
  out_.number(report.slots_to_ask_for);
  out_.number(report.rows.size());
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const session::Row& row = report.rows[i];
    out_.number(probes[i]);
    out_.number(row.hits);
    out_.number(row.sample ? row.sample->every : 0);
    if (row.sample) out_.number(row.sample->hits);
    out_.byte(row.lacks_older_events ? 1 : 0);
    out_.number(layout::kLosses);
    const layout::Losses losses = row.distribution ? row.distribution->losses : layout::Losses();
    losses.for_each([&](const layout::LossWords&, uint64_t count) { out_.number(count); });
  }
}

void Writer::close_chunk() {
  const std::string content = out_.take();
  if (content.empty()) return;
  const std::string bytes = compressed(content);
  append_u32(done_, bytes.size());
  append_u32(done_, content.size());
  done_ += bytes;
}

std::string Writer::take(Rest rest) {
  if (rest == Rest::comes) close_chunk();
  return std::exchange(done_, {});
}

std::string Writer::finish(Of of) {
  if (of == Of::whole_program) begin(Tag::whole_program);
  begin(Tag::end);
  return take(Rest::comes);
}

}  // namespace pinprick::recording
