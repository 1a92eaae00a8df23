#include "image/notes/point_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "image/object.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

const std::string kPrograms[] = {"tracepoints_pie", "tracepoints_nopie", "tracepoints_packed"};

// The addresses of the points, as nm has them, by their names in C.
std::map<std::string, Address> points_of_nm(const std::string& path) {
  std::map<std::string, Address> points;
  for (const std::string& line : lines_of(run_shell("nm '" + path + "'").output)) {
    const auto words = words_of(line);
    const std::string prefix = "pinprick_point_shop__";
    if (words.size() == 3 && words[2].starts_with(prefix) && (words[1] == "d" || words[1] == "D"))
      points[words[2].substr(prefix.size())] = hex(words[0]);
  }
  return points;
}

TEST(PointRecords, LeadToNopsBlocksAndPoints) {
  for (const std::string& name : kPrograms) {
    SCOPED_TRACE(name);
    const ElfFile file = open_program(program(name));
    const auto points = points_of_nm(program(name));
    ASSERT_EQ(points.size(), 3u);
    std::map<Address, int> sites;
    for (const PointRecord& record : point_records(file)) {
      const std::vector<uint8_t> nop = {0x0f, 0x1f, 0x44, 0x00, 0x00};
      EXPECT_EQ(file.read({record.nop, record.nop + 5}), nop);
      EXPECT_TRUE(file.in_executable_segment(record.block));
      ++sites[record.point];
    }
    EXPECT_EQ(sites[points.at("order")], 2);
    EXPECT_EQ(sites[points.at("mixed")], 1) << "the other site has no nop";
    EXPECT_EQ(sites[points.at("first")], 1);
    EXPECT_EQ(sites.size(), 3u);
  }
}

TEST(PointRecords, NamePointsWhateverRelocatesThem) {
  for (const std::string& name : kPrograms) {
    SCOPED_TRACE(name);
    const ElfFile file = open_program(program(name));
    std::vector<Address> points;
    for (const auto& [symbol, address] : points_of_nm(program(name))) points.push_back(address);
    std::sort(points.begin(), points.end());
    auto labels = point_labels(file, points, file.relocations());
    std::sort(labels.begin(), labels.end());
    EXPECT_EQ(labels, (std::vector<std::string>{"shop:first", "shop:mixed", "shop:order"}));
  }
}

TEST(PointRecords, TellWhoseHitsTheSitesOfSdtPointsHave) {
  for (const std::string& name : kPrograms) {
    SCOPED_TRACE(name);
    Object object(open_program(program(name)), 0, {name}, program(name), "/", {});
    const auto points = points_of_nm(program(name));
    size_t plain = 0;
    for (const SdtSite& site : object.sdt_sites()) {
      const Address point = points.at(std::string(site.name()));
      EXPECT_EQ(site.count(), point + kPointCount);
      EXPECT_EQ(site.point, site.semaphore == 0 ? point : 0);
      plain += site.semaphore == 0;
    }
    EXPECT_EQ(plain, 3u);
  }
}

// The block is entered from nops alone, of which no instruction in the file tells.
TEST(PointRecords, MakeBlocksBranchTargets) {
  for (const std::string& name : kPrograms) {
    Object object(open_program(program(name)), 0, {name}, program(name), "/", {});
    for (const PointRecord& record : object.point_records())
      EXPECT_TRUE(object.targets().contains(record.block)) << name;
  }
}

// libpinprick finds them by the program's headers, too, and makes jumps of the nops.
TEST(PointRecords, AreFoundWithoutSectionHeaders) {
  for (const std::string& name : kPrograms) {
    const auto bare =
        ElfFile::from_bytes(without_section_headers(read_bytes(program(name))), "bare");
    ASSERT_TRUE(bare);
    const auto records = point_records(*bare);
    EXPECT_FALSE(records.empty()) << name;
    EXPECT_EQ(records, point_records(open_program(program(name)))) << name;
  }
}

// A note as it is in the section.
std::vector<uint8_t> note(uint32_t type, std::array<int32_t, 3> distances) {
  std::vector<uint8_t> bytes(36);
  const uint32_t head[] = {9, 12, type};
  std::memcpy(bytes.data(), head, sizeof head);
  std::memcpy(bytes.data() + 12, "pinprick", 9);
  std::memcpy(bytes.data() + 24, distances.data(), sizeof distances);
  return bytes;
}

TEST(PointRecords, MeasureDistancesFromTheirOwnPlaces) {
  const auto one = note(1, {-0x100, 0x200, 0x3000});
  const std::vector<PointRecord> expected = {
      {0x8000 + 24 - 0x100, 0x8000 + 28 + 0x200, 0x8000 + 32 + 0x3000}};
  EXPECT_EQ(parse_point_records(one, 0x8000), expected);
}

TEST(PointRecords, MayFollowPadding) {
  std::vector<uint8_t> bytes(4);
  const auto one = note(1, {-0x100, 0x200, 0x3000});
  bytes.insert(bytes.end(), one.begin(), one.end());
  const auto records = parse_point_records(bytes, 0x10000);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].nop, 0x10000u + 4 + 24 - 0x100);
}

TEST(PointRecords, AreLeftOutIfTheyAreOfAnotherKindOrDamaged) {
  EXPECT_TRUE(parse_point_records(note(2, {1, 2, 3}), 0).empty());
  auto cut = note(1, {1, 2, 3});
  cut.pop_back();
  EXPECT_TRUE(parse_point_records(cut, 0).empty());
  auto owner = note(1, {1, 2, 3});
  owner[12] = 'P';
  EXPECT_TRUE(parse_point_records(owner, 0).empty());
  auto huge = note(1, {1, 2, 3});
  huge[4] = huge[5] = huge[6] = huge[7] = 0xff;
  EXPECT_TRUE(parse_point_records(huge, 0).empty());
}

}  // namespace
}  // namespace pinprick::image
