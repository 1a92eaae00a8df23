// The table of the session file's header in docs/data.md.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "layout/session_file.h"

namespace pinprick::layout {
namespace {

TEST(DocumentedHeader, HasTheCompiledVersionAndSizeAndNoFieldAtAWrongPlace) {
  std::ifstream file(DATA_FORMATS);
  std::string line, all;
  uint64_t end = 0;
  bool is_in_table = false;
  while (std::getline(file, line)) {
    all += line + "\n";
    if (line.starts_with("| at | bytes | field of the header |")) is_in_table = true;
    if (line.empty()) is_in_table = false;
    unsigned long at = 0, count = 0, bytes = 0;
    if (!is_in_table) continue;
    if (std::sscanf(line.c_str(), "| %lu | %lu x %lu |", &at, &count, &bytes) == 3)
      bytes *= count;
    else if (std::sscanf(line.c_str(), "| %lu | %lu |", &at, &bytes) != 2)
      continue;
    // Fields follow each other, except for what aligns them.
    EXPECT_GE(at, end) << line;
    EXPECT_LT(at, end + 8) << line;
    end = at + bytes;
  }
  EXPECT_EQ(end, sizeof(FileHeader));
  const auto has = [&](const char* field, uint64_t value) {
    return all.find(std::string(field) + ": " + std::to_string(value) + " |") != std::string::npos;
  };
  EXPECT_TRUE(has("version", kFileVersion));
  EXPECT_TRUE(has("size of this header", sizeof(FileHeader)));
  const auto is_at = [&](const char* field, size_t offset) {
    const size_t found = all.find(field);
    if (found == std::string::npos) return false;
    const size_t row = all.rfind('\n', found) + 1;
    return std::strtoul(all.c_str() + row + 2, nullptr, 10) == offset;
  };
  EXPECT_TRUE(is_at("three descriptors, open", offsetof(FileHeader, handover_descriptors)));
  EXPECT_TRUE(is_at("sections: mappings", offsetof(FileHeader, mappings)));
  EXPECT_TRUE(is_at("offset of the pool; 0", offsetof(FileHeader, pool_offset)));
  EXPECT_TRUE(is_at("the hijack: address", offsetof(FileHeader, hijack)));
}

}  // namespace
}  // namespace pinprick::layout
