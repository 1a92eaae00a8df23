// What the public objects have in common: each owns an attachment of the registry.
#pragma once

#include <utility>
#include <vector>

#include "self/registry.h"

namespace pinprick::self {

template <class State, class Public, class Make>
Result<std::vector<Public>, Error> place_all(std::vector<Request> requests, Make&& make) {
  auto placed = Registry::get().place(std::move(requests));
  if (!placed) return fail(placed.error());
  std::vector<Public> all;
  all.reserve(placed->size());
  for (Attachment* attachment : *placed) all.push_back(make(static_cast<State*>(attachment)));
  return all;
}

template <class Public>
Result<Public, Error> only(Result<std::vector<Public>, Error> all) {
  if (!all) return fail(all.error());
  return std::move(all->front());
}

inline void remove_one(Attachment* attachment) {
  if (attachment != nullptr) Registry::get().remove({&attachment, 1});
}

inline const void* address_of(const Attachment* attachment) {
  return reinterpret_cast<const void*>(attachment->site->address);
}

}  // namespace pinprick::self
