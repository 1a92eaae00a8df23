// Says where the parameters of a function are when it is entered, by the System V ABI for x86-64.
// Debug information of unoptimized code only says where the first instructions will store them.
#pragma once

#include <cstdint>
#include <vector>

#include "debug/debug_info.h"

namespace pinprick::debug {

struct PassedParameter {
  // registers: in as many as there are words in it. stack: at `offset` from the CFA. unknown: so
  // are all that follow.
  enum class Place : uint8_t { unknown, registers, stack } place = Place::unknown;
  // The number of the register: of an integer argument from 1, or of %xmm from 0. Number 0 of the
  // former: there is nothing in the word.
  struct Word {
    bool is_vector = false;
    uint8_t number = 0;
  };
  std::vector<Word> words = {};
  uint64_t offset = 0;
  bool is_address = false;  // the parameter is what the register, or the stack, points to
};

// Returns one for each parameter of a function that `info` has.
std::vector<PassedParameter> passed_parameters(DebugInfo& info, const Function& function);

// Returns where a parameter is that is passed in registers.
Location location_of(const PassedParameter& passed);

// Is it a place in the function's own frame, to which a parameter has not been written yet when the
// function is entered?
bool is_stored_later(const Location& location);

}  // namespace pinprick::debug
