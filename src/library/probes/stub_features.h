// What the stub of a site has to do. A plain value; pure, and cannot fail.
#pragma once

namespace pinprick::library {

struct StubFeatures {
  bool counts = false;
  bool before = false;    // runs handlers at the site, or measures calls for return probes
  bool after = false;     // runs handlers after the first instruction
  bool measures = false;  // measures calls for return probes
  bool times = false;     // times calls, without a handler
  bool empty() const { return !counts && !before && !after && !times; }
  bool covers(const StubFeatures& other) const;
  StubFeatures with(const StubFeatures& other) const;
  friend bool operator==(const StubFeatures&, const StubFeatures&) = default;
};

}  // namespace pinprick::library
