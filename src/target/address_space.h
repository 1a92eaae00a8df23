// Chooses addresses in a target for what pinprick maps there. Pure, on a list of mappings.
#pragma once

#include <optional>
#include <vector>

#include "base/address.h"
#include "image/maps.h"

namespace pinprick::target {

class AddressSpace {
 public:
  // `lowest`: vm.mmap_min_addr. `variation`: with another one, ranges in the middle of something
  // are rather others.
  AddressSpace(const std::vector<image::Mapping>& maps, Address lowest, uint64_t variation = 0);

  // A free range of whole pages, every byte of which a 32-bit displacement can reach from every
  // byte of `object`, and the other way round. Takes it: the next call answers another one.
  //
  // Rather below the object than above: above an executable its heap grows. There in the middle of
  // the largest free range: the kernel puts what a program maps next as high as it can, just below
  // the lowest of its libraries, and a place there may be taken before we come to map it. Where
  // only above is free, as far up as reach allows.
  std::optional<Address> take_near(Range object, uint64_t size);

  // Somebody wants to have just this, if he can: others get it only where they find nothing else.
  void wish(Range wanted) { wishes_.push_back(wanted); }
  // Just there, if all of it is free.
  bool take_at(Range wanted);

  // Anywhere, well away from what grows: the heap from below, mappings from above.
  std::optional<Address> take_anywhere(uint64_t size);

 private:
  void take(Range taken);
  // Parts of free ranges in which `size` fits, gaps left out; by address.
  static std::vector<Range> parts_within(const std::vector<Range>& free, Range within,
                                         uint64_t size);
  // Of the largest of these parts; with a variation, somewhere in the middle half of it.
  Address take_middle(const std::vector<Range>& parts, uint64_t size);

  std::optional<Address> take_near(Range object, uint64_t size, const std::vector<Range>& free);
  std::optional<Address> take_anywhere(uint64_t size, const std::vector<Range>& free);
  std::vector<Range> unwished() const;

  std::vector<Range> free_;
  std::vector<Range> wishes_;
  uint64_t variation_;
};

// vm.mmap_min_addr of this machine.
Address lowest_mappable_address();

}  // namespace pinprick::target
