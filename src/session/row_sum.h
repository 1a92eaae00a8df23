// Adds up the rows of several batches of probes, whatever kinds they are of. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "session/keyed_rows.h"
#include "session/report.h"

namespace pinprick::session {

// Marks rows of different functions with one name.
inline void mark_namesakes(std::vector<Row>& rows) {
  std::map<std::tuple<uint32_t, placement::Kind, std::string_view, uint64_t, std::string_view,
                      std::string_view, bool, std::optional<RowKey>>,
           Row*>
      first;
  for (Row& row : rows) {
    if (row.name.is_point) continue;
    const auto [other, is_new] =
        first.try_emplace({row.measure, row.kind, row.name.function, row.name.offset,
                           row.name.value, row.name.condition, row.name.at_return, row.key},
                          &row);
    if (!is_new) other->second->name.is_shared = row.name.is_shared = true;
  }
}

// A function has one row, even if its object was unloaded and loaded again. An SDT point has one
// row for all its sites.
class RowSum {
 public:
  // Adds the rows of one batch. Functions with the same name are told apart by their address in the
  // file and, if the file is loaded several times, by their order.
  void add_all(std::vector<Row> batch) {
    const auto is_point = [](const Row& row) { return row.name.is_point; };
    // The usual case: there is one batch, and nothing to look up.
    if (rows_.empty() && std::none_of(batch.begin(), batch.end(), is_point)) {
      rows_ = std::move(batch);
      return;
    }
    if (index_.empty()) {
      Names seen;
      for (size_t i = 0; i < rows_.size(); ++i) index_.emplace(key_of(rows_[i], seen), i);
    }
    Names seen;
    for (Row& row : batch) {
      const auto [at, is_new] = index_.try_emplace(key_of(row, seen), rows_.size());
      if (is_new)
        rows_.push_back(std::move(row));
      else
        rows_[at->second].add(row);
    }
  }
  // Puts the self times of calls, which have rows of their own, into the rows of these calls.
  static void add_self_times(std::vector<Row>& calls, std::vector<Row> self_times) {
    Names seen;
    std::map<Key, Row*> by_name;
    for (Row& row : calls) by_name.emplace(key_of_call(row, seen), &row);
    seen.clear();
    for (Row& row : self_times)
      if (const auto of = by_name.find(key_of_call(row, seen)); of != by_name.end())
        of->second->self_time = std::move(row.distribution->histogram);
  }
  std::vector<Row> take() {
    if (!index_.empty()) {
      mark_namesakes(rows_);
      leave_out_empty_keys(rows_);
    }
    return std::move(rows_);
  }

 private:
  // With what rows must have in common to be added.
  using Name = std::tuple<uint32_t, placement::Kind, std::string_view, std::string_view, uint64_t,
                          std::string_view, std::string_view, uint64_t, bool, bool, unsigned,
                          std::optional<RowKey>>;
  using Names = std::map<Name, size_t>;
  using Key = std::pair<Name, size_t>;

  static Key key_of(const Row& row, Names& seen) {
    const bool is_point = row.name.is_point;
    const unsigned bits = row.distribution ? row.histogram().bits() : 0;
    const Name name(row.measure, row.kind, row.name.object, row.name.function, row.name.offset,
                    row.name.value, row.name.condition, is_point ? 0 : row.name.address,
                    row.name.is_signed, row.name.at_return, bits, row.key);
    return {name, is_point ? 0 : seen[name]++};
  }

  // What a call and its self time have in common.
  static Key key_of_call(const Row& row, Names& seen) {
    const Name name(0, placement::Kind::latency, row.name.object, row.name.function,
                    row.name.offset, {}, row.name.condition, row.name.address, false, false, 0,
                    row.key);
    return {name, seen[name]++};
  }

  std::vector<Row> rows_;
  std::map<Key, size_t> index_;
};

}  // namespace pinprick::session
