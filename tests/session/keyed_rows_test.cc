#include "session/keyed_rows.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "session/row_sum.h"

namespace pinprick::session {
namespace {

using ledger::KeyHits;
using Figures = std::vector<std::pair<std::optional<uint64_t>, uint64_t>>;  // keys and hits

Row row_of(std::string_view function, uint64_t hits) {
  return {.name = {.object = "app", .function = function, .key = "$arg1"},
          .hits = hits,
          .distribution = {},
          .key = RowKey{}};
}

Figures figures(const std::vector<Row>& rows) {
  Figures all;
  for (const Row& row : rows) all.emplace_back(row.key->value, row.hits);
  return all;
}

Figures keyed(uint64_t without_room, const std::vector<KeyHits>& now,
              const std::vector<KeyHits>& before = {}) {
  std::vector<Row> rows;
  add_keyed_rows(row_of("f", without_room), now, before, rows);
  return figures(rows);
}

TEST(KeyedRows, AreOneForEachKeyAndOneForWhatHadNoRoom) {
  EXPECT_EQ(keyed(7, {{0, 1, 10}, {0, 5, 20}}), (Figures{{1, 10}, {5, 20}, {std::nullopt, 7}}));
  EXPECT_EQ(keyed(0, {{0, 1, 10}}), (Figures{{1, 10}}));
}

TEST(KeyedRows, OfAFunctionWithoutAHitAreOne) {
  EXPECT_EQ(keyed(0, {}), (Figures{{std::nullopt, 0}}));
}

TEST(KeyedRows, OfAnIntervalHaveWhatWasHitSince) {
  EXPECT_EQ(keyed(0, {{0, 1, 10}, {0, 2, 3}, {0, 5, 20}}, {{0, 1, 10}, {0, 5, 15}}),
            (Figures{{2, 3}, {5, 5}}));
  EXPECT_EQ(keyed(0, {{0, 1, 10}}, {{0, 1, 10}}), (Figures{{std::nullopt, 0}}));
}

TEST(KeyedRows, HaveSumsOfTheirOwn) {
  Row row = row_of("f", 7);
  row.sum = 70;
  std::vector<Row> rows;
  add_keyed_rows(row, std::vector<KeyHits>{{0, 1, 10, 100}, {0, 5, 2, -9ull}},
                 std::vector<KeyHits>{{0, 1, 4, 50}}, rows);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].sum, 50u);
  EXPECT_EQ(rows[1].sum, -9ull);
  EXPECT_EQ(rows[2].sum, 70u) << "of keys without room";
}

// Else the sums of intervals would not make the whole.
TEST(KeyedRows, AreThereForASumThatChangesAfterItsHits) {
  Row row = row_of("f", 0);
  row.sum = 0;
  std::vector<Row> rows;
  add_keyed_rows(row, std::vector<KeyHits>{{0, 1, 10, 100}}, std::vector<KeyHits>{{0, 1, 10, 90}},
                 rows);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].hits, 0u);
  EXPECT_EQ(rows[0].sum, 10u);
}

TEST(KeyedRows, WithoutAKeyAreOneWithAllHitsAndTheWholeSum) {
  Row row = row_of("f", 1);
  row.key.reset();
  row.sum = 5;
  std::vector<Row> rows;
  add_keyed_rows(row, std::vector<KeyHits>{{0, 0, 10, 100}}, std::vector<KeyHits>{{0, 0, 4, 50}},
                 rows);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].key);
  EXPECT_EQ(rows[0].hits, 7u);
  EXPECT_EQ(rows[0].sum, 55u);
}

TEST(KeyedRows, LeaveHitsOfWhichSomethingIsUnreadToTheFirstRow) {
  for (const auto& [keys, others] :
       {std::pair(std::vector<KeyHits>{{0, 1, 10}, {0, 5, 20}}, uint64_t{7}),
        std::pair(std::vector<KeyHits>{}, uint64_t{0})}) {
    Row row = row_of("f", others);
    row.add_unread(3);
    std::vector<Row> rows;
    add_keyed_rows(row, keys, {}, rows);
    EXPECT_EQ(rows.size(), keys.size() + 1);
    EXPECT_EQ(rows[0].lost(layout::Loss::unread), 3u);
    EXPECT_EQ(losses_of(rows).total(), 3u);
    EXPECT_EQ(rows.back().has_others(), others != 0);
  }
}

TEST(KeyedRows, OfTextsAreToldApartByTheirTextAndWhetherItGoesOn) {
  const std::vector<ledger::ReadText> texts = {{"one", false}, {"one", true}};
  EXPECT_EQ(key_of_text(1, texts), (RowKey{RowKey::kText, "one"}));
  EXPECT_EQ(key_of_text(2, texts), (RowKey{RowKey::kCut, "one"}));
  EXPECT_EQ(key_of_text(layout::kUnreadText, texts), (RowKey{RowKey::kUnread}));
  EXPECT_EQ(key_of_text(3, texts), (RowKey{RowKey::kUnread})) << "of a damaged table";
}

TEST(KeyedRows, OfTextsWithoutRoomAreAmongThoseOfOtherKeys) {
  Row row = row_of("f", 7);
  row.name.is_key_text = true;
  std::vector<Row> rows;
  add_keyed_rows(row, std::vector<KeyHits>{{0, 1, 10}, {0, layout::kOtherTexts, 5}}, {}, rows);
  EXPECT_EQ(figures(rows), (Figures{{1, 10}, {std::nullopt, 12}}));
}

TEST(KeyedRows, OfOneKeyAreAddedUpInTheirOrder) {
  std::vector<Row> rows = {row_of("other", 9)};
  rows.front().key = RowKey{RowKey::kText, "b"};
  for (const auto& [key, hits] : {std::pair("b", 1), std::pair("a", 2), std::pair("b", 4)}) {
    rows.push_back(row_of("f", static_cast<uint64_t>(hits)));
    rows.back().key = RowKey{RowKey::kText, key};
  }
  add_same_keys(rows, 1);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].hits, 9u);
  EXPECT_EQ(rows[1].key->text, "b");
  EXPECT_EQ(rows[1].hits, 5u);
  EXPECT_EQ(rows[2].key->text, "a");
  EXPECT_EQ(rows[2].hits, 2u);
}

TEST(KeyedRows, OfListsNameThreadsByTheirCommands) {
  engine::ProbeName name, other;
  name.key = "fd, comm,(f(1,2)==\"comm\")";
  other.key = "command";
  EXPECT_TRUE(has_command(name));
  EXPECT_FALSE(has_command(other));
  std::vector<KeyPart> parts(3);
  parts[0].number = parts[1].number = parts[2].number = 7;
  name_commands(parts, name, [](pid_t tid) { return tid == 7 ? "seven" : "wrong"; });
  EXPECT_EQ(parts[0].kind, KeyPart::Kind::number);
  EXPECT_EQ(parts[1].kind, KeyPart::Kind::words);
  EXPECT_EQ(parts[1].words, "seven");
  EXPECT_EQ(parts[2].kind, KeyPart::Kind::number);
}

TEST(KeyedRows, OfListsKeepTextsWithZerosAndColons) {
  const std::vector<KeyPart> parts = {{KeyPart::Kind::words, 0, std::string("a\0b", 3)},
                                      {KeyPart::Kind::number, -5, {}},
                                      {KeyPart::Kind::cut, 0, "n3:x"},
                                      {KeyPart::Kind::unread, 0, {}}};
  const auto again = parts_of(as_text(parts));
  ASSERT_EQ(again.size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(again[i].kind, parts[i].kind);
    EXPECT_EQ(again[i].number, parts[i].number);
    if (parts[i].kind != KeyPart::Kind::number) {
      EXPECT_EQ(again[i].words, parts[i].words);
    }
  }
}

TEST(KeyedRows, TakeTheKeysOfOneProbe) {
  const std::vector<KeyHits> all = {{0, 1, 1}, {0, 2, 1}, {2, 1, 9}};
  EXPECT_EQ(keys_of(all, 0).size(), 2u);
  EXPECT_EQ(keys_of(all, 1).size(), 0u);
  ASSERT_EQ(keys_of(all, 2).size(), 1u);
  EXPECT_EQ(keys_of(all, 2)[0].hits, 9u);
}

TEST(KeyedRows, OfSeveralBatchesAreAddedByKeyAndEmptyOnesLeftOut) {
  RowSum sum;
  const std::vector<KeyHits> first = {{0, 1, 10}}, third = {{0, 1, 5}, {0, 2, 4}};
  for (const auto& keys : {first, {}, third}) {
    std::vector<Row> rows;
    add_keyed_rows(row_of("f", 0), keys, {}, rows);
    add_keyed_rows(row_of("idle", 0), {}, {}, rows);
    sum.add_all(std::move(rows));
  }
  std::vector<Row> rows = sum.take();
  EXPECT_EQ(count_functions(rows), 2u);
  EXPECT_EQ(figures(rows), (Figures{{1, 15}, {std::nullopt, 0}, {2, 4}}));
  EXPECT_EQ(rows[1].name.function, "idle");
}

}  // namespace
}  // namespace pinprick::session
