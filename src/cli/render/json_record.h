// What all records of --json have in common (docs/json.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "cli/render/renderer.h"

namespace pinprick::cli {

// Keys keep the order in which they are added.
using Json = nlohmann::ordered_json;

// Returns the record with its version, as a line.
std::string line_of_record(Json record);
void write_record(Output& output, Json record);
// Flushes the output, too.
void put_record(Output& output, Json record);

// The fields that say which function it is, and what of it is probed.
Json name_fields(const ProbeName& name);
Json number(uint64_t bits, layout::NumberOrder order);
// An error number is told by its name, if it has one.
Json number_of_error(uint64_t number);
// Takes one name per line, as a stack is kept.
Json frames(std::string_view names);

}  // namespace pinprick::cli
