// What this program tells others about its probes (layout/own_probes.h): the table, and which of
// its entries are in use. patch/text_owner.h says when a site has to be entered.
//
// The table is made when the first probe is about to be placed, and stays. A forked child has a
// copy. The caller holds the registry's lock. Functions fail if there is no memory for the table or
// for an entry.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "layout/own_probes.h"
#include "library/points/point_notes.h"
#include "library/probes/site.h"

namespace pinprick::library {

class OwnLedger {
 public:
  static OwnLedger& get();  // never destroyed

  // Says that the site is in use, or is to be. Returns false if the table said so already.
  Result<bool, SystemError> enter(Site& site);
  Result<bool, SystemError> enter(const PointSite& point);
  // Says which bytes the site replaces. To be called once it is entered, no session has it, and the
  // text was found to hold the bytes of the plan: from then on no session writes there. Bytes that
  // were only planned may be others' jumps, and sessions would take them for the program's own.
  void confirm(Site& site);
  // Leaves sites that are not in use to others: those that a change has entered or removed. Must be
  // called once the change is over.
  void settle(std::span<Site* const> sites = {});
  void settle_point(const PointSite& point, layout::OwnSite::State state);
  // To be called after objects were loaded or unloaded, with what each known site has become.
  void settle_points(const std::function<layout::OwnSite::State(const PointSite&)>& state_of);

  // Memory with code through which threads may return to the program, all of it: others would take
  // the rest for code that the program generates. And slots.
  void note_code(Range code);
  // No call returns to these, but others should not take them for code that the program generates.
  // Left out when there is not much room left in the table: they may lie in very many places.
  void note_trampolines(Range code);
  void note_slots(const layout::OwnSlots& slots);
  // Libpinprick itself, which attached sessions must leave alone; empty if it is a part of the
  // program. Then the text is not shared: either this program changes it, or sessions do.
  Range libpinprick() const { return library_; }
  bool is_shared() const { return !library_.empty(); }

 private:
  OwnLedger();
  Result<void, SystemError> open();
  Result<layout::OwnSite*, SystemError> new_entry(const layout::OwnSite& entry,
                                                  layout::OwnSite::State state);
  void set_state(layout::OwnSite& entry, layout::OwnSite::State state);
  // Counts a change of an entry before and after it.
  template <class T>
  void change(T& part, T value);

  const Range library_;
  layout::OwnTable* table_ = nullptr;
  std::vector<Range> code_;  // noted before there was a table
  std::vector<layout::OwnSlots> slots_;
  struct Point {
    PointSite site = {};
    layout::OwnSite* nop = nullptr;
    layout::OwnSite* block = nullptr;
  };
  std::map<Address, Point> points_;  // by the address of the nop
  std::vector<Site*> entered_;       // since the last settle()
};

// What the table says of a site that is confirmed: the bytes that it changes, and where its stubs
// go on.
layout::OwnSite describe(const Site& site);

}  // namespace pinprick::library
