// Helpers for the public objects, each of which owns an attachment of the registry.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "library/registry.h"

namespace pinprick::library {

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

// Leaves out objects that were moved from.
template <class Public, class State>
std::vector<Attachment*> attachments_of(std::span<Public> all, State* Public::*state) {
  std::vector<Attachment*> attachments;
  attachments.reserve(all.size());
  for (Public& one : all)
    if (one.*state != nullptr) attachments.push_back(one.*state);
  return attachments;
}

inline void remove_one(Attachment* attachment) {
  if (attachment != nullptr) Registry::get().remove({&attachment, 1});
}

// These return nullptr and an empty name for an object that was moved from.
inline const void* address_of(const Attachment* attachment) {
  return attachment == nullptr ? nullptr : reinterpret_cast<const void*>(attachment->site->address);
}
inline std::string name_of(const Attachment* attachment) {
  return attachment == nullptr ? std::string() : attachment->site->name;
}

}  // namespace pinprick::library
