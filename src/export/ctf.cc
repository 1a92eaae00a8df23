#include "export/ctf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#include "export/format.h"

namespace pinprick::exports {
namespace {

constexpr size_t kFullPacket = 64 << 10;
constexpr uint32_t kMagic = 0xc1fc1fc1;
constexpr uint32_t kStream = 0;
constexpr std::string_view kOther = "(other)";

template <class T>
void append_bytes(std::string& bytes, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof raw);
}

// A text ends with a 0, so it cannot contain one.
void append_text(std::string& bytes, std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  for (const char c : as_utf8(text)) {
    if (c == '\0')
      bytes += kReplacement;
    else
      bytes += c;
  }
  bytes += '\0';
}

// Returns a literal of the description's language, which has those of C.
std::string quoted(std::string_view text) {
  std::string literal = "\"";
  for (const char c : as_utf8(text)) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  }
  return literal + "\"";
}

// The underscore before it is not a part of the name, and keeps it from being a keyword.
std::string identifier(std::string_view name) {
  std::string word = "_";
  if (name.starts_with('$')) name.remove_prefix(1);
  for (const char c : name) word += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return word == "_" ? "_value" : word;
}

// All numbers are aligned to bytes, and have the least significant one first.
constexpr std::string_view kDescription = R"(/* CTF 1.8 */

typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;
typealias integer {{ size = 64; align = 8; signed = true; }} := int64_t;
typealias integer {{ size = 64; align = 8; signed = false; base = hex; }} := pointer_t;
typealias floating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} := double_t;

trace {{
  major = 1;
  minor = 8;
  byte_order = le;
  packet.header := struct {{
    uint32_t magic;
    uint32_t stream_id;
  }};
}};

env {{
  tracer_name = "pinprick";
  command_line = {};
}};

clock {{
  name = "monotonic";
  description = "CLOCK_MONOTONIC";
  freq = 1000000000;
  offset_s = {};
  offset = {};
}};

typealias integer {{
  size = 64; align = 8; signed = false; map = clock.monotonic.value;
}} := time_t;

stream {{
  id = 0;
  packet.context := struct {{
    time_t timestamp_begin;
    time_t timestamp_end;
    uint64_t content_size;
    uint64_t packet_size;
    uint64_t events_discarded;
  }};
  event.header := struct {{
    uint32_t id;
    time_t timestamp;
  }};
  event.context := struct {{
    int32_t _cpu_id;
    int32_t _vpid;
    int32_t _vtid;
    string _procname;
    string _process;
  }};
}};
)";

}  // namespace

void CtfFields::declare(std::string_view type, std::string_view name) {
  const std::string word = identifier(name);
  size_t& same = names_[word];
  std::string unique = word;
  while (++same != 1) {
    unique = fmt::format("{}_{}", word, same);
    if (names_.try_emplace(unique, 1).second) break;
  }
  encoded_.declarations += fmt::format("    {} {};\n", type, unique);
}

void CtfFields::add(std::string_view name, uint64_t value) {
  declare("uint64_t", name);
  append_bytes(encoded_.values, value);
}

void CtfFields::add(std::string_view name, int64_t value) {
  declare("int64_t", name);
  append_bytes(encoded_.values, value);
}

void CtfFields::add(std::string_view name, double value) {
  declare("double_t", name);
  append_bytes(encoded_.values, std::bit_cast<uint64_t>(value));
}

void CtfFields::add(std::string_view name, std::string_view value) {
  declare("string", name);
  append_text(encoded_.values, value);
}

void CtfFields::add_pointer(std::string_view name, uint64_t value) {
  declare("pointer_t", name);
  append_bytes(encoded_.values, value);
}

// Declarations contain no 0, so a 0 ends them.
std::string CtfFields::packed() const {
  return encoded_.declarations + '\0' + encoded_.values;
}

CtfFields::Encoded CtfFields::unpacked(std::string_view packed) {
  const size_t end = std::min(packed.find('\0'), packed.size());
  return {std::string(packed.substr(0, end)),
          std::string(packed.substr(std::min(end + 1, packed.size())))};
}

std::string ctf_context(const TraceThread& thread, std::optional<uint32_t> cpu) {
  std::string context;
  append_bytes(context, cpu ? static_cast<int32_t>(*cpu) : int32_t{-1});
  append_bytes(context, int32_t{thread.pid});
  append_bytes(context, int32_t{thread.tid});
  append_text(context, thread.name);
  append_text(context, thread.process);
  return context;
}

std::string packed_event(const std::string& context, const std::string& fields) {
  std::string packed;
  append_bytes(packed, static_cast<uint32_t>(context.size()));
  return packed + context + fields;
}

std::pair<std::string_view, std::string_view> unpacked_event(std::string_view packed) {
  uint32_t size = 0;
  if (packed.size() < sizeof size) return {};
  std::memcpy(&size, packed.data(), sizeof size);
  packed.remove_prefix(sizeof size);
  return {packed.substr(0, size), packed.substr(std::min<size_t>(size, packed.size()))};
}

CtfTrace::CtfTrace(const ClockReading& now, std::string_view command_line)
    : last_ns_(now.monotonic) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const uint64_t offset = now.realtime - std::min(now.realtime, now.monotonic);
  metadata_ = fmt::format(kDescription, quoted(command_line), offset / kSecond, offset % kSecond);
}

// Events of one name whose fields differ, such as those that could not be read, are of different
// classes. Returns nullopt if there is no room for another class.
std::optional<uint32_t> CtfTrace::class_of(std::string_view name, const std::string& declarations) {
  constexpr size_t kMostClasses = 1 << 16, kMostBytes = 64 << 20;
  std::pair key(std::string(name), declarations);
  if (const auto known = classes_.find(key); known != classes_.end()) return known->second;
  const bool is_other = name == kOther && declarations.empty();
  if (!is_other && (classes_.size() >= kMostClasses || bytes_of_classes_ > kMostBytes))
    return std::nullopt;
  bytes_of_classes_ += name.size() + declarations.size();
  const auto known = classes_.try_emplace(std::move(key)).first;
  known->second = static_cast<uint32_t>(classes_.size() - 1);
  metadata_ += fmt::format(
      "\nevent {{\n  name = {};\n  id = {};\n  stream_id = {};\n"
      "  fields := struct {{\n{}  }};\n}};\n",
      quoted(name), known->second, kStream, declarations);
  return known->second;
}

std::string CtfTrace::packet(uint64_t begin_ns, uint64_t end_ns, uint64_t dropped,
                             std::string_view events) const {
  constexpr size_t kHead = 2 * sizeof(uint32_t) + 5 * sizeof(uint64_t);
  const uint64_t bits = 8 * (kHead + events.size());
  std::string packet;
  packet.reserve(kHead + events.size());
  append_bytes(packet, kMagic);
  append_bytes(packet, kStream);
  for (const uint64_t one : {begin_ns, end_ns, bits, bits, dropped}) append_bytes(packet, one);
  packet += events;
  return packet;
}

std::string CtfTrace::add(const Event& event) {
  // Readers refuse a stream whose time goes back.
  last_ns_ = std::max(last_ns_, event.time_ns);
  if (events_.empty()) first_ns_ = last_ns_;
  const auto its_class = class_of(event.name, event.fields.declarations);
  append_bytes(events_, its_class ? *its_class : *class_of(kOther, {}));
  append_bytes(events_, last_ns_);
  events_ += event.context;
  if (its_class) events_ += event.fields.values;
  if (events_.size() < kFullPacket) return {};
  return packet(first_ns_, last_ns_, 0, std::exchange(events_, {}));
}

// Readers take the difference to the packet before for the number of events that are missing.
std::string CtfTrace::finish(uint64_t dropped) {
  if (events_.empty()) first_ns_ = last_ns_;
  std::string packets = packet(first_ns_, last_ns_, 0, std::exchange(events_, {}));
  if (dropped != 0) packets += packet(last_ns_, last_ns_, dropped, {});
  return packets;
}

}  // namespace pinprick::exports
