// Helpers for the public objects, each of which owns an attachment of the registry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "library/probes/registry.h"

namespace pinprick::library {

// request_of(spec) returns a Result<Request, Error>, and make(attachment) the public object.
template <class Public, class Spec, class RequestOf, class Make>
Result<std::vector<Public>, Error> place_all(std::vector<Spec> specs, RequestOf&& request_of,
                                             Make&& make) {
  std::vector<Request> requests;
  requests.reserve(specs.size());
  for (Spec& spec : specs) {
    auto request = request_of(std::move(spec));
    if (!request) return fail(request.error());
    requests.push_back(*std::move(request));
  }
  auto placed = Registry::get().place(std::move(requests));
  if (!placed) return fail(placed.error());
  std::vector<Public> all;
  all.reserve(placed->size());
  for (Attachment* attachment : *placed) all.push_back(make(attachment));
  return all;
}

template <class Public, class Spec, class RequestOf, class Make>
Result<PlacedSome<Public>, Error> place_those_possible(std::vector<Spec> specs,
                                                       RequestOf&& request_of, Make&& make) {
  PlacedSome<Public> some;
  std::vector<Request> requests;
  std::vector<size_t> indices;  // in the batch, of the requests
  for (size_t i = 0; i < specs.size(); ++i) {
    auto request = request_of(std::move(specs[i]));
    if (!request) {
      some.refused.push_back({i, request.error()});
      continue;
    }
    requests.push_back(*std::move(request));
    indices.push_back(i);
  }
  auto placed = Registry::get().place_possible(std::move(requests));
  if (!placed) return fail(placed.error());
  some.placed.reserve(placed->size());
  for (size_t i = 0; i < indices.size(); ++i) {
    auto& one = (*placed)[i];
    if (one)
      some.placed.push_back(make(*one));
    else
      some.refused.push_back({indices[i], one.error()});
  }
  std::sort(some.refused.begin(), some.refused.end(),
            [](const Refusal& a, const Refusal& b) { return a.index < b.index; });
  return some;
}

// Returns a function that makes a request of a Where.
template <class State>
auto requests_of(PlaceOptions options) {
  return [options](Where where) -> Result<Request, Error> {
    auto state = std::make_unique<State>();
    state->allow_breakpoint = options.allow_breakpoint;
    state->enabled = options.enabled;
    return Request{std::move(where), std::move(state)};
  };
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

inline uint64_t sum_of(const runtime::Misses& misses) {
  uint64_t sum = 0;
  for (const auto& count : misses.counts) sum += count.load(std::memory_order_relaxed);
  return sum;
}
inline uint64_t count_of(const runtime::Misses& misses, Miss why) {
  const auto index = static_cast<size_t>(why);
  return index < kMissCauses ? misses.counts[index].load(std::memory_order_relaxed) : 0;
}

// These return nullptr and an empty name for an object that was moved from.
inline const void* address_of(const Attachment* attachment) {
  return attachment == nullptr ? nullptr : reinterpret_cast<const void*>(attachment->site->address);
}
inline std::string name_of(const Attachment* attachment) {
  return attachment == nullptr ? std::string() : attachment->site->name;
}

}  // namespace pinprick::library
