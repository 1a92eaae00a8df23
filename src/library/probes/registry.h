// All probes of our own process: places, changes and removes them.
//
// The registry owns the lock and all data, and calls the other parts in order. Placing means
//
//     1  find the instructions, check whether they may be probed (own_image.h, own_blacklist.h),
//        plan (site_plan.h, neighbours.h), attach (attacher.h)
//     2  assemble the stubs, and check that memory has the bytes that were planned for. Up to here
//        nothing has changed, and an error leaves it so
//     3  write the stubs, publish the lists of handlers, write the text
//
// and removing means detach, publish, write the text, release the lock, wait for handlers, destroy.
// batch.h has steps 2 and 3, and reclaimer.h has what follows the text.
//
// Any thread may call any public function, also from a handler, but not from a signal handler. Each
// function takes the lock; the caller must not hold it. Functions that fail return why, and change
// nothing.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "library/probes/attacher.h"
#include "library/probes/attachment.h"
#include "library/probes/batch.h"
#include "library/probes/modes.h"
#include "library/probes/neighbours.h"
#include "library/probes/operation.h"
#include "library/probes/reclaimer.h"
#include "library/probes/site.h"
#include "library/probes/sites.h"
#include "library/probes/stub_space.h"
#include "library/process/own_blacklist.h"
#include "library/process/own_image.h"
#include "library/statistics/histogram_store.h"
#include "library/statistics/span_table.h"
#include "pinprick/probe.h"

namespace pinprick::library {

struct Request {
  Where where;
  std::unique_ptr<Attachment> attachment;
};

class Registry {
 public:
  static Registry& get();  // never destroyed

  // Returns the attachments, in order.
  Result<std::vector<Attachment*>, Error> place(std::vector<Request> requests);
  // Places those that can be placed. Returns for each its attachment, or why it is refused. Fails
  // if no probe can be placed now, wherever it is.
  Result<std::vector<Result<Attachment*, Error>>, Error> place_possible(
      std::vector<Request> requests);
  void remove(std::span<Attachment* const> attachments);
  // Changes all of them, or none.
  Result<void, Error> set_enabled(std::span<Attachment* const> attachments, bool enabled);

  Result<std::vector<Where>, Error> find(std::string_view pattern);
  Result<void, Error> block(const Where& function);
  std::string blocked();
  std::string list();
  Placement placement(const Attachment& attachment);
  NoJump why_no_jump(const Attachment& attachment);
  Result<void, Error> optimise(bool wanted);
  Result<void, Error> set_armed(bool armed);
  // Return what was counted while the attachment was enabled.
  uint64_t hits(const detail::CountingState& counting);
  Timings timings(const detail::LatencyState& latency);
  // A new span, whose ends the caller places; nullopt if there are no more.
  std::optional<NewSpan> new_span();
  const HistogramStore& histograms() const { return histograms_; }

  // Calls f() with the lock held, for other changes of the text than those of probes.
  template <class F>
  auto exclusively(F&& f) {
    const Operation operation(mutex_, reclaimer_);
    return f();
  }
  // To be called within exclusively(), after the text was changed: what is known of it is read
  // anew when the next probe is placed.
  void forget_text() { image_.forget(); }

  // Forks wait for the end of an operation.
  static void before_fork();
  static void after_fork();
  static void after_fork_in_child();

 private:
  Registry();
  // The caller of these holds the lock.
  Result<void, Error> refresh();
  struct LeftOut {
    std::vector<std::optional<Error>> errors;  // by request; empty if none may be left out
    bool grew_late = false;                    // by requests that could be planned
  };
  // Returns the attachments of the requests that are not left out. Leaves out what cannot be
  // planned; if that shows only later, this leaves it out as well, changes nothing, and fails.
  Result<std::vector<Attachment*>, Error> try_to_place(std::vector<Request>& requests,
                                                       LeftOut& left_out, Operation& operation);
  // Returns the site for a request, and adds the sites that have to give way to it.
  Result<Site*, Error> site_for(const Request& request, placement::CallerUse& callers,
                                std::vector<Site*>& in_the_way);
  Batch batch(const target::SelfTarget& self, Operation& operation);
  // Takes sites whose probes were removed out of the text. What has to stay is left over.
  void take_out(std::vector<Site*> sites, Operation& operation);
  void note_left_over(std::span<Site* const> sites);
  // Takes out what is left over, if that is possible now.
  void take_out_left_over(Operation& operation);
  // Changes one of the modes, and all sites with it.
  Result<void, Error> change_all(bool Modes::*what, bool wanted, Operation& operation);

  std::mutex mutex_;
  Sites sites_;
  OwnImage image_;
  OwnBlacklist blacklist_{image_};
  StubSpace stubs_;
  HistogramStore histograms_;
  SpanTable spans_{histograms_};
  Attacher attacher_{stubs_, histograms_};
  Reclaimer reclaimer_{attacher_};
  Modes modes_;
  // Sites without attachments whose text could not be taken out. They are tried again when a probe
  // is placed or removed.
  std::vector<Site*> left_over_;
};

}  // namespace pinprick::library
