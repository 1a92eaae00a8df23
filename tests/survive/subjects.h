// Targets that work while pinprick comes and goes, and report errors.
#pragma once

#include <memory>
#include <string>

#include "scratch.h"
#include "survive/program.h"

namespace pinprick::survive {

class Subject {
 public:
  virtual ~Subject() = default;
  virtual pid_t pid() const = 0;
  // Checks that it goes on, on all threads, and that all its results were right. Returns what went
  // wrong, or an empty text.
  virtual std::string check() = 0;
  virtual Command patterns() const = 0;
  // Returns what of it, besides its footprint, is not as without probes, or an empty text. To be
  // called when there are none.
  virtual std::string traces() { return ""; }
  // To be called before each kill: starts anew what a footprint does not show, until the next
  // check.
  virtual void stir() {}
};

// tests/targets/steady.c.
std::unique_ptr<Subject> start_steady();
// The same, with measures instead of patterns: of several kinds, for functions that overlap.
std::unique_ptr<Subject> start_steady_for_keys();
std::unique_ptr<Subject> start_steady_for_measures();
// tests/targets/turmoil.cc, on eight threads.
std::unique_ptr<Subject> start_turmoil();
// tests/targets/punned.c, on four threads.
std::unique_ptr<Subject> start_punned();
std::unique_ptr<Subject> start_evicting();  // the same at fixed addresses
// tests/targets/thrower.cc, beside an unprobed one whose results are right.
std::unique_ptr<Subject> start_thrower();
// tests/targets/dlhost.c, which loads and unloads a library all the time.
std::unique_ptr<Subject> start_loader();
// tests/targets/image/points.c, whose SDT points have a semaphore.
std::unique_ptr<Subject> start_points();
// tests/targets/orders.c, whose tracepoints probes turn on.
std::unique_ptr<Subject> start_tracepoints();
// redis-server with a client that counts all the time; nullptr if there is no redis-server.
std::unique_ptr<Subject> start_redis();

}  // namespace pinprick::survive
