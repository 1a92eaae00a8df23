// What the table decodes equals what the full decoder decodes, and is displaceable.
#include "arch/x86_64/decode_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <sstream>

#include "arch/relocate.h"
#include "bytes.h"
#include "image/process.h"
#include "library_path.h"

namespace pinprick::arch {
namespace {

constexpr Address kAddress = 0x7f12'3456'7890;

std::string description(std::span<const uint8_t> bytes, const std::optional<Instruction>& found) {
  std::ostringstream text;
  text << std::hex;
  for (uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), kMaxInstructionLength)))
    text << int{byte} << " ";
  if (!found) return text.str() + ": nothing";
  text << ": length " << int{found->length} << " flow " << static_cast<int>(found->flow)
       << " special " << static_cast<int>(found->special) << " memory " << found->has_memory_operand
       << found->has_rip_operand << " displacement " << int{found->displacement_size} << ":"
       << found->displacement << " immediate " << int{found->immediate_size} << ":"
       << found->immediate << " target " << found->target;
  return text.str();
}

// Returns whether the table has it.
bool agrees(std::span<const uint8_t> bytes, Address address, bool& known) {
  const auto found = decode_by_table(bytes, address);
  known = found.has_value();
  if (!known) return true;
  const auto expected = decode_without_table(bytes, address);
  EXPECT_EQ(found, expected) << description(bytes, found) << "\n" << description(bytes, expected);
  if (found != expected) return false;
  const auto moves = displaceable_without_table(bytes, *found);
  EXPECT_EQ(displaceable(bytes, *found), moves) << description(bytes, found);
  return displaceable(bytes, *found) == moves;
}

class Libraries : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(DecodeTable, Libraries,
                         testing::Values("libc.so.6", "libstdc++.so.6", "libm.so.6"),
                         [](const auto& library) {
                           std::string name = library.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

// At every byte, not only at boundaries: data is decoded, too.
TEST_P(Libraries, AreDecodedLikeByTheFullDecoderAtEveryByte) {
  const auto process = image::load_file(library_path(GetParam()));
  ASSERT_TRUE(process);
  image::Object& object = *process->objects[0];
  uint64_t instructions = 0, in_table = 0;
  int failures = 0;
  for (const image::Function& function : object.functions().functions()) {
    const auto code = object.code(function);
    Address boundary = function.range.begin;
    for (size_t i = 0; i < code.size() && failures < 10; ++i) {
      const Address at = function.range.begin + i;
      const auto bytes = std::span(code).subspan(i);
      bool known = false;
      failures += !agrees(bytes, at, known);
      if (at != boundary) continue;
      const auto instruction = decode_without_table(bytes, at);
      boundary = instruction ? instruction->end() : at + 1;
      ++instructions;
      in_table += known;
    }
  }
  EXPECT_GT(instructions, 10'000u) << "these are hardly all";
  RecordProperty("percent_in_table", static_cast<int>(100 * in_table / instructions));
}

// Its purpose: it covers nearly all ordinary code.
TEST(DecodeTable, KnowsNineOfTenInstructionsOfAProgram) {
  const auto process = image::load_file("/proc/self/exe");
  ASSERT_TRUE(process);
  image::Object& object = *process->objects[0];
  uint64_t instructions = 0, in_table = 0;
  for (const image::Function& function : object.functions().functions()) {
    const auto code = object.code(function);
    auto rest = std::span(code).first(std::min<size_t>(code.size(), function.range.size()));
    for (Address at = function.range.begin; !rest.empty(); ++instructions) {
      const auto instruction = decode(rest, at);
      if (!instruction) break;
      in_table += decode_by_table(rest, at).has_value();
      at = instruction->end();
      rest = rest.subspan(instruction->length);
    }
  }
  EXPECT_GT(instructions, 10'000u);
  EXPECT_GT(in_table, instructions * 9 / 10);
}

TEST(DecodeTable, AgreesOnRandomBytesAfterEveryOpcodeAndPrefix) {
  std::mt19937_64 random(1);
  const std::array<Bytes, 10> prefixes = {Bytes{},           Bytes{0x66},       Bytes{0x48},
                                          Bytes{0x41},       Bytes{0x66, 0x48}, Bytes{0x66, 0x44},
                                          Bytes{0x48, 0x66}, Bytes{0x40, 0x48}, Bytes{0x66, 0x66},
                                          Bytes{0xf3, 0x48}};
  int failures = 0;
  uint64_t known_count = 0;
  for (const Bytes& prefix : prefixes)
    for (unsigned opcode = 0; opcode < 512; ++opcode)
      for (unsigned modrm = 0; modrm < 256 && failures < 20; ++modrm)
        for (int round = 0; round < 4; ++round) {
          Bytes bytes = prefix;
          if (opcode >= 256) bytes.push_back(0x0f);
          bytes.push_back(static_cast<uint8_t>(opcode));
          bytes.push_back(static_cast<uint8_t>(modrm));
          for (int i = 0; i < 13; ++i) bytes.push_back(static_cast<uint8_t>(random()));
          bool known = false;
          failures += !agrees(bytes, kAddress, known);
          known_count += known;
          if (!known) continue;
          // A shorter prefix of it is not an instruction.
          const auto whole = decode_by_table(bytes, kAddress);
          const auto cut = std::span(bytes).first(whole->length - 1u);
          EXPECT_EQ(decode_by_table(cut, kAddress), std::nullopt) << description(cut, whole);
        }
  EXPECT_GT(known_count, 1'000'000u);
}

TEST(DecodeTable, NoBytesAreNoInstruction) {
  EXPECT_EQ(decode_by_table({}, kAddress), std::nullopt);
}

}  // namespace
}  // namespace pinprick::arch
