// The rows of what is counted or recorded by keys: one for each key of a function. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ledger/session_file.h"
#include "session/report.h"
#include "session/stack.h"

namespace pinprick::session {

// Returns the parts of the key that is the number of a pair, or of a stack; empty if that is not
// known. Code is named at addresses of the process to which calls return.
std::vector<KeyPart> parts_of_key(uint64_t number, layout::KeyParts parts,
                                  const std::vector<ledger::ReadText>& texts,
                                  const NameOfCode& name_of_code);

// Has the key of these rows the name of a thread's command, alone or as a part?
bool has_command(const engine::ProbeName& name);
// Replaces the threads among the parts of a key by their names.
void name_commands(std::vector<KeyPart>& parts, const engine::ProbeName& name,
                   const std::function<std::string_view(pid_t)>& command_of);
// Adds up the rows from `first` on that have the same key, as threads of one name have.
void add_same_keys(std::vector<Row>& rows, size_t first);

// Returns the keys of an owner. `all` is ascending, as SessionFile::read_keys() returns it.
std::span<const ledger::KeyHits> keys_of(const std::vector<ledger::KeyHits>& all, uint64_t owner);

// Returns the key that is the text of this number. `texts` are those of the session.
RowKey key_of_text(uint64_t number, const std::vector<ledger::ReadText>& texts);

// Adds a row for each key that was hit, or whose sum has changed, since `before`: what a hit adds
// may come a moment after its count. Adds one for the keys that had no room, whose hits `row` has.
// Without any hit, that row alone is added. Hits of which something could not be read have no key:
// the first row has them. If `row` has no key, all is added up in
// it, and it is the only one. `now` and `before` are ascending.
void add_keyed_rows(const Row& row, std::span<const ledger::KeyHits> now,
                    std::span<const ledger::KeyHits> before, std::vector<Row>& rows);

inline bool has_nothing(const Row& row) {
  return !row.has_calls() && row.sum.value_or(0) == 0 && (!row.extremes || row.extremes->empty());
}
// Is it the row of a function without a hit?
inline bool is_empty_key(const Row& row) {
  return row.key && !row.key->value && has_nothing(row);
}

// Removes empty rows of functions that have other rows, after rows were added up.
void leave_out_empty_keys(std::vector<Row>& rows);

// Returns how many functions, instructions and points have rows.
size_t count_functions(const std::vector<Row>& rows);

}  // namespace pinprick::session
