// What the stub of a site has to do.
//
// A value. Pure; any thread. Nothing can go wrong.
#pragma once

namespace pinprick::library {

struct Shape {
  bool counts = false;
  bool before = false;    // runs handlers, or follows calls
  bool behind = false;    // handlers behind the first instruction
  bool measures = false;  // follows calls
  bool times = false;     // calls, without a handler
  bool empty() const { return !counts && !before && !behind && !times; }
  bool covers(const Shape& other) const;
  Shape with(const Shape& other) const;
  friend bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace pinprick::library
