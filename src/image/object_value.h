// What is known of an object's functions and code, as values that depend on its file alone: its
// functions (functions.h), and where its code may be entered. Shared and never changed once made.
//
// `store` in object_store.h keeps them; here is what they look like in a file of the cache: arrays
// as they lie in memory, each after its length. A file may hold anything. What is parsed has the
// shape that decoding would have given it: functions ascend and lie in code, names end where they
// say, bits are as many as the text has bytes. Whether it is the right value is not for parsing to
// say: a checksum is (object_store.h).
//
// Pure. A damaged file reads as nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/branch_targets.h"
#include "image/elf_file.h"
#include "image/functions.h"

namespace pinprick::image {

// What decoding all text has brought to light (code_scan.h).
struct ObjectCode {
  BranchTargets targets;
  std::vector<Range> reserved;  // restartable sequences
  // System calls that may start a child in the same memory, by arch::find_vforks().
  std::vector<Address> vforks;

  friend bool operator==(const ObjectCode&, const ObjectCode&) = default;
};

std::vector<uint8_t> to_bytes(const FunctionTable& functions);
std::vector<uint8_t> to_bytes(const ObjectCode& code);

// Nothing: damaged, or not of these segments.
std::optional<FunctionTable> parse_functions(std::span<const uint8_t> bytes,
                                             std::span<const Segment> segments);
std::optional<ObjectCode> parse_code(std::span<const uint8_t> bytes,
                                     std::span<const Segment> segments);

}  // namespace pinprick::image
