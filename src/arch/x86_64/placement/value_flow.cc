#include "arch/value_flow.h"

#include <map>
#include <set>

#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

using Kind = Value::Kind;

constexpr size_t kRegisters = 16;
constexpr ZydisRegister kArgumentRegisters[kArguments] = {ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI,
                                                          ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX,
                                                          ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9};
constexpr ZydisRegister kNotKeptByCalls[] = {
    ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RDX,
    ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_R8,
    ZYDIS_REGISTER_R9,  ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11};

// Returns the index of a general register, whatever its width.
std::optional<size_t> index_of(ZydisRegister reg) {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15) return std::nullopt;
  return static_cast<size_t>(whole - ZYDIS_REGISTER_RAX);
}

Value number(int64_t value) {
  return {.kind = Kind::number, .offset = value};
}

// Hostile code may have any numbers: they wrap around.
Value times(const Value& value, uint64_t factor) {
  return number(static_cast<int64_t>(static_cast<uint64_t>(value.offset) * factor));
}

Value plus(Value value, const Value& other) {
  if (value.kind == Kind::number && other.kind != Kind::number) return plus(other, value);
  if (value.kind == Kind::field) {
    value.exact = value.exact && other.is_number(0);
    return value;
  }
  if (value.kind == Kind::unknown) return other.kind == Kind::field ? plus(other, value) : value;
  if (other.kind == Kind::field) return plus(other, value);
  if (other.kind != Kind::number) return {};
  value.offset = static_cast<int64_t>(static_cast<uint64_t>(value.offset) +
                                      static_cast<uint64_t>(other.offset));
  return value;
}

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  Address address = 0;

  Address end() const { return address + instruction.length; }
  bool is(ZydisMnemonic mnemonic) const { return instruction.mnemonic == mnemonic; }
  // Returns the target of a branch or call; nullopt if it is computed.
  std::optional<Address> target() const {
    if (operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return std::nullopt;
    return end() + operands[0].imm.value.u;
  }
};

std::optional<Decoded> decode_at(std::span<const uint8_t> code, Address address) {
  Decoded decoded;
  decoded.address = address;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&full_decoder(), code.data(), code.size(),
                                           &decoded.instruction, decoded.operands)))
    return std::nullopt;
  return decoded;
}

class State {
 public:
  State() {
    for (size_t i = 0; i < kArguments; ++i)
      set(kArgumentRegisters[i],
          {.kind = Kind::argument, .argument = static_cast<uint8_t>(i), .offset = 0});
    set(ZYDIS_REGISTER_RSP, {.kind = Kind::stack});
  }

  Value get(ZydisRegister reg) const {
    const auto index = index_of(reg);
    return index ? registers_[*index] : Value();
  }
  void set(ZydisRegister reg, const Value& value) {
    if (const auto index = index_of(reg)) registers_[*index] = value;
  }

  // Executes an instruction that continues with the next one. Adds what it stores to `stores`.
  void run(const Decoded& at, std::vector<Store>* stores);
  void call();
  size_t stack_words() const { return stack_.size(); }
  std::array<Value, kArguments> arguments() const {
    std::array<Value, kArguments> all;
    for (size_t i = 0; i < kArguments; ++i) all[i] = get(kArgumentRegisters[i]);
    return all;
  }

 private:
  Value address_of(const Decoded& at, const ZydisDecodedOperand& operand) const;
  Value load(const Value& from, unsigned bytes) const;
  Value read(const Decoded& at, const ZydisDecodedOperand& operand) const;
  void write(const Decoded& at, const ZydisDecodedOperand& operand, const Value& value,
             std::vector<Store>* stores);
  void store(const Store& store, std::vector<Store>* stores);
  void push(const Value& value);

  std::array<Value, kRegisters> registers_;
  std::map<int64_t, Value> stack_;  // whole words, by offset
};

Value State::address_of(const Decoded& at, const ZydisDecodedOperand& operand) const {
  if (operand.mem.segment == ZYDIS_REGISTER_FS || operand.mem.segment == ZYDIS_REGISTER_GS)
    return {};
  Value sum = number(operand.mem.disp.has_displacement ? operand.mem.disp.value : 0);
  if (operand.mem.base == ZYDIS_REGISTER_RIP)
    sum = plus(sum, number(static_cast<int64_t>(at.end())));
  else if (operand.mem.base != ZYDIS_REGISTER_NONE)
    sum = plus(get(operand.mem.base), sum);
  if (operand.mem.index == ZYDIS_REGISTER_NONE) return sum;
  const Value index = get(operand.mem.index);
  if (operand.mem.scale == 1) return plus(sum, index);
  if (index.kind == Kind::number) return plus(sum, times(index, operand.mem.scale));
  return plus(sum, Value());
}

Value State::load(const Value& from, unsigned bytes) const {
  if (bytes != 8) return {};
  if (from.kind == Kind::stack) {
    const auto there = stack_.find(from.offset);
    return there == stack_.end() ? Value() : there->second;
  }
  if (from.kind != Kind::argument) return {};
  return {.kind = Kind::field, .argument = from.argument, .offset = from.offset};
}

Value State::read(const Decoded& at, const ZydisDecodedOperand& operand) const {
  switch (operand.type) {
    case ZYDIS_OPERAND_TYPE_IMMEDIATE:
      return number(operand.imm.value.s);
    case ZYDIS_OPERAND_TYPE_MEMORY:
      return load(address_of(at, operand), operand.size / 8u);
    case ZYDIS_OPERAND_TYPE_REGISTER: {
      const Value value = get(operand.reg.value);
      return operand.size == 64 || value.kind == Kind::number ? value : Value();
    }
    default:
      return {};
  }
}

void State::store(const Store& store, std::vector<Store>* stores) {
  if (store.to.kind != Kind::stack) {
    if (stores != nullptr) stores->push_back(store);
    return;
  }
  // Words that it overlaps are lost.
  stack_.erase(stack_.lower_bound(store.to.offset - 7),
               stack_.lower_bound(store.to.offset + store.size));
  if (store.size == 8) stack_[store.to.offset] = store.value;
}

void State::write(const Decoded& at, const ZydisDecodedOperand& operand, const Value& value,
                  std::vector<Store>* stores) {
  if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) {
    // Writing half of a register clears the other half, so a number that is not negative fills it.
    const bool is_whole = operand.size == 64 || (operand.size == 32 && value.offset >= 0);
    set(operand.reg.value, is_whole ? value : Value());
  } else if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
    store({address_of(at, operand), value, static_cast<uint8_t>(operand.size / 8)}, stores);
  }
}

void State::push(const Value& value) {
  const Value to = plus(get(ZYDIS_REGISTER_RSP), number(-8));
  set(ZYDIS_REGISTER_RSP, to);
  store({to, value, 8}, nullptr);
}

void State::call() {
  for (ZydisRegister reg : kNotKeptByCalls) set(reg, {});
}

void State::run(const Decoded& at, std::vector<Store>* stores) {
  const auto& first = at.operands[0];
  const auto& second = at.operands[1];
  const bool same_register = first.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                             second.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                             first.reg.value == second.reg.value;
  switch (at.instruction.mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
      return;
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVSXD:
      return write(at, first, read(at, second), stores);
    case ZYDIS_MNEMONIC_LEA:
      return write(at, first, first.size == 64 ? address_of(at, second) : Value(), stores);
    case ZYDIS_MNEMONIC_PUSH:
      return push(read(at, first));
    case ZYDIS_MNEMONIC_POP: {
      const Value top = get(ZYDIS_REGISTER_RSP);
      write(at, first, load(top, 8), stores);
      return set(ZYDIS_REGISTER_RSP, plus(top, number(8)));
    }
    case ZYDIS_MNEMONIC_LEAVE: {
      const Value frame = get(ZYDIS_REGISTER_RBP);
      set(ZYDIS_REGISTER_RBP, load(frame, 8));
      return set(ZYDIS_REGISTER_RSP, plus(frame, number(8)));
    }
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_SUB:
      if (same_register) return write(at, first, number(0), stores);
      break;
    default:
      break;
  }
  const auto mnemonic = at.instruction.mnemonic;
  const bool adds = mnemonic == ZYDIS_MNEMONIC_ADD, subtracts = mnemonic == ZYDIS_MNEMONIC_SUB;
  const bool carries = mnemonic == ZYDIS_MNEMONIC_ADC || mnemonic == ZYDIS_MNEMONIC_SBB;
  if (first.size == 64 && (adds || subtracts || carries)) {
    const Value other = read(at, second);
    const bool is_number = other.kind == Kind::number && !carries;
    const Value term = adds ? other : is_number ? times(other, ~uint64_t{0}) : Value();
    return write(at, first, plus(read(at, first), term), stores);
  }
  for (unsigned i = 0; i < at.instruction.operand_count; ++i)
    if ((at.operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0)
      write(at, at.operands[i], {}, stores);
}

bool is_conditional(const Decoded& at) {
  return at.instruction.meta.category == ZYDIS_CATEGORY_COND_BR;
}

// Walks through a function, with a copy of the state for each branch.
class Walk {
 public:
  explicit Walk(const CodeAt& code) : code_(code) {}

  // Returns false if it is not a small function without loops.
  bool go(Address at, State state, Path path) {
    constexpr int kMostSteps = 256;
    for (;;) {
      const auto decoded = decode_at(code_(at), at);
      if (!decoded || ++steps_ > kMostSteps) return false;
      if (decoded->is(ZYDIS_MNEMONIC_RET)) {
        path.returns = true;
        path.result = state.get(ZYDIS_REGISTER_RAX);
        paths.push_back(std::move(path));
        return true;
      }
      if (decoded->is(ZYDIS_MNEMONIC_CALL) || decoded->is(ZYDIS_MNEMONIC_UD2)) {
        paths.push_back(std::move(path));
        return true;
      }
      if (decoded->is(ZYDIS_MNEMONIC_JMP) || is_conditional(*decoded)) {
        const auto target = decoded->target();
        if (!target) return false;
        if (is_conditional(*decoded) && !go(decoded->end(), state, path)) return false;
        at = *target;
        continue;
      }
      state.run(*decoded, &path.stores);
      at = decoded->end();
    }
  }

  std::vector<Path> paths;

 private:
  const CodeAt& code_;
  int steps_ = 0;
};

}  // namespace

std::optional<std::vector<Path>> paths_through(const CodeAt& code, Address function,
                                               std::optional<int64_t> second) {
  State state;
  if (second) state.set(kArgumentRegisters[1], number(*second));
  Walk walk(code);
  if (!walk.go(function, state, {})) return std::nullopt;
  return std::move(walk.paths);
}

std::vector<DirectCall> direct_calls(std::span<const uint8_t> code, Address function) {
  const Range range = {function, function + code.size()};
  std::vector<DirectCall> calls;
  std::set<Address> seen;
  std::vector<std::pair<Address, State>> left = {{function, {}}};
  // Real functions have some hundred of the one, and some dozen of the other. Code that has more
  // may have been written to take our memory.
  constexpr size_t kMostLeft = 4096, kMostStackWords = 1024;
  while (!left.empty() && left.size() <= kMostLeft) {
    auto [at, state] = std::move(left.back());
    left.pop_back();
    while (range.contains(at) && seen.insert(at).second) {
      const auto decoded = decode_at(code.subspan(at - function), at);
      if (!decoded || decoded->is(ZYDIS_MNEMONIC_RET) || left.size() > kMostLeft ||
          state.stack_words() > kMostStackWords)
        break;
      const bool jumps = decoded->is(ZYDIS_MNEMONIC_JMP),
                 calls_it = decoded->is(ZYDIS_MNEMONIC_CALL);
      const auto target =
          jumps || calls_it || is_conditional(*decoded) ? decoded->target() : std::nullopt;
      if (target && (calls_it || (jumps && !range.contains(*target))))
        calls.push_back({*target, state.arguments()});
      if (target && is_conditional(*decoded) && range.contains(*target) && !seen.contains(*target))
        left.emplace_back(*target, state);
      if (jumps) {
        if (!target) break;
        at = *target;
        continue;
      }
      if (calls_it)
        state.call();
      else if (!is_conditional(*decoded))
        state.run(*decoded, nullptr);
      at = decoded->end();
    }
  }
  return calls;
}

}  // namespace pinprick::arch
