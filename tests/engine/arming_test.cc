// What arming does about a target that went on since it was looked at.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "base/fd.h"
#include "engine/session.h"
#include "ledger/discovery.h"
#include "scratch.h"

namespace pinprick::engine {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

// tests/targets/punned.c, on one thread.
class Punned {
 public:
  explicit Punned(const char* program, const char* wall = nullptr) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execl(program, program, "1", wall, nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Punned() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  // Its results; waits until there are more.
  bool is_right() {
    char answer[3] = {};
    return ::write(in_.get(), "\n", 1) == 1 && ::read(out_.get(), answer, 3) == 3 &&
           answer[0] == 'o';
  }

 private:
  pid_t pid_ = 0;
  Fd in_, out_;
};

class Arming : public testing::Test {
 protected:
  Arming() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  void look_at(Punned& program) {
    ASSERT_NO_FATAL_FAILURE(open(program));
    ASSERT_NO_FATAL_FAILURE(read_by(target_->reader()));
  }
  void open(Punned& program) {
    program_ = &program;
    ASSERT_TRUE(program.is_right());
    auto target = target::RemoteTarget::open(program.pid());
    ASSERT_TRUE(target) << "a child of one's own";
    target_ = *std::move(target);
  }
  void read_by(image::MemoryReader reader) {
    auto image = image::load_process(program_->pid(), std::move(reader));
    ASSERT_TRUE(image);
    image_ = *std::move(image);
  }
  void plan(std::initializer_list<const char*> names) {
    std::vector<image::Pattern> wanted;
    for (const char* name : names)
      wanted.push_back(*image::Pattern::parse(name, image::PatternSyntax::glob));
    auto matches = image::match_patterns(image_, wanted, {}).matches;
    ASSERT_EQ(matches.size(), names.size());
    set_ = placement::plan_probes(image_, std::move(matches), placement::Kind::count);
    ASSERT_EQ(set_.probes.size(), names.size());
  }
  // The names of those that were left out, by why.
  std::multimap<std::string_view, std::string> left_out_of_armed(size_t armed) {
    auto session = Session::arm(*std::move(target_), image_, std::move(set_), {});
    EXPECT_TRUE(session);
    if (!session) return {};
    EXPECT_EQ(session->report().armed, armed);
    std::multimap<std::string_view, std::string> skipped;
    for (const placement::Skipped& one : session->report().skipped)
      skipped.emplace(plan::name(one.refusal.reason), one.match.name());
    EXPECT_TRUE(program_->is_right());
    const auto disarmed = session->disarm();
    EXPECT_TRUE(disarmed && !disarmed->memory_left);
    EXPECT_TRUE(program_->is_right());
    return skipped;
  }

  const Scratch folder_;
  Punned* program_ = nullptr;
  std::optional<target::RemoteTarget> target_;
  image::ProcessImage image_;
  placement::ProbeSet set_;
};

TEST_F(Arming, LeavesOutPunsWhosePlaceIsTakenMeanwhileAndProbesTheRest) {
  Punned program(TARGETS "punned", "wall");
  ASSERT_NO_FATAL_FAILURE(look_at(program));
  // As if the wall had come after this look.
  ASSERT_EQ(std::erase_if(image_.maps, [](const auto& m) { return m.range.size() > 1 << 30; }), 1u);
  ASSERT_NO_FATAL_FAILURE(
      plan({"punned:one", "punned:edge", "punned:behind_one", "punned:looped"}));
  // behind_one, in which one's jump would end, is probed as well.
  EXPECT_THAT(left_out_of_armed(2),
              UnorderedElementsAre(Pair("out_of_reach", "one"), Pair("out_of_reach", "edge")));
}

// Threads are redirected to the original code by where the journal says that the stubs are.
TEST_F(Arming, SaysOfAPunWhoseDependencyLeadsNowhereThatItHasNoStub) {
  Punned program(TARGETS "punned_nopie");
  ASSERT_NO_FATAL_FAILURE(look_at(program));
  ASSERT_NO_FATAL_FAILURE(plan({"punned_nopie:one", "punned_nopie:prefixed"}));
  const placement::SitePatch& pun = set_.patches[set_.probes[0].patch];
  ASSERT_TRUE(pun.plan.ends_in_next_jump);
  const Address site = pun.site();
  set_.patches[*pun.plan.depends_on].plan.island =
      align_down(site, kPageSize);  // where the program is
  auto session = Session::arm(*std::move(target_), image_, std::move(set_), {});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().armed, 1u);
  const auto found = ledger::find_sessions(program.pid()).sessions;
  ASSERT_EQ(found.size(), 1u);
  size_t with_stub = 0;
  for (const layout::SiteEntry& entry : found[0].journal.sites) {
    with_stub += entry.displaced != 0 && entry.copy_distance != 0;
    if (entry.address == site) {
      EXPECT_EQ(entry.copy_distance, 0);
    }
  }
  EXPECT_GE(with_stub, 2u) << "the other one and what it depends on";
  EXPECT_TRUE(program.is_right());
  EXPECT_TRUE(session->disarm());
  EXPECT_TRUE(program.is_right());
}

// Not by ptrace: this one is not stopped.
bool change_byte(pid_t pid, Address address, uint8_t from, uint8_t to) {
  const auto memory = open_file("/proc/" + std::to_string(pid) + "/mem", O_RDWR);
  uint8_t byte = 0;
  const auto at = static_cast<off_t>(address);
  return memory && ::pread(memory->get(), &byte, 1, at) == 1 && byte == from &&
         ::pwrite(memory->get(), &to, 1, at) == 1;
}

TEST_F(Arming, LeavesOutAPunThatWouldEndInAJumpThatIsNotWritten) {
  Punned program(TARGETS "punned_nopie");
  ASSERT_NO_FATAL_FAILURE(look_at(program));
  ASSERT_NO_FATAL_FAILURE(plan({"punned_nopie:one", "punned_nopie:prefixed"}));
  for (const placement::Probe& probe : set_.probes)
    ASSERT_TRUE(set_.patches[probe.patch].plan.ends_in_next_jump) << set_.match_of(probe).name();
  // behind_one begins with `xor %eax,%eax`, of which there are two forms.
  const Address behind_one = set_.match_of(set_.probes[0]).site + 1;
  ASSERT_TRUE(change_byte(program.pid(), behind_one, 0x31, 0x33));
  EXPECT_THAT(left_out_of_armed(1), ElementsAre(Pair(testing::_, "one")));
  EXPECT_TRUE(change_byte(program.pid(), behind_one, 0x33, 0x31)) << "as it was";
}

// Each instruction of the functions.
void mean_each_instruction(image::ProcessImage& image, std::initializer_list<const char*> names,
                           placement::ProbeSet& set) {
  std::vector<image::Pattern> wanted;
  for (const char* name : names)
    wanted.push_back(*image::Pattern::parse(name, image::PatternSyntax::glob));
  auto matches = image::match_patterns(image, wanted, {}).matches;
  image::mean_each_instruction(matches);
  set = placement::plan_probes(image, placement::instructions_of(matches), placement::Kind::count);
}

// As if the bytes had changed since they were read, or had been read wrongly. Wherever the wrong
// byte is, jumps elsewhere in the function may be in the middle of an instruction.
TEST_F(Arming, LeavesOutFunctionsThatWerePlannedFromOtherBytesThanAreThere) {
  Punned program(TARGETS "punned_nopie");
  ASSERT_NO_FATAL_FAILURE(look_at(program));
  const auto looped = image::match_patterns(
      image_, {*image::Pattern::parse("punned_nopie:looped", image::PatternSyntax::glob)}, {});
  ASSERT_EQ(looped.matches.size(), 1u);
  const Address begin = looped.matches[0].site;
  const Address end = begin + looped.matches[0].function->range.size();
  int refused = 0;
  for (Address wrong = begin; wrong < end; ++wrong) {
    SCOPED_TRACE(wrong - begin);
    ASSERT_NO_FATAL_FAILURE(open(program));
    ASSERT_NO_FATAL_FAILURE(read_by([reader = target_->reader(), wrong](auto at, auto out) {
      if (!reader(at, out)) return false;
      if (wrong >= at && wrong < at + out.size()) out[wrong - at] ^= 0x11;
      return true;
    }));
    mean_each_instruction(image_, {"punned_nopie:looped"}, set_);
    // Of the other one, at the start of main(), nothing was read wrongly.
    const size_t planned = set_.probes.size();
    refused += planned == 0 ? 1 : 0;
    if (planned == 0) continue;
    const auto skipped = left_out_of_armed(0);
    EXPECT_EQ(skipped.count("text_changed") + skipped.count("thread_inside") +
                  skipped.count("out_of_reach"),
              planned);
  }
  EXPECT_LT(refused, 10) << "it was hardly ever planned";
}

// Where ours is to be mapped the program maps something, and the other way round.
TEST_F(Arming, ChoosesOtherAddressesIfTheProgramTakesThoseMeanwhile) {
  Punned program(TARGETS "walls");
  int armed = 0;
  for (int round = 0; round < 30; ++round) {
    ASSERT_NO_FATAL_FAILURE(look_at(program));
    ASSERT_NO_FATAL_FAILURE(plan({"walls:tick"}));
    auto session = Session::arm(*std::move(target_), image_, std::move(set_), {});
    EXPECT_TRUE(program.is_right());
    if (!session) {
      const auto* refused = std::get_if<target::AttachError>(&session.error());
      ASSERT_TRUE(refused);
      // Each time that it was tried.
      EXPECT_EQ(refused->cause, target::AttachCause::no_address_space) << refused->detail;
      continue;
    }
    ++armed;
    EXPECT_EQ(session->counters()[session->probes()[0].index], 1000u);
    const auto disarmed = session->disarm();
    EXPECT_TRUE(disarmed && !disarmed->memory_left);
    EXPECT_TRUE(program.is_right());
  }
  EXPECT_GT(armed, 0);
  EXPECT_TRUE(ledger::find_sessions(program.pid()).sessions.empty());
}

// A program with libpinprick (tests/targets/probed.cc), whose answers are lines.
class Probed {
 public:
  Probed() {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      ::execl(TARGETS "probed", "probed", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
  }
  ~Probed() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  std::string answer(std::string line) {
    line += '\n';
    if (::write(in_.get(), line.data(), line.size()) != std::ssize(line)) return {};
    std::string text;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }

 private:
  pid_t pid_ = 0;
  Fd in_, out_;
};

// The plan rests on the program's own jump, which is not there any more: nothing may be "restored".
TEST_F(Arming, BesideTheFirstOwnProbeOfTheProgramIsRefusedAndLeavesNothing) {
  if (::access(TARGETS "probed", X_OK) != 0) GTEST_SKIP() << "built without libpinprick";
  Probed program;
  ASSERT_EQ(program.answer("call"), "called 0 0");
  auto target = target::RemoteTarget::open(program.pid());
  ASSERT_TRUE(target);
  auto image = image::load_process(program.pid(), target->reader());
  ASSERT_TRUE(image);
  image_ = *std::move(image);
  ASSERT_EQ(program.answer("place"), "placed");
  ASSERT_NO_FATAL_FAILURE(plan({"probed:work"}));
  ASSERT_EQ(program.answer("remove"), "removed");
  const auto session = Session::arm(*std::move(target), image_, std::move(set_), {});
  ASSERT_FALSE(session);
  const auto* refused = std::get_if<target::AttachError>(&session.error());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->cause, target::AttachCause::probes_itself_now);
  EXPECT_TRUE(ledger::find_sessions(program.pid()).sessions.empty());
  EXPECT_EQ(program.answer("call"), "called 0 0");
}

// The hijacked thread has its area where glibc puts it, or where it does not: the other one has it
// elsewhere, which is found when all of them are stopped.
TEST_F(Arming, CountsExactlyWhereThreadsHaveTheirRseqAreasInDifferentPlaces) {
  Punned program(TARGETS "odd_rseq");
  ASSERT_NO_FATAL_FAILURE(look_at(program));
  ASSERT_NO_FATAL_FAILURE(plan({"odd_rseq:tick"}));
  auto session = Session::arm(*std::move(target_), image_, std::move(set_), {});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().armed, 1u);
  EXPECT_TRUE(session->report().locked);
  EXPECT_TRUE(program.is_right());
  EXPECT_EQ(session->counters()[session->probes()[0].index], 2000u);
  const auto disarmed = session->disarm();
  EXPECT_TRUE(disarmed && !disarmed->memory_left);
  EXPECT_TRUE(program.is_right());
}

TEST_F(Arming, TimesExactlyWhereThreadsHaveTheirRseqAreasInDifferentPlaces) {
  Punned program(TARGETS "odd_rseq");
  ASSERT_NO_FATAL_FAILURE(look_at(program));
  auto matches =
      image::match_patterns(
          image_, {{*image::Pattern::parse("odd_rseq:tick", image::PatternSyntax::glob)}}, {})
          .matches;
  set_ = placement::plan_probes(image_, std::move(matches), placement::Kind::latency);
  auto session = Session::arm(*std::move(target_), image_, std::move(set_), {});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->report().armed, 1u);
  EXPECT_TRUE(session->report().locked);
  EXPECT_TRUE(program.is_right());
  EXPECT_EQ(session->histograms()[session->probes()[0].index].count(), 2000u);
  const auto disarmed = session->disarm();
  EXPECT_TRUE(disarmed && !disarmed->memory_left);
  EXPECT_TRUE(program.is_right());
}

}  // namespace
}  // namespace pinprick::engine
