// A set of addresses in an object's text: where execution may arrive other than by falling through.
//
// code_scan.h fills it. Functions about whose inside nothing can be said are `unresolved`.
//
// Copies share what was added, which is cheap, until one of them is added to: then that one gets
// its own. with() makes a copy that holds more.
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

  // Addresses outside of `text` are ignored. By any number of threads at once, as long as nobody
  // asks meanwhile.
  void add(Address address);
  bool contains(Address address) const { return any_in(address, address + 1); }
  // Does the address lie in the text?
  bool covers(Address address) const;
  // Does anything lead into [begin, end)?
  bool any_in(Address begin, Address end) const;

  // Of the addresses: those that are called, or to which somebody holds a pointer, as to a
  // function. What is only jumped to may be the rest of another function, with data below rsp that
  // it needs.
  void add_callee(Address address);
  bool is_callee(Address address) const;

  void mark_unresolved(Address function_begin);
  bool is_unresolved(Address function_begin) const {
    return facts_->unresolved.contains(function_begin) || more_unresolved_.contains(function_begin);
  }
  // The function is unresolved if anything leads into `inside`, be it what with() adds.
  void mark_unresolved_if_entered(Address function_begin, Range inside);

  // A copy with these as well. Of addresses that a process holds; that somebody calls them is not
  // said.
  BranchTargets with(std::span<const Address> more) const;

  // As in a file of the cache (object_value.h).
  void append_to(std::vector<uint8_t>& bytes) const;
  // Nothing: damaged, or of other text.
  static std::optional<BranchTargets> parse(ByteReader& reader, const std::vector<Range>& text);

  friend bool operator==(const BranchTargets& a, const BranchTargets& b);

 private:
  struct Chunk {
    Range range;
    std::vector<uint64_t> targets;  // a bit per byte
    std::vector<uint64_t> callees;
    friend bool operator==(const Chunk&, const Chunk&) = default;
  };
  struct StraightCode {
    Address function_begin = 0;
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
  // What no copy shares.
  Facts& own();
  std::shared_ptr<Facts> facts_;
  std::vector<Address> more_;  // sorted
  std::unordered_set<Address> more_unresolved_;
};

}  // namespace pinprick::image
