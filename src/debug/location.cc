#include "debug/location.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>

namespace pinprick::debug {
namespace {

using Step = LocationStep::Kind;

// By DWARF's numbers.
constexpr std::array<std::string_view, 17> kRegisters = {
    "%rax", "%rdx", "%rcx", "%rbx", "%rsi", "%rdi", "%rbp", "%rsp", "%r8",
    "%r9",  "%r10", "%r11", "%r12", "%r13", "%r14", "%r15", "%rip"};

std::optional<std::string> base_of(const LocationStep& step) {
  if (step.kind == Step::register_ && step.number < kRegisters.size())
    return fmt::format("({})", kRegisters[step.number]);
  if (step.kind == Step::frame_address) return "(CFA)";
  return std::nullopt;
}

// Returns nullopt if they are more than a base and a distance.
std::optional<std::string> short_address(const std::vector<LocationStep>& steps) {
  if (steps.size() == 1 && steps[0].kind == Step::object_base)
    return fmt::format("{:#x}", steps[0].number);
  const auto base = steps.empty() ? std::nullopt : base_of(steps[0]);
  if (!base) return std::nullopt;
  if (steps.size() == 1) return base;
  const bool is_sum =
      steps.size() == 3 && steps[1].kind == Step::number && steps[2].kind == Step::add;
  const auto distance = static_cast<int64_t>(steps[1].number);
  if (!is_sum) return std::nullopt;
  return distance == 0 ? *base : fmt::format("{}{}", distance, *base);
}

std::string why_none(Location::Cause cause) {
  switch (cause) {
    case Location::Cause::optimized_out:
      return "optimized away here";
    case Location::Cause::of_caller:
      return "only the caller knows it here";
    case Location::Cause::in_pieces:
      return "in several places";
    case Location::Cause::thread_local_:
      return "of each thread";
    case Location::Cause::vector_register:
      return "in a vector register";
    case Location::Cause::unknown:
      break;
  }
  return "in a place that pinprick does not understand";
}

}  // namespace

std::string text_of(const Location& location) {
  const std::vector<LocationStep>& steps = location.steps;
  switch (location.kind) {
    case Location::Kind::none:
      return why_none(location.cause);
    case Location::Kind::pieces: {
      std::string all;
      for (const Location::Piece& one : location.pieces)
        all +=
            fmt::format("{}{}: {}", all.empty() ? "" : ", ", one.bytes, text_of(Location::of(one)));
      return all;
    }
    case Location::Kind::value:
      if (steps.size() == 1 && steps[0].kind == Step::register_ &&
          steps[0].number < kRegisters.size())
        return fmt::format("in {}", kRegisters[steps[0].number]);
      if (steps.size() == 1 && steps[0].kind == Step::vector)
        return fmt::format("in %xmm{}", steps[0].number);
      if (steps.size() == 1 && steps[0].kind == Step::number)
        return fmt::format("is {}", static_cast<int64_t>(steps[0].number));
      return "computed";
    case Location::Kind::address:
      break;
  }
  const auto address = short_address(steps);
  return address ? "at " + *address : "at a computed address";
}

}  // namespace pinprick::debug
