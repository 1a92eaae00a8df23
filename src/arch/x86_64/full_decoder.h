// The full Zydis decoder, for what the minimal mode of decode() cannot tell. Thread-safe.
#pragma once

#include <Zydis/Zydis.h>

namespace pinprick::arch {

const ZydisDecoder& full_decoder();

}  // namespace pinprick::arch
