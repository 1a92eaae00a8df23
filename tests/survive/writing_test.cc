// The text of a program is only written while all its threads are stopped.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <span>
#include <vector>

#include "image/process.h"
#include "survive/killing.h"
#include "survive/runtime_folder.h"
#include "survive/subjects.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::survive {
namespace {

bool stands_still(pid_t pid) {
  const auto threads = target::list_threads(pid);
  return std::all_of(threads.begin(), threads.end(), [&](pid_t tid) {
    const auto status = target::read_thread_status(pid, tid);
    return !status || status->state == 't';
  });
}

class Writing : public testing::TestWithParam<const char*> {};

TEST_P(Writing, HappensOnlyWhileAllThreadsAreStopped) {
  runtime_folder();
  const auto subject = start_steady();
  ASSERT_EQ(subject->check(), "");
  const auto memory = target::Memory::open(subject->pid());
  ASSERT_TRUE(memory);
  const auto image = image::load_process(
      subject->pid(),
      [&](Address address, std::span<uint8_t> out) { return memory->read(address, out); });
  ASSERT_TRUE(image);
  // Except for the rest of its last page, where only a hijacked thread executes.
  std::vector<Range> text;
  for (const auto& object : image->objects)
    for (const Range range : object->executable_ranges()) text.push_back(range);
  const auto is_text = [&](uint64_t address) {
    return std::any_of(text.begin(), text.end(),
                       [&](Range range) { return range.contains(address); });
  };
  Command arguments = {GetParam(), "-p", std::to_string(subject->pid()), "-d", "0.005"};
  const Command patterns = subject->patterns();
  arguments.insert(arguments.end(), patterns.begin(), patterns.end());
  int writes = 0;
  const auto report = visit_calls(pinprick(arguments), [&](uint64_t number, const uint64_t* a) {
    if (number != SYS_pwrite64 || !is_text(a[3])) return;
    ++writes;
    EXPECT_TRUE(stands_still(subject->pid())) << std::hex << a[3] << ", " << a[2] << " bytes";
  });
  EXPECT_TRUE(report.ending.exited_with(0)) << report.output;
  EXPECT_GE(writes, 2) << "the probes come and go";
  EXPECT_EQ(subject->check(), "");
}

INSTANTIATE_TEST_SUITE_P(, Writing, testing::Values("count", "latency"),
                         [](const auto& verb) { return std::string(verb.param); });

}  // namespace
}  // namespace pinprick::survive
