#include "select/array.h"

#include <gtest/gtest.h>

namespace pinprick::select {
namespace {

TEST(Array, HasAnAddressATypeAndANumberOfElements) {
  const auto array = split_array("($arg2+8):s16[3]");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->address, "($arg2+8)");
  EXPECT_EQ(array->of, Array::Of::signed_number);
  EXPECT_EQ(array->bytes, 2);
  EXPECT_EQ(array->count, 3);
  EXPECT_EQ(element_of(*array, 0), "*(s16*)(($arg2+8))");
  EXPECT_EQ(element_of(*array, 2), "*(s16*)(($arg2+8)+4)");
}

TEST(Array, MayHaveTextsToWhichItPoints) {
  const auto array = split_array("argv:strings[2]");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->of, Array::Of::text);
  EXPECT_EQ(element_of(*array, 1), "(*(u64*)(argv+8)):string");
}

TEST(Array, IsNoTextWithALength) {
  for (const char* const value :
       {"path:string[16]", "buf:bytes[4]", "x[3]", "$arg1", "$arg1:u32[]", "$arg1:u32[0]",
        "$arg1:u32[65]", "$arg1:u32[2", "$arg1:u9[2]", "[2]", ":[2]", "]"})
    EXPECT_FALSE(split_array(value)) << value;
}

}  // namespace
}  // namespace pinprick::select
