// Functions that are called with structures and containers of many kinds, after each line of input.
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

enum class Color : uint8_t { red = 1, green = 2 };

struct Point {
  int x = 3;
  int y = -4;
};

struct Base {
  uint16_t id = 77;
};

struct Request : Base {
  const char* name = "first";
  char city[8] = "Oslo";
  Point at;
  double weight = 2.5;
  float small = -0.25F;
  Color color = Color::green;
  bool done = true;
  unsigned low : 3;
  int high : 5;
  union {
    uint32_t word = 0x01020304;
    uint8_t bytes[4];
  };
  Request* next = nullptr;
  int (*handler)(const char*) = &std::puts;
  int grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
  uint16_t many[10] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  Request() : low(5), high(-7) {}
};

// Values that look like others.
struct Edges : Point {
  int x = 99;  // another one than that of the base class
  double zero = -0.0;
  int none = 0;
  int least = INT32_MIN;
  int64_t least_of_all = INT64_MIN;
  std::vector<std::string> texts;
  std::vector<std::vector<std::string>> rows = {{"a"}, {"b", "c"}};
};

union Bits {
  unsigned raw;
  struct {
    unsigned low : 3;
    unsigned high : 5;
  } of;
};

struct Deep {
  struct One {
    struct Two {
      struct Three {
        struct Four {
          struct Five {
            int end = 6;
          } five;
        } four;
      } three;
    } two;
  } one;
};

struct Containers {
  std::string text = "short";
  std::string_view view = "viewed";
  std::vector<int> numbers = {1, 2, 3, 4, 5, 6};
  std::vector<int> none;
  std::vector<std::string> texts = {"a", "bc"};
  std::vector<Point> points = {{1, 2}, {3, 4}};
  std::vector<std::vector<short>> rows = {{1}, {2, 3}};
  std::array<uint16_t, 3> fixed = {7, 8, 9};
  std::span<const int> part;
  std::optional<int> maybe = 42;
  std::optional<std::string> nothing;
  std::variant<int, double> either = 1.5;
  std::unique_ptr<Point> owned = std::make_unique<Point>();
  std::shared_ptr<Point> shared = std::make_shared<Point>();
  std::pair<int, std::string> both = {5, "five"};
  std::tuple<char, long, std::string> three = {'A', -9, "nine"};
  std::map<int, int> sorted = {{1, 1}, {2, 4}, {3, 9}};
  std::unordered_map<std::string, int> hashed = {{"x", 1}, {"y", 2}};
  std::set<int> set = {4, 2};
  std::list<int> linked = {1, 2, 3, 4};
  // Trees whose second node is to the right of the first one, and above it.
  std::map<int, std::string> two = {{1, "one"}, {2, "two"}};
  std::map<int, int> many;
  std::map<int, int> single = {{7, 8}};
  std::unordered_map<int, Point> one_hashed = {{5, {6, 7}}};
  std::list<std::string> no_list;
  std::set<int> no_set;
  std::variant<std::monostate, std::string, Point> is_text = "chosen", is_point = Point{5, 6};
  std::string long_text = "a text that is too long to lie in the string itself";
  Containers() : part(numbers.data() + 1, 2) {
    for (int i = 1; i <= 100; ++i) many[i] = i * i;
  }
};

extern "C" {

__attribute__((noinline)) void request(const Request* r) {
  static volatile int calls;
  calls = calls + r->at.x;
}

__attribute__((noinline)) void containers(const Containers& all) {
  static volatile size_t calls;
  calls = calls + all.numbers.size();
}

__attribute__((noinline)) void numbers(const std::vector<int>& v, Point at, double d) {
  static volatile size_t calls;
  calls = calls + v.size() + static_cast<size_t>(at.x + static_cast<int>(d));
}

__attribute__((noinline)) double scale(double factor, float by, int n) {
  return factor * static_cast<double>(by) + n;
}

__attribute__((noinline)) void lies(const std::vector<int>* v) {
  asm volatile("" : : "r"(v) : "memory");
}

__attribute__((noinline)) void edges(const Edges* e, Bits bits) {
  asm volatile("" : : "r"(e), "r"(bits.raw) : "memory");
}

__attribute__((noinline)) void deep(const Deep* d) {
  static volatile int calls;
  calls = calls + d->one.two.three.four.five.end;
}
}

// The three pointers of a vector, with values that no vector has.
struct Lie {
  uintptr_t begin, end, room;
};

int main() {
  int real[] = {1, 2, 3, 4, 5};
  const auto at = reinterpret_cast<uintptr_t>(real);
  const Lie all_lies[] = {
      {at + 8, at, at},                     // it ends before it begins
      {at, at + 6, at + 6},                 // it has one element and a half
      {at, at + (uintptr_t{1} << 40), at},  // it is larger than the memory
      {16, 64, 64},                         // nothing is there
      {0, 0, 0},
      {at, at + 8, at + 8},
  };
  const Containers all;
  const Deep nested;
  const Edges extreme;
  Request first, second;
  first.next = &second;
  volatile double scaled = 0;
  char line[8];
  while (fgets(line, sizeof line, stdin) != nullptr) {
    request(&first);
    containers(all);
    numbers(all.numbers, {8, 9}, 1.5);
    scaled = scale(2.5, 0.5F, 1);
    if (scaled != 2.25) return 1;
    for (const Lie& one : all_lies) lies(reinterpret_cast<const std::vector<int>*>(&one));
    edges(&extreme, {0xaa});
    deep(&nested);
  }
}
