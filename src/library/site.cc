#include "library/site.h"

#include <algorithm>

#include "arch/code.h"
#include "arch/jump.h"

namespace pinprick::library {

Shape Site::needed() const {
  Shape shape;
  for (const Attachment* attachment : attachments)
    if (attachment->enabled) shape = shape.with(attachment->shape());
  return shape;
}

bool Site::allows_breakpoint() const {
  return std::all_of(attachments.begin(), attachments.end(),
                     [](const Attachment* one) { return one->allow_breakpoint; });
}

std::vector<uint8_t> Form::written() const {
  if (is_breakpoint()) return {arch::kBreakpoint};
  return *arch::encode_jump(patch.site,
                            trampoline ? trampoline->address : stubs[in_use].stub.begin);
}

}  // namespace pinprick::library
