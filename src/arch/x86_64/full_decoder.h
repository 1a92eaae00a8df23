// Zydis with all that it knows, where decode.h's fast answers will not do.
#pragma once

#include <Zydis/Zydis.h>

namespace pinprick::arch {

const ZydisDecoder& full_decoder();

}  // namespace pinprick::arch
