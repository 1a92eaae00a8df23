// The objects that programs.cmake makes, and what binutils print about objects.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"
#include "scratch.h"

namespace pinprick::image {

inline std::string program(const std::string& name) {
  return IMAGE_PROGRAMS + name;
}

inline ElfFile open_program(const std::string& path) {
  auto file = ElfFile::open(path);
  EXPECT_TRUE(file) << path << ": cause " << static_cast<int>(file.error().cause);
  return *std::move(file);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

inline uint64_t hex(const std::string& digits) {
  return std::stoull(digits, nullptr, 16);
}

struct NmSymbol {
  std::string name;
  char type = '?';  // as in nm(1)
  Address address = 0;
  uint64_t size = 0;
};

// Defined symbols according to nm. `options`: -D for the dynamic ones.
inline std::vector<NmSymbol> nm(const std::string& path, const std::string& options = "") {
  std::vector<NmSymbol> symbols;
  const auto result =
      run_shell("nm -P --defined-only --without-symbol-versions " + options + " '" + path + "'");
  EXPECT_EQ(result.status, 0) << path;
  for (const std::string& line : lines_of(result.output)) {
    const auto words = words_of(line);
    if (words.size() < 3) continue;
    symbols.push_back({words[0], words[1][0], hex(words[2]), words.size() > 3 ? hex(words[3]) : 0});
  }
  return symbols;
}

inline std::optional<Address> address_of(const std::string& path, const std::string& name) {
  for (const NmSymbol& symbol : nm(path))
    if (symbol.name == name) return symbol.address;
  return std::nullopt;
}

// A section according to readelf.
struct Section {
  std::string type;
  Range range;
  uint64_t offset = 0;
};

inline std::map<std::string, Section> sections(const std::string& path) {
  std::map<std::string, Section> found;
  for (std::string line : lines_of(run_shell("readelf -SW '" + path + "'").output)) {
    const size_t bracket = line.find(']');
    if (bracket == line.npos) continue;
    const auto words = words_of(line.substr(bracket + 1));
    if (words.size() < 6 || words[0] == "Name" || words[0] == "NULL") continue;
    const Address address = hex(words[2]);
    found[words[0]] = {words[1], {address, address + hex(words[4])}, hex(words[3])};
  }
  EXPECT_FALSE(found.empty()) << path;
  return found;
}

// A copy without section headers, which an image in memory does not have.
inline std::vector<uint8_t> without_section_headers(std::vector<uint8_t> bytes) {
  for (size_t at : {0x28, 0x3c}) bytes.at(at) = 0;  // e_shoff, e_shnum; see elf(5)
  std::fill_n(bytes.begin() + 0x28, 8, uint8_t{0});
  std::fill_n(bytes.begin() + 0x3a, 6, uint8_t{0});  // e_shentsize, e_shnum, e_shstrndx
  return bytes;
}

}  // namespace pinprick::image
