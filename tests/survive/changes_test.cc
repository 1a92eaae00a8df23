// A controller that lives on and changes one probe again and again: 300 times, or CHANGE_ROUNDS in
// the environment. Each round is two changes: the probe is added, and removed.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "engine/session.h"
#include "image/store/object_store.h"
#include "ledger/turn.h"
#include "session/matching.h"
#include "session/planning.h"
#include "session/selection.h"
#include "session/subject.h"
#include "survive/footprint.h"
#include "survive/runtime_folder.h"
#include "survive/subjects.h"

namespace pinprick::survive {
namespace {

struct Probed {
  std::unique_ptr<image::ProcessImage> image;
  engine::Session session;
};

// Looks at the process, plans and arms, as every change does.
std::optional<Probed> add(pid_t pid, const std::string& pattern, placement::Kind kind,
                          image::ObjectStore& store) {
  session::SelectionSpec wanted;
  wanted.measures = {{{}, kind, {pattern}}};
  const auto selection = session::parse_selection(wanted);
  if (!selection) return std::nullopt;
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return std::nullopt;
  auto subject = session::look_at(pid, store);
  if (!subject) return std::nullopt;
  auto matches = session::match(*subject->image, *selection, session::Unmatched::refuse);
  if (!matches) return std::nullopt;
  auto set = placement::plan_probes(*subject->image, *std::move(matches), kind);
  auto session =
      engine::Session::arm(std::move(subject->target), *subject->image, std::move(set), {});
  if (!session || session->report().armed != 1) return std::nullopt;
  return Probed{std::move(subject->image), *std::move(session)};
}

// What this program has allocated. How much of its memory is resident differs from look to look by
// some megabytes.
uint64_t allocated() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

uint64_t size_of_files() {
  uint64_t size = 0;
  for (const auto& file : std::filesystem::directory_iterator(runtime_folder() + "/pinprick"))
    size += file.file_size();
  return size;
}

TEST(Changes, of_one_probe_beside_others_leave_nothing) {
  constexpr int kUsualRounds = 300;
  const std::string wanted = environment("CHANGE_ROUNDS");
  const int rounds = wanted.empty() ? kUsualRounds : std::stoi(wanted);
  runtime_folder();
  const auto subject = start_steady();
  image::ObjectStore store;
  const auto change = [&](int round) {
    const auto kind = round % 2 == 0 ? placement::Kind::count : placement::Kind::latency;
    auto probed = add(subject->pid(), "steady:step", kind, store);
    ASSERT_TRUE(probed) << "round " << round;
    const auto removed = probed->session.disarm();
    ASSERT_TRUE(removed) << "round " << round;
    ASSERT_FALSE(removed->memory_left) << "round " << round;
    ASSERT_EQ(removed->foreign, 0u) << "round " << round;
  };
  auto other = add(subject->pid(), "steady:descend", placement::Kind::count, store);
  ASSERT_TRUE(other);
  // The first changes make private copies of the pages that are written, and fill the store.
  for (int round = 0; round < 10; ++round) ASSERT_NO_FATAL_FAILURE(change(round));
  ASSERT_EQ(subject->check(), "");
  const Footprint before = footprint_of(subject->pid()), ours_before = footprint_of(::getpid());
  const uint64_t files_before = size_of_files(), allocated_before = allocated();
  for (int round = 0; round < rounds; ++round) ASSERT_NO_FATAL_FAILURE(change(round));
  const uint64_t allocated_after = allocated();
  EXPECT_EQ(subject->check(), "");
  const Footprint after = footprint_of(subject->pid()), ours_after = footprint_of(::getpid());
  EXPECT_EQ(differences(before, after), "");
  EXPECT_EQ(size_of_files(), files_before);
  EXPECT_EQ(ours_after.descriptors, ours_before.descriptors);
  constexpr uint64_t kNoiseKib = 64;       // stacks are deeper at times
  constexpr uint64_t kOurNoise = 1 << 16;  // buffers of threads that come and go
  EXPECT_LE(after.resident_kib, before.resident_kib + kNoiseKib);
  EXPECT_LE(allocated_after, allocated_before + kOurNoise);
  ASSERT_TRUE(other->session.disarm());
  EXPECT_TRUE(session_files().empty());
  EXPECT_EQ(subject->check(), "");
}

}  // namespace
}  // namespace pinprick::survive
