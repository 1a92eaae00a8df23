#include "image/functions.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>

#include "arch/code.h"
#include "base/task.h"
#include "image/names/demangle.h"
#include "image/store/packed.h"

namespace pinprick::image {
namespace {

// Rank of a name among those of one function; the lowest is preferred.
auto rank(const Symbol& symbol) {
  const auto underscores = std::min(symbol.name.find_first_not_of('_'), symbol.name.size());
  const bool mangled = is_mangled(symbol.name);
  return std::tuple(!symbol.global, mangled ? 0 : underscores, symbol.name.size(), symbol.name);
}

// Also leaves out the same name at the same address: of another symbol table, or of a debug file.
// Most addresses have one name; only others need ranking.
void sort_by_address_and_rank(std::vector<Symbol>& symbols) {
  std::vector<std::pair<Address, size_t>> order(symbols.size());  // cheaper to sort than symbols
  for (size_t i = 0; i < symbols.size(); ++i) order[i] = {symbols[i].address, i};
  std::sort(order.begin(), order.end());
  std::vector<Symbol> sorted(symbols.size());
  for (size_t i = 0; i < order.size(); ++i) sorted[i] = symbols[order[i].second];
  symbols.clear();
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    auto end = std::find_if(begin, sorted.end(),
                            [&](const Symbol& symbol) { return symbol.address != begin->address; });
    const auto next = end;
    if (end - begin > 1) {
      // Of two symbols with one name, the global one, and the longer.
      std::sort(begin, end, [](const Symbol& a, const Symbol& b) {
        return std::tuple(a.name, !a.global, ~a.size) < std::tuple(b.name, !b.global, ~b.size);
      });
      end = std::unique(begin, end,
                        [](const Symbol& a, const Symbol& b) { return a.name == b.name; });
      std::sort(begin, end, [](const Symbol& a, const Symbol& b) { return rank(a) < rank(b); });
    }
    symbols.insert(symbols.end(), begin, end);
    begin = next;
  }
}

// `sorted` is by address.
std::span<const Symbol> symbols_at(std::span<const Symbol> sorted, Address address) {
  const auto by_address = [](const Symbol& symbol, Address a) { return symbol.address < a; };
  const auto begin = std::lower_bound(sorted.begin(), sorted.end(), address, by_address);
  const auto end = std::find_if(begin, sorted.end(),
                                [&](const Symbol& symbol) { return symbol.address != address; });
  return {begin, end};
}

// The unwind entry of the code that signal handlers return to starts a byte before it, since
// unwinders look up the address before a return address.
Range function_of(const FrameEntry& frame, const ElfFile& object) {
  constexpr uint64_t kRestorer = 16;  // maximum length
  const Range rest = {frame.code.begin + 1, frame.code.end};
  if (frame.entered_by_call || rest.size() > kRestorer) return frame.code;
  return arch::is_signal_restorer(object.read(rest)) ? rest : frame.code;
}

// A set of addresses that mostly come in ascending order.
class AddressSet {
 public:
  void reserve(size_t size) { ascending_.reserve(size); }
  void add(Address address) {
    if (ascending_.empty() || address > ascending_.back())
      ascending_.push_back(address);
    else if (address != ascending_.back())
      add_out_of_order(address);
  }
  void add_out_of_order(Address address) { others_.push_back(address); }
  std::vector<Address> sorted() {
    std::sort(others_.begin(), others_.end());
    others_.erase(std::unique(others_.begin(), others_.end()), others_.end());
    std::vector<Address> all;
    all.reserve(ascending_.size() + others_.size());
    std::set_union(ascending_.begin(), ascending_.end(), others_.begin(), others_.end(),
                   std::back_inserter(all));
    return all;
  }

 private:
  std::vector<Address> ascending_;
  std::vector<Address> others_;
};

// A function in a file of the cache.
struct PackedFunction {
  Range range;
  Address limit = 0;
  Address lsda = 0;
  uint32_t first_name = 0;
  uint32_t names_and_flags = 0;
};
constexpr uint32_t kEnteredByCall = uint32_t{1} << 31, kIfunc = uint32_t{1} << 30,
                   kLabel = uint32_t{1} << 29, kFlags = kEnteredByCall | kIfunc | kLabel;

PackedFunction packed(const Function& function) {
  return {function.range, function.limit, function.lsda, function.first_name,
          function.name_count | (function.entered_by_call ? kEnteredByCall : 0) |
              (function.ifunc ? kIfunc : 0) | (function.is_label ? kLabel : 0)};
}

Function unpacked(const PackedFunction& packed) {
  return {packed.range,
          packed.limit,
          packed.lsda,
          (packed.names_and_flags & kEnteredByCall) != 0,
          (packed.names_and_flags & kIfunc) != 0,
          (packed.names_and_flags & kLabel) != 0,
          packed.first_name,
          packed.names_and_flags & ~kFlags};
}

bool lies_in_code(const Function& function, std::span<const Segment> segments) {
  return function.range.begin <= function.range.end && function.range.end <= function.limit &&
         std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
           return segment.executable && segment.range.contains(function.range.begin) &&
                  function.limit <= segment.range.end;
         });
}

}  // namespace

std::optional<Range> extent_of_function(std::span<const uint8_t> code, Address begin) {
  constexpr uint64_t kLongest = 4096;
  constexpr uint64_t kStart = 32;  // more than a probe displaces
  Address end = begin, last_target = begin;
  while (end - begin < kLongest) {
    const auto instruction = arch::decode(code.subspan(end - begin), end);
    if (!instruction || instruction->flow == arch::Flow::jump_indirect) return std::nullopt;
    end = instruction->end();
    const bool jumps = instruction->has_target() && !instruction->is_call();
    if (jumps && Range{begin + 1, begin + kStart}.contains(instruction->target))
      return std::nullopt;
    // A jump that leads farther is a tail call.
    if (jumps && instruction->target - begin < kLongest)
      last_target = std::max(last_target, instruction->target);
    if (!instruction->falls_through() && last_target < end) return Range{begin, end};
  }
  return std::nullopt;
}

FunctionTable FunctionTable::build(const ElfFile& object, const CodeLayout& layout,
                                   std::span<const Symbol> symbols,
                                   std::span<const FrameEntry> frames) {
  FunctionTable table;
  AddressSet by_name, by_frame;
  by_name.reserve(symbols.size());
  by_frame.reserve(frames.size());
  table.functions_.reserve(std::max(symbols.size(), frames.size()));

  std::vector<Symbol> named, untyped;
  named.reserve(symbols.size());
  for (const Symbol& symbol : symbols) {
    if (!object.in_executable_segment(symbol.address)) continue;
    if (symbol.is_function() && !layout.in_linkage_table(symbol.address)) {
      named.push_back(symbol);
      continue;
    }
    by_name.add_out_of_order(symbol.address);
    if (symbol.kind == Symbol::Kind::untyped) untyped.push_back(symbol);
  }
  sort_by_address_and_rank(named);
  sort_by_address_and_rank(untyped);

  auto above = frames.begin();  // the frame entry after the address of the last call
  const auto frame_at = [&](Address address) -> const FrameEntry* {
    while (above != frames.end() && above->code.begin <= address) ++above;
    if (above == frames.begin()) return nullptr;
    const FrameEntry& entry = *std::prev(above);
    return entry.code.contains(address) ? &entry : nullptr;
  };

  for (size_t i = 0; i < named.size();) {
    by_name.add(named[i].address);
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
  size_t at = 0;  // the first function at or above the frame, whose addresses mostly ascend
  for (const FrameEntry& frame : frames) {
    check_cancelled();
    const Range range = function_of(frame, object);
    const Address begin = range.begin;
    if (!object.in_executable_segment(begin)) continue;
    by_frame.add(begin);
    if (at > 0 && table.functions_[at - 1].range.begin >= begin) at = 0;
    while (at < with_names && table.functions_[at].range.begin < begin) ++at;
    if (at < with_names && table.functions_[at].range.begin == begin) continue;
    if (layout.in_linkage_table(begin)) continue;
    Function function;
    // Assembly may leave out the types of its symbols.
    const auto labels = symbols_at(untyped, begin);
    function.first_name = static_cast<uint32_t>(table.names_.size());
    function.name_count = static_cast<uint32_t>(labels.size());
    function.is_label = !labels.empty();
    for (const Symbol& label : labels) table.names_.push_back(label.name);
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
    // Data may come after code in the same segment.
    const auto after =
        std::upper_bound(layout.sections.begin(), layout.sections.end(), function.range.begin,
                         [](Address begin, const Range& section) { return begin < section.begin; });
    if (after != layout.sections.begin() && std::prev(after)->contains(function.range.begin))
      limit = std::min(limit, std::prev(after)->end);
    if (i + 1 < table.functions_.size())
      limit = std::min(limit, table.functions_[i + 1].range.begin);
    limit = std::min(limit, layout.next_linkage_table(function.range.begin));
    if (function.range.empty()) function.range.end = limit;  // a symbol without a size
    function.limit = std::max(limit, function.range.end);
    // A function that claims bytes past its segment does not get them.
    for (const Segment& segment : object.segments())
      if (segment.executable && segment.range.contains(function.range.begin)) {
        function.range.end = std::min(function.range.end, segment.range.end);
        function.limit = std::min(function.limit, segment.range.end);
      }
  }
  for (Address address : object.startup_addresses())
    if (object.in_executable_segment(address)) by_name.add_out_of_order(address);
  const auto names = by_name.sorted(), entries = by_frame.sorted();
  table.named_addresses_.reserve(names.size() + entries.size());
  std::set_union(names.begin(), names.end(), entries.begin(), entries.end(),
                 std::back_inserter(table.named_addresses_));
  table.keep_names();
  return table;
}

// So far they point into the file's tables.
void FunctionTable::keep_names() {
  size_t size = 0;
  for (std::string_view name : names_) size += name.size() + 1;
  std::vector<char> text;
  text.reserve(size);
  for (std::string_view& name : names_) {
    const size_t at = text.size();
    text.insert(text.end(), name.begin(), name.end());
    text.push_back('\0');
    name = {text.data() + at, name.size()};
  }
  text_ = std::make_shared<const std::vector<char>>(std::move(text));
}

void FunctionTable::append_to(std::vector<uint8_t>& bytes) const {
  std::vector<PackedFunction> functions;
  functions.reserve(functions_.size());
  for (const Function& function : functions_) functions.push_back(packed(function));
  std::vector<uint32_t> lengths;
  lengths.reserve(names_.size());
  for (std::string_view name : names_) lengths.push_back(static_cast<uint32_t>(name.size()));
  append_all(bytes, std::span<const PackedFunction>(functions));
  append_all(bytes, std::span<const uint32_t>(lengths));
  append_all(bytes, text_ ? std::span<const char>(*text_) : std::span<const char>());
  append_all(bytes, std::span<const Address>(named_addresses_));
}

std::optional<FunctionTable> FunctionTable::parse(ByteReader& reader,
                                                  std::span<const Segment> segments) {
  FunctionTable table;
  std::vector<PackedFunction> functions;
  std::vector<uint32_t> lengths;
  std::vector<char> text;
  if (!read_values(reader, functions) || !read_values(reader, lengths) ||
      !read_values(reader, text) || !read_values(reader, table.named_addresses_))
    return std::nullopt;
  table.text_ = std::make_shared<const std::vector<char>>(std::move(text));
  std::string_view rest(table.text_->data(), table.text_->size());
  table.names_.reserve(lengths.size());
  for (const uint32_t length : lengths) {
    if (length >= rest.size() || rest[length] != '\0') return std::nullopt;
    table.names_.push_back(rest.substr(0, length));
    rest.remove_prefix(size_t{length} + 1);
  }
  table.functions_.reserve(functions.size());
  for (const PackedFunction& packed : functions) {
    const Function function = unpacked(packed);
    const bool ascends =
        table.functions_.empty() || table.functions_.back().range.begin < function.range.begin;
    const bool has_names = uint64_t{function.first_name} + function.name_count <= lengths.size();
    if (!ascends || !has_names || !lies_in_code(function, segments)) return std::nullopt;
    table.functions_.push_back(function);
  }
  return table;
}

bool names_part(std::string_view symbol) {
  if (symbol.find('.') == symbol.npos) return false;  // the common case
  if (symbol.ends_with(".warm")) return true;         // BOLT's
  // The 3 of foo.cold.3.
  const size_t dot = symbol.rfind('.');
  if (dot + 1 < symbol.size() && symbol.find_first_not_of("0123456789", dot + 1) == symbol.npos)
    symbol = symbol.substr(0, dot);
  return symbol.ends_with(".cold");
}

bool FunctionTable::may_name_any(std::span<const std::string_view> wanted) const {
  const std::string_view text = text_ ? std::string_view(text_->data(), text_->size()) : "";
  return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view name) {
    return ::memmem(text.data(), text.size(), name.data(), name.size()) != nullptr;
  });
}

bool FunctionTable::starts_at(Address address) const {
  return std::binary_search(
      functions_.begin(), functions_.end(), Function{{address, address}},
      [](const Function& a, const Function& b) { return a.range.begin < b.range.begin; });
}

const Function* FunctionTable::find(Address address) const {
  auto above = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](Address a, const Function& function) { return a < function.range.begin; });
  // Find the innermost of nested ranges: walk back a little.
  for (int steps = 0; above != functions_.begin() && steps < 8; ++steps) {
    --above;
    if (above->range.contains(address)) return &*above;
  }
  return nullptr;
}

}  // namespace pinprick::image
