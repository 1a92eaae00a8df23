#include "image/functions.h"

#include <algorithm>
#include <tuple>

#include "arch/x86_64/decode.h"

namespace pinprick::image {
namespace {

// Order of preference of the names of one function.
auto rank(const Symbol& symbol) {
  const auto underscores = std::min(symbol.name.find_first_not_of('_'), symbol.name.size());
  const bool mangled = symbol.name.starts_with("_Z");
  return std::tuple(!symbol.global, mangled ? 0 : underscores, symbol.name.size(), symbol.name);
}

// Most addresses have one name: ranking is for those that have more.
void sort_by_address_and_rank(std::vector<Symbol>& symbols) {
  std::sort(symbols.begin(), symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.address < b.address; });
  for (auto begin = symbols.begin(); begin != symbols.end();) {
    const auto end = std::find_if(begin, symbols.end(), [&](const Symbol& symbol) {
      return symbol.address != begin->address;
    });
    if (end - begin > 1)
      std::sort(begin, end, [](const Symbol& a, const Symbol& b) { return rank(a) < rank(b); });
    begin = end;
  }
}

// The unwind entry of the code that signal handlers return to begins a byte before it: unwinders
// look up the address in front of a return address.
Range function_of(const FrameEntry& frame, const ElfFile& object) {
  constexpr uint64_t kRestorer = 16;  // nothing that is longer
  const Range behind = {frame.code.begin + 1, frame.code.end};
  if (frame.entered_by_call || behind.size() > kRestorer) return frame.code;
  return arch::is_signal_restorer(object.read(behind)) ? behind : frame.code;
}

}  // namespace

FunctionTable FunctionTable::build(const ElfFile& object, std::span<const Symbol> symbols,
                                   std::span<const FrameEntry> frames) {
  FunctionTable table;
  const auto linkage_tables = object.procedure_linkage_tables();
  const auto in_linkage_table = [&](Address address) {
    return std::any_of(linkage_tables.begin(), linkage_tables.end(),
                       [&](Range range) { return range.contains(address); });
  };

  table.named_addresses_.reserve(symbols.size() + frames.size());
  table.functions_.reserve(std::max(symbols.size(), frames.size()));
  for (Address address : object.startup_addresses())
    if (object.in_executable_segment(address)) table.named_addresses_.push_back(address);

  std::vector<Symbol> named;
  named.reserve(symbols.size());
  for (const Symbol& symbol : symbols) {
    if (!object.in_executable_segment(symbol.address)) continue;
    table.named_addresses_.push_back(symbol.address);
    if (symbol.kind != Symbol::Kind::other) named.push_back(symbol);
  }
  sort_by_address_and_rank(named);
  // The same name from .symtab and .dynsym.
  named.erase(std::unique(named.begin(), named.end(),
                          [](const Symbol& a, const Symbol& b) {
                            return a.address == b.address && a.name == b.name;
                          }),
              named.end());

  const auto frame_at = [&](Address address) -> const FrameEntry* {
    auto above =
        std::upper_bound(frames.begin(), frames.end(), address,
                         [](Address a, const FrameEntry& entry) { return a < entry.code.begin; });
    if (above == frames.begin()) return nullptr;
    const FrameEntry& entry = *std::prev(above);
    return entry.code.contains(address) ? &entry : nullptr;
  };

  for (size_t i = 0; i < named.size();) {
    Function function;
    function.range.begin = named[i].address;
    function.first_name = static_cast<uint32_t>(table.names_.size());
    uint64_t size = 0;
    const size_t first = i;
    for (; i < named.size() && named[i].address == named[first].address; ++i) {
      table.names_.push_back(named[i].name);
      size = std::max(size, named[i].size);
      if (named[i].kind == Symbol::Kind::ifunc) function.ifunc = true;
    }
    function.name_count = static_cast<uint32_t>(i - first);
    function.range.end = function.range.begin + size;
    const FrameEntry* frame = frame_at(function.range.begin);
    if (frame != nullptr && frame->code.begin == function.range.begin) {
      function.range.end = std::max(function.range.end, frame->code.end);
      function.lsda = frame->lsda;
      function.entered_by_call = frame->entered_by_call;
    } else {
      if (frame != nullptr && size == 0) function.range.end = frame->code.end;
      function.entered_by_call = frame == nullptr;
    }
    table.functions_.push_back(function);
  }

  const size_t with_names = table.functions_.size();
  for (const FrameEntry& frame : frames) {
    const Range range = function_of(frame, object);
    const Address begin = range.begin;
    if (!object.in_executable_segment(begin)) continue;
    table.named_addresses_.push_back(begin);
    const auto end = table.functions_.begin() + static_cast<ptrdiff_t>(with_names);
    auto at = std::lower_bound(
        table.functions_.begin(), end, begin,
        [](const Function& function, Address a) { return function.range.begin < a; });
    if (at != end && at->range.begin == begin) continue;
    if (in_linkage_table(begin)) continue;
    Function function;
    function.range = range;
    function.lsda = frame.lsda;
    function.entered_by_call = frame.entered_by_call;
    table.functions_.push_back(function);
  }
  const auto by_range = [](const Function& a, const Function& b) { return a.range < b.range; };
  if (!std::is_sorted(table.functions_.begin(), table.functions_.end(), by_range))
    std::sort(table.functions_.begin(), table.functions_.end(), by_range);
  // Two unwind entries for one address: keep the longer.
  std::reverse(table.functions_.begin(), table.functions_.end());
  table.functions_.erase(std::unique(table.functions_.begin(), table.functions_.end(),
                                     [](const Function& a, const Function& b) {
                                       return a.range.begin == b.range.begin;
                                     }),
                         table.functions_.end());
  std::reverse(table.functions_.begin(), table.functions_.end());

  for (size_t i = 0; i < table.functions_.size(); ++i) {
    Function& function = table.functions_[i];
    Address limit = UINT64_MAX;
    for (const Segment& segment : object.segments())
      if (segment.executable && segment.range.contains(function.range.begin))
        limit = segment.range.end;
    if (i + 1 < table.functions_.size())
      limit = std::min(limit, table.functions_[i + 1].range.begin);
    for (Range plt : linkage_tables)
      if (plt.begin > function.range.begin) limit = std::min(limit, plt.begin);
    if (function.range.empty()) function.range.end = limit;  // a symbol without a size
    function.limit = std::max(limit, function.range.end);
    // A function that claims bytes behind its segment does not get them.
    for (const Segment& segment : object.segments())
      if (segment.executable && segment.range.contains(function.range.begin)) {
        function.range.end = std::min(function.range.end, segment.range.end);
        function.limit = std::min(function.limit, segment.range.end);
      }
  }
  std::sort(table.named_addresses_.begin(), table.named_addresses_.end());
  table.named_addresses_.erase(
      std::unique(table.named_addresses_.begin(), table.named_addresses_.end()),
      table.named_addresses_.end());
  return table;
}

bool FunctionTable::begins_at(Address address) const {
  return std::binary_search(
      functions_.begin(), functions_.end(), Function{{address, address}},
      [](const Function& a, const Function& b) { return a.range.begin < b.range.begin; });
}

const Function* FunctionTable::find(Address address) const {
  auto above = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](Address a, const Function& function) { return a < function.range.begin; });
  // The innermost of nested ranges: walk back a little.
  for (int steps = 0; above != functions_.begin() && steps < 8; ++steps) {
    --above;
    if (above->range.contains(address)) return &*above;
  }
  return nullptr;
}

}  // namespace pinprick::image
