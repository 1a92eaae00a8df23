#include "recording/path_tree.h"

#include <gtest/gtest.h>

namespace pinprick::recording {
namespace {

TEST(PathTree, CountsTheCallsOfMoreThanAMillionPathsInOneNode) {
  PathTree tree;
  // The root and kNowhere are nodes, too.
  constexpr uint32_t kOwn = PathTree::kMostNodes - 2, kOthers = 5;
  for (uint32_t function = 0; function < kOwn + kOthers; ++function)
    tree.add(tree.within(PathTree::kRoot, function), 1, 0);
  EXPECT_EQ(tree.within(PathTree::kRoot).size(), kOwn);
  EXPECT_EQ(tree.calls(PathTree::kNowhere), kOthers);
  EXPECT_EQ(tree.within(PathTree::kNowhere, 1), PathTree::kNowhere);
  EXPECT_EQ(tree.calls(tree.within(PathTree::kRoot, 7)), 1u);
}

TEST(PathTree, UsesTheNodesOfAdoptedCallsAgain) {
  PathTree tree;
  for (uint32_t i = 0; i < 3 * PathTree::kMostNodes; ++i) {
    const PathTree::Node node = tree.make(7);
    tree.add(node, 1, 2);
    tree.adopt(PathTree::kRoot, node);
  }
  EXPECT_EQ(tree.calls(PathTree::kNowhere), 0u);
  EXPECT_EQ(tree.calls(tree.within(PathTree::kRoot, 7)), 3 * PathTree::kMostNodes);
}

}  // namespace
}  // namespace pinprick::recording
