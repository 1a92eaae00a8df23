#include "control/command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace pinprick::control {
namespace {

Command parsed(std::string_view line) {
  const auto command = parse_command(line);
  EXPECT_TRUE(command) << line << ": " << (command ? "" : command.error().reason);
  return command ? *command : Command{};
}

// Returns the reason of an EINVAL, which is one line.
std::string refused(std::string_view line) {
  const auto command = parse_command(line);
  if (command) return "not refused";
  EXPECT_EQ(command.error().number, EINVAL) << line;
  EXPECT_EQ(command.error().reason.find('\n'), std::string::npos) << line;
  return command.error().reason;
}

Command trace(std::string name) {
  Command command;
  command.verb = Verb::trace;
  command.start = name;
  command.name = std::move(name);
  return command;
}

Command other(Verb verb, std::string name = {}) {
  Command command;
  command.verb = verb;
  command.name = std::move(name);
  return command;
}

TEST(Command, TraceAloneTimesTheFunctionOfThatNameWithThreeBitsAndGapsByCpu) {
  EXPECT_EQ(parsed("trace write"), trace("write"));
  EXPECT_EQ(parsed("trace write").start, "write");
  EXPECT_EQ(parsed("trace write").bits, 3u);
  EXPECT_EQ(parsed("trace write").end, std::nullopt);
  EXPECT_EQ(parsed("trace write").gap, Gap::cpu);
}

TEST(Command, TraceTakesItsOptionsInAnyOrder) {
  Command full = trace("S");
  full.bits = 5;
  full.start = "libc:read";
  full.end = "libc:write";
  full.gap = Gap::thread;
  EXPECT_EQ(parsed("trace S bits 5 start libc:read end libc:write gap thread"), full);
  EXPECT_EQ(parsed("trace S gap thread end libc:write start libc:read bits 5"), full);
}

TEST(Command, TraceTakesTheRestOfTheLineAfterIfAsACondition) {
  Command command = trace("libc:read");
  command.start = "libc:read if $arg1 == 1 && $arg3>=4Ki";
  EXPECT_EQ(parsed("trace libc:read if $arg1 == 1 && $arg3>=4Ki"), command);
  EXPECT_EQ(parsed("trace libc:read IF '$arg1 == 1 && $arg3>=4Ki'"), command);
  EXPECT_EQ(parsed("trace libc:read start 'libc:read if $arg1 == 1 && $arg3>=4Ki'"), command);
  command.name = "large";
  command.bits = 5;
  EXPECT_EQ(parsed("trace large bits 5 start libc:read if $arg1 == 1 && $arg3>=4Ki"), command);
  EXPECT_EQ(refused("trace libc:read if '$arg1\x01'"),
            "the condition after `if` has a control character");
}

TEST(Command, KeywordsMayBeInAnyCaseAndNamesKeepTheirs) {
  EXPECT_EQ(parsed("TrAcE Foo BITS 3 Gap CPU"), trace("Foo"));
  EXPECT_EQ(parsed("START Foo"), other(Verb::start, "Foo"));
  EXPECT_EQ(parsed("stop Foo"), other(Verb::stop, "Foo"));
  EXPECT_EQ(parsed("Reset Foo"), other(Verb::reset, "Foo"));
  EXPECT_EQ(parsed("REMOVE Foo"), other(Verb::remove, "Foo"));
}

TEST(Command, BlanksAndTabsSeparateWordsHoweverMany) {
  EXPECT_EQ(parsed(" \ttrace\t  foo "), trace("foo"));
}

TEST(Command, ListAndShowNeedNoName) {
  EXPECT_EQ(parsed("list"), other(Verb::list));
  EXPECT_EQ(parsed("show"), other(Verb::show));
  EXPECT_EQ(parsed("show foo"), other(Verb::show, "foo"));
  EXPECT_NE(refused("list foo").find("too many"), std::string::npos);
}

TEST(Command, NamesMayBeThoseOfFunctionsInObjects) {
  for (const char* name : {"libc:write", "net::Conn::read", "f.part.0", "SSL_*", "a?b", "_control2",
                           "gap-x", "...", "main+0x1f", "start", "end", "operator+", "f\xc3\xbc"})
    EXPECT_EQ(parsed(std::string("trace ") + name), trace(name));
  EXPECT_EQ(parsed("trace 'libc:write'"), trace("libc:write"));
}

TEST(Command, KeywordsAreValuesWhereValuesStand) {
  Command command = trace("bits");
  command.start = "end";
  command.end = "start";
  EXPECT_EQ(parsed("trace bits start end end start"), command);
}

TEST(Command, NamesThatAFileOrAListCannotHaveAreRefusedWithTheReason) {
  const std::pair<std::string, const char*> names[] = {
      {"''", "empty"},
      {std::string(64, 'x'), "63 bytes"},
      {"a/b", "'/'"},
      {"'a b'", "blank"},
      {"'a\tb'", "blank"},
      {"a\x01", "control character"},
      {"a\nb", "control character"},
      {"a\x7f", "control character"},
      {"a\xc2\x85z", "control character"},
      {"\xc2\x9b", "control character"},
      {".", "folder"},
      {"..", "folder"},
      {"_control", "file for commands"},
      {"GAP-x", "belongs to the statistic"},
      {"GAP-", "belongs to the statistic"},
      {"GAP-GAP-x", "belongs to the statistic"},
  };
  for (const auto& [name, why] : names)
    EXPECT_NE(refused("trace " + name).find(why), std::string::npos) << refused("trace " + name);
  EXPECT_EQ(parsed("trace " + std::string(63, 'x')).name.size(), 63u);
}

TEST(Command, TheStatisticOfGapsIsStoppedAndShownButNotRemovedAlone) {
  EXPECT_EQ(parsed("stop GAP-x"), other(Verb::stop, "GAP-x"));
  EXPECT_EQ(parsed("show GAP-" + std::string(63, 'x')).name.size(), 67u);
  EXPECT_NE(refused("remove GAP-x").find("'x'"), std::string::npos);
  EXPECT_NE(refused("show GAP-"), "not refused");
  EXPECT_NE(refused("show GAP-GAP-x").find("belongs to the statistic"), std::string::npos);
}

TEST(Command, BitsAreFromZeroToFive) {
  for (unsigned bits = 0; bits <= 5; ++bits)
    EXPECT_EQ(parsed("trace x bits " + std::to_string(bits)).bits, bits);
  for (const char* bits : {"2", "+2", "02", "0x2", "0X2", "+0x2", "00002"})
    EXPECT_EQ(parsed(std::string("trace x bits ") + bits).bits, 2u) << bits;
  for (const char* bits : {"6", "-1", "08", "010", "++3", "3x", "x", "0x", "0x6", "''",
                           "4294967299", "3.0", "0x+2", "+"})
    EXPECT_NE(refused(std::string("trace x bits ") + bits).find("from 0 to 5"), std::string::npos);
}

TEST(Command, MayEndWithTheReturnOfOtherSystems) {
  EXPECT_EQ(parsed("trace write bits 2\r"), parsed("trace write bits 2"));
  EXPECT_EQ(parsed("remove\rwrite\r\r"), parsed("remove write"));
  EXPECT_TRUE(parse_state("STOP\r", "write"));
  EXPECT_FALSE(parse_state("STOP x\r", "write"));
}

TEST(Command, GapIsByCpuByThreadOrNone) {
  EXPECT_EQ(parsed("trace x gap cpu").gap, Gap::cpu);
  EXPECT_EQ(parsed("trace x gap THREAD").gap, Gap::thread);
  EXPECT_EQ(parsed("trace x gap none").gap, Gap::none);
  EXPECT_NE(refused("trace x gap core").find("cpu, thread or none"), std::string::npos);
}

TEST(Command, WrongWordsAreRefusedAndNamed) {
  EXPECT_NE(refused("").find("no command"), std::string::npos);
  EXPECT_NE(refused("trac x").find("'trac'"), std::string::npos);
  EXPECT_NE(refused("trace"), "not refused");
  EXPECT_NE(refused("remove"), "not refused");
  EXPECT_NE(refused("stop"), "not refused");
  EXPECT_NE(refused("trace x foo 3").find("'foo'"), std::string::npos);
  EXPECT_NE(refused("trace x bits").find("nothing follows"), std::string::npos);
  EXPECT_NE(refused("trace x bits 3 BITS 3").find("twice"), std::string::npos);
  EXPECT_NE(refused("trace x end a end a").find("twice"), std::string::npos);
  EXPECT_NE(refused("remove x y").find("too many"), std::string::npos);
  EXPECT_NE(refused("trace x start ''").find("empty"), std::string::npos);
  EXPECT_NE(refused("trace x end a\x02").find("control character"), std::string::npos);
  EXPECT_NE(refused("trace 'x").find("not closed"), std::string::npos);
}

TEST(Command, MoreThanTenWordsAreRefused) {
  EXPECT_TRUE(parse_command("trace s bits 3 start x end y gap cpu"));
  EXPECT_NE(refused("trace s bits 3 start x end y gap cpu z").find("more than 10"),
            std::string::npos);
}

TEST(Command, WordsInQuotesKeepTheirBlanks) {
  EXPECT_EQ(parsed("trace s start 'f(char*, int)'").start, "f(char*, int)");
  EXPECT_EQ(parsed("trace s start \"f(char*, int)\"").start, "f(char*, int)");
  EXPECT_EQ(parsed("trace s start f'(char*, 'int)").start, "f(char*, int)");
  EXPECT_EQ(parsed("trace s start 'operator\"\"_s'").start, "operator\"\"_s");
}

TEST(Command, WordsThatAreSplitAlreadyAreTakenAsTheyAre) {
  const std::vector<std::string> words = {"trace", "s", "start", "f(char*, 'x')"};
  const auto command = parse_command(words);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->start, "f(char*, 'x')");
}

TEST(Command, TextLeavesOutDefaults) {
  EXPECT_EQ(to_text(parsed("TRACE x bits 3 start x gap cpu")), "trace x");
  EXPECT_EQ(to_text(parsed("trace x end y bits 0 gap none")), "trace x bits 0 end y gap none");
  EXPECT_EQ(to_text(parsed("STOP x")), "stop x");
  EXPECT_EQ(to_text(parsed("show")), "show");
}

TEST(StateOfAStatistic, IsStartStopOrResetAlone) {
  EXPECT_EQ(*parse_state("START", "x"), other(Verb::start, "x"));
  EXPECT_EQ(*parse_state(" stop ", "GAP-x"), other(Verb::stop, "GAP-x"));
  EXPECT_EQ(*parse_state("Reset", "x"), other(Verb::reset, "x"));
  for (const char* line : {"", "start x", "STARTS", "list", "trace x", "remove", "'"}) {
    const auto command = parse_state(line, "x");
    ASSERT_FALSE(command) << line;
    EXPECT_EQ(command.error().number, EINVAL) << line;
  }
}

TEST(ErrorName, IsThatOfErrno) {
  EXPECT_EQ(error_name(EINVAL), "EINVAL");
  EXPECT_EQ(error_name(ESRCH), "ESRCH");
  EXPECT_EQ(error_name(99999), "errno 99999");
}

void expect_same_when_printed(const Command& command) {
  const std::string text = to_text(command);
  const auto again = parse_command(text);
  ASSERT_TRUE(again) << text << ": " << again.error().reason;
  ASSERT_EQ(*again, command) << text;
}

std::string any_of_length(std::mt19937_64& random, size_t most, std::string_view alphabet) {
  std::string text(1 + random() % most, 'x');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(CommandText, ParsesToTheSameCommandWhateverTheNames) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    Command command = trace("n" + any_of_length(random, 40, "ab.:*'\"+()~<>,&[]\xc3\xbc"));
    if (random() % 2 == 0) command.start = any_of_length(random, 40, "f (),*'\":");
    if (random() % 2 == 0) command.end = any_of_length(random, 40, "g (),*'\":");
    command.bits = static_cast<unsigned>(random() % 6);
    command.gap = static_cast<Gap>(random() % 3);
    expect_same_when_printed(command);
    command = other(static_cast<Verb>(1 + random() % 4), command.name);
    expect_same_when_printed(command);
  }
}

TEST(CommandText, ParsesToTheSameCommandForMutantsOfValidLines) {
  const std::string seeds[] = {"trace S bits 3 start libc:read end libc:write gap thread",
                               "TRACE 'a' start \"f(char*, int)\" gap none",
                               "remove S",
                               "Start GAP-S",
                               "show",
                               "list",
                               "reset x",
                               "trace write"};
  std::mt19937_64 random(2);
  int valid = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string line = seeds[random() % std::size(seeds)];
    for (uint64_t n = random() % 4; n-- > 0 && !line.empty();) {
      const size_t at = random() % line.size();
      switch (random() % 4) {
        case 0:
          line[at] = static_cast<char>(random());
          break;
        case 1:
          line.erase(at, 1 + random() % 6);
          break;
        case 2:
          line.insert(at, seeds[random() % std::size(seeds)].substr(0, random() % 12));
          break;
        default:
          line.insert(at, 1, " '\"\t\n"[random() % 5]);
      }
    }
    const auto command = parse_command(line);
    if (!command) {
      ASSERT_EQ(command.error().number, EINVAL) << line;
      ASSERT_EQ(command.error().reason.find('\n'), std::string::npos) << line;
      continue;
    }
    ++valid;
    expect_same_when_printed(*command);
  }
  EXPECT_GT(valid, 1000);  // the mutants are not all refused at the first word
}

TEST(CommandText, IsOfTheSameCommandIfRandomBytesAreOneAndElseTheyAreInvalid) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    std::string line(random() % 200, '\0');
    for (char& c : line) c = static_cast<char>(random());
    const auto command = parse_command(line);
    if (command)
      expect_same_when_printed(*command);
    else
      ASSERT_EQ(command.error().number, EINVAL);
  }
}

}  // namespace
}  // namespace pinprick::control
