// The parameters of a function as `list --args` prints them. Pure.
#pragma once

#include <string>
#include <vector>

#include "select/prototypes.h"

namespace pinprick::cli {

//     $arg2    buf    void *   output, bytes[count]
struct PrototypeLine {
  std::string columns;  // place, name and type
  std::string remark;   // may be empty
};

// Returns one line for each parameter, and one for the result.
std::vector<PrototypeLine> lines_of(const select::Prototype& all);

}  // namespace pinprick::cli
