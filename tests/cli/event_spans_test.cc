#include "cli/render/event_spans.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pinprick::cli {
namespace {

// Collects the spans that are shown as `TEXT LATENCY`.
class Spans {
 public:
  explicit Spans(EventSpans::Limits limits = {}) : spans_(limits) {}

  Spans& start(uint64_t time_ns, const std::string& text, uint64_t thread = 1, uint32_t span = 0) {
    return add({.thread = thread,
                .span = span,
                .is_start = true,
                .time_ns = time_ns,
                .name = "start",
                .text = text});
  }
  Spans& end(uint64_t time_ns, uint64_t thread = 1, uint32_t span = 0) {
    return add({.thread = thread, .span = span, .time_ns = time_ns, .name = "end", .text = {}});
  }
  std::vector<std::string> shown;
  EventSpans::Figures figures() const { return spans_.figures(); }

 private:
  Spans& add(EventSpans::Event event) {
    if (const auto ended = spans_.add(std::move(event)))
      shown.push_back(ended->start.text + " " + std::to_string(ended->latency_ns()));
    return *this;
  }
  EventSpans spans_;
};

using Shown = std::vector<std::string>;

TEST(EventSpans, AreFromAStartToTheNextEndOnTheSameThread) {
  const Spans spans =
      Spans().start(10, "a").start(20, "b", 2).end(50).start(60, "c").end(70, 2).end(90);
  EXPECT_EQ(spans.shown, (Shown{"a 40", "b 50", "c 30"}));
  EXPECT_TRUE(spans.figures().empty());
}

TEST(EventSpans, OfAThreadDoNotMix) {
  const Spans spans = Spans().start(10, "a", 1, 0).start(20, "b", 1, 1).end(30, 1, 0).end(50, 1, 1);
  EXPECT_EQ(spans.shown, (Shown{"a 20", "b 30"}));
}

TEST(EventSpans, AreThoseOfTheFirstStart) {
  const Spans spans = Spans().start(10, "a").start(20, "b").end(30).end(40).start(50, "c");
  EXPECT_EQ(spans.shown, (Shown{"a 20"}));
  EXPECT_EQ(spans.figures().repeated, 1u);
  EXPECT_EQ(spans.figures().unmatched, 1u);
  EXPECT_EQ(spans.figures().open, 1u);
}

TEST(EventSpans, AreShownIfTheyTakeAsLong) {
  Spans spans({.slower_ns = 20, .faster_ns = 30});
  spans.start(10, "a").end(29).start(40, "b").end(60).start(70, "c").end(100).start(110, "d").end(
      141);
  EXPECT_EQ(spans.shown, (Shown{"b 20", "c 30"}));
}

}  // namespace
}  // namespace pinprick::cli
