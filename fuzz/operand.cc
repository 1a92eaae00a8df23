// Where the arguments of SDT points are: any text.
#include "select/operand.h"

#include "fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick::select;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto operands = parse_operands(text);
  if (!operands) {
    CHECK(operands.error().text.size() <= text.size());
    return 0;
  }
  CHECK(operands->size() <= kMostOperands);
  for (const Operand& operand : *operands) {
    CHECK(operand.kind != Operand::Kind::in_register || operand.base);
    CHECK(operand.scale == 1 || operand.scale == 2 || operand.scale == 4 || operand.scale == 8);
  }
  for (uint8_t number = 0; number <= kMostOperands + 1; ++number) {
    Value wanted;
    wanted.argument = number;
    const auto value = argument_value(text, wanted);
    if (value) CHECK(number <= operands->size() && value->bytes <= 8 && value->bytes != 0);
    if (value) CHECK(value->register_number < 16);
  }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"8@%rax -4@-20(%rbp) 4@%edi", "8f@%xmm0 1@$7 8@(%rax,%rbx,8)", "8@var+4(%rip) -1@$-1",
        "4@8+sym(%rip) %ah $sym+4 sym", "8@%fs:0x10(%r8,%r9d,4)", "4@foo@GOTPCREL(%rip) (,%rcx,2)",
        "1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1", "10f@%st(3) -2@%r15w"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
