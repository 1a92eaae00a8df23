#include "library/probes/reclaimer.h"

#include <iterator>
#include <utility>

#include "runtime/thread.h"

namespace pinprick::library {

void Reclaimer::reclaim(Retired& retired, std::unique_lock<std::mutex>& lock) {
  const auto append = [](auto& to, auto& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
    from.clear();
  };
  append(deferred_.handlers, retired.handlers);
  append(deferred_.returns, retired.returns);
  append(deferred_.attachments, retired.attachments);
  if (deferred_.empty() || runtime::runs_handlers(runtime::this_thread())) return;
  std::swap(deferred_, retired);
  lock.unlock();
  runtime::wait_for_handlers();
  lock.lock();
  for (const auto& attachment : retired.attachments) attacher_.give_back(*attachment);
  lock.unlock();
}

}  // namespace pinprick::library
