#include "library/probes/site.h"

#include <algorithm>

#include "arch/code.h"
#include "arch/jump.h"

namespace pinprick::library {

StubFeatures Site::needed() const {
  StubFeatures features;
  for (const Attachment* attachment : attachments)
    if (attachment->enabled) features = features.with(attachment->features());
  return features;
}

bool Site::allows_breakpoint() const {
  return std::all_of(attachments.begin(), attachments.end(),
                     [](const Attachment* one) { return one->allow_breakpoint; });
}

std::vector<uint8_t> Encoding::written() const {
  if (is_breakpoint()) return {arch::kBreakpoint};
  return *arch::encode_jump(patch.site,
                            trampoline ? trampoline->address : stubs[in_use].stub.begin);
}

}  // namespace pinprick::library
