#include "recording/function_table.h"

namespace pinprick::recording {

uint32_t FunctionTable::add(Function function) {
  functions_.push_back(function);
  return static_cast<uint32_t>(functions_.size() - 1);
}

uint32_t FunctionTable::number_of(const engine::ProbeName& probe) {
  const auto [known, is_new] = by_probe_.try_emplace(&probe);
  if (!is_new) return known->second;
  const auto [number, is_first] = by_address_.try_emplace({probe.file, probe.address});
  if (is_first)
    number->second = add({.object = probe.object,
                          .function = probe.function,
                          .file = probe.file,
                          .address = probe.address,
                          .build_id = probe.build_id});
  return known->second = number->second;
}

uint32_t FunctionTable::number_of_frame(std::string_view name) {
  constexpr size_t kMostBytes = 64 << 20, kMostNames = 1 << 20;
  constexpr std::string_view kOther = "(other)";
  if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
  if (bytes_of_names_ > kMostBytes || by_name_.size() > kMostNames) name = kOther;
  const auto [known, is_new] = by_name_.try_emplace(std::string(name));
  if (!is_new) return known->second;
  bytes_of_names_ += name.size();
  return known->second = add({.function = known->first});
}

}  // namespace pinprick::recording
