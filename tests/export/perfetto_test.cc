// What tests/cli/exports.bats cannot cause at will: calls without a return, lost entries, and
// bounds.
#include "export/perfetto.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <protozero/pbf_reader.hpp>

namespace pinprick::exports {
namespace {

using Of = TraceEvent::Of;

// The types and times of events in the packets: `B10 E20 I30`.
std::string events_of(const std::string& packets) {
  std::string all;
  protozero::pbf_reader trace(packets);
  while (trace.next(1)) {
    protozero::pbf_reader packet = trace.get_message();
    uint64_t time = 0;
    while (packet.next()) {
      if (packet.tag() == 8) {
        time = packet.get_uint64();
      } else if (packet.tag() == 11) {
        protozero::pbf_reader event = packet.get_message();
        while (event.next(9))
          all += fmt::format("{}{}{}", all.empty() ? "" : " ", "?BEI"[event.get_enum()], time);
      } else {
        packet.skip();
      }
    }
  }
  return all;
}

TraceEvent event(Of of, std::string name, uint64_t time_ns, uint64_t stack_pointer = 0) {
  return {.thread = {1, 2, "p", "t"},
          .of = of,
          .name = std::move(name),
          .time_ns = time_ns,
          .latency_ns = 5,
          .stack_pointer = stack_pointer,
          .details = {}};
}

TEST(Perfetto, ACallEndsAtItsReturn) {
  PerfettoTrace trace({});
  EXPECT_EQ(events_of(trace.add(event(Of::entry, "f", 10, 1000))), "B10");
  EXPECT_EQ(events_of(trace.add(event(Of::ret, "f", 20))), "E20");
}

TEST(Perfetto, ACallThatWasLeftEndsWhenAnEventAboveItOnTheStackShowsThat) {
  PerfettoTrace trace({});
  trace.add(event(Of::entry, "f", 10, 1000));
  trace.add(event(Of::entry, "g", 20, 900));
  EXPECT_EQ(events_of(trace.add(event(Of::point, "h", 30, 950))), "E30 I30");
  EXPECT_EQ(events_of(trace.add(event(Of::ret, "f", 40))), "E40");
}

TEST(Perfetto, AReturnEndsTheCallsWithinIt) {
  PerfettoTrace trace({});
  trace.add(event(Of::entry, "f", 10, 1000));
  trace.add(event(Of::entry, "g", 20, 900));
  EXPECT_EQ(events_of(trace.add(event(Of::ret, "f", 30))), "E30 E30");
}

TEST(Perfetto, AReturnWhoseEntryWasLostHasTheTimeOfItsLatency) {
  PerfettoTrace trace({});
  EXPECT_EQ(events_of(trace.add(event(Of::ret, "f", 30))), "B25 E30");
}

// They may overlap on the track of the process.
TEST(Perfetto, CallsOfUnknownThreadsAreMoments) {
  PerfettoTrace trace({});
  TraceEvent unknown = event(Of::call, "f", 30);
  unknown.thread.tid = 0;
  EXPECT_EQ(events_of(trace.add(unknown)), "I30");
}

TEST(Perfetto, NothingWasLostSoNothingIsSaid) {
  PerfettoTrace trace({});
  EXPECT_EQ(events_of(trace.add_losses(1, {.dropped = 0, .by_cause = {{"missed", 0}}})), "");
  EXPECT_EQ(events_of(trace.add_losses(1, {.dropped = 0, .by_cause = {{"missed", 3}}})), "I0");
}

}  // namespace
}  // namespace pinprick::exports
