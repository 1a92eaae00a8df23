// All probes of one's own process: places them, changes them, takes them out.
//
// The order of things, for whoever places:
//
//     1  find, plan and assemble; check that memory holds what was planned for. Up to here nothing
//        has changed, and whatever fails leaves it so
//     2  write the stubs, and say where breakpoints go on (runtime/traps.h)
//     3  publish the lists of handlers
//     4  write the text (patch/live_edit.h)
//
// and for whoever removes: publish, write the text, let the lock go, wait for handlers, destroy.
// Nobody waits for handlers with the lock held, so a handler may call in here. From a handler
// nobody waits: what it retires, a later call from elsewhere destroys.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "library/own_image.h"
#include "library/site.h"
#include "library/stub_space.h"
#include "library/timing.h"
#include "pinprick/probe.h"

namespace pinprick::library {

struct Request {
  Where where;
  std::unique_ptr<Attachment> attachment;
};

// Of a span, among those of all threads.
struct SpanPlace {
  std::weak_ptr<runtime::Span> span;
  uint64_t generation = 0;
  std::optional<uint32_t> histogram;
};

class Registry {
 public:
  static Registry& get();  // never destroyed

  // Answers the attachments, in order.
  Result<std::vector<Attachment*>, Error> place(std::vector<Request> requests);
  void remove(std::span<Attachment* const> attachments);
  // All of them, or none.
  Result<void, Error> set_enabled(std::span<Attachment* const> attachments, bool enabled);

  Result<std::vector<Where>, Error> find(std::string_view pattern);
  Result<void, Error> block(const Where& function);
  std::string blocked();
  std::string list();
  Placement placement(const Attachment& attachment);
  std::string_view why_no_jump(const Attachment& attachment);
  Result<void, Error> optimise(bool wanted);
  Result<void, Error> set_armed(bool armed);
  uint64_t count(const detail::CounterState& counter);
  struct NewSpan {
    std::shared_ptr<runtime::Span> span;
    uint32_t histogram = 0;
  };
  // Whose ends are then to be placed. Nothing: there are no more.
  std::optional<NewSpan> new_span();
  const Timing& timing() const { return timing_; }

  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }

 private:
  class Operation;

  Registry();
  void restore(Address at, std::span<uint8_t> bytes) const;
  Result<void, Error> refresh();
  void forget_what_is_gone();
  Result<image::Match, Error> resolve(const Where& where);

  struct Planned {
    Address address = 0;
    std::optional<plan::Patch> jump;
    plan::Patch breakpoint;
    std::optional<plan::Reason> no_jump;
    arch::StackUse stack = arch::StackUse::at_entry;
    std::vector<Site*> in_the_way;  // become breakpoints; those without probes go altogether
  };
  // Sites in the way of others, with why they were no jumps before.
  using Displaced = std::vector<std::pair<Site*, std::optional<plan::Reason>>>;
  Result<Planned, Error> plan(const Request& request, const image::Match& match) const;
  Result<Site*, Error> site_for(const Request& request, Displaced& displaced);
  // Sites but the one at `site` that take, or are to take, some of the range.
  std::vector<Site*> others_in(Range range, Address site) const;
  void add_those_with_room_now(const target::SelfTarget& self, std::vector<Site*>& sites);

  Result<void, Error> attach(Attachment& attachment, Site& site);
  static void detach(Attachment& attachment);
  void give_back(Attachment& attachment);

  // Step 1 of placing, for what is attached to the sites now.
  Result<void, Error> prepare(const target::SelfTarget& self, std::span<Site* const> sites);
  std::vector<arch::StubAction> actions_of(const Site& site, const Shape& shape,
                                           const arch::Displaced& displaced) const;
  Result<void, Error> make_stub(Site& site, Form& form);
  // Null: none.
  Form* form_when_armed(Site& site) const;
  Form* wanted_form(Site& site) const;
  static Shape wanted_shape(const Site& site, const Form& form);
  bool is_as_wanted(Site& site) const;
  // Steps 2 to 4.
  Result<void, Error> commit(const target::SelfTarget& self, std::span<Site* const> sites,
                             Retired& retired);
  // One of the members that say what is wanted of all sites.
  Result<void, Error> change_all(bool Registry::*what, bool wanted, Retired& retired);
  // After a commit() that has failed, for sites of which the same is wanted again as before it.
  void put_back(const target::SelfTarget& self, std::span<Site* const> sites, Retired& retired);
  void publish(Site& site, Retired& retired) const;
  static void lead_to(Site& site, Form& form);
  static Result<void, Error> no_room_after_all(const Site& site);

  std::mutex mutex_;
  OwnImage image_;
  bool image_has_foreign_probes_ = false;  // it was read when an attached session was there
  StubSpace stubs_;
  Timing timing_;
  std::array<SpanPlace, runtime::kMostSpans> span_places_;
  std::map<Address, std::unique_ptr<Site>> sites_;
  std::vector<std::unique_ptr<Site>> former_sites_;  // their stubs may still be in use
  std::vector<std::pair<Range, std::string>> blocked_;
  ReturnStates return_states_;
  Retired deferred_;
  bool optimised_ = true;
  bool armed_ = true;
};

}  // namespace pinprick::library
