// What a controller that died in the midst of mapping memory leaves, told apart from what the
// target has mapped. Here the target is this process.
#include "engine/owners/ownership.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <vector>

#include "engine/forked_session.h"
#include "layout/runtime_data.h"
#include "scratch.h"
#include "target/child.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

class OwnershipOfAScript : public testing::Test {
 protected:
  OwnershipOfAScript() {
    layout::Session session;
    session.header = layout::lay_out({.mappings = 2, .name_bytes = 1, .cpus = 1});
    session.mappings.resize(2);
    session.names.resize(1);
    auto made = ledger::SessionFile::create(folder_ / "1-1.session", session);
    EXPECT_TRUE(made);
    file_.emplace(*std::move(made));
    auto memory = target::Memory::open(::getpid());
    EXPECT_TRUE(memory);
    memory_.emplace(*std::move(memory));
    journal_.mappings = {{page(PROT_READ | PROT_WRITE), kPageSize, MappingEntry::Kind::scratch,
                          MappingEntry::Progress::mapped},
                         {page(PROT_READ | PROT_EXEC), kPageSize, MappingEntry::Kind::stubs,
                          MappingEntry::Progress::begun}};
    EXPECT_TRUE(mark(*memory_, journal_.mappings[0]));
  }
  ~OwnershipOfAScript() override {
    for (const MappingEntry& entry : journal_.mappings)
      ::munmap(reinterpret_cast<void*>(entry.address), entry.size);
  }

  Address table() const { return journal_.mappings[0].address + kScript + sizeof(uint64_t); }
  // The script's second call is the one that was to map the stubs.
  void write_script(uint64_t result, Address next) {
    const Address stubs = journal_.mappings[1].address;
    const arch::ScriptedCall calls[2] = {{SYS_close, {3}},
                                         {SYS_mmap, {stubs, kPageSize}, 0, result}};
    EXPECT_TRUE(memory_->write_value(table(), calls));
    EXPECT_TRUE(memory_->write_value(table() - sizeof next, next));
  }
  Address second_call() const { return table() + sizeof(arch::ScriptedCall); }
  bool are_stubs_ours() {
    const auto maps = image::read_maps(::getpid());
    note_results_of_script(*memory_, journal_, *maps, *file_);
    return is_ours(*memory_, journal_.mappings[1], *maps, *file_);
  }

  Scratch folder_;
  layout::Session journal_;
  std::optional<ledger::SessionFile> file_;

 private:
  // Apart from others, so that it is a mapping of its own.
  static Address page(int protection) {
    void* const at = ::mmap(nullptr, 3 * kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    const Address middle = reinterpret_cast<Address>(at) + kPageSize;
    EXPECT_EQ(::mprotect(reinterpret_cast<void*>(middle), kPageSize, protection), 0);
    return middle;
  }

  std::optional<target::Memory> memory_;
};

// A code generator may have mapped its code where the runtime's was.
TEST_F(OwnershipOfAScript, CodeOfTheRuntimeIsOursOnlyAfterItsData) {
  constexpr uint64_t kData = align_up(sizeof(layout::RuntimeContext), kPageSize);
  void* const at = ::mmap(nullptr, kData + kPageSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  const auto begin = reinterpret_cast<Address>(at);
  const Address end = begin + kData;
  ASSERT_EQ(::mprotect(reinterpret_cast<void*>(end), kPageSize, PROT_READ | PROT_EXEC), 0);
  const MappingEntry data = {begin, kData, MappingEntry::Kind::runtime_data,
                             MappingEntry::Progress::mapped};
  const MappingEntry code = {end, kPageSize, MappingEntry::Kind::runtime_code,
                             MappingEntry::Progress::mapped};
  const auto memory = target::Memory::open(::getpid());
  const auto maps = image::read_maps(::getpid());
  ASSERT_TRUE(memory && maps);
  EXPECT_FALSE(is_ours(*memory, code, *maps, *file_));
  ASSERT_TRUE(mark(*memory, data));
  EXPECT_TRUE(is_ours(*memory, code, *maps, *file_));
  ::munmap(at, kData + kPageSize);
}

// Any process can map a file that it was given. A user's file says nothing about other users'
// processes.
TEST_F(OwnershipOfAScript, AProcessThatMapsAnotherUsersFileIsNoForkedOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "a file of another user needs root";
  target::Child child([&](target::Shared& shared) {
    const int own = ::open(file_->path().c_str(), O_RDONLY);
    ::mmap(nullptr, kPageSize, PROT_READ, MAP_SHARED, own, 0);
    shared.rounds = 1;
    ::pause();
  });
  child.wait_until_running();
  const auto processes = [&] { return processes_with(*file_); };
  EXPECT_THAT(processes(), testing::Contains(child.pid()));
  ASSERT_EQ(::fchown(file_->descriptor(), 12345, 12345), 0);
  EXPECT_THAT(processes(), testing::Not(testing::Contains(child.pid())));
}

TEST_F(OwnershipOfAScript, ADescriptorThatItHasOpenedItselfIsOurs) {
  const int opened = ::open(file_->path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(opened, 0);
  const int read_only = ::open(file_->path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(read_only, 0) << "as a program has it that reads the files of sessions";
  const target::Child child([](auto&) { ::pause(); });
  const auto target = target::RemoteTarget::open(child.pid());
  ASSERT_TRUE(target);
  const auto maps = image::read_maps(child.pid());
  std::fill(std::begin(journal_.header.handover_descriptors),
            std::end(journal_.header.handover_descriptors), -1);
  EXPECT_EQ(our_descriptors(*target, journal_, *maps, *file_),
            (std::vector<int>{file_->descriptor(), opened}));
  journal_.mappings[1].progress = MappingEntry::Progress::mapped;
  EXPECT_TRUE(our_descriptors(*target, journal_, *maps, *file_).empty());
  ::close(opened);
  ::close(read_only);
}

TEST_F(OwnershipOfAScript, WhatItMappedIsOurs) {
  write_script(journal_.mappings[1].address, second_call() + sizeof(arch::ScriptedCall));
  EXPECT_TRUE(are_stubs_ours());
}

TEST_F(OwnershipOfAScript, WhatLayThereWhenItsCallWasRefusedIsTheTargets) {
  write_script(static_cast<uint64_t>(-EEXIST), second_call() + sizeof(arch::ScriptedCall));
  EXPECT_FALSE(are_stubs_ours());
}

TEST_F(OwnershipOfAScript, WhatLiesThereWithoutACallIsTheTargets) {
  EXPECT_FALSE(are_stubs_ours()) << "the script was not even written";
  write_script(0, table());
  journal_.mappings[1].progress = MappingEntry::Progress::begun;
  EXPECT_FALSE(are_stubs_ours()) << "it came to the first call only";
}

TEST_F(OwnershipOfAScript, WhatWasBeingMappedJustThenIsTakenForOurs) {
  write_script(0, second_call());
  EXPECT_TRUE(are_stubs_ours());
}

}  // namespace
}  // namespace pinprick::engine
