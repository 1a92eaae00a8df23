// Resets of sessions that stay in a process which runs.
#include "engine/reset.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "engine/calls/slot_use.h"
#include "engine/calls/thread_table.h"
#include "engine/session.h"
#include "engine/watch/providing.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "scratch.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

using layout::Gap;

// tests/targets/spans.c with a session that stays.
class ResetOf : public testing::Test {
 protected:
  ResetOf() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  ~ResetOf() override { end(); }

  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    // What is kept stays, and may lie elsewhere: only a tmpfs is taken for session files.
    for (const std::string& path : ledger::find_session_files(pid_)) ::unlink(path.c_str());
    pid_ = 0;
  }

  // With one thread it stays on one CPU, so that gaps of a CPU are those of the program.
  void start(const std::string& threads = "1") {
    int to[2], from[2];
    ASSERT_EQ(::pipe2(to, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(from, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
      if (threads == "1") ::sched_setaffinity(0, sizeof one, &one);
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::execl(TARGETS "spans", "spans", threads.c_str(), nullptr);
      ::_exit(127);
    }
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
    ::close(to[0]);
    ::close(from[1]);
    ASSERT_TRUE(does("ready"));
    auto target = target::RemoteTarget::open(pid_);
    ASSERT_TRUE(target);
    target_ = *std::move(target);
    auto image = image::load_process(pid_, target_->reader());
    ASSERT_TRUE(image);
    image_ = *std::move(image);
  }

  // Arms the calls of a function, or a span between two, and opens the session as any controller
  // can.
  void time(const char* function, Gap gap) {
    keep(placement::plan_probes(image_, matches(function), placement::Kind::latency), gap);
  }
  void span(const char* start, const char* end, Gap gap) {
    const std::vector<image::Match> points = {matches(start).at(0), matches(end).at(0)};
    const placement::SpanMatches both = {"span", {points[0]}, {points[1]}};
    auto set = placement::plan_probes(image_, points, placement::Kind::span);
    placement::set_spans(set, {&both, 1});
    keep(std::move(set), gap);
  }

  void ask(const std::string& line) {
    const std::string whole = line + "\n";
    ASSERT_EQ(::write(in_.get(), whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
  }
  std::string answer() {
    std::string line;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  bool does(const std::string& line) {
    ask(line);
    return answer() == "done";
  }

  void reset() {
    const auto done = engine::reset(*target_, *file_, journal_);
    ASSERT_TRUE(done);
    EXPECT_FALSE(done->is_torn);
    EXPECT_GT(done->stopped_ns, 0u);
  }
  uint64_t recorded(uint64_t histogram = 0) const {
    return file_->read_histograms(journal_).at(histogram).count();
  }
  uint64_t lost(layout::Loss loss) const { return file_->read_losses(journal_).at(0)[loss]; }

  // The bytes at all sites.
  std::vector<uint8_t> text() const {
    std::vector<uint8_t> bytes;
    for (const layout::SiteEntry& site : journal_.sites) {
      const size_t at = bytes.size();
      bytes.resize(at + site.length);
      EXPECT_TRUE(target_->memory().read(site.address, std::span(bytes).subspan(at)));
    }
    return bytes;
  }
  // By TID, of the threads that have an entry: is it marked as that of an ended one?
  std::map<uint32_t, bool> entries() const {
    std::map<uint32_t, bool> entries;
    for_each_entry([&](const layout::ThreadEntry& entry, uint64_t) {
      entries[entry.tid] = entry.dead == entry.tid;
    });
    return entries;
  }
  // How many threads have a start of what the entry's first word is for.
  uint64_t started() const {
    uint64_t n = 0;
    for_each_entry([&](const layout::ThreadEntry&, uint64_t start) { n += start != 0; });
    return n;
  }

  pid_t pid_ = 0;
  std::optional<target::RemoteTarget> target_;
  std::optional<ledger::SessionFile> file_;
  layout::Session journal_;

 private:
  std::vector<image::Match> matches(const std::string& function) {
    const std::vector wanted = {
        *image::Pattern::parse("spans:" + function, image::PatternSyntax::glob)};
    return image::match_patterns(image_, wanted, {}).matches;
  }
  void keep(placement::ProbeSet set, Gap gap) {
    ArmOptions options;
    options.has_switches = true;
    options.statistic = "statistic";
    options.gap = gap;
    auto session = Session::arm(*target_, image_, std::move(set), options);
    ASSERT_TRUE(session);
    ASSERT_GT(session->report().armed, 0u);
    ASSERT_TRUE(session->keep());
    const auto found = ledger::find_sessions(pid_).sessions;
    ASSERT_EQ(found.size(), 1u);
    auto file =
        ledger::SessionFile::open(found[0].file.path(), ledger::SessionFile::Lock::exclusive);
    ASSERT_TRUE(file);
    file_ = *std::move(file);
    journal_ = *file_->read();
  }
  template <class F>
  void for_each_entry(const F& f) const {
    const auto table = thread_table(target_->memory(), journal_);
    ASSERT_TRUE(table);
    std::vector<uint8_t> bytes(table->size());
    ASSERT_TRUE(target_->memory().read(table->begin, bytes));
    for (uint64_t i = 0; i < layout::kThreadEntries; ++i) {
      layout::ThreadEntry entry;
      uint64_t start = 0;
      std::memcpy(&entry, &bytes[i * table->entry_size], sizeof entry);
      std::memcpy(&start, &bytes[i * table->entry_size + sizeof entry], sizeof start);
      if (entry.owner != 0) f(entry, start);
    }
  }

  const Scratch folder_;
  Fd in_, out_;
  image::ProcessImage image_;
};

TEST_F(ResetOf, ASpanForgetsItsStarts) {
  start();
  span("begin", "end", Gap::none);
  ASSERT_TRUE(does("pairs 5"));
  ASSERT_TRUE(does("begins 1"));
  EXPECT_EQ(started(), 1u);
  const auto before = text();
  reset();
  EXPECT_EQ(text(), before);
  EXPECT_EQ(started(), 0u);
  EXPECT_EQ(recorded(), 0u);
  ASSERT_TRUE(does("ends 1"));
  EXPECT_EQ(recorded(), 0u);
  EXPECT_EQ(lost(layout::Loss::unmatched), 1u);
  ASSERT_TRUE(does("pairs 3"));
  EXPECT_EQ(recorded(), 3u);
}

TEST_F(ResetOf, ATimedFunctionDropsTheCallInFlightAndFreesItsSlot) {
  start();
  time("held", Gap::cpu);
  const auto before = text();
  ask("held 1");
  ASSERT_EQ(answer(), "held");
  reset();
  ASSERT_TRUE(does("and on")) << "the call returns";
  EXPECT_EQ(text(), before);
  EXPECT_EQ(recorded(), 0u);
  EXPECT_EQ(lost(layout::Loss::missed), 0u);
  const auto* data = find_mapping(journal_, layout::MappingEntry::Kind::runtime_data);
  ASSERT_NE(data, nullptr);
  const auto in_use = [&] {
    const SlotUse use = look_at_slots(target_->memory(), *data);
    return std::count_if(use.slots.begin(), use.slots.end(),
                         [](const layout::Slot& slot) { return slot.return_address != 0; });
  };
  EXPECT_EQ(in_use(), 0);
  for (int i = 0; i < 2; ++i) {
    ask("held 1");
    ASSERT_EQ(answer(), "held");
    EXPECT_EQ(in_use(), 1);
    ASSERT_TRUE(does("and on"));
  }
  EXPECT_EQ(recorded(), 2u);
  EXPECT_EQ(recorded(1), 1u) << "the gap between these two; none began with the dropped call";
}

TEST_F(ResetOf, GapsForgetsTheEndBeforeTheNextOne) {
  for (const Gap gap : {Gap::cpu, Gap::thread}) {
    start();
    time("begin", gap);
    ASSERT_TRUE(does("begins 5"));
    EXPECT_EQ(recorded(1), 4u);
    reset();
    if (gap == Gap::thread) {
      EXPECT_EQ(started(), 0u);
    }
    ASSERT_TRUE(does("begins 3"));
    EXPECT_EQ(recorded(0), 3u);
    EXPECT_EQ(recorded(1), 2u);
    file_.reset();
    end();
  }
}

TEST_F(ResetOf, AFunctionThatThreadsCallAllTheTimeIsExactFromThenOn) {
  start("4");
  time("begin", Gap::cpu);
  constexpr uint64_t kPairs = 300'000, kThreads = 4;
  ask("pairs " + std::to_string(kPairs));
  uint64_t resets = 0;
  while (recorded() == 0) ::sched_yield();
  for (; resets < 10; ++resets) {
    const auto done = engine::reset(*target_, *file_, journal_);
    ASSERT_TRUE(done);
    EXPECT_LE(recorded(), kThreads * kPairs);
  }
  EXPECT_EQ(answer(), "done");
  EXPECT_LT(recorded(), kThreads * kPairs);
  EXPECT_EQ(lost(layout::Loss::missed), 0u);
  reset();
  ASSERT_TRUE(does("pairs 1000"));
  EXPECT_EQ(recorded(), kThreads * 1000);
  EXPECT_LT(recorded(1), kThreads * 1000);
  EXPECT_EQ(journal_.header.resets, resets + 1);
}

TEST_F(ResetOf, AProcessThatHasEndedFailsAndChangesNothing) {
  start();
  time("begin", Gap::cpu);
  ASSERT_TRUE(does("begins 5"));
  end();
  const auto failed = engine::reset(*target_, *file_, journal_);
  EXPECT_FALSE(failed);
  EXPECT_EQ(journal_.header.resets, 0u);
  EXPECT_EQ(recorded(), 5u);
}

TEST_F(ResetOf, SweepingMarksTheEntriesOfEndedThreadsOnly) {
  start();
  span("begin", "end", Gap::none);
  ASSERT_TRUE(does("begins 1"));  // of the main thread
  ASSERT_TRUE(does("short 5"));
  ASSERT_EQ(entries().size(), 6u);
  for (const auto& [tid, is_dead] : entries()) EXPECT_FALSE(is_dead) << tid;
  sweep_threads(pid_, target_->memory(), journal_);
  for (const auto& [tid, is_dead] : entries())
    EXPECT_EQ(is_dead, tid != static_cast<uint32_t>(pid_)) << tid;
  EXPECT_EQ(started(), 1u);
  ASSERT_TRUE(does("ends 1"));
  EXPECT_EQ(lost(layout::Loss::unmatched), 0u) << "the main thread's span is still there";
}

}  // namespace
}  // namespace pinprick::engine
