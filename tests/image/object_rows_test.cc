// The rows of real objects lead where elfutils finds the caller.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <libelf.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <sstream>

#include "base/fd.h"
#include "image/elf/frame_rows.h"
#include "image/elf/unwind_info.h"
#include "image/frame_row_text.h"
#include "image/maps.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

using layout::FrameRow;
using Rows = std::vector<FrameRow>;

// A frame's registers; its memory has a value of its own at each address.
struct Frame {
  uint64_t registers[17];

  static uint64_t load(uint64_t address) {
    uint64_t mixed = (address ^ address >> 31) * 0x9e37'79b9'7f4a'7c15;
    mixed = (mixed ^ mixed >> 29) * 0xbf58'476d'1ce4'e5b9;
    return mixed ^ mixed >> 32;
  }
  uint64_t rbp() const { return registers[6]; }
  uint64_t rsp() const { return registers[7]; }
  uint64_t rip() const { return registers[16]; }
};

// The caller's registers.
struct Caller {
  std::optional<uint64_t> cfa;  // nullopt: no rule has to say it
  std::optional<uint64_t> return_address;
  std::optional<uint64_t> rbp;  // nullopt: lost
  bool operator==(const Caller&) const = default;
};

void PrintTo(const Caller& caller, std::ostream* out) {
  const auto print = [&](const char* name, const std::optional<uint64_t>& value) {
    *out << name << ' ' << std::hex;
    value ? *out << *value << ' ' : *out << "none ";
  };
  print("CFA", caller.cfa);
  print("return address", caller.return_address);
  print("rbp", caller.rbp);
}

// Returns the caller by a rule as layout/frame_rows.h defines it.
Caller caller_by_rule(uint32_t rule, const Frame& frame) {
  Caller caller;
  const uint64_t base = rule & PP_FRAME_BY_RBP ? frame.rbp() : frame.rsp();
  const uint64_t size = uint64_t{8} * (rule >> PP_FRAME_SIZE_SHIFT);
  const auto at_cfa = [&](uint64_t cfa) {
    caller.cfa = cfa;
    caller.return_address = Frame::load(cfa - 8);
    caller.rbp = frame.rbp();
  };
  switch (rule & PP_FRAME_KIND) {
    case PP_FRAME_NORMAL: {
      at_cfa(base + size);
      const uint32_t saved = rule >> PP_FRAME_SAVED_SHIFT & PP_FRAME_SAVED_MASK;
      if (saved == PP_FRAME_RBP_LOST)
        caller.rbp.reset();
      else if (saved != 0)
        caller.rbp = Frame::load(*caller.cfa - uint64_t{8} * saved);
      break;
    }
    case PP_FRAME_SIGNAL:  // of a ucontext, see sys/ucontext.h
      caller.cfa = Frame::load(frame.rsp() + 160);
      caller.return_address = Frame::load(frame.rsp() + 168);
      caller.rbp = Frame::load(frame.rsp() + 120);
      break;
    case PP_FRAME_PLT: {
      const uint32_t push = rule >> PP_FRAME_PUSH_SHIFT & PP_FRAME_PUSH_MASK;
      at_cfa(frame.rsp() + size + ((frame.rip() & 15) >= push ? 8 : 0));
      break;
    }
    case PP_FRAME_LOADED: {
      const int64_t at = int64_t{rule >> PP_FRAME_AT_SHIFT & PP_FRAME_AT_MASK} - PP_FRAME_AT_BIAS;
      at_cfa(Frame::load(base + static_cast<uint64_t>(8 * at)) +
             uint64_t{8} * (rule >> PP_FRAME_PLUS_SHIFT & PP_FRAME_PLUS_MASK));
      if (rule & PP_FRAME_RBP_AT_RBP) caller.rbp = Frame::load(frame.rbp());
      const uint32_t saved = rule >> PP_FRAME_LOADED_SAVED_SHIFT & PP_FRAME_SAVED_MASK;
      if (saved != 0) caller.rbp = Frame::load(*caller.cfa - uint64_t{8} * saved);
      break;
    }
    default:
      break;
  }
  return caller;
}

// Where a DWARF expression leads.
struct Location {
  uint64_t value = 0;
  bool is_value = false;  // else the value is at that address
  bool is_known = true;
};

Location evaluate(const Dwarf_Op* ops, size_t count, const Frame& frame, uint64_t cfa) {
  std::vector<uint64_t> stack;
  const auto pop = [&] {
    if (stack.empty()) return uint64_t{0};
    const uint64_t top = stack.back();
    stack.pop_back();
    return top;
  };
  bool is_value = false;
  for (size_t i = 0; i < count; ++i) {
    const Dwarf_Op& op = ops[i];
    uint64_t right = 0;
    if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg16) {
      stack.push_back(frame.registers[op.atom - DW_OP_breg0] + op.number);
      continue;
    }
    if (op.atom >= DW_OP_lit0 && op.atom <= DW_OP_lit31) {
      stack.push_back(op.atom - DW_OP_lit0);
      continue;
    }
    switch (op.atom) {
      case DW_OP_call_frame_cfa:
        stack.push_back(cfa);
        break;
      case DW_OP_bregx:
        if (op.number > 16) return {.is_known = false};
        stack.push_back(frame.registers[op.number] + op.number2);
        break;
      case DW_OP_plus_uconst:
        stack.push_back(pop() + op.number);
        break;
      case DW_OP_plus:
        right = pop();
        stack.push_back(pop() + right);
        break;
      case DW_OP_mul:
        right = pop();
        stack.push_back(pop() * right);
        break;
      case DW_OP_and:
        right = pop();
        stack.push_back(pop() & right);
        break;
      case DW_OP_shl:
        right = pop();
        stack.push_back(pop() << (right & 63));
        break;
      case DW_OP_ge:
        right = pop();
        stack.push_back(static_cast<int64_t>(pop()) >= static_cast<int64_t>(right));
        break;
      case DW_OP_deref:
        stack.push_back(Frame::load(pop()));
        break;
      case DW_OP_stack_value:
        is_value = true;
        break;
      default:
        return {.is_known = false};
    }
  }
  if (stack.empty()) return {.is_known = false};
  return {.value = stack.back(), .is_value = is_value};
}

// elfutils' interpretation of an object's unwind tables.
class Elfutils {
 public:
  explicit Elfutils(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
        elf_((::elf_version(EV_CURRENT), ::elf_begin(fd_.get(), ELF_C_READ_MMAP, nullptr))),
        cfi_(::dwarf_getcfi_elf(elf_)) {
    EXPECT_NE(cfi_, nullptr) << path;
  }
  Elfutils(const Elfutils&) = delete;
  Elfutils& operator=(const Elfutils&) = delete;
  ~Elfutils() {
    ::dwarf_cfi_end(cfi_);
    ::elf_end(elf_);
  }

  struct Answer {
    bool is_signal = false;
    bool is_end = false;
    Caller caller;
    // Where the caller's rbp is, if it is in memory.
    std::optional<uint64_t> rbp_at;
    bool rbp_is_at_cfa_offset = false;
    bool cfa_is_of_rsp = false;
  };

  // Returns nullopt for code without an entry.
  std::optional<Answer> at(Address address, const Frame& frame) const {
    Dwarf_Frame* found = nullptr;
    if (::dwarf_cfi_addrframe(cfi_, address, &found) != 0) return std::nullopt;
    const std::unique_ptr<Dwarf_Frame, decltype(&::free)> rules(found, ::free);
    Answer answer;
    Dwarf_Addr begin = 0, end = 0;
    EXPECT_EQ(::dwarf_frame_info(found, &begin, &end, &answer.is_signal), 16);
    Dwarf_Op* ops = nullptr;
    size_t count = 0;
    EXPECT_EQ(::dwarf_frame_cfa(found, &ops, &count), 0);
    const Location cfa = evaluate(ops, count, frame, 0);
    if (cfa.is_known) answer.caller.cfa = cfa.value;
    answer.cfa_is_of_rsp = count == 1 && ops[0].atom == DW_OP_bregx && ops[0].number == 7;

    Dwarf_Op memory[3];
    const auto is_undefined = [&] { return count == 0 && ops == memory; };
    const auto value = [&](std::optional<uint64_t>* address_of_value) -> std::optional<uint64_t> {
      const Location location = evaluate(ops, count, frame, cfa.value);
      if (!location.is_known) return std::nullopt;
      if (location.is_value) return location.value;
      if (address_of_value != nullptr) *address_of_value = location.value;
      return Frame::load(location.value);
    };
    EXPECT_EQ(::dwarf_frame_register(found, 16, memory, &ops, &count), 0);
    answer.is_end = is_undefined();
    answer.caller.return_address = value(nullptr);
    EXPECT_EQ(::dwarf_frame_register(found, 6, memory, &ops, &count), 0);
    if (count == 0 && ops == nullptr)
      answer.caller.rbp = frame.rbp();
    else if (!is_undefined())
      answer.caller.rbp = value(&answer.rbp_at);
    answer.rbp_is_at_cfa_offset =
        count == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst;
    return answer;
  }

 private:
  Fd fd_;
  Elf* elf_;
  Dwarf_CFI* cfi_;
};

// Returns the caller that a row has to give. Unlike the table, a row has rbp as lost if no rule can
// express where it is saved, and as the frame's own if an epilogue popped it already.
Caller expected_caller(const Elfutils::Answer& answer, uint32_t rule, const Frame& frame) {
  Caller expected = answer.caller;
  if ((rule & PP_FRAME_KIND) != PP_FRAME_NORMAL || !answer.rbp_at) return expected;
  const uint64_t below = *expected.cfa - *answer.rbp_at;
  const bool in_reach = below % 8 == 0 && below >= 16 && below / 8 <= 126;
  const bool popped = answer.rbp_is_at_cfa_offset && answer.cfa_is_of_rsp
                          ? *answer.rbp_at < frame.rsp()
                          : *expected.cfa == frame.rsp() + 8 && *answer.rbp_at == frame.rbp();
  if (popped)
    expected.rbp = frame.rbp();
  else if (!answer.rbp_is_at_cfa_offset || !in_reach)
    expected.rbp.reset();
  return expected;
}

// A local variable of a stricter alignment than the stack's and one of a size that is not known:
// g++ finds the CFA of such a function by an expression.
[[gnu::noinline]] size_t realigned(size_t size) {
  alignas(64) volatile size_t aligned = size;
  auto* sized = static_cast<volatile char*>(__builtin_alloca(size));
  sized[size - 1] = 1;
  return aligned + static_cast<size_t>(sized[size - 1]);
}

struct Object {
  const char* path;  // a part of it
  // Upper bound on the UNKNOWN ones among 1000 addresses in functions.
  size_t most_unknown = 10;
};

void PrintTo(const Object& object, std::ostream* out) {
  *out << object.path;
}

class ObjectRows : public testing::TestWithParam<Object> {};

// The loader's _dl_runtime_resolve and its like keep their frame in rbx: a fiftieth of its code.
INSTANTIATE_TEST_SUITE_P(Mapped, ObjectRows,
                         testing::Values(Object{"/libc.so"}, Object{"/libstdc++.so"},
                                         Object{"/ld-linux", 30}, Object{"image_test"}));

TEST_P(ObjectRows, MeanWhatElfutilsFinds) {
  EXPECT_EQ(realigned(7), 8u);  // is part of this program
  const auto maps = read_maps(::getpid());
  ASSERT_TRUE(maps);
  const auto object = std::find_if(maps->begin(), maps->end(), [](const Mapping& mapping) {
    return mapping.path.find(GetParam().path) != std::string::npos;
  });
  if (object == maps->end()) GTEST_SKIP() << "not linked with " << GetParam().path;
  const ElfFile file = open_program(object->path);
  const auto section = file.eh_frame();
  ASSERT_TRUE(section);
  const Range code = file.extent();
  const Rows rows = frame_rows(section->data, section->address, code);
  ASSERT_FALSE(rows.empty());
  const Elfutils elfutils(object->path);

  std::vector<uint64_t> sizes;
  const auto entries = parse_eh_frame(section->data, section->address);
  sizes.reserve(entries.size());
  for (const FrameEntry& entry : entries) sizes.push_back(entry.code.size());
  std::discrete_distribution<size_t> function(sizes.begin(), sizes.end());
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  std::vector<Address> addresses;
  addresses.reserve(50'000);
  for (int i = 0; i < 20'000; ++i) {
    const Range chosen = entries[function(random)].code;
    addresses.push_back(chosen.begin + random() % chosen.size());
  }
  const size_t of_functions = addresses.size();
  for (int i = 0; i < 2'000; ++i) addresses.push_back(code.begin + random() % code.size());
  // Rules of few instructions, which no random address finds.
  for (size_t i = 0; i < rows.size(); i += rows.size() / 10'000 + 1)
    for (uint64_t from : {uint64_t{rows[i].from}, uint64_t{rows[i].from} - 1})
      if (from < code.size()) addresses.push_back(code.begin + from);
  for (const FrameRow& row : rows) {
    const uint32_t kind = row.rule & PP_FRAME_KIND;
    if (kind != PP_FRAME_UNKNOWN && kind != PP_FRAME_NORMAL)
      addresses.push_back(code.begin + row.from);
  }

  size_t unknown = 0, different = 0;
  for (size_t i = 0; i < addresses.size() && different < 20; ++i) {
    const Address address = addresses[i];
    const auto row =
        std::prev(std::upper_bound(rows.begin(), rows.end(), address - code.begin,
                                   [](uint64_t from, const FrameRow& a) { return from < a.from; }));
    if ((row->rule & PP_FRAME_KIND) == PP_FRAME_UNKNOWN) {
      if (i < of_functions) ++unknown;
      continue;
    }
    Frame frame;
    for (uint64_t& value : frame.registers) value = random() & 0x7fff'ffff'fff8;
    frame.registers[16] = address;
    const auto answer = elfutils.at(address, frame);
    const std::string context = [&] {
      std::ostringstream text;
      text << object->path << " at 0x" << std::hex << address << ": ";
      PrintTo(*row, &text);
      return text.str();
    }();
    if (!answer) {
      ADD_FAILURE() << context << ", but there is no entry";
      ++different;
      continue;
    }
    const bool is_end = row->rule == PP_FRAME_END;
    const bool is_signal = row->rule == PP_FRAME_SIGNAL;
    if (is_end != answer->is_end || is_signal != answer->is_signal) {
      ADD_FAILURE() << context << ", but elfutils has end " << answer->is_end << ", signal "
                    << answer->is_signal;
      ++different;
    } else if (!is_end) {
      const Caller expected = expected_caller(*answer, row->rule, frame);
      const Caller found = caller_by_rule(row->rule, frame);
      if (found == expected) continue;
      ADD_FAILURE() << context << "\n  is      " << testing::PrintToString(found) << "\n  but has "
                    << testing::PrintToString(expected);
      ++different;
    }
  }
  EXPECT_EQ(different, 0u);
  EXPECT_LT(unknown * 1000, of_functions * GetParam().most_unknown)
      << unknown << " of " << of_functions << " are unknown";
}

}  // namespace
}  // namespace pinprick::image
