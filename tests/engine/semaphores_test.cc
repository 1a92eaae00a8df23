// Semaphores of SDT points, as a controller leaves them that dies at some moment.
#include "engine/text/semaphores.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "engine/disarm.h"
#include "engine/owners/shared_sites.h"
#include "engine/session.h"
#include "ledger/discovery.h"
#include "scratch.h"

namespace pinprick::engine {
namespace {

using layout::SemaphoreEntry;
using Progress = SemaphoreEntry::Progress;

// tests/targets/image/points.c, whose point shop:price has a semaphore.
class Semaphores : public testing::Test {
 protected:
  Semaphores() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  ~Semaphores() override {
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
      ::execl(TARGETS "points", "points", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
    ASSERT_EQ(semaphore(), 0);
    target_ = *target::RemoteTarget::open(pid_);
    image_ = *image::load_process(pid_, target_->reader());
  }

  // As the program itself has it.
  int semaphore() {
    if (::write(in_.get(), "0\n", 2) != 2) return -1;
    std::string line;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return std::stoi(line.substr(line.rfind(' ') + 1));
  }
  Address address() {
    for (const image::SdtSite& site : image_.objects.front()->sdt_sites())
      if (site.semaphore != 0) return site.semaphore + image_.objects.front()->bias();
    return 0;
  }
  void set(uint16_t value) {
    ASSERT_TRUE(target_->memory().write_value(address(), value));
    ASSERT_EQ(semaphore(), value);
  }

  static std::vector<image::Match> points_of(image::ProcessImage& image,
                                             const std::string& pattern = "usdt:shop:*") {
    return image::match_patterns(image,
                                 {*image::Pattern::parse(pattern, image::PatternSyntax::glob)}, {})
        .matches;
  }

  // In a controller that dies when it has armed.
  void arm_and_die(const std::string& pattern = "usdt:shop:*") {
    const pid_t controller = ::fork();
    if (controller == 0) {
      auto target = target::RemoteTarget::open(pid_);
      auto image = image::load_process(pid_, target->reader());
      auto set = placement::plan_probes(*image, points_of(*image, pattern), placement::Kind::count);
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
  }
  // As if the controller had died at another moment.
  void pretend(Progress progress, uint16_t before, uint16_t value) {
    journal_.semaphores[0].progress = progress;
    journal_.semaphores[0].before = before;
    ASSERT_TRUE(file_->write_semaphores(journal_));
    journal_ = *file_->read();
    set(value);
  }
  // Another owner arms the same, and leaves after `meanwhile`.
  void beside_another(const std::function<void()>& meanwhile) {
    const auto others =
        std::make_shared<const OtherSites>(OtherSites::find(pid_, target_->memory()));
    auto image = image::load_process(pid_, reader_without_jumps(others, *target_));
    ASSERT_TRUE(image);
    auto set = placement::plan_probes(*image, points_of(*image), placement::Kind::count);
    auto other = Session::arm(*target_, *image, std::move(set), {});
    ASSERT_TRUE(other);
    ASSERT_EQ(semaphore(), 2);
    meanwhile();
    const std::string path = file_->path();
    file_.reset();  // and with it the lock of one that lives
    ASSERT_TRUE(other->disarm());
    auto file = ledger::SessionFile::open(path, ledger::SessionFile::Lock::exclusive);
    ASSERT_TRUE(file);
    file_ = *std::move(file);
    journal_ = *file_->read();
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

TEST_F(Semaphores, AreRaisedOnceForAllSitesAndNotedInTheFile) {
  set(3);
  arm_and_die();
  EXPECT_EQ(semaphore(), 4);
  ASSERT_EQ(journal_.semaphores.size(), 1u);
  EXPECT_EQ(journal_.semaphores[0].address, address());
  EXPECT_EQ(journal_.semaphores[0].progress, Progress::raised);
  EXPECT_EQ(journal_.semaphores[0].before, 3);
  disarm();
  EXPECT_EQ(semaphore(), 3);
}

TEST_F(Semaphores, OfPointsThatAreNotProbedAreNotInTheFile) {
  arm_and_die("usdt:shop:order");
  EXPECT_TRUE(journal_.semaphores.empty());
  EXPECT_EQ(semaphore(), 0);
  disarm();
}

TEST_F(Semaphores, ThatAreFullStayAsTheyAre) {
  set(UINT16_MAX);
  arm_and_die();
  EXPECT_EQ(semaphore(), UINT16_MAX);
  EXPECT_EQ(journal_.semaphores[0].progress, Progress::untouched);
  disarm();
  EXPECT_EQ(semaphore(), UINT16_MAX);
}

TEST_F(Semaphores, ComeOutRightWhereverTheControllerDied) {
  struct Moment {
    Progress progress;
    uint16_t before, value;
    int expected;
    const char* what;
  };
  constexpr Moment kMoments[] = {
      {Progress::untouched, 0, 0, 0, "before it was raised"},
      {Progress::untouched, 0, 7, 7, "before it was raised, with others"},
      {Progress::raising, 0, 0, 0, "with the file written"},
      {Progress::raising, 3, 3, 3, "with the file written, with others"},
      {Progress::raising, 0, 1, 0, "with the semaphore raised"},
      {Progress::raising, 3, 4, 3, "with the semaphore raised, with others"},
      {Progress::raising, 3, 2, 2, "and others have lowered theirs: it proves nothing"},
      {Progress::raised, 0, 1, 0, "later"},
      {Progress::raised, 0, 5, 4, "later, and others came"},
      {Progress::raised, 4, 1, 0, "later, and others left"},
      {Progress::raised, 0, 0, 0, "later, and the program has cleared it"},
      {Progress::lowering, 1, 1, 0, "in a disarm, with the file written"},
      {Progress::lowering, 1, 0, 0, "in a disarm, with the semaphore lowered"},
      {Progress::lowering, 4, 3, 3, "in a disarm, with the semaphore lowered, with others"},
      {Progress::lowered, 1, 0, 0, "after it was lowered"},
      {Progress::lowered, 1, 2, 2, "after it was lowered, and others came"},
  };
  for (const Moment& moment : kMoments) {
    SCOPED_TRACE(moment.what);
    set(0);
    arm_and_die();
    pretend(moment.progress, moment.before, moment.value);
    disarm();
    EXPECT_EQ(semaphore(), moment.expected);
  }
}

// The value alone does not say any more, then, what the dead one has done.
TEST_F(Semaphores, ComeOutRightIfAnotherOwnerLeavesBeforeTheDeadOneIsTakenOut) {
  struct Moment {
    Progress progress;
    uint16_t before, value;  // with the other owner's, which is 1
    const char* what;
  };
  constexpr Moment kMoments[] = {
      {Progress::raising, 1, 1, "with the file written"},
      {Progress::raising, 1, 2, "with the semaphore raised"},
      {Progress::lowering, 2, 2, "in a disarm, with the file written"},
      {Progress::lowering, 2, 1, "in a disarm, with the semaphore lowered"},
  };
  for (const Moment& moment : kMoments) {
    SCOPED_TRACE(moment.what);
    set(0);
    arm_and_die();
    beside_another([&] { pretend(moment.progress, moment.before, moment.value); });
    disarm();
    EXPECT_EQ(semaphore(), 0);
  }
}

// The dead owner's file may be of an object that was there before.
TEST_F(Semaphores, OfAnotherObjectThanADeadOwnersFileSaysAreNotNotedThere) {
  arm_and_die();
  beside_another([&] {
    for (layout::SiteEntry& site : journal_.sites) site.jump += 16;  // which is nowhere
    ASSERT_TRUE(file_->write_tables(journal_));
    pretend(Progress::raising, 1, 2);
  });
  EXPECT_EQ(journal_.semaphores[0].progress, Progress::raising);
  EXPECT_EQ(semaphore(), 1);
}

TEST_F(Semaphores, OfAnotherObjectThanTheFileSaysAreLeftAlone) {
  arm_and_die();
  for (const layout::SiteEntry& site : journal_.sites)
    ASSERT_TRUE(target_->memory().write(site.address, std::span(site.original).first(site.own)));
  disarm();
  EXPECT_EQ(semaphore(), 1);
}

TEST_F(Semaphores, AreLoweredWhenTheLastProbeOfTheirObjectIsRemovedFromASessionThatGoesOn) {
  auto matches = points_of(image_);
  const size_t points = matches.size();
  for (const image::Match& match : points_of(image_, "libc:puts")) matches.push_back(match);
  ASSERT_GT(matches.size(), points);
  ArmOptions options;
  options.has_switches = true;
  auto session = Session::arm(
      *target_, image_, placement::plan_probes(image_, std::move(matches), placement::Kind::count),
      options);
  ASSERT_TRUE(session);
  ASSERT_EQ(semaphore(), 1);
  std::vector<uint32_t> some, others;
  for (uint32_t i = 0; i < session->probes().size(); ++i) {
    const bool is_point = session->match_of(session->probes()[i]).point != nullptr;
    if (is_point) (some.empty() ? some : others).push_back(i);
  }
  ASSERT_FALSE(others.empty());
  ASSERT_TRUE(session->remove(some));
  EXPECT_EQ(semaphore(), 1) << "others are there";
  ASSERT_TRUE(session->remove(others));
  EXPECT_EQ(semaphore(), 0);
  ASSERT_TRUE(session->disarm());
  EXPECT_EQ(semaphore(), 0);
}

TEST_F(Semaphores, InMemoryThatIsNotThereAnyMoreAreForgotten) {
  arm_and_die();
  journal_.semaphores[0].address = 0x1000;
  disarm();
  EXPECT_EQ(semaphore(), 1);
}

}  // namespace
}  // namespace pinprick::engine
