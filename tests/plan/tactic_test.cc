// The texts about tactics and refusals, for people and for programs.
#include "plan/tactic.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

namespace pinprick::plan {
namespace {

constexpr auto kLastTactic = static_cast<uint8_t>(Tactic::pad);
constexpr auto kLastReason = static_cast<uint8_t>(Reason::probed_by_program);

TEST(TacticNames, AreUnique) {
  std::set<std::string_view> names;
  for (uint8_t i = 0; i <= kLastTactic; ++i) names.insert(name(static_cast<Tactic>(i)));
  EXPECT_EQ(names.size(), size_t{kLastTactic} + 1);
  EXPECT_FALSE(names.contains("?"));
}

TEST(ReasonNames, AreUniqueAndFitJson) {
  std::set<std::string_view> names;
  for (uint8_t i = 0; i <= kLastReason; ++i) {
    const std::string_view text = name(static_cast<Reason>(i));
    names.insert(text);
    for (char c : text)
      EXPECT_TRUE(std::islower(static_cast<unsigned char>(c)) || c == '_') << text;
  }
  EXPECT_EQ(names.size(), size_t{kLastReason} + 1);
}

TEST(ReasonSentences, AreUniqueInLowerCaseWithoutAFullStop) {
  std::set<std::string_view> sentences;
  for (uint8_t i = 0; i <= kLastReason; ++i) {
    const std::string_view text = sentence(static_cast<Reason>(i));
    sentences.insert(text);
    ASSERT_GT(text.size(), 10u);
    EXPECT_FALSE(text.ends_with('.')) << text;
    EXPECT_TRUE(std::islower(static_cast<unsigned char>(text[0]))) << text;
  }
  EXPECT_EQ(sentences.size(), size_t{kLastReason} + 1);
}

}  // namespace
}  // namespace pinprick::plan
