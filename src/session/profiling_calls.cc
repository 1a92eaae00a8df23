#include "session/profiling_calls.h"

#include <algorithm>
#include <vector>

#include "arch/jump.h"
#include "image/notes/entry_sites.h"
#include "ledger/turn.h"
#include "session/subject.h"

namespace pinprick::session {
namespace {

std::vector<Range> profiling_calls_in(image::Object& object) {
  std::vector<Range> calls;
  for (const image::Function& function : object.functions().functions())
    if (const auto call = image::profiling_call(object, function))
      calls.push_back({call->begin + object.bias(), call->end + object.bias()});
  return calls;
}

}  // namespace

Result<SilencedCalls, ledger::SessionError> silence_profiling_calls(const Launched& program,
                                                                    image::ObjectStore& store) {
  SilencedCalls done;
  // Another controller may place probes in the program now, as one that measures all that execute
  // its file.
  const auto turn = ledger::Turn::take(program.pid());
  if (!turn) return fail(turn.error());
  auto target = open_target(program.pid());
  if (!target) return fail(target.error());
  const auto subject = look_at(*target, store, Progress::before_relocation);
  if (!subject) return fail(subject.error());
  for (const auto& object : subject->image->objects) {
    const auto calls = profiling_calls_in(*object);
    // The loader would write its distances over the nops.
    if (program.relocates_later() && object->elf().has_text_relocations()) {
      done.waits |= !calls.empty();
      continue;
    }
    for (const Range& call : calls) {
      const auto& taken = subject->image->taken;
      if (std::any_of(taken.begin(), taken.end(), [&](Range it) { return it.overlaps(call); }))
        continue;
      std::vector<uint8_t> nop(call.size());
      arch::fill_with_nops(nop);
      if (auto written = target->memory().write(call.begin, nop); !written)
        return fail(ledger::SessionError(target::AttachError{
            target::AttachCause::not_permitted, program.pid(), 0, written.error().number, {}}));
      ++done.calls;
    }
  }
  return done;
}

}  // namespace pinprick::session
