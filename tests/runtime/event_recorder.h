// Functions in this process whose hits record events, and the reader of the session's file.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/newest_events.h"
#include "ledger/session_file.h"
#include "probed_function.h"
#include "scratch.h"

namespace pinprick::runtime {

inline constexpr uint8_t kRdi = 7;
inline constexpr uint32_t kProbes = 4;

// What an event tells of a hit: its number, and others that follow from it.
inline arch::Expression times_and_plus(uint64_t factor, uint64_t more) {
  using arch::Operation, arch::Source;
  return arch::Expression({{.source = {.register_number = kRdi}},
                           {.source = {.instead = Source::Constant{factor}}},
                           {.operation = Operation::multiply, .left = 0, .right = 1},
                           {.source = {.instead = Source::Constant{more}}},
                           {.operation = Operation::add, .left = 2, .right = 3}});
}
inline uint64_t told(uint64_t number, size_t value) {
  return value == 0 ? number : number * (2 * value + 1) + value;
}

// Functions that return their argument; the event of probe n has as many values as sizes[n].
class Recorder {
 public:
  static constexpr std::array<uint8_t, kProbes> kSizes = {1, 0, PP_MOST_EVENT_VALUES, 4};

  // A hit of kTrigger triggers the end of the recording, if the rings keep the newest events.
  static constexpr uint32_t kTrigger = 1;

  explicit Recorder(Path path, uint32_t log2 = layout::kLeastEventLog2,
                    layout::EventRings rings = layout::EventRings::oldest)
      : cpus_(std::max(2u, std::thread::hardware_concurrency())),
        extent_(runtime_extent(1, cpus_)),
        runtime_memory_(extent_.size()),
        stub_memory_(65536) {
    session_.header = layout::lay_out({.sites = 1,
                                       .probes = kProbes,
                                       .name_bytes = 1,
                                       .cpus = path == Path::shared ? 1 : cpus_,
                                       .fraction_bits = 3,
                                       .event_log2 = log2,
                                       .rings = rings});
    session_.sites.resize(1);
    session_.probes.resize(kProbes);
    session_.names.resize(1);
    auto made = ledger::SessionFile::create(scratch_ / "1-1.session", session_);
    EXPECT_TRUE(made);
    file_.emplace(*std::move(made));
    const layout::FileHeader& header = session_.header;
    size_ = (uint64_t{header.cpu_count} + 1) * header.area_size;
    areas_ =
        static_cast<uint8_t*>(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                                     file_->descriptor(), static_cast<off_t>(header.areas_offset)));
    EXPECT_NE(areas_, MAP_FAILED);
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    if (path != Path::locked) spec.rseq = own_rseq();
    if (path == Path::shared) spec.area_count = 1;
    spec.ns_multiplier = uint64_t{1} << 32;
    spec.areas = reinterpret_cast<Address>(areas_);
    spec.area_size = header.area_size;
    spec.event_log2 = log2;
    spec.rings = rings;
    spec.ring = layout::ring_offset(header);
    spec.dropped = layout::dropped_offset(header, 0);
    spec.thread_pointer = thread_pointer_here();
    spec.tid_offset = tid_offset();
    const auto runtime = build_runtime(runtime_memory_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    for (const Piece& piece : runtime->pieces)
      runtime_memory_.write(piece.address - runtime_memory_.address(), piece.bytes);
    runtime_memory_.seal(extent_.data_size);
    write_stubs(spec, *runtime);
  }
  ~Recorder() { ::munmap(areas_, size_); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void hit(uint32_t probe, uint64_t number) {
    const uint64_t same = stub_memory_.function<uint64_t(uint64_t)>(entries_[probe])(number);
    if (same != number) wrong_ = true;
  }
  bool is_wrong() const { return wrong_; }
  ledger::Events take() {
    ledger::Events events;
    if (session_.header.rings == layout::EventRings::oldest) {
      file_->take_events(session_, events);
      return events;
    }
    auto newest = file_->newest_events(session_);
    while (newest.next_tsc() != UINT64_MAX) {
      const ledger::Event event = newest.take();
      events.begin_part(event.values.size());
      const std::vector<uint64_t> reversed(event.values.rbegin(), event.values.rend());
      events.add(event, reversed);
    }
    return events;
  }
  void stop() { file_->stop_events(session_); }
  void restart() { file_->restart_events(session_); }
  void undo_late_stops() { file_->undo_late_stops(session_); }
  bool is_triggered() const { return file_->is_triggered(session_); }
  bool has_overwritten() const { return file_->has_overwritten_events(session_); }
  std::vector<uint64_t> dropped() const { return file_->read_dropped(session_); }
  layout::EventRing& ring(uint64_t area) {
    const layout::FileHeader& header = session_.header;
    return *reinterpret_cast<layout::EventRing*>(areas_ + area * header.area_size +
                                                 layout::ring_offset(header));
  }
  uint64_t areas() const { return uint64_t{session_.header.cpu_count} + 1; }
  uint64_t capacity() const { return uint64_t{1} << session_.header.event_log2; }
  uint64_t* words(uint64_t area) { return reinterpret_cast<uint64_t*>(&ring(area) + 1); }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(runtime_memory_.data() + extent_.data_size -
                                                      sizeof(layout::RuntimeContext));
  }

 private:
  static constexpr uint64_t kCode = 49152;
  // mov %rdi, %rax; ret; nop
  static constexpr uint8_t kReturnsArgument[] = {0x48, 0x89, 0xf8, 0xc3, 0x90};

  void write_stubs(const RuntimeSpec& spec, const RuntimeImage& runtime) {
    arch::Assembler code(stub_memory_.address());
    arch::ArenaSpec arena;
    arena.size = stub_memory_.size();
    arena.routines.event = runtime.event;
    arena.locked_areas = locked_areas(spec);
    const auto cpus = cpu_areas(spec);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
      const bool triggers = probe == kTrigger && spec.rings != layout::EventRings::oldest;
      arch::RecordEvent event = {probe | (triggers ? 1U << PP_EVENT_TRIGGERS_BIT : 0), {}};
      for (uint64_t i = 0; i < kSizes[probe]; ++i)
        event.values.push_back(i == 0 ? arch::Expression(arch::Source{kRdi})
                                      : times_and_plus(2 * i + 1, i));
      const arch::StubAction records = {.what = event};
      const Address function = stub_memory_.address() + kCode + probe * 64;
      code.align(8, 0xcc);
      const auto stub =
          arch::emit_stub(code, entries, {.actions = {&records, 1}}, {function, kReturnsArgument});
      entries_[probe] = stub.begin - stub_memory_.address();
      stub_memory_.write(kCode + probe * 64, kReturnsArgument);
    }
    const auto bytes = code.finish();
    ASSERT_TRUE(bytes.has_value());
    ASSERT_LT(bytes->size(), kCode);
    stub_memory_.write(0, *bytes);
    stub_memory_.seal();
  }

  Scratch scratch_;
  uint32_t cpus_;
  layout::Session session_;
  std::optional<ledger::SessionFile> file_;
  uint8_t* areas_ = nullptr;
  uint64_t size_ = 0;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stub_memory_;
  uint64_t entries_[kProbes] = {};
  std::atomic<bool> wrong_ = false;
};

// Are the values what a hit of the number would tell?
inline bool is_whole(const ledger::Event& event) {
  if (event.probe >= kProbes || event.values.size() != Recorder::kSizes[event.probe]) return false;
  for (size_t i = 0; i < event.values.size(); ++i)
    if (event.values[i] != told(event.values[0], i)) return false;
  return true;
}

}  // namespace pinprick::runtime
