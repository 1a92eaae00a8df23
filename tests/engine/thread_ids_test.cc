// Where TIDs lie in control blocks, by what such blocks hold.
#include "engine/calls/thread_ids.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace pinprick::engine {
namespace {

constexpr size_t kGlibc = 0x2d0, kMusl = 0x30;

// A control block with numbers at some offsets, and others at all others.
class ControlBlock {
 public:
  ControlBlock() { bytes_.fill(0xee); }
  ControlBlock& put(size_t at, uint32_t word) {
    std::memcpy(bytes_.data() + at, &word, sizeof word);
    return *this;
  }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::array<uint8_t, 1024> bytes_;
};

TEST(TidOffsets, AreGlibcsWhereItHoldsAllTids) {
  TidOffsets offsets;
  for (const uint32_t tid : {101u, 102u})
    offsets.see(tid, ControlBlock().put(kGlibc, tid).put(0x10, tid).bytes());
  EXPECT_EQ(offsets.offset(), int64_t{kGlibc});
}

TEST(TidOffsets, AreTheFirstPlaceThatHoldsTheTidsOfAll) {
  TidOffsets offsets;
  offsets.see(101, ControlBlock().put(0x20, 101).put(0x40, 101).put(0x80, 101).bytes());
  offsets.see(102, ControlBlock().put(0x40, 102).put(0x80, 102).bytes());
  EXPECT_EQ(offsets.offset(), int64_t{0x40});
}

TEST(TidOffsets, AreMuslsThoughAThreadThatIsAboutToEndHasItsTidNoMore) {
  TidOffsets offsets;
  offsets.see(101, ControlBlock().put(kMusl, 101).bytes());
  offsets.see(102, ControlBlock().put(kMusl, 0).bytes());
  EXPECT_EQ(offsets.offset(), int64_t{kMusl});
}

TEST(TidOffsets, AreNotWhereNoThreadHasItsTid) {
  TidOffsets offsets;
  offsets.see(101, ControlBlock().put(kMusl, 0).bytes());
  EXPECT_EQ(offsets.offset(), std::nullopt);
}

TEST(TidOffsets, AreUnknownWhereNoPlaceHoldsTheTidsOfAll) {
  TidOffsets offsets;
  offsets.see(101, ControlBlock().put(0x40, 101).bytes());
  offsets.see(102, ControlBlock().put(0x80, 102).bytes());
  EXPECT_EQ(offsets.offset(), std::nullopt);
}

TEST(TidOffsets, AreUnknownWhereAControlBlockCannotBeRead) {
  TidOffsets offsets;
  offsets.see(101, ControlBlock().put(kGlibc, 101).bytes());
  offsets.see(102, {});
  EXPECT_EQ(offsets.offset(), std::nullopt);
}

TEST(TidOffsets, AreUnknownBeforeAnyThreadWasSeen) {
  EXPECT_EQ(TidOffsets().offset(), std::nullopt);
}

}  // namespace
}  // namespace pinprick::engine
