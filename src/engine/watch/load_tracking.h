// The controller's end of the loader handshake: a thread of the target that has loaded or unloaded
// objects waits until the controller has looked at them (runtime/loader_handshake.S).
//
// It waits for a controller that is at work, not for one that is gone. So a thread of the
// controller writes a heartbeat from when a request is seen until it is answered, for half a minute
// at most. The other functions are for the thread that made the LoaderWatch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "base/fd.h"
#include "layout/session_file.h"

namespace pinprick::engine {

class LoaderWatch {
 public:
  // Starts the thread, for a session whose file has a loader handshake. `file` is its descriptor:
  // the same open file, so that SessionFile::has_other_users() does not take this for another user.
  // Returns nullptr if there is no memory or no thread for it; then no thread of the target waits.
  static std::unique_ptr<LoaderWatch> start(int file, const layout::Session& journal);
  LoaderWatch(const LoaderWatch&) = delete;
  LoaderWatch& operator=(const LoaderWatch&) = delete;
  // Lets all waiting threads go; from then on none waits.
  ~LoaderWatch();

  // Becomes readable when a request arrives.
  int descriptor() const { return event_.get(); }
  // Returns the latest request; nullopt if it is answered already, and so no thread waits.
  std::optional<uint32_t> take();
  // Lets the thread of that request go on, and those of all requests before it. Returns false if
  // one had timed out before; then the code that it loaded may have run already.
  bool answer(uint32_t request);

 private:
  LoaderWatch(Fd file, Fd event, uint64_t offset, void* page);
  void watch();
  uint32_t read(size_t field) const;
  void write(size_t field, uint32_t value);
  void wait(uint32_t seen, uint64_t nanoseconds) const;
  // Returns whether any thread was waiting.
  bool wake(size_t field) const;

  Fd file_;
  Fd event_;
  uint64_t offset_;  // of the handshake
  void* page_;       // of the handshake, only ever passed to futex(2): the file may be truncated
  std::atomic<uint32_t> answered_ = 0;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace pinprick::engine
