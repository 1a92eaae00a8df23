#include "pinprick/latency.h"

#include <cmath>
#include <utility>

#include "library/api/error.h"
#include "library/api/public.h"
#include "library/probes/registry.h"

namespace pinprick {

using detail::LatencyState;
using library::Attachment;
using library::Registry;
using library::Request;

// ----------------------------------------------------------------------------------- Histogram

Histogram::Histogram() : times_(std::make_shared<stats::Histogram>(runtime::kFractionBits)) {}
Histogram::Histogram(stats::Histogram times)
    : times_(std::make_shared<stats::Histogram>(std::move(times))) {}

uint64_t Histogram::count() const {
  return times_->count();
}
uint64_t Histogram::sum() const {
  return static_cast<uint64_t>(times_->sum());
}
double Histogram::mean() const {
  const uint64_t n = count();
  return n == 0 ? 0 : times_->sum() / static_cast<double>(n);
}
uint64_t Histogram::quantile(double p) const {
  return times_->quantile(p);
}
uint64_t Histogram::maximum() const {
  return times_->maximum();
}
Histogram Histogram::since(const Histogram& earlier) const {
  return Histogram(times_->since(*earlier.times_));
}
std::vector<Histogram::Slot> Histogram::slots() const {
  std::vector<Slot> slots;
  const auto& cells = times_->cells();
  for (uint32_t i = 0; i < cells.size(); ++i)
    if (cells[i].count != 0)
      slots.push_back({stats::slot_floor(i, times_->bits()),
                       stats::slot_floor(i + 1, times_->bits()), cells[i].count});
  return slots;
}

// ------------------------------------------------------------------------------------- Latency

Result<Latency, Error> Latency::place(Where where, PlaceOptions options) {
  return library::only(place(std::vector<Where>{std::move(where)}, options));
}

Result<std::vector<Latency>, Error> Latency::place(std::vector<Where> where, PlaceOptions options) {
  return library::place_all<Latency>(
      std::move(where), library::requests_of<LatencyState>(options),
      [](Attachment* one) { return Latency(static_cast<LatencyState*>(one)); });
}

Result<PlacedSome<Latency>, Error> Latency::place_possible(std::vector<Where> where,
                                                           PlaceOptions options) {
  return library::place_those_possible<Latency>(
      std::move(where), library::requests_of<LatencyState>(options),
      [](Attachment* one) { return Latency(static_cast<LatencyState*>(one)); });
}

void Latency::remove(std::vector<Latency> latencies) {
  std::vector<Attachment*> attachments;
  for (Latency& latency : latencies)
    if (auto* const state = std::exchange(latency.state_, nullptr)) attachments.push_back(state);
  Registry::get().remove(attachments);
}

Latency::Latency(Latency&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Latency& Latency::operator=(Latency&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Latency::~Latency() {
  library::remove_one(state_);
}

Result<void, Error> Latency::enable() {
  return enable({this, 1});
}
Result<void, Error> Latency::disable() {
  return disable({this, 1});
}
Result<void, Error> Latency::enable(std::span<Latency> all) {
  return Registry::get().set_enabled(library::attachments_of(all, &Latency::state_), true);
}
Result<void, Error> Latency::disable(std::span<Latency> all) {
  return Registry::get().set_enabled(library::attachments_of(all, &Latency::state_), false);
}

const void* Latency::address() const {
  return library::address_of(state_);
}
std::string Latency::name() const {
  return library::name_of(state_);
}
Placement Latency::placement() const {
  return state_ == nullptr ? Placement::gone : Registry::get().placement(*state_);
}
NoJump Latency::why_no_jump() const {
  return state_ == nullptr ? NoJump::none : Registry::get().why_no_jump(*state_);
}
Histogram Latency::snapshot() const {
  return state_ == nullptr ? Histogram() : Histogram(Registry::get().timings(*state_).times);
}
uint64_t Latency::missed() const {
  return state_ == nullptr ? 0 : Registry::get().timings(*state_).missed;
}
uint64_t Latency::unwound() const {
  return state_ == nullptr ? 0 : Registry::get().timings(*state_).unwound;
}
uint64_t Latency::abandoned() const {
  return state_ == nullptr ? 0 : Registry::get().timings(*state_).abandoned;
}

// ---------------------------------------------------------------------------------------- Span

namespace detail {

struct SpanState {
  std::shared_ptr<runtime::Span> span;
  uint32_t histogram = 0;
  stats::Histogram at_start;
  std::vector<Attachment*> ends;
};

}  // namespace detail

Result<Span, Error> Span::place(SpanSpec spec) {
  Registry& registry = Registry::get();
  const auto made = registry.new_span();
  if (!made) return fail(library::error_of(Cause::too_many, {}));
  auto state = std::make_unique<detail::SpanState>();
  state->span = made->span;
  state->histogram = made->histogram;
  state->at_start = registry.histograms().read(state->histogram);
  // If both ends are at the same site, a span is ended there before the next one starts.
  constexpr int kEndsFirst = 1;
  std::vector<Request> requests;
  const auto end = [&](Where where, detail::Call handler, int priority) {
    auto one = std::make_unique<detail::SpanEndState>();
    one->span = state->span;
    one->pre = Handler(handler, state->span.get(), true);
    one->priority = priority;
    one->allow_breakpoint = spec.allow_breakpoint;
    requests.push_back({std::move(where), std::move(one)});
  };
  end(std::move(spec.from), &runtime::begin_span, 0);
  end(std::move(spec.to), &runtime::end_span, kEndsFirst);
  auto placed = registry.place(std::move(requests));
  if (!placed) return fail(placed.error());
  state->ends = *std::move(placed);
  return Span(std::move(state));
}

Span::Span(std::unique_ptr<detail::SpanState> state) : state_(std::move(state)) {}
Span::Span(Span&&) noexcept = default;
Span& Span::operator=(Span&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Span::~Span() {
  if (state_) Registry::get().remove(state_->ends);
}

Histogram Span::snapshot() const {
  if (!state_) return Histogram();
  const auto now = Registry::get().histograms().read(state_->histogram);
  return Histogram(now.since(state_->at_start));
}
uint64_t Span::unmatched_starts() const {
  return !state_ ? 0 : state_->span->unmatched_starts.load(std::memory_order_relaxed);
}
uint64_t Span::unmatched_ends() const {
  return !state_ ? 0 : state_->span->unmatched_ends.load(std::memory_order_relaxed);
}
uint64_t Span::missed() const {
  if (!state_) return 0;
  uint64_t sum = 0;
  for (const Attachment* end : state_->ends)
    sum += library::sum_of(static_cast<const detail::SpanEndState*>(end)->missed);
  return sum;
}
uint64_t Span::missed(Miss why) const {
  if (!state_) return 0;
  uint64_t sum = 0;
  for (const Attachment* end : state_->ends)
    sum += library::count_of(static_cast<const detail::SpanEndState*>(end)->missed, why);
  return sum;
}

}  // namespace pinprick
