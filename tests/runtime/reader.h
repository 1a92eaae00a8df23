// A function whose hits are counted by what they read, in this process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arch/stub.h"
#include "executable_memory.h"
#include "layout/runtime_data.h"
#include "own_thread.h"
#include "runtime/image.h"

namespace pinprick::runtime {

// A function that returns its argument. Its hits are counted by a key, or those for which something
// has no value are.
class Reader {
 public:
  explicit Reader(const arch::Expression& key, uint32_t text_log2 = 12,
                  arch::Expression condition = {}, uint64_t unwind_size = 0,
                  std::optional<arch::RseqArea> rseq = {})
      : cpus_(std::max(2u, std::thread::hardware_concurrency())),
        keys_(layout::key_entries(kKeyLog2)),
        area_size_(align_up((2 + keys_.size()) * sizeof(uint64_t), 64)),
        areas_((cpus_ + 1) * area_size_ / sizeof(uint64_t)),
        texts_(layout::texts_size(text_log2) / sizeof(uint64_t) + 1),
        text_log2_(text_log2),
        extent_(runtime_extent(1, cpus_, 0, 0, false, false, align_up(unwind_size, kPageSize))),
        runtime_memory_(extent_.size()),
        stub_memory_(65536) {
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    spec.ns_multiplier = uint64_t{1} << 32;
    spec.areas = address_of(areas_.data());
    spec.area_size = area_size_;
    spec.keys = address_of(keys_.data());
    spec.key_log2 = kKeyLog2;
    spec.key_counters = 2 * sizeof(uint64_t);
    spec.texts = address_of(texts_.data());
    spec.text_log2 = text_log2;
    spec.unwind_size = unwind_size;
    spec.tid_offset = tid_offset();
    spec.rseq = rseq;
    const auto runtime = build_runtime(runtime_memory_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    for (const Piece& piece : runtime->pieces)
      runtime_memory_.write(piece.address - runtime_memory_.address(), piece.bytes);
    runtime_memory_.seal(extent_.data_size);
    context().reads = 1;
    regions_ = runtime->regions;
    if (rseq) regions().rseq = rseq->thread_pointer_offset;
    regions().first_cs = runtime->first_reading;
    regions().last_cs = runtime->last_reading;

    arch::Assembler code(stub_memory_.address());
    arch::ArenaSpec arena;
    arena.size = stub_memory_.size();
    arena.routines = {.key = runtime->key,
                      .load = runtime->load,
                      .text = runtime->text,
                      .compare = runtime->compare,
                      .pair = runtime->pair,
                      .stack = runtime->stack,
                      .thread = runtime->thread};
    unwind_ = runtime->unwind;
    arena.locked_areas = locked_areas(spec);
    const auto entries = arch::emit_arena_header(code, arena);
    const arch::StubAction counts = {.condition = std::move(condition),
                                     .unread = sizeof(uint64_t),
                                     .what = arch::CountByKey{0, key}};
    const auto stub = arch::emit_stub(code, entries, {.actions = {&counts, 1}},
                                      {stub_memory_.address() + kCode, kReturnsArgument});
    entry_ = stub.begin - stub_memory_.address();
    stub_memory_.write(kCode, kReturnsArgument);
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes.has_value());
    stub_memory_.write(0, *bytes);
    stub_memory_.seal();
  }

  template <class T>
  static Address address_of(T* pointer) {
    return reinterpret_cast<Address>(pointer);
  }
  void hit(const void* pointer) {
    ASSERT_EQ(stub_memory_.function<const void*(const void*)>(entry_)(pointer), pointer);
  }
  Range unwind() const { return unwind_; }  // room for the rules of frames
  Address entry() { return address_of(stub_memory_.function<void()>(entry_)); }
  Address original() { return address_of(stub_memory_.function<void()>(kCode)); }

  std::map<uint64_t, uint64_t> counts() const {
    std::map<uint64_t, uint64_t> all;
    for (size_t i = 0; i < keys_.size(); ++i)
      if (const uint64_t n = sum(2 + i); n != 0) all[keys_[i].value] += n;
    return all;
  }
  std::map<std::string, uint64_t> counts_by_text() const {
    std::map<std::string, uint64_t> all;
    for (const auto& [number, n] : counts()) all[text(number)] += n;
    return all;
  }
  std::string text(uint64_t number) const {
    if (number == layout::kUnreadText) return "?";
    if (number == layout::kOtherTexts) return "(other)";
    const layout::TextEntry& entry = entries()[number - 1];
    const bool is_cut = (entry.length & PP_TEXT_CUT) != 0;
    return std::string(entry.text, entry.length & 0xff) + (is_cut ? "..." : "");
  }
  std::pair<uint64_t, uint64_t> pair(uint64_t number) const {
    const layout::TextEntry& entry = entries()[number - 1];
    EXPECT_EQ(entry.length, uint64_t{PP_TEXT_PAIR});
    std::pair<uint64_t, uint64_t> numbers;
    std::memcpy(&numbers.first, entry.text, 8);
    std::memcpy(&numbers.second, entry.text + 8, 8);
    return numbers;
  }
  uint64_t unread() const { return sum(1); }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(runtime_memory_.data() + extent_.data_size -
                                                      sizeof(layout::RuntimeContext));
  }
  layout::Regions& regions() { return *reinterpret_cast<layout::Regions*>(regions_); }
  uint64_t* slots() { return texts_.data() + PP_TEXTS_SLOTS / sizeof(uint64_t); }
  uint64_t slot_count() const { return (uint64_t{1} << text_log2_) + PP_TEXT_WINDOW; }
  uint64_t entries_taken() const { return texts_.front(); }
  void forget_texts() { std::fill(texts_.begin(), texts_.end(), 0); }
  void forget() {
    std::fill(areas_.begin(), areas_.end(), 0);
    std::fill(keys_.begin(), keys_.end(), layout::KeyEntry());
  }

  const layout::TextEntry* entries() const {
    return reinterpret_cast<const layout::TextEntry*>(
        reinterpret_cast<const uint8_t*>(texts_.data()) + layout::text_entries_offset(text_log2_));
  }

 private:
  static constexpr uint32_t kKeyLog2 = 12;
  static constexpr uint64_t kCode = 32768;
  // mov %rdi, %rax; ret; nop
  static constexpr uint8_t kReturnsArgument[] = {0x48, 0x89, 0xf8, 0xc3, 0x90};

  uint64_t sum(uint64_t counter) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area)
      sum += areas_[area * area_size_ / sizeof(uint64_t) + counter];
    return sum;
  }

  uint32_t cpus_;
  std::vector<layout::KeyEntry> keys_;
  uint64_t area_size_;
  std::vector<uint64_t> areas_;
  std::vector<uint64_t> texts_;
  uint32_t text_log2_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stub_memory_;
  uint64_t entry_ = 0;
  Range unwind_;
  Address regions_ = 0;
};

}  // namespace pinprick::runtime
