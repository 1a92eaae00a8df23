#include "base/task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "base/parallel.h"

namespace pinprick {
namespace {

TEST(Task, IsNeverCancelledIfThereIsNone) {
  EXPECT_NO_THROW(check_cancelled());
  EXPECT_NO_THROW(begin_step("counting", 3, "sheep"));
  EXPECT_NO_THROW(advance(1));
}

TEST(Task, EndsAtTheNextCheckOnceCancelled) {
  Task task;
  const Task::Scope scope(&task);
  EXPECT_NO_THROW(check_cancelled());
  task.cancel();
  EXPECT_THROW(check_cancelled(), Cancelled);
  EXPECT_THROW(advance(1), Cancelled);
  EXPECT_THROW(begin_step("counting", 3, "sheep"), Cancelled);
}

TEST(Task, IsSharedByTheThreadsThatWorkOnItsPieces) {
  Task task;
  const Task::Scope scope(&task);
  begin_step("counting", 1000, "sheep");
  for_each_piece(1000, 4, [](size_t) { advance(1); });
  EXPECT_EQ(task.progress().done, 1000u);
  EXPECT_EQ(task.progress().total, 1000u);
  EXPECT_EQ(std::string(task.progress().step), "counting");
}

TEST(Task, SkipsPiecesThatHaveNotStartedOnceCancelled) {
  Task task;
  const Task::Scope scope(&task);
  std::atomic<size_t> begun = 0;
  EXPECT_THROW(for_each_piece(1'000'000, 4,
                              [&](size_t) {
                                check_cancelled();
                                if (++begun == 10) task.cancel();
                              }),
               Cancelled);
  EXPECT_LT(begun, 1000u);
}

// Undoing what a cancelled task did is not part of the task.
TEST(Task, DoesNotEndUncancellableWork) {
  Task task;
  const Task::Scope scope(&task);
  task.cancel();
  {
    const Task::Scope undoing(nullptr);
    EXPECT_NO_THROW(check_cancelled());
    for_each_piece(4, 4, [](size_t) { EXPECT_NO_THROW(check_cancelled()); });
  }
  EXPECT_THROW(check_cancelled(), Cancelled);
}

}  // namespace
}  // namespace pinprick
