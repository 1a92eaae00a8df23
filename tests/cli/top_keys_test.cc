#include "cli/top/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pinprick::cli::top {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Key::Kind;

std::vector<Key> keys_of(std::string_view bytes) {
  return KeyDecoder().feed(bytes);
}

Key character(char32_t c) {
  return {Kind::character, c};
}

TEST(TopKeys, DecodesTheCursorKeysOfAllTerminals) {
  const std::pair<const char*, Kind> sequences[] = {
      {"\033[A", Kind::up},       {"\033[B", Kind::down},
      {"\033[C", Kind::right},    {"\033[D", Kind::left},
      {"\033OA", Kind::up},       {"\033OD", Kind::left},
      {"\033[H", Kind::home},     {"\033[F", Kind::end},
      {"\033OH", Kind::home},     {"\033OF", Kind::end},
      {"\033[1~", Kind::home},    {"\033[4~", Kind::end},
      {"\033[7~", Kind::home},    {"\033[8~", Kind::end},
      {"\033[5~", Kind::page_up}, {"\033[6~", Kind::page_down},
      {"\033[1;5A", Kind::up},    {"\033[6;2~", Kind::page_down},
      {"\033OP", Kind::help},     {"\033[11~", Kind::help},
      {"\033[[A", Kind::help},    {"\033OM", Kind::enter},
      {"\r", Kind::enter},        {"\n", Kind::enter},
      {"\t", Kind::tab},          {"\177", Kind::backspace},
      {"\b", Kind::backspace},    {"\033[[B", Kind::other},
      {"\033[3~", Kind::other},   {"\033[200~", Kind::other}};
  for (const auto& [bytes, kind] : sequences)
    EXPECT_THAT(keys_of(bytes), ElementsAre(Key{kind})) << bytes + 1;
}

TEST(TopKeys, DecodesAFewKeysAtOnce) {
  EXPECT_THAT(
      keys_of("a\033[Bb\033OAß"),
      ElementsAre(character('a'), Key{Kind::down}, character('b'), Key{Kind::up}, character(U'ß')));
  EXPECT_THAT(keys_of("\f"), ElementsAre(Key{Kind::control, U'l'}));
}

TEST(TopKeys, WaitsForTheRestOfASequence) {
  for (const std::string_view bytes : {"\033[5~", "\033OA", "\033[[A", "\033[1;5A"}) {
    KeyDecoder decoder;
    for (size_t i = 0; i + 1 < bytes.size(); ++i) {
      EXPECT_THAT(decoder.feed(bytes.substr(i, 1)), IsEmpty());
      EXPECT_TRUE(decoder.is_waiting());
    }
    EXPECT_EQ(decoder.feed(bytes.substr(bytes.size() - 1)), keys_of(bytes));
    EXPECT_FALSE(decoder.is_waiting());
  }
}

TEST(TopKeys, AnEscapeThatNothingFollowsIsAKey) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.feed("\033"), IsEmpty());
  EXPECT_TRUE(decoder.is_waiting());
  EXPECT_THAT(decoder.give_up_waiting(), ElementsAre(Key{Kind::escape}));
  EXPECT_FALSE(decoder.is_waiting());
  EXPECT_THAT(decoder.give_up_waiting(), IsEmpty());
}

TEST(TopKeys, AnEscapeAndAnotherKeyAreTwoKeys) {
  EXPECT_THAT(keys_of("\033q"), ElementsAre(Key{Kind::escape}, character('q')));
  EXPECT_THAT(keys_of("\033\033[A"), ElementsAre(Key{Kind::escape}, Key{Kind::up}));
}

TEST(TopKeys, AnUnknownSequenceIsOneKeyWithoutAMeaning) {
  EXPECT_THAT(keys_of("\033[?1;2cq"), ElementsAre(Key{Kind::other}, character('q')));
  EXPECT_THAT(keys_of("\033[M\x20\x20\x20").front(), Key{Kind::enter});
}

TEST(TopKeys, AWrongByteEndsASequenceAndTheNextKeyIsRead) {
  EXPECT_THAT(keys_of("\033[1\rq"),
              ElementsAre(Key{Kind::other}, Key{Kind::enter}, character('q')));
  EXPECT_THAT(keys_of("\xff\xc3q"),
              ElementsAre(Key{Kind::other}, Key{Kind::other}, character('q')));
}

TEST(TopKeys, ASequenceWithoutEndDoesNotWaitForever) {
  KeyDecoder decoder;
  decoder.feed("\033[" + std::string(1000, '1'));
  EXPECT_FALSE(decoder.feed("q").empty());
}

TEST(TopKeys, ACharacterMayComeInPieces) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.feed("\xe2\x82"), IsEmpty());
  EXPECT_THAT(decoder.feed("\xac"), ElementsAre(character(U'€')));
}

TEST(TopKeys, AnyBytesAreDecodedWithoutHarm) {
  uint32_t seed = 1;
  KeyDecoder decoder;
  for (int i = 0; i < 100000; ++i) {
    seed = seed * 1664525 + 1013904223;
    const char byte = i % 3 == 0 ? '\033' : static_cast<char>(seed >> 24);
    decoder.feed({&byte, 1});
  }
  decoder.give_up_waiting();
  EXPECT_FALSE(decoder.is_waiting());
}

}  // namespace
}  // namespace pinprick::cli::top
