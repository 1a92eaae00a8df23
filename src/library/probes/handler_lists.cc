#include "library/probes/handler_lists.h"

#include <atomic>
#include <cassert>
#include <utility>

#include "library/probes/return_slots.h"

namespace pinprick::library {
namespace {

// The list of the handlers that `select` returns for the site's probes; nullptr if there are none.
template <class Select>
std::unique_ptr<OwnedHandlers> handler_list(const Site& site, Select&& select) {
  auto list = std::make_unique<OwnedHandlers>();
  list->integer_only = true;
  for (Attachment* attachment : site.attachments) {
    auto* const probe = dynamic_cast<detail::ProbeState*>(attachment);
    if (probe == nullptr || !probe->enabled || !select(*probe)) continue;
    const Handler& handler = select(*probe);
    // A hit that runs neither of a probe's two handlers is one.
    const bool counts = &handler == &probe->pre || !probe->pre;
    list->storage.push_back({untyped(handler), counts ? &probe->missed : nullptr});
    list->integer_only = list->integer_only && handler.integer_only();
  }
  if (list->storage.empty()) return nullptr;
  list->entries = list->storage.data();
  list->count = static_cast<uint32_t>(list->storage.size());
  if (list->count == 1 && list->integer_only) list->only = list->entries[0].handler;
  return list;
}

std::unique_ptr<OwnedReturns> return_list(const Site& site) {
  auto list = std::make_unique<OwnedReturns>();
  list->integer_only = true;
  for (Attachment* attachment : site.attachments) {
    auto* const probe = dynamic_cast<detail::ReturnState*>(attachment);
    if (probe == nullptr || !probe->enabled) continue;
    list->storage.push_back({probe->shared, probe->generation});
    list->integer_only = list->integer_only && (!probe->on_entry || probe->on_entry.integer_only());
  }
  if (list->storage.empty()) return nullptr;
  list->entries = list->storage.data();
  list->count = static_cast<uint32_t>(list->storage.size());
  list->more = more_participants();
  assert(list->count <= runtime::kUsualReturnProbes || list->count <= list->more.each);
  return list;
}

template <class Owned, class Seen>
void exchange(std::atomic<const Seen*>& published, std::unique_ptr<Owned> list,
              std::vector<std::unique_ptr<Owned>>& retired) {
  const Seen* const former = published.exchange(list.release(), std::memory_order_acq_rel);
  if (former != nullptr)
    retired.emplace_back(const_cast<Owned*>(static_cast<const Owned*>(former)));
}

}  // namespace

runtime::Handler untyped(const Handler& handler) {
  return {handler.call(), handler.closure(), handler.integer_only()};
}

void publish(Site& site, const Modes& modes, Retired& retired) {
  if (!modes.armed) {
    exchange(site.before.handlers, std::unique_ptr<OwnedHandlers>(), retired.handlers);
    exchange(site.after.handlers, std::unique_ptr<OwnedHandlers>(), retired.handlers);
    exchange(site.before.returns, std::unique_ptr<OwnedReturns>(), retired.returns);
    return;
  }
  exchange(site.before.handlers,
           handler_list(site, [](const detail::ProbeState& p) -> const Handler& { return p.pre; }),
           retired.handlers);
  exchange(site.after.handlers,
           handler_list(site, [](const detail::ProbeState& p) -> const Handler& { return p.post; }),
           retired.handlers);
  exchange(site.before.returns, return_list(site), retired.returns);
}

}  // namespace pinprick::library
