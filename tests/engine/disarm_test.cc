// What a disarm does about a target that it cannot stop a second time, and how long it waits.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "engine/owners/shared_sites.h"
#include "engine/session.h"
#include "engine/watch/providing.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "patch/text_edit.h"
#include "patch/thread_stacks.h"
#include "scratch.h"
#include "target/procfs.h"
#include "target/stop.h"

namespace pinprick::engine {
namespace {

constexpr uint64_t kForever = 600'000'000'000;

std::vector<Range> code_of(const layout::Session& journal) {
  std::vector<Range> code;
  for (const layout::MappingEntry& entry : journal.mappings)
    if (layout::is_code(entry.kind)) code.push_back({entry.address, entry.address + entry.size});
  return code;
}

// tests/targets/held.c under the probes of a controller that is gone, with a signal handler that
// will return into one of the stubs, and a thread that can be made to hang in the kernel.
class Disarm : public testing::Test {
 protected:
  Disarm() : fifo_(folder_ / "fifo") {
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    EXPECT_EQ(::mkfifo(fifo_.c_str(), 0600), 0);
  }
  ~Disarm() override {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void SetUp() override {
    start();
    ASSERT_TRUE(hears("ready\n"));
    const pid_t controller = ::fork();
    if (controller == 0) ::_exit(arm() ? 0 : 1);
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
    auto target = target::RemoteTarget::open(pid_);
    ASSERT_TRUE(target);
    target_ = *std::move(target);
    image_ = *image::load_process(pid_, target_->reader());
    while (!is_held_in_a_stub()) {
      ::kill(pid_, SIGUSR1);
      ASSERT_TRUE(hears("held\n"));
      if (is_held_in_a_stub()) break;
      ASSERT_TRUE(goes_on());
    }
  }

  bool goes_on() { return ::write(in_.get(), "\n", 1) == 1 && hears("on\n"); }

  // All but the hooks.
  bool has_probes() const {
    return std::any_of(journal_.sites.begin(), journal_.sites.end(), [&](const auto& site) {
      return site.phase != layout::SiteEntry::Phase::unwinder_hook && is_armed(site);
    });
  }
  bool is_armed(const layout::SiteEntry& site) const {
    const auto edit = patch::arming(site);
    return patch::examine(target_->memory(), {&edit, 1})[0] == patch::EditOutcome::already;
  }
  std::vector<const layout::SiteEntry*> hooks() const {
    std::vector<const layout::SiteEntry*> hooks;
    for (const auto& site : journal_.sites)
      if (site.phase == layout::SiteEntry::Phase::unwinder_hook) hooks.push_back(&site);
    return hooks;
  }

  // Makes the other thread hang until the descriptor is closed.
  Fd hang() {
    Fd fifo(::open(fifo_.c_str(), O_WRONLY | O_CLOEXEC));
    const auto hangs = [&] {
      const auto threads = target::list_threads(pid_);
      return std::any_of(threads.begin(), threads.end(), [&](pid_t tid) {
        const auto status = target::read_thread_status(pid_, tid);
        return status && status->state == 'D';
      });
    };
    while (!hangs()) ::sched_yield();
    return fifo;
  }

  // Another file of the same process, with the same contents. Returns its path.
  std::string copy_of_file() const {
    const std::string path = file_->path().substr(0, file_->path().rfind('/') + 1) +
                             ledger::session_file_name(pid_, target_->start_time(), 99);
    EXPECT_TRUE(std::filesystem::copy_file(file_->path(), path));
    return path;
  }

  Result<DisarmReport, ledger::SessionError> disarm(uint64_t timeout_ns) {
    return engine::disarm(*target_, image_, *file_, journal_, timeout_ns);
  }

  const Scratch folder_;
  const std::string fifo_;
  pid_t pid_ = 0;
  Fd in_, out_;
  std::optional<target::RemoteTarget> target_;
  image::ProcessImage image_;
  std::optional<ledger::SessionFile> file_;
  layout::Session journal_;

 private:
  void start() {
    int to[2], from[2];
    ASSERT_EQ(::pipe2(to, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(from, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::execl(TARGETS "held", "held", fifo_.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  bool hears(const std::string& line) {
    std::string heard(line.size(), '\0');
    return ::read(out_.get(), heard.data(), heard.size()) == static_cast<ssize_t>(line.size()) &&
           heard == line;
  }
  bool arm() const {
    auto target = target::RemoteTarget::open(pid_);
    auto image = image::load_process(pid_, target->reader());
    const auto wanted = {*image::Pattern::parse("held:spin", image::PatternSyntax::glob)};
    auto matches = image::match_patterns(*image, std::vector(wanted), {}).matches;
    image::mean_each_instruction(matches);
    auto set = placement::plan_probes(*image, std::move(matches), placement::Kind::count);
    auto session = Session::arm(*std::move(target), *image, std::move(set), {});
    if (!session || session->report().armed == 0) return false;
    ::_exit(0);  // and leaves all that as it is
  }
  bool is_held_in_a_stub() const {
    auto stop = [&] {
      auto stopped = target::Stop::all_threads(pid_);
      EXPECT_TRUE(stopped);
      return *std::move(stopped);
    }();
    const auto maps = image::read_maps(pid_);
    const auto code = code_of(journal_);
    return std::any_of(stop.threads().begin(), stop.threads().end(), [&](const auto& thread) {
      return patch::signal_returns_to(*maps, target_->memory(), thread, code);
    });
  }
};

TEST_F(Disarm, LeavesHooksInPlaceInAProgramThatItCouldNotStopAgain) {
  ASSERT_FALSE(hooks().empty());
  std::optional<Result<DisarmReport, ledger::SessionError>> report;
  std::thread controller([&] { report.emplace(disarm(kForever)); });
  while (has_probes()) ::sched_yield();
  Fd fifo = hang();
  controller.join();
  ASSERT_TRUE(report->ok());
  EXPECT_TRUE((*report)->memory_left);
  EXPECT_EQ((*report)->threads_inside, 1u);
  EXPECT_EQ(journal_.header.state, layout::SessionState::armed);
  for (const layout::SiteEntry* hook : hooks()) EXPECT_TRUE(is_armed(*hook));

  fifo.reset();
  ASSERT_TRUE(goes_on());
  const auto rest = disarm(kForever);
  ASSERT_TRUE(rest);
  EXPECT_FALSE(rest->memory_left);
  for (const layout::SiteEntry* hook : hooks()) EXPECT_FALSE(is_armed(*hook));
  EXPECT_TRUE(ledger::find_sessions(pid_).sessions.empty());
}

TEST_F(Disarm, SaysOfAProgramThatEndsMeanwhileThatItIsGone) {
  std::optional<Result<DisarmReport, ledger::SessionError>> report;
  std::thread controller([&] { report.emplace(disarm(kForever)); });
  while (has_probes()) ::sched_yield();
  ::kill(pid_, SIGKILL);
  controller.join();
  ASSERT_TRUE(report->ok());
  EXPECT_TRUE((*report)->target_gone);
  EXPECT_FALSE((*report)->memory_left);
  EXPECT_TRUE(ledger::find_sessions(pid_).sessions.empty());
}

// A program that wrote to its session's file, and then executed one with more rights, must not have
// us write into that one. Another file with the same contents stands for that.
TEST_F(Disarm, WritesNothingIntoAProgramThatHasNotMappedTheFile) {
  const std::string path = copy_of_file();
  auto file = ledger::SessionFile::open(path, ledger::SessionFile::Lock::exclusive);
  ASSERT_TRUE(file);
  auto journal = *file->read();
  const auto report = engine::disarm(*target_, image_, *file, journal, kForever);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->target_gone);
  EXPECT_EQ(report->restored, 0u);
  EXPECT_TRUE(has_probes());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(file_->path()));
}

// A controller that adopts a session writes into the process, too: slots, and the code that they
// need.
TEST_F(Disarm, LeavesNothingToAdoptThatTheProgramHasNotMapped) {
  copy_of_file();
  EXPECT_TRUE(Adopted::all_of(pid_, target_->memory()).empty());
  file_.reset();  // and its lock
  EXPECT_EQ(Adopted::all_of(pid_, target_->memory()).size(), 1u);
}

// Nor does it count for the sites that others share with it.
TEST_F(Disarm, FindsNoSitesInAFileThatTheProgramHasNotMapped) {
  copy_of_file();
  EXPECT_TRUE(OtherSites::find(pid_, target_->memory(), file_->path()).empty());
  EXPECT_FALSE(OtherSites::find(pid_, target_->memory()).empty());
}

// With millions of probes the first look alone takes longer than that.
TEST_F(Disarm, LetsThreadsRunForAsLongAsItIsPatientHoweverLongTheyStoodStill) {
  constexpr uint64_t kTimeoutNs = 2'000'000'000;
  const pid_t controller = ::fork();
  if (controller == 0) {
    const auto report = disarm(kTimeoutNs);
    ::_exit(report && !report->memory_left ? 0 : 1);
  }
  const auto stands_still = [&] {
    const auto status = target::read_status(pid_);
    return status && status->tracer == controller && status->state == 't';
  };
  while (has_probes()) ::sched_yield();
  for (bool caught = false; !caught;) {
    while (!stands_still()) ::sched_yield();
    ::kill(controller, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(controller, &status, WUNTRACED), controller);
    ASSERT_TRUE(WIFSTOPPED(status)) << "it is held by the handler, and cannot be done";
    caught = stands_still();
    if (!caught) ::kill(controller, SIGCONT);
  }
  for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin <= kTimeoutNs;)
    ::sched_yield();
  ASSERT_EQ(::write(in_.get(), "\n", 1), 1);
  ::kill(controller, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(controller, &status, 0), controller);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace pinprick::engine
