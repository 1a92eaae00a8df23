// BranchTargets: the set of addresses in an object's text at which execution may arrive other than
// by falling through. code_scan.h fills it. It also knows the functions with unresolved indirect
// control flow, about whose inside nothing is known.
//
// Copies are cheap: they share the addresses until one of them is changed, which then gets its own.
// with() makes a copy with more addresses. Thread-safe for readers; add() and add_callee() may also
// run on several threads, but not while other threads read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"

namespace pinprick::image {

class BranchTargets {
 public:
  explicit BranchTargets(const std::vector<Range>& text);

  // Adds an address; ignores those outside the text.
  void add(Address address);
  bool contains(Address address) const { return any_in(address, address + 1); }
  // Returns whether the address is in the text.
  bool covers(Address address) const;
  // Returns whether any address in [begin, end) is in the set.
  bool any_in(Address begin, Address end) const;

  // Callees: the addresses that are called, or that a pointer to a function holds. An address that
  // is only jumped to may be a part of another function, with its data below rsp.
  void add_callee(Address address);
  bool is_callee(Address address) const;

  void mark_unresolved_jump(Address function_start);
  bool has_unresolved_jump(Address function_start) const {
    return facts_->unresolved.contains(function_start) || more_unresolved_.contains(function_start);
  }
  // Marks the function if anything leads into `inside`, including the addresses that with() adds.
  void mark_unresolved_jump_if_entered(Address function_start, Range inside);

  // Returns a copy with these addresses, which a process holds, added. They do not count as
  // callees.
  BranchTargets with(std::span<const Address> more) const;

  // Appends it as in a file of the cache (object_value.h).
  void append_to(std::vector<uint8_t>& bytes) const;
  // Returns nullopt if the bytes are damaged, or are of other text.
  static std::optional<BranchTargets> parse(ByteReader& reader, const std::vector<Range>& text);

  friend bool operator==(const BranchTargets& a, const BranchTargets& b);

 private:
  struct Chunk {
    Range range;
    std::vector<uint64_t> targets;  // one bit per byte of text
    std::vector<uint64_t> callees;
    friend bool operator==(const Chunk&, const Chunk&) = default;
  };
  struct StraightCode {
    Address function_start = 0;
    Range inside;
    friend bool operator==(const StraightCode&, const StraightCode&) = default;
  };
  struct Facts {
    std::vector<Chunk> chunks;
    std::unordered_set<Address> unresolved;
    std::vector<StraightCode> straight;
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  static void set(std::vector<uint64_t>& bits, uint64_t at);
  // Returns facts that no copy shares.
  Facts& own();
  std::shared_ptr<Facts> facts_;
  std::vector<Address> more_;  // sorted
  std::unordered_set<Address> more_unresolved_;
};

}  // namespace pinprick::image
