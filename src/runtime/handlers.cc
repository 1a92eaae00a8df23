#include "runtime/handlers.h"

#include <cpuid.h>

#include <cerrno>
#include <cstddef>

#include "runtime/thread.h"

static_assert(offsetof(pinprick::Registers, vector_state) == PP_REGISTERS_VECTOR_STATE);
static_assert(offsetof(pinprick::Registers, rax) == PP_REGISTERS_GENERAL);
static_assert(offsetof(pinprick::Registers, rsp) == PP_REGISTERS_RSP);
static_assert(offsetof(pinprick::Registers, r15) == PP_REGISTERS_GENERAL + 15 * 8);
static_assert(offsetof(pinprick::Registers, ip) == PP_REGISTERS_IP);
static_assert(offsetof(pinprick::Registers, flags) == PP_REGISTERS_FLAGS);
static_assert(sizeof(pinprick::Registers) == PP_REGISTERS_SIZE);

namespace pinprick::runtime {
namespace {

// Bits of XCR0, and sizes in a saved state, as the processor defines them.
constexpr uint32_t kX87 = 1, kSse = 2, kAvx = 4, kAvx512 = 0xe0;
constexpr size_t kLegacySize = 512, kHeaderSize = 64;
constexpr size_t kAlignment = 64;

size_t vector_state_size = kLegacySize + kHeaderSize;
uint32_t vector_states = 0;  // 0 if there is no XSAVE, but only FXSAVE

// Saves the vector state, and restores it with the changes that the handlers made.
class VectorState {
 public:
  explicit VectorState(Registers& registers, std::byte* area) : registers_(registers), area_(area) {
    auto* header = reinterpret_cast<uint64_t*>(area_ + kLegacySize);
    for (size_t i = 0; i < kHeaderSize / sizeof *header; ++i) header[i] = 0;
    if (vector_states != 0)
      asm volatile("xsave64 (%0)" : : "r"(area_), "a"(vector_states), "d"(0) : "memory");
    else
      asm volatile("fxsave64 (%0)" : : "r"(area_) : "memory");
    // Handlers get an empty x87 stack, whatever the program has on it.
    if (vector_states == 0 || (header[0] & kX87) != 0) asm volatile("fninit");
    registers_.vector_state = area_;
  }
  VectorState(const VectorState&) = delete;
  VectorState& operator=(const VectorState&) = delete;
  ~VectorState() {
    registers_.vector_state = nullptr;
    if (vector_states != 0)
      asm volatile("xrstor64 (%0)" : : "r"(area_), "a"(vector_states), "d"(0) : "memory");
    else
      asm volatile("fxrstor64 (%0)" : : "r"(area_) : "memory");
  }

 private:
  Registers& registers_;
  std::byte* area_;
};

// Calls f(arguments..., registers) with the vector state saved around it, and errno, which is a
// result of the function for its caller. Not a closure, which would have to be in memory, even for
// handlers that do not need the vector state saved.
template <auto f, class... Arguments>
__attribute__((noinline, cold)) void with_vector_state(Registers& registers,
                                                       Arguments&... arguments) {
  auto* area =
      static_cast<std::byte*>(__builtin_alloca_with_align(vector_state_size, kAlignment * 8));
  const VectorState state(registers, area);
  const int error = errno;
  f(arguments..., registers);
  errno = error;
}

template <auto f, class... Arguments>
__attribute__((always_inline)) inline void with_state_for(bool integer_only, Registers& registers,
                                                          Arguments&... arguments) {
  if (__builtin_expect(integer_only, true))
    f(arguments..., registers);
  else
    with_vector_state<f>(registers, arguments...);
}

void count(std::atomic<uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

// A handler may call the library: then the hit is the handler's.
Miss cause_of_miss(const Thread& self) {
  return runs_handlers(self) ? Miss::in_handler : Miss::in_library;
}

__attribute__((noinline)) void count_missed(Thread& self, const HitPoint& point) {
  // A thread that is only inside the library has not entered yet.
  const Miss cause = cause_of_miss(self);
  const bool unprotected = cause == Miss::in_library;
  if (unprotected) enter(self);
  if (const HandlerList* list = point.handlers.load(std::memory_order_acquire))
    for (uint32_t i = 0; i < list->count; ++i)
      if (list->entries[i].missed != nullptr) list->entries[i].missed->add(cause);
  if (const ReturnList* list = point.returns.load(std::memory_order_acquire))
    for (uint32_t i = 0; i < list->count; ++i) list->entries[i].probe->missed.add(cause);
  if (unprotected) leave(self);
}

void run_each(const HandlerList& list, Registers& registers) {
  const uint64_t ip = registers.ip;
  for (uint32_t i = 0; i < list.count && registers.ip == ip; ++i) {
    const Handler& handler = list.entries[i].handler;
    handler.call(registers, handler.closure, nullptr);
  }
}

__attribute__((noinline)) void run_list(const HandlerList& list, Registers& registers) {
  with_state_for<run_each>(list.integer_only, registers, list);
}

void finish(ReturnProbeState& probe, uint32_t item) {
  if (__builtin_expect(item != kNoItem, false)) probe.items->give(item);
}

__attribute__((noinline)) bool take_item(ReturnProbeState& probe, uint32_t& item) {
  item = probe.items->take();
  if (item != kNoItem) return true;
  note_slots();
  probe.missed.add(Miss::max_active);
  return false;
}

__attribute__((always_inline)) inline bool take_part(Activation& activation,
                                                     ReturnProbeState& probe, uint64_t generation,
                                                     Registers& registers) {
  uint32_t item = kNoItem;
  if (__builtin_expect(probe.items != nullptr, false) && !take_item(probe, item)) return false;
  void* data = item == kNoItem ? nullptr : probe.items->data(item);
  const Handler& handler = probe.on_entry;
  if (handler.call != nullptr && !handler.call(registers, handler.closure, data)) {
    finish(probe, item);
    return false;
  }
  activation.participants[activation.count++] = {&probe, generation, item};
  activation.integer_only = activation.integer_only && probe.on_return.integer_only;
  return true;
}

// At the end of a call: calls f(probe, item) for each probe that took part and still exists.
template <class F>
__attribute__((always_inline)) inline void for_each_participant(const Activation& activation,
                                                                F&& f) {
  for (uint32_t i = activation.count; i-- > 0;) {
    const Participant& one = activation.participants[i];
    if (__builtin_expect(one.probe->generation.load(std::memory_order_acquire) == one.generation,
                         true))
      f(*one.probe, one.item);
  }
}

__attribute__((always_inline)) inline void take_parts(Activation& activation,
                                                      const ReturnList& list,
                                                      Registers& registers) {
  const uint64_t ip = registers.ip;
  for (uint32_t i = 0; i < list.count && registers.ip == ip; ++i)
    take_part(activation, *list.entries[i].probe, list.entries[i].generation, registers);
}

__attribute__((always_inline)) inline void end_parts(const Activation& activation,
                                                     Registers& registers) {
  const uint64_t ip = registers.ip;
  for_each_participant(activation, [&](ReturnProbeState& probe, uint32_t item) {
    void* data = item == kNoItem ? nullptr : probe.items->data(item);
    if (__builtin_expect(registers.ip == ip, true))
      probe.on_return.call(registers, probe.on_return.closure, data);
    finish(probe, item);
  });
}

__attribute__((noinline)) void miss_return(layout::Slot& slot, Miss cause) {
  for_each_participant(activation_of(slot), [=](ReturnProbeState& probe, uint32_t item) {
    probe.missed.add(cause);
    finish(probe, item);
  });
  share_slot(slot);
}

// Returns where the call goes on: in a slot's code, or at record.resume, unmeasured.
__attribute__((noinline)) uint64_t begin_call(Thread& self, const ReturnList& list,
                                              const layout::HitRecord& record,
                                              Registers& registers) {
  const uint64_t stack = registers.rsp;
  const uint64_t return_address = *reinterpret_cast<const uint64_t*>(stack);
  layout::Slot* slot = take_abandoned_slot(return_address, stack);
  if (__builtin_expect(slot != nullptr, false))
    for_each_participant(activation_of(*slot), [](ReturnProbeState& probe, uint32_t item) {
      count(probe.abandoned);
      finish(probe, item);
    });
  else
    slot = take_slot(self);
  if (__builtin_expect(slot == nullptr, false)) {
    for (uint32_t i = 0; i < list.count; ++i) list.entries[i].probe->missed.add(Miss::no_slot);
    return record.resume;
  }
  Activation& activation = activation_of(*slot);
  activation.participants = activation.usual;
  if (__builtin_expect(list.count > kUsualReturnProbes, false))
    activation.participants = list.more.memory + (slot - slots) * list.more.each;
  activation.count = 0;
  activation.integer_only = true;
  with_state_for<take_parts>(list.integer_only, registers, activation, list);
  const uint64_t returns_to = *reinterpret_cast<const uint64_t*>(stack);
  // A handler has sent the thread elsewhere; or it has changed the return address, and a reused
  // slot may only have the old one.
  if (__builtin_expect(
          registers.ip != record.address || (returns_to != return_address && slot->reused != 0),
          false)) {
    for (uint32_t i = 0; i < activation.count; ++i)
      finish(*activation.participants[i].probe, activation.participants[i].item);
    activation.count = 0;
  }
  if (__builtin_expect(activation.count == 0, false)) {
    give_slot(self, *slot);
    return record.resume;
  }
  slot->copy = record.copy;
  slot->record = reinterpret_cast<uint64_t>(&record);  // for unwinders
  slot->stack = stack;
  __atomic_store_n(&slot->return_address, returns_to, __ATOMIC_RELEASE);
  return slot->code;
}

}  // namespace

void prepare_vector_state() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kOsUsesXsave = 1 << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kOsUsesXsave) == 0) return;
  uint32_t enabled = 0, high = 0;
  asm volatile("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  // Not the tiles of AMX: they take 8 KiB, and compilers use them only on request.
  vector_states = enabled & (kX87 | kSse | kAvx | kAvx512);
  for (uint32_t state = 2; state < 8; ++state) {
    if ((vector_states & 1u << state) == 0 || !__get_cpuid_count(0xd, state, &a, &b, &c, &d))
      continue;
    if (a + b > vector_state_size) vector_state_size = a + b;
  }
}

}  // namespace pinprick::runtime

namespace pinprick::runtime {

struct Target {
  uint64_t address;
  uint64_t changed;
};

extern "C" {

__attribute__((visibility("hidden"))) Target pp_run_handlers(const layout::HitRecord* record,
                                                             Registers* registers) {
  const HitPoint& point = *reinterpret_cast<const HitPoint*>(record->point);
  Thread& self = this_thread();
  if (__builtin_expect(runs_handlers(self) || self.in_library != 0, false)) {
    count_missed(self, point);
    return {record->resume, 0};
  }
  enter(self);
  const HandlerList* const handlers = point.handlers.load(std::memory_order_acquire);
  if (__builtin_expect(handlers != nullptr, true)) {
    const Handler& only = handlers->only;
    if (__builtin_expect(only.call != nullptr, true))
      only.call(*registers, only.closure, nullptr);
    else
      run_list(*handlers, *registers);
  }
  Target target = {record->resume, registers->ip != record->address};
  if (__builtin_expect(target.changed == 0, true)) {
    const ReturnList* const returns = point.returns.load(std::memory_order_acquire);
    // While return probes are being placed, the site may still lead to a stub without a slot.
    if (returns != nullptr && record->copy != 0) {
      target.address = begin_call(self, *returns, *record, *registers);
      target.changed = registers->ip != record->address;
    }
  }
  leave(self);
  return target;
}

__attribute__((visibility("hidden"))) void pp_run_return_handlers(layout::Slot* slot,
                                                                  Registers* registers) {
  Thread& self = this_thread();
  if (__builtin_expect(runs_handlers(self) || self.in_library != 0, false))
    return miss_return(*slot, cause_of_miss(self));
  enter(self);
  const Activation& activation = activation_of(*slot);
  with_state_for<end_parts>(activation.integer_only, *registers, activation);
  give_slot(self, *slot);
  leave(self);
}

__attribute__((visibility("hidden"))) void pp_leave_by_exception(layout::Slot* slot) {
  Thread& self = this_thread();
  const bool nested = runs_handlers(self);
  if (!nested) enter(self);
  for_each_participant(activation_of(*slot), [](ReturnProbeState& probe, uint32_t item) {
    count(probe.unwound);
    finish(probe, item);
  });
  share_slot(*slot);
  if (!nested) leave(self);
}

}  // extern "C"

}  // namespace pinprick::runtime
