// Which objects the loader has loaded, and whether it is done with them.
//
// While one thread is in dlopen(), others see the new objects from the time when they are mapped.
// Until the loader has applied an object's relocations, its pointers are not those that they will
// be, and what is written there may be overwritten, or added to. So what is read of such an object
// must not be taken for final, and its imports must not be changed. The loader counts objects when
// it maps them, so these numbers do not change when it is done.
//
// glibc adds an object to those that _dl_find_object() knows once it is relocated, and before its
// constructors run. Other signs come too early, such as the state for debuggers, which is
// consistent as soon as all objects are mapped.
//
// Any thread may call these functions, without a lock; they allocate nothing and cannot fail.
#pragma once

#include <link.h>

#include "base/address.h"

namespace pinprick::library {

// Has the loader relocated the object that has this address? Returns false if it does not know it.
bool is_relocated(Address address);
// The same for an object within dl_iterate_phdr.
bool is_relocated(const dl_phdr_info& object);

struct LoaderState {
  unsigned long long added = 0, removed = 0;  // how many objects the loader has loaded and unloaded
  bool is_done = true;                        // all that are there are relocated

  static LoaderState now();
  // Adds what is to be said of one object. Of each state, all objects are to be looked at.
  void look_at(const dl_phdr_info& object);
  // Is what was read of the objects in this state still right?
  bool holds(const LoaderState& now) const {
    return is_done && added == now.added && removed == now.removed;
  }
};

}  // namespace pinprick::library
