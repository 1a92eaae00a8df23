#include "base/build_id.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace pinprick {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes words(std::initializer_list<uint32_t> values) {
  Bytes bytes;
  for (const uint32_t value : values)
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
  return bytes;
}

const Bytes kGnu = {'G', 'N', 'U', 0};
const Bytes kAbiTag = joined({words({4, 4, NT_GNU_ABI_TAG}), kGnu, words({0})});

Bytes found_in(const Bytes& notes) {
  const auto id = build_id_in(notes);
  return {id.begin(), id.end()};
}

TEST(BuildId, IsTheDescriptionOfItsNoteWhateverNotesComeBefore) {
  const Bytes note = joined({words({4, 3, NT_GNU_BUILD_ID}), kGnu, {1, 2, 3, 0}});
  EXPECT_EQ(found_in(note), (Bytes{1, 2, 3}));
  EXPECT_EQ(found_in(joined({kAbiTag, note})), (Bytes{1, 2, 3}));
  EXPECT_EQ(found_in(joined({note, kAbiTag})), (Bytes{1, 2, 3}));
}

TEST(BuildId, IsNotTheNoteOfAnotherOwnerOrType) {
  EXPECT_EQ(found_in({}), Bytes{});
  EXPECT_EQ(found_in(kAbiTag), Bytes{});
  EXPECT_EQ(found_in(joined({words({4, 4, NT_GNU_BUILD_ID}), {'G', 'o', 0, 0}, words({1})})),
            Bytes{});
  EXPECT_EQ(found_in(joined({words({0, 4, NT_GNU_BUILD_ID}), words({1})})), Bytes{});
}

TEST(BuildId, OfANoteThatEndsTooEarlyThereIsNone) {
  const Bytes note = joined({words({4, 20, NT_GNU_BUILD_ID}), kGnu, Bytes(20, 7)});
  ASSERT_EQ(found_in(note), Bytes(20, 7));
  for (size_t size = 0; size < note.size(); ++size)
    EXPECT_EQ(found_in({note.begin(), note.begin() + static_cast<ptrdiff_t>(size)}), Bytes{})
        << size;
  EXPECT_EQ(found_in(joined({words({4, UINT32_MAX, NT_GNU_BUILD_ID}), kGnu, Bytes(20, 7)})),
            Bytes{});
  EXPECT_EQ(found_in(joined({words({UINT32_MAX, 4, NT_GNU_BUILD_ID}), kGnu, Bytes(20, 7)})),
            Bytes{});
}

// binutils reads the same file.
TEST(BuildId, OfThisProgramIsWhatReadelfFindsInItsFile) {
  const std::string command = "readelf -n /proc/" + std::to_string(::getpid()) +
                              "/exe 2>/dev/null | sed -n 's/^ *Build ID: //p'";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             &::pclose);
  ASSERT_NE(pipe, nullptr);
  std::string line(200, '\0');
  if (std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) == nullptr) line.clear();
  EXPECT_EQ(own_build_id(), line.substr(0, std::min(line.find('\n'), line.size())));
}

}  // namespace
}  // namespace pinprick
