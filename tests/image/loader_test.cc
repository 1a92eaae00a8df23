#include "image/loader.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/maps.h"
#include "image/process.h"
#include "image/programs.h"
#include "image/stepped_program.h"

namespace pinprick::image {
namespace {

MemoryReader reader_of(const SteppedProgram& program) {
  return [&](Address address, std::span<uint8_t> out) { return program.read(address, out); };
}

TEST(Loader, IsAtWorkFromExecUntilTheProgramsEntry) {
  SteppedProgram started({program("basic_pie")});
  EXPECT_TRUE(loader_is_at_work(started.pid(), reader_of(started)));
  started.run_to(AuxiliaryVector::read(started.pid()).value(AT_ENTRY));
  EXPECT_FALSE(loader_is_at_work(started.pid(), reader_of(started)));
}

// Attaching relies on this: while the loader is not at work, nothing is missing.
TEST(Loader, IsAtWorkWheneverALibraryIsMissing) {
  SteppedProgram started({program("basic_pie")});
  const auto mapped = [&] {
    return load_process(started.pid(), reader_of(started))->objects.size();
  };
  size_t last = 0, changes = 0;
  bool at_work = true;
  for (; at_work; at_work = loader_is_at_work(started.pid(), reader_of(started))) {
    const size_t now = mapped();
    if (now != last) ++changes;
    last = now;
    // Runs to the next start or end of a system call.
    int status = 0;
    ASSERT_EQ(::ptrace(PTRACE_SYSCALL, started.pid(), 0, 0), 0);
    ASSERT_EQ(::waitpid(started.pid(), &status, 0), started.pid());
    ASSERT_TRUE(WIFSTOPPED(status)) << "at work to the end";
  }
  last = mapped();
  EXPECT_GT(changes, 1u) << "seen while the loader maps";
  started.run_to(AuxiliaryVector::read(started.pid()).value(AT_ENTRY));
  EXPECT_EQ(mapped(), last);
}

TEST(Loader, IsNotAtWorkIfThereIsNone) {
  SteppedProgram started({program("basic_static")});
  EXPECT_FALSE(loader_is_at_work(started.pid(), reader_of(started)));
  EXPECT_EQ(loader_notifies_at(started.pid(), reader_of(started)), std::nullopt);
}

TEST(Loader, NotifiesWhereDebuggersLookForIt) {
  SteppedProgram started({program("basic_pie")});
  EXPECT_EQ(loader_notifies_at(started.pid(), reader_of(started)), std::nullopt) << "too early";
  started.run_to(AuxiliaryVector::read(started.pid()).value(AT_ENTRY));
  const auto at = loader_notifies_at(started.pid(), reader_of(started));
  ASSERT_TRUE(at);
  const auto image = load_process(started.pid(), reader_of(started));
  Object* loader = image->object_at(*at);
  ASSERT_NE(loader, nullptr);
  const Function* function = loader->functions().find(*at - loader->bias());
  ASSERT_NE(function, nullptr);
  EXPECT_THAT(loader->functions().names(*function), testing::Contains("_dl_debug_state"));
}

TEST(Loader, IsNotAtWorkIfItIsNotKnown) {
  SteppedProgram started({program("basic_pie")});
  EXPECT_FALSE(loader_is_at_work(started.pid(), [](Address, std::span<uint8_t>) { return false; }));
}

}  // namespace
}  // namespace pinprick::image
