// Makes fields of an event of an array (select/array.h): the first one has the layout, by which it
// and the others, which are parts, are shown together. Pure.
#pragma once

#include <string>
#include <vector>

#include "action/action.h"
#include "select/array.h"

namespace pinprick::session {

// Returns how the parts are shown, of which each is one element.
action::ValueLayout layout_of(const select::Array& array);

}  // namespace pinprick::session
