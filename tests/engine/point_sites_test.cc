// Nops of tracepoints, as a controller leaves them that dies at some moment.
#include "engine/text/point_sites.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "arch/code.h"
#include "base/fd.h"
#include "engine/disarm.h"
#include "engine/session.h"
#include "ledger/discovery.h"
#include "patch/point_nop.h"
#include "scratch.h"

namespace pinprick::engine {
namespace {

using layout::SemaphoreEntry;
using patch::PointNop;
using Progress = SemaphoreEntry::Progress;

// tests/targets/orders.c, whose point shop:order has two nops.
class PointSites : public testing::Test {
 protected:
  PointSites() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  ~PointSites() override {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void SetUp() override {
    int to[2], from[2];
    ASSERT_EQ(::pipe2(to, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(from, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::execl(TARGETS "orders", "orders", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
    ASSERT_EQ(work_off(2), "orders 2 order 0 mixed 0 first 0");
    target_ = *target::RemoteTarget::open(pid_);
    image_ = *image::load_process(pid_, target_->reader());
  }

  std::string work_off(int orders) {
    const std::string text = std::to_string(orders) + "\n";
    if (::write(in_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      return {};
    std::string line;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // In a controller that dies when it has armed.
  void arm_and_die() {
    const pid_t controller = ::fork();
    if (controller == 0) {
      auto target = target::RemoteTarget::open(pid_);
      auto image = image::load_process(pid_, target->reader());
      auto matches =
          image::match_patterns(
              *image, {*image::Pattern::parse("usdt:shop:order", image::PatternSyntax::glob)}, {})
              .matches;
      auto set = placement::plan_probes(*image, std::move(matches), placement::Kind::count);
      auto session = Session::arm(*std::move(target), *image, std::move(set), {});
      ::_exit(session && session->report().armed != 0 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(controller, &status, 0);
    ASSERT_EQ(status, 0) << "not armed";
    auto found = ledger::find_sessions(pid_).sessions;
    ASSERT_EQ(found.size(), 1u);
    auto file =
        ledger::SessionFile::open(found[0].file.path(), ledger::SessionFile::Lock::exclusive);
    ASSERT_TRUE(file);
    file_ = *std::move(file);
    journal_ = *file_->read();
    ASSERT_EQ(journal_.point_sites.size(), 2u);
    ASSERT_EQ(journal_.semaphores.size(), 1u);
  }
  PointNop nop(size_t i) const {
    const layout::PointSiteEntry& site = journal_.point_sites[i];
    return patch::look_at_nop(target_->memory(), site.address,
                              site.address + static_cast<uint64_t>(int64_t{site.block}));
  }
  void set_nop(size_t i, PointNop state) {
    const layout::PointSiteEntry& site = journal_.point_sites[i];
    const Address block = site.address + static_cast<uint64_t>(int64_t{site.block});
    const auto bytes = arch::encode_link(site.address, state == PointNop::on ? block : 0);
    ASSERT_TRUE(target_->memory().write(site.address, *bytes));
  }
  uint16_t count() const {
    uint16_t value = 0;
    static_cast<void>(target_->memory().read_value(journal_.semaphores[0].address, value));
    return value;
  }
  // As if the controller had died at another moment.
  void pretend(Progress progress, uint16_t before, uint16_t value) {
    journal_.semaphores[0].progress = progress;
    journal_.semaphores[0].before = before;
    ASSERT_TRUE(file_->write_semaphores(journal_));
    journal_ = *file_->read();
    ASSERT_TRUE(target_->memory().write_value(journal_.semaphores[0].address, value));
  }
  void disarm() {
    const auto report = engine::disarm(*target_, image_, *file_, journal_);
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->memory_left);
    EXPECT_TRUE(ledger::find_sessions(pid_).sessions.empty());
  }

  const Scratch folder_;
  pid_t pid_ = 0;
  Fd in_, out_;
  std::optional<target::RemoteTarget> target_;
  image::ProcessImage image_;
  std::optional<ledger::SessionFile> file_;
  layout::Session journal_;
};

TEST_F(PointSites, AreJumpsAsLongAsTheControllersProbesAreIn) {
  arm_and_die();
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(nop(0), PointNop::on);
  EXPECT_EQ(nop(1), PointNop::on);
  EXPECT_EQ(work_off(10), "orders 12 order 10 mixed 0 first 0");
  disarm();
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(nop(0), PointNop::off);
  EXPECT_EQ(nop(1), PointNop::off);
  EXPECT_EQ(work_off(10), "orders 22 order 10 mixed 0 first 0");
}

TEST_F(PointSites, FollowTheCountWheneverTheControllerDied) {
  struct Moment {
    Progress progress;
    uint16_t before, value;
    PointNop first, second;
    uint16_t expected;
    const char* died;
  };
  const Moment moments[] = {
      {Progress::raising, 0, 0, PointNop::off, PointNop::off, 0, "before the count was raised"},
      {Progress::raising, 0, 1, PointNop::off, PointNop::off, 0, "before the first nop"},
      {Progress::raising, 0, 1, PointNop::on, PointNop::off, 0, "between two nops"},
      {Progress::raising, 0, 1, PointNop::on, PointNop::on, 0, "before the file was written"},
      {Progress::raising, 1, 2, PointNop::on, PointNop::on, 1, "and others want the point"},
      {Progress::raised, 0, 1, PointNop::on, PointNop::on, 0, "while the probes were in"},
      {Progress::raised, 1, 2, PointNop::on, PointNop::on, 1, "while others had it on, too"},
      {Progress::lowering, 1, 1, PointNop::on, PointNop::on, 0, "before the count was lowered"},
      {Progress::lowering, 1, 0, PointNop::on, PointNop::on, 0, "in a disarm, before all nops"},
      {Progress::lowering, 1, 0, PointNop::off, PointNop::on, 0, "in a disarm, between nops"},
      {Progress::lowering, 2, 1, PointNop::on, PointNop::on, 1, "in a disarm, with others"},
  };
  for (const Moment& moment : moments) {
    SCOPED_TRACE(moment.died);
    arm_and_die();
    pretend(moment.progress, moment.before, moment.value);
    set_nop(0, moment.first);
    set_nop(1, moment.second);
    disarm();
    EXPECT_EQ(count(), moment.expected);
    const PointNop expected = moment.expected == 0 ? PointNop::off : PointNop::on;
    EXPECT_EQ(nop(0), expected);
    EXPECT_EQ(nop(1), expected);
    ASSERT_TRUE(target_->memory().write_value(journal_.semaphores[0].address, uint16_t{0}));
    set_nop(0, PointNop::off);
    set_nop(1, PointNop::off);
  }
}

// The breakpoint is the first step of a change that the program makes under running threads.
TEST_F(PointSites, AreLeftAloneInTheMiddleOfTheProgramsOwnChange) {
  arm_and_die();
  const Address changing = journal_.point_sites[0].address;
  ASSERT_TRUE(target_->memory().write_value(changing, arch::kBreakpoint));
  disarm();
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(nop(0), PointNop::changing);
  EXPECT_EQ(nop(1), PointNop::off);
}

TEST_F(PointSites, AreLeftAloneIfOthersHaveWrittenThere) {
  arm_and_die();
  const auto jump =
      arch::encode_link(journal_.point_sites[0].address, journal_.point_sites[0].address + 64);
  ASSERT_TRUE(target_->memory().write(journal_.point_sites[0].address, *jump));
  disarm();
  EXPECT_EQ(nop(0), PointNop::other);
  EXPECT_EQ(nop(1), PointNop::off);
}

}  // namespace
}  // namespace pinprick::engine
