// Chooses addresses in a target for what pinprick maps there. Pure, on a list of mappings.
#pragma once

#include <optional>
#include <vector>

#include "base/address.h"
#include "image/maps.h"

namespace pinprick::target {

class AddressSpace {
 public:
  // `lowest`: vm.mmap_min_addr.
  AddressSpace(const std::vector<image::Mapping>& maps, Address lowest);

  // A free range of whole pages, every byte of which a 32-bit displacement can reach from every
  // byte of `object`, and the other way round. Takes it: the next call answers another one.
  //
  // Rather below the object than above, and there as near as possible: above an executable its heap
  // grows. Where only above is free, as far up as reach allows, for the same reason.
  std::optional<Address> take_near(Range object, uint64_t size);

  // Anywhere, well away from what grows: the heap from below, mappings from above.
  std::optional<Address> take_anywhere(uint64_t size);

 private:
  void take(Range taken);
  std::optional<Address> find_highest(Range within, uint64_t size) const;

  std::vector<Range> free_;
};

// vm.mmap_min_addr of this machine.
Address lowest_mappable_address();

}  // namespace pinprick::target
