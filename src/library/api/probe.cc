#include "pinprick/probe.h"

#include <utility>

#include "library/api/error.h"
#include "library/api/public.h"
#include "library/probes/registry.h"

namespace pinprick {
namespace {

using detail::CounterState;
using detail::ReturnState;
using library::address_of;
using library::Attachment;
using library::attachments_of;
using library::only;
using library::Registry;
using library::remove_one;
using library::Request;

std::atomic<uint64_t> exceptions_of_handlers;

Error no_handler(const Where& where) {
  return library::error_of(Cause::no_handler,
                           where.name() != nullptr ? *where.name() : std::string());
}

template <class Spec>
Result<Request, Error> request_of(Spec spec);

template <>
Result<Request, Error> request_of(ProbeSpec spec) {
  if (!spec.pre && !spec.post) return fail(no_handler(spec.where));
  auto state = std::make_unique<detail::ProbeState>();
  state->pre = std::move(spec.pre);
  state->post = std::move(spec.post);
  state->priority = spec.priority;
  state->allow_breakpoint = spec.allow_breakpoint;
  state->enabled = spec.enabled;
  state->count_hits = spec.count_hits;
  return Request{std::move(spec.where), std::move(state)};
}

template <>
Result<Request, Error> request_of(ReturnProbeSpec spec) {
  if (!spec.on_return) return fail(no_handler(spec.where));
  auto state = std::make_unique<ReturnState>();
  state->on_entry = std::move(spec.on_entry);
  state->on_return = std::move(spec.on_return);
  state->data_size = spec.data_size;
  state->max_active = spec.max_active;
  state->priority = spec.priority;
  state->allow_breakpoint = spec.allow_breakpoint;
  state->enabled = spec.enabled;
  return Request{std::move(spec.where), std::move(state)};
}

}  // namespace

namespace detail {

void count_handler_exception() noexcept {
  exceptions_of_handlers.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace detail

uint64_t handler_exceptions() {
  return exceptions_of_handlers.load(std::memory_order_relaxed);
}

// --------------------------------------------------------------------------------------- Probe

Result<Probe, Error> Probe::place(ProbeSpec spec) {
  std::vector<ProbeSpec> one;
  one.push_back(std::move(spec));
  return only(place(std::move(one)));
}

Result<std::vector<Probe>, Error> Probe::place(std::vector<ProbeSpec> specs) {
  return library::place_all<Probe>(std::move(specs), &request_of<ProbeSpec>, [](Attachment* one) {
    return Probe(static_cast<detail::ProbeState*>(one));
  });
}

Result<PlacedSome<Probe>, Error> Probe::place_possible(std::vector<ProbeSpec> specs) {
  return library::place_those_possible<Probe>(
      std::move(specs), &request_of<ProbeSpec>,
      [](Attachment* one) { return Probe(static_cast<detail::ProbeState*>(one)); });
}

void Probe::remove(std::vector<Probe> probes) {
  std::vector<Attachment*> attachments;
  for (Probe& probe : probes)
    if (auto* const state = std::exchange(probe.state_, nullptr)) attachments.push_back(state);
  Registry::get().remove(attachments);
}

Probe::Probe(Probe&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Probe& Probe::operator=(Probe&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Probe::~Probe() {
  remove_one(state_);
}

Result<void, Error> Probe::enable() {
  return enable({this, 1});
}
Result<void, Error> Probe::disable() {
  return disable({this, 1});
}
Result<void, Error> Probe::enable(std::span<Probe> probes) {
  return Registry::get().set_enabled(attachments_of(probes, &Probe::state_), true);
}
Result<void, Error> Probe::disable(std::span<Probe> probes) {
  return Registry::get().set_enabled(attachments_of(probes, &Probe::state_), false);
}

const void* Probe::address() const {
  return address_of(state_);
}
std::string Probe::name() const {
  return library::name_of(state_);
}
Placement Probe::placement() const {
  return state_ == nullptr ? Placement::gone : Registry::get().placement(*state_);
}
NoJump Probe::why_no_jump() const {
  return state_ == nullptr ? NoJump::none : Registry::get().why_no_jump(*state_);
}
std::optional<uint64_t> Probe::hits() const {
  if (state_ == nullptr || !state_->count_hits) return std::nullopt;
  return Registry::get().hits(*state_);
}
uint64_t Probe::missed() const {
  return state_ == nullptr ? 0 : library::sum_of(state_->missed);
}
uint64_t Probe::missed(Miss why) const {
  return state_ == nullptr ? 0 : library::count_of(state_->missed, why);
}

// --------------------------------------------------------------------------------- ReturnProbe

Result<ReturnProbe, Error> ReturnProbe::place(ReturnProbeSpec spec) {
  std::vector<ReturnProbeSpec> one;
  one.push_back(std::move(spec));
  return only(place(std::move(one)));
}

Result<std::vector<ReturnProbe>, Error> ReturnProbe::place(std::vector<ReturnProbeSpec> specs) {
  return library::place_all<ReturnProbe>(
      std::move(specs), &request_of<ReturnProbeSpec>,
      [](Attachment* one) { return ReturnProbe(static_cast<ReturnState*>(one)); });
}

Result<PlacedSome<ReturnProbe>, Error> ReturnProbe::place_possible(
    std::vector<ReturnProbeSpec> specs) {
  return library::place_those_possible<ReturnProbe>(
      std::move(specs), &request_of<ReturnProbeSpec>,
      [](Attachment* one) { return ReturnProbe(static_cast<ReturnState*>(one)); });
}

void ReturnProbe::remove(std::vector<ReturnProbe> probes) {
  std::vector<Attachment*> attachments;
  for (ReturnProbe& probe : probes)
    if (auto* const state = std::exchange(probe.state_, nullptr)) attachments.push_back(state);
  Registry::get().remove(attachments);
}

ReturnProbe::ReturnProbe(ReturnProbe&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}
ReturnProbe& ReturnProbe::operator=(ReturnProbe&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
ReturnProbe::~ReturnProbe() {
  remove_one(state_);
}

Result<void, Error> ReturnProbe::enable() {
  return enable({this, 1});
}
Result<void, Error> ReturnProbe::disable() {
  return disable({this, 1});
}
Result<void, Error> ReturnProbe::enable(std::span<ReturnProbe> probes) {
  return Registry::get().set_enabled(attachments_of(probes, &ReturnProbe::state_), true);
}
Result<void, Error> ReturnProbe::disable(std::span<ReturnProbe> probes) {
  return Registry::get().set_enabled(attachments_of(probes, &ReturnProbe::state_), false);
}

const void* ReturnProbe::address() const {
  return address_of(state_);
}
std::string ReturnProbe::name() const {
  return library::name_of(state_);
}
Placement ReturnProbe::placement() const {
  return state_ == nullptr ? Placement::gone : Registry::get().placement(*state_);
}
NoJump ReturnProbe::why_no_jump() const {
  return state_ == nullptr ? NoJump::none : Registry::get().why_no_jump(*state_);
}
uint64_t ReturnProbe::missed() const {
  return state_ == nullptr ? 0 : library::sum_of(state_->shared->missed);
}
uint64_t ReturnProbe::missed(Miss why) const {
  return state_ == nullptr ? 0 : library::count_of(state_->shared->missed, why);
}
uint64_t ReturnProbe::unwound() const {
  return state_ == nullptr ? 0 : state_->shared->unwound.load(std::memory_order_relaxed);
}
uint64_t ReturnProbe::abandoned() const {
  return state_ == nullptr ? 0 : state_->shared->abandoned.load(std::memory_order_relaxed);
}

// ------------------------------------------------------------------------------------- Counter

Result<Counter, Error> Counter::place(Where where, PlaceOptions options) {
  return only(place(std::vector<Where>{std::move(where)}, options));
}

Result<std::vector<Counter>, Error> Counter::place(std::vector<Where> where, PlaceOptions options) {
  return library::place_all<Counter>(
      std::move(where), library::requests_of<CounterState>(options),
      [](Attachment* one) { return Counter(static_cast<CounterState*>(one)); });
}

Result<PlacedSome<Counter>, Error> Counter::place_possible(std::vector<Where> where,
                                                           PlaceOptions options) {
  return library::place_those_possible<Counter>(
      std::move(where), library::requests_of<CounterState>(options),
      [](Attachment* one) { return Counter(static_cast<CounterState*>(one)); });
}

void Counter::remove(std::vector<Counter> counters) {
  std::vector<Attachment*> attachments;
  for (Counter& counter : counters)
    if (auto* const state = std::exchange(counter.state_, nullptr)) attachments.push_back(state);
  Registry::get().remove(attachments);
}

Counter::Counter(Counter&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Counter& Counter::operator=(Counter&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Counter::~Counter() {
  remove_one(state_);
}

Result<void, Error> Counter::enable() {
  return enable({this, 1});
}
Result<void, Error> Counter::disable() {
  return disable({this, 1});
}
Result<void, Error> Counter::enable(std::span<Counter> all) {
  return Registry::get().set_enabled(attachments_of(all, &Counter::state_), true);
}
Result<void, Error> Counter::disable(std::span<Counter> all) {
  return Registry::get().set_enabled(attachments_of(all, &Counter::state_), false);
}

const void* Counter::address() const {
  return address_of(state_);
}
std::string Counter::name() const {
  return library::name_of(state_);
}
Placement Counter::placement() const {
  return state_ == nullptr ? Placement::gone : Registry::get().placement(*state_);
}
NoJump Counter::why_no_jump() const {
  return state_ == nullptr ? NoJump::none : Registry::get().why_no_jump(*state_);
}
uint64_t Counter::value() const {
  return state_ == nullptr ? 0 : Registry::get().hits(*state_);
}

// ----------------------------------------------------------------------------------- all of them

Result<std::vector<Where>, Error> find_functions(std::string_view pattern) {
  return Registry::get().find(pattern);
}
Result<void, Error> optimise(bool wanted) {
  return Registry::get().optimise(wanted);
}
Result<void, Error> disarm_all() {
  return Registry::get().set_armed(false);
}
Result<void, Error> arm_all() {
  return Registry::get().set_armed(true);
}
Result<void, Error> block(const Where& function) {
  return Registry::get().block(function);
}
std::string blocked() {
  return Registry::get().blocked();
}
std::string list_probes() {
  return Registry::get().list();
}

}  // namespace pinprick
