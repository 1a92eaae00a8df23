// What the stub of a site has to do. A plain value; pure, and cannot fail.
#pragma once

namespace pinprick::library {

struct Shape {
  bool counts = false;
  bool before = false;    // runs handlers at the site, or measures calls for return probes
  bool behind = false;    // runs handlers after the first instruction
  bool measures = false;  // measures calls for return probes
  bool times = false;     // times calls, without a handler
  bool empty() const { return !counts && !before && !behind && !times; }
  bool covers(const Shape& other) const;
  Shape with(const Shape& other) const;
  friend bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace pinprick::library
