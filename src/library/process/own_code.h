// Where this library's own code lies. Any thread may ask; cannot fail.
#pragma once

#include "base/address.h"

namespace pinprick::library {

// Returns the object that is libpinprick.so. In a program that is linked to libpinprick.a, returns
// the section into which that has all of its code (package/make-archive). Returns an empty range if
// the library was linked into the program in another way: then not all of the object is ours.
Range own_code();

}  // namespace pinprick::library
