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
    const auto found = argument_of(text, wanted);
    if (!found) continue;
    CHECK(number <= operands->size() && found->register_number < 16);
    CHECK(found->bytes == 1 || found->bytes == 2 || found->bytes == 4 || found->bytes == 8);
    CHECK(!found->base || *found->base < 16);
    CHECK(!found->index || (*found->index < 16 && *found->index != 4));
    if (found->kind == Operand::Kind::in_memory) {
      CHECK(found->base || found->index || !found->symbol.empty() ||
            found->segment != Segment::none);
      const auto offset = static_cast<int64_t>(found->number);
      CHECK(offset >= -(int64_t{1} << 30) && offset <= (int64_t{1} << 30));
    }
  }
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (const char* text :
       {"8@%rax -4@-20(%rbp) 4@%edi", "8f@%xmm0 1@$7 8@(%rax,%rbx,8)", "8@var+4(%rip) -1@$-1",
        "4@8+sym(%rip) %ah $sym+4 sym", "8@%fs:0x10(%r8,%r9d,4)", "4@foo@GOTPCREL(%rip) (,%rcx,2)",
        "1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1", "10f@%st(3) -2@%r15w",
        "8@%fs:x@tpoff 4f@t+8(,%rax,4) -1@%ah", "8@%gs:8(%rax) 4@t(%rbx,%rcx,2)"})
    all.push_back(pinprick::fuzz::text(text));
  return all;
}
