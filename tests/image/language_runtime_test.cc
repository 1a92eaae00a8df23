#include "image/scan/language_runtime.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "image/object.h"
#include "image/programs.h"

namespace pinprick::image {
namespace {

// A program that has a mark of a runtime, as compiled from this text.
class LanguageRuntime : public testing::Test {
 protected:
  void compile(const std::string& text) {
    const std::string line = "printf '%s' '" + text + "' | gcc -x c -O1 -o " + path() + " -";
    ASSERT_EQ(run_shell(line).status, 0) << text;
  }
  void shell(const std::string& command) { ASSERT_EQ(run_shell(command).status, 0) << command; }
  std::string path() const { return scratch_ / "app"; }
  std::optional<std::string_view> runtime() {
    Object object(open_program(path()), 0, {"app"}, "/app", scratch_.path(), {});
    return object.stack_reading_runtime();
  }

  Scratch scratch_;
};

constexpr char kText[] =
    "const char* volatile text = \"V8.GCLowMemoryNotification\";\n"
    "__attribute__((noinline)) int f(int x) { return x + 1; }\n"
    "__attribute__((noinline)) int g(int x) { return x + 2; }\n"
    "int main(int c, char** v) { return f(c) + g(c) == 0 || !v || !text; }\n";

TEST_F(LanguageRuntime, IsKnownByATextIfMostFunctionsHaveLostTheirNames) {
  compile(kText);
  EXPECT_EQ(runtime(), std::nullopt) << "a program may have the text for other reasons";
  shell("cp " + path() + " " + path() + ".whole && strip -s " + path());
  EXPECT_EQ(runtime(), "V8");
  shell("cp " + path() + ".whole " + path() + " && strip -s -K f " + path());
  EXPECT_EQ(runtime(), "V8") << "one symbol says nothing of the others";
}

constexpr char kSymbol[] =
    "__attribute__((noinline)) int caml_frametable(int x) { return x + 1; }\n"
    "__attribute__((noinline)) int g(int x) { return x + 2; }\n"
    "int main(int c, char** v) { return caml_frametable(c) + g(c) == 0 || !v; }\n";

TEST_F(LanguageRuntime, IsKnownByASymbolOfTheDebugFileIfTheProgramHasKeptOthers) {
  compile(kSymbol);
  EXPECT_EQ(runtime(), "OCaml");
  shell("objcopy --only-keep-debug " + path() + " " + path() + ".debug && strip -s -K g " + path() +
        " && objcopy --add-gnu-debuglink=" + path() + ".debug " + path());
  EXPECT_EQ(runtime(), "OCaml");
}

}  // namespace
}  // namespace pinprick::image
