#include "cli/verbs/completion_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pinprick::cli {
namespace {

using Kind = NextWord::Kind;
using Words = std::vector<std::string>;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

Words texts(const NextWord& next) {
  Words texts;
  for (const Candidate& one : next.candidates) texts.push_back(one.text);
  return texts;
}

TEST(CompletionWords, TheKindOfTheNextWordFollowsFromTheVerbAndTheWordBefore) {
  const struct {
    Words words;
    Kind kind;
  } kCases[] = {
      {{"count", "-p", ""}, Kind::processes},
      {{"count", "--pid="}, Kind::processes},
      {{"count", "--all", "x", "--exclude-pid", "4"}, Kind::processes},
      {{"detach", "-p", ""}, Kind::probed},
      {{"keep", "--pid", ""}, Kind::probed},
      {{"status", "-p", ""}, Kind::probed},
      {{"calls", "-p", ""}, Kind::probed},
      {{"count", "-o", ""}, Kind::files},
      {{"count", "--notrace", ""}, Kind::files},
      {{"count", "--all", ""}, Kind::files},
      {{"list", "--summary", ""}, Kind::files},
      {{"status", "--symbols", ""}, Kind::files},
      {{"mount", ""}, Kind::folders},
      {{"mount", "folder", ""}, Kind::words},
      {{"serve", ""}, Kind::words},
      {{"count", ""}, Kind::functions},
      {{"top", "a", "b"}, Kind::functions},
      {{"calls", ""}, Kind::functions},
      {{"calls", "--older", ""}, Kind::words},
      {{"diff", ""}, Kind::files},
      {{"diff", "--before", "a", "b"}, Kind::files},
      {{"diff", "--least", ""}, Kind::words},
      {{"count", "-x", ""}, Kind::functions},
      {{"count", "--top", "5", "a"}, Kind::functions},
      {{"count", "--json", "a"}, Kind::functions},
      {{"count", "-d", ""}, Kind::words},
      {{"status", "--all", ""}, Kind::words},  // takes no value there
      {{"kstats", "trace", ""}, Kind::functions},
      {{"kstats", "trace", "s", "start", ""}, Kind::functions},
      {{"kstats", "trace", "s", "end", ""}, Kind::functions},
      {{"kstats", "show", ""}, Kind::statistics},
      {{"kstats", "RESET", ""}, Kind::statistics},
      {{"kstats", "list", ""}, Kind::words},
      {{"kstats", "show", "s", ""}, Kind::words},
      {{"count", "--", ""}, Kind::command},
      {{"count", "main", "--", "ls", "--", "-"}, Kind::command},
      {{"no_verb", ""}, Kind::words},
  };
  for (const auto& [words, kind] : kCases)
    EXPECT_EQ(next_word(words).kind, kind) << testing::PrintToString(words);
}

TEST(CompletionWords, CandidatesBeginWithWhatIsTyped) {
  EXPECT_THAT(texts(next_word({"l"})), ElementsAre("list", "latency", "leaks", "locks"));
  EXPECT_THAT(texts(next_word({"-"})), ElementsAre("-h", "--help", "-V", "--version"));
  EXPECT_THAT(texts(next_word({"count", "--ch"})), ElementsAre("--children"));
  EXPECT_THAT(texts(next_word({"count", "--color", "a"})), ElementsAre("auto", "always"));
  EXPECT_THAT(texts(next_word({"ftrace", "--tracer", "f"})),
              ElementsAre("function", "function_graph"));
  EXPECT_THAT(texts(next_word({"report", "--format", "f"})), ElementsAre("ftrace"));
  EXPECT_THAT(texts(next_word({"kstats", "-p", "7", "S"})), ElementsAre("START", "STOP"));
  EXPECT_THAT(texts(next_word({"kstats", "trace", "s", "gap", ""})),
              ElementsAre("cpu", "thread", "none"));
  EXPECT_THAT(texts(next_word({"completion", ""})), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(texts(next_word({"completion", "bash", ""})), IsEmpty());
  EXPECT_THAT(texts(next_word({"latency", "--"})), Contains("--"));
  EXPECT_THAT(texts(next_word({"top", "--"})), Not(Contains("--")));
}

TEST(CompletionWords, ValuesMayFollowAnEqualsSign) {
  const NextWord next = next_word({"count", "--children=f"});
  EXPECT_EQ(next.before, "--children=");
  EXPECT_EQ(next.prefix, "f");
  EXPECT_THAT(texts(next), ElementsAre("follow"));
  // A flag has no value, and an unknown option may have any.
  EXPECT_THAT(texts(next_word({"count", "--json="})), IsEmpty());
  EXPECT_THAT(texts(next_word({"count", "--none="})), IsEmpty());
}

TEST(CompletionWords, TheProcessOrFileIsTheLastOneThatIsGiven) {
  EXPECT_EQ(next_word({"count", "-p", "7", ""}).pid, 7);
  EXPECT_EQ(next_word({"count", "--pid=7", ""}).pid, 7);
  EXPECT_EQ(next_word({"count", "-p", "7", "--pid", "8", "a"}).pid, 8);
  EXPECT_EQ(next_word({"list", "-f", "elf", "a"}).file, "elf");
  EXPECT_EQ(next_word({"count", "--all=elf", "a"}).file, "elf");
  for (const char* wrong : {"", "x", "-1", "0", "7x", "99999999999"})
    EXPECT_EQ(next_word({"count", "--pid", wrong, "a"}).pid, 0) << wrong;
}

TEST(CompletionWords, ACommandStartsAfterTheFirstTwoDashes) {
  EXPECT_EQ(next_word({"count", "main", "--", "ls", "--", "-"}).command_start, 3u);
  EXPECT_EQ(next_word({"--", ""}).command_start, 1u);
  // Not while they are being typed.
  EXPECT_EQ(next_word({"count", "--"}).kind, Kind::words);
}

TEST(CompletionWords, NoWordsAreNoReasonToFail) {
  EXPECT_THAT(texts(next_word({})), IsEmpty());
  EXPECT_THAT(texts(next_word({"="})), IsEmpty());
  EXPECT_THAT(texts(next_word({"--=", "-"})), Contains("--help"));
}

}  // namespace
}  // namespace pinprick::cli
