#include "image/scan/known_functions.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "arch/code.h"
#include "arch/known_code.h"
#include "base/task.h"

namespace pinprick::image {
namespace {

using Proof = arch::KnownCode::Proof;

bool is_writable(const ElfFile& elf, Address address) {
  const auto& segments = elf.segments();
  return std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
    return segment.writable && segment.range.contains(address);
  });
}

// The instructions of functions, for addresses that ascend: each function is decoded once, however
// many addresses in it are asked for.
class Boundaries {
 public:
  explicit Boundaries(const CodeBytes& part) : part_(part) {}

  bool is_instruction(const Function& function, Address address) {
    if (function_ != &function) next_ = function.range.begin;
    function_ = &function;
    while (next_ < address) {
      check_cancelled();
      const auto instruction = arch::decode(part_.bytes.subspan(next_ - part_.address), next_);
      if (!instruction) {
        next_ = function.range.end;
        return false;
      }
      next_ = instruction->end();
    }
    return next_ == address;
  }

 private:
  const CodeBytes& part_;
  const Function* function_ = nullptr;
  Address next_ = 0;
};

struct CheckedCode {
  std::string_view begin, end;
};
constexpr CheckedCode kCheckedCode[] = {
    {"BORINGSSL_bcm_text_start", "BORINGSSL_bcm_text_end"},  // BoringSSL, AWS-LC
    {"FIPS_text_start", "FIPS_text_end"},                    // OpenSSL's module for 1.0
    {"wolfCrypt_FIPS_first", "wolfCrypt_FIPS_last"},
};

std::optional<Address> address_of(std::span<const Symbol> symbols, std::string_view name) {
  const auto found = std::find_if(symbols.begin(), symbols.end(),
                                  [&](const Symbol& symbol) { return symbol.name == name; });
  return found == symbols.end() ? std::nullopt : std::optional(found->address);
}

}  // namespace

std::vector<Range> find_known_functions(const ElfFile& elf, std::span<const CodeBytes> text,
                                        const FunctionTable& functions) {
  std::vector<Range> found;
  for (const CodeBytes& part : text) {
    Boundaries boundaries(part);
    for (const arch::KnownCode& known : arch::find_known_code(part.bytes)) {
      Range range = {part.address + known.offset, part.address + known.offset + known.size};
      const Function* const function = functions.find(range.begin);
      if (known.proof != Proof::none &&
          (function == nullptr || !part.range().contains(function->range)))
        continue;
      if (known.proof == Proof::stores_first &&
          !arch::is_template(part.bytes.subspan(function->range.begin - part.address)))
        continue;
      // In a segment that is writable, too, pointers may lie among code.
      if (known.proof == Proof::is_instruction &&
          (is_writable(elf, range.begin) || !boundaries.is_instruction(*function, range.begin)))
        continue;
      if (function != nullptr)
        range = {function->range.begin, std::max(range.end, function->range.end)};
      if (found.empty() || found.back() != range) found.push_back(range);
    }
  }
  return found;
}

std::span<const std::string_view> names_of_checked_code() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, std::size(kCheckedCode)> names;
    std::transform(std::begin(kCheckedCode), std::end(kCheckedCode), names.begin(),
                   [](const CheckedCode& one) { return one.begin; });
    return names;
  }();
  return kNames;
}

std::vector<Range> find_checked_code(std::span<const Symbol> symbols) {
  std::vector<Range> found;
  for (const CheckedCode& one : kCheckedCode) {
    const auto begin = address_of(symbols, one.begin), end = address_of(symbols, one.end);
    if (begin && end && *begin < *end) found.push_back({*begin, *end});
  }
  return found;
}

}  // namespace pinprick::image
