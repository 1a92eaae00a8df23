// A set of addresses in an object's text: where execution may arrive other than by falling through.
//
// code_scan.h fills it. Functions about whose inside nothing can be said are `opaque`.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "base/address.h"

namespace pinprick::image {

class BranchTargets {
 public:
  explicit BranchTargets(const std::vector<Range>& text);

  // Addresses outside of `text` are ignored. By any number of threads at once, as long as nobody
  // asks meanwhile.
  void add(Address address);
  bool contains(Address address) const { return any_in(address, address + 1); }
  // Does anything lead into [begin, end)?
  bool any_in(Address begin, Address end) const;

  // Of the addresses: those that are called, or to which somebody holds a pointer, as to a
  // function. What is only jumped to may be the rest of another function, with data below rsp that
  // it needs.
  void add_callee(Address address);
  bool is_callee(Address address) const;

  void mark_opaque(Address function_begin) { opaque_.insert(function_begin); }
  bool is_opaque(Address function_begin) const { return opaque_.contains(function_begin); }

 private:
  struct Chunk {
    Range range;
    std::vector<uint64_t> targets;  // a bit per byte
    std::vector<uint64_t> callees;
  };
  static void set(std::vector<uint64_t>& bits, uint64_t at);
  std::vector<Chunk> chunks_;
  std::unordered_set<Address> opaque_;
};

}  // namespace pinprick::image
