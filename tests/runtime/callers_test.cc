// The table of code from which calls are timed, read as slots.S reads it.
#include "runtime/callers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "layout/runtime_offsets.h"

namespace pinprick::runtime {
namespace {

// The target's memory with the table, which is written piece by piece.
class Memory {
 public:
  Memory(Address begin, uint64_t size) : begin_(begin), bytes_(size) {}

  void write(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) write(piece);
  }
  void write(const Piece& piece) {
    ASSERT_LE(piece.address - begin_ + piece.bytes.size(), bytes_.size());
    std::memcpy(bytes_.data() + (piece.address - begin_), piece.bytes.data(), piece.bytes.size());
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  void set_entry(uint64_t offset, uint32_t entry) {
    std::memcpy(bytes_.data() + offset, &entry, sizeof entry);
  }
  bool knows(Address caller) const {
    const auto second = entry(PP_CALLERS_FIRST, caller >> 40 & 0xffff);
    const auto map = entry(second, caller >> 24 & 0xffff);
    return bytes_.at(map + (caller >> 8 & 0xffff)) != 0;
  }

 private:
  uint32_t entry(uint64_t table, uint64_t index) const {
    uint32_t offset = 0;
    EXPECT_LE(table + index * 4 + 4, bytes_.size());
    std::memcpy(&offset, bytes_.data() + table + index * 4, sizeof offset);
    return offset;
  }

  Address begin_;
  std::vector<uint8_t> bytes_;
};

constexpr Address kBegin = 0x7f0000000000;
constexpr Range kProgram = {0x555555556000, 0x555555559000};
constexpr Range kLibrary = {0x7ffff7c26000, 0x7ffff7d7b000};

bool contains(const std::vector<Range>& ranges, Address address) {
  for (Range range : ranges)
    if (range.contains(address)) return true;
  return false;
}

class Callers : public ::testing::Test {
 protected:
  Callers() : size(CallerTable::size_for(std::vector{kProgram, kLibrary})), memory(kBegin, size) {}
  uint64_t size;
  CallerTable table = CallerTable(kBegin, size);
  Memory memory;
};

TEST_F(Callers, AreNoneAtFirst) {
  EXPECT_TRUE(table.update({}).empty());
  for (Address address :
       {Address{0}, Address{0x401000}, kProgram.begin, kLibrary.begin, ~Address{0}})
    EXPECT_FALSE(memory.knows(address)) << address;
}

TEST_F(Callers, AreExactToTheByte) {
  memory.write(table.update(std::vector{kProgram, kLibrary}));
  for (Range range : {kProgram, kLibrary}) {
    EXPECT_FALSE(memory.knows(range.begin - 1));
    EXPECT_TRUE(memory.knows(range.begin));
    EXPECT_TRUE(memory.knows(range.end - 1));
    EXPECT_FALSE(memory.knows(range.end));
  }
}

TEST_F(Callers, MayLieAnywhereInTheAddressSpace) {
  const std::vector<Range> code = {
      {0x1000, 0x2000},
      {0xffff000, 0x10001000},                         // over the end of one map
      {0xffffffff000, 0x100000001000},                 // over the end of a second table
      {0x00ff'ffff'ffff'e000, 0x00ff'ffff'ffff'f000},  // the last that five levels of pages have
  };
  const uint64_t room = CallerTable::size_for(code);
  CallerTable all(kBegin, room);
  Memory there(kBegin, room);
  there.write(all.update(code));
  for (Range range : code)
    for (Address address = range.begin - 256; address != range.end + 256; address += 256)
      EXPECT_EQ(there.knows(address), range.contains(address)) << std::hex << address;
}

TEST_F(Callers, CanBeReplaced) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Range> code;
    for (uint64_t i = random() % 6; i != 0; --i) {
      const Address begin = kLibrary.begin + random() % 64 * kPageSize;
      code.push_back({begin, begin + (1 + random() % 8) * kPageSize});
    }
    memory.write(table.update(code));
    for (uint64_t page = 0; page < 80; ++page) {
      const Address address = kLibrary.begin + page * kPageSize;
      ASSERT_EQ(memory.knows(address), contains(code, address)) << round;
    }
  }
}

TEST_F(Callers, AreEitherKnownOrUnknownWhileTheTableIsWritten) {
  memory.write(table.update(std::vector{kProgram}));
  for (const Piece& piece : table.update(std::vector{kProgram, kLibrary})) {
    // Entries are written one byte at a time, in any order, as no more is guaranteed.
    for (size_t i = 0; i < piece.bytes.size(); ++i) {
      memory.write(Piece{piece.address + i, {piece.bytes[i]}});
      ASSERT_TRUE(memory.knows(kProgram.begin));
      ASSERT_FALSE(memory.knows(kLibrary.end));
      if (i > 8) break;
    }
    memory.write(piece);
  }
  EXPECT_TRUE(memory.knows(kLibrary.begin));
}

TEST_F(Callers, AreUnknownIfThereIsNoRoomForThem) {
  std::vector<Range> code = {kProgram};
  for (uint64_t i = 0; i < 1000; ++i) {
    const Address begin = 0x100000000000 + i * (uint64_t{1} << 25);
    code.push_back({begin, begin + kPageSize});
  }
  memory.write(table.update(code));
  EXPECT_TRUE(memory.knows(kProgram.begin) || memory.knows(code.back().begin) ||
              memory.knows(code[1].begin));
  for (Range range : code) EXPECT_FALSE(memory.knows(range.end));
  // The code that is there can be removed again.
  memory.write(table.update(std::vector{kLibrary}));
  for (Range range : code) EXPECT_FALSE(memory.knows(range.begin));
}

TEST_F(Callers, CanBeReplacedByAnotherController) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    auto read = CallerTable::read(kBegin, memory.bytes());
    ASSERT_TRUE(read);
    std::vector<Range> code;
    for (uint64_t i = random() % 6; i != 0; --i) {
      const Address begin =
          (random() % 2 == 0 ? kProgram : kLibrary).begin + random() % 64 * kPageSize;
      code.push_back({begin, begin + (1 + random() % 8) * kPageSize});
    }
    memory.write(read->update(code));
    for (const Range all : {kProgram, kLibrary})
      for (uint64_t page = 0; page < 80; ++page) {
        const Address address = all.begin + page * kPageSize;
        ASSERT_EQ(memory.knows(address), contains(code, address)) << round;
      }
  }
}

TEST_F(Callers, ThatADyingControllerDidNotLinkAreUnknownToTheNext) {
  memory.write(table.update(std::vector{kProgram}));
  const auto pieces = table.update(std::vector{kProgram, kLibrary});
  memory.write(pieces.front());  // bytes of a map, and no entry that leads there
  auto read = CallerTable::read(kBegin, memory.bytes());
  ASSERT_TRUE(read);
  const Range elsewhere = {kLibrary.begin + (uint64_t{1} << 30),
                           kLibrary.begin + (uint64_t{1} << 30) + kPageSize};
  memory.write(read->update(std::vector{kProgram, elsewhere}));
  EXPECT_TRUE(memory.knows(elsewhere.begin));
  for (Address page = kLibrary.begin; page < kLibrary.end; page += kPageSize)
    EXPECT_FALSE(memory.knows(page + (uint64_t{1} << 30)) && page != kLibrary.begin);
  EXPECT_TRUE(memory.knows(kProgram.begin));
}

TEST_F(Callers, AreNotReadFromATableThatLeadsOutOfItself) {
  memory.write(table.update(std::vector{kProgram, kLibrary}));
  const uint64_t second = PP_CALLERS_FIRST + (kLibrary.begin >> 40) * 4;
  uint32_t right = 0;
  std::memcpy(&right, memory.bytes().data() + second, sizeof right);
  ASSERT_NE(right, 0u);
  const uint64_t other = PP_CALLERS_FIRST + (kProgram.begin >> 40) * 4;
  uint32_t of_program = 0;
  std::memcpy(&of_program, memory.bytes().data() + other, sizeof of_program);
  for (const uint32_t wrong : {uint32_t{4}, right + 1, static_cast<uint32_t>(size), UINT32_MAX,
                               uint32_t{64 << 10}, of_program}) {
    memory.set_entry(second, wrong);
    EXPECT_FALSE(CallerTable::read(kBegin, memory.bytes())) << wrong;
  }
  memory.set_entry(second, right);
  EXPECT_TRUE(CallerTable::read(kBegin, memory.bytes()));
  EXPECT_FALSE(CallerTable::read(kBegin, std::span(memory.bytes()).first(1 << 16)));
}

}  // namespace
}  // namespace pinprick::runtime
