// What is known of an object's functions and code, as values that depend on its file only: its
// functions (functions.h), and where its code may be entered. Shared, and immutable.
//
// object_store.h keeps them. Here is their format in a file of the cache: arrays as in memory, each
// after its length. A file may contain anything. A value that parses has the shape that decoding
// would give it: functions ascend and lie in code, names end where they should, and there are as
// many bits as the text has bytes. Whether it is the right value is decided by a checksum
// (object_store.h), not by parsing.
//
// Pure. A damaged file reads as missing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"
#include "image/functions.h"
#include "image/scan/branch_targets.h"

namespace pinprick::image {

// What decoding all text has found (code_scan.h).
struct ObjectCode {
  BranchTargets targets;
  std::vector<Range> reserved;  // restartable sequences, code that is known by its address
  // System calls that may start a child in the same memory (arch::find_vforks()).
  std::vector<Address> vforks;

  friend bool operator==(const ObjectCode&, const ObjectCode&) = default;
};

std::vector<uint8_t> to_bytes(const FunctionTable& functions);
std::vector<uint8_t> to_bytes(const ObjectCode& code);

// Return nullopt if the bytes are damaged, or do not fit these segments.
std::optional<FunctionTable> parse_functions(std::span<const uint8_t> bytes,
                                             std::span<const Segment> segments);
std::optional<ObjectCode> parse_code(std::span<const uint8_t> bytes,
                                     std::span<const Segment> segments);

}  // namespace pinprick::image
