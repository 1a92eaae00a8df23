// The controller's end of the hook in a target's loader: a thread of the target that has loaded or
// unloaded objects waits until we have looked at them (runtime/loader_handshake.S).
//
// It waits for a controller that is at work, not for one that is gone: a thread of ours lets it
// know (the heartbeat) from when the request is seen until it is answered, half a minute at most.
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
  // Of a session whose file has a loader's cell. Nothing where there is no memory or no thread for
  // it: then nobody waits.
  static std::unique_ptr<LoaderWatch> start(const std::string& path,
                                            const layout::Session& journal);
  LoaderWatch(const LoaderWatch&) = delete;
  LoaderWatch& operator=(const LoaderWatch&) = delete;
  // Lets everybody go; nobody waits any more.
  ~LoaderWatch();

  // Readable while there are requests.
  int descriptor() const { return event_.get(); }
  // The last one; nothing if it is answered already. Then nobody waits for us to look.
  std::optional<uint32_t> take();
  // That one and all before it are dealt with. Returns false if a thread had timed out before:
  // what it loaded may have run already.
  bool answer(uint32_t request);

 private:
  LoaderWatch(Fd file, Fd event, uint64_t offset, void* page);
  void watch();
  uint32_t read(size_t field) const;
  void write(size_t field, uint32_t value);
  void wait(uint32_t seen, uint64_t nanoseconds) const;
  void wake(size_t field) const;

  Fd file_;
  Fd event_;
  uint64_t offset_;  // of the cell
  void* page_;       // of the cell, mapped for the kernel's eyes only: it may be truncated
  std::atomic<uint32_t> answered_ = 0;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace pinprick::engine
