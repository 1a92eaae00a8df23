#include "image/maps.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "scratch.h"

namespace pinprick::image {
namespace {

Mapping one(std::string_view line) {
  const auto maps = parse_maps(line);
  EXPECT_EQ(maps.size(), 1u) << line;
  return maps.empty() ? Mapping() : maps[0];
}

TEST(ParseMaps, ReadsEveryFieldOfALine) {
  const Mapping mapping =
      one("7f5c3a028000-7f5c3a1bd000 r-xp 00028000 fe:01 1837305                    "
          "/usr/lib/x86_64-linux-gnu/libc.so.6\n");
  EXPECT_EQ(mapping.range, (Range{0x7f5c'3a02'8000, 0x7f5c'3a1b'd000}));
  EXPECT_TRUE(mapping.readable);
  EXPECT_FALSE(mapping.writable);
  EXPECT_TRUE(mapping.executable);
  EXPECT_FALSE(mapping.shared);
  EXPECT_FALSE(mapping.deleted);
  EXPECT_EQ(mapping.offset, 0x28000u);
  EXPECT_EQ(mapping.device, makedev(0xfe, 1));
  EXPECT_EQ(mapping.inode, 1837305u);
  EXPECT_EQ(mapping.path, "/usr/lib/x86_64-linux-gnu/libc.so.6");
}

TEST(ParseMaps, KnowsSharedWritableMappings) {
  const Mapping mapping = one("1000-2000 -w-s 00000000 00:0d 7 /dev/shm/x");
  EXPECT_FALSE(mapping.readable);
  EXPECT_TRUE(mapping.writable);
  EXPECT_FALSE(mapping.executable);
  EXPECT_TRUE(mapping.shared);
}

TEST(ParseMaps, AnAnonymousMappingHasNoPath) {
  const Mapping mapping = one("7ffff7fc5000-7ffff7fc9000 rw-p 00000000 00:00 0 \n");
  EXPECT_EQ(mapping.path, "");
  EXPECT_EQ(mapping.inode, 0u);
}

TEST(ParseMaps, KeepsTheNamesOfSpecialMappings) {
  for (const char* name :
       {"[stack]", "[heap]", "[vdso]", "[vsyscall]", "[anon:glibc: malloc]", "[uprobes]"})
    EXPECT_EQ(one("1000-2000 r--p 00000000 00:00 0    " + std::string(name) + "\n").path, name);
}

TEST(ParseMaps, ReadsTheHighestMapping) {
  const Mapping mapping =
      one("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n");
  EXPECT_EQ(mapping.range.end, 0xffff'ffff'ff60'1000);
}

TEST(ParseMaps, AFileThatWasUnlinkedIsDeleted) {
  const Mapping mapping = one("1000-2000 r-xp 00001000 08:01 42    /opt/app/bin (deleted)\n");
  EXPECT_TRUE(mapping.deleted);
  EXPECT_EQ(mapping.path, "/opt/app/bin");
  const Mapping memory_file = one("1000-2000 r-xp 00000000 00:01 42    /memfd:jit (deleted)\n");
  EXPECT_TRUE(memory_file.deleted);
  EXPECT_EQ(memory_file.path, "/memfd:jit");
  const Mapping shared_memory = one("1000-2000 rw-s 00000000 00:01 0    /SYSV00000000 (deleted)\n");
  EXPECT_TRUE(shared_memory.deleted) << "the identifier of System V shared memory may be 0";
}

TEST(ParseMaps, OnlyTheLastWordMeansDeleted) {
  const Mapping twice = one("1000-2000 r--p 0 08:01 42 /tmp/a (deleted) (deleted)\n");
  EXPECT_TRUE(twice.deleted);
  EXPECT_EQ(twice.path, "/tmp/a (deleted)");
  const Mapping inside = one("1000-2000 r--p 0 08:01 42 /tmp/a (deleted)/b\n");
  EXPECT_FALSE(inside.deleted);
  EXPECT_EQ(inside.path, "/tmp/a (deleted)/b");
}

TEST(ParseMaps, PathsMayContainBlanksAndNewlines) {
  EXPECT_EQ(one("1000-2000 r--p 0 08:01 42    /tmp/two  words \n").path, "/tmp/two  words ");
  EXPECT_EQ(one("1000-2000 r--p 0 08:01 42    /tmp/a\\012b\\012\n").path, "/tmp/a\nb\n");
  EXPECT_EQ(one("1000-2000 r--p 0 08:01 42    /tmp/a\\01\n").path, "/tmp/a\\01");
}

TEST(ParseMaps, SkipsLinesThatAreNotInTheKernelsFormat) {
  for (const char* line :
       {"", " ", "garbage", "1000-2000", "1000-2000 r-xp", "1000-2000 r-xp 0 08:01",
        "1000 2000 r-xp 0 08:01 42 /a", "xyz-2000 r-xp 0 08:01 42 /a",
        "1000-2000 rxp 0 08:01 42 /a", "1000-2000 r-xp zero 08:01 42 /a",
        "1000-2000 r-xp 0 0801 42 /a", "1000-2000 r-xp 0 08:01 4x2 /a",
        "-1000-2000 r-xp 0 08:01 42 /a", "0x1000-0x2000 r-xp 0 08:01 42 /a",
        "2000-1000 r-xp 0 08:01 42 /a", "1000-1000 r-xp 0 08:01 42 /a",
        "11112222333344445-2000 r-xp 0 08:01 42 /a"})
    EXPECT_TRUE(parse_maps(std::string(line) + "\n").empty()) << line;
}

TEST(ParseMaps, ReadsTheGoodLinesAmongBadOnes) {
  const auto maps = parse_maps(
      "1000-2000 r--p 0 08:01 42 /a\n"
      "\n"
      "nonsense\n"
      "3000-4000 r--p 0 08:01 42 /b");  // no newline at the end
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0].path, "/a");
  EXPECT_EQ(maps[1].path, "/b");
}

TEST(ReadMaps, FindsAFileThatIsMappedHereWithItsDeviceAndInode) {
  Scratch scratch;
  const std::string path = scratch / "with a blank\nand a newline";
  write_bytes(path, std::vector<uint8_t>(2 * kPageSize));
  auto fd = open_file(path, O_RDONLY);
  ASSERT_TRUE(fd);
  void* memory = ::mmap(nullptr, kPageSize, PROT_READ, MAP_PRIVATE, fd->get(), kPageSize);
  ASSERT_NE(memory, MAP_FAILED);
  const auto find = [&] {
    const auto maps = read_maps(::getpid());
    EXPECT_TRUE(maps);
    const auto found = std::find_if(maps->begin(), maps->end(), [&](const Mapping& mapping) {
      return mapping.range.begin == reinterpret_cast<Address>(memory);
    });
    EXPECT_NE(found, maps->end());
    return found == maps->end() ? Mapping() : *found;
  };
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  const Mapping mapping = find();
  EXPECT_EQ(mapping.path, path);
  EXPECT_EQ(mapping.offset, kPageSize);
  EXPECT_EQ(mapping.inode, status.st_ino);
  EXPECT_FALSE(mapping.deleted);
  ::unlink(path.c_str());
  const Mapping deleted = find();
  EXPECT_TRUE(deleted.deleted);
  EXPECT_EQ(deleted.path, path);
  ::munmap(memory, kPageSize);
}

TEST(OwnPages, AreThoseOfAPrivateMappingThatWereWrittenTo) {
  constexpr size_t kPages = 2000;  // more than are looked at in one piece
  Scratch scratch;
  const std::string path = scratch / "file";
  write_bytes(path, std::vector<uint8_t>(kPages * kPageSize, 1));
  auto fd = open_file(path, O_RDONLY);
  ASSERT_TRUE(fd);
  void* const memory =
      ::mmap(nullptr, kPages * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd->get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<volatile uint8_t*>(memory);
  const auto begin = reinterpret_cast<Address>(memory);
  const Range all = {begin, begin + kPages * kPageSize};
  for (size_t page = 0; page < kPages; page += 2) EXPECT_EQ(bytes[page * kPageSize], 1);
  ASSERT_TRUE(own_pages(::getpid(), all));
  EXPECT_TRUE(own_pages(::getpid(), all)->empty()) << "reading makes no copy";
  for (const size_t page : {size_t{7}, size_t{8}, kPages - 1}) bytes[page * kPageSize + 100] = 1;
  const auto own = own_pages(::getpid(), all);
  ASSERT_TRUE(own);
  const auto page_at = [&](size_t page) { return begin + page * kPageSize; };
  EXPECT_EQ(*own, (std::vector<Range>{{page_at(7), page_at(9)}, {page_at(kPages - 1), all.end}}));
  EXPECT_TRUE(own_pages(::getpid(), {page_at(9), page_at(kPages - 1)})->empty());
  EXPECT_EQ(own_pages(::getpid(), {page_at(8) + 1, page_at(8) + 2})->size(), 1u);
  ::munmap(memory, kPages * kPageSize);
  EXPECT_FALSE(own_pages(INT32_MAX, all)) << "not known";
}

TEST(ReadMaps, SaysWhyThereAreNone) {
  const auto maps = read_maps(INT32_MAX);
  ASSERT_FALSE(maps);
  EXPECT_EQ(maps.error().number, ENOENT);
}

std::vector<Mapping> mapped(std::initializer_list<Range> ranges) {
  std::vector<Mapping> maps;
  for (Range range : ranges) {
    Mapping mapping;
    mapping.range = range;
    maps.push_back(mapping);
  }
  return maps;
}

using Ranges = std::vector<Range>;

TEST(FreeRanges, LieBetweenMappings) {
  const auto maps = mapped({{0x2000, 0x3000}, {0x3000, 0x4000}, {0x8000, 0x9000}});
  EXPECT_EQ(free_ranges(maps, 0x1000, 0x10000),
            (Ranges{{0x1000, 0x2000}, {0x4000, 0x8000}, {0x9000, 0x10000}}));
}

TEST(FreeRanges, StayWithinTheirLimits) {
  const auto maps = mapped({{0x2000, 0x3000}, {0x8000, 0x9000}});
  EXPECT_EQ(free_ranges(maps, 0x3000, 0x8000), (Ranges{{0x3000, 0x8000}}));
  EXPECT_EQ(free_ranges(maps, 0x2800, 0x7000), (Ranges{{0x3000, 0x7000}}));
  EXPECT_EQ(free_ranges(maps, 0x5000, 0x6000), (Ranges{{0x5000, 0x6000}}));
  EXPECT_EQ(free_ranges(maps, 0x2000, 0x3000), (Ranges{}));
  EXPECT_EQ(free_ranges(maps, 0x8800, 0x8900), (Ranges{}));
  EXPECT_EQ(free_ranges(maps, 0xa000, 0xb000), (Ranges{{0xa000, 0xb000}}));
}

TEST(FreeRanges, CoverEverythingIfNothingIsMapped) {
  EXPECT_EQ(free_ranges({}, 0x1000, 0x2000), (Ranges{{0x1000, 0x2000}}));
  EXPECT_EQ(free_ranges({}, 0x1000, 0x1000), (Ranges{}));
}

TEST(FreeRanges, IgnoreTheVsyscallPageBeyondUserSpace) {
  const auto maps = mapped({{0x2000, 0x3000}, {0xffff'ffff'ff60'0000, 0xffff'ffff'ff60'1000}});
  EXPECT_EQ(free_ranges(maps, 0x1000, 0x7fff'ffff'f000),
            (Ranges{{0x1000, 0x2000}, {0x3000, 0x7fff'ffff'f000}}));
}

bool is_code_of_no_file(std::string_view line) {
  return is_anonymous_code(parse_maps(line).at(0));
}

TEST(AnonymousCode, IsExecutableMemoryWithoutAFile) {
  EXPECT_TRUE(is_code_of_no_file("10000-20000 rwxp 00000000 00:00 0 \n"));
  EXPECT_TRUE(is_code_of_no_file("10000-20000 r-xp 00000000 00:00 0 [anon:v8]\n"));
  EXPECT_TRUE(is_code_of_no_file("10000-20000 r-xs 00000000 00:01 77 /memfd:mapper (deleted)\n"));
  EXPECT_TRUE(is_code_of_no_file("10000-20000 rwxs 00000000 00:01 78 /dev/zero (deleted)\n"));
}

TEST(AnonymousCode, IsNeitherAProgramsNorTheKernelsNorData) {
  EXPECT_FALSE(is_code_of_no_file("10000-20000 r-xp 00000000 08:01 77 /usr/bin/true\n"));
  EXPECT_FALSE(is_code_of_no_file("10000-20000 r-xp 00000000 08:01 77 /tmp/gone.so (deleted)\n"));
  EXPECT_FALSE(is_code_of_no_file("10000-20000 r-xp 00000000 00:00 0 [vdso]\n"));
  EXPECT_FALSE(
      is_code_of_no_file("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"));
  EXPECT_FALSE(is_code_of_no_file("10000-20000 rw-p 00000000 00:00 0 [heap]\n"));
}

// Lines as the kernel writes them, of which some are left out.
TEST(DetailedMaps, TellOrdinaryMemoryFromThatOfDevicesKeysAndOthers) {
  const auto is_ordinary = [](const std::string& lines) {
    const auto maps = parse_detailed_maps(
        "7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \nSize:    8 kB\n" + lines);
    EXPECT_EQ(maps.size(), 1u);
    EXPECT_EQ(maps[0].mapping.range, (Range{0x7f0000000000, 0x7f0000002000}));
    return maps[0].is_ordinary;
  };
  EXPECT_TRUE(is_ordinary("VmFlags: rd wr mr mw me ac sd \n"));
  EXPECT_TRUE(is_ordinary("ProtectionKey:         0\nVmFlags: rd wr mr mw me gd ac \n"));
  EXPECT_FALSE(is_ordinary("ProtectionKey:         3\nVmFlags: rd wr mr mw me ac sd \n"));
  for (const char* flag : {"io", "pf", "ht", "um", "uw", "ui", "ss"})
    EXPECT_FALSE(is_ordinary(std::string("VmFlags: rd wr ") + flag + " sd \n")) << flag;
  EXPECT_FALSE(is_ordinary("")) << "nothing is known";
}

TEST(DetailedMaps, HaveTheFlagsOfTheirOwnMapping) {
  const auto maps = parse_detailed_maps(
      "1000-2000 rw-p 00000000 00:00 0 [heap]\nProtectionKey: 1\nVmFlags: rd wr\n"
      "2000-3000 r--p 00001000 08:01 7 /lib/some.so\nProtectionKey: 0\nVmFlags: rd\n"
      "3000-4000 rw-s 00000000 00:05 9 /dev/dri/card0\nProtectionKey: 0\nVmFlags: rd wr io\n");
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_FALSE(maps[0].is_ordinary);
  EXPECT_TRUE(maps[1].is_ordinary);
  EXPECT_EQ(maps[1].mapping.path, "/lib/some.so");
  EXPECT_FALSE(maps[2].is_ordinary);
}

}  // namespace
}  // namespace pinprick::image
