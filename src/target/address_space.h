// Chooses addresses for what pinprick maps into a target. Pure: it works on a list of mappings,
// which the target may change at any time, so mapping there can still fail.
#pragma once

#include <optional>
#include <vector>

#include "base/address.h"
#include "image/maps.h"

namespace pinprick::target {

class AddressSpace {
 public:
  // `lowest` is vm.mmap_min_addr. Another `variation` leads to other addresses, for a second
  // attempt.
  AddressSpace(const std::vector<image::Mapping>& maps, Address lowest, uint64_t variation = 0);

  // Takes a free range of whole pages and returns its address, or nullopt if there is none. Every
  // byte of the range can reach every byte of `reach`, which contains `object`, by a 32-bit
  // displacement, and be reached from it.
  //
  // The range is below the object if possible, since above an executable its heap grows. It is in
  // the middle of the largest free range there: the kernel puts a program's next mapping as high as
  // it can, just below the lowest library, and might take an address there before we map it. If
  // only the space above is free, the range is as far up as reach allows.
  std::optional<Address> take_near(Range object, uint64_t size, Range reach);
  std::optional<Address> take_near(Range object, uint64_t size) {
    return take_near(object, size, object);
  }

  // Asks for a range that take_at() will want: the other functions use it only as a last resort.
  void wish(Range wanted) { wishes_.push_back(wanted); }
  // Takes exactly this range. Returns false if some of it is not free.
  bool take_at(Range wanted);

  // Takes a range anywhere, well away from what grows: the heap from below, mappings from above.
  std::optional<Address> take_anywhere(uint64_t size);

 private:
  void take(Range taken);
  // The parts of the free ranges that have room for `size` without the gaps at their ends.
  static std::vector<Range> parts_within(const std::vector<Range>& free, Range within,
                                         uint64_t size);
  // Takes the middle of the largest part; with a variation, an address in the middle half of it.
  Address take_middle(const std::vector<Range>& parts, uint64_t size);

  std::optional<Address> take_near(Range object, uint64_t size, Range reach,
                                   const std::vector<Range>& free);
  std::optional<Address> take_anywhere(uint64_t size, const std::vector<Range>& free);
  std::vector<Range> unwished() const;

  std::vector<Range> free_;
  std::vector<Range> wishes_;
  uint64_t variation_;
};

// vm.mmap_min_addr of this machine.
Address lowest_mappable_address();

}  // namespace pinprick::target
