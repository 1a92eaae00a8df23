#include "image/moved_text.h"

#include <gtest/gtest.h>

namespace pinprick::image {
namespace {

std::vector<Range> moved_in(const char* maps) {
  return moved_text(parse_maps(maps));
}

TEST(MovedText, IsExecutableMemoryWithoutAFileThatFillsTheSpaceBetweenMappingsOfOneFile) {
  EXPECT_EQ(moved_in("1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                     "2000-5000 r-xp 00000000 00:00 0 \n"
                     "5000-6000 r--p 00004000 fe:00 7   /bin/p\n"),
            (std::vector<Range>{{0x2000, 0x5000}}));
}

TEST(MovedText, MayBeSeveralMappingsSideBySide) {
  EXPECT_EQ(moved_in("1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                     "2000-3000 r-xp 00000000 00:00 0 \n"
                     "3000-4000 r-xs 00000000 00:01 9   /memfd:text (deleted)\n"
                     "4000-5000 rw-p 00004000 fe:00 7   /bin/p\n"),
            (std::vector<Range>{{0x2000, 0x4000}}));
}

TEST(MovedText, IsNotCodeThatAGeneratorHasPutNextToAFile) {
  // A gap before it, after it, another file after it, none before it, and the last mapping.
  for (const char* maps : {"1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "3000-5000 r-xp 00000000 00:00 0 \n"
                           "5000-6000 r--p 00004000 fe:00 7   /bin/p\n",
                           "1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "2000-4000 r-xp 00000000 00:00 0 \n"
                           "5000-6000 r--p 00004000 fe:00 7   /bin/p\n",
                           "1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "2000-5000 r-xp 00000000 00:00 0 \n"
                           "5000-6000 r--p 00004000 fe:00 8   /bin/q\n",
                           "2000-5000 r-xp 00000000 00:00 0 \n"
                           "5000-6000 r--p 00004000 fe:00 7   /bin/p\n",
                           "1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "2000-5000 r-xp 00000000 00:00 0 \n"})
    EXPECT_TRUE(moved_in(maps).empty()) << maps;
}

TEST(MovedText, IsNeitherTheKernelsCodeNorDataNorTheFilesOwnText) {
  for (const char* maps : {"1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "2000-5000 r-xp 00000000 00:00 0   [vdso]\n"
                           "5000-6000 r--p 00004000 fe:00 7   /bin/p\n",
                           "1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "2000-5000 rw-p 00000000 00:00 0 \n"
                           "5000-6000 r--p 00004000 fe:00 7   /bin/p\n",
                           "1000-2000 r--p 00000000 fe:00 7   /bin/p\n"
                           "2000-5000 r-xp 00001000 fe:00 7   /bin/p\n"
                           "5000-6000 r--p 00004000 fe:00 7   /bin/p\n"})
    EXPECT_TRUE(moved_in(maps).empty()) << maps;
}

TEST(MovedText, IsOnlyLookedForWhereExecutableMemoryHasNoFile) {
  EXPECT_FALSE(
      may_have_moved_text(parse_maps("1000-2000 r-xp 00000000 fe:00 7   /bin/p\n"
                                     "3000-4000 rw-p 00000000 00:00 0 \n"
                                     "5000-6000 r-xp 00000000 00:00 0   [vdso]\n")));
  EXPECT_TRUE(may_have_moved_text(parse_maps("1000-2000 r-xp 00000000 00:00 0 \n")));
}

TEST(BiasBy, IsWhereTheSegmentsPagesWouldStart) {
  const Segment segment = {{0x2340, 0x5000}, 0x1340, 0x2cc0, true, false, true};
  Mapping mapping;
  mapping.range = {0x7000'2000, 0x7000'5000};
  mapping.offset = 0x1000;
  EXPECT_EQ(bias_by(mapping, segment), 0x7000'0000);
  // The second page of the segment.
  mapping.offset = 0x2000;
  EXPECT_EQ(bias_by(mapping, segment), 0x6fff'f000);
  mapping.offset = 0;
  EXPECT_EQ(bias_by(mapping, segment), std::nullopt);
  mapping.offset = 0x4000;
  EXPECT_EQ(bias_by(mapping, segment), std::nullopt);
}

}  // namespace
}  // namespace pinprick::image
