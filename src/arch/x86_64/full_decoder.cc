#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {

const ZydisDecoder& full_decoder() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  return decoder;
}

}  // namespace pinprick::arch
