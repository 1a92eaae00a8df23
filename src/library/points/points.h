// The functions that are attached to tracepoints.
//
// A change of several points goes through these steps, and changes nothing before the third:
//
//     1  look for objects that came or went; check the attachments; make the new lists
//     2  check the sites of points that are turned on
//     3  publish the lists: one store for each point. Threads in a block read the old list or the
//        new one
//     4  start a grace period, and keep the old lists until it has passed
//     5  turn on the sites of points that have got functions, turn off those of points without
//
// A point stays on while it is wanted. A count in the point says by how many: this library, and
// each attached pinprick that waits for its hits. In step 3 the count changes, and step 5 makes the
// sites follow it: engine/text/point_sites.h has the rule, and why threads are safe.
//
// If step 5 fails for points that are turned on, the old lists are published again. If it fails for
// others, they stay on with an empty list, which costs a hit some nanoseconds.
//
// Lists are read by the code in pinprick/tracepoint.h, between two stores to the word of its thread
// (runtime/thread.h). No call here waits for functions but synchronize(). So functions may make all
// other calls.
//
// Any thread may call these; each takes the registry's lock. Functions throw std::bad_alloc before
// anything has changed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "layout/own_probes.h"
#include "library/points/point_error.h"
#include "library/points/point_objects.h"
#include "library/points/point_text.h"
#include "pinprick/tracepoint.h"
#include "target/self_target.h"

namespace pinprick::library {

struct PointDescription {
  std::string object, provider, name, types;
  Address point = 0;
  uint32_t sites = 0, foreign_sites = 0, semaphore_sites = 0, functions = 0;
};

class Points {
 public:
  static Points& get();  // never destroyed

  Result<void, PointError> attach(std::span<const pinprick_attachment> all);
  Result<void, PointError> detach(std::span<const pinprick_attachment> all);
  // The same for points by name.
  Result<void, PointError> attach_named(std::span<const pinprick_named_attachment> all);
  Result<void, PointError> detach_named(std::span<const pinprick_named_attachment> all);
  // Fails in a function that is attached.
  Result<void, PointError> synchronize();
  // All points with sites, by object and name.
  Result<std::vector<PointDescription>, PointError> list();

 private:
  struct Attached {
    pinprick_point_call call;
    int priority;
  };
  using List = std::vector<Attached>;  // in the order in which they run
  using Calls = std::unique_ptr<pinprick_point_call[]>;
  struct State {
    List functions;
    Calls published;
  };
  struct Change {
    pinprick_point* point;
    List functions;
    Calls calls;  // nullptr if there are none
    bool turns_on, turns_off;
  };
  using Changes = std::vector<Change>;
  struct Retired {
    uint64_t grace_period;
    std::vector<Calls> lists;
  };

  class Settling;

  Points() = default;
  // The caller of these holds the registry's lock.
  void refresh();
  void tell_what_is_there() const;
  // An attachment for each point of these names; Among::attached: each
  // that has the function.
  enum class Among : uint8_t { all, attached };
  Result<std::vector<pinprick_attachment>, PointError> find_named(
      std::span<const pinprick_named_attachment> all, Among among) const;
  bool has(const pinprick_attachment& one) const;
  // Fails if one of the points has no site that could be turned on.
  Result<void, PointError> find_sites(std::span<const pinprick_attachment> all) const;
  Result<void, PointError> add(std::span<const pinprick_attachment> all);
  Result<void, PointError> take(std::span<const pinprick_attachment> all);
  template <class Edit>
  Result<Changes, PointError> prepare(std::span<const pinprick_attachment> all, Edit&& edit);
  std::vector<PointSite> sites_of(const Changes& changes, bool Change::*which) const;
  Result<void, PointError> check(const target::SelfTarget& self,
                                 std::span<const PointSite> sites) const;
  Result<void, PointError> make(Changes changes);
  // Makes the sites of these points what their counts say, as far as they are a point's.
  Result<void, PointError> follow_counts(const target::SelfTarget& self,
                                         std::span<pinprick_point* const> points) const;
  // What attached sessions are to be told of a site.
  layout::OwnSite::State use_of(const target::Memory& memory, Address point, SiteState state) const;
  void publish(Changes& changes);
  void retire(std::vector<Calls> lists);

  PointObjects objects_;
  std::map<pinprick_point*, State> states_;  // those with functions
  std::vector<Retired> retired_;
};

}  // namespace pinprick::library
