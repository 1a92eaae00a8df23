#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace pinprick {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(ByteReader, ReadsLittleEndianNumbersOneAfterTheOther) {
  const Bytes bytes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                       0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u8(), 0x01);
  EXPECT_EQ(reader.u16(), 0x0302);
  EXPECT_EQ(reader.u32(), 0x0706'0504u);
  EXPECT_EQ(reader.u64(), 0x0f0e'0d0c'0b0a'0908u);
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_TRUE(reader.ok());
}

TEST(ByteReader, AReadPastTheEndReturnsZeroAndTheFailureSticks) {
  const Bytes bytes = {0xff, 0xff, 0xff};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0) << "there are bytes left, but the reader has lost its position";
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, StartsAtTheGivenPosition) {
  const Bytes bytes = {1, 2, 3};
  EXPECT_EQ(ByteReader(bytes, 2).u8(), 3);
  EXPECT_TRUE(ByteReader(bytes, 3).ok());
  EXPECT_EQ(ByteReader(bytes, 3).remaining(), 0u);
  EXPECT_FALSE(ByteReader(bytes, 4).ok());
  EXPECT_FALSE(ByteReader(bytes, SIZE_MAX).ok());
}

struct Leb {
  Bytes bytes;
  uint64_t as_unsigned;
  int64_t as_signed;
};

// The first eight are the examples of the DWARF standard (7.6, tables 7.7 and 7.8).
const Leb kLebs[] = {
    {{0x02}, 2, 2},
    {{0x7f}, 127, -1},
    {{0x80, 0x01}, 128, 128},
    {{0x81, 0x01}, 129, 129},
    {{0xb9, 0x64}, 12857, -3527},
    {{0x7e}, 126, -2},
    {{0xff, 0x00}, 127, 127},
    {{0x80, 0x7f}, 16256, -128},
    {{0x80, 0x80, 0x80, 0x00}, 0, 0},
    {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, UINT64_MAX, -1},
    {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}, uint64_t{1} << 63, INT64_MIN},
    {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00}, INT64_MAX, INT64_MAX},
};

TEST(ByteReader, ReadsVariableLengthNumbersOfBothSigns) {
  for (const Leb& leb : kLebs) {
    ByteReader u(leb.bytes);
    EXPECT_EQ(u.uleb(), leb.as_unsigned) << testing::PrintToString(leb.bytes);
    EXPECT_TRUE(u.ok());
    EXPECT_EQ(u.remaining(), 0u);
    ByteReader s(leb.bytes);
    EXPECT_EQ(s.sleb(), leb.as_signed) << testing::PrintToString(leb.bytes);
    EXPECT_TRUE(s.ok());
    EXPECT_EQ(s.remaining(), 0u);
  }
}

TEST(ByteReader, DropsBitsBeyondTheSixtyFourthOfAVariableLengthNumber) {
  Bytes bytes(30, 0xff);
  bytes.push_back(0x7f);
  bytes.push_back(0x2a);
  ByteReader u(bytes);
  EXPECT_EQ(u.uleb(), UINT64_MAX);
  EXPECT_EQ(u.u8(), 0x2a);
  ByteReader s(bytes);
  EXPECT_EQ(s.sleb(), -1);
  EXPECT_EQ(s.u8(), 0x2a);
}

TEST(ByteReader, AVariableLengthNumberWithoutAnEndIsAFailure) {
  const Bytes bytes = {0x80, 0x80, 0xff};
  ByteReader u(bytes);
  EXPECT_EQ(u.uleb(), 0u);
  EXPECT_FALSE(u.ok());
  ByteReader s(bytes);
  EXPECT_EQ(s.sleb(), 0);
  EXPECT_FALSE(s.ok());
}

TEST(ByteReader, AStringEndsAtItsNulOrIsAFailure) {
  const Bytes bytes = {'G', 'N', 'U', 0, 0, 'x'};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.c_string(), "GNU");
  EXPECT_EQ(reader.c_string(), "");
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.c_string(), "");
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, SkipsNoFurtherThanTheEnd) {
  const Bytes bytes = {1, 2, 3, 4};
  ByteReader reader(bytes);
  reader.skip(3);
  EXPECT_EQ(reader.position(), 3u);
  reader.skip(1);
  EXPECT_TRUE(reader.ok());
  reader.skip(0);
  EXPECT_TRUE(reader.ok());
  reader.skip(1);
  EXPECT_FALSE(reader.ok());
  ByteReader far(bytes);
  far.skip(UINT64_MAX);
  EXPECT_FALSE(far.ok());
}

TEST(ByteReader, APartReadsOnlyItsOwnBytesAndTheWholeContinuesAfterIt) {
  const Bytes bytes = {1, 2, 3, 4};
  ByteReader reader(bytes);
  reader.u8();
  ByteReader part = reader.sub(2);
  EXPECT_EQ(part.u8(), 2);
  EXPECT_EQ(part.u8(), 3);
  EXPECT_EQ(part.u8(), 0);
  EXPECT_FALSE(part.ok());
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.u8(), 4);
}

TEST(ByteReader, APartThatIsTooLargeFailsTheWhole) {
  const Bytes bytes = {1, 2};
  ByteReader reader(bytes);
  ByteReader part = reader.sub(3);
  EXPECT_EQ(part.remaining(), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, NothingCanBeReadFromNothing) {
  ByteReader reader({});
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_EQ(reader.u8(), 0);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace pinprick
